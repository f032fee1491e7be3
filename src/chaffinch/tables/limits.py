"""Limits of memory and work for reading a table; no table of answers comes near them.

Memory is bounded by what is held at once, and time by work: what a file makes of its bytes. A
unit of work is a byte that is unpacked, and what takes longer is worth as many units as it takes
times of that: some 20 ns on the machine where it was measured.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from chaffinch.errors import InvalidTable, Reason

LONGEST_LINE = 1 << 20
"""A line longer than this is refused, so that a file without lines cannot fill the memory."""
LARGEST_BATCH = 1 << 28
"""What is held at once: of Parquet the pages, dictionaries and values of all chosen columns
together, of Arrow a batch, packed and unpacked, or all dictionaries."""
BATCH_BYTES = 1 << 26
"""What the plain values of one batch may take up."""
_MOST_COLUMNS = 10_000
_WORK, _LARGEST_RATIO = 1 << 33, 1000
"""Work that any file may take, and how much more for each of its bytes."""
PART_WORK = 1 << 11
"""Of a page, or of a column in a batch, whatever it holds."""
LISTED_WORK = 1 << 7
"""Of each byte of a dictionary."""
TEXT_WORK = 2
"""Of each byte of text: it can be a cell, or half a list."""
LINE_WORK = 1 << 5
"""Of each line that becomes an object. So every table of a hundred million short lines is read."""


class Work:
    """What a file makes of its bytes; one that makes too much of them holds nobody's answers.

    ``packed`` tells the size of the file; without it, what was read so far is counted.
    """

    def __init__(self, packed: Callable[[], int] | None = None) -> None:
        self._packed = packed
        self._read = 0
        self._done = 0

    def add(self, done: int, *, read: int = 0) -> None:
        """Count work, and the bytes it was read from."""
        self._done += done
        self._read += read
        size = self._read if self._packed is None else self._packed()
        if self._done > _WORK + _LARGEST_RATIO * size:
            raise InvalidTable(
                "one that takes work in proportion to its size",
                "one that unpacks to almost nothing but repetitions",
                hint="check what the file holds, and choose fewer columns",
                reason=Reason.DAMAGED,
            )


def check_names(names: Sequence[str]) -> Sequence[str]:
    """Return the names of columns, unless there are more than any table of answers has."""
    if len(names) > _MOST_COLUMNS:
        raise InvalidTable(f"one of at most {_MOST_COLUMNS} columns", f"{len(names)} columns")
    return names
