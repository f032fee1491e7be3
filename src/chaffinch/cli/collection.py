"""What is to be collected, and the table that answers it: looked at before anything is planned."""

from __future__ import annotations

import json
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

import chaffinch as cf
from chaffinch.cli import paths
from chaffinch.cli.output import Output
from chaffinch.disk.files import atomic, read_small
from chaffinch.errors import BatchTooSmall, ChaffinchError, InvalidInput, Unquoted

if TYPE_CHECKING:
    from chaffinch.planning.survey_file import SurveyFile
    from chaffinch.plans.plan import Plan
    from chaffinch.plans.protected_units import Unit
    from chaffinch.questions import PublicGroup, Question
    from chaffinch.tables.checking import AnswerColumns
    from chaffinch.tables.people import People
    from chaffinch.tables.read import Table
    from chaffinch.tables.settings import Settings
    from chaffinch.tables.substitutions import Substitutions

PLAN = "survey.plan.json"
_NOTE = ".chaffinch-survey.json"
"""Beside a plan that was made for a survey: which survey, so that the same one has it again."""
_LONGEST_NOTE = 1 << 10
_MANY = 2
"""With so many times the rows that are needed, another plan is worth a thought."""
_LIKE_PEOPLE = re.compile(
    r"(user|person|people|customer|client|member|patient|visitor|device|account|subject)"
    r"[ _-]?(id|no|number|key)|e-?mail|uuid|guid|id",
    re.IGNORECASE | re.ASCII,
)
"""Names of columns that usually tell people apart."""


@Parameter(name="*")
@dataclass(frozen=True)
class TableOptions:
    """Where the answers are in a table."""

    column: str | None = None
    """The column with the answers to a single question."""
    map: Annotated[list[str] | None, Parameter(negative=())] = None
    """QUESTION=COLUMN, for each question whose column has another name."""
    format: str | None = None
    """csv, tsv, jsonl, parquet or arrow, where the file's name does not tell."""
    missing_values: str | None = None
    """The texts that stand for a missing answer, in any case, with commas between them; an empty
    cell always does. Otherwise those of the survey, or NA, N/A, #N/A, `<NA>`, NaN, null, None, ?
    and -. A value that a question lists is an answer, however it is spelled."""
    separator: str | None = None
    """Between the cells of a CSV file: comma, semicolon, tab or bar, where it is not certain."""
    encoding: str | None = None
    """utf-8, utf-16, latin-1 or cp1252, where the file does not tell."""
    line_breaks: Annotated[bool, Parameter(negative=(), show_default=False)] = False
    """Quoted cells may go on in the next line."""
    decimal: str | None = None
    """A point or a comma: what stands before the fraction of a number, where it is not certain."""
    thousands: str | None = None
    """What stands between thousands: a comma, a point, a space, an apostrophe, or none."""
    percent: str | None = None
    """What 12% is: the number 12 (number), or 0.12 (share)."""
    date_format: str | None = None
    """How dates are written (%d.%m.%Y), where the year does not come first."""
    person: str | None = None
    """The column that tells people apart, where one person may have many rows."""
    rows_are_people: Annotated[bool, Parameter(negative=(), show_default=False)] = False
    """Every row is another person."""

    def open(self, data: str | None, output: Output, before: Settings | None = None) -> Table:
        """Return the table in a file, or in what is piped in; say how it is read, if guessed.

        ``before`` is how the survey says that it is written.
        """
        from chaffinch.tables.read import open_table

        source = paths.input_source(data, "answers")
        table = open_table(source, format=self.format, settings=self.settings(before))
        for words in table.notes:
            output.say(f"the table: {words}")
        return table

    def settings(self, before: Settings | None = None) -> Settings:
        """Return how the table is written, as far as it was said."""
        from chaffinch.tables.settings import Settings, joined

        words = None if self.missing_values is None else tuple(self.missing_values.split(","))
        said = Settings(
            separator=self.separator,
            encoding=self.encoding,
            line_breaks=self.line_breaks,
            decimal=self.decimal,
            thousands=self.thousands,
            percent=self.percent,
            date_format=self.date_format,
            missing_values=words,
        )
        return said if before is None else joined(said, before)


@dataclass(frozen=True)
class PrivacyUnit:
    """Whose rows a table holds: of people whom a column tells apart, or of one person each."""

    person: str | None = None
    contributions: int = 1
    rows_are_people: bool = False

    def check(self) -> None:
        """Refuse what says two things, or too little."""
        if self.person is not None and self.rows_are_people:
            raise InvalidInput(
                "people", "told apart by a column or by rows, not by both", Unquoted("both")
            )
        if self.person is None and self.contributions > 1:
            raise InvalidInput(
                "people",
                "told apart by a column where each has several rows",
                Unquoted("no such column"),
                hint="name it: --person COLUMN, or `person` in the survey",
            )

    @property
    def unit(self) -> Unit:
        """Return what is protected."""
        return "person" if self.person is not None or self.rows_are_people else "row"

    def hint(self, table: Table, group: PublicGroup | None) -> str:
        """Return what to say where only rows are protected, with a column that looks like people.

        The names of columns are shown only where they are such a common word. Where groups are
        public no column can tell people apart.
        """
        if group is not None:
            return (
                "one row is protected, and not one person with several rows, in one public group "
                "or in several: make the group private with `by` and tell people apart with "
                "--person, or say with --rows-are-people that every row is another person"
            )
        likely = [name for name in table.columns if _LIKE_PEOPLE.fullmatch(name)]
        column = f", such as {likely[0]!r}" if likely else ""
        return (
            f"one row is protected, and not one person with several rows: --person COLUMN{column} "
            "tells people apart, --rows-are-people says that every row is another person"
        )


@dataclass(frozen=True)
class Collection(ABC):
    """What is asked of how many."""

    questions: Mapping[str, Question]
    reports: int
    """How many rows there must be."""
    named: Mapping[str, str]
    """The columns that the survey names."""
    table: Settings | None
    """How the survey says that the table is written."""
    rows: PrivacyUnit
    """What is said of whose rows they are."""
    group: PublicGroup | None
    """The question whose answers are public."""

    def whose(self, options: TableOptions) -> PrivacyUnit:
        """Return whose rows a table holds; options come before what the survey says."""
        found = self.rows
        if options.person is not None or options.rows_are_people:
            found = replace(found, person=options.person, rows_are_people=options.rows_are_people)
        found.check()
        if found.person is not None and self.group is not None:
            raise InvalidInput(
                "people",
                "told apart by rows where groups are public",
                Unquoted("a column of people"),
                hint="who has rows in several groups would be in several collections: make the "
                "group private with `by`",
            )
        return found

    def columns(self, options: TableOptions) -> dict[str, str]:
        """Return which column answers which question, as far as it was said."""
        names = list(self.questions)
        return {**self.named, **paths.answer_columns(names, options.column, options.map or [])}

    def answer_columns(self, table: Table, columns: Mapping[str, str]) -> tuple[AnswerColumns, ...]:
        """Return where each question is answered; refuse a column that is not there."""
        from chaffinch.encoding.bulk import find_columns

        with paths.explaining_columns(self.questions, columns):
            found = find_columns(self.questions, table, columns or None)
            for place in found:
                table.batches(place.columns)
        return found

    def resolve_formats(self, table: Table, columns: Mapping[str, str], output: Output) -> Table:
        """Return a table of which it is known, and said, how it is read."""
        from chaffinch.tables.checking import settle_numbers

        places = self.answer_columns(table, columns)
        if len(table.columns) == 1 and places[0].shown not in table.columns:
            # Its name is not told: of a table without a first line for names it is a cell.
            shown = places[0].shown
            output.say(f"the table: its only column, which has another name, answers {shown!r}")
        settled = settle_numbers(table, places)
        for words in settled.notes[len(table.notes) :]:
            output.say(f"the table: {words}")
        return settled

    def of_group(self, value: str) -> Collection:
        """Return what is asked of one public group."""
        if self.group is None:
            raise InvalidInput("group", "given for a survey with public groups only", value)
        return replace(self, group=replace(self.group, value=value))

    def planned_by(self, plan: Plan) -> Collection:
        """Return the same with a plan that was made for it."""
        return PlannedCollection(
            self.questions, self.reports, self.named, self.table, self.rows, self.group, plan
        )

    def _chosen(self, plan: Plan) -> Plan:
        """Return a plan for the public group that was chosen, or as it is."""
        value = None if self.group is None else self.group.value
        return plan if value is None else plan.of_group(value)

    def group_table(self, table: Table, columns: Mapping[str, str]) -> Table:
        """Return the rows of the public group that was chosen, or all."""
        from chaffinch.encoding.bulk import group_rows

        found, _ = group_rows(self.group, table, columns)
        return found

    def check(
        self,
        table: Table,
        columns: Mapping[str, str],
        whose: PrivacyUnit,
        output: Output,
        substitutions: Substitutions | None = None,
    ) -> Table:
        """Return the rows that count; refuse all faulty cells of a table at once, and too few rows.

        What is wrong with the table costs nothing here: nothing was planned yet. Of people some
        rows are drawn, which are the same ones from now on. ``substitutions`` counts cells that
        count as something else than what they hold, in all rows.
        """
        from chaffinch.tables.checking import check_answers

        if whose.person is not None:
            found = self.draw(table, columns, whose, output, substitutions)
            self._check_crowd(found.people, output, of_people=found.contributions)
            return found.table
        places = self.answer_columns(replace(table, substitutions=substitutions), columns)
        if table.rows is not None:
            self._check_crowd(table.rows)
        with output.counting("checking", "rows") as tell:
            rows = check_answers(table, places, progress=tell)
        self._check_crowd(rows, output)
        return replace(table, rows=rows)

    def draw(
        self,
        table: Table,
        columns: Mapping[str, str],
        whose: PrivacyUnit,
        output: Output,
        substitutions: Substitutions | None = None,
    ) -> People:
        """Return some rows of everybody, drawn at random; refuse all faulty cells at once."""
        from chaffinch.tables.people import sample_people

        places = self.answer_columns(replace(table, substitutions=substitutions), columns)
        person = whose.person or ""
        with output.counting("checking", "rows") as tell:
            found = sample_people(table, person, whose.contributions, places=places, progress=tell)
        output.say(found.words)
        return found

    def _check_crowd(self, have: int, output: Output | None = None, *, of_people: int = 0) -> None:
        """Refuse too few rows, or people with so many each; say where there are far more."""
        need = math.ceil(self.reports / max(of_people, 1))
        counted = "people" if of_people else "rows"
        if have < need:
            chosen = None if self.group is None else self.group.value
            group = "" if chosen is None else f" of the group {chosen!r}"
            raise BatchTooSmall(have=have, need=need, counted=f"{counted}{group}")
        # All public groups together say nothing of how large each of them is.
        whole = self.group is None or self.group.value is not None
        if output is not None and whole and have >= _MANY * need:
            output.say(
                f"hint: there are at least twice as many {counted} as `users` counts on; if about "
                "how many there are may be public, a larger `users` gives a smaller error"
            )

    @abstractmethod
    def make_plan(self, out: Path, output: Output, *, anyway: bool) -> Plan:
        """Return the plan: the one that was given, that was kept in a folder, or a new one."""

    @abstractmethod
    def keep_plan(self, out: Path, plan: Plan) -> None:
        """Keep a new plan where the same survey finds it, whatever becomes of its first run."""


@dataclass(frozen=True)
class PlannedCollection(Collection):
    """What a given plan asks; it is kept where it was."""

    plan: Plan

    def make_plan(self, out: Path, output: Output, *, anyway: bool) -> Plan:
        """Return the plan that was given."""
        del out, output, anyway
        return self._chosen(self.plan)

    def keep_plan(self, out: Path, plan: Plan) -> None:
        """Do nothing: it is kept where it was."""


@dataclass(frozen=True)
class _Unplanned(Collection):
    """A survey that has no plan yet, or one that an earlier run has kept."""

    survey: SurveyFile

    def make_plan(self, out: Path, output: Output, *, anyway: bool) -> Plan:
        kept = _kept_plan(out, self.survey, anyway=anyway or self.survey.anyway)
        if kept is None:
            with output.thinking("planning") as tell:
                return self._chosen(self.survey.plan(tell, anyway=anyway))
        output.say(f"using the plan that was made for this survey before: {out / PLAN}")
        for words in kept.warnings:
            output.say(f"warning: {words}")
        return self._chosen(kept)

    def keep_plan(self, out: Path, plan: Plan) -> None:
        if _kept_plan(out, self.survey, anyway=True) is None:
            plan.save(out / PLAN)
            note = json.dumps({"survey": self.survey.digest, "plan": plan.id})
            with atomic(out / _NOTE) as file:
                file.write(note.encode() + b"\n")


def planned_collection(plan: Plan) -> PlannedCollection:
    """Return what a plan asks."""
    rows = PrivacyUnit(contributions=plan.contributions)
    return PlannedCollection(_asked_of(plan), plan.reports, {}, None, rows, plan.group, plan)


def open_collection(path: Path, plan: Path | None, output: Output) -> Collection:
    """Return what a survey file or a plan file asks, with the plan if there is one."""
    from chaffinch.questions import asked_apart

    if path.suffix.lower() == ".json":
        if plan is not None:
            raise InvalidInput("plan", "given once", Unquoted("two plan files"))
        return planned_collection(paths.open_plan(path, output))
    survey = paths.open_survey(path)
    rows = PrivacyUnit(survey.person, survey.contributions, survey.rows_are_people)
    if plan is not None:
        found = paths.open_plan(plan, output)
        if not _answers(found, survey):
            raise InvalidInput(
                "plan",
                "one that asks and promises what the survey does",
                Unquoted("one for something else"),
                hint="plan the survey again with `chaffinch plan`, or leave out --plan",
            )
        asked = _asked_of(found)
        return PlannedCollection(
            asked, found.reports, survey.columns, survey.table, rows, found.group, found
        )
    apart, group = asked_apart(survey.survey.questions), survey.survey.group
    return _Unplanned(apart, survey.reports, survey.columns, survey.table, rows, group, survey)


def _asked_of(plan: Plan) -> dict[str, Question]:
    """Return what a table must answer: the public group as well."""
    group = {} if plan.group is None else {plan.group.name: plan.group.question}
    return {**group, **plan.asked}


def _kept_plan(out: Path, survey: SurveyFile, *, anyway: bool) -> Plan | None:
    """Return the plan that an earlier run has made for this very survey, or None."""
    with suppress(ChaffinchError, ValueError):
        note = json.loads(read_small(out / _NOTE, most=_LONGEST_NOTE, must_be="a note"))
        plan = cf.load_plan(out / PLAN)
        same = note == {"survey": survey.digest, "plan": plan.id} and _answers(plan, survey)
        if same and (anyway or not plan.warnings):
            return plan
    return None


def _public(group: PublicGroup | None) -> tuple[str, Question] | None:
    return None if group is None else (group.name, group.question)


def _answers(plan: Plan, survey: SurveyFile) -> bool:
    """Return whether a plan asks what a survey does, of as many, and promises no less."""
    from chaffinch.plans.honest_share import honest_share

    target = survey.target
    return (
        survey.survey.is_planned_as(plan.questions)
        and _public(plan.group) == _public(survey.survey.group)
        and (plan.users, plan.rounds) == (survey.users, survey.rounds)
        and plan.contributions == survey.contributions
        and plan.honest == honest_share(survey.honest)
        and (target is None or (plan.epsilon <= target.epsilon and plan.delta <= target.delta))
    )
