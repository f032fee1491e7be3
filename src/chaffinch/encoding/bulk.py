"""Many answers at once: the same law as one device at a time, at the cost of what is sent.

All bits of a batch are one long row. The flipped ones are drawn by their positions, so the
work follows the number of set bits; only where a report has so many that packed bits are
smaller are rows of bits drawn instead. Messages of a choice leave in the order of their codes,
which says nothing about who sent them.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from chaffinch.encoding.device import prepare_answer
from chaffinch.errors import InvalidAnswer, InvalidInput, InvalidTable
from chaffinch.plans.expansion import answers_of_parts
from chaffinch.plans.plan import Plan, require_devices
from chaffinch.protocols.base import settle_levels
from chaffinch.questions import Choice, Cross, Flags, PublicGroup, Question, asked_apart
from chaffinch.sampling import Words, secure_words
from chaffinch.tables.arrays import plain_array, rows_of, values_of
from chaffinch.tables.cell_faults import all_faults
from chaffinch.tables.checking import AnswerColumns, answer_batches, read_answers, rows_with
from chaffinch.tables.dialect import settings_from
from chaffinch.tables.people import sample_people
from chaffinch.tables.read import Table, open_table
from chaffinch.wire.batches import Counts
from chaffinch.wire.message_writer import COLUMN
from chaffinch.wire.messages import EMPTY, Origin, Report, Reports, Rows

if TYPE_CHECKING:
    import pyarrow as pa

MESSAGES_PER_BATCH = 1 << 21
ROWS = 1 << 16
_ROWS_LOOKED_AT = 1_000
_FEW_ROWS = 20
"""Of fewer rows nobody knows whether a first line before them is a name or a cell."""


def encode_many(
    answers: Any,
    plan: Plan,
    *,
    round: int | None = None,  # noqa: A002
    columns: Mapping[str, str] | None = None,
    table: Mapping[str, Any] | None = None,
    person: str | None = None,
    progress: Callable[[int], None] | None = None,
) -> Reports:
    """Return the reports of many people: a column of answers, or a table for a survey.

    ``answers`` may be a sequence, an array, a column or frame of Arrow, pandas or polars, rows that
    are mappings, or a path to a file: all that ``run`` takes. ``columns`` says which column answers
    which question where the names differ. Flags may also stand in yes/no columns named after them.
    Each report has the law of ``encode``. A plan of several rounds must be told which ``round``
    they are for.
    ``table`` says how texts are written, with the keys of ``[table]`` in a survey file
    (``{"decimal": ",", "missing_values": ["NA"]}``); here no way to write numbers is guessed.
    A value that a question lists is an answer, however it is spelled.
    ``person`` names the column that tells people apart where one of them may have many rows: as
    many as the plan has contributions are drawn at random, and who has fewer sends reports
    without answers. Without it every row is taken for another person's.
    ``progress`` is told how many are done.
    """
    require_devices(plan).verify()
    origin = Origin.of(plan, round)
    opened = answers
    if not isinstance(answers, Table):
        opened = open_table(answers, settings=settings_from(table or {}))
    opened = _reports_of_people(opened, plan, columns, person)
    batches = list(_encoded_batches(opened, plan, secure_words(), columns, progress))
    return _one_batch(origin, batches)


def encode_each(
    table: Table,
    plan: Plan,
    *,
    round: int | None = None,  # noqa: A002
    columns: Mapping[str, str] | None = None,
) -> Iterator[Report]:
    """Yield the report of every row by itself, for whoever sends them for many people."""
    origin, words = Origin.of(plan, round), secure_words()
    table, columns = group_rows(plan.group, table, columns)
    places = find_columns(plan.questions, table, columns)
    for numbers, rows in _answers_in(table, plan, places):
        for row in range(rows):
            yield _one_report(plan, origin, [one[row : row + 1] for one in numbers], words)


def _one_report(plan: Plan, origin: Origin, numbers: list[NDArray[Any]], words: Words) -> Report:
    made = encode_numbers(plan, numbers, 1, words)
    codes = made.messages.tolist()
    for block in made.rows:
        bits = np.unpackbits(block.packed[0], bitorder="little")[: block.bits]
        codes += (np.flatnonzero(bits) + block.first).tolist()
    return Report(origin, (*sorted(codes), *[EMPTY] * (origin.slots - len(codes))))


def _reports_of_people(
    table: Table, plan: Plan, columns: Mapping[str, str] | None, person: str | None
) -> Table:
    """Return a row for each report; refuse people who send several but are not told apart."""
    if person is not None and plan.group is not None:
        raise InvalidInput(
            "column of people",
            "left out where groups are public",
            person,
            hint="who has rows in several groups would be in several collections: make the group "
            "private with `by`",
        )
    if person is not None:
        places = find_columns(plan.questions, table, columns)
        return sample_people(table, person, plan.contributions, places=places).table
    if plan.contributions > 1:
        raise InvalidInput(
            "column of people",
            f"given for a plan of {plan.contributions} reports of each person",
            None,
            hint="name it: person=...",
        )
    return table


def _encoded_batches(
    table: Table,
    plan: Plan,
    words: Words,
    columns: Mapping[str, str] | None = None,
    progress: Callable[[int], None] | None = None,
) -> Iterator[Reports]:
    table, columns = group_rows(plan.group, table, columns)
    places = find_columns(plan.questions, table, columns)
    for numbers, rows in _answers_in(table, plan, places, progress):
        yield encode_numbers(plan, numbers, rows, words)


def _answers_in(
    table: Table,
    plan: Plan,
    places: Sequence[AnswerColumns],
    progress: Callable[[int], None] | None = None,
) -> Iterator[tuple[list[NDArray[Any]], int]]:
    """Yield what each part is told, and for how many rows; refuse all faulty cells at once."""
    with all_faults() as faults:
        for first, batch in answer_batches(table, places, rows=rows_per_batch(plan)):
            with faults.collecting():
                numbers = read_answers(places, first, batch)
                if not faults:
                    yield answers_of_parts(plan.parts, numbers), batch.num_rows
            if progress is not None:
                progress(first + batch.num_rows - 1)


def group_rows(
    group: PublicGroup | None, table: Table, columns: Mapping[str, str] | None
) -> tuple[Table, Mapping[str, str] | None]:
    """Return the rows of a public group, and where all other questions are answered."""
    if group is None or group.value is None:
        return table, columns
    place = group_column(group, table, columns)
    others = {name: column for name, column in (columns or {}).items() if name != group.name}
    return rows_with(table, place, group.number), others or None


def answer_places(
    plan: Plan, table: Table, columns: Mapping[str, str] | None
) -> tuple[tuple[AnswerColumns, ...], AnswerColumns | None]:
    """Return where the questions are answered, and where a row tells its public group."""
    group = None
    if plan.group is not None and plan.group.value is not None:
        group = group_column(plan.group, table, columns)
    rows, others = group_rows(plan.group, table, columns)
    return find_columns(plan.questions, rows, others), group


def batch_of_group(
    plan: Plan, place: AnswerColumns | None, row: int, batch: pa.RecordBatch
) -> pa.RecordBatch:
    """Return the rows of the public group, if there is one; of one batch that may be none."""
    if place is None or plan.group is None:
        return batch
    (numbers,) = read_answers([place], row, batch)
    return rows_of(batch, numbers == plan.group.number)


def group_column(
    group: PublicGroup, table: Table, columns: Mapping[str, str] | None
) -> AnswerColumns:
    """Return where it is told to which public group a row belongs."""
    found = _columns_for(group.name, group.question, table, columns or {})
    return replace(found, row_numbers=table.row_numbers)


def rows_per_batch(plan: Plan) -> int:
    """Return how many answers at once keep a batch small.

    Memory follows the number of messages: of bits that are next to never set only the set
    ones are held, and packed rows take less than their messages would.
    """
    sent = sum(part.expected_messages for part in plan.parts)
    return max(1, min(ROWS, int(MESSAGES_PER_BATCH / max(sent, 1.0))))


def encode_batch(
    plan: Plan, places: Sequence[AnswerColumns], first: int, batch: pa.RecordBatch, words: Words
) -> Reports:
    """Return the reports of a batch of answers; ``first`` is its first row, for errors."""
    numbers = answers_of_parts(plan.parts, read_answers(places, first, batch))
    return encode_numbers(plan, numbers, batch.num_rows, words)


def add_up_batch(
    plan: Plan, places: Sequence[AnswerColumns], first: int, batch: pa.RecordBatch, words: Words
) -> list[Counts]:
    """Return the exact sums of a batch of answers, for each part: for one party that adds up."""
    numbers = answers_of_parts(plan.parts, read_answers(places, first, batch))
    return [
        part.protocol.add_up(part.question, settle_levels(part.question, answers, words), words)
        for part, answers in zip(plan.parts, numbers, strict=True)
    ]


def find_columns(
    questions: Mapping[str, Question], table: Table, columns: Mapping[str, str] | None
) -> tuple[AnswerColumns, ...]:
    """Return where each question is answered.

    Flags without a column of their own may have one yes/no column each, named after them. A bare
    sequence of answers has no name, and answers the only question.
    """
    if columns is not None and not isinstance(columns, Mapping):
        raise InvalidInput(
            "columns", "a mapping from questions to columns", columns, hint="{'question': 'column'}"
        )
    given = dict(columns or {})
    names = list(asked_apart(questions))
    if not set(given) <= set(names):
        raise InvalidInput("columns", f"given for questions of the plan ({names})", list(given))
    found = [_columns_for(name, one, table, given) for name, one in questions.items()]
    if len(names) == len(table.columns) == 1 and not given:
        (place,) = found
        if table.unnamed:
            found = [replace(place, columns=table.columns)]
        elif place.columns != table.columns:
            raise _other_name(names[0], questions[names[0]], table)
    return tuple(
        replace(place, asked=name, substitutions=table.substitutions, row_numbers=table.row_numbers)
        for name, place in zip(questions, found, strict=True)
    )


def _columns_for(
    name: str, question: Question, table: Table, given: Mapping[str, str]
) -> AnswerColumns:
    if isinstance(question, Cross):
        parts = tuple(question.questions)
        columns = tuple(given.get(one, one) for one in parts)
        formats = tuple(map(table.cell_format, columns, question.questions.values()))
        return AnswerColumns(question, columns, name, parts, formats, table.gaps)
    alone = name not in given and name not in table.columns
    if alone and isinstance(question, Flags) and set(question.names) <= set(table.columns):
        return AnswerColumns(question, question.names, name, question.names, gaps=table.gaps)
    column = given.get(name, name)
    form = table.cell_format(column, question)
    return AnswerColumns(question, (column,), column, formats=(form,), gaps=table.gaps)


def _other_name(asked: str, question: Question, table: Table) -> InvalidTable:
    """Return why the only column does not answer the only question: it has another name."""
    (name,) = table.columns
    if name == COLUMN:
        return InvalidTable("one of answers", "messages that were encoded already")
    if table.names_may_be_cells and _is_answer(question, name):
        return InvalidTable(
            "one with a name for its column",
            "a first line that is itself an answer",
            hint="add a line with the name of the column, or name it when the text is read",
        )
    got, shown = "one column of another name", "NAME"
    if not table.names_may_be_cells or _follow_answers(question, table):
        got, shown = f"only the column {name!r}", name
    return InvalidTable(
        "in the table",
        got,
        column=asked,
        hint="if the answers are in the column that is there, say so: "
        f"--column {shlex.quote(shown)} (columns={{{asked!r}: {shown!r}}})",
    )


def _follow_answers(question: Question, table: Table) -> bool:
    """Return whether the cells at the start of the only column are answers, every one of them.

    Then its name, which is none, was no cell among them, and may be shown.
    """
    if not table.readable_again:
        return False
    with suppress(InvalidTable):
        batch = next(table.batches(table.columns, rows=_ROWS_LOOKED_AT))
        cells = values_of(plain_array(batch.column(0)).drop_null().unique())
        return batch.num_rows >= _FEW_ROWS and all(_is_answer(question, one) for one in cells)
    return False


def _is_answer(question: Question, cell: object) -> bool:
    """Return whether a cell is an answer by itself, not one that merely counts as unknown."""
    if isinstance(question, Choice):
        return question.place(cell) is not None
    try:
        prepare_answer(question, cell)
    except InvalidAnswer:
        return False
    return True


def encode_numbers(plan: Plan, numbers: list[NDArray[Any]], count: int, words: Words) -> Reports:
    """Return the reports of answers that are already numbers, drawn from given words."""
    codes, rows = [], []
    for part, first, answers in zip(plan.parts, plan.offsets, numbers, strict=True):
        settled = settle_levels(part.question, answers, words)
        coded = part.protocol.encode_many(part.question, settled, words)
        codes.append(coded.codes + np.uint32(first) if first else coded.codes)
        if coded.rows is not None:
            rows.append(Rows(first, coded.rows.bits, coded.rows.packed))
    messages = codes[0] if len(codes) == 1 else np.concatenate(codes)
    return Reports(Origin.of(plan, 1), count, messages, tuple(rows))


def _one_batch(origin: Origin, batches: list[Reports]) -> Reports:
    """Return the pieces of one call, one at least, as one batch with a name of its own."""
    messages = [batch.messages for batch in batches]
    return Reports(
        origin,
        sum(batch.count for batch in batches),
        messages[0] if len(messages) == 1 else np.concatenate(messages),
        tuple(rows for batch in batches for rows in batch.rows),
    )
