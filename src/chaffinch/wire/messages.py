"""Reports before the shuffle and messages after it.

A message is a *code*: the number of a set bit in the plan's list of codes. Before the
shuffle the order of codes may tell who sent what; after it the order says nothing, and the
number of times each code was sent is all there is to know.

A batch has the messages of all its reports and how many reports they are: how many messages
one report has is not kept, and no dummies are. (A file with a single report still shows it.) Where
the number follows the noise and never the answer, as with decoys, it is to stay with whoever opens
the report; see ``answer_messages`` of a protocol.

Everything here has the random name of its batch, and a digest that is worked out when it is
asked for. No ``repr`` shows a message.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from chaffinch import sampling
from chaffinch.errors import BatchTooSmall, InvalidFile, InvalidInput, Unquoted, checks
from chaffinch.wire.batches import BatchFacts, CodeCounts, Codes, Counts, digest_of, new_name

EMPTY = 0xFFFF_FFFF
"""The code in a slot that holds no message."""
_UNPACKED = 1 << 22
"""Bits of packed rows that are a byte each for a moment."""


class Planned(Protocol):
    """What messages must know of a plan."""

    @property
    def id(self) -> str:
        """Return the plan's name."""
        ...

    @property
    def codes(self) -> int:
        """Return how many different messages there are."""
        ...

    @property
    def slots(self) -> int:
        """Return how many messages a report can hold."""
        ...

    @property
    def reports(self) -> int:
        """Return how many reports must be there before anything is released."""
        ...

    @property
    def rounds(self) -> int:
        """Return how often the same people are asked."""
        ...


@dataclass(frozen=True, slots=True)
class Origin:
    """What every batch must know of its plan: which one, how many codes, how large a crowd."""

    plan_id: str
    codes: int
    least_reports: int
    slots: int
    round: int = 1

    @classmethod
    def of(cls, plan: Planned, round: int | None = None) -> Origin:  # noqa: A002
        """Return the origin of a batch of one round.

        Where there are several rounds the number must be given: a round that is taken for
        another would be mixed with it.
        """
        if round is None and plan.rounds > 1:
            raise InvalidInput(
                "round",
                f"given, from 1 to {plan.rounds}",
                Unquoted("none"),
                hint="say which one this is for: --round 1 (round=1) for the first",
            )
        number = 1 if round is None else checks.whole("round", round, least=1, most=plan.rounds)
        return cls(plan.id, plan.codes, plan.reports, plan.slots, number)

    def check_crowd(self, reports: int, messages: int) -> None:
        """Refuse a batch of too few reports, or of more messages than they can hold.

        It is the last check of every batch, in a file or from a service. When a service lets a
        batch leave is decided before, by ``shuffling.release_rule``.
        """
        if reports < self.least_reports:
            raise BatchTooSmall(have=reports, need=self.least_reports)
        if messages > reports * self.slots:
            must_be = f"of at most {self.slots} messages for each report"
            raise InvalidFile("batch", must_be, [f"{messages:,} messages in {reports:,} reports"])

    def facts(self, stage: str, reports: int, name: str) -> BatchFacts:
        """Return the facts of a batch of this origin."""
        return BatchFacts(self.plan_id, stage, reports, self.codes, self.round, name)


@dataclass(frozen=True, slots=True)
class Report:
    """Everything one person sends: a fixed number of slots, in no telling order."""

    origin: Origin
    codes: tuple[int, ...] = field(repr=False)
    name: str = field(default_factory=new_name, repr=False)

    def __post_init__(self) -> None:
        allowed = range(self.origin.codes)
        if len(self.codes) != self.origin.slots:
            raise InvalidInput("report", f"one of {self.origin.slots} slots", len(self.codes))
        # Most slots of a long report are empty, at its end, and a device waits for this.
        filled = self.codes[: len(self.codes) - self.codes.count(EMPTY)]
        looked = filled if EMPTY not in filled else self.codes
        if not all(code == EMPTY or code in allowed for code in set(looked)):
            raise InvalidInput(
                "report", f"made of codes below {self.origin.codes}", Unquoted("another")
            )

    @property
    def digest(self) -> str:
        """Return the digest of this report. It can be guessed: it is for the shuffler only."""
        counts = CodeCounts(self.origin.codes)
        counts.add(np.array([code for code in self.codes if code != EMPTY], np.uint32))
        return digest_of(self.origin.facts("encoded", 1, self.name), counts)


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Packed bits: one row per report, bit j of a row for the code ``first`` + j."""

    first: int
    bits: int
    packed: NDArray[np.uint8] = field(repr=False)

    def codes(self) -> Codes:
        """Return the codes of all ones."""
        # A bit takes a byte for a moment, so only some rows are unpacked at once.
        step = max(1, _UNPACKED // self.bits)
        parts = [np.empty(0, np.uint32)]
        for start in range(0, len(self.packed), step):
            bits = np.unpackbits(
                self.packed[start : start + step], axis=1, count=self.bits, bitorder="little"
            )
            parts.append((np.nonzero(bits)[1] + self.first).astype(np.uint32))
        return np.concatenate(parts)


@dataclass(frozen=True, slots=True, eq=False)
class Reports:
    """Many reports before the shuffle: for the shuffler's eyes only."""

    origin: Origin
    count: int
    messages: Codes = field(repr=False)
    """Codes of the filled slots, in whatever order encoding left them."""
    rows: tuple[Rows, ...] = field(default=(), repr=False)
    """Answers with many set bits, which are smaller packed."""
    name: str = field(default_factory=new_name, repr=False)

    def __post_init__(self) -> None:
        checks.whole("number of reports", self.count, most=10**12)

    def __len__(self) -> int:
        return self.count

    def codes(self) -> Codes:
        """Return the codes of all messages, those in packed rows too."""
        if not self.rows:
            return self.messages
        return np.concatenate([self.messages, *(block.codes() for block in self.rows)])

    def row_counts(self) -> Counts:
        """Return how many of the packed rows have a one at each code."""
        counts = np.zeros(self.origin.codes, np.int64)
        for block in self.rows:
            ones = sampling.positional_popcount(block.packed, block.bits)
            counts[block.first : block.first + block.bits] += ones
        return counts

    @property
    def digest(self) -> str:
        """Return the digest of this batch: it is for the shuffler only."""
        counts = CodeCounts(self.origin.codes)
        counts.add(self.messages)
        if self.rows:
            counts.add_counts(self.row_counts())
        return digest_of(self.origin.facts("encoded", self.count, self.name), counts)


@dataclass(frozen=True, slots=True, eq=False)
class Shuffled:
    """A batch after the shuffle: what the analyzer may see.

    ``messages`` stand in an order drawn uniformly; ``counts`` are added to theirs (of rows
    only the number of ones at each bit is passed on, which is the same multiset).
    """

    origin: Origin
    reports: int
    messages: Codes = field(repr=False)
    counts: Counts | None = field(default=None, repr=False)
    name: str = ""
    """The random name of this batch, which has nothing to do with those that went in."""

    def code_counts(self) -> CodeCounts:
        """Return how often each code is in the batch."""
        counts = CodeCounts(self.origin.codes)
        counts.add(self.messages)
        if self.counts is not None:
            counts.add_counts(self.counts)
        return counts

    @property
    def digest(self) -> str:
        """Return the digest of this batch."""
        return digest_of(self.origin.facts("shuffled", self.reports, self.name), self.code_counts())


@dataclass(frozen=True, slots=True, eq=False)
class Tally:
    """How often each code of a plan was sent, and by how many reports in all."""

    plan_id: str
    reports: int
    counts: Counts = field(repr=False)
    name: str = ""
    """The name of the batch that was counted; without one nothing can be charged."""
    round: int = 1
    absent: int = 0
    """How many of the reports have sent nothing of the plan: whoever counts knows, and nobody else.
    What is charged is what came."""
    noisy: bool = False
    """Whether the counts are totals to which noise was added: they may be below 0."""

    def __post_init__(self) -> None:
        checks.whole("number of reports", self.reports, most=10**12)
        checks.whole("number of absent reports", self.absent, most=self.reports)
        if len(self.counts) and not self.noisy and int(self.counts.min()) < 0:
            raise InvalidInput("counts", "at least 0", Unquoted("less"))

    @property
    def present(self) -> int:
        """Return how many reports are in the counts."""
        return self.reports - self.absent

    @property
    def digest(self) -> str:
        """Return the digest of what was counted, which a ledger charges.

        It is worked out from the counts each time, so changed counts have another one. A
        tally of one file has the digest of that file.
        """
        space = len(self.counts)
        facts = BatchFacts(self.plan_id, "shuffled", self.reports, space, self.round, self.name)
        counts = CodeCounts(space)
        counts.add_counts(np.asarray(self.counts, np.int64))
        return digest_of(facts, counts)
