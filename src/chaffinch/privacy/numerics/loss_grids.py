"""Loss distributions on a grid, and what many rounds of them add up to.

A convex profile h(x) = delta(ln x) is the profile of exactly one pair of laws: at each kink x
the second law has the jump in slope as mass, the first has x times that, and what h keeps
at infinity is mass the first law has alone. So a proven upper profile, made piecewise linear
between nodes (a chord of a convex function lies above it) and convex (its lower hull still
lies above the true profile), *is* a pair that dominates the mechanism, whatever crowd is
worst at which epsilon, and pairs that dominate compose [Zhu, Dong, Wang 2022, theorem 10].

To bring a pair to a grid of losses without losing its side, mass is moved within the line of
likelihood ratios x. Splitting a mass between its two neighbours on the grid, so that both laws
keep theirs, raises h: `dominating_loss`. Merging masses until their common ratio lies on the
grid lowers h, being something an observer could do: `dominated_loss`. Either way the cost is of
second order in the step, where losses lie dense.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from chaffinch.privacy.numerics.precision import Floats, up
from chaffinch.privacy.numerics.roots import bisect_real
from chaffinch.privacy.progress import count_step

_ROUNDOFF = 2.0**-53
_FAR = 1e-30
_UNDERFLOW = 1e-300
"""More than all masses that are too small for a double can add up to."""
_PER_STEP = 8
"""Outcomes are merged this much finer than the grid before they are brought to it."""
_ON_GRID = 1e-9
"""A loss this close to the grid, in steps, is on it."""
_LARGEST_TRANSFORM = 2**21
"""A longer one takes seconds and gigabytes."""


class TooFineGrid(ArithmeticError):
    """The losses lie so much farther apart than the grid's step that they cannot be added up."""


@dataclass(frozen=True, eq=False)
class GridLoss:
    """Masses of the losses step·place under the first law, all of them positive.

    ``infinite`` is the mass whose loss has no bound. Masses are right to 1e-12 of themselves.
    """

    step: float
    places: NDArray[np.int64]
    mass: Floats
    infinite: float = 0.0
    moved: float = 0.0
    """How far a loss may be from the grid point that it is said to be on."""

    @cached_property
    def losses(self) -> Floats:
        """Return the losses."""
        return np.asarray(self.step * self.places, dtype=np.float64)

    @cached_property
    def logs(self) -> Floats:
        """Return the logarithms of the masses."""
        return np.log(self.mass)

    @property
    def coarser(self) -> GridLoss:
        """Return a pair on every second point of the grid that dominates this one.

        A mass between two of these is split, so that both laws keep theirs (see `Side.on_grid`).
        """
        odd = self.places % 2
        # Half-way between two points (1 − e^−h)/(1 − e^−2h) = 1/(1 + e^−h) of a mass goes right.
        share = odd / (1.0 + math.exp(-self.step))
        # 1e-14 of each mass that is split covers the rounding of its share.
        parts = [self.mass * (1 - share), self.mass * (share + 1e-14 * odd)]
        places = np.concatenate([self.places - odd, self.places + odd]) // 2
        found = _summed_by_place(places, np.concatenate(parts))
        return GridLoss(2 * self.step, *found, self.infinite)


@dataclass(frozen=True, eq=False)
class _Side:
    """The losses above 0 of one order of a pair, their masses, and the mass of infinite ones."""

    losses: Floats
    mass: Floats
    infinite: float

    @classmethod
    def of_profile(cls, nodes: Floats, heights: Floats) -> _Side:
        """Return the kinks of a convex profile that is flat beyond its last node.

        −h′ is how much mass the second law has beyond x. It is written so that each slope is
        off by a few roundoffs of itself, however close the nodes are.
        """
        slopes = np.diff(heights) / (np.exp(nodes[:-1]) * np.expm1(np.diff(nodes)))
        slopes = np.append(slopes, 0.0)
        # The jumps get as much more as the slopes may be off; hulls that rounding bent, nothing.
        jumps = np.maximum(np.diff(slopes), 0.0)
        jumps += 16 * _ROUNDOFF * (np.abs(slopes[:-1]) + np.abs(slopes[1:]))
        # At a kink x = e^node the first law has x times the second one's mass, which is the jump.
        return cls(nodes[1:], jumps * np.exp(nodes[1:]), float(heights[-1]))

    @property
    def reach(self) -> float:
        return float(self.losses[-1]) if len(self.losses) else 0.0

    def on_grid(self, step: float) -> tuple[NDArray[np.int64], Floats]:
        """Return grid points and masses: each mass at y is split between its two neighbours.

        Both laws keep their mass if the share (1 − e^−(y − left)) / (1 − e^−step) goes right.
        """
        place = self.losses / step
        left = np.floor(place + _ON_GRID)
        share = np.clip(np.expm1((left - place) * step) / np.expm1(-step), 0.0, 1.0)
        # 1e-14 of each share covers the rounding of its place.
        parts = np.concatenate([self.mass * (1 - share), self.mass * (share + 1e-14)])
        return _summed_by_place(np.concatenate([left, left + 1]).astype(np.int64), parts)


@dataclass(frozen=True, eq=False)
class Kinks:
    """Proven upper profiles of both orders as the pair that they are.

    The first law's mass at −y is e^−y times the second's, that is the other order's mass at y,
    and at 0 it has what is left of 1.
    """

    above: _Side
    below: _Side

    @classmethod
    def of_profile(cls, epsilons: Floats, deltas: Floats, other: Floats | None = None) -> Kinks:
        """Return a pair that dominates every pair with at most these deltas.

        ``epsilons`` start at 0 and rise; ``deltas`` are proven upper ends for one order of the
        two laws and ``other`` for the other order, which may be the same ones. Beyond the last
        node the profile is flat: its delta becomes infinite loss.
        """
        profiles = convex_profiles(epsilons, deltas, deltas if other is None else other)
        above, below = (_Side.of_profile(*profile) for profile in profiles)
        return cls(above, below)

    @property
    def swapped(self) -> Kinks:
        """Return the pair with its laws exchanged."""
        return Kinks(self.below, self.above)

    @property
    def reach(self) -> float:
        """Return the largest finite loss of either order."""
        return max(self.above.reach, self.below.reach)

    @property
    def variance(self) -> float:
        """Return the second moment of the finite losses, those below 0 included."""
        here, there = self.above, self.below
        low = (there.mass * np.exp(-there.losses) * there.losses**2).sum()
        return float((here.mass * here.losses**2).sum() + low)

    def on_grid(self, step: float) -> GridLoss:
        """Return a pair on the grid that dominates this one.

        Should rounding leave less than nothing for the loss 0, the total is above 1: still a
        bound, because delta over several rounds is, in each round, a positive mixture of
        hockey-sticks, and those only grow.
        """
        above, mass = self.above.on_grid(step)
        below, other = self.below.on_grid(step)
        mirrored = other * np.exp(-step * below) * (1 + 1e-15)
        # What is left of 1 has loss 0, in either law; 1e-15 more than that covers the sums.
        first = self.above.infinite + float(mass.sum()) + float(mirrored.sum())
        second = float((mass * np.exp(-step * above)).sum()) + float(other.sum())
        # The smaller total leaves more: too much mass is the safe side.
        middle = max(0.0, 1.0 - min(first, second + self.below.infinite)) + 1e-15
        places = np.concatenate([-below, [0], above])
        found = _summed_by_place(places, np.concatenate([mirrored, [middle], mass]))
        return GridLoss(step, *found, self.above.infinite)


def dominating_loss(epsilons: Floats, deltas: Floats, step: float) -> GridLoss:
    """Return a pair on a grid that dominates every pair below the profile, in both orders."""
    return Kinks.of_profile(epsilons, deltas).on_grid(step)


def _summed_by_place(places: NDArray[np.int64], mass: Floats) -> tuple[NDArray[np.int64], Floats]:
    found, index = np.unique(places, return_inverse=True)
    total = np.bincount(index, mass, minlength=len(found))
    return found[total > 0], np.asarray(total[total > 0], dtype=np.float64)


def convex_profiles(epsilons: Floats, deltas: Floats, other: Floats) -> list[tuple[Floats, Floats]]:
    """Return the nodes of the largest profiles that these upper ends of both orders allow.

    A true profile never rises and is convex in x = e^epsilon, so it lies below the lower hull of
    whatever ends are proven. At epsilon 0 both orders are the same.
    """
    one, two = (np.minimum.accumulate(np.minimum(ends, 1.0)) for ends in (deltas, other))
    # The other order is h(1/x) = 1 − (1 − h(x))/x, and at x = 1 h lies below every chord between a
    # node of the one and a node of the other. With the lowest of these the whole is convex.
    # Both sides are divided by the product of the two rises, which may leave the floats.
    falls = 1.0 / np.expm1(epsilons[1:])
    here, there = falls[:, None], falls[None, :]
    chords = (1.0 + one[1:, None] * here + two[None, 1:] * there) / (1.0 + here + there)
    lowest = float(chords.min(initial=1.0)) * (1 + 8 * _ROUNDOFF)
    one[0] = two[0] = min(one[0], two[0], lowest)
    found = []
    for heights in (one, two):
        keep = lower_hull_corners(np.exp(epsilons), heights)
        found.append((epsilons[keep], heights[keep]))
    return found


def lower_hull_corners(x: Floats, y: Floats) -> list[int]:
    """Return the places of the corners of the lower convex hull of points with rising x."""
    corners: list[int] = []
    for index in range(len(x)):
        while len(corners) >= 2:
            a, b = corners[-2], corners[-1]
            # A corner lies strictly below the chord from the one before to the new point.
            if (x[b] - x[a]) * (y[index] - y[a]) > (y[b] - y[a]) * (x[index] - x[a]):
                break
            corners.pop()
        corners.append(index)
    return corners


def dominated_loss(
    first: Floats, second: Floats, step: float, *, lacking: float, most: float
) -> GridLoss:
    """Return a pair on the grid that the pair of laws given dominates.

    The masses may lack ``lacking`` in all. Losses above ``most`` count as that much.

    From the largest ratio down, outcomes are merged, the last of them in part, until their
    common ratio is on the grid: something that an observer of the outcomes can do.
    """
    places: list[int] = []
    mass: list[float] = []
    moved = 0.0
    place, ratio, one, two = 0, 0.0, 0.0, 0.0
    for p, q in _by_ratio(first, second, step / _PER_STEP, lacking, most):
        # What is merged so far exceeds the ratio that it shall have by so much.
        excess, fall = max(one - ratio * two, 0.0), ratio * q - p
        if two > 0 and fall <= excess:
            one, two = one + p, two + q
            continue
        share = excess / fall if two > 0 else 0.0
        if two > 0:
            one, two = one + share * p, two + share * q
            places.append(place)
            mass.append(one)
            moved = max(moved, abs(math.log(one / two) - place * step))
        one, two = (1 - share) * p, (1 - share) * q
        # The point of the grid below: ratios to come are smaller and bring the mean down to it.
        place = math.floor(math.log(p / q) / step + _ON_GRID)
        ratio = math.exp(place * step)
    # What is left at the end has a ratio above the grid's: the first law's mass is lowered.
    places.append(place)
    mass.append(min(one, ratio * two))
    found = _summed_by_place(np.array(places, dtype=np.int64), np.array(mass))
    return GridLoss(step, *found, moved=moved)


def _by_ratio(
    first: Floats, second: Floats, width: float, lacking: float, most: float
) -> Iterator[tuple[float, float]]:
    """Yield masses of both laws from the largest ratio down, merged where ratios are close.

    Whatever set of the largest ratios an observer takes, the second law may have ``lacking``
    more on it than is seen: so much is added to the first masses, and as many of these are
    taken together as make their ratio largest. A ratio above e^most is lowered to that.
    """
    seen = first > 0
    with np.errstate(divide="ignore"):
        losses = np.minimum(np.log(first[seen]) - np.log(second[seen]), most)
    names, index = np.unique(-np.floor(losses / width), return_inverse=True)
    ones = np.bincount(index, first[seen], minlength=len(names))
    twos = np.bincount(index, second[seen], minlength=len(names))
    if len(names) == 0:
        return
    totals = np.cumsum(ones), np.cumsum(twos) + lacking
    top = int(np.argmax(totals[0] / totals[1]))
    total = float(totals[0][top])
    # More mass of the second law, too, only lowers what the pair shows.
    yield total, max(float(totals[1][top]), total * math.exp(-most))
    yield from zip(ones[top + 1 :].tolist(), twos[top + 1 :].tolist(), strict=True)


_Tilted = tuple[float, float, int, Floats, tuple[float, float]]
"""Tilt, log moment, first place, masses, and how far they may be off, each and together."""


@dataclass(frozen=True, eq=False)
class Rounds:
    """Several independent losses: (loss, how often)."""

    parts: tuple[tuple[GridLoss, int], ...]

    @property
    def step(self) -> float:
        """Return the common grid step."""
        return self.parts[0][0].step

    @cached_property
    def infinite(self) -> float:
        """Return an upper end of the chance that some round has infinite loss.

        Of laws with total masses Tᵢ, infinite ones Iᵢ among them, that is ΠTᵢ − Π(Tᵢ − Iᵢ): a
        little more than 1 − Π(1 − Iᵢ) where rounding has made a total larger than 1.
        """
        excess = left = 0.0
        for loss, count in self.parts:
            total = max(loss.infinite + float(loss.mass.sum()), 1.0) * (1 + 4e-15)
            if loss.infinite >= total:
                return 1.0
            excess += count * math.log(total)
            left += count * math.log1p(-loss.infinite / total)
        return min(1.0, math.exp(excess) * -math.expm1(left) * (1 + 1e-14))

    @cached_property
    def coarser(self) -> Rounds:
        """Return rounds that dominate these, on every second point of the grid."""
        return Rounds(tuple((loss.coarser, count) for loss, count in self.parts))

    @cached_property
    def ends(self) -> tuple[int, int]:
        """Return the smallest and the largest place that a total of finite losses can have."""
        lowest = sum(count * int(loss.places[0]) for loss, count in self.parts)
        highest = sum(count * int(loss.places[-1]) for loss, count in self.parts)
        return lowest, highest

    def tilted_log_moment(self, tilt: float) -> float:
        """Return ln E[e^(tilt·total)] over the finite losses."""
        return sum(count * _log_moment(loss, tilt) for loss, count in self.parts)

    def delta(self, epsilon: float) -> tuple[float, float]:
        """Return the finite part of delta at ``epsilon`` and a bound on its numerical error.

        Formula    Σ over losses y > ε of mass(y)·(1 − e^(ε−y)), from the total's law, made by
                   FFT of the tilted parts. The tilt moves the mass that matters into the
                   middle, so that the error of the transform is relative to it.
        """
        count_step("sums over rounds")
        if any(len(loss.places) == 0 for loss, _ in self.parts):
            return 0.0, 0.0
        # Lowered a little: rounding must not turn a total that may be above epsilon into nothing.
        if epsilon * (1 - 1e-15) >= self.step * self.ends[1]:
            return 0.0, 0.0
        tilt, log_moment, low, total, (most, root) = self._transformed(epsilon)
        # In the untilted law a total above epsilon weighs at most e^(Λ(t) − t·ε) times that.
        outside = 4.0 * _FAR * math.exp(min(log_moment - tilt * epsilon, 700.0)) + _UNDERFLOW
        # Losses at or below epsilon add nothing.
        first = min(max(math.floor(epsilon / self.step) + 1 - low, 0), len(total))
        losses = self.step * np.arange(low + first, low + len(total))
        exponent = np.minimum(log_moment - tilt * losses, 700.0)
        weight = np.exp(exponent) * -np.expm1(np.minimum(epsilon - losses, 0.0))
        rounds = sum(count for _, count in self.parts)
        value = float((weight * np.maximum(total[first:], 0.0)).sum())
        # Every mass is off by ``most``, and all of them by ``root`` as a vector is long.
        # |Σ w·e| ≤ Σw·max|e| and, by Cauchy and Schwarz, ≤ ‖w‖·‖e‖: the smaller of the two.
        error = min(float(weight.sum()) * most, math.sqrt(float((weight**2).sum())) * root)
        doubt = error + value * (rounds * 1e-12 + (8 + abs(log_moment)) * 8 * _ROUNDOFF)
        return value, doubt + outside

    def upper_delta(self, epsilon: float) -> float:
        """Return the safe end of delta, infinite losses included; it may be above 1."""
        rounds = self
        while True:
            try:
                value, doubt = rounds.delta(epsilon)
            except TooFineGrid:
                # A coarser grid dominates the finer one: a looser bound, and as true.
                rounds = rounds.coarser
            else:
                return up((value + doubt) * (1 + 1e-12) + rounds.infinite)

    def _transformed(self, epsilon: float) -> _Tilted:
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
    def _kept(self) -> list[tuple[float, float, _Tilted]]:
        return []

    def _tilt(self, epsilon: float) -> float:
        if self._mean(0.0) >= epsilon:
            return 0.0
        spread = sum(c * _variance(loss, 0.0) for loss, c in self.parts)
        high = max((epsilon - self._mean(0.0)) / max(spread, 1e-300), 1e-9)
        # Rare losses make the guess too large by many powers of two, others too small by a few.
        while high > 1e-9 and self._mean(high / 2) >= epsilon:
            high /= 2
        while self._mean(high) < epsilon and high < 1e12:
            high *= 2
        # Any tilt is right; a thousandth of itself is near enough to be quick.
        return bisect_real(
            lambda tilt: self._mean(tilt) >= epsilon, good=high, bad=high / 2, steps=10
        )

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
        # Few rounds cannot reach as far as that.
        return max(low, self.ends[0]), min(high, self.ends[1]), spread

    def _total(self, tilt: float, low: int, high: int) -> tuple[Floats, tuple[float, float]]:
        """Return the tilted total's masses from ``low`` on, and how far they may be off.

        That is at most, each of them; and all of them, as the length of a vector.

        A transform of masses that add up to one is off by at most 8·u·log2(N) at every
        frequency (each output is a sum along log2(N) roundings); a power of count c then by
        c times that times the other factors, and the inverse averages over frequencies.
        """
        size = 1 << max(high - low + 1, 2).bit_length()
        if size > _LARGEST_TRANSFORM:
            raise TooFineGrid
        gamma = 8 * _ROUNDOFF * (math.log2(size) + 2)
        product = np.ones(size // 2 + 1, dtype=np.complex128)
        doubt = np.zeros(size // 2 + 1)
        for loss, count in self.parts:
            weights, _ = _tilted(loss, tilt)
            # Places wrap around: the transform only knows them modulo its size.
            index = loss.places % size
            factor = np.fft.rfft(np.bincount(index, weights, minlength=size))
            # Tilted masses add up to 1, so no true factor is larger than 1.
            magnitude = np.minimum(np.abs(factor) + gamma, 1.0)
            power = _power(factor, count)
            doubt = doubt * magnitude**count + np.abs(product) * (
                count * magnitude ** (count - 1) * gamma * 2
                + np.abs(power) * 16 * count * _ROUNDOFF
            )
            product = product * power
        # Back to masses; an error at one frequency is spread evenly over all of them, and
        # transforms keep lengths [Parseval].
        total = np.fft.irfft(product, size)
        errors = np.abs(product) * gamma + doubt
        # Twice: real masses have half of their frequencies here, and the conjugates are as far off.
        most, root = 2 * float(errors.sum()) / size, math.sqrt(2 * float((errors**2).sum()) / size)
        return np.roll(total, -(low % size))[: high - low + 1], (most * 1.01, root * 1.01)


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
