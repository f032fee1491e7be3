"""Cells that count as something else than what they hold are counted, whatever path reads them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa

from chaffinch.encoding.bulk import find_columns
from chaffinch.questions import Bit, Choice, Cross, Flags, Number, Question
from chaffinch.tables.checking import check_answers, settle_numbers
from chaffinch.tables.dialect import Settings
from chaffinch.tables.people import sample_people
from chaffinch.tables.read import open_table
from chaffinch.tables.substitutions import Counted, Substitutions
from tests.cases import each_case

OTHER = Choice(["tea", "NA", "other"], missing="other", unknown="other")


def counted(question: Question, column: Any, **settings: Any) -> dict[str, int]:
    """Return what is counted of a column, without zeros."""
    table = open_table({"v": column, "w": column}, settings=Settings(**settings))
    table = settle_numbers(table, find_columns({"v": question}, table, {"v": "v"}))
    return _read({"v": question}, table).get("v", {})


def _read(questions: Mapping[str, Question], table: Any) -> dict[str, dict[str, int]]:
    """Return what is counted of each column, without zeros."""
    substitutions = Substitutions()
    check_answers(table, find_columns(questions, replace(table, substitutions=substitutions), None))
    return {
        column: one.nonzero for name in questions for column, one in substitutions.of(name).items()
    }


@each_case(
    ("question", "column", "found"),
    [
        (Bit("no"), ["yes", "", "NA", None], {"missing": 3}),
        (Bit("count"), [True, None, False], {"missing": 1}),
        (Bit("count"), ["yes", "no"], {}),
        (OTHER, ["tea", "NA", "", "mate", "mate", None], {"missing": 2, "unknown": 2}),
        (OTHER, pa.array(["mate", "", "mate"]).dictionary_encode(), {"missing": 1, "unknown": 2}),
        (Choice(range(3), missing="count"), [1, None, 2], {"missing": 1}),
        (Choice(range(3), missing="count"), ["1", "NA", "2"], {"missing": 1}),
        (Choice(range(3), unknown=0), [1, 7, 8], {"unknown": 2}),
        (Choice.of_dates("quarter", missing="Q1"), ["2024-03-05", ""], {"missing": 1}),
        (Number(0, 9, missing=3, clip=True), [1, None, 10, -1, 9], {"missing": 1, "clipped": 2}),
        (Number(0, 9, missing=3, clip=True), ["1", "NA", "10"], {"missing": 1, "clipped": 1}),
        (Number(0, 9, missing="count"), [1.5, float("nan")], {"missing": 1}),
        (Flags(["a", "b"], missing="none"), ["a;b", "", "b"], {"missing": 1}),
        (Flags(["a", "b"], missing="count"), [["a"], None, []], {"missing": 1}),
    ],
)
def test_cells_are_counted(question: Question, column: Any, found: dict[str, int]) -> None:
    assert counted(question, column) == found


def test_numbers_as_people_write_them_are_counted() -> None:
    column = ["1.234,50", "", "1.100,00", "5.000,00"]
    question = Number(0, 2000, missing="count", clip=True)
    assert counted(question, column, decimal=",") == {"missing": 1, "clipped": 1}


def test_each_column_of_a_cross_or_of_flags_is_counted() -> None:
    table = open_table({"a": ["yes", None, None], "b": [None, "no", "yes"], "c": [1, 20, 3]})
    flags = {"f": Flags(["a", "b"], missing="none")}
    assert _read(flags, table) == {"a": {"missing": 2}, "b": {"missing": 1}}
    cross = {"x": Cross({"b": Bit("count"), "c": Number(0, 9, clip=True)}, levels=4)}
    assert _read(cross, table) == {"b": {"missing": 1}, "c": {"clipped": 1}}


def test_many_batches_are_added_up_and_drawn_rows_too() -> None:
    rows = 200_000
    table = open_table({"who": [str(i % 9) for i in range(rows)], "v": ["mate", "tea"] * 100_000})
    substitutions = Substitutions()
    (place,) = find_columns({"v": OTHER}, open_table({"v": []}), None)
    places = [replace(place, substitutions=substitutions)]
    check_answers(table, places)
    sample_people(table, "who", places=places)
    assert substitutions.of("v") == {"v": Counted(2 * rows, unknown=rows)}
    assert substitutions.of("w") == {}


def test_what_is_said_names_columns_and_warns_beyond_half() -> None:
    substitutions = Substitutions()
    substitutions.add("city", "town", Counted(10, missing=2, unknown=3))
    assert substitutions.warnings == []
    first, note = substitutions.words
    assert first == (
        "column 'town', 10 cells: 2 blank (counted by `missing`), 3 not listed (counted as "
        "`unknown`)"
    )
    assert "no release tells them" in note
    substitutions.add("city", "town", Counted(1, clipped=1))
    (warning,) = substitutions.warnings
    assert warning.startswith("warning: more than half of column 'town'")
    assert Substitutions().words == []
