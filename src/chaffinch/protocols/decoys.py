"""Decoys: the answer in clear among uniform values that the users themselves send.

Source: S0 §5.1. There is no local protection: whoever sees a report alone sees the answer.

What the analyzer sees is how often each value was sent, and the number n of reports. Every report
is one answer and its decoys, and none is cut, so m = messages − n decoys arrived. Given m each of
them fell on any of the d values alike: a tally is h + Bin(m, 1/d), and how likely a slot is filled
plays no part. That is how a batch is read; ``noise`` is the mean of it over m.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from chaffinch import privacy, protocols, sampling
from chaffinch.errors import checks
from chaffinch.privacy.numerics import special
from chaffinch.privacy.numerics.roots import bisect_whole
from chaffinch.protocols.base import (
    GRAIN,
    LITTLE_NOISE,
    MOST_SLOTS,
    Coded,
    EncodingSeconds,
    Protocol,
    Reading,
    Setting,
    Variant,
    answer_labels,
    check_chance,
    numerator,
)
from chaffinch.questions import Question
from chaffinch.sampling import Words, below, bernoulli
from chaffinch.wire.batches import Counts

if TYPE_CHECKING:
    from chaffinch.protocols.joint import FlippedTogether
    from chaffinch.protocols.likelihoods import DecoyLikelihood
    from chaffinch.protocols.noise import DecoyNoise, Draws, MessageNoise, Places, Truth

_NAME = "clear with decoys"


@dataclass(frozen=True)
class Decoys(Protocol):
    """The answer in clear; each of ``decoy_slots`` slots holds, by chance, a uniform value."""

    decoy_slots: int
    decoy_rate: Fraction

    kind: ClassVar[str] = "decoys"
    clear: ClassVar[bool] = True
    shapes: ClassVar[tuple[str, ...]] = ("bit", "choice")
    seconds: ClassVar[EncodingSeconds] = EncodingSeconds(2.1e-5, 1.1e-7, 4.2e-8, 1.8e-8)

    def __post_init__(self) -> None:
        checks.whole("number of decoy slots", self.decoy_slots, least=1, most=MOST_SLOTS)
        check_chance("decoy rate", self.decoy_rate, below=Fraction(GRAIN + 1, GRAIN))

    def report_slots(self, question: Question) -> int:  # noqa: ARG002
        """Return one slot for the answer and the decoy slots."""
        return 1 + self.decoy_slots

    def answer_messages(self, question: Question) -> int:  # noqa: ARG002
        """Return one: the answer."""
        return 1

    def expected_messages(self, question: Question) -> float:  # noqa: ARG002
        """Return 1 + slots·rate."""
        return float(1 + self.decoy_slots * self.decoy_rate)

    def influence(self, question: Question, slots: int) -> float:
        """Return k − (k − 1)/d for k slots: filled with one value they count as k − 1 decoys.

        Filled with other values they take (k − 1)/d from a count, and an answer: never more.
        """
        return slots - (slots - 1) / len(answer_labels(question))

    def concentrated(self, question: Question, factor: Fraction) -> Decoys:  # noqa: ARG002
        """Return as many decoys from fewer reports."""
        return _with_decoys(float(self.decoy_slots * self.decoy_rate * factor))

    def encode_one(self, question: Question, answer: Any, words: Words) -> NDArray[np.int64]:
        """Send the answer and the decoys; a value is drawn for every slot, sent or not."""
        sent = bernoulli(words, numerator(self.decoy_rate), self.decoy_slots)
        fakes = below(words, len(answer_labels(question)), self.decoy_slots).astype(np.int64)
        return np.concatenate([np.array([answer], dtype=np.int64), fakes[sent]])

    def encode_many(self, question: Question, answers: NDArray[Any], words: Words) -> Coded:
        """Draw how many decoys are sent in all, and a uniform value for each."""
        slots = len(answers) * self.decoy_slots
        sent = len(sampling.positions(words, numerator(self.decoy_rate), slots))
        fakes = below(words, len(answer_labels(question)), sent).astype(np.uint32)
        # Sorted: which of them are decoys must not show.
        return Coded(np.sort(np.concatenate([np.asarray(answers, np.uint32), fakes])))

    def mechanism(self, question: Question, users: int) -> privacy.Mechanism:
        """Return clear values among the decoys that the honest users send."""
        return privacy.DecoyedValues(
            values=len(answer_labels(question)),
            users=users * self.decoy_slots,
            decoy_rate=self.decoy_rate,
        )

    def noise(self, question: Question) -> DecoyNoise:
        """Return how far a tally less its share of the decoys scatters."""
        return protocols.noise.DecoyNoise(
            len(answer_labels(question)), self.decoy_slots, self.decoy_rate
        )

    def read(self, question: Question, counts: Counts, reports: int) -> Reading:
        """Return the tallies, and their law given how many decoys arrived with them.

        Dishonest reports may be empty, so that fewer messages arrive than reports: no decoys then.
        """
        most = reports * self.report_slots(question)
        tallies = np.minimum(counts, most)
        # Every report has one answer, so the messages beyond their number are decoys.
        arrived = np.maximum(tallies.sum(axis=-1, keepdims=True) - reports, 0)
        noise = protocols.noise.SeenDecoys(len(answer_labels(question)), arrived)
        return Reading(tallies, noise, bool((counts > most).any()))

    def joint(self, question: Question, counts: Counts, reports: int) -> FlippedTogether:
        """Return the law of as many decoys as arrived."""
        arrived = max(0, int(np.sum(counts)) - reports)
        return protocols.joint.FlippedTogether(0.0, reports, len(answer_labels(question)), arrived)

    def likelihood(self, question: Question, held: int, people: int) -> DecoyLikelihood:  # noqa: ARG002
        """Return what a tally tells of one more person who holds the value."""
        return protocols.likelihoods.DecoyLikelihood(held)

    def messages_of_all(self, question: Question, people: int) -> MessageNoise:  # noqa: ARG002
        """Return n + Bin(n·slots, rate)."""
        slots, rate = people * self.decoy_slots, float(self.decoy_rate)
        return protocols.noise.MessageNoise(
            people + slots * rate, slots * rate * (1 - rate), 1.0 / 3.0
        )

    def least_messages(self, question: Question, users: int) -> int:  # noqa: ARG002
        """Return the answers and the least number of decoys that so many users send."""
        return users + _least(users * self.decoy_slots, self.decoy_rate)

    def most_messages(self, question: Question, users: int) -> int:  # noqa: ARG002
        """Return the answers and all slots but the least number that stay empty."""
        slots = users * self.decoy_slots
        return users + slots - _least(slots, 1 - self.decoy_rate)

    def draw_tallies(
        self, question: Question, truth: Truth, runs: int, draws: Draws, places: Places
    ) -> Counts:
        """Draw h + N, where N is the multinomial of Bin(n·slots, rate) uniform decoys."""
        values = len(answer_labels(question))
        chance = float(self.decoy_rate / values)
        fakes = protocols.noise.scatter_evenly(
            truth.people * self.decoy_slots, chance, runs, draws, places
        )
        return truth.held(values)[places] + fakes

    @classmethod
    def variants(cls, question: Question, most_messages: int) -> Sequence[Variant]:  # noqa: ARG003
        """Return the one way: 2·d/mu² decoys from the whole crowd."""

        def make(setting: Setting, mu: float) -> Decoys:
            values = len(answer_labels(setting.question))
            # m/d decoys at a value hide it by √(m/d), and two values move by one: mu² = 2·d/m.
            return _with_decoys(2.0 * values / (mu * mu * setting.crowd))

        return [Variant(_NAME, make)]

    @property
    def name(self) -> str:
        """Return the name."""
        return _NAME

    def sentence(self) -> str:
        """Return what a device does."""
        count = float(self.decoy_slots * self.decoy_rate)
        return f"the answer is sent in clear with {count:.3g} decoys on average"


def _with_decoys(each: float) -> Decoys:
    """Return reports with so many decoys each, on average."""
    # Rounded up: more decoys than were asked for keep the promise, fewer would not.
    slots = max(1, math.ceil(each))
    rate = Fraction(min(max(math.ceil(each / slots * GRAIN), 1), GRAIN), GRAIN)
    return Decoys(slots, rate)


def _least(slots: int, chance: Fraction) -> int:
    """Return a number that fewer of the slots reach with a chance of 1e-9 at most, by Chernoff.

    P[Bin(N, p) ≤ k] ≤ exp(−N·KL(k/N, p)) for k < N·p, so fewer than k + 1 are refused.
    """
    rate = float(chance)

    def rare(count: int) -> bool:
        """Return whether it is proven that so few come with a chance of 1e-9 at most."""
        held = count / slots
        far = special.rel_entr(held, rate) + special.rel_entr(1.0 - held, 1.0 - rate)
        # A millionth of the exponent covers the rounding of these logarithms.
        return count < 0 or slots * float(far) * (1 - 1e-6) >= -math.log(LITTLE_NOISE)

    return bisect_whole(rare, good=-1, bad=math.ceil(slots * rate)) + 1
