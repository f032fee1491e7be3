"""Small files that stand for gigabytes: read in little memory, or refused, and never else."""

from __future__ import annotations

import gzip
import io
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from chaffinch.errors import InvalidTable
from chaffinch.tables.arrays import BATCH_BYTES
from chaffinch.tables.read import open_table
from tests.containers import limited

ROWS = 100_000
LONG = "x" * 70_000


def parquet(table: pa.Table, **options: object) -> Callable[[Path], None]:
    """Return what writes a table as Parquet."""
    return lambda path: pq.write_table(table, path, **options)


def zipped(*parts: tuple[bytes, int]) -> Callable[[Path], None]:
    """Return what writes bytes, each part so many times over, under gzip."""

    def write(path: Path) -> None:
        with gzip.open(path, "wb", compresslevel=1) as file:
            for part, times in parts:
                block = part * max(1, min(times, (1 << 20) // len(part)))
                for _ in range(max(1, times * len(part) // len(block))):
                    file.write(block)

    return write


def arrow(table: pa.Table, **options: object) -> Callable[[Path], None]:
    """Return what writes a table as an Arrow stream."""

    def write(path: Path) -> None:
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
    "a long text in a dictionary": ("a.parquet", parquet(pa.table({"a": repeated(LONG, ROWS)}))),
    "a very long text in a dictionary": (
        "a.parquet",
        parquet(
            pa.table({"a": repeated("x" * (1 << 24), ROWS)}), dictionary_pagesize_limit=1 << 30
        ),
    ),
    "lists of a long text": (
        "a.parquet",
        parquet(pa.table({"a": pa.array([[LONG] * 1000])})),
    ),
    "texts that share their beginnings": (
        "a.parquet",
        parquet(
            pa.table({"a": [LONG] * 10_000}),
            use_dictionary=False,
            column_encoding={"a": "DELTA_BYTE_ARRAY"},
        ),
    ),
    "an Arrow dictionary": ("a.arrow", arrow(pa.table({"a": repeated(LONG, ROWS)}))),
    "an Arrow run": ("a.arrow", arrow(pa.table({"a": runs(LONG, ROWS)}))),
    "compressed Arrow": (
        "a.arrow",
        arrow(pa.table({"a": pa.nulls(1 << 25, pa.int64())}), compression="zstd"),
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


@pytest.mark.parametrize("bomb", BOMBS)
def test_small_files_do_not_fill_the_memory(bomb: str, tmp_path: Path) -> None:
    name, write = BOMBS[bomb]
    write(tmp_path / name)
    assert (tmp_path / name).stat().st_size < 40 << 20
    assert limited.read_table(tmp_path / name) in {"read", "invalid-table"}


UNCLOSED = {
    "never closed": b'a,b\nyes,"no\n' + b"yes,no\n" * 600,
    "closed 600 people later": b'a,b\nyes,"no\n' + b"yes,no\n" * 600 + b'no",yes\n',
    "opened after a bare quote": b'a,b\nx"y,"z\nyes,no\n',
    "in a column that nobody asked for": b'a,b\nyes,"two\nlines"\nno,one\n',
    "letters behind a quote": b'a,b\nyes,"no" or\nno,one\n',
    "at the end of a file": b'a,b\nyes,no\nyes,"no',
}


@pytest.mark.parametrize("fault", UNCLOSED)
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
