"""Check every cell of the answers in a table, and report all faults at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from chaffinch.questions import GAPS, Question
from chaffinch.tables.answers import CellFormat, numbers_of
from chaffinch.tables.arrays import is_text, plain_array
from chaffinch.tables.cell_faults import Faults, RowNumbers, all_faults
from chaffinch.tables.formats import guess_format, reads_numbers
from chaffinch.tables.parallel import Progress, cores, mapped
from chaffinch.tables.read import Table
from chaffinch.tables.substitutions import Counted, Substitutions

if TYPE_CHECKING:
    import pyarrow as pa

_ROWS = 1 << 16
_ROWS_LOOKED_AT = 10_000
"""How numbers are written is guessed from so many; what does not fit later is a fault."""


@dataclass(frozen=True, slots=True)
class AnswerColumns:
    """Where the answers to a question are: in a column, or in one for each of its parts."""

    question: Question
    columns: tuple[str, ...]
    shown: str
    """What an error calls it: the name of a column that nobody asked for may be a cell."""
    parts: tuple[str, ...] = ()
    """The flags, or the crossed questions, that have a column each."""
    formats: tuple[CellFormat | None, ...] = ()
    """How cells are written in each of them, unless plainly."""
    gaps: frozenset[str] = GAPS
    """Texts that stand for a missing answer, folded."""
    asked: str = ""
    """The name of the question."""
    substitutions: Substitutions | None = None
    """What counts the cells that count as something else than what they hold."""
    row_numbers: RowNumbers = RowNumbers.POSITIONS
    """How an error counts rows."""

    @property
    def note(self) -> Callable[[str, Counted], None] | None:
        """Return what is told of each column how many of its cells count as something else."""
        return None if self.substitutions is None else partial(self.substitutions.add, self.asked)

    def answers(self, batch: pa.RecordBatch) -> Any:
        """Return the column, or the columns by the names of the parts."""
        if self.parts:
            columns = map(batch.column, self.columns)
            return dict(zip(self.parts, columns, strict=True))
        return batch.column(self.columns[0])


def rows_with(table: Table, place: AnswerColumns, number: int) -> Table:
    """Return the rows of a table whose answer to a question has this number."""

    def keep(batch: pa.RecordBatch) -> NDArray[Any]:
        return np.asarray(read_answers([place], 1, batch)[0] == number)

    return table.where(place.columns[0], keep)


def answer_batches(
    table: Table, places: Sequence[AnswerColumns], *, rows: int = _ROWS
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield the answers in batches, each with the number of its first row."""
    first = 1
    for batch in table.batches([name for place in places for name in place.columns], rows=rows):
        yield first, batch
        first += batch.num_rows


def read_answers(
    places: Sequence[AnswerColumns], first: int, batch: pa.RecordBatch
) -> list[NDArray[Any]]:
    """Return the numbers of a batch of answers that starts with the ``first`` row of the table."""
    faults = Faults()
    numbers = []
    for place in places:
        with faults.collecting(place.row_numbers):
            found = numbers_of(
                place.question,
                place.answers(batch),
                name=place.shown,
                first_row=first,
                formats=place.formats,
                gaps=place.gaps,
                note=place.note,
            )
            numbers.append(found)
    faults.refuse()
    return numbers


def settle_numbers(table: Table, places: Sequence[AnswerColumns]) -> Table:
    """Return a table of which it is known how its numbers are written, by its first rows.

    A column whose numbers have two readings is refused; where the first rows leave both open, so
    is every later row that has two. Nothing is guessed of what comes through a pipe.
    """
    asked = {place.columns[0]: place for place in places if reads_numbers(place.question)}
    if not asked or not table.readable_again:
        return table
    texts: dict[str, set[str]] = {name: set() for name in asked}
    for first, batch in answer_batches(table, list(asked.values()), rows=_ROWS_LOOKED_AT):
        for name, found in texts.items():
            column = plain_array(batch.column(name))
            if is_text(column.type):
                found.update(column.drop_null().to_pylist())
        if first + batch.num_rows > _ROWS_LOOKED_AT:
            break
    formats = {}
    for name, place in asked.items():
        unit = getattr(place.question, "unit", "")
        formats[name] = guess_format(texts[name], table.settings, column=place.shown, unit=unit)
    notes = [
        f"numbers of column {asked[name].shown!r} are read as in {form.example}"
        for name, form in formats.items()
        if form.differs
    ]
    return replace(table, numbers=formats, notes=(*table.notes, *notes))


def check_answers(
    table: Table, places: Sequence[AnswerColumns], *, progress: Progress | None = None
) -> int:
    """Read a table to its end and return how many rows it has; refuse all faulty cells at once.

    One batch a worker is held at a time.
    """
    rows = 0
    with all_faults() as faults:

        def work(numbered: tuple[int, pa.RecordBatch]) -> int:
            with faults.collecting():
                read_answers(places, *numbered)
            return int(numbered[1].num_rows)

        with mapped(work, answer_batches(table, places), cores()) as counts:
            for count in counts:
                rows += count
                if progress is not None:
                    progress(rows, table.rows)
    return rows
