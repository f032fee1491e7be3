"""Many answers at once: the same law as one device at a time, at the cost of what is sent.

All bits of a batch are one long row. The flipped ones are drawn by their positions, so the
work follows the number of set bits; only where a report has so many that packed bits are
smaller are rows of bits drawn instead. Messages of a choice leave in the order of their codes,
which says nothing about who sent them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from chaffinch.encoding.device import prepare_answer
from chaffinch.errors import InvalidAnswer, InvalidInput, InvalidTable
from chaffinch.planning.plan import Part, Plan, require_plan
from chaffinch.questions import Choice, Flags, Question
from chaffinch.sampling import Words, secure_words
from chaffinch.tables.answers import numbers_of
from chaffinch.tables.read import Table, open_table
from chaffinch.wire.message_writer import COLUMN
from chaffinch.wire.messages import Origin, Reports, Rows

if TYPE_CHECKING:
    import pyarrow as pa

MESSAGES_PER_BATCH = 1 << 21
ROWS = 1 << 16


def encode_many(
    answers: Any,
    plan: Plan,
    *,
    round: int | None = None,  # noqa: A002
    columns: Mapping[str, str] | None = None,
    progress: Callable[[int], None] | None = None,
) -> Reports:
    """Return the reports of many people: a column of answers, or a table for a survey.

    ``answers`` may be a sequence, an array, an Arrow, pandas or polars column or frame, or a
    path to a file; ``columns`` says which column answers which question where the names
    differ. Flags may also stand in yes/no columns named after them. Each report has the law
    of ``encode``. A plan of several rounds must be told which ``round`` they are for.
    ``progress`` is told how many are done.
    """
    require_plan(plan).verify()
    origin = Origin.of(plan, round)
    batches = list(_encoded_batches(answers, plan, secure_words(), columns, progress))
    return _one_batch(origin, batches)


def _encoded_batches(
    answers: Any,
    plan: Plan,
    words: Words,
    columns: Mapping[str, str] | None = None,
    progress: Callable[[int], None] | None = None,
) -> Iterator[Reports]:
    """Yield reports batch by batch, in bounded memory."""
    table = answers if isinstance(answers, Table) else open_table(answers)
    places = find_columns(plan, table, columns)
    for first, batch in answer_batches(table, plan, places):
        yield encode_batch(plan, places, first, batch, words)
        if progress is not None:
            progress(first + batch.num_rows - 1)


def answer_batches(
    table: Table, plan: Plan, places: Sequence[_AnswerColumns]
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield the answers in batches, each with the number of its first row."""
    rows = rows_per_batch(plan)
    first = 1
    for batch in table.batches([name for place in places for name in place.columns], rows=rows):
        yield first, batch
        first += batch.num_rows


def rows_per_batch(plan: Plan) -> int:
    """Return how many answers at once keep a batch small.

    Memory follows the number of messages: of bits that are next to never set only the set
    ones are held, and packed rows take less than their messages would.
    """
    sent = sum(part.protocol.expected_messages(part.question) for part in plan.parts)
    return max(1, min(ROWS, int(MESSAGES_PER_BATCH / max(sent, 1.0))))


def encode_batch(
    plan: Plan, places: Sequence[_AnswerColumns], first: int, batch: pa.RecordBatch, words: Words
) -> Reports:
    """Return the reports of a batch of answers; ``first`` is its first row, for errors."""
    numbers = [
        numbers_of(part.question, place.answers(batch), name=place.shown, first_row=first)
        for part, place in zip(plan.parts, places, strict=True)
    ]
    return encode_numbers(plan, numbers, batch.num_rows, words)


@dataclass(frozen=True, slots=True)
class _AnswerColumns:
    """Where the answers to one question are: a column, or one yes/no column for each flag."""

    columns: tuple[str, ...]
    shown: str
    """What an error calls it: the name of a column that nobody asked for may be a cell."""
    apart: bool = False

    def answers(self, batch: pa.RecordBatch) -> Any:
        """Return the column, or the columns by their names."""
        if self.apart:
            return {name: batch.column(name) for name in self.columns}
        return batch.column(self.columns[0])


def find_columns(
    plan: Plan, table: Table, columns: Mapping[str, str] | None
) -> tuple[_AnswerColumns, ...]:
    """Return where each question is answered.

    Flags without a column of their own may have one yes/no column each, named after them.
    """
    if columns is not None and not isinstance(columns, Mapping):
        raise InvalidInput(
            "columns", "a mapping from questions to columns", columns, hint="{'question': 'column'}"
        )
    given = dict(columns or {})
    names = [part.name for part in plan.parts]
    if not set(given) <= set(names):
        raise InvalidInput("columns", f"given for questions of the plan ({names})", list(given))
    if len(names) == 1 and not given and len(table.columns) == 1:
        return (_sole_column(plan.parts[0], table),)
    return tuple(
        columns_for(part.name, part.question, table, given.get(part.name)) for part in plan.parts
    )


def columns_for(name: str, question: Question, table: Table, given: str | None) -> _AnswerColumns:
    """Return where one question is answered: in the column that is given, or one of its name."""
    alone = given is None and name not in table.columns
    if alone and isinstance(question, Flags) and set(question.names) <= set(table.columns):
        return _AnswerColumns(question.names, name, apart=True)
    column = name if given is None else given
    return _AnswerColumns((column,), column)


def _sole_column(part: Part, table: Table) -> _AnswerColumns:
    """Return the only column, unless it is no column of answers or its name is an answer."""
    (name,) = table.columns
    if name == COLUMN and part.name != COLUMN:
        raise InvalidTable("one of answers", "messages that were encoded already")
    if isinstance(part.question, Flags) and part.question.names == (name,):
        return _AnswerColumns((name,), name, apart=True)
    if table.named_by_first_line and _is_answer(part, name):
        raise InvalidTable(
            "one with a name in its first line",
            "a first line that is itself an answer",
            hint="add a line with the name of the column",
        )
    return _AnswerColumns((name,), part.name)


def _is_answer(part: Part, text: str) -> bool:
    """Return whether a text is an answer by itself, not one that merely counts as unknown."""
    if isinstance(part.question, Choice):
        return part.question.place(text) is not None
    try:
        prepare_answer(part, text)
    except InvalidAnswer:
        return False
    return True


def encode_numbers(plan: Plan, numbers: list[NDArray[Any]], count: int, words: Words) -> Reports:
    """Return the reports of answers that are already numbers, drawn from given words."""
    codes, rows = [], []
    for part, first, answers in zip(plan.parts, plan.offsets, numbers, strict=True):
        coded = part.protocol.encode_many(part.question, answers, words)
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
