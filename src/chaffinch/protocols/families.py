"""The ways to protect a question, each tuned by one number: how much one person may move.

That number, mu, is the shift that one person causes in what is seen, in standard deviations
(the Gaussian limit of the exact laws). It only steers the search for parameters: every plan
is judged by the exact accountant afterwards.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from scipy import special

from chaffinch.protocols.protocols import (
    GRAIN,
    Decoys,
    Encoded,
    FlippedDecoys,
    Flips,
    Protocol,
    labels_of,
)
from chaffinch.protocols.slots import slots_for
from chaffinch.questions import Number, Question

COPIES = (2, 4, 8, 16, 32)
RESOLUTIONS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
FEWEST_STEPS = 8
"""A spread read from fewer steps than this says little."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What a protocol has to be tuned for."""

    question: Question
    crowd: int
    epsilon: float
    """The epsilon of the whole plan, which cutting is charged at."""
    cutting: float
    """How much of delta cutting may cost here."""


@dataclass(frozen=True, slots=True)
class Family:
    """A protocol with everything fixed except its strength."""

    name: str
    make: Callable[[Setting, float], Protocol]


def flip_for(mu: float, crowd: int, moved: float) -> Fraction:
    """Return the flip probability k/2⁶⁴ at which one person moves ``moved`` bits by mu.

    From (1 − 2q)²·moved/(crowd·q·(1 − q)) = mu², rounded up to the private side.
    """
    spread = moved / (crowd * mu * mu + 4.0 * moved)
    flip = 2.0 * spread / (1.0 + math.sqrt(max(1.0 - 4.0 * spread, 0.0)))
    return Fraction(min(max(math.ceil(flip * GRAIN), 1), GRAIN // 2 - 1), GRAIN)


def flips(copies: int) -> Family:
    """Return flips with so many copies."""

    def make(setting: Setting, mu: float) -> Protocol:
        question = setting.question
        if question.shape != "choice":
            bits = 1 if question.shape == "bit" else len(labels_of(question))
            return Flips(flip_for(mu, setting.crowd, copies * bits), copies)
        flip = flip_for(mu, setting.crowd, 2.0)
        return Flips(flip, 1, _slots(setting, flip, 1))

    return Family("flips" if copies == 1 else f"flips, {copies} copies", make)


def decoys() -> Family:
    """Return clear answers with decoys: 2·d/mu² of them from the whole crowd."""

    def make(setting: Setting, mu: float) -> Protocol:
        each = 2.0 * len(labels_of(setting.question)) / (mu * mu * setting.crowd)
        slots = max(1, math.ceil(each))
        rate = Fraction(min(max(math.ceil(each / slots * GRAIN), 1), GRAIN), GRAIN)
        return Decoys(slots, rate)

    return Family("clear with decoys", make)


def flipped_decoys(each: int) -> Family:
    """Return flips among so many decoy records from each user."""

    def make(setting: Setting, mu: float) -> Protocol:
        flip = flip_for(mu, setting.crowd * (1 + each), 2.0)
        return FlippedDecoys(flip, each, _slots(setting, flip, 1 + each))

    return Family("flips with decoys", make)


def encoded(resolution: int, *, together: bool) -> Family:
    """Return a number in so many bits."""

    def make(setting: Setting, mu: float) -> Protocol:
        return Encoded(flip_for(mu, setting.crowd, resolution), resolution, together)

    seen = "total" if together else "steps"
    return Family(f"number in {resolution} bits, {seen} seen", make)


def families(question: Question, most_messages: int) -> Sequence[Family]:
    """Return every way to protect a question within a number of messages per report.

    The shortest way is always there, even if it is too long: somebody has to say so.
    """
    copies = [flips(count) for count in COPIES if count <= most_messages]
    if question.shape == "bit":
        return [flips(1), *copies, decoys()]
    if question.shape == "flags":
        bits = len(labels_of(question))
        return [flips(1), *(flips(count) for count in COPIES if count * bits <= most_messages)]
    if isinstance(question, Number):
        least = FEWEST_STEPS if question.quantiles else 1
        fitting = [c for c in RESOLUTIONS if least <= c <= max(most_messages, least)]
        return [encoded(count, together=not question.quantiles) for count in fitting]
    return [flips(1), decoys(), flipped_decoys(1)]


def local() -> Family:
    """Return plain randomized response, which trusts no shuffler: the baseline.

    Its strength is an epsilon of its own, not a mu.
    """

    def make(setting: Setting, epsilon: float) -> Protocol:
        question = setting.question
        if isinstance(question, Number):
            bits = FEWEST_STEPS if question.quantiles else 1
            return Encoded(local_flip(epsilon / bits), bits, together=not question.quantiles)
        if question.shape == "choice":
            flip = local_flip(epsilon / 2)
            return Flips(flip, 1, _slots(setting, flip, 1))
        return Flips(local_flip(epsilon / (question.shape == "bit" or len(labels_of(question)))))

    return Family("local", make)


def local_flip(epsilon: float) -> Fraction:
    """Return the flip probability k/2⁶⁴ of a bit that is ``epsilon`` private by itself."""
    flip = special.expit(-epsilon * (1 - 1e-12))
    return Fraction(min(max(math.ceil(GRAIN * flip), 1), GRAIN // 2 - 1), GRAIN)


def gaussian_delta(epsilon: float, mu: float) -> float:
    """Return the delta of the Gaussian mechanism: it steers searches and proves nothing."""
    here = special.log_ndtr(-epsilon / mu + mu / 2)
    there = epsilon + special.log_ndtr(-epsilon / mu - mu / 2)
    return float(math.exp(here) * -math.expm1(min(there - here, 0.0)))


def gaussian_slope(epsilon: float, mu: float) -> float:
    """Return by how much ln(delta) rises with ln(mu), or falls with ln(epsilon), about."""
    small, large = gaussian_delta(epsilon, mu), gaussian_delta(epsilon, 1.01 * mu)
    if not 0 < small < large:
        return 1.0
    return max(math.log(large / small) / math.log(1.01), 1.0)


def gaussian_mu(epsilon: float, delta: float) -> float:
    """Return the mu whose Gaussian mechanism just meets (epsilon, delta): a first guess only."""
    low, high = 1e-9, 100.0
    for _ in range(100):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if gaussian_delta(epsilon, middle) <= delta else (low, middle)
    return low


def _slots(setting: Setting, flip: Fraction, records: int) -> int:
    return slots_for(
        len(labels_of(setting.question)),
        flip,
        records=setting.crowd * records,
        epsilon=setting.epsilon,
        allowed=setting.cutting,
    )
