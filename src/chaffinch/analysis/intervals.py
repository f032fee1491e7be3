"""Confidence intervals for true counts by inverting the exact law of the tally.

Write α for one minus the level. A count h is kept unless P_h[S ≥ s] ≤ α/2 or
P_h[S ≤ s] ≤ α/2; whatever h is true, it is lost with probability at most α/2 each way
[Clopper and Pearson 1934]. Two orders make this cheap for millions of values at once:

* S grows with h in the stochastic order: one more report that holds the value turns
  ``copies`` trials of chance ``miss`` into trials of chance ``hit`` > ``miss``. So a tally
  that rejects h from above rejects every smaller count too: the kept counts are a range.
* S − copies·h falls with h: the same trials gain at most 1 each. So if c is critical at h,
  P_h[S ≥ c] ≤ α/2, then c + copies·j is critical at h + j.

The critical tally of a single count thus gives a valid lower end for every tally, sharp
for those that reject counts just above it. Laws are summed at as few counts as reach the
wanted sharpness; fewer make intervals wider, never wrong. Upper ends are lower ends of
the mirrored noise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from chaffinch.analysis.tails import STEPS, critical_tally, rejected
from chaffinch.checks import real, whole
from chaffinch.errors import InvalidInput
from chaffinch.planning.noise import MOST_REPORTS, Noise

Counts = NDArray[np.int64]

SHARPNESS = 0.02
"""How far, in standard deviations of the tally, an end may be from the exact one."""

LONGEST_VARIANCE = 1e10
"""Beyond this variance of the tally only closed bounds are used."""

WORK = 8e7
"""How many masses may be computed for one side of the intervals, all counts together."""

ROUGH_WORK = 1e7
"""How much of that may be spent before it is known where to look closely."""

OVERHEAD = 15_000
"""What one law costs besides its masses, in masses."""

ROUNDS = 40
"""A limit that is not met in practice: after a few rounds there is nothing left to try."""


def intervals(
    noise: Noise, tallies: ArrayLike, reports: int, level: float
) -> tuple[Counts, Counts]:
    """Return the ends of one confidence interval per tally.

    Each interval alone covers its true count with probability at least ``level``,
    whatever the count is.

    Examples
    --------
    >>> from fractions import Fraction
    >>> low, high = intervals(Noise.flips(Fraction(1, 10)), [10, 26], 100, 0.95)
    >>> low, high
    (array([ 0, 12]), array([ 7, 27]))
    """
    return two_sided(noise, tallies, reports, miss_chance(level))


def simultaneous(
    noise: Noise, tallies: ArrayLike, reports: int, level: float, *, comparisons: int | None = None
) -> tuple[Counts, Counts]:
    """Return intervals that cover all true counts at once with probability at least ``level``.

    The chance to miss is shared out equally (Bonferroni). Tallies of one-hot reports
    depend on one another through the data and the decoys, and the union bound is valid
    under any dependence. ``comparisons`` is the number of intervals that must hold
    together, by default the number of tallies.
    """
    share = whole("comparisons", np.size(tallies) if comparisons is None else comparisons, least=0)
    if share < np.size(tallies):
        raise InvalidInput("comparisons", "at least the number of tallies", share)
    return two_sided(noise, tallies, reports, miss_chance(level) / max(share, 1))


def miss_chance(level: float) -> float:
    """Return 1 − ``level``, which is exact from one half up, for a level short of 1."""
    level = real("level", level, least=0.5, most=1.0 - 1e-12)
    return 1.0 - level


def two_sided(
    noise: Noise, tallies: ArrayLike, reports: int, alpha: float
) -> tuple[Counts, Counts]:
    """Return the ends where each side may miss with half of ``alpha``."""
    reports = whole("reports", reports, least=1, most=MOST_REPORTS)
    largest = noise.largest(reports)
    seen = _whole_tallies(tallies, largest)
    distinct, where = np.unique(seen, return_inverse=True)
    tail = 0.5 * alpha * (1 - 1e-12)
    low = lower_ends(noise, distinct, reports, tail)
    high = reports - lower_ends(noise.mirrored(), (largest - distinct)[::-1], reports, tail)[::-1]
    # Without noise, tallies between two multiples of `copies` reject every count.
    low, high = np.minimum(low, high), np.maximum(low, high)
    return low[where].reshape(seen.shape), high[where].reshape(seen.shape)


def _whole_tallies(tallies: ArrayLike, largest: int) -> Counts:
    """Return tallies as integers, or refuse them without showing them."""
    seen = np.asarray(tallies)
    rule = f"whole numbers from 0 to {largest}, the most that so many reports can add up to"
    if seen.size and seen.dtype.kind not in "iu":
        raise InvalidInput("tallies", rule, seen.dtype)
    if seen.size and not (seen.min() >= 0 and seen.max() <= largest):
        raise InvalidInput("tallies", rule, "a number outside of that range")
    return seen.astype(np.int64)


def lower_ends(noise: Noise, tallies: Counts, reports: int, tail: float) -> Counts:
    """Return for each of the sorted ``tallies`` a count below which all are rejected."""
    low = (rejected(noise, tallies, reports, tail) + 1).astype(np.int64)
    variance = float(noise.tally_variance([0, reports], reports).max())
    if len(tallies) and variance <= LONGEST_VARIANCE:
        low = np.maximum(low, _by_laws(noise, tallies, reports, tail, low))
    # What a tally rejects, every larger tally rejects too.
    return np.maximum.accumulate(np.minimum(low, reports))


def _by_laws(noise: Noise, tallies: Counts, reports: int, tail: float, low: Counts) -> Counts:
    """Return lower ends from laws that are summed where they are needed, ``low`` to begin with."""
    tried = _Tried(noise, reports, tail)
    tried.near(low, ROUGH_WORK)
    for _ in range(ROUNDS):
        # Where the slope of the mean points; then at the first count not yet rejected, which
        # moves on until that count is known to be kept.
        ahead = tried.near(tried.guesses(tallies), WORK)
        low = np.maximum(low, tried.lower_ends(tallies))
        if not tried.near(low, WORK) and not ahead:
            break
    return np.maximum(low, tried.lower_ends(tallies))


@dataclass(slots=True)
class _Tried:
    """Counts whose critical tally is known, in order, and what follows from them."""

    noise: Noise
    reports: int
    tail: float
    work: float = 0.0
    counts: Counts = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    critical: Counts = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    def near(self, guess: Counts, most: float) -> bool:
        """Try a count just below each guess as far as the work allows; say whether any is new."""
        held = np.unique(np.clip(guess, 0, self.reports))
        step = self._steps(held)
        while True:
            fresh = np.setdiff1d(np.unique(held // step * step), self.counts)
            cost = float(self._cost(fresh).sum())
            needed = len(self.counts) == 0 and len(fresh) == 1
            if needed or self.work + cost <= most:
                break
            if len(fresh) <= 1:
                return False
            # Too much: try half as many.
            step = step * 2
        self.work += cost
        self._add(fresh)
        return len(fresh) > 0

    def _steps(self, held: Counts) -> Counts:
        """Return the distance of tried counts that keeps ends as sharp as ``SHARPNESS``.

        Between two of them the critical tally is taken to grow by ``copies`` per count. It
        really grows by about the slope of the mean, which is less by ``loss``. Distances
        are powers of two, so that neighbours agree on what to try.
        """
        loss = float(self.noise.copies - self.noise.slope)
        if loss == 0.0:
            return np.full_like(held, self.reports + 1)
        sharp = SHARPNESS * np.sqrt(self.noise.tally_variance(held, self.reports)) / loss
        power = np.floor(np.log2(np.clip(sharp, 1.0, self.reports + 1.0)))
        return np.asarray(1 << power.astype(np.int64))

    def _cost(self, held: Counts) -> NDArray[np.float64]:
        """Return about what summing each law costs, in masses computed."""
        reach = math.sqrt(-8.0 * math.log(self.tail * 1e-4))
        spread = np.sqrt(self.noise.tally_variance(held, self.reports))
        lattice = np.minimum(spread, float(STEPS)) * reach
        return np.asarray(OVERHEAD + 2.0 * spread * reach + lattice**2 / 16.0)

    def _add(self, counts: Counts) -> None:
        """Sum the laws of ``counts``."""
        new = [critical_tally(self.noise, int(h), self.reports, self.tail) for h in counts]
        merged = np.concatenate([self.counts, counts])
        order = np.argsort(merged)
        self.counts = merged[order]
        # Critical tallies grow with the count; raising one that rounding left behind is safe.
        found = np.concatenate([self.critical, np.asarray(new, dtype=np.int64)])[order]
        self.critical = np.maximum.accumulate(found)

    def lower_ends(self, tallies: Counts) -> Counts:
        """Return one more than the largest count that each tally is known to reject."""
        at = np.searchsorted(self.critical, tallies, side="right") - 1
        spare = (tallies - self.critical[at]) // self.noise.copies
        return np.where(at < 0, 0, self.counts[at] + spare + 1)

    def guesses(self, tallies: Counts) -> Counts:
        """Return about where the lower ends are, by the slope of the mean tally."""
        at = np.maximum(np.searchsorted(self.critical, tallies, side="right") - 1, 0)
        ahead = (tallies - self.critical[at]) / float(self.noise.slope)
        return np.floor(np.clip(self.counts[at] + ahead, 0, self.reports)).astype(np.int64)
