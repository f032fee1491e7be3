"""All faulty cells of a table are counted, whatever it is kept in, and none is shown."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaffinch.encoding.bulk import find_columns
from chaffinch.errors import CellFaults, InvalidAnswer, InvalidCells, InvalidTable
from chaffinch.questions import Bit, Choice, Flags, Number, Question
from chaffinch.tables.answers import numbers_of
from chaffinch.tables.cell_faults import Faults, all_faults
from chaffinch.tables.checking import AnswerColumns, check_answers
from chaffinch.tables.read import open_table
from chaffinch.tables.spellings import near_value
from chaffinch.tables.substitutions import Substitutions
from tests.cases import each_case
from tests.meta import repository
from tests.tables.test_answers import CANARY, QUESTIONS, TYPES, single
from tests.tiers import slower, some

PLACES = [
    AnswerColumns(Number(0, 60, missing="refuse"), ("age",), "age"),
    AnswerColumns(Choice(["tea", "coffee"], missing="count"), ("drink",), "drink"),
]


def refused(question: Question, column: Any) -> dict[str, list[int]]:
    """Return the rows that a question refuses one by one, by the rule that they break."""
    found: dict[str, list[int]] = {}
    for row, answer in enumerate(column.to_pylist(), start=1):
        try:
            single(question, answer)
        except InvalidAnswer as error:
            found.setdefault(error.must_be, []).append(row)
    return found


def faults_of(question: Question, column: Any, **options: Any) -> tuple[CellFaults, ...]:
    """Return what is told of a column."""
    try:
        numbers_of(question, column, name="q", **options)
    except InvalidCells as error:
        return error.faults
    return ()


@each_case("kind", some(TYPES, *list(TYPES)[1::2]))
@slower
@given(data=st.data())
def test_columns_refuse_the_very_cells_that_questions_do(kind: str, data: st.DataObject) -> None:
    arrow, values = TYPES[kind]
    listed = data.draw(st.lists(values | st.none(), max_size=9))
    column = pa.array(listed, arrow)
    start = data.draw(st.integers(0, len(listed)))
    for question in QUESTIONS:
        parts = pa.chunked_array([column.slice(0, start), column.slice(start)])
        found = {one.must_be: one for one in faults_of(question, parts)}
        expected = refused(question, column)
        assert {rule: one.count for rule, one in found.items()} == {
            rule: len(rows) for rule, rows in expected.items()
        }
        assert {rule: list(one.rows) for rule, one in found.items()} == {
            rule: rows[:5] for rule, rows in expected.items()
        }


def people(count: int) -> pa.Table:
    ages = ["30"] * count
    drinks = ["tea"] * count
    ages[count // 2] = ages[-1] = CANARY
    ages[3] = ""
    drinks[5] = CANARY
    return pa.table({"age": ages, "drink": drinks})


@pytest.mark.parametrize("kind", ["csv", "parquet", "arrow", "mapping"])
def test_every_batch_is_read(tmp_path: Path, kind: str) -> None:
    table = people(150_000)
    source: Any = tmp_path / f"people.{kind}"
    if kind == "csv":
        rows = zip(*table.to_pydict().values(), strict=True)
        source.write_text("age,drink\n" + "".join(f"{age},{drink}\n" for age, drink in rows))
    elif kind == "parquet":
        pq.write_table(table, source)
    else:
        source = table if kind == "arrow" else table.to_pydict()
    told = []
    with pytest.raises(InvalidCells) as caught:
        check_answers(open_table(source), PLACES, progress=lambda done, _: told.append(done))
    assert [(one.column, one.must_be, one.count, one.rows) for one in caught.value.faults] == [
        ("age", "given, not missing", 1, (3,)),
        ("drink", "one of the values of the question", 1, (5,)),
        ("age", "a number", 2, (75_000, 149_999)),
    ]
    assert CANARY not in str(caught.value)
    assert told[-1] == 150_000
    assert told == sorted(told)


def test_a_good_table_has_its_rows_counted() -> None:
    assert check_answers(open_table({"age": [1] * 7, "drink": ["tea"] * 7}), PLACES) == 7


def test_what_ends_the_reading_is_told_with_the_faults_before_it(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_text("age,drink\n" + f"{CANARY},tea\n" * 300_000 + "1\n")
    with pytest.raises(InvalidCells) as caught:
        check_answers(open_table(path), PLACES)
    assert isinstance(caught.value.stopped, InvalidTable)
    assert "then reading stopped: The table must be one with 2 cells" in str(caught.value)
    assert "row 300002, as a spreadsheet counts" in str(caught.value)
    path.write_text("age,drink\n1,tea\n1\n")
    with pytest.raises(InvalidTable, match="2 cells in every row"):
        check_answers(open_table(path), PLACES)


def test_flags_in_columns_of_their_own_tell_all_faults() -> None:
    columns = {"a": pa.array(["yes", CANARY, CANARY]), "b": pa.array([CANARY, "no", "no"])}
    with pytest.raises(InvalidCells) as caught:
        numbers_of(Flags(["a", "b"]), columns, name="q")
    assert [(one.column, one.count) for one in caught.value.faults] == [("b", 1), ("a", 2)]


DRINKS = Choice(["green tea", "café", "Straße", "5 €"])


@pytest.mark.parametrize(
    ("cell", "near"),
    [
        ("Green tea ", "the listed 'green tea' by case"),
        ("green  tea", "the listed 'green tea' by spaces"),
        ("green\u00a0tea", "the listed 'green tea' by spaces"),
        ("GREEN\u2009Tea\u200b", "the listed 'green tea' by case and spaces"),
        ("cafe\u0301", "the listed 'café' by the Unicode form of its letters"),
        ("\uff43afe\u0301", "the listed 'café' by the Unicode form of its letters"),
        ("STRASSE", "the listed 'Straße' by case"),
        ("mate", ""),
        ("green", ""),
    ],
)
def test_a_value_in_another_spelling_is_told_by_the_listed_one(cell: str, near: str) -> None:
    assert near_value(DRINKS, cell) == near
    assert near_value(Flags(["café", "green tea"]), f"{cell}; x") == near * (cell != "STRASSE")
    with pytest.raises(InvalidCells) as caught:
        numbers_of(DRINKS, pa.array([cell, "café", cell]), name="drink")
    (fault,) = caught.value.faults
    assert fault.count == 2
    assert fault.hint == (f"differs from {near}" if near else fault.hint)
    assert cell not in str(caught.value) or cell == "green"
    assert ("'One spelling for each value' in the guide" in caught.value.hint) == bool(near)


def test_the_recipe_that_a_hint_names_is_in_the_guide() -> None:
    page = repository.ROOT / "docs" / "guides" / "a-table-of-people.md"
    assert "## One spelling for each value" in page.read_text("utf-8")


def test_other_spellings_that_count_as_unknown_are_told() -> None:
    question = Choice(["tea", "other"], unknown="other")
    cells = ["Tea", "TEA", "mate", "tea", "tea"] * 20_000
    counted = Substitutions()
    places = find_columns({"drink": question}, open_table({"drink": cells}), None)
    check_answers(
        open_table({"drink": cells}), [replace(one, substitutions=counted) for one in places]
    )
    near = "though they differ from the listed 'tea' by case alone: 40,000"
    assert [words.endswith(near) for words in counted.warnings] == [False, True]
    assert "mate" not in str(counted.words)


def test_of_many_kinds_of_faults_some_are_told() -> None:
    names = [f"value {number}" for number in range(50)]
    with pytest.raises(InvalidCells) as caught:
        numbers_of(Choice(names), pa.array([one.upper() for one in names]), name="q")
    assert len(caught.value.faults) == 50
    assert str(caught.value).count("differs from") == 20
    assert "and 30 more kinds of faults" in str(caught.value)


def test_one_fault_is_told_as_ever() -> None:
    with pytest.raises(InvalidCells) as caught:
        numbers_of(Bit(), pa.array(["yes", CANARY]), name="tea", first_row=11)
    assert str(caught.value).startswith("The answer in column 'tea', row 12, must be yes or no")
    assert (caught.value.column, caught.value.row) == ("tea", 12)


def test_faults_of_many_threads_are_counted_once_each() -> None:
    faults = Faults()

    def add(first: int) -> None:
        for row in range(first, 1000, 4):
            faults.add("a", "a number", "", np.array([row + 1]))

    threads = [threading.Thread(target=add, args=(first,)) for first in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with pytest.raises(InvalidCells) as caught:
        faults.refuse()
    assert [(one.count, one.rows) for one in caught.value.faults] == [(1000, (1, 2, 3, 4, 5))]


def test_other_errors_pass_as_they_are() -> None:
    def fail() -> None:
        with all_faults() as faults:
            faults.add("a", "a number", "", np.array([1]))
            raise MemoryError

    with pytest.raises(MemoryError):
        fail()
