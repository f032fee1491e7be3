"""Opening a table of answers: its columns, its formats, its people, and a check of every cell."""

from __future__ import annotations

import math
import os
from collections.abc import Collection as Named
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from chaffinch.disk.inputs import require_input
from chaffinch.encoding.bulk import find_columns, group_rows
from chaffinch.errors import BatchTooSmall, InvalidInput, InvalidTable, Reason, checks
from chaffinch.runs.privacy_unit import PrivacyUnit
from chaffinch.tables.checking import AnswerColumns, check_answers, settle_numbers
from chaffinch.tables.dialect import Settings, joined
from chaffinch.tables.people import sample_people
from chaffinch.tables.read import Table, open_table

if TYPE_CHECKING:
    from chaffinch.questions import Question
    from chaffinch.runs.asked import Collection
    from chaffinch.runs.listener import Listener
    from chaffinch.tables.people import People
    from chaffinch.tables.substitutions import Substitutions

_MANY = 2
"""With so many times the rows that are needed, a larger `users` gives a smaller error."""


@dataclass(frozen=True)
class TableInput:
    """A table that was not opened yet, with what the caller says of its format and its people."""

    source: Any = field(repr=False)
    """A path, ``-`` for the pipe, an address, a stream, or anything of ``tables.objects``."""
    format: str | None = None
    settings: Settings = field(default_factory=Settings)
    columns: Mapping[str, str] = field(default_factory=dict)
    """The column that answers a question, where it has another name."""
    person: str | None = None
    rows_are_people: bool = False

    def __post_init__(self) -> None:
        people = checks.truth("rows_are_people", self.rows_are_people)
        object.__setattr__(self, "rows_are_people", people)

    def joined_settings(self, before: Settings | None) -> Settings:
        """Return the settings of the caller, completed by those of the survey (``before``)."""
        return self.settings if before is None else joined(self.settings, before)

    def open(self, listener: Listener, before: Settings | None = None) -> Table:
        """Open the table and report every guess about its format.

        ``before`` has the settings of the survey.
        """
        if isinstance(self.source, (str, os.PathLike)):
            require_input(os.fspath(self.source), "answers")
        table = open_table(self.source, format=self.format, settings=self.joined_settings(before))
        for words in table.notes:
            listener.say(f"the table: {words}")
        return table


@dataclass(frozen=True)
class AnswerTable:
    """An open table with the columns of its answers and its privacy unit."""

    asked: Collection
    table: Table
    columns: Mapping[str, str]
    """The columns that the survey or the caller has named."""
    privacy_unit: PrivacyUnit

    @property
    def answer_columns(self) -> dict[str, AnswerColumns]:
        """Return the columns of each question; refuse one that is not in the table."""
        found = _find_columns(self.asked.questions, self.table, self.columns)
        return dict(zip(self.asked.questions, found, strict=True))

    def of_chosen_group(self) -> AnswerTable:
        """Return the rows of the chosen public group, or all rows."""
        found, _ = group_rows(self.asked.group, self.table, self.columns)
        return replace(self, table=found)

    def check(self, listener: Listener, substitutions: Substitutions | None = None) -> Table:
        """Return the rows that count; refuse all faulty cells of a table at once, and too few rows.

        This comes before planning, so a faulty table costs no time. Where a column identifies
        people, some rows of each are drawn, once for the whole run. ``substitutions`` counts the
        cells of all rows that count as something else than they hold.
        """
        if self.privacy_unit.person is not None:
            found = self.draw(listener, substitutions)
            self._check_crowd(found.people, listener, of_people=found.contributions)
            return found.table
        places = self._counted_columns(substitutions)
        if self.table.rows is not None:
            self._check_crowd(self.table.rows)
        with listener.counting("checking", "rows") as tell:
            rows = check_answers(self.table, places, progress=tell)
        self._check_crowd(rows, listener)
        return replace(self.table, rows=rows)

    def draw(self, listener: Listener, substitutions: Substitutions | None = None) -> People:
        """Return some rows of everybody, drawn at random; refuse all faulty cells at once."""
        places = self._counted_columns(substitutions)
        person, contributions = self.privacy_unit.person or "", self.privacy_unit.contributions
        with listener.counting("checking", "rows") as tell:
            found = sample_people(self.table, person, contributions, places=places, progress=tell)
        listener.say(found.words)
        return found

    def _counted_columns(self, substitutions: Substitutions | None) -> tuple[AnswerColumns, ...]:
        table = replace(self.table, substitutions=substitutions)
        return _find_columns(self.asked.questions, table, self.columns)

    def _check_crowd(
        self, have: int, listener: Listener | None = None, *, of_people: int = 0
    ) -> None:
        """Refuse too few rows, or people with so many each; say where there are far more."""
        need = math.ceil(self.asked.reports / max(of_people, 1))
        counted = "people" if of_people else "rows"
        if have < need:
            group = self.asked.group
            chosen = None if group is None else group.value
            of_group = "" if chosen is None else f" of the group {chosen!r}"
            raise BatchTooSmall(have=have, need=need, counted=f"{counted}{of_group}")
        # All public groups together say nothing of how large each of them is.
        if listener is not None and not self.asked.is_of_all_groups and have >= _MANY * need:
            listener.say(
                f"hint: there are at least twice as many {counted} as `users` counts on; if about "
                "how many there are may be public, a larger `users` gives a smaller error"
            )


def open_answers(asked: Collection, given: TableInput, listener: Listener) -> AnswerTable:
    """Open a table, find the columns of its answers, and report how they are read."""
    columns = named_columns(asked, given)
    unit = asked.unit_of(given.person, rows_are_people=given.rows_are_people)
    table = given.open(listener, asked.settings)
    return AnswerTable(asked, read_as_asked(asked, table, columns, listener), columns, unit)


def named_columns(asked: Collection, given: TableInput) -> dict[str, str]:
    """Return which column answers which question, as far as the survey or the caller says."""
    if not isinstance(given.columns, Mapping):
        raise InvalidInput(
            "columns", "a mapping from questions to columns", given.columns,
            hint="{'question': 'column'}",
        )  # fmt: skip
    unknown = [name for name in given.columns if name not in asked.questions]
    if unknown:
        listed = ", ".join(map(repr, asked.questions))
        raise InvalidInput("question of a column", f"one of {listed}", unknown[0])
    return {**asked.columns, **given.columns}


def read_as_asked(
    asked: Collection, table: Table, columns: Mapping[str, str], listener: Listener
) -> Table:
    """Return the table with the formats of its numbers settled; report every guess."""
    places = _find_columns(asked.questions, table, columns)
    settled = settle_numbers(table, places)
    for words in settled.notes[len(table.notes) :]:
        listener.say(f"the table: {words}")
    return settled


def _find_columns(
    questions: Mapping[str, Question], table: Table, columns: Mapping[str, str]
) -> tuple[AnswerColumns, ...]:
    with _with_column_hint(questions, columns):
        found = find_columns(questions, table, columns or None)
        for place in found:
            table.batches(place.columns)
    return found


@contextmanager
def _with_column_hint(questions: Named[str], named: Named[str]) -> Iterator[None]:
    try:
        yield
    except InvalidTable as error:
        column = error.column
        unknown = error.reason is Reason.UNKNOWN_COLUMN
        if not unknown or column not in questions or column in named:
            raise
        error.add_to_hint(
            f"; if the answers are in another column, add --map {column}=COLUMN (columns=...)"
        )
        raise
