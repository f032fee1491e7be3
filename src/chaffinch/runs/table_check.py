"""Checking every cell of a table against a survey; all faults are reported at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from chaffinch.cards import card, paragraph
from chaffinch.cards import table as table_html
from chaffinch.charts.rounding import count_of
from chaffinch.errors import InvalidCells, InvalidTable
from chaffinch.runs.answer_table import TableInput, open_answers
from chaffinch.runs.listener import Callbacks
from chaffinch.runs.opened_survey import open_collection
from chaffinch.tables.arrays import values_of
from chaffinch.tables.checking import answer_batches, read_answers
from chaffinch.tables.dialect import settings_from
from chaffinch.tables.substitutions import Substitutions

if TYPE_CHECKING:
    import pyarrow as pa

    from chaffinch.disk.files import AnyPath
    from chaffinch.plans.plan import Plan
    from chaffinch.plans.protected_units import Unit
    from chaffinch.runs.asked import Collection
    from chaffinch.runs.listener import Listener
    from chaffinch.tables.checking import AnswerColumns

_HEADS = {"missing": "blank", "unknown": "unlisted", "clipped": "clipped"}
"""What the counts of cells that count as something else are called."""
_TEXTS = 3
"""So many columns of the table are words."""


@dataclass(frozen=True)
class CheckedQuestion:
    """The columns of a question, and how many cells count as something else than they hold."""

    name: str
    kind: str
    columns: tuple[str, ...]
    counted: Mapping[str, Mapping[str, int]]
    """By column, if there are any: the number of its cells, and how many of them are blank
    (``missing``), not listed (``unknown``) or ``clipped``."""

    def document(self) -> dict[str, Any]:
        """Return the facts about the question, as in JSON."""
        found = {"question": self.name, "kind": self.kind, "columns": list(self.columns)}
        counts = [{"column": column, **counted} for column, counted in self.counted.items()]
        return {**found, "counted": counts} if counts else found


@dataclass(frozen=True)
class TableCheck:
    """The facts about a table in which every cell answers its question.

    Its counts are exact counts of private data: keep them to whoever holds the table.
    """

    rows: int
    """The number of reports: rows of the table, or rows that are drawn of each person."""
    rows_needed: int
    protected: Unit
    """What a release of it protects: a person, or only a row."""
    of_people: bool
    """Whether a column identifies people, of whom some rows are drawn."""
    notes: tuple[str, ...]
    """Every guess about the format of the table."""
    warnings: tuple[str, ...]
    """Warnings about columns in which most cells count as something else."""
    advice: str
    """How to protect people, where only rows are protected; otherwise empty."""
    questions: tuple[CheckedQuestion, ...]

    @property
    def answers_plainly(self) -> bool:
        """Return whether no cell counts as something else than what it holds."""
        return not any(one.counted for one in self.questions)

    @property
    def verdict(self) -> str:
        """Return what was found, in a sentence."""
        plain = "every cell answers its question."
        if not self.answers_plainly:
            plain = (
                "every cell answers its question, or counts as the survey says; how many do stands "
                "above. These are exact counts of private data, for whoever holds the table alone; "
                "no release tells them."
            )
        counted = count_of(self.rows, "report" if self.of_people else "row")
        return f"{counted}, {self.rows_needed:,} needed; {plain}"

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Return heads and rows: a row for each question, the first three columns in words."""
        told = {
            how: words
            for how, words in _HEADS.items()
            if any(how in one for asked in self.questions for one in asked.counted.values())
        }
        rows = []
        for asked in self.questions:
            sums = [sum(one.get(how, 0) for one in asked.counted.values()) for how in told]
            shown = [f"{number:,}" if number else "" for number in sums]
            rows.append([asked.name, asked.kind, ", ".join(asked.columns), *shown])
        return ["question", "kind", "column", *told.values()], rows

    def __str__(self) -> str:
        """Return what ``chaffinch check`` prints: the table, and what was found."""
        heads, rows = self.table()
        wide = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
        lines = [
            "  ".join(
                cell.ljust(width) if place < _TEXTS else cell.rjust(width)
                for place, (cell, width) in enumerate(zip(row, wide, strict=True))
            ).rstrip()
            for row in (heads, *rows)
        ]
        notes = [*self.warnings, *([f"Note: {self.advice}."] if self.advice else [])]
        return "\n".join([*lines, "", self.verdict, *notes])

    def _repr_html_(self) -> str:
        heads, rows = self.table()
        notes = [*self.notes, *(f"Warning: {words}" for words in self.warnings), self.advice]
        verdict = paragraph(self.verdict)
        return card("Checked table", table_html(heads, rows, words=_TEXTS), verdict, notes=notes)

    def document(self) -> dict[str, Any]:
        """Return what ``chaffinch check --json`` prints."""
        return {
            "rows": self.rows,
            "protected": self.protected,
            "rows_needed": self.rows_needed,
            "notes": list(self.notes),
            "questions": [one.document() for one in self.questions],
        }


def check(  # noqa: PLR0913 - what the command has options for
    table: Any,
    survey: AnyPath | Plan,
    *,
    columns: Mapping[str, str] | None = None,
    person: str | None = None,
    rows_are_people: bool = False,
    as_devices: bool = False,
    format: str | None = None,  # noqa: A002
    written: Mapping[str, Any] | None = None,
    tell: Callable[[str], object] | None = None,
    progress: Callable[[str], object] | None = None,
) -> TableCheck:
    """Check every cell of a table against a survey or a plan, before anything is planned.

    All faults are raised in one ``InvalidTable``: how many cells of which column break which rule,
    and the first rows. The content of cells is never shown. Too few rows are refused
    (``BatchTooSmall``). The result counts the cells that are no faults but count as something else
    than they hold. The arguments are those of ``run``. Nothing is recorded, planned or released.

    >>> import chaffinch as cf
    >>> plan = cf.plan(cf.Survey({"tea": cf.Bit()}), users=200, target=cf.Target(2, 1e-6))
    >>> found = check({"tea": ["yes", "no"] * 100}, plan)
    >>> found.rows, found.rows_needed, found.protected
    (200, 200, 'row')
    >>> print(str(found).partition("Note")[0].strip())
    question  kind  column
    tea       bit   tea
    <BLANKLINE>
    200 rows, 200 needed; every cell answers its question.
    """
    listener = Callbacks(tell, progress)
    asked = open_collection(survey, None, listener, as_devices=as_devices)
    settings = settings_from({} if written is None else written)
    given = TableInput(table, format, settings, columns or {}, person, rows_are_people)
    return check_table(asked, given, listener)


def check_table(asked: Collection, given: TableInput, listener: Listener) -> TableCheck:
    """Check every cell of a table, and return the facts about it."""
    answers, substitutions = open_answers(asked, given, listener), Substitutions()
    rows = answers.check(listener, substitutions).rows or 0
    for words in substitutions.warnings:
        listener.say(words)
    unit, table = answers.privacy_unit, answers.table
    return TableCheck(
        rows=rows,
        rows_needed=asked.reports,
        protected=unit.unit,
        of_people=unit.person is not None,
        notes=table.notes,
        warnings=tuple(substitutions.warnings),
        advice=unit.hint(table, asked.group) if unit.unit == "row" else "",
        questions=tuple(
            _question(name, place, substitutions) for name, place in answers.answer_columns.items()
        ),
    )


@dataclass(frozen=True)
class FaultySpelling:
    """What some faulty cells of a column hold: private, for whoever holds the table."""

    column: str
    cell: object
    cells: int
    """How many cells hold it."""
    row: int
    """The first of their rows, counted as messages count them."""


def faulty_spellings(asked: Collection, given: TableInput) -> list[FaultySpelling]:
    """Return what faulty cells hold, each spelling once; of a column the most frequent first.

    They are private: for whoever holds the table and asks for them, and for nobody else.
    """
    answers = open_answers(asked, given, Callbacks())
    places = list(answers.answer_columns.values())
    found: list[_Spellings] = [{} for _ in places]
    with suppress(InvalidTable):  # of a table that breaks off, what was found up to there
        for first, batch in answer_batches(answers.table, places):
            for place, known in zip(places, found, strict=True):
                _add_spellings(known, place, first, batch)
    return [
        one
        for known in found
        for one in sorted(known.values(), key=lambda one: (one.column, -one.cells, one.row))
    ]


_Spellings = dict[tuple[str, str], FaultySpelling]
_MOST_SPELLINGS = 50
"""So many spellings are looked for in the columns of a question: a column of other data has one
for each row."""


def _add_spellings(
    known: _Spellings, place: AnswerColumns, first: int, batch: pa.RecordBatch
) -> None:
    """Count the faulty spellings of a batch. A check tells the first few, so it is repeated."""
    alone = len(place.columns) == 1
    cells = {
        place.shown if alone else column: values_of(batch.column(column))
        for column in place.columns
    }
    keys = {name: [(name, repr(cell)) for cell in column] for name, column in cells.items()}
    left, faulty = np.arange(batch.num_rows), set(known)
    while len(faulty) < _MOST_SPELLINGS:
        plain = [all(own[row] not in faulty for own in keys.values()) for row in left]
        left = left[plain]
        try:
            read_answers([place], 1, batch.take(left))
        except InvalidCells as error:
            faulty |= {
                keys[one.column][left[place.row_numbers.place(row)]]
                for one in error.faults
                for row in one.rows
            }
        else:
            break
    for name, own in keys.items():
        times = Counter(own)
        for key in faulty.intersection(times):
            row = own.index(key)
            shown = place.row_numbers.of(first + row)
            before = known.get(key) or FaultySpelling(name, cells[name][row], 0, shown)
            known[key] = replace(before, cells=before.cells + times[key])


def _question(name: str, place: AnswerColumns, substitutions: Substitutions) -> CheckedQuestion:
    counted = {
        column: {"cells": found.cells, **found.nonzero}
        for column, found in substitutions.of(name).items()
    }
    # The name of a column that nobody asked for may be a cell.
    columns = place.columns if len(place.columns) > 1 else (place.shown,)
    return CheckedQuestion(name, place.question.kind, tuple(columns), counted)
