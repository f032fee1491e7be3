"""Loss distributions on a grid, and what many rounds of them add up to.

A convex profile h(x) = delta(ln x) is the profile of exactly one pair of laws: at each kink x
the second law has the jump in slope as mass, the first has x times that, and what h keeps
at infinity is mass the first law has alone. So a proven upper profile, made piecewise linear
between nodes (a chord of a convex function lies above it) and convex (its lower hull still
lies above the true profile), *is* a pair that dominates the mechanism, whatever crowd is
worst at which epsilon, and dominating_loss pairs compose [Zhu, Dong, Wang 2022, theorem 10].
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from chaffinch.privacy.numerics.precision import Floats
from chaffinch.privacy.numerics.roots import bisect_real

_ROUNDOFF = 2.0**-53
_FAR = 1e-30


@dataclass(frozen=True, eq=False)
class GridLoss:
    """Masses of the losses first·step, (first + 1)·step, … under the first law.

    ``infinite`` is the mass whose loss has no bound. Masses are right to 1e-12 of themselves.
    """

    step: float
    first: int
    mass: Floats
    infinite: float
    moved: float = 1.0
    """How far, in steps, the farthest loss was moved to the grid."""

    @cached_property
    def places(self) -> NDArray[np.int64]:
        """Return the grid points that have mass."""
        return self.first + np.flatnonzero(self.mass)

    @cached_property
    def losses(self) -> Floats:
        """Return the losses that have mass."""
        return np.asarray(self.step * self.places, dtype=np.float64)

    @cached_property
    def logs(self) -> Floats:
        """Return the logarithms of the masses that are not 0."""
        return np.log(self.mass[self.places - self.first])


def dominating_loss(epsilons: Floats, deltas: Floats, step: float) -> GridLoss:
    """Return a pair on a grid that dominates every pair below the profile, in both orders.

    ``epsilons`` start at 0 and rise; ``deltas`` are proven upper ends. Beyond the last node
    the profile is flat: its delta becomes infinite loss.

    The pair is its own mirror image, so masses at −y are e^−y times those at y, and the mass
    at 0 is what is left of 1. Should rounding leave less than nothing, the total is above 1:
    still a bound, because delta over several rounds is, in each round, a positive mixture of
    hockey-sticks, and those only grow.
    """
    last = math.ceil(epsilons[-1] / step - 1e-9)
    if last < 1:
        return GridLoss(step, 0, np.array([1.0]), float(deltas[0]))
    grid = step * np.arange(last + 1)
    values = _between(epsilons, deltas, grid)
    x = np.exp(grid)
    # −h′ is how much mass the second law has beyond x; it is 0 behind the last node.
    slopes = np.append(np.diff(values) / np.diff(x), 0.0)
    # Each slope is off by a few roundoffs of itself; the jumps get that much more.
    jumps = np.diff(slopes) + 16 * _ROUNDOFF * (np.abs(slopes[:-1]) + np.abs(slopes[1:]))
    above = np.maximum(jumps, 0.0) * x[1:]
    below = above * np.exp(-grid[1:]) * (1 + 1e-15)
    tail = float(values[-1])
    # What is left of 1 has loss 0; 1e-15 more than that covers the sums.
    middle = max(0.0, 1.0 - tail - float(above.sum()) - float(below.sum())) + 1e-15
    mass = np.concatenate([below[::-1], [middle], above])
    return GridLoss(step, -last, mass, tail)


def _between(epsilons: Floats, deltas: Floats, grid: Floats) -> Floats:
    """Interpolate linearly in e^epsilon, after taking the lower hull of the nodes."""
    x = np.exp(epsilons)
    keep = _hull(x, deltas)
    nodes, heights = x[keep], deltas[keep]
    # Behind the last node the profile is flat.
    points = np.minimum(np.exp(grid), nodes[-1])
    index = np.clip(np.searchsorted(nodes, points, side="right") - 1, 0, len(nodes) - 2)
    share = (points - nodes[index]) / (nodes[index + 1] - nodes[index])
    values = heights[index] + share * (heights[index + 1] - heights[index])
    return np.asarray(np.clip(values * (1 + 1e-14), 0.0, 1.0), dtype=np.float64)


def _hull(x: Floats, y: Floats) -> list[int]:
    corners: list[int] = []
    for index in range(len(x)):
        while len(corners) >= 2:
            a, b = corners[-2], corners[-1]
            if (x[b] - x[a]) * (y[index] - y[a]) > (y[b] - y[a]) * (x[index] - x[a]):
                break
            corners.pop()
        corners.append(index)
    return corners


def split_losses(losses: Floats, mass: Floats, step: float) -> GridLoss:
    """Return finite losses moved to the grid at random, each keeping its mean.

    Every move is below one step and has mean zero, so over many rounds they add up to a
    small shift with high probability (Hoeffding): see `Composition._lower_delta`.
    """
    if len(losses) == 0:
        return GridLoss(step, 0, np.zeros(1), 0.0, 0.0)
    place = losses / step
    # A loss that is on the grid up to rounding stays there: it must not be split in two.
    nearest = np.round(place)
    moved = float(np.abs(place - nearest).max())
    floor = np.floor(np.where(np.abs(place - nearest) < 1e-9, nearest, place))
    share = np.clip(place - floor, 0.0, 1.0)
    first = int(floor.min())
    index = (floor - first).astype(np.int64)
    size = int(index.max()) + 2
    stay = np.bincount(index, mass * (1 - share), minlength=size)
    grid = np.asarray(stay + np.bincount(index + 1, mass * share, minlength=size), dtype=np.float64)
    return GridLoss(step, first, grid, 0.0, moved)


@dataclass(frozen=True, eq=False)
class Rounds:
    """Several independent losses: (loss, how often)."""

    parts: tuple[tuple[GridLoss, int], ...]

    @property
    def step(self) -> float:
        """Return the common grid step."""
        return self.parts[0][0].step

    @property
    def infinite(self) -> float:
        """Return an upper end of the chance that some round has infinite loss."""
        # Union bound: it is enough that one round has infinite loss.
        return min(1.0, sum(count * loss.infinite for loss, count in self.parts))

    def tilted_log_moment(self, tilt: float) -> float:
        """Return ln E[e^(tilt·total)] over the finite losses."""
        return sum(count * _log_moment(loss, tilt) for loss, count in self.parts)

    def delta(self, epsilon: float) -> tuple[float, float]:
        """Return the finite part of delta at ``epsilon`` and a bound on its numerical error.

        Formula    Σ over losses y > ε of mass(y)·(1 − e^(ε−y)), from the total's law, made by
                   FFT of the tilted parts. The tilt moves the mass that matters into the
                   middle, so that the error of the transform is relative to it.
        """
        if any(len(loss.places) == 0 for loss, _ in self.parts):
            return 0.0, 0.0
        tilt, log_moment, low, total, error = self._transformed(epsilon)
        # In the untilted law a total above epsilon weighs at most e^(Λ(t) − t·ε) times that.
        outside = 4.0 * _FAR * max(math.exp(min(log_moment - tilt * epsilon, 700.0)), 1.0)
        # Losses at or below epsilon add nothing.
        first = min(max(math.floor(epsilon / self.step) + 1 - low, 0), len(total))
        losses = self.step * np.arange(low + first, low + len(total))
        exponent = np.minimum(log_moment - tilt * losses, 700.0)
        weight = np.exp(exponent) * -np.expm1(np.minimum(epsilon - losses, 0.0))
        rounds = sum(count for _, count in self.parts)
        value = float((weight * np.maximum(total[first:], 0.0)).sum())
        doubt = float(weight.sum()) * error + value * (
            rounds * 1e-12 + (8 + abs(log_moment)) * 8 * _ROUNDOFF
        )
        return value, doubt + outside

    def _transformed(self, epsilon: float) -> tuple[float, float, int, Floats, float]:
        """Return the tilted total's law; the last one again where its tilt still fits."""
        kept = self._kept
        # A tilt still fits within half a standard deviation of the epsilon it was made for.
        if not kept or abs(epsilon - kept[0][0]) > 0.5 * kept[0][1]:
            tilt = self._tilt(epsilon)
            log_moment = self.tilted_log_moment(tilt)
            low, high, spread = self._window(tilt, log_moment)
            law = (tilt, log_moment, low, *self._total(tilt, low, high))
            kept[:] = [(epsilon, spread, law)]
        return kept[0][2]

    @cached_property
    def _kept(self) -> list[tuple[float, float, tuple[float, float, int, Floats, float]]]:
        return []

    def _tilt(self, epsilon: float) -> float:
        """Return a tilt whose mean is near ``epsilon`` (0 when the mean already is above)."""
        if self._mean(0.0) >= epsilon:
            return 0.0
        spread = sum(c * _variance(loss, 0.0) for loss, c in self.parts)
        low, high = 0.0, max((epsilon - self._mean(0.0)) / max(spread, 1e-300), 1e-9)
        while self._mean(high) < epsilon and high < 1e12:
            low, high = high, 2.0 * high
        # Any tilt is right; a thousandth of the interval is near enough to be quick.
        return bisect_real(lambda tilt: self._mean(tilt) >= epsilon, good=high, bad=low, steps=10)

    def _mean(self, tilt: float) -> float:
        total = 0.0
        for loss, count in self.parts:
            weights = _tilted(loss, tilt)[0]
            total += count * float((weights * loss.losses).sum())
        return total

    def _window(self, tilt: float, log_moment: float) -> tuple[int, int, float]:
        """Return a range of grid points that holds nearly all of the tilted total, and a spread.

        Chernoff: under the tilted law P[total ≥ b] ≤ exp(Λ(t+s) − Λ(t) − s·b). What lies
        outside may wrap around in the transform or be missed: both are counted.
        """
        spread = math.sqrt(sum(c * _variance(loss, tilt) for loss, c in self.parts)) + self.step
        mean = self._mean(tilt)
        ends = []
        for sign in (-1.0, 1.0):
            # Any s > 0 gives a valid end; a few multiples of 1/σ come near the best of all.
            reach = math.inf
            for share in (1.0 / spread, 3.0 / spread, 8.0 / spread, 14.0 / spread):
                moment = self.tilted_log_moment(tilt + sign * share) - log_moment
                reach = min(reach, (moment - math.log(_FAR)) / share)
            ends.append(sign * max(reach, sign * mean + 2 * self.step))
        low, high = math.floor(ends[0] / self.step) - 1, math.ceil(ends[1] / self.step) + 1
        return low, high, spread

    def _total(self, tilt: float, low: int, high: int) -> tuple[Floats, float]:
        """Return the tilted total's masses from ``low`` on, and a bound on the error of each.

        A transform of masses that add up to one is off by at most 8·u·log2(N) at every
        frequency (each output is a sum along log2(N) roundings); a power of count c then by
        c times that times the other factors, and the inverse averages over frequencies.
        """
        size = 1 << max(high - low + 1, 2).bit_length()
        gamma = 8 * _ROUNDOFF * (math.log2(size) + 2)
        product = np.ones(size // 2 + 1, dtype=np.complex128)
        doubt = np.zeros(size // 2 + 1)
        for loss, count in self.parts:
            weights, _ = _tilted(loss, tilt)
            # Places wrap around: the transform only knows them modulo its size.
            index = loss.places % size
            factor = np.fft.rfft(np.bincount(index, weights, minlength=size))
            magnitude = np.minimum(np.abs(factor) + gamma, 1.0)
            power = _power(factor, count)
            doubt = doubt * magnitude**count + np.abs(product) * (
                count * magnitude ** (count - 1) * gamma * 2
                + np.abs(power) * 16 * count * _ROUNDOFF
            )
            product = product * power
        # Back to masses; an error at one frequency is spread evenly over all of them.
        total = np.fft.irfft(product, size)
        average = (2 * (np.abs(product) * gamma + doubt).sum()) / size
        return np.roll(total, -(low % size))[: high - low + 1], float(average) * 1.01


def _power(base: NDArray[np.complex128], count: int) -> NDArray[np.complex128]:
    """Return base^count by squaring: at most two products per bit of the count."""
    result = np.ones_like(base)
    while count:
        if count & 1:
            result = result * base
        count >>= 1
        if count:
            base = base * base
    return result


def _tilted(loss: GridLoss, tilt: float) -> tuple[Floats, float]:
    """Return the tilted masses, normalised, and the log of their total."""
    logs = loss.logs + tilt * loss.losses
    # Divided by the largest before the exponential: no overflow, and only dust underflows.
    top = float(logs.max())
    weights = np.exp(logs - top)
    total = float(weights.sum())
    return weights / total, top + math.log(total)


def _log_moment(loss: GridLoss, tilt: float) -> float:
    return _tilted(loss, tilt)[1]


def _variance(loss: GridLoss, tilt: float) -> float:
    weights = _tilted(loss, tilt)[0]
    mean = float((weights * loss.losses).sum())
    return float((weights * (loss.losses - mean) ** 2).sum())
