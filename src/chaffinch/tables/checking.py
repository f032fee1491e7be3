"""Every cell that is asked for is read, and all faults are told at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from chaffinch.parallel import Progress, cores, mapped
from chaffinch.questions import Question
from chaffinch.tables.answers import numbers_of
from chaffinch.tables.faults import Faults, all_faults
from chaffinch.tables.read import Table

if TYPE_CHECKING:
    import pyarrow as pa

_ROWS = 1 << 16


@dataclass(frozen=True, slots=True)
class AnswerColumns:
    """Where the answers to a question are: in a column, or in one for each of its parts."""

    question: Question
    columns: tuple[str, ...]
    shown: str
    """What an error calls it: the name of a column that nobody asked for may be a cell."""
    parts: tuple[str, ...] = ()
    """The flags, or the crossed questions, that have a column each."""

    def answers(self, batch: pa.RecordBatch) -> Any:
        """Return the column, or the columns by the names of the parts."""
        if self.parts:
            columns = map(batch.column, self.columns)
            return dict(zip(self.parts, columns, strict=True))
        return batch.column(self.columns[0])


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
    """Return the numbers of a batch of answers; ``first`` is its first row, for errors."""
    faults = Faults()
    numbers = []
    for place in places:
        with faults.collecting():
            found = numbers_of(
                place.question, place.answers(batch), name=place.shown, first_row=first
            )
            numbers.append(found)
    faults.refuse()
    return numbers


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
