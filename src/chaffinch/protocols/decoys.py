"""Decoys: the answer in clear among uniform values that the users themselves send.

Source: S0 §5.1. There is no local protection: whoever sees a report alone sees the answer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import special

from chaffinch import checks, privacy
from chaffinch.privacy.numerics.roots import bisect_whole
from chaffinch.protocols.base import (
    GRAIN,
    LITTLE_NOISE,
    MOST_SLOTS,
    Coded,
    Protocol,
    ProtocolModel,
    Setting,
    Variant,
    answer_labels,
    check_chance,
    numerator,
)
from chaffinch.protocols.noise import Draws, MessageNoise, Noise, Places, Truth, scatter_evenly
from chaffinch.questions import Question
from chaffinch.sampling import Words, below, bernoulli, positions
from chaffinch.wire.batches import Counts
from chaffinch.wire.documents import Exact

_NAME = "clear with decoys"


class DecoysModel(ProtocolModel):
    """Clear answers among decoys."""

    kind: Literal["decoys"]
    decoy_slots: int
    decoy_rate: Exact

    def build(self) -> Decoys:
        """Return the protocol."""
        return Decoys(self.decoy_slots, Fraction(self.decoy_rate))


@dataclass(frozen=True)
class Decoys(Protocol):
    """The answer in clear; each of ``decoy_slots`` slots holds, by chance, a uniform value."""

    decoy_slots: int
    decoy_rate: Fraction

    kind: ClassVar[str] = "decoys"
    shapes: ClassVar[tuple[str, ...]] = ("bit", "choice")
    model: ClassVar[type[ProtocolModel]] = DecoysModel

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

    def encode_one(self, question: Question, answer: Any, words: Words) -> NDArray[np.int64]:
        """Send the answer and the decoys; a value is drawn for every slot, sent or not."""
        sent = bernoulli(words, numerator(self.decoy_rate), self.decoy_slots)
        fakes = below(words, len(answer_labels(question)), self.decoy_slots).astype(np.int64)
        return np.concatenate([np.array([answer], dtype=np.int64), fakes[sent]])

    def encode_many(self, question: Question, answers: NDArray[Any], words: Words) -> Coded:
        """Draw how many decoys are sent in all, and a uniform value for each."""
        slots = len(answers) * self.decoy_slots
        sent = len(positions(words, numerator(self.decoy_rate), slots))
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

    def noise(self, question: Question) -> Noise:
        """Return h + Bin(n·slots, rate/d)."""
        return Noise.clear(
            decoy_slots=self.decoy_slots,
            rate=self.decoy_rate,
            values=len(answer_labels(question)),
        )

    def messages_of_all(self, question: Question, people: int) -> MessageNoise:  # noqa: ARG002
        """Return n + Bin(n·slots, rate)."""
        slots, rate = people * self.decoy_slots, float(self.decoy_rate)
        return MessageNoise(people + slots * rate, slots * rate * (1 - rate), 1.0 / 3.0)

    def least_messages(self, question: Question, users: int) -> int:  # noqa: ARG002
        """Return the answers and the least number of decoys that so many users send, by Chernoff.

        P[Bin(N, p) ≤ k] ≤ exp(−N·KL(k/N, p)) for k < N·p, so fewer than k + 1 are refused.
        """
        slots, rate = users * self.decoy_slots, float(self.decoy_rate)

        def rare(count: int) -> bool:
            held = count / slots
            far = special.rel_entr(held, rate) + special.rel_entr(1.0 - held, 1.0 - rate)
            # A millionth of the exponent covers the rounding of these logarithms.
            return count < 0 or slots * float(far) * (1 - 1e-6) >= -math.log(LITTLE_NOISE)

        return users + bisect_whole(rare, good=-1, bad=math.ceil(slots * rate)) + 1

    def draw_tallies(
        self, question: Question, truth: Truth, runs: int, draws: Draws, places: Places
    ) -> Counts:
        """Draw h + N, where N is the multinomial of Bin(n·slots, rate) uniform decoys."""
        values = len(answer_labels(question))
        chance = float(self.decoy_rate / values)
        fakes = scatter_evenly(truth.people * self.decoy_slots, chance, runs, draws, places)
        return truth.held(values)[places] + fakes

    @classmethod
    def variants(cls, question: Question, most_messages: int) -> Sequence[Variant]:  # noqa: ARG003
        """Return the one way: 2·d/mu² decoys from the whole crowd."""

        def make(setting: Setting, mu: float) -> Decoys:
            values = len(answer_labels(setting.question))
            each = 2.0 * values / (mu * mu * setting.crowd)
            slots = max(1, math.ceil(each))
            rate = Fraction(min(max(math.ceil(each / slots * GRAIN), 1), GRAIN), GRAIN)
            return Decoys(slots, rate)

        return [Variant(_NAME, make)]

    @property
    def name(self) -> str:
        """Return the name."""
        return _NAME

    def sentence(self) -> str:
        """Return what a device does."""
        count = float(self.decoy_slots * self.decoy_rate)
        return f"the answer is sent in clear with {count:.3g} decoys on average"
