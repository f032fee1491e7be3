"""Cells that are no answers, counted while a table is read to its end; never what they hold."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from chaffinch.errors import CellFaults, InvalidCells, InvalidTable

_ROWS_TOLD = 5


class RowNumbers(Enum):
    """How the rows of a table are counted where a message names them: so that they are found.

    >>> RowNumbers.SPREADSHEET.of(1), RowNumbers.POSITIONS.of(1)  # the first row
    (2, 0)
    """

    SPREADSHEET = (2, "as a spreadsheet counts")
    """The names of the columns are row 1."""
    LINES = (1, "counted from 1")
    POSITIONS = (0, "counted from 0")
    """As frames and sequences count; Parquet and Arrow files are opened as such."""
    IN_GROUP = (1, "counted from 1 among the rows of the group")

    @property
    def counted(self) -> str:
        """Return the rule in words, to follow the numbers."""
        return self.value[1]

    def place(self, number: int) -> int:
        """Return the place of a row from its number; the first is 0."""
        return number - self.value[0]

    def of(self, row: int) -> int:
        """Return the number of a row that is the 1st, 2nd, … below the names of the columns."""
        return row - 1 + self.value[0]


@dataclass
class _Counted:
    count: int
    rows: tuple[int, ...]


class Faults:
    """What is wrong with the cells of a table so far, by column and rule.

    Parts of a table may be added in any order and by several threads. A question has few rules,
    so this stays small, however many cells break them.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: dict[tuple[str, str, str, str], _Counted] = {}

    def __bool__(self) -> bool:
        """Return whether there is any fault."""
        return bool(self._found)

    def add(self, column: str, must_be: str, hint: str, rows: NDArray[np.int64]) -> None:
        """Count the cells of some rows, which are in order: the 1st, 2nd, … of the table."""
        first = tuple(int(row) for row in rows[:_ROWS_TOLD])
        self._count(CellFaults(column, must_be, len(rows), first, hint))

    def merge(self, error: InvalidCells, numbers: RowNumbers | None = None) -> None:
        """Count the faults of a part of the table, with the numbers that messages show."""
        for one in error.faults:
            shown = one
            if numbers is not None:
                rows = tuple(map(numbers.of, one.rows))
                shown = replace(one, rows=rows, counted=numbers.counted)
            self._count(shown)

    @contextmanager
    def collecting(self, numbers: RowNumbers | None = None) -> Iterator[None]:
        """Count the faults of a part of the table instead of raising them.

        ``numbers`` turns the 1st, 2nd, … row into the numbers that messages show. What has ended
        the reading of a part is raised.
        """
        try:
            yield
        except InvalidCells as error:
            self.merge(error, numbers)
            if error.stopped is not None:
                raise error.stopped from None

    def refuse(self, stopped: InvalidTable | None = None) -> None:
        """Raise all faults together, if there are any."""
        if self:
            listed = [
                CellFaults(column, must_be, found.count, found.rows, hint, counted)
                for (column, must_be, hint, counted), found in self._found.items()
            ]
            listed.sort(key=lambda one: (one.rows, one.column, one.must_be))
            raise InvalidCells(listed, stopped=stopped) from None

    def _count(self, one: CellFaults) -> None:
        with self._lock:
            key = (one.column, one.must_be, one.hint, one.counted)
            found = self._found.setdefault(key, _Counted(0, ()))
            found.count += one.count
            found.rows = tuple(sorted((*found.rows, *one.rows))[:_ROWS_TOLD])


@contextmanager
def all_faults() -> Iterator[Faults]:
    """Yield what counts faults; when the block ends, they are raised together.

    What ends the reading, such as a row with too many cells, is told with them.
    """
    faults = Faults()
    try:
        yield faults
    except InvalidCells as error:
        faults.merge(error)
    except InvalidTable as error:
        faults.refuse(stopped=error)
        raise
    faults.refuse()
