"""Noise that many devices share out: a Poisson number of bursts, each of one of a few kinds.

Sums of bursts at given rates are compound Poisson, and a 1/n share of such noise is the same with
rates n times smaller (Poisson splitting). All chances are whole numbers of 2⁻¹²⁸.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from chaffinch import sampling
from chaffinch.privacy.numerics.floods import NoiseMessages
from chaffinch.protocols.base import GRAIN, Setting
from chaffinch.sampling import SCALE, ChanceTable, Words, bernoulli

LARGEST_RATIO, LARGEST_ROOM = Fraction((1 << 30) - 1, 1 << 30), 4096
"""No useful plan comes near these; work and memory of its laws follow them."""
_NEVER = Decimal("1e-55")
EXACT = Context(prec=60)
"""Entries are whole numbers of 2⁻¹²⁸, about 3e-39: what 60 digits round is far below one."""


@dataclass(frozen=True, eq=False)
class Bursts:
    """How a device draws bursts: whether there are any, how many, and of which kind."""

    any_burst: int
    """The chance of any burst, rounded up, in units of 2⁻⁶⁴."""
    number: ChanceTable
    kinds: ChanceTable
    rounding: float
    """A bound on the total variation between what is drawn and the law of the noise."""

    @classmethod
    def of(cls, rates: Sequence[Decimal], total: Decimal, share: Fraction) -> Bursts:
        """Return the tables of a share of bursts with these rates.

        The sum ``total`` of all rates may be larger: what the table leaves over is bursts that are
        left out, because they would be dropped.
        """
        mean = EXACT.divide(
            EXACT.multiply(total, Decimal(share.numerator)), Decimal(share.denominator)
        )
        # Not −mean: an operator would round to the digits of another context.
        none = EXACT.exp(EXACT.minus(mean))
        some = EXACT.subtract(Decimal(1), none)
        any_burst = min(int(EXACT.multiply(some, Decimal(GRAIN))) + 1, GRAIN)
        chances: list[Decimal] = []
        chance = none
        # Chances rise up to the mean: a tiny one before it is not the end of them.
        while not chances or chance > _NEVER or len(chances) < mean:
            chance = EXACT.divide(EXACT.multiply(chance, mean), Decimal(len(chances) + 1))
            # Given any burst, at the chance with which it is really drawn: the product is the
            # Poisson law.
            chances.append(EXACT.divide(EXACT.multiply(chance, Decimal(GRAIN)), Decimal(any_burst)))
        # A report draws ``mean`` kinds on average, and each draw may be off by every entry's
        # rounding.
        entries = len(chances) + len(rates) * float(mean)
        return cls(
            any_burst=any_burst,
            number=ChanceTable((0, *_weights(chances))),
            kinds=ChanceTable(_weights([EXACT.divide(one, total) for one in rates])),
            # Each entry is rounded down by less than two units; what is never drawn is below 1e-50.
            rounding=2.0 * entries * 2.0**-128 + 1e-50,
        )

    def draw(self, words: Words, reports: int) -> tuple[int, NDArray[np.int64], NDArray[np.int64]]:
        """Return how many of the reports have bursts, and of each burst its report and kind."""
        if not reports:
            return 0, np.empty(0, np.int64), np.empty(0, np.int64)
        # Many at the cost of those who send; one device by one coin, whatever its result.
        senders = (
            len(sampling.positions(words, self.any_burst, reports))
            if reports > 1
            else int(bernoulli(words, self.any_burst, 1)[0])
        )
        if not senders:
            return 0, np.empty(0, np.int64), np.empty(0, np.int64)
        number = self.number.draw(words, senders)
        # `any_burst` is rounded up. What the table leaves over is that rounding: no burst after
        # all.
        number[number == len(self.number.weights)] = 0
        owner = np.repeat(np.arange(senders), number)
        return senders, owner, self.kinds.draw(words, len(owner))


def dropped_chance(setting: Setting) -> float:
    """Return the chance with which noise of one report may not fit.

    What does not fit costs (1 + e^epsilon) times its chance, for every user; half of what it
    may cost is left to the rounding of tables.
    """
    return setting.cutting / (1.0 + math.exp(min(setting.epsilon, 700.0))) / setting.crowd / 2


def room_for(noise: NoiseMessages, chance: float) -> int:
    """Return a room that is too small with this chance; none at all if none is large enough.

    Nothing is proven of a report without room, quickly: the planner tries another one.
    """
    if noise.mean > LARGEST_ROOM:
        return 0
    room = noise.size_within(chance, most=LARGEST_ROOM)
    return room if room < LARGEST_ROOM else 0


def series(ratio: Decimal, size: int) -> list[Decimal]:
    """Return ratio^k/k for k = 1 … size: the rates of bursts of a geometric number."""
    power, found = Decimal(1), []
    for k in range(1, size + 1):
        power = EXACT.multiply(power, ratio)
        found.append(EXACT.divide(power, Decimal(k)))
    return found


def geometric_rate(ratio: Decimal) -> Decimal:
    """Return Σ ratio^k/k = −ln(1 − ratio)."""
    return EXACT.minus(EXACT.ln(EXACT.subtract(Decimal(1), ratio)))


def decimal_of(value: Fraction) -> Decimal:
    """Return a fraction to sixty digits."""
    return EXACT.divide(Decimal(value.numerator), Decimal(value.denominator))


def _weights(chances: Sequence[Decimal]) -> tuple[int, ...]:
    return tuple(int(EXACT.multiply(chance, Decimal(SCALE))) for chance in chances)
