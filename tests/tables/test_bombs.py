"""Small files that stand for gigabytes: read in little memory, or refused, and never else."""

from __future__ import annotations

import gzip
import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from chaffinch.errors import InvalidTable
from chaffinch.tables.limits import BATCH_BYTES
from chaffinch.tables.read import open_table
from tests.cases import each_case
from tests.disk.containers import limited
from tests.tiers import all_but, nightly

ROWS = 100_000
LONG = "x" * 70_000


def parquet(make: Callable[[], pa.Table], **options: object) -> Callable[[Path], None]:
    """Return what makes a table, which may be large, and writes it as Parquet."""
    return lambda path: pq.write_table(make(), path, **options)


def zipped(*parts: tuple[bytes, int]) -> Callable[[Path], None]:
    """Return what writes bytes, each part so many times over, under gzip."""

    def write(path: Path) -> None:
        with gzip.open(path, "wb", compresslevel=1) as file:
            for part, times in parts:
                block = part * max(1, min(times, (1 << 20) // len(part)))
                for _ in range(max(1, times * len(part) // len(block))):
                    file.write(block)

    return write


def arrow(make: Callable[[], pa.Table], **options: object) -> Callable[[Path], None]:
    """Return what makes a table and writes it as an Arrow stream."""

    def write(path: Path) -> None:
        table = make()
        with pa.ipc.new_stream(path, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as to:
            to.write_table(table)

    return write


def repeated(value: str, rows: int) -> pa.Array:
    """Return a value many times over, held once."""
    return pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), pa.array([value]))


def runs(value: str, rows: int) -> pa.Array:
    """Return a value many times over, as one run."""
    return pa.RunEndEncodedArray.from_arrays(pa.array([rows], pa.int32()), pa.array([value]))


BOMBS: dict[str, tuple[str, Callable[[Path], None]]] = {
    "a long text in a dictionary": (
        "a.parquet",
        parquet(lambda: pa.table({"a": repeated(LONG, ROWS)})),
    ),
    "a very long text in a dictionary": (
        "a.parquet",
        parquet(
            lambda: pa.table({"a": repeated("x" * (1 << 24), ROWS)}),
            dictionary_pagesize_limit=1 << 30,
        ),
    ),
    "lists of a long text": (
        "a.parquet",
        parquet(lambda: pa.table({"a": pa.array([[LONG] * 1000])})),
    ),
    "texts that share their beginnings": (
        "a.parquet",
        parquet(
            lambda: pa.table({"a": [LONG] * 10_000}),
            use_dictionary=False,
            column_encoding={"a": "DELTA_BYTE_ARRAY"},
        ),
    ),
    "an Arrow dictionary": ("a.arrow", arrow(lambda: pa.table({"a": repeated(LONG, ROWS)}))),
    "an Arrow run": ("a.arrow", arrow(lambda: pa.table({"a": runs(LONG, ROWS)}))),
    "compressed Arrow": (
        "a.arrow",
        arrow(lambda: pa.table({"a": pa.nulls(1 << 25, pa.int64())}), compression="zstd"),
    ),
    "a line without end": ("a.csv.gz", zipped((b"a\n", 1), (b"x", 1 << 28))),
    "a header without end": ("a.csv.gz", zipped((b"a,", 1 << 26))),
    "a quote without end": ("a.csv.gz", zipped((b'a,b\n"', 1), (b"x,y\n", 1 << 24))),
    "long JSON lines": (
        "a.jsonl.gz",
        zipped((b'{"a": "' + b"x" * 900_000 + b'"}\n', 1200)),
    ),
    "JSON lists": ("a.jsonl.gz", zipped((b'{"a": [' + b"[]," * 300_000 + b"[]]}\n", 30))),
    "a JSON line without end": ("a.jsonl.gz", zipped((b'{"a": "', 1), (b"x", 1 << 28))),
    "keys without end": (
        "a.jsonl.gz",
        zipped(*((b'{"%d": 1}\n' % number, 1) for number in range(100_000))),
    ),
}


@pytest.mark.parametrize(
    "bomb",
    all_but(
        BOMBS,
        "a very long text in a dictionary",
        "texts that share their beginnings",
        "long JSON lines",
    ),
)
def test_small_files_do_not_fill_the_memory(bomb: str, tmp_path: Path) -> None:
    name, write = BOMBS[bomb]
    write(tmp_path / name)
    assert (tmp_path / name).stat().st_size < 40 << 20
    assert limited.read_table(tmp_path / name) in {"read", "invalid-table"}


ONE_PAGE = {
    "compression": "zstd",
    "use_dictionary": False,
    "data_page_size": 1 << 30,
    "write_batch_size": 1 << 20,
    "max_rows_per_page": 1 << 30,
}
"""As much in one page as there is."""


def names(count: int) -> list[str]:
    return [f"q{number}" for number in range(count)]


def records(array: pa.Array, count: int) -> pa.Table:
    """Return one column whose values have so many members."""
    return pa.table({"a": pa.StructArray.from_arrays([array] * count, names(count))})


def texts(rows: int = 120) -> pa.Array:
    return pa.array(["x" * ((1 << 20) - 8)] * rows)


def numbers() -> pa.Array:
    return pa.nulls(1 << 22, pa.int64()).fill_null(0)


def different(rows: int, digits: int) -> pa.Array:
    return pa.array([f"{at:0{digits}}" for at in range(rows)])


TOGETHER = {
    "columns of long texts": parquet(
        lambda: pa.table(dict.fromkeys(names(16), texts())), **ONE_PAGE
    ),
    "records of long texts": parquet(lambda: records(texts(), 16), **ONE_PAGE),
    "records of more long texts": parquet(lambda: records(texts(60), 64), **ONE_PAGE),
    "columns of numbers": parquet(
        lambda: pa.table(dict.fromkeys(names(64), numbers())), **ONE_PAGE
    ),
    "columns of long texts in dictionaries": parquet(
        lambda: pa.table(dict.fromkeys(names(16), repeated(LONG, ROWS)))
    ),
    "columns of many texts in dictionaries": parquet(
        lambda: pa.table(dict.fromkeys(names(40), different(1 << 18, 31))),
        compression="zstd",
        dictionary_pagesize_limit=1 << 24,
    ),
    "columns of dictionaries": parquet(
        lambda: pa.table(dict.fromkeys(names(4), different(1 << 20, 7).dictionary_encode())),
        compression="zstd",
        dictionary_pagesize_limit=1 << 24,
    ),
}


@pytest.mark.parametrize(
    "bomb",
    all_but(
        TOGETHER,
        "columns of long texts",
        "records of long texts",
        "records of more long texts",
        "columns of many texts in dictionaries",
        "columns of dictionaries",
    ),
)
def test_columns_that_are_read_together_do_not_fill_the_memory(bomb: str, tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    TOGETHER[bomb](path)
    assert limited.read_whole_table(path) == "invalid-table"


def test_many_columns_are_read_together(tmp_path: Path) -> None:
    """As others write them, and more than anybody asks."""
    rows = range(1 << 17)
    columns = [pa.array(rows), pa.array([f"answer {row % 50}" for row in rows])]
    pq.write_table(pa.table({str(at): columns[at % 2] for at in range(100)}), tmp_path / "a.pq")
    assert limited.read_whole_table(tmp_path / "a.pq") == "read"


def zipped_arrow(path: Path, batch: pa.RecordBatch, times: int, **options: object) -> None:
    """Write an Arrow stream under gzip: a batch, so many times over."""
    chosen = pa.ipc.IpcWriteOptions(**options)
    with (
        gzip.open(path, "wb", compresslevel=1) as file,
        pa.ipc.new_stream(file, batch.schema, options=chosen) as to,
    ):
        for _ in range(times):
            to.write_batch(batch)


@pytest.mark.long
def test_a_zipped_batch_does_not_fill_the_memory(tmp_path: Path) -> None:
    batch = pa.record_batch({"a": pa.nulls(1 << 26, pa.int64())})
    zipped_arrow(tmp_path / "a.arrow.gz", batch, 1)
    assert limited.read_table(tmp_path / "a.arrow.gz") == "invalid-table"


@pytest.mark.parametrize("compression", [nightly(None), "zstd"])
def test_large_batches_are_held_once_or_twice(compression: str | None, tmp_path: Path) -> None:
    """While one is read, whoever asked still has the one before."""
    rows = 120 << 17 if compression else 250 << 17  # packed and unpacked, or as they are
    numbers = np.random.default_rng(0).integers(0, 1 << 62, rows)
    table = pa.Table.from_batches([pa.record_batch({"a": numbers})] * 3)
    arrow(lambda: table, compression=compression)(tmp_path / "a.arrow")
    assert limited.read_table(tmp_path / "a.arrow") == "read"


@pytest.mark.long
def test_a_zipped_header_is_not_read_before_its_length(tmp_path: Path) -> None:
    header = b"\xff\xff\xff\xff" + (1 << 30).to_bytes(4, "little")
    zipped((header, 1), (bytes(8), 1 << 27))(tmp_path / "a.arrow.gz")
    assert limited.read_table(tmp_path / "a.arrow.gz") == "invalid-table"


def test_what_is_zipped_and_packed_is_counted_by_what_is_zipped(tmp_path: Path) -> None:
    path = tmp_path / "a.arrow.gz"
    batch = pa.record_batch({"a": pa.nulls(1 << 24, pa.int64()).fill_null(0)})
    zipped_arrow(path, batch, 80, compression="zstd")
    with path.open("rb") as piped:
        for source in (path, piped):
            table = open_table(source, format="arrow")
            with pytest.raises(InvalidTable, match="repetitions"):
                for _ in table.batches(["a"], rows=1 << 24):
                    pass


UNCLOSED = {
    "never closed": b'a,b\nyes,"no\n' + b"yes,no\n" * 600,
    "closed 600 people later": b'a,b\nyes,"no\n' + b"yes,no\n" * 600 + b'no",yes\n',
    "opened after a bare quote": b'a,b\nx"y,"z\nyes,no\n',
    "in a column that nobody asked for": b'a,b\nyes,"two\nlines"\nno,one\n',
    "letters behind a quote": b'a,b\nyes,"no" or\nno,one\n',
    "at the end of a file": b'a,b\nyes,no\nyes,"no',
}


@each_case("fault", UNCLOSED)
def test_a_quote_that_is_not_closed_swallows_nobody(fault: str) -> None:
    table = open_table(io.BytesIO(UNCLOSED[fault]), format="csv")
    line = 3 if fault == "at the end of a file" else 2
    with pytest.raises(InvalidTable, match=f"a quote in line {line}"):
        list(table.batches(["a"]))


def test_quotes_that_are_closed_are_read() -> None:
    text = b'a,b\n"yes","say ""no"", please"\n5" pipe,6\'2"\n"",""\n'
    table = open_table(io.BytesIO(text), format="csv")
    (batch,) = table.batches(["a", "b"])
    assert batch.to_pydict() == {
        "a": ["yes", '5" pipe', None],
        "b": ['say "no", please', "6'2\"", None],
    }


def test_the_line_of_a_late_quote_is_named() -> None:
    lines = b"a,b\n" + b'"yes",no\n' * 500_000
    table = open_table(io.BytesIO(lines + b'"yes,no\n'), format="csv")
    with pytest.raises(InvalidTable, match="a quote in line 500002 that is not"):
        list(table.batches(["a"]))


def test_batches_are_cut_by_bytes() -> None:
    table = open_table(pa.table({"a": repeated("x" * (1 << 20), 200)}))
    sizes = [batch.num_rows for batch in table.batches(["a"])]
    assert sum(sizes) == 200
    assert max(sizes) <= BATCH_BYTES >> 20
    huge = open_table(pa.table({"a": repeated("x" * (BATCH_BYTES + 1), 2)}))
    with pytest.raises(InvalidTable, match="a row that takes up more"):
        list(huge.batches(["a"]))
