"""A question of a plan with its protocol, and what all of them together expose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from chaffinch import privacy
from chaffinch.charts.rounding import rounded_up
from chaffinch.errors import InvalidInput
from chaffinch.plans.honest_share import HonestShare
from chaffinch.plans.meaning import useless_error
from chaffinch.protocols import Protocol
from chaffinch.protocols.base import cut_chance
from chaffinch.questions import QUESTIONS, Question, label


@dataclass(frozen=True)
class Part:
    """One question of a plan with the protocol that protects it."""

    name: str
    question: Question
    protocol: Protocol
    answers_to: str | None = None
    """The number that this follows from, which nobody is asked: a bit, whether it was answered; a
    number, its square."""

    def __post_init__(self) -> None:
        label("name of a question", self.name)
        if not isinstance(self.question, QUESTIONS):
            raise InvalidInput("question", "a Bit, Choice, Number, Flags or Cross", self.question)
        self.protocol.check(self.question)

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """Return a name for everything that is counted of this question."""
        return self.protocol.labels(self.question)

    @cached_property
    def codes(self) -> int:
        """Return how many different messages this question has."""
        return self.protocol.codes(self.question)

    @cached_property
    def message_names(self) -> tuple[str, ...]:
        """Return what each message of this question says, in words."""
        return self.protocol.message_names(self.question)

    @property
    def slots(self) -> int:
        """Return how many slots of a report belong to this question."""
        return self.protocol.report_slots(self.question)

    def influence(self, slots: int) -> float:
        """Return the most that a report of ``slots`` moves a count, in people (sums: ranges)."""
        return self.protocol.influence(self.question, slots)

    @property
    def sealed_messages(self) -> int:
        """Return for how many messages of this question a report costs public-key work."""
        return self.protocol.sealed_messages(self.question)

    @property
    def expected_messages(self) -> float:
        """Return how many messages a report holds on average, for the answer that has most."""
        return self.protocol.expected_messages(self.question)

    @property
    def varies(self) -> bool:
        """Return whether the number of messages in a report follows the noise, not the answer."""
        return self.protocol.answer_messages(self.question) is not None

    def standard_error(self, reports: int) -> float:
        """Return the standard error of a count, in people, or of a sum in units of its range."""
        return self.protocol.standard_error(self.question, reports)

    def warnings(self, reports: int) -> list[str]:
        """Return a warning if the error is as large as the crowd."""
        return useless_error(self.name, self.standard_error(reports), reports)

    def mechanism(self, crowd: int) -> privacy.Mechanism:
        """Return what is seen of so many honest users, with the chance that slots run out."""
        mechanism = self.protocol.mechanism(self.question, crowd)
        cut = cut_chance(self.protocol.overflow(self.question), crowd * self.protocol.records)
        return privacy.Shortened(mechanism, cut) if cut else mechanism


def influences(parts: Sequence[Part], slots: int) -> dict[str, str]:
    """Return the most that one dishonest report moves a count, and a sum, rounded up.

    A sum is told in ranges: so many times the distance between the bounds of its number.

    >>> from fractions import Fraction
    >>> from chaffinch.protocols import Flips
    >>> from chaffinch.questions import Bit
    >>> influences([Part("member", Bit(), Flips(Fraction(1, 4)))], 1)
    {'a count': '2 people'}
    """
    most: dict[tuple[str, str], float] = {}
    for one in parts:
        kind = ("a sum", "ranges") if one.question.shape == "number" else ("a count", "people")
        most[kind] = max(most.get(kind, 0.0), one.influence(slots))
    return {what: f"{rounded_up(far):,g} {unit}" for (what, unit), far in sorted(most.items())}


def shortfall_of(
    honest: HonestShare | None, crowd: int, reports: int, contributions: int
) -> Fraction:
    """Return the chance that so many reports are those of fewer honest people than a crowd."""
    if honest is None:
        return Fraction(0)
    return honest.shortfall(users=crowd, reports=reports, contributions=contributions)


def total_of(
    parts: Sequence[Part],
    crowd: int,
    rounds: int,
    contributions: int = 1,
    shortfall: Fraction = Fraction(0),
) -> privacy.Mechanism:
    """Return all parts in all rounds together, of people who send so many reports each.

    Alone, a person's reports are seen one by one and compose. In a crowd they are one batch,
    where all of them may change at once; in each round it may be too small with a chance of
    ``shortfall``, for all questions together.
    """
    if crowd == 1:
        rounds, contributions = rounds * contributions, 1
    mechanisms = [part.mechanism(crowd * contributions) for part in parts]
    short, distance = (shortfall * rounds if crowd > 1 else Fraction(0)), Fraction(0)
    if short:
        # One cutting and one shortfall of the whole: then its rounds are seen one by one.
        cut = [one for one in mechanisms if isinstance(one, privacy.Shortened)]
        distance = rounds * sum((one.distance for one in cut), Fraction(0))
        mechanisms = [
            one.inner if isinstance(one, privacy.Shortened) else one for one in mechanisms
        ]
    alone = len(mechanisms) == 1 and rounds == 1
    whole = mechanisms[0] if alone else privacy.compose(mechanisms, times=rounds)
    if short:
        whole = privacy.Shortened(whole, min(distance, Fraction(1)), min(short, Fraction(1)))
    return whole if contributions == 1 else privacy.Grouped(whole, contributions)
