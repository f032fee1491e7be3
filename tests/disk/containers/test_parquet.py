"""Footers and page headers are read as pyarrow reads them, or refused."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from chaffinch.disk.containers.parquet import DICTIONARY_PAGE, LargeFooter, read_footer, read_pages
from tests.cases import each_case
from tests.disk.containers import forged
from tests.disk.containers.forged import Long, Times, Written
from tests.tiers import nightly

TABLE = pa.table(
    {
        "answer": ["yes", "no"] * 10,
        "number": range(20),
        "list": [[{"x": 1, "y": "a"}]] * 20,
    }
)


@each_case("codec", ["none", "snappy", "gzip", "brotli", "zstd", "lz4"])
@each_case("version", ["1.0", "2.0"])
def test_what_a_footer_says_is_what_pyarrow_says(codec: str, version: str) -> None:
    file = io.BytesIO()
    pq.write_table(TABLE, file, compression=codec, row_group_size=7, data_page_version=version)
    theirs = pq.ParquetFile(file).metadata
    ours = read_footer(file)
    assert [leaf.path for leaf in ours.leaves] == [
        theirs.schema.column(number).path for number in range(theirs.num_columns)
    ]
    assert [leaf.repeated for leaf in ours.leaves] == [
        theirs.schema.column(number).max_repetition_level > 0
        for number in range(theirs.num_columns)
    ]
    assert len(ours.groups) == theirs.num_row_groups == 3
    for group, chunks in enumerate(ours.groups):
        for number, chunk in enumerate(chunks):
            one = theirs.row_group(group).column(number)
            assert (chunk.values, chunk.packed) == (one.num_values, one.total_compressed_size)
            assert (chunk.first_data, chunk.dictionary) == (
                one.data_page_offset,
                one.dictionary_page_offset if one.has_dictionary_page else None,
            )
            pages = list(read_pages(file, chunk, ours.start))
            assert (
                sum(page.values for page in pages if page.kind != DICTIONARY_PAGE) == chunk.values
            )
            assert pages[-1].end == chunk.start + chunk.packed
            header = sum(page.start for page in pages) - chunk.start
            header -= sum(page.end for page in pages[:-1])
            unpacked = sum(page.unpacked for page in pages)
            assert unpacked + header == one.total_uncompressed_size


PAGE = forged.page(bytes(8), 1)
CHUNK = forged.chunk([PAGE], 1)
GROUP = forged.group(CHUNK, rows=1)


def read(groups: Any, **said: Any) -> None:
    file = io.BytesIO(forged.file([PAGE], [forged.column()], groups, **said))
    footer = read_footer(file)
    for chunks in footer.groups:
        list(read_pages(file, chunks[0], footer.start))


def test_a_footer_by_hand_is_read() -> None:
    read([GROUP])
    read([GROUP], f98={1: {2: []}}, f99=[{1: [Long(5)], 2: b"x"}])


TWO_READINGS: dict[str, Any] = {
    "a field twice": [((1, [CHUNK]), (2, Long(1)), (3, Long(1)), (1, [CHUNK]))],
    "a chunk twice": [{1: [((3, CHUNK[3]), (3, CHUNK[3]))], 2: Long(1), 3: Long(1)}],
    "chunks that are numbers": [{1: [1, 2, 3], 2: Long(1), 3: Long(1)}],
    "encodings that are structures": [forged.group(forged.chunk([PAGE], 1, f2=[{}]), rows=1)],
    "a path of numbers": [forged.group(forged.chunk([PAGE], 1, f3=[1]), rows=1)],
    "histograms that are texts": [forged.group(forged.chunk([PAGE], 1, f16={2: [b"x"]}), rows=1)],
    "sorting columns that are numbers": [GROUP | {4: [1]}],
    "a codec longer than it can be": [forged.group(forged.chunk([PAGE], 1, f4=(1 << 32)), rows=1)],
    "a negative size": [forged.group(forged.chunk([PAGE], 1, f7=Long(-1)), rows=1)],
    "a size of another type": [forged.group(forged.chunk([PAGE], 1, f7=len(PAGE)), rows=1)],
    "one chunk too many": [forged.group(CHUNK, CHUNK, rows=1)],
    "no chunk": [{1: [], 2: Long(1), 3: Long(1)}],
    "more values than pages hold": [forged.group(forged.chunk([PAGE], 2), rows=1)],
}


@each_case("fault", TWO_READINGS)
def test_a_footer_with_two_readings_is_refused(fault: str) -> None:
    with pytest.raises(EOFError):
        read(TWO_READINGS[fault])


def test_a_place_of_another_type_is_passed_over() -> None:
    """As pyarrow does: the column starts where its data starts."""
    chunk = forged.chunk([PAGE], 1, f11=2)
    file = io.BytesIO(forged.file([PAGE], [forged.column()], [forged.group(chunk, rows=1)]))
    (found,) = read_footer(file).groups[0]
    assert (found.start, found.dictionary) == (4, None)
    assert pq.read_table(file).to_pydict() == {"a": [0]}


@each_case(
    "elements",
    [
        [],
        [{4: b"schema", 5: 2}, forged.column()],
        [{4: b"schema", 5: 1}, forged.column(), forged.column("b")],
        [{4: b"schema", 5: -1}, forged.column()],
        [{4: b"schema", 5: 1}, {1: 2}],
        [{4: b"schema", 5: 1}, *[{4: b"a", 5: 1}] * 64, forged.column()],
    ],
    ids=["nothing", "too few", "too many", "less than none", "no name", "too deep"],
)
def test_a_tree_of_columns_that_is_none_is_refused(elements: list[Any]) -> None:
    with pytest.raises(EOFError):
        read([GROUP], f2=elements)


def test_a_header_may_be_long_but_not_endless() -> None:
    def page(size: int) -> bytes:
        about = {1: 1, 2: 0, 3: 3, 4: 3, 5: {1: bytes(size)}}
        return forged.thrift({1: 0, 2: 8, 3: 8, 5: about}) + bytes(8)

    for size, fits in ((100_000, True), (1 << 20, False)):
        one = page(size)
        group = forged.group(forged.chunk([one], 1), rows=1)
        file = io.BytesIO(forged.file([one], [forged.column()], [group]))
        footer = read_footer(file)
        pages = read_pages(file, footer.groups[0][0], footer.start)
        if fits:
            assert [found.values for found in pages] == [1]
        else:
            with pytest.raises(EOFError):
                list(pages)


def test_a_footer_that_is_too_long() -> None:
    content = forged.file([], [forged.column()], [], f6=bytes(1 << 24))
    with pytest.raises(LargeFooter):
        read_footer(io.BytesIO(content))


def many_values() -> bytes:
    said = forged.chunk([PAGE], 1, f3=Times(b"", 900_000))
    group = Times(forged.group(said, rows=1), 16)
    return forged.file([PAGE], [forged.column()], group)


def many_truths() -> bytes:
    """A field whose type is its value takes one byte."""
    truths = b"\x11" * 30_000 + b"\0"
    return forged.file([], [forged.column()], [], f99=Times(Written(truths), 200))


@pytest.mark.parametrize("make", [nightly(many_values), many_truths])
def test_a_footer_that_says_too_much(make: Callable[[], bytes]) -> None:
    """Each value takes one byte here, and 32 when pyarrow holds it."""
    with pytest.raises(LargeFooter):
        read_footer(io.BytesIO(make()))
