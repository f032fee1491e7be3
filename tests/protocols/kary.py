"""K-ary randomized response, as somebody would add it to chaffinch from outside.

A device sends its answer, or, with ``redraw_probability``, a uniform value in its place. Here are
the two things that chaffinch must be told: what a device does and how its tallies scatter (the
protocol), and what the messages of a crowd show of one person (the mechanism).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from chaffinch import privacy
from chaffinch.privacy.numerics import special
from chaffinch.protocols import Protocol, Variant, register
from chaffinch.protocols.base import (
    GRAIN,
    Coded,
    EncodingSeconds,
    Setting,
    answer_labels,
    check_chance,
    numerator,
)
from chaffinch.protocols.noise import Draws, Noise, Places, Truth
from chaffinch.questions import Question
from chaffinch.sampling import Words, below, bernoulli, positions
from chaffinch.wire.batches import Counts

Floats = NDArray[np.float64]
_ROUNDOFF = 1e-8
"""Far more than floats can be off here: masses of a binomial from logarithms of factorials."""


@dataclass(frozen=True)
class KaryResponders(privacy.Mechanism):
    """So many users, each of whom sends one of ``values``: the own one, or a uniform one.

    The upper end. Tell the reader more: which of the others answered, and what. Then there are the
    target's message and Bin(users − 1, γ) uniform ones, γ being ``redraw_probability``. The laws
    are mixtures: with γ the target's message is uniform, whatever it holds, and else it is the
    answer in clear among decoys. So delta is at most 1 − γ times that of ``DecoyedValues``; the
    privacy blanket of Balle, Bell, Gascón and Nissim 2019. Shuffling never hurts, so it is never
    more than what one message shows.

    The lower end. Where all others hold a third value, each of them says "a" with γ/k, and so does
    a target who does not hold it: how often "a" was sent is then the difference of one coin.
    """

    users: int
    values: int
    redraw_probability: Fraction

    view = "messages"
    method = "upper-bound"
    document_name = "kary-responders"
    document_fields = ("users", "values", "redraw_probability")
    document_fractions = ("redraw_probability",)

    @property
    def crowd_words(self) -> str:
        """Return the crowd the guarantee counts on, in words."""
        return f"{self.users} honest users"

    @property
    def chances(self) -> tuple[float, float]:
        """Return how likely a message is one value, for who holds it and for who does not."""
        other = float(self.redraw_probability / self.values)
        return 1.0 - float(self.redraw_probability) + other, other

    @property
    def local_epsilon(self) -> float:
        """Return ln(1 + (1 − γ)·k/γ), rounded up."""
        odds = (1 - self.redraw_probability) * self.values / self.redraw_probability
        return math.log1p(float(odds)) * (1.0 + 1e-14)

    def delta(self, epsilon: float) -> privacy.Bracket:
        """Return both ends."""
        if epsilon >= self.local_epsilon:
            return privacy.Bracket(0.0, 0.0)
        hit, miss = self.chances
        # Of one message alone; the difference of two rounded numbers is off by their size.
        upper = max(hit - math.exp(epsilon) * miss, 0.0) + 1e-14
        if self.users > 1:
            blanket = privacy.DecoyedValues(
                values=self.values, users=self.users - 1, decoy_rate=self.redraw_probability
            )
            answered = 1.0 - float(self.redraw_probability)
            upper = min(upper, answered * blanket.delta(epsilon).upper)
        upper *= 1.0 + _ROUNDOFF
        return privacy.Bracket(min(self._lower(epsilon), upper), upper)

    def _lower(self, epsilon: float) -> float:
        hit, miss = self.chances
        others = self.users - 1
        # Far from the mean nothing is added; leaving it out only lowers this end.
        spread = 12.0 * math.sqrt(others * miss) + 60.0
        first = max(0, int(others * miss - spread))
        last = min(others, int(others * miss + spread))
        seen = np.arange(first, last + 2, dtype=np.float64)
        with_one, without = _masses(others, miss, seen - 1.0), _masses(others, miss, seen)
        held = hit * with_one + (1.0 - hit) * without
        free = miss * with_one + (1.0 - miss) * without
        room = 1.0 + _ROUNDOFF
        found = float(np.maximum(held / room - math.exp(epsilon) * free * room, 0.0).sum())
        return found / room

    def profile(self, epsilons: Floats) -> tuple[Floats, Floats]:
        """Return both ends at many epsilons."""
        ends = [self.delta(float(epsilon)) for epsilon in epsilons]
        return np.array([one.lower for one in ends]), np.array([one.upper for one in ends])


def _masses(trials: int, chance: float, counts: Floats) -> Floats:
    """Return the masses of a binomial at some counts; 0 where there are none."""
    inside = (counts >= 0) & (counts <= trials)
    held = np.where(inside, counts, 0.0)
    ways = (
        special.gammaln(trials + 1.0)
        - special.gammaln(held + 1.0)
        - special.gammaln(trials - held + 1.0)
    )
    logs = ways + held * math.log(chance) + (trials - held) * math.log1p(-chance)
    return np.where(inside, np.exp(logs), 0.0)


@dataclass(frozen=True)
class KaryResponse(Protocol):
    """The answer, or with ``redraw_probability`` a uniform value in its place: one message."""

    redraw_probability: Fraction

    kind: ClassVar[str] = "k-ary"
    shapes: ClassVar[tuple[str, ...]] = ("bit", "choice")
    mechanisms: ClassVar[tuple[type[privacy.Mechanism], ...]] = (KaryResponders,)
    seconds: ClassVar[EncodingSeconds] = EncodingSeconds(2.0e-5, 2.0e-7, 5.0e-8, 3.0e-8)

    def __post_init__(self) -> None:
        check_chance("redraw probability", self.redraw_probability, below=Fraction(1))

    def report_slots(self, question: Question) -> int:  # noqa: ARG002
        """Return one slot, which is always full."""
        return 1

    def expected_messages(self, question: Question) -> float:  # noqa: ARG002
        """Return one."""
        return 1.0

    def encode_one(self, question: Question, answer: Any, words: Words) -> NDArray[np.int64]:
        """Send the answer or another value; both are there, whichever is sent."""
        redrawn = bernoulli(words, numerator(self.redraw_probability), 1)
        other = below(words, len(answer_labels(question)), 1).astype(np.int64)
        return np.where(redrawn, other, np.int64(answer))

    def encode_many(self, question: Question, answers: NDArray[Any], words: Words) -> Coded:
        """Draw who sends another value, and these values."""
        codes = np.array(answers, dtype=np.uint32)
        redrawn = positions(words, numerator(self.redraw_probability), len(codes))
        codes[redrawn] = below(words, len(answer_labels(question)), len(redrawn))
        return Coded(np.sort(codes))

    def mechanism(self, question: Question, users: int) -> KaryResponders:
        """Return what the messages of so many honest users show."""
        return KaryResponders(users, len(answer_labels(question)), self.redraw_probability)

    def noise(self, question: Question) -> Noise:
        """Return Bin(h, 1 − γ + γ/k) + Bin(n − h, γ/k)."""
        miss = self.redraw_probability / len(answer_labels(question))
        return Noise(1, 1 - self.redraw_probability + miss, miss)

    def draw_tallies(
        self, question: Question, truth: Truth, runs: int, draws: Draws, places: Places
    ) -> Counts:
        """Draw who answers; the others are scattered evenly."""
        values = len(answer_labels(question))
        stay = 1.0 - float(self.redraw_probability)
        answered = draws.binomial(truth.held(values), stay, (runs, values))
        redrawn = truth.people - answered.sum(axis=1)
        return (answered + draws.multinomial(redrawn, np.full(values, 1.0 / values)))[:, places]

    @classmethod
    def variants(cls, question: Question, most_messages: int) -> Sequence[Variant]:  # noqa: ARG003
        """Return the one way: two counts move by 1 − γ, and scatter by n·γ/k each."""

        def make(setting: Setting, mu: float) -> KaryResponse:
            # (1 − γ)² = c·γ with c = mu²·n/2k, solved for γ.
            c = mu * mu * setting.crowd / (2.0 * len(answer_labels(setting.question)))
            redraw = 2.0 / (2.0 + c + math.sqrt(c * c + 4.0 * c))
            return KaryResponse(Fraction(min(max(math.ceil(redraw * GRAIN), 1), GRAIN - 1), GRAIN))

        return [Variant("k-ary response", make)]

    @property
    def name(self) -> str:
        """Return the name."""
        return "k-ary response"

    def sentence(self) -> str:
        """Return what a device does."""
        chance = float(self.redraw_probability)
        return f"a uniform value is sent in place of the answer with probability {chance:.3g}"


register(KaryResponse)
