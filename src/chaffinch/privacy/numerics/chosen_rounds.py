"""Adaptive composition: in each round somebody who has seen the rounds before chooses a loss.

The profile of a law of losses is δ(ε) = E[(1 − e^(ε − L))₊]. After a round with the loss y, what
is left to reach is ε − y. So if all later rounds together have the profile δ at most, whatever was
seen, then with one more round before them, whose losses have the law m, it is at most

    ∫ δ(ε − y) dm(y) + m(∞).

Whoever chooses m among several, knowing what was seen, reaches at every ε the largest of these.
Starting from no rounds, (1 − e^ε)₊, one such step for every round gives the profile of the worst
strategy, at all ε at once (backward induction). It is a bound on every fixed sequence too, and a
close one: the largest of all profiles in every round, which one pair of laws has at once, would
be the worst crowd for gains and another one for losses in the same round.

On a grid losses are whole steps, and so are all sums. Heights are kept times e^(θ·ε): that makes
them largest where delta is tiny and asked for, and transforms lose a share of the largest.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from chaffinch.privacy.numerics.loss_grids import GridLoss, TooFineGrid
from chaffinch.privacy.numerics.precision import Floats
from chaffinch.privacy.progress import count_step

_LARGER = 1 + 4e-12
"""Covers what masses on a grid may be off, and the rounding of weights and products in a round."""
_ROUNDOFF = 2.0**-53
_LOWEST = 30.0
"""Below minus this epsilon delta counts as 1: it is larger than 1 − 1e-13 there."""
_SPREADS, _ASKED = 8.0, 5.6
"""Standard deviations of the sum: to the end of the grid, and to a delta of about 1e-8."""
_LARGEST_TILT = 300.0
"""Weights stay so far within the floats that squares of them do, too."""
_NEARLY_LAST = 2.0
_MOST_WORK = 1e9
"""Points times choices times rounds: about ten seconds."""


@dataclass(frozen=True, eq=False)
class Losses:
    """Masses of the losses step·low, step·(low + 1), …, and that of infinite ones."""

    step: float
    low: int
    mass: Floats
    infinite: float

    @classmethod
    def of_grid(cls, loss: GridLoss) -> Losses:
        """Return the same masses with zeros between them."""
        low = int(loss.places[0])
        mass = np.zeros(int(loss.places[-1]) - low + 1)
        mass[loss.places - low] = loss.mass * _LARGER
        return cls(loss.step, low, mass, loss.infinite * _LARGER)


@dataclass(frozen=True, eq=False)
class WorstProfile:
    """Upper ends of delta at the epsilons step·low, step·(low + 1), …, falling."""

    step: float
    low: int
    heights: Floats

    def delta(self, epsilon: float) -> float:
        """Return an upper end: on the chord between two points, because δ is convex in e^ε."""
        # A little less than asked for: neither its place nor the share behind it is rounded up.
        least = epsilon - 4 * _ROUNDOFF * abs(epsilon)
        place = math.floor(least / self.step)
        if place < self.low:
            return 1.0
        if place >= self.low + len(self.heights) - 1:
            return float(self.heights[-1])
        before, after = self.heights[place - self.low : place - self.low + 2]
        share = math.expm1(least - self.step * place) / math.expm1(self.step)
        share = min(max(share * (1 - 8 * _ROUNDOFF), 0.0), 1.0)
        # Both terms are positive: a height far below the one before it keeps its digits.
        return float((1 - share) * before + share * after) * _LARGER

    def profile(self, number: int) -> tuple[Floats, Floats]:
        """Return so many epsilons from 0 to about where delta ends, and upper ends there."""
        above = self.heights[max(-self.low, 0) :]
        # Behind the first height that is nearly the last one there is little but that floor.
        end = max(int(np.argmax(above <= _NEARLY_LAST * above[-1])), 1)
        nodes = self.step * end * np.linspace(0.0, 1.0, number) ** 1.5
        return nodes, np.array([self.delta(float(node)) for node in nodes])


def worst_profile(choices: Sequence[Losses], count: int) -> WorstProfile:
    """Return the profile of so many rounds, each with the worst of the choices."""
    step, low = choices[0].step, min(one.low for one in choices)
    masses = np.zeros((len(choices), max(one.low + len(one.mass) for one in choices) - low))
    for row, one in zip(masses, choices, strict=True):
        row[one.low - low : one.low - low + len(one.mass)] = one.mass
    infinite = np.array([one.infinite for one in choices])
    first, last, spread = _range(masses, low, step, count)
    size = last - first + 1
    if size * len(choices) * count > _MOST_WORK:
        raise TooFineGrid
    # A loss of y steps looks y places to the left, where delta is 1 before the first place. What
    # it is beyond the last place, and infinite losses, are a floor of their own.
    left, right, floor = max(low + masses.shape[1] - 1, 0), max(-low, 0), 0.0
    places = np.arange(first - left, last + right + 1)
    most = step * max(abs(int(places[0])), int(places[-1]), masses.shape[1])
    tilt = min(_ASKED / spread, _LARGEST_TILT / most) if spread > 0 else 0.0
    weights = np.exp(tilt * step * places)
    # e^(θ·ε) = e^(θ·(ε − y))·e^(θ·y): the losses carry the second part of the weight.
    tilted = masses * np.exp(tilt * step * np.arange(low, low + masses.shape[1]))
    inside = slice(left, left + size)
    # No rounds yet: (1 − e^ε)₊, times its weight. Left of the grid delta counts as 1.
    heights = -np.expm1(np.minimum(step * places, 0.0)) * weights
    heights[:left] = weights[:left]
    length = 1 << (len(places) + masses.shape[1] - 2).bit_length()
    spectra = np.fft.rfft(tilted, length, axis=1)
    # As vectors, sums by transforms are off by at most 26·u·log2(N)·‖x‖·‖y‖ (see `laws`).
    share = (26.0 * math.log2(length) + 4.0) * _ROUNDOFF * np.linalg.norm(tilted, axis=1).max()
    # Where the first place of the grid stands in the convolution of masses and heights.
    start = left - low
    for _ in range(count):
        count_step("sums over rounds")
        sums = np.fft.irfft(spectra * np.fft.rfft(heights, length), length, axis=1)
        doubt = share * float(np.linalg.norm(heights))
        if not math.isfinite(doubt):
            raise TooFineGrid
        found = np.maximum(sums[:, start : start + size].max(axis=0), 0.0) + doubt
        # No delta is above 1, which is the weight itself.
        heights[inside] = np.minimum(found, weights[inside])
        beyond = float(heights[inside][-1] / weights[inside][-1])
        floor = float((floor * masses.sum(axis=1) + infinite).max()) + beyond
    plain = heights[inside] / weights[inside] + floor
    # A profile never rises; where rounding lets a bound rise, the larger one is kept.
    falling = np.maximum.accumulate(plain[::-1])[::-1]
    return WorstProfile(step, first, np.minimum(falling * _LARGER, 1.0))


def _range(masses: Floats, low: int, step: float, count: int) -> tuple[int, int, float]:
    """Return the first and last place to follow, and about the standard deviation of the sum.

    Nothing is proven of them: beyond the ends heights are bounds as well.
    """
    places = np.arange(low, low + masses.shape[1])
    means = (masses * places).sum(axis=1)
    spread = math.sqrt(count * max(float(((masses * places**2).sum(axis=1) - means**2).max()), 0.0))
    reach = count * float(np.abs(means).max()) + _SPREADS * spread + 2 * masses.shape[1]
    last = math.ceil(min(reach, count * max(int(places[-1]), 0)))
    first = math.floor(max(-reach, -_LOWEST / step))
    return first, max(last, 1), step * spread
