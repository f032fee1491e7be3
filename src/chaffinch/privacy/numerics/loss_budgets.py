"""What is left of epsilon: delta as a function of it, while losses are paid one after another.

Of a pair of laws with the masses m(y) of its losses y, delta(e) = Σ m(y)·(1 − e^(e − y))₊. If
another, independent loss is paid first, what is left of e is e − y, so the delta of both together
is Σ m(y)·delta(e − y). In this form a worst case can be chosen between one loss and the next: the
pointwise largest of several such functions bounds each of them, for every e at once.

The functions stand on a grid of e, and losses on the same grid. A loss between two points is split
between them so that both laws keep their mass, which raises delta by a second-order amount (see
``loss_grids``). All terms are positive and are summed directly: errors are relative to the sums.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from chaffinch.privacy.numerics.precision import Floats

_ROUNDOFF = 2.0**-53
_SPLIT = 1e-11
"""More than a share of a split is off by: places are below 10⁵ and known to a roundoff."""
_SUMMED = 4e-12
"""More than a sum of 10⁴ positive terms is off by, as a share of itself."""
_LEAST = 1e-40
"""Masses below this at the rare ends are put together: they would make every sum longer."""


@dataclass(frozen=True, slots=True, eq=False)
class Losses:
    """Masses of losses on the grid, from the place ``first`` on, and of the infinite one."""

    first: int
    mass: Floats
    infinite: float

    @property
    def last(self) -> int:
        """Return the place of the largest finite loss."""
        return self.first + len(self.mass) - 1


@dataclass(frozen=True, slots=True)
class Grid:
    """The points step·j for j from ``low`` to ``high``."""

    step: float
    low: int
    high: int

    @property
    def points(self) -> NDArray[np.int64]:
        """Return all j."""
        return np.arange(self.low, self.high + 1)

    @property
    def reach(self) -> float:
        """Return the largest epsilon of the grid."""
        return self.step * self.high

    def losses(
        self, here: Floats, there: Floats, *, relative: float, missing: float = 0.0
    ) -> Losses:
        """Return losses that dominate those of two laws on the same outcomes.

        The masses are off by ``relative`` of themselves at most; the first law lacks ``missing``.
        """
        here, there = here.ravel(), there.ravel()
        shown = here > 0
        # Up in the first law and down in the second: no hockey-stick becomes smaller.
        here, there = here[shown] * (1 + relative), there[shown] * (1 - relative)
        with np.errstate(divide="ignore"):
            loss = np.log(here) - np.log(there)
        return self.losses_of(here, loss, missing=missing)

    def losses_of(self, mass: Floats, loss: Floats, *, missing: float) -> Losses:
        """Return losses that dominate these, of which some may be infinite."""
        # A loss that is larger than what the grid can hold leaves nothing of epsilon.
        far = self.step * (self.high - self.low)
        bounded = loss < far
        infinite = missing + float(mass[~bounded].sum())
        return self._split(mass[bounded], np.maximum(loss[bounded], -far), infinite)

    def _split(self, mass: Floats, loss: Floats, infinite: float) -> Losses:
        if not len(mass):
            return Losses(0, np.zeros(1), infinite)
        # A hair more than the loss covers the rounding of its logarithm.
        places = loss / self.step + 1e-12 * (1 + np.abs(loss) / self.step)
        left = np.floor(places)
        # Both laws keep their mass if the share (1 − e^−(y − left))/(1 − e^−step) goes right.
        share = np.expm1((left - places) * self.step) / math.expm1(-self.step)
        index = left.astype(np.int64)
        first = int(index.min())
        index -= first
        size = int(index.max()) + 2
        parts = (
            np.bincount(index, mass * (1 - share), size),
            np.bincount(index + 1, mass * (share + _SPLIT), size),
        )
        # All masses may meet at one place, so many roundings.
        grown = 1 + _SUMMED + 4 * len(mass) * _ROUNDOFF
        found = np.asarray((parts[0] + parts[1]) * grown, dtype=np.float64)
        # The rare losses of both ends: small ones count as the least that is kept, and large ones
        # as infinite.
        kept = np.flatnonzero(found >= _LEAST)
        if not len(kept):
            return Losses(first, np.zeros(1), infinite + float(found.sum()))
        begin, end = int(kept[0]), int(kept[-1]) + 1
        below, above = float(found[:begin].sum()), float(found[end:].sum())
        found = found[begin:end]
        found[0] += below
        return Losses(first + begin, found, infinite + above)

    def choice(self, mass: Floats, loss: Floats) -> Losses:
        """Return a few finite losses as they are given, from above."""
        return self._split(mass * (1 + 4 * _ROUNDOFF), loss, 0.0)

    def deltas(self, losses: Losses) -> Floats:
        """Return the delta of these losses alone, from above."""
        places = np.arange(losses.first, losses.last + 1)
        second = losses.mass * np.exp(-self.step * places)
        # Σ over the losses above e, of the first law and of the second.
        first, other = (np.append(np.cumsum(law[::-1])[::-1], 0.0) for law in (losses.mass, second))
        begin = np.clip(self.points + 1 - losses.first, 0, len(places))
        beyond = first[begin]
        found = beyond * (1 + _SUMMED) - np.exp(self.step * self.points) * other[begin]
        # Both sums are of positive terms; what they are off is relative to the larger one.
        return np.asarray(np.clip(found + _SUMMED * beyond, 0.0, 1.0) + losses.infinite)

    def after(self, losses: Losses, left: Floats) -> Floats:
        """Return Σ m(y)·left(e − y) and the infinite loss, from above.

        Left of the grid delta counts as 1, and right of it as what it is at its end: it falls.
        """
        above, below = max(losses.last, 0), max(-losses.first, 0)
        padded = np.concatenate([np.ones(above), left, np.full(below, left[-1])])
        sums = np.convolve(padded, losses.mass)
        begin = above - losses.first
        found = sums[begin : begin + len(left)]
        return np.asarray(found * (1 + 4 * len(losses.mass) * _ROUNDOFF) + losses.infinite)

    def read(self, left: Floats, epsilons: Floats) -> Floats:
        """Return delta between the points: it is convex in e^e, so a chord lies above it."""
        places = np.clip(epsilons / self.step - self.low, 0.0, float(len(left) - 1))
        # Down: a smaller epsilon has a larger delta.
        places *= 1 - 4 * _ROUNDOFF
        index = np.minimum(places.astype(np.int64), len(left) - 2)
        share = np.expm1((places - index) * self.step) / math.expm1(self.step)
        share = np.clip(share * (1 - 1e-11), 0.0, 1.0)
        return np.asarray(left[index] + share * (left[index + 1] - left[index]))

    # -------------------------------------------------------------------- from below

    def losses_below(
        self, here: Floats, there: Floats, *, relative: float, lacking: float
    ) -> Losses:
        """Return losses that two laws on the same outcomes dominate: rounded down to the grid.

        Masses are off by ``relative`` of themselves, and lack ``lacking`` in all at most. At the
        first outcome nothing is lacking.
        """
        # Where what is lacking could matter nothing is claimed.
        shown = (here > 0) & (there > lacking * 1e6)
        shown[0] = here[0] > 0
        here, there = here[shown] * (1 - relative), there[shown] * (1 + relative + 2e-6)
        with np.errstate(divide="ignore"):
            loss = np.log(here) - np.log(there)
        far = self.step * (self.high - self.low)
        # A loss beyond the grid counts as one at its end, and what is below as nothing seen.
        places = np.minimum(loss, far) / self.step
        places = np.floor(places - 1e-12 * np.abs(places) - 1e-9)
        kept = places >= -far / self.step
        index = places[kept].astype(np.int64)
        if not len(index):
            return Losses(0, np.zeros(1), 0.0)
        first = int(index.min())
        found = np.bincount(index - first, here[kept]) * (1 - _SUMMED)
        found *= 1 - 4 * len(index) * _ROUNDOFF
        return Losses(first, np.asarray(found, dtype=np.float64), 0.0)

    def together(self, parts: Sequence[Losses]) -> Losses:
        """Return the sum of independent losses, from below."""
        first, mass = 0, np.ones(1)
        for one in parts:
            first += one.first
            sums = np.convolve(mass, one.mass)
            mass = np.asarray(sums * (1 - 4 * len(one.mass) * _ROUNDOFF), dtype=np.float64)
        return Losses(first, mass, 0.0)

    def shown(self, losses: Losses, epsilon: float) -> float:
        """Return Σ m(y)·(1 − e^(epsilon − y))₊, from below."""
        loss = self.step * np.arange(losses.first, losses.last + 1)
        gains = -np.expm1(np.minimum(epsilon - loss * (1 - 1e-15), 0.0))
        return float((losses.mass * gains).sum()) * (1 - _SUMMED)
