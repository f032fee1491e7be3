"""Thresholds for observed numbers, with a stated chance of a false alarm.

All tallies are sums of independent terms, each in an interval of length 1 or with moments that
grow no faster than those of a geometric law, so the bounds for the mean and for the share of
misses hold for any number of runs. The one for the variance is
the chi-square law with the degrees of freedom that the kurtosis of the tally leaves.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import special

from chaffinch.privacy.numerics.roots import bisect_whole
from chaffinch.protocols.noise import Floats
from chaffinch.wire.batches import Counts

_LEAST_CELL = 25.0
_MOST_COLUMNS = 8


def mean_room(variance: Any, runs: int, alarm: float, grain: float = 1.0 / 3.0) -> Floats:
    """Return how far the mean of ``runs`` sums may be off but for a chance of ``alarm``.

    P[|Σ| ≥ t] ≤ 2·exp(−t²/(2(V + c·t))) for a sum of variance V [Bernstein 1927]; the ``grain``
    c is 1/3 for terms in an interval of length 1.
    """
    log = math.log(2.0 / alarm)
    step, total = grain * log, runs * variance
    return np.asarray((step + np.sqrt(step * step + 2.0 * total * log)) / runs)


def variance_ratios(excess: Floats, runs: int, alarm: float) -> tuple[Floats, Floats]:
    """Return what observed over true variance lies between but for a chance of ``alarm``.

    The ratio has variance (2 + excess kurtosis)/runs; a chi-square over its degrees of
    freedom f has 2/f.
    """
    freedom = (runs - 1) * 2.0 / np.maximum(2.0 + excess, 1e-3)
    half = freedom / 2.0
    low = special.gammaincinv(half, alarm / 2.0) / half
    high = special.gammainccinv(half, alarm / 2.0) / half
    return np.asarray(low), np.asarray(high)


def miss_limit(chance: float, runs: int, alarm: float) -> int:
    """Return the most misses of ``chance`` each that ``runs`` show but for a chance of ``alarm``.

    >>> miss_limit(0.05, 1000, 1e-6)
    86
    """

    def rare(misses: int) -> bool:
        # P[Bin(runs, chance) > misses]
        return misses >= 0 and float(special.bdtrc(misses, runs, chance)) <= alarm

    return bisect_whole(rare, good=runs, bad=math.floor(chance * runs) - 1)


def clopper_pearson(hits: Any, trials: int, alpha: float) -> tuple[Floats, Floats]:
    """Return a lower and an upper end of a chance, each wrong with chance at most ``alpha``.

    Source: Clopper and Pearson 1934, by quantiles of the beta law.
    """
    seen = np.asarray(hits, dtype=np.float64)
    with np.errstate(invalid="ignore"):
        low = special.betaincinv(seen, trials - seen + 1.0, alpha)
        high = special.betainccinv(seen + 1.0, trials - seen, alpha)
    return np.where(seen > 0, low, 0.0), np.where(seen < trials, high, 1.0)


def same_law(first: Counts, second: Counts) -> float:
    """Return a p-value that two samples of tallies, a row each, have one joint law.

    Every tally is compared, and sums and differences of neighbours, which see covariances
    (the first few columns stand for the rest). Small where the laws differ: no larger than
    x with chance at most x, by the union bound, if they do not.
    """
    pairs = list(zip(_views(first), _views(second), strict=True))
    return min(1.0, len(pairs) * min(two_samples(one, other) for one, other in pairs))


def two_samples(first: Counts, second: Counts) -> float:
    """Return the p-value of Pearson's chi-square that two samples of numbers have one law.

    Neighbouring outcomes are pooled until each cell is expected to hold enough for the
    chi-square to be near its limit.
    """
    low = int(min(first.min(), second.min()))
    size = int(max(first.max(), second.max())) - low + 1
    seen = [np.bincount(sample - low, minlength=size) for sample in (first, second)]
    total = np.cumsum(seen[0] + seen[1])
    share = min(len(first), len(second)) / (len(first) + len(second))
    filled = np.floor(total * (share / _LEAST_CELL))
    edges = np.flatnonzero(np.diff(filled, prepend=0.0)) + 1
    if len(edges) < 2:
        return 1.0
    starts = np.concatenate([[0], edges[:-1]])
    table = np.array([np.add.reduceat(counts, starts) for counts in seen], dtype=np.float64)
    expected = table.sum(axis=1, keepdims=True) * table.sum(axis=0) / table.sum()
    value = float((np.square(table - expected) / expected).sum())
    return float(special.chdtrc(table.shape[1] - 1, value))


def _views(tallies: Counts) -> list[Counts]:
    columns = list(tallies.T[:_MOST_COLUMNS])
    pairs = list(pairwise(columns))
    return columns + [a + b for a, b in pairs] + [a - b for a, b in pairs]
