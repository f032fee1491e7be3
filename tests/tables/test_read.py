"""Every kind of table gives the same columns, and every fault one clear error."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import random
import sys
import threading
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from chaffinch.encoding.bulk import find_columns
from chaffinch.errors import ChaffinchError, InvalidInput, InvalidTable, StorageFault
from chaffinch.questions import Bit, Choice, Flags, Number, Question
from chaffinch.tables.checking import check_answers
from chaffinch.tables.read import open_table
from tests.cases import each_case

pandas = pytest.importorskip("pandas")

CANARY = "xyzzy-private"
ROWS = 1000
DATA: dict[str, Any] = {"name": [f"n{i % 7}" for i in range(ROWS)], "age": list(range(ROWS))}
TABLE = pa.table(DATA)


def csv_bytes(delimiter: str = ",") -> bytes:
    lines = [f"{name}{delimiter}{age}" for name, age in zip(DATA["name"], DATA["age"], strict=True)]
    return ("\n".join([f"name{delimiter}age", *lines]) + "\n").encode()


def lines_bytes() -> bytes:
    rows = TABLE.to_pylist()
    return ("\n".join(json.dumps(row) for row in rows) + "\n").encode()


def parquet_bytes() -> bytes:
    sink = io.BytesIO()
    pq.write_table(TABLE, sink, row_group_size=300)
    return sink.getvalue()


def arrow_bytes(kind: Callable[..., Any] = pa.ipc.new_file) -> bytes:
    sink = io.BytesIO()
    with kind(sink, TABLE.schema) as writer:
        writer.write_table(TABLE, max_chunksize=300)
    return sink.getvalue()


def twins_bytes() -> bytes:
    batch = pa.record_batch([pa.array([1]), pa.array([2])], names=["a", "a"])
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue()


FILES = {
    "t.csv": csv_bytes(),
    "T.CSV": csv_bytes().replace(b"\n", b"\r\n"),
    "bom.csv": b"\xef\xbb\xbf" + csv_bytes(),
    "t.tsv": csv_bytes("\t"),
    "t.csv.gz": gzip.compress(csv_bytes()),
    "t.jsonl": lines_bytes(),
    "t.ndjson.gz": gzip.compress(lines_bytes()),
    "t.parquet": parquet_bytes(),
    "t.arrow": arrow_bytes(),
    "t.feather": arrow_bytes(pa.ipc.new_stream),
    "sniffed-parquet": parquet_bytes(),
    "sniffed-lines": lines_bytes(),
}


def read(source: Any, columns: list[str], rows: int = 256, **options: Any) -> dict[str, Any]:
    batches = list(open_table(source, **options).batches(columns, rows=rows))
    assert all(0 < batch.num_rows <= rows for batch in batches)
    assert all(batch.schema.names == columns for batch in batches)
    return {name: [x for batch in batches for x in batch[name].to_pylist()] for name in columns}


@each_case("name", FILES)
def test_every_file_gives_the_same_columns(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(FILES[name])
    table = open_table(path)
    assert table.columns == ("name", "age")
    assert table.size == len(FILES[name])
    assert table.rows in (None, ROWS)
    for _ in range(2):  # a path can be read again
        found = read(str(path), ["age", "name"])
        assert found["name"] == DATA["name"]
        assert [int(age) for age in found["age"]] == DATA["age"]
    assert list(read(path, ["age"])) == ["age"]


def piped(data: bytes) -> io.BufferedReader:
    out, into = os.pipe()

    def fill() -> None:
        with os.fdopen(into, "wb") as file:
            file.write(data)

    threading.Thread(target=fill, daemon=True).start()
    return os.fdopen(out, "rb")


@each_case(
    ("data", "options"),
    [
        (csv_bytes(), {"format": "csv"}),
        (gzip.compress(csv_bytes()), {"format": "csv"}),
        (lines_bytes(), {}),
        (arrow_bytes(), {}),
        (arrow_bytes(pa.ipc.new_stream), {}),
        (gzip.compress(arrow_bytes()), {}),
    ],
    ids=["csv", "csv.gz", "lines", "arrow", "stream", "arrow.gz"],
)
def test_pipes_are_read_once(data: bytes, options: dict[str, Any]) -> None:
    with piped(data) as pipe:
        table = open_table(pipe, **options)
        assert table.columns == ("name", "age")
        found = [x for batch in table.batches(["name"]) for x in batch["name"].to_pylist()]
        assert found == DATA["name"]
        with pytest.raises(InvalidTable, match="read already"):
            list(table.batches(["name"]))


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    with piped(csv_bytes()) as pipe:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(pipe))
        assert read("-", ["name"], format="csv")["name"] == DATA["name"]


def test_open_files_that_can_seek_are_read_again_and_left_open() -> None:
    file = io.BytesIO(parquet_bytes())
    table = open_table(file)
    for _ in range(2):
        assert sum(batch.num_rows for batch in table.batches(["age"])) == ROWS
    assert not file.closed


@pytest.mark.parametrize("data", [parquet_bytes(), gzip.compress(parquet_bytes())])
def test_parquet_needs_a_file(data: bytes) -> None:
    with piped(data) as pipe, pytest.raises(InvalidTable, match="Parquet") as caught:
        open_table(pipe, format="parquet")
    assert "CSV" in caught.value.hint


def test_a_pipe_of_text_needs_a_format() -> None:
    with piped(csv_bytes()) as pipe, pytest.raises(InvalidTable, match="format") as caught:
        open_table(pipe)
    assert "csv" in caught.value.hint


STRUCTURED = np.array(
    list(zip(DATA["name"], DATA["age"], strict=True)), dtype=[("name", "U2"), ("age", "i8")]
)


class Stream:
    """Whatever offers a stream of Arrow, and nothing else; it gives it once."""

    def __init__(self, table: pa.Table) -> None:
        self._tables = [table]

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._tables.pop().__arrow_c_stream__(requested_schema)


class Relation:
    """A relation as DuckDB has them: its query runs when its rows or their number are asked for."""

    columns = ("name", "age")

    def __init__(self, table: pa.Table | None) -> None:
        self._table = table

    def __len__(self) -> int:
        raise RuntimeError(CANARY)

    def __getitem__(self, name: object) -> object:
        raise TypeError(name)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        if self._table is None:
            raise RuntimeError(CANARY)
        table, self._table = self._table, None
        return table.__arrow_c_stream__(requested_schema)


def failing_query() -> Any:
    return pl.LazyFrame({"name": [CANARY]}).with_columns(pl.col("name").cast(pl.Int64))


def frame(library: str) -> Any:
    return pytest.importorskip(library).DataFrame(DATA)


def series(library: str, **options: Any) -> Any:
    return pytest.importorskip(library).Series(DATA["age"], **options)


OBJECTS: dict[str, Callable[[], Any]] = {
    "table": lambda: TABLE,
    "batch": lambda: TABLE.combine_chunks().to_batches()[0],
    "reader": TABLE.to_reader,
    "mapping": lambda: DATA,
    "arrays": lambda: {"name": np.array(DATA["name"]), "age": np.array(DATA["age"])},
    "arrow columns": lambda: {"name": TABLE["name"], "age": TABLE["age"].chunk(0)},
    "pandas": lambda: frame("pandas"),
    "polars": lambda: frame("polars"),
    "pandas columns": lambda: {"name": DATA["name"], "age": series("pandas")},
    "objects in pandas": lambda: frame("pandas").astype(object),
    "rows": TABLE.to_pylist,
    "rows that come once": lambda: iter(TABLE.to_pylist()),
    "rows of texts": lambda: csv.DictReader(io.StringIO(csv_bytes().decode())),
    "structured": lambda: STRUCTURED,
    "structured elsewhere": lambda: STRUCTURED.astype([("name", ">U2"), ("age", ">i8")]),
    "query": lambda: frame("polars").lazy(),
    "relation": lambda: Relation(TABLE),
    "batches": lambda: TABLE.to_batches(max_chunksize=300),
    "batches that come once": lambda: iter(TABLE.to_batches(max_chunksize=300)),
    "frames": lambda: (frame("pandas")[start : start + 300] for start in range(0, ROWS, 300)),
    "stream": lambda: Stream(TABLE),
    "records": TABLE.to_struct_array,
}


@each_case("kind", OBJECTS)
def test_objects_give_the_same_columns(kind: str) -> None:
    source = OBJECTS[kind]()
    table = open_table(source)
    assert table.columns == ("name", "age")
    assert table.rows == (None if kind == "reader" else ROWS)
    ages = [*map(str, DATA["age"])] if kind == "rows of texts" else DATA["age"]
    # Only a reader is read as it comes; whatever else comes once is kept.
    for _ in range(2 - (kind == "reader")):
        read = pa.Table.from_batches(table.batches(["age", "name"])).to_pydict()
        assert read == {"age": ages, "name": DATA["name"]}


SEQUENCES: dict[str, Callable[[], Any]] = {
    "list": lambda: DATA["age"],
    "numpy": lambda: np.arange(ROWS),
    "range": lambda: range(ROWS),
    "arrow": lambda: pa.array(DATA["age"]),
    "chunked": lambda: TABLE["age"],
    "pandas": lambda: series("pandas", index=range(5, 5 + ROWS)),
    "polars": lambda: series("polars"),
    "objects": lambda: series("pandas").astype(object),
    "what comes once": lambda: iter(DATA["age"]),
}


@pytest.mark.parametrize("kind", SEQUENCES)
def test_a_sequence_is_one_column(kind: str) -> None:
    table = open_table(SEQUENCES[kind]())
    assert (table.columns, table.rows) == (("answers",), ROWS)
    assert pa.Table.from_batches(table.batches(["answers"])).to_pydict() == {"answers": DATA["age"]}


def test_an_odd_column_of_a_frame_does_no_harm_unless_asked_for() -> None:
    frame = pandas.DataFrame({"good": [1, 2], "odd": [object(), {CANARY}]})
    assert read(frame, ["good"]) == {"good": [1, 2]}
    assert refused(lambda: read(frame, ["good", "odd"])).details["column"] == "odd"
    wide = pl.DataFrame({"good": [1], "odd": pl.Series([10**30], dtype=pl.Int128)})
    assert read(wide, ["good"]) == {"good": [1]}
    refused(lambda: read(wide, ["good", "odd"]), "column 'odd'", "convert")
    rows = [{"good": 1, "odd": object()}, {"good": 2}]
    assert read(rows, ["good"]) == {"good": [1, 2]}
    refused(lambda: read(rows, ["odd"]), "column 'odd', row 0,")


def test_a_frame_of_objects_is_read_as_lists_are() -> None:
    cells = ["a", 1, True, 2.5, None, 10**30]
    frame = pandas.DataFrame({"mixed": pandas.Series(cells, dtype=object), 7: range(6)})
    found = read(frame, ["mixed", "7"])
    assert found == {**read({"mixed": cells}, ["mixed"]), "7": [*range(6)]}


ODD: dict[str, Any] = {
    "huge": 10**30,
    "endless": 10**5000,
    "list": [CANARY, "a"],
    "lists": [["a"]],
    "record": {"a": CANARY},
    "bytes": b"\xff" + CANARY.encode(),
    "yes in bytes": b"yes",
    "set": {CANARY},
    "object": type(CANARY, (), {})(),
    "half a character": "\ud800" + CANARY,
    "complex": 1j,
}
ASKED: dict[Question, object] = {
    Bit(): "yes",
    Choice(["a", "b"]): "a",
    Choice(range(3)): 1,
    Number(0, 100): 5,
    Flags(["a", "b"]): ["a"],
}


@each_case("name", ODD)
@each_case("question", ASKED)
def test_odd_cells_are_refused_alike_wherever_they_are(question: Question, name: str) -> None:
    cells = [ASKED[question], ODD[name]]
    rows = [{"column": cell} for cell in cells]
    frame = pandas.DataFrame({"column": pandas.Series(cells, dtype=object), "other": [1, 2]})
    for form in ({"column": cells}, frame, rows, iter(rows), {"column": frame["column"]}):
        table = open_table(form)
        places = find_columns({"column": question}, table, {"column": "column"})
        refused(lambda: check_answers(table, places), "column 'column'")  # noqa: B023 - at once


def test_rows_may_lack_names_and_come_in_pieces() -> None:
    rows = [{"a": number} if number % 2 else {"b": str(number)} for number in range(70_001)]
    table = open_table(row for row in rows)
    assert (table.columns, table.rows) == (("b", "a"), 70_001)
    found = pa.Table.from_batches(table.batches(["a", "b"])).to_pydict()
    assert found == {"a": [row.get("a") for row in rows], "b": [row.get("b") for row in rows]}
    late = [*[{"a": 1}] * 70_000, {"a": object()}]
    refused(lambda: read(late, ["a"]), "row 70000")
    refused(lambda: open_table([*late, "row"]), "another row 70001, counted from 0")


def test_parts_must_have_the_same_columns() -> None:
    parts = [TABLE, TABLE.select(["name"])]
    refused(lambda: open_table(parts), "part 2")
    assert open_table([TABLE, TABLE.select(["age", "name"])]).rows == 2 * ROWS


@each_case("array", [np.zeros((2, 3)), np.array(1), np.zeros((2, 3), object)])
def test_the_columns_of_an_array_need_names(array: Any) -> None:
    refused(lambda: open_table(array), "name for each column", f"{array.ndim} dimensions", "[:, 0]")


@each_case("query", [failing_query, lambda: Relation(None)])
def test_what_a_query_says_of_cells_is_not_repeated(query: Callable[[], Any]) -> None:
    refused(lambda: read(query(), ["name"]), "cannot be converted")


def test_gaps_of_every_kind_are_null() -> None:
    pandas = pytest.importorskip("pandas")
    values = ["a", None, float("nan"), pandas.NA]
    assert read(values, ["answers"])["answers"] == ["a", None, None, None]


def test_mixed_kinds_become_text() -> None:
    assert read(["a", 1, True, 2.5, None], ["answers"])["answers"] == [
        "a",
        "1",
        "true",
        "2.5",
        None,
    ]
    assert read([1, 10**30], ["answers"])["answers"] == ["1", str(10**30)]


def test_nothing_is_guessed_from_csv(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text('a,b\n1,NA\n007,""\n,null\nx,"two, cells"\n\n1e5, y\n', encoding="utf-8")
    assert read(path, ["a", "b"]) == {
        "a": ["1", "007", None, "x", "1e5"],
        "b": ["NA", None, "null", "two, cells", " y"],
    }


def test_in_a_single_column_an_empty_line_is_an_answer(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a\nx\n\ny\n", encoding="utf-8")
    assert read(path, ["a"])["a"] == ["x", None, "y"]


class _Watched(io.BytesIO):
    """A file that notes which threads read it."""

    def __init__(self, content: bytes) -> None:
        super().__init__(content)
        self.threads: set[int] = set()

    def seekable(self) -> bool:
        return False

    def read(self, size: int | None = -1, /) -> bytes:
        self.threads.add(threading.get_ident())
        return super().read(size)


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        ("csv", b"a,b\n" + b"yes,1\n" * 1_000_000),
        ("csv", b"a,b\n" + b'"yes",1\n' * 1_000_000),
        ("jsonl", b'{"a": 1}\n' * 300_000),
        ("arrow", arrow_bytes(pa.ipc.new_stream)),
    ],
)
def test_a_pipe_is_read_by_no_other_thread(kind: str, content: bytes) -> None:
    """A thread of Arrow that is in Python code when a process is stopped aborts it."""
    file = _Watched(content)
    table = open_table(file, format=kind)
    assert sum(batch.num_rows for batch in table.batches(table.columns[:1])) > 100
    assert file.threads == {threading.get_ident()}


MIB = 1 << 20


@each_case("end", [b"\n", b"\r\n", b"\r"])
@each_case("shift", range(4))
def test_a_line_end_may_fall_between_two_blocks(end: bytes, shift: int) -> None:
    first = b"a" + end + b"x" * (4 + shift) + end
    answers = (2 * MIB) // len(b"y" + end)
    table = open_table(io.BytesIO(first + (b"y" + end) * answers), format="csv")
    found = pa.Table.from_batches(table.batches(["a"])).column("a")
    assert found.to_pylist() == ["x" * (4 + shift)] + ["y"] * answers


def test_a_header_may_stand_after_a_block_of_empty_lines() -> None:
    content = b"\n" * 60_000 + b"a,b\n" + b"\n" * (3 * MIB) + b"1,2\n" + b"\n" * (3 * MIB)
    for start in (b"", b"\xef\xbb\xbf"):
        table = open_table(io.BytesIO(start + content), format="csv")
        assert read(io.BytesIO(start + content), ["b"], format="csv") == {"b": ["2"]}
        assert table.columns == ("a", "b")


@pytest.mark.parametrize("row", [1, 2, 400_000, 800_000])
def test_a_ragged_row_is_told_in_every_block(row: int) -> None:
    lines = [b"1,2\n"] * 800_000
    lines[row - 1] = b"1,2,3\n"
    table = open_table(io.BytesIO(b"a,b\n" + b"".join(lines)), format="csv")
    with pytest.raises(InvalidTable, match=f"in row {row + 1}, as a spreadsheet counts"):
        list(table.batches(["a"]))


def test_lines_may_lack_keys_and_mix_kinds(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text('{"a":1}\n\n{"b":["x"],"a":"z"}\n{"a":null}\n', encoding="utf-8")
    assert open_table(path).columns == ("a", "b")
    assert read(path, ["a", "b"]) == {"a": ["1", "z", None], "b": [None, ["x"], None]}


def refused(action: Callable[[], Any], *words: str, kind: type = InvalidTable) -> ChaffinchError:
    with pytest.raises(kind) as caught:
        action()
    text = str(caught.value)
    assert CANARY not in text
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    for word in words:
        assert word in text
    assert isinstance(caught.value, ChaffinchError)
    return caught.value


LONG = b"a,b\n" + b"1,2\n" * 70_000
PARQUET = parquet_bytes()
FAULTS: dict[str, tuple[str, bytes, tuple[str, ...]]] = {
    "empty": ("t.csv", b"", ("empty",)),
    "blank": ("t.csv", b"\n \n", ("empty",)),
    "empty lines": ("t.jsonl", b"", ("empty",)),
    "empty parquet": ("t.parquet", b"", ("empty",)),
    "empty zip": ("t.csv.gz", gzip.compress(b""), ("empty",)),
    "header only": ("t.csv", b"a,b\n", ("row",)),
    "header without end": ("t.csv", b"a,b", ("row",)),
    "duplicates": (
        "t.csv",
        f"{CANARY},b,{CANARY}\n1,2,3\n".encode(),
        ("columns 1 and 3 of the same name", "first line"),
    ),
    "duplicate fields": ("t.arrow", twins_bytes(), ("2 columns named 'a'",)),
    "ragged": (
        "t.csv",
        f"a,b\n1,2\n{CANARY}\n".encode(),
        ("2 cells", "row 3, as a"),
    ),
    "ragged late": ("t.csv", LONG + f"{CANARY},2,3\n".encode(), ("2 cells", "row 70002")),
    "late bytes": ("t.csv", LONG + CANARY.encode() + b"\xff,2\n", ("UTF-8", "row 70002", "'a'")),
    "bytes in header": ("t.csv", b"a\xff,b\n1,2\n", ("UTF-8",)),
    "utf-16 without a mark": ("t.csv", "a,b\n1,2\n".encode("utf-16-le"), ("UTF-8",)),
    "cut utf-16": ("t.csv", "a,b\n1,2\n".encode("utf-16")[:-1], ("utf-16", "line 2")),
    "bad line": ("t.jsonl", f'{{"a":1}}\n{{"a":{CANARY}\n'.encode(), ("JSON", "row 2")),
    "bad late line": (
        "t.jsonl",
        b'{"a":1}\n' * 30_000 + b'{"a"\n',
        ("JSON", "row 30001, "),
    ),
    "two objects": ("t.jsonl", b'{"a":1}\n{"a":1},{"a":2}\n', ("JSON", "row 2")),
    "no object": ("t.jsonl", b'{"a":1}\n[1]\n', ("JSON", "row 2")),
    "deep line": ("t.jsonl", b'{"a":1}\n' + b"[" * 60_000 + b"\n", ("JSON", "row 2")),
    "a key twice": ("t.jsonl", b'{"a":1}\n{"a":1,"a":2}\n', ("key once", "row 2")),
    "bytes in line": ("t.jsonl", b'{"a":1}\n{"a":"\xff"}\n', ("UTF-8", "row 2")),
    "surrogate": ("t.jsonl", b'{"a":1}\n{"a":"\\ud800"}\n', ("'a'", "row 2")),
    "nested mix": ("t.jsonl", b'{"a":1}\n{"a":{}}\n', ("'a'", "row 2")),
    "cut parquet": ("t.parquet", PARQUET[:-20], ("Parquet", "damaged")),
    "not parquet": ("t.parquet", f"{CANARY},b\n".encode() * 9, ("Parquet", "damaged")),
    "cut arrow": ("t.arrow", arrow_bytes()[:-300], ("Arrow", "damaged")),
    "cut stream": ("t.arrow", arrow_bytes(pa.ipc.new_stream)[:-300], ("Arrow", "damaged")),
    "not arrow": ("t.arrow", f"{CANARY},b\n".encode() * 9, ("Arrow", "damaged")),
    "cut zip": ("t.csv.gz", gzip.compress(os.urandom(9999).hex().encode())[:-30], ("damaged",)),
    "no format": ("t.data", b"a,b\n1,2\n", ("format", "csv")),
}


@each_case("fault", FAULTS)
def test_each_fault_is_one_clear_error(fault: str, tmp_path: Path) -> None:
    name, data, words = FAULTS[fault]
    path = tmp_path / name
    path.write_bytes(data)

    def action() -> None:
        table = open_table(path)
        list(table.batches(table.columns))

    refused(action, *words)


@each_case("cut", range(0, len(PARQUET), 97))
def test_parquet_cut_anywhere_is_refused(cut: int, tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    path.write_bytes(PARQUET[:cut])
    refused(lambda: read(path, ["name", "age"]))


def test_an_arrow_file_cut_in_a_pipe_is_refused() -> None:
    whole = arrow_bytes()
    with piped(whole[: len(whole) - 4]) as pipe:
        table = open_table(pipe)
        refused(lambda: list(table.batches(["age"])), "damaged")


def noisy(line: bytes) -> bytes:
    """Return many lines that pack badly, so that a damaged end comes after the first batch."""
    noise = random.Random(0).randbytes(200_000).hex().encode()
    return b"".join(line % noise[i : i + 50] for i in range(0, len(noise), 50))


@each_case("end", [b"", bytes(9000), b"\xff" * 8], ids=["cut", "zeros", "wrong checksum"])
@each_case(
    ("name", "data"),
    [("t.csv.gz", b"a,b\n" + noisy(b"%s,2\n")), ("t.jsonl.gz", noisy(b'{"a":"%s"}\n'))],
    ids=["csv", "jsonl"],
)
def test_a_zip_damaged_late_is_refused(name: str, data: bytes, end: bytes, tmp_path: Path) -> None:
    path = tmp_path / name
    whole = gzip.compress(data)
    path.write_bytes(whole[: len(whole) - max(len(end), 8)] + end)
    assert open_table(path).columns[0] == "a"
    refused(lambda: read(path, ["a"]))


def test_a_named_pipe(tmp_path: Path) -> None:
    path = tmp_path / "pipe.csv"
    os.mkfifo(path)
    thread = threading.Thread(target=path.write_bytes, args=(csv_bytes(),))
    thread.start()
    assert read(path, ["name"])["name"] == DATA["name"]
    thread.join()


def test_an_open_file_is_read_from_its_start() -> None:
    file = io.BytesIO()
    file.write(lines_bytes())
    assert read(file, ["age"])["age"] == DATA["age"]


@pytest.mark.parametrize("column", [np.zeros((2, 2)), [np.zeros(2), "a"], [object()], [b"x", 1]])
def test_what_is_no_column_is_refused(column: Any) -> None:
    refused(lambda: read({"a": column}, ["a"]), "'a'", "row 0, counted from 0")


def test_scalars_of_numpy_and_gaps_of_pandas_mix() -> None:
    pandas = pytest.importorskip("pandas")
    mixed = ["a", np.int64(3), np.bool_(True), pandas.NA, np.float32("nan")]  # noqa: FBT003
    assert read(mixed, ["answers"])["answers"] == ["a", "3", "true", None, None]


def test_names_with_dots_are_names(tmp_path: Path) -> None:
    table = pa.table({"a": [{"b": 1}], "a.c": [2], "x y": [3]})
    pq.write_table(table, tmp_path / "t.parquet")
    assert read(tmp_path / "t.parquet", ["x y", "a.c", "a"]) == {
        "x y": [3],
        "a.c": [2],
        "a": [{"b": 1}],
    }


def test_a_row_longer_than_any_memory_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(b"a,b\n1," + b"y" * (20 << 20) + b"\n")
    refused(lambda: read(path, ["a"]), "lines of at most 1 MiB", "line 2")


def test_missing_file_and_folder(tmp_path: Path) -> None:
    refused(lambda: open_table(tmp_path / "none.csv"), "no file named 'none.csv'")
    refused(lambda: open_table(tmp_path), "folder")


def test_no_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(csv_bytes())

    def denied(*_: Any, **__: Any) -> None:
        raise PermissionError(13, "denied")  # root may read everything, so pretend

    monkeypatch.setattr(Path, "open", denied)
    refused(lambda: open_table(path), "'t.csv'", "permission", kind=StorageFault)


def test_a_wrong_column_is_met_with_the_nearest(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(f"browser,age\n{CANARY},1\n", encoding="utf-8")
    error = refused(lambda: open_table(path).batches(["brwser"]), "'brwser'")
    assert "did you mean 'browser'?" in error.hint
    error = refused(lambda: open_table({"browser": [1], "age": [2]}).batches(["brwser"]))
    assert "did you mean 'browser'?" in error.hint
    assert "'browser', 'age'" in error.hint
    composed, apart = "Größe", unicodedata.normalize("NFD", "Größe")
    error = refused(lambda: open_table({apart: [1]}).batches([composed]))
    assert "whose letters have another Unicode form" in error.hint
    assert "did you mean" not in error.hint
    path.write_text(f"{apart}\n1\n", encoding="utf-8")
    error = refused(lambda: open_table(path).batches([composed]))
    assert "whose letters have another Unicode form" in error.hint


@pytest.mark.parametrize("name", ["t.csv", "t.tsv"])
def test_a_first_line_of_answers_is_not_repeated(name: str, tmp_path: Path) -> None:
    # Without a header line the names of the columns are somebody's answers.
    path = tmp_path / name
    path.write_text(f"alice,{CANARY},7\nbob,x,8\n".replace(",", "\t" if "tsv" in name else ","))
    error = refused(lambda: open_table(path).batches(["illness"]), "'illness'")
    assert "alice" not in str(error)
    assert "3 columns" in error.hint
    assert "first line" in error.hint
    assert "`chaffinch check --show` lists them" in error.hint


@each_case("name", ["people.xlsx", "people.XLS", "people.ods", "people"])
def test_a_spreadsheet_is_to_be_saved_as_text(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(b"PK\x03\x04 and more")
    refused(lambda: open_table(tmp_path / name), f"{name!r}, a spreadsheet", "save it as CSV")


def test_columns_must_be_a_list_of_names() -> None:
    empty: list[str] = []
    for columns in ("name", empty):
        with pytest.raises(InvalidInput, match="list of names"):
            open_table(DATA).batches(columns)


@pytest.mark.parametrize("source", [42, b"bytes", {1, 2}, object()])
def test_what_is_no_table_is_refused_unseen(source: Any) -> None:
    with pytest.raises(InvalidInput, match="table"):
        open_table(source)


def test_columns_of_different_lengths_are_refused() -> None:
    refused(lambda: open_table({"a": [1], "b": [1, 2]}), "same length")
    refused(lambda: open_table({}), "columns")
    refused(lambda: read([], ["answers"]), "row")


def test_the_formats_are_listed() -> None:
    with pytest.raises(InvalidInput, match="'csv'"):
        open_table(DATA, format="excel")


def test_arrow_arrays_may_be_columns_of_a_mapping() -> None:
    table = open_table({"id": pa.array(["a", "b"])})
    assert [batch.to_pydict() for batch in table.batches(["id"])] == [{"id": ["a", "b"]}]
