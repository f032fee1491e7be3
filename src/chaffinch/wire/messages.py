"""Reports before the shuffle and messages after it.

A message is a *code*: the number of a set bit in the plan's list of codes. Before the
shuffle the order of codes may tell who sent what; after it the order says nothing, and the
number of times each code was sent is all there is to know.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from chaffinch import checks
from chaffinch.errors import InvalidInput

EMPTY = 0xFFFF_FFFF
"""The code in a slot that holds no message."""
Codes = NDArray[np.uint32]
Counts = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Origin:
    """What every batch must know of its plan: which one, how many codes, how large a crowd."""

    plan_id: str
    codes: int
    least_reports: int
    slots: int


@dataclass(frozen=True, slots=True)
class Report:
    """Everything one person sends: a fixed number of slots, in no telling order."""

    origin: Origin
    codes: tuple[int, ...]

    def __post_init__(self) -> None:
        allowed = range(self.origin.codes)
        if len(self.codes) != self.origin.slots:
            raise InvalidInput("report", f"one of {self.origin.slots} slots", len(self.codes))
        if not all(code == EMPTY or code in allowed for code in self.codes):
            raise InvalidInput("report", f"made of codes below {self.origin.codes}", "another")


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Packed bits: one row per report, bit j of a row for the code ``first`` + j."""

    first: int
    bits: int
    packed: NDArray[np.uint8]


@dataclass(frozen=True, slots=True, eq=False)
class Reports:
    """Many reports before the shuffle: for the shuffler's eyes only."""

    origin: Origin
    count: int
    messages: Codes
    """Codes of the filled slots, in whatever order encoding left them."""
    rows: tuple[Rows, ...] = ()
    """Answers with many set bits, which are smaller packed."""

    def __post_init__(self) -> None:
        checks.whole("number of reports", self.count, least=0, most=10**12)

    def __len__(self) -> int:
        return self.count


@dataclass(frozen=True, slots=True, eq=False)
class Shuffled:
    """A batch after the shuffle: what the analyzer may see.

    ``messages`` stand in an order drawn uniformly; ``counts`` are added to theirs (of rows
    only the number of ones at each bit is passed on, which is the same multiset).
    """

    origin: Origin
    reports: int
    messages: Codes
    counts: Counts | None = None
    batch: str = ""
    """A random name of this batch, which a ledger knows its release by."""


@dataclass(frozen=True, slots=True, eq=False)
class Tally:
    """How often each code of a plan was sent, and by how many reports in all."""

    plan_id: str
    reports: int
    counts: Counts
    batch: str = ""
    """The random name of the batch that was counted; without one nothing can be charged."""

    def __post_init__(self) -> None:
        checks.whole("number of reports", self.reports, most=10**12)
        if len(self.counts) and int(self.counts.min()) < 0:
            raise InvalidInput("counts", "at least 0", "less")
