"""A survey drafted from a table: its columns, and a guess of what each of them asks.

A survey is public, and a table is not. So nothing of what cells hold is written: bounds and lists
of values are left to fill in, because they must be facts that were public before anybody answered.
Whoever names a column takes the responsibility for writing its values; the draft says so.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import date
from decimal import Decimal
from typing import Any

from chaffinch.errors import ChaffinchError, InvalidAnswer, InvalidInput, InvalidTable, checks
from chaffinch.planning.survey_file import quoted
from chaffinch.questions import Bit, is_missing, label
from chaffinch.questions.date_bins import bin_of
from chaffinch.runs.answer_table import TableInput
from chaffinch.runs.listener import Callbacks
from chaffinch.tables.arrays import plain_array
from chaffinch.tables.dialect import Settings, settings_from
from chaffinch.tables.formats import DateFormat, NumberFormat, guess_format
from chaffinch.tables.parallel import Progress
from chaffinch.tables.read import Table

_ROWS_LOOKED_AT = 10_000
_MOST_VALUES = 1000
_FEW_VALUES = 100
_ROWS_OF_IDS = 100
_ID_NAME = re.compile(r"(.*[ _.-])?(id|ids|uuid|guid|e-?mail|phone)", re.IGNORECASE)
_PEOPLE_NAME = re.compile(
    r"(user|person|people|customer|client|member|patient|visitor|device|account|subject)s?",
    re.IGNORECASE,
)
"""Names of columns that tell people apart, if they hold many different values."""
_NUMERIC_DATE = re.compile(r"\s*[0-9]{1,2}([./-])[0-9]{1,2}\1[0-9]{4}\s*")
_DATE_FORMATS = ("%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y")
"""How dates are written where the year does not come first; which of them can be seen, mostly."""
_ADDED = re.compile(r"(\.[0-9]+|_duplicated_[0-9]+)$")
"""What pandas and polars add to a name that an earlier column has."""
_MAIL = re.compile(r"\s*\S+@\S+\s*")
_HEAD = """\
# A survey drafted from the columns of a table. What each asks is a guess: look at every line.
# What follows FILL IN must be a fact that is public before anybody answers, such as the list of
# all carriers or the hours of a day; taken from the table itself, it would tell about people."""


@dataclass(frozen=True)
class SurveyDraft:
    """A survey to be completed by hand: the text of its file, and what each column is taken for."""

    text: str
    kinds: dict[str, str]
    """What each column was taken for: a kind of question, or why it is none."""


def draft_survey(
    table: Any,
    *,
    with_values: Sequence[str] = (),
    person: str | None = None,
    rows_are_people: bool = False,
    format: str | None = None,  # noqa: A002
    written: Mapping[str, Any] | None = None,
    progress: Callable[[str], object] | None = None,
) -> SurveyDraft:
    """Return a survey drafted from the columns of a table, to be completed by hand.

    The kind of each question is guessed from the first rows. The draft has no content of cells: a
    survey is public, so values and bounds must be public facts, which you fill in. ``table``,
    ``format`` and ``written`` are those of ``run``. Columns in ``with_values`` are the exception:
    their values, or their smallest and largest numbers, are written, and you confirm that they are
    public. ``progress`` receives how many rows were read.

    >>> draft = draft_survey({"tea": ["yes", "no"], "age": [30, 40]})
    >>> draft.kinds
    {'tea': 'bit', 'age': 'number'}
    >>> '[questions."tea"]' in draft.text
    True
    """
    if isinstance(with_values, str):
        raise InvalidInput("columns with values", "a list of names of columns", with_values)
    checks.truth("rows_are_people", rows_are_people)
    listener = Callbacks(progress=progress)
    given = TableInput(table, format, settings_from({} if written is None else written))
    opened = given.open(listener)
    with listener.counting("reading values", "rows") as tell:
        return draft_opened(
            opened,
            with_values=with_values,
            person=person,
            rows_are_people=rows_are_people,
            progress=tell,
        )


def draft_opened(
    table: Table,
    *,
    with_values: Sequence[str] = (),
    person: str | None = None,
    rows_are_people: bool = False,
    progress: Progress | None = None,
) -> SurveyDraft:
    """Return a survey for a table that is open already."""
    if table.names_may_be_cells:
        _check_first_line(table.columns)
    if with_values and not table.readable_again:
        raise InvalidInput("table whose values are written", "a file", "a pipe")
    named = [*with_values, *([] if person is None else [person])]
    table.batches([*named, *table.columns])  # refuses a name that is no column
    cells = _first_present_cells(table)
    formats = _date_formats(cells, table.settings)
    kinds = {
        name: "dates" if name in formats else _kind_of(name, held, table.settings)
        for name, held in cells.items()
    }
    facts = {}
    for name in with_values:
        form = guess_format(_texts(cells[name]), table.settings, column=name)
        facts[name] = _FACTS[kinds[name]](_ReadColumn(table, name, form, progress))
    parts = [
        _HEAD,
        _written_facts(with_values),
        _FRAME,
        _persons(kinds, person, rows_are_people=rows_are_people),
        _settings(table.settings, next(iter(formats.values()), ())),
    ]
    questions = [
        _question_lines(place, name, kinds[name], facts) for place, name in enumerate(cells, 1)
    ]
    return SurveyDraft("\n\n".join(part for part in (*parts, *questions) if part) + "\n", kinds)


def _check_first_line(names: Sequence[str]) -> None:
    """Refuse names of which one is an answer: without a header, they are what somebody answered."""
    plain = [_ADDED.sub("", name) for name in names]
    answers = [place for place, name in enumerate(plain, 1) if _looks_like_answer(name)]
    if answers:
        raise InvalidTable(
            "one with names of its columns, in a text in the first line",
            f"what looks like an answer as the name of column {answers[0]}",
            hint="add a line with the names of the columns, which stand in the survey, or name "
            "them when the text is read; a column that has such a name needs another",
        )


def _looks_like_answer(name: str) -> bool:
    digits = any(map(str.isdigit, name)) and not any(map(str.isalpha, name))
    dated = bin_of("month", name) is not None
    return digits or dated or _is_bit(name) or _is_number(name) or bool(_MAIL.fullmatch(name))


# ----------------------------------------------------------------------------
# What a column holds, as far as its first rows tell.


def _first_present_cells(table: Table) -> dict[str, list[Any]]:
    cells: dict[str, list[Any]] = {name: [] for name in table.columns}
    rows = 0
    for batch in table.batches(table.columns, rows=_ROWS_LOOKED_AT):
        for name, column in zip(table.columns, batch.columns, strict=True):
            held = plain_array(column).slice(0, _ROWS_LOOKED_AT - rows).to_pylist()
            cells[name] += [cell for cell in held if not is_missing(cell, table.gaps)]
        rows += batch.num_rows
        if rows >= _ROWS_LOOKED_AT:
            break
    return cells


def _kind_of(name: str, cells: list[Any], settings: Settings) -> str:
    """Return what a column is taken for: a kind of question, or why it is none."""
    if not cells:
        return "empty"
    if all(map(_is_bit, cells)):
        return "bit"
    if all(map(_is_date, cells)):
        return "dates"
    if _ID_NAME.fullmatch(name.strip()) or _are_ids(cells) or _looks_like_people(name, cells):
        return "id"
    if _are_numbers(cells, settings, name):
        return "number"
    values = len({str(cell) for cell in cells})
    return "choice" if values <= _FEW_VALUES and values <= max(2, len(cells) // 2) else "text"


def _is_bit(cell: object) -> bool:
    try:
        Bit().number(cell)
    except InvalidAnswer:
        return False
    return True


def _is_date(cell: object) -> bool:
    # Eight digits are a date, too, but more often a number.
    written = isinstance(cell, date) or (isinstance(cell, str) and "-" in cell.strip()[1:])
    return written and bin_of("month", cell) is not None


def _are_ids(cells: list[Any]) -> bool:
    different = len({str(cell) for cell in cells}) == len(cells)
    return different and len(cells) >= _ROWS_OF_IDS and not any(map(_is_measured, cells))


def _looks_like_people(name: str, cells: list[Any]) -> bool:
    if not _PEOPLE_NAME.fullmatch(name.strip()):
        return False
    different = len({str(cell) for cell in cells})
    return different > _FEW_VALUES and not any(map(_has_fraction, cells))


def _date_formats(cells: Mapping[str, list[Any]], settings: Settings) -> dict[str, tuple[str, ...]]:
    """Return the columns of dates whose year does not come first, and how they may be written.

    One table has one way to write dates: where columns have several, none of these is taken.
    """
    written = {
        name: tuple(pattern for pattern in _DATE_FORMATS if _reads_all(pattern, held))
        for name, held in cells.items()
        if held and all(isinstance(one, str) and _NUMERIC_DATE.fullmatch(one) for one in held)
    }
    shared = [
        pattern
        for pattern in _DATE_FORMATS
        if written and all(pattern in found for found in written.values())
    ]
    if settings.date_format is not None:
        shared = [settings.date_format] if settings.date_format in shared else []
    others = any(
        name not in written and held and all(isinstance(one, str) and _is_date(one) for one in held)
        for name, held in cells.items()
    )
    return {name: tuple(shared) for name in written} if shared and not others else {}


def _reads_all(pattern: str, cells: list[Any]) -> bool:
    form = DateFormat(pattern)
    try:
        for cell in set(cells):
            form.read(cell)
    except InvalidAnswer:
        return False
    return True


def _is_measured(cell: object) -> bool:
    return _has_fraction(cell) or (
        isinstance(cell, str) and re.search(r"\S\s+\S", cell) is not None
    )


def _has_fraction(cell: object) -> bool:
    return isinstance(cell, (float, Decimal)) or (
        isinstance(cell, str) and re.search(r"\d[.,]\d", cell) is not None
    )


def _are_numbers(cells: list[Any], settings: Settings, name: str) -> bool:
    try:
        form = guess_format(_texts(cells), settings, column=name)
    except InvalidTable:
        return True  # in two ways, which is told when the table is checked
    try:
        read = [form.read(cell) for cell in cells]
    except InvalidAnswer:
        return False
    return all(isinstance(one, (int, float, Decimal)) for one in read)


def _texts(cells: list[Any]) -> list[str]:
    return [cell for cell in cells if isinstance(cell, str)]


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


# ----------------------------------------------------------------------------
# Facts that somebody takes the responsibility for.


@dataclass(frozen=True)
class _ReadColumn:
    table: Table
    name: str
    form: NumberFormat
    progress: Progress | None

    def different_cells(self) -> Iterator[set[Any]]:
        rows = 0
        for batch in self.table.batches([self.name]):
            held = plain_array(batch.column(0))
            cells = held.unique().to_pylist()
            yield {cell for cell in cells if not is_missing(cell, self.table.gaps)}
            rows += batch.num_rows
            if self.progress is not None:
                self.progress(rows, self.table.rows)

    def values(self) -> str:
        found: set[str] = set()
        for cells in self.different_cells():
            found |= {str(cell).strip() for cell in cells}
            if len(found) > _MOST_VALUES:
                raise InvalidTable(
                    f"of at most {_MOST_VALUES} different values",
                    "more",
                    column=self.name,
                    hint="list the values in a file of their own: values_file",
                )
        return f"values = [{', '.join(map(quoted, sorted(found)))}]"

    def bounds(self) -> str:
        low, high = math.inf, -math.inf
        for cells in self.different_cells():
            numbers = [float(str(self.form.read(cell))) for cell in cells]
            low, high = min([low, *numbers]), max([high, *numbers])
        return f"low = {low!r}\nhigh = {high!r}"

    def nothing(self) -> str:
        return ""

    def no_values(self) -> str:
        """Refuse to write what tells people apart."""
        raise InvalidInput(
            "column whose values are written", "one of answers", f"{self.name!r}, which has none"
        )


_FACTS: dict[str, Callable[[_ReadColumn], str]] = {
    "bit": _ReadColumn.nothing,
    "dates": _ReadColumn.nothing,
    "number": _ReadColumn.bounds,
    "choice": _ReadColumn.values,
    "text": _ReadColumn.values,
    "id": _ReadColumn.no_values,
    "empty": _ReadColumn.no_values,
}


# ----------------------------------------------------------------------------
# What is written.

_FRAME = """\
# title = "What was asked?"  # stands above the release
# FILL IN: users = 20000     # how many people, not rows, are sure to answer
epsilon = 1.0                # the promise to each of them; small is private
# delta = 1e-8"""
_NOBODY = """\
# Who is a person? Without one of these lines, only single rows are promised to be protected.
# rows_are_people = true     # every row is another person
# person = "column"          # the column that tells people apart, who may have several rows"""
_WARNED = """\
# The values of {columns} were read from the table, on the word of whoever asked for that
# (--with-values) that they are public. If they are not, this file tells about people."""
_VALUES = '# FILL IN: values = ["one", "other"]   # all that can be answered, not what was answered'
_BOUNDS = "# FILL IN: low = 0\n# FILL IN: high = 100     # what is possible, not what was seen"


def _written_facts(columns: Sequence[str]) -> str:
    return _WARNED.format(columns=", ".join(map(quoted, columns))) if columns else ""


def _persons(kinds: Mapping[str, str], person: str | None, *, rows_are_people: bool) -> str:
    """Return who is a person: as was said, or by a column that looks like an id, if there is one.

    Of several one has to be chosen.
    """
    if rows_are_people:
        return "rows_are_people = true"
    if person is not None:
        return f"person = {quoted(person)}"
    ids = [name for name, kind in kinds.items() if kind == "id"]
    if not ids:
        return _NOBODY
    sign = "" if len(ids) == 1 else "# "
    return "\n".join(
        f"{sign}person = {quoted(name)}   # looks like an id: rows that share it are one person's"
        for name in ids
    )


def _settings(settings: Settings, dates: Sequence[str]) -> str:
    """Return how the table is written, as far as that is known, and how ``dates`` may be."""
    said = {one.name: getattr(settings, one.name) for one in fields(Settings)}
    if len(dates) == 1:
        said["date_format"] = dates[0]
    if said["separator"] == ",":
        del said["separator"]
    lines = [
        f"{name} = {json.dumps(value)}"
        for name, value in said.items()
        if value not in {None, False}
    ]
    if len(dates) > 1:
        first, *others = map(quoted, dates)
        lines.append(f"# FILL IN: date_format = {first}   # or {' or '.join(others)}: both fit")
    return "\n".join(["[table]", *lines]) if lines else ""


def _question_lines(place: int, column: str, kind: str, facts: Mapping[str, str]) -> str:
    if kind in {"id", "empty"} or (kind == "text" and column not in facts):
        words = {"id": "looks like an id", "empty": "is empty", "text": "looks like free text"}
        return f"# Column {quoted(column)} {words[kind]}: it is not asked."
    lines = [f"[questions.{quoted(_question_name(place, column))}]"]
    lines.append(f'kind = "{"choice" if kind in {"dates", "text"} else kind}"')
    if kind == "dates":
        lines.append(
            'dates = "month"              # or weekday, quarter, hour; year-month keeps years apart'
        )
    elif kind in {"choice", "text", "number"}:
        lines.append(facts.get(column, _BOUNDS if kind == "number" else _VALUES))
    lines.append(
        '# missing = "count"          # where gaps are to be counted; without it they are refused'
    )
    if _question_name(place, column) != column:
        lines.append(f"column = {quoted(column)}")
    return "\n".join(lines)


def _question_name(place: int, column: str) -> str:
    try:
        label("name of a question", column)
    except ChaffinchError:
        return f"column {place}"
    return column
