"""Whether two tables hold the same rows: in whatever file, order and batches."""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest

from chaffinch.encoding.bulk import find_columns
from chaffinch.questions import Choice, Flags, Number, Question
from chaffinch.tables.fingerprint import Fingerprint, answers_in
from chaffinch.tables.read import open_table

ROWS: dict[str, list[Any]] = {
    "id": [f"user-{number}" for number in range(300)],
    "drink": ["tea", "coffee", None] * 100,
    "age": [number % 70 for number in range(300)],
    "story": ["x" * (number % 90) for number in range(300)],
}


def fingerprint(source: Any, *, key: bytes = b"key", rows: int = 64) -> bytes:
    seen = Fingerprint(key)
    table = seen.watch(open_table(source))
    for _ in table.batches(list(table.columns), rows=rows):
        pass
    return seen.value


@pytest.fixture(scope="module")
def table() -> pa.Table:
    return pa.table(ROWS)


def test_order_batches_columns_and_container_do_not_count(table: pa.Table, tmp_path: Path) -> None:
    expected = fingerprint(table)
    order = random.Random(1).sample(range(300), 300)
    assert fingerprint(table.take(order)) == expected
    assert fingerprint(table, rows=7) == expected
    assert fingerprint(table.select(["story", "age", "id", "drink"])) == expected
    pc.write_csv(table, tmp_path / "t.csv")
    pq.write_table(table, tmp_path / "t.parquet")
    for name in ("t.csv", "t.parquet"):
        assert fingerprint(tmp_path / name) == expected
    coded = table.set_column(1, "drink", table["drink"].combine_chunks().dictionary_encode())
    assert fingerprint(coded) == expected
    assert fingerprint(table.slice(100)) == fingerprint(table.take(list(range(100, 300))))


@pytest.mark.parametrize(
    ("row", "column", "cell"),
    [(0, "drink", "coffee"), (2, "drink", "tea"), (299, "age", 0), (89, "story", "y" * 89)],
)
def test_one_cell_counts(table: pa.Table, row: int, column: str, cell: object) -> None:
    changed = {name: list(cells) for name, cells in ROWS.items()}
    changed[column][row] = cell
    assert fingerprint(pa.table(changed)) != fingerprint(table)


def test_cells_belong_to_their_row_and_column_and_rows_are_counted() -> None:
    one = {"a": ["x", "y"], "b": ["p", "q"]}
    others: list[dict[str, list[str]]] = [
        {"a": ["x", "y"], "b": ["q", "p"]},
        {"a": ["p", "q"], "b": ["x", "y"]},
        {"a": ["x", "y", "y"], "b": ["p", "q", "q"]},
        {"c": ["x", "y"], "b": ["p", "q"]},
        {"a": ["xp", "y"], "b": ["", "q"]},
    ]
    seen = {fingerprint(table) for table in [one, *others]}
    assert len(seen) == 1 + len(others)


def test_another_key_tells_nothing(table: pa.Table) -> None:
    assert fingerprint(table) != fingerprint(table, key=b"another")


def test_lists_and_a_second_reading(tmp_path: Path) -> None:
    table = pa.table({"flags": [["a", "b"], [], None, ["b"]]})
    assert fingerprint(table) == fingerprint(table.take([3, 2, 1, 0]))
    assert fingerprint(table) != fingerprint(pa.table({"flags": [["b", "a"], [], None, ["b"]]}))
    (tmp_path / "t.csv").write_text("a\n1\n2\n")
    seen = Fingerprint(b"key")
    watched = seen.watch(open_table(tmp_path / "t.csv"))
    values = []
    for _ in range(2):
        for _ in watched.batches(["a"]):
            pass
        values.append(seen.value)
    assert values[0] == values[1] == fingerprint(tmp_path / "t.csv")


def answers_fingerprint(columns: dict[str, list[Any]], **named: str) -> bytes:
    questions: dict[str, Question] = {
        "drink": Choice(["tea", "coffee"], missing="count"),
        "age": Number(0, 100, unit="years"),
        "likes": Flags([f"thing {number}" for number in range(63)], missing="count"),
    }
    table = open_table(pa.table(columns))
    places = dict(zip(questions, find_columns(questions, table, named or None), strict=True))
    seen = Fingerprint(b"key", answers_in(places))
    for _ in seen.watch(table).batches([one.columns[0] for one in places.values()], rows=64):
        pass
    return seen.value


def test_answers_have_no_spelling_and_no_column() -> None:
    likes = [["thing 7", "thing 62"], ["thing 1"], ["thing 62"]] * 100
    columns: dict[str, list[Any]] = {"drink": ROWS["drink"], "age": ROWS["age"], "likes": likes}
    expected = answers_fingerprint(columns)
    spaced = [None if cell is None else f" {cell} " for cell in ROWS["drink"]]
    assert answers_fingerprint(columns | {"drink": spaced}) == expected
    assert (
        answers_fingerprint(columns | {"age": [f"{cell}.0" for cell in columns["age"]]}) == expected
    )
    written = ["; ".join(reversed(cell)) for cell in likes]
    assert answers_fingerprint(columns | {"likes": written}) == expected
    renamed = {"likes": likes, "Getränk": ROWS["drink"], "age": ROWS["age"], "id": ROWS["id"]}
    assert answers_fingerprint(renamed, drink="Getränk") == expected
    for name, cell in (("drink", "coffee"), ("age", 1), ("likes", ["thing 61", "thing 7"])):
        changed = [cell, *columns[name][1:]]
        assert answers_fingerprint(columns | {name: changed}) != expected, name


def whole_fingerprint(columns: dict[str, Any]) -> bytes:
    seen = Fingerprint(b"key")
    seen.read_all(open_table(columns), lambda *_: None)
    return seen.value


def test_all_columns_of_a_table_in_memory_count_by_row_and_by_value() -> None:
    """Of every two tables here a cell differs, or which cells share a row."""
    far = 2**53
    tables: list[dict[str, Any]] = [
        {"a": [1, 2], "b": [1, 2]},
        {"a": [1, 2], "b": [2, 1]},
        {"b": [1, 2], "a": [1, 3]},
        {"a": [1, 2, 2], "b": [1, 2, 2]},
        {"a": [1, 2], "c": [1, 2]},
        {"a": [1, 2], "b": [1, None]},
        {"a": [1, 2], "b": [1, 0]},
        {"a": [1, 2], "b": [1, -2]},
        {"a": [1, 2], "b": [1, 2.5]},
        {"a": [1, 2], "b": [1, math.inf]},
        {"a": [1, 2], "b": [1, far]},
        {"a": [1, 2], "b": [1, far + 1]},
        {"a": [1, 2], "b": ["1", "2"]},
        {"a": [1, 2], "b": pa.array([1, 2], pa.timestamp("s"))},
        {"a": [1, 2], "b": pa.array([1_000_000_001, 2_000_000_000], pa.timestamp("ns"))},
        {"a": [1, 2], "b": pa.array([1, 2], pa.date32())},
    ]
    assert len({whole_fingerprint(one) for one in tables}) == len(tables)
    same: list[dict[str, Any]] = [
        {"b": [2, 1], "a": [2, 1]},
        {"a": [1.0, 2.0], "b": pa.array([1, 2], pa.int8())},
        {"a": [1, 2], "b": pa.array([1, 2], pa.uint64()).dictionary_encode()},
        {"a": [1, 2], "b": [1, 2], "gaps": [None, math.nan], "sets": {1, 2}},
    ]
    assert {whole_fingerprint(one) for one in same} == {whole_fingerprint(tables[0])}
    days = {
        pa.date32(): [1, 2],
        pa.date64(): [86_400_000, 172_800_000],
        pa.timestamp("ms"): [86_400_000, 172_800_000],
        pa.timestamp("ns", "UTC"): [86_400 * 10**9, 172_800 * 10**9],
    }
    found = {whole_fingerprint({"a": pa.array(held, kind)}) for kind, held in days.items()}
    assert len(found) == 1
