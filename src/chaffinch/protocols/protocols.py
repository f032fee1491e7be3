"""How an answer is protected: what a device sends, and what that makes of the view.

Every protocol sends *codes*: whole numbers that each stand for a set bit. A report is a
fixed number of slots, each with a code or empty. What the analyzer sees of a question is
how often each code was sent. The four protocols differ in how the codes are chosen:

=================  ==========================================================================
Flips              every bit of the answer flipped, ``copies`` times over
Decoys             the answer in clear, and decoy slots filled by chance with uniform values
FlippedDecoys      the answer and whole decoy records, every bit of all of them flipped
Encoded            a number as a thermometer of bits, every bit flipped
=================  ==========================================================================

Adding a protocol means one class here, one encoder, and one line in PROTOCOLS.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from chaffinch import checks, privacy
from chaffinch.errors import InvalidInput
from chaffinch.protocols.noise import Noise
from chaffinch.protocols.slots import overflow
from chaffinch.questions import Bit, Choice, Flags, Number, Question

GRAIN = 1 << 64
"""Every probability a device uses is a whole number of 1/GRAIN."""
MOST_SLOTS = 10**6


@dataclass(frozen=True)
class Protocol(ABC):
    """One way to protect one question, with exact parameters."""

    kind: ClassVar[str]
    shapes: ClassVar[tuple[str, ...]]

    def check(self, question: Question) -> None:
        """Refuse a question that this protocol cannot carry."""
        if question.shape not in self.shapes:
            raise InvalidInput(
                "question",
                f"of a shape that {self.kind!r} carries: {', '.join(self.shapes)}",
                question.kind,
            )

    @abstractmethod
    def labels(self, question: Question) -> tuple[str, ...]:
        """Return a name for each code."""

    @abstractmethod
    def mechanism(self, question: Question, users: int) -> privacy.Mechanism:
        """Return what the view of so many honest users is, for the accountant."""

    @abstractmethod
    def noise(self, question: Question) -> Noise:
        """Return the law of a tally given the true count."""

    @abstractmethod
    def report_slots(self, question: Question) -> int:
        """Return how many slots a report has."""

    @abstractmethod
    def expected_messages(self, question: Question) -> float:
        """Return how many of them are filled, on average, for the answer that fills most."""

    def overflow(self, question: Question) -> float:  # noqa: ARG002
        """Return a bound on the chance that a record has more messages than slots."""
        return 0.0

    @property
    def records(self) -> int:
        """Return how many records a report holds, decoys included."""
        return 1


@dataclass(frozen=True)
class Flips(Protocol):
    """Every bit of the answer is flipped with ``flip_probability``, ``copies`` times over.

    Source: S0 §4 and §5.2; copies: S1 §5. ``slots`` limits the set bits of a flipped choice.
    """

    flip_probability: Fraction
    copies: int = 1
    slots: int | None = None

    kind: ClassVar[str] = "flips"
    shapes: ClassVar[tuple[str, ...]] = ("bit", "choice", "flags")

    def __post_init__(self) -> None:
        drawn("flip probability", self.flip_probability, below=Fraction(1, 2))
        checks.whole("number of copies", self.copies, least=1, most=10_000)
        if self.slots is not None:
            checks.whole("number of slots", self.slots, least=1, most=MOST_SLOTS)

    def check(self, question: Question) -> None:
        """Refuse copies of a choice, and a choice without a number of slots."""
        super().check(question)
        if (question.shape == "choice") != (self.slots is not None):
            raise InvalidInput("number of slots", "given for choices and only there", self.slots)
        if question.shape == "choice" and self.copies != 1:
            raise InvalidInput("number of copies", "1 for a choice", self.copies)

    def labels(self, question: Question) -> tuple[str, ...]:
        """Return the names of the bits; a bit has one code, which says yes."""
        return ("yes",) if question.shape == "bit" else labels_of(question)

    def mechanism(self, question: Question, users: int) -> privacy.Mechanism:
        """Return flipped bits, as many of them composed as there are flags, or flipped values."""
        if question.shape == "choice":
            return privacy.FlippedValues(
                users=users,
                values=len(labels_of(question)),
                flip_probability=self.flip_probability,
            )
        bit = privacy.FlippedBits(
            users=users, flip_probability=self.flip_probability, copies=self.copies
        )
        flags = len(self.labels(question))
        return bit if flags == 1 else privacy.compose(bit, times=flags)

    def noise(self, question: Question) -> Noise:  # noqa: ARG002
        """Return Bin(k·h, p) + Bin(k·(n − h), q)."""
        return Noise.flips(self.flip_probability, copies=self.copies)

    def report_slots(self, question: Question) -> int:
        """Return a slot for each copy of each bit, or the slots of the choice."""
        if self.slots is not None:
            return min(self.slots, len(labels_of(question)))
        return self.copies * len(self.labels(question))

    def expected_messages(self, question: Question) -> float:
        """Return the mean number of set bits of the fullest answer."""
        keep, bits = 1 - self.flip_probability, len(self.labels(question))
        if question.shape == "choice":
            return float(keep + (bits - 1) * self.flip_probability)
        return float(self.copies * bits * keep)

    def overflow(self, question: Question) -> float:
        """Return a bound on the chance that more bits are set than there are slots."""
        if self.slots is None:
            return 0.0
        return overflow(len(labels_of(question)), self.flip_probability, self.slots)


@dataclass(frozen=True)
class Decoys(Protocol):
    """The answer in clear; each of ``decoy_slots`` slots holds, by chance, a uniform value.

    Source: S0 §5.1, with the decoys sent by the users themselves. No local protection.
    """

    decoy_slots: int
    decoy_rate: Fraction

    kind: ClassVar[str] = "decoys"
    shapes: ClassVar[tuple[str, ...]] = ("bit", "choice")

    def __post_init__(self) -> None:
        checks.whole("number of decoy slots", self.decoy_slots, least=1, most=MOST_SLOTS)
        drawn("decoy rate", self.decoy_rate, below=Fraction(GRAIN + 1, GRAIN))

    def labels(self, question: Question) -> tuple[str, ...]:
        """Return the names of the values; no is a value like yes."""
        return labels_of(question)

    def mechanism(self, question: Question, users: int) -> privacy.Mechanism:
        """Return clear values among the decoys that the honest users send."""
        return privacy.DecoyedValues(
            values=len(labels_of(question)),
            users=users * self.decoy_slots,
            decoy_rate=self.decoy_rate,
        )

    def noise(self, question: Question) -> Noise:
        """Return h + Bin(n·slots, rate/d)."""
        return Noise.clear(
            decoy_slots=self.decoy_slots, rate=self.decoy_rate, values=len(labels_of(question))
        )

    def report_slots(self, question: Question) -> int:  # noqa: ARG002
        """Return one slot for the answer and the decoy slots."""
        return 1 + self.decoy_slots

    def expected_messages(self, question: Question) -> float:  # noqa: ARG002
        """Return 1 + slots·rate."""
        return float(1 + self.decoy_slots * self.decoy_rate)


@dataclass(frozen=True)
class FlippedDecoys(Protocol):
    """The answer and ``decoys`` uniform values, all as one-hot records, every bit flipped.

    Source: S0 §5.3, messages view only. ``slots`` limits the set bits of each record.
    """

    flip_probability: Fraction
    decoys: int
    slots: int

    kind: ClassVar[str] = "flipped-decoys"
    shapes: ClassVar[tuple[str, ...]] = ("choice",)

    def __post_init__(self) -> None:
        drawn("flip probability", self.flip_probability, below=Fraction(1, 2))
        checks.whole("number of decoys per user", self.decoys, least=1, most=1_000)
        checks.whole("number of slots", self.slots, least=1, most=MOST_SLOTS)

    def labels(self, question: Question) -> tuple[str, ...]:
        """Return the names of the values."""
        return labels_of(question)

    def mechanism(self, question: Question, users: int) -> privacy.Mechanism:
        """Return flipped values with the decoys of the honest users."""
        return privacy.FlippedValues(
            users=users,
            decoys=users * self.decoys,
            values=len(labels_of(question)),
            flip_probability=self.flip_probability,
        )

    def noise(self, question: Question) -> Noise:
        """Return Bin(h, p) + Bin(n − h, q) + Bin(n·decoys, p/d + q·(1 − 1/d))."""
        return Noise.flips_with_decoys(
            self.flip_probability,
            decoy_slots=self.decoys,
            rate=Fraction(1),
            values=len(labels_of(question)),
        )

    def report_slots(self, question: Question) -> int:
        """Return the slots of all records."""
        return self.records * min(self.slots, len(labels_of(question)))

    def expected_messages(self, question: Question) -> float:
        """Return the mean number of set bits of all records."""
        flip, bits = self.flip_probability, len(labels_of(question))
        return float(self.records * (1 - flip + (bits - 1) * flip))

    def overflow(self, question: Question) -> float:
        """Return a bound on the chance that one record sets more bits than it has slots."""
        return overflow(len(labels_of(question)), self.flip_probability, self.slots)

    @property
    def records(self) -> int:
        """Return the answer's record and the decoys."""
        return 1 + self.decoys


@dataclass(frozen=True)
class Encoded(Protocol):
    """A number as a thermometer of ``resolution`` bits, every bit flipped.

    Source: S3 algorithms 2 and 3. ``together``: the bits carry no position, and only their
    total is seen. Otherwise each position has its own code, and the spread can be read too.
    """

    flip_probability: Fraction
    resolution: int
    together: bool

    kind: ClassVar[str] = "encoded"
    shapes: ClassVar[tuple[str, ...]] = ("number",)

    def __post_init__(self) -> None:
        drawn("flip probability", self.flip_probability, below=Fraction(1, 2))
        checks.whole("resolution", self.resolution, least=1, most=1_000)
        if not isinstance(self.together, bool):
            raise InvalidInput("together", "true or false", self.together)

    def check(self, question: Question) -> None:
        """Refuse a question about the spread where only the total is sent."""
        super().check(question)
        if isinstance(question, Number) and question.quantiles and self.together:
            raise InvalidInput("together", "false where quantiles are asked for", self.together)

    def labels(self, question: Question) -> tuple[str, ...]:
        """Return one name for the total, or the step at which each position begins."""
        if self.together or not isinstance(question, Number):
            return ("total",)
        width = (question.high - question.low) / self.resolution
        return tuple(f"{question.low + step * width:g}" for step in range(self.resolution))

    def mechanism(self, question: Question, users: int) -> privacy.Mechanism:  # noqa: ARG002
        """Return encoded numbers."""
        return privacy.EncodedNumbers(
            users=users,
            resolution=self.resolution,
            flip_probability=self.flip_probability,
            slots="together" if self.together else "separate",
        )

    def noise(self, question: Question) -> Noise:  # noqa: ARG002
        """Return the law of the tally of one bit position."""
        return Noise.flips(self.flip_probability)

    def report_slots(self, question: Question) -> int:  # noqa: ARG002
        """Return a slot for each bit."""
        return self.resolution

    def expected_messages(self, question: Question) -> float:  # noqa: ARG002
        """Return the mean number of set bits of the largest number."""
        return float(self.resolution * (1 - self.flip_probability))


PROTOCOLS: dict[str, type[Protocol]] = {
    protocol.kind: protocol for protocol in (Flips, Decoys, FlippedDecoys, Encoded)
}


def drawn(parameter: str, value: object, *, below: Fraction) -> Fraction:
    """Refuse a probability that a device cannot draw exactly: it must be k/2⁶⁴."""
    exact = checks.probability(parameter, value, below=below)
    if not isinstance(value, Fraction) or GRAIN % exact.denominator:
        raise InvalidInput(parameter, "a whole number of 1/2**64", value)
    return exact


def labels_of(question: Question) -> tuple[str, ...]:
    """Return the names of the answers to a question that has named answers."""
    if not isinstance(question, (Bit, Choice, Flags)):
        raise InvalidInput("question", "one with named answers", question.kind)
    return question.labels
