"""Parquet files whose footers, headers and pages lie: refused, in little memory and time."""

from __future__ import annotations

import io
import struct
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaffinch.tables.columnar import _largest_run, _Part
from chaffinch.tables.read import open_table
from tests.cases import each_case
from tests.disk.containers import forged, limited
from tests.disk.containers.forged import MOST, Times
from tests.tiers import all_but

LARGE = 1 << 30
ROWS = 100_000
TEXT = struct.pack("<I", 900_000) + b"x" * 900_000
NUMBERS = forged.page(bytes(8), 1)
FIRST_PLACE = forged.page(b"\1\2\0", 1, encoding=forged.DICTIONARY)


def one_run(values: int, place: int = 0) -> bytes:
    """Return so many times the same small number, as a run."""
    return forged.varint(values << 1) + bytes([place])


def told(levels: bytes) -> bytes:
    """Return levels with their length before them."""
    return struct.pack("<I", len(levels)) + levels


def large_page() -> bytes:
    return forged.page(b"", LARGE // 8, zeros=LARGE)


def a_large_page() -> bytes:
    return forged.simple([large_page()], LARGE // 8)


def a_large_page_behind_a_small_one() -> bytes:
    return forged.simple([NUMBERS, large_page()], LARGE // 8)


def a_large_page_of_a_column_that_says_it_is_another() -> bytes:
    chunk = forged.chunk([large_page()], LARGE // 8, path="b")
    group = forged.group(chunk, rows=LARGE // 8)
    return forged.file([large_page()], [forged.column()], [group])


def a_large_page_of_a_column_that_pyarrow_takes_too() -> bytes:
    """To pyarrow, a name stands for all names that go on with a dot."""
    chunks = [
        forged.chunk([NUMBERS], 1),
        forged.chunk([large_page()], LARGE // 8, start=4 + len(NUMBERS)),
    ]
    columns = [forged.column(), forged.column("a.b")]
    return forged.file([NUMBERS, large_page()], columns, [forged.group(*chunks, rows=LARGE // 8)])


def a_large_dictionary() -> bytes:
    listed = forged.page(b"", LARGE // 4, zeros=LARGE, dictionary=True)
    return forged.simple([listed, FIRST_PLACE], 1, kind=forged.BYTES, listed=True)


def a_dictionary_of_many_made_up_values() -> bytes:
    listed = forged.page(TEXT, MOST, dictionary=True)
    return forged.simple([listed, FIRST_PLACE], 1, kind=forged.BYTES, listed=True)


def a_long_text_many_times() -> bytes:
    listed = forged.page(TEXT, 1, dictionary=True)
    places = forged.page(b"\1" + one_run(ROWS), ROWS, encoding=forged.DICTIONARY)
    return forged.simple([listed, places], ROWS, kind=forged.BYTES, listed=True)


def gaps(values: int, kind: int, length: int = 0) -> bytes:
    content = told(one_run(values))
    page = forged.page(content, values)
    return forged.simple([page], values, kind=kind, length=length, repetition=forged.OPTIONAL)


def many_gaps() -> bytes:
    return gaps(MOST, forged.NUMBER)


def very_wide_gaps() -> bytes:
    return gaps(4, forged.FIXED_BYTES, MOST)


def one_row_of_many_values() -> bytes:
    values = 1 << 28
    levels = told(one_run(1) + one_run(values - 1, 1)) + told(one_run(values, 1))
    listed = forged.page(bytes(8), 1, dictionary=True)
    data = forged.page(levels + b"\1" + one_run(values), values, encoding=forged.DICTIONARY)
    return forged.simple([listed, data], values, repetition=forged.REPEATED, listed=True)


def many_lengths() -> bytes:
    """As differences, 128 of them take five bytes."""
    values = 1 << 28
    head = b"\x80\x01\x04" + forged.varint(values) + b"\0"
    page = forged.page(head, values, zeros=values // 128 * 5, encoding=forged.DELTA_LENGTHS)
    return forged.simple([page], values, kind=forged.BYTES)


def many_pages_of_one_long_value() -> bytes:
    size = 120 << 20
    page = forged.page(struct.pack("<I", size), 1, zeros=size)
    return forged.simple([page] * 30, 30, kind=forged.BYTES)


def the_same_group_many_times() -> bytes:
    size = 100 << 20
    page = forged.page(b"", size // 8, zeros=size)
    group = forged.group(forged.chunk([page], size // 8), rows=size // 8)
    return forged.file([page], [forged.column()], Times(group, 10_000))


def many_small_pages_many_times() -> bytes:
    page = forged.page(b"", 0)
    group = forged.group(forged.chunk([page] * 50_000 + [NUMBERS], 1), rows=1)
    return forged.file([*[page] * 50_000, NUMBERS], [forged.column()], Times(group, 1000))


def many_dictionaries_of_many_values() -> bytes:
    listed = forged.page(b"", 1 << 22, zeros=1 << 24, dictionary=True)
    size = len(listed) + len(FIRST_PLACE)
    groups = [
        forged.group(
            forged.chunk(
                [listed, FIRST_PLACE], 1, start=4 + size * at, kind=forged.BYTES, listed=True
            ),
            rows=1,
        )
        for at in range(1000)
    ]
    return forged.file([listed, FIRST_PLACE] * 1000, [forged.column("a", forged.BYTES)], groups)


def columns_within_columns() -> bytes:
    deep = [{3: forged.OPTIONAL, 4: b"a", 5: 1}] * 100_000
    root = {4: b"schema", 5: 1}
    group = forged.group(forged.chunk([NUMBERS], 1), rows=1)
    return forged.file([NUMBERS], [], [group], f2=[root, *deep, forged.column()])


def a_million_columns() -> bytes:
    return forged.file([], [], [], f2=Times({1: 2, 3: 0, 4: b"a"}, 1_000_000))


def groups_of_nothing() -> bytes:
    return forged.file([], [forged.column()], Times({1: []}, 200_000))


def a_long_footer() -> bytes:
    return forged.file([], [forged.column()], [], f6=bytes(1 << 25))


FORGED: list[Callable[[], bytes]] = [
    a_large_page,
    a_large_page_behind_a_small_one,
    a_large_page_of_a_column_that_says_it_is_another,
    a_large_page_of_a_column_that_pyarrow_takes_too,
    a_large_dictionary,
    a_dictionary_of_many_made_up_values,
    a_long_text_many_times,
    many_gaps,
    very_wide_gaps,
    one_row_of_many_values,
    many_lengths,
    many_pages_of_one_long_value,
    the_same_group_many_times,
    many_small_pages_many_times,
    many_dictionaries_of_many_values,
    columns_within_columns,
    a_million_columns,
    groups_of_nothing,
    a_long_footer,
]


@pytest.mark.parametrize(
    "make", all_but(FORGED, many_dictionaries_of_many_values), ids=lambda make: make.__name__
)
def test_a_forged_file_is_refused(make: Callable[[], bytes], tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(make())
    assert limited.read_table(tmp_path / "a.parquet") == "invalid-table"


def test_what_is_forged_well_is_read() -> None:
    """The files above are refused for what they say, and not for how they were made."""
    numbers = forged.page(struct.pack("<3q", 5, 6, 7), 3)
    content = forged.simple([NUMBERS, numbers], 4)
    assert pq.read_table(io.BytesIO(content)).to_pydict() == {"a": [0, 5, 6, 7]}
    (batch,) = open_table(io.BytesIO(content), format="parquet").batches(["a"])
    assert batch.to_pydict() == {"a": [0, 5, 6, 7]}


TABLE = pa.table(
    {
        "text": [None if i % 7 == 0 else "x" * (i % 50) for i in range(3000)],
        "number": range(3000),
        "list": [["a", "bc"] * (i % 3) for i in range(3000)],
        "inner": [{"x": i, "y": None} for i in range(3000)],
    }
)


@each_case("codec", ["none", "snappy", "gzip", "brotli", "zstd", "lz4"])
@each_case("version", ["1.0", "2.0"])
@each_case("dictionary", [True, False])
def test_honest_files_are_read_whole(codec: str, version: str, *, dictionary: bool) -> None:
    file = io.BytesIO()
    pq.write_table(
        TABLE,
        file,
        compression=codec,
        data_page_version=version,
        use_dictionary=dictionary,
        row_group_size=1100,
        data_page_size=500,
        write_batch_size=50,
    )
    table = open_table(file, format="parquet")
    read = pa.Table.from_batches(list(table.batches(TABLE.column_names, rows=400)))
    assert read.equals(TABLE)


PARTS = st.builds(
    _Part,
    values=st.integers(0, 9),
    size=st.integers(0, 50),
    longest=st.none() | st.integers(0, 9),
)


@given(parts=st.lists(PARTS, min_size=1, max_size=8), rows=st.integers(1, 12))
def test_no_run_of_rows_takes_more_than_is_reckoned(parts: list[_Part], rows: int) -> None:
    """By trying every run."""
    places = [number for number, part in enumerate(parts) for _ in range(part.values)]
    most = max(
        (
            sum(part.bytes_of(rows) for part in parts[run[0] : run[-1] + 1])
            for first in range(len(places))
            for run in [places[first : first + rows]]
        ),
        default=0,
    )
    assert most <= _largest_run(parts, rows)
