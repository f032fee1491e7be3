"""Sums of several counts of one histogram, and ratios of two such sums, with intervals.

A sum of estimates is unbiased, and its error has a law that is known (``protocols.joint``): its
interval is the estimate plus and minus a critical value of that law.

A ratio r = Σ s·h / Σ h over the cells of a group (a share where the scores s are 0 and 1, a mean
of levels where they lie between) is kept unless T(r) = Σ (s − r)·estimate is beyond its critical
value: T has mean 0 at the true ratio, whatever the size of the group is [Fieller 1954]. Where the
group may be empty every ratio may be kept. The critical value is a multiple of the standard
deviation of T(r), taken from the law itself, which can have far heavier tails than a normal one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from chaffinch.protocols.joint import JointNoise
from chaffinch.protocols.noise import Floats

_SEGMENTS = 16
"""Between so many ratios the multiple is that of the end where it is larger."""
_LARGEST_WEIGHT = 24
"""Weights are rounded to so many parts of the largest; only the multiple is taken from them."""
_POINTS = 256
"""Up to so many points per standard deviation of a law that is summed."""


@dataclass(frozen=True, slots=True, eq=False)
class Interval:
    """Estimates with standard errors and the ends of their intervals."""

    estimates: Floats
    errors: Floats
    low: Floats
    high: Floats


def sum_intervals(joint: JointNoise, estimates: Floats, reports: int, miss: float) -> Interval:
    """Return the sums over the last axis, each with an interval that misses with ``miss``."""
    cells = estimates.shape[-1]
    totals = estimates.sum(axis=-1)
    error = math.sqrt(max(float(joint.covariance(1.0, 1.0, np.array([cells]))), 0.0))
    room = error * critical_multiple(joint, (1,), (cells,), 0.5 * miss)
    # Counts are whole. A millionth covers the rounding of these operations.
    low = np.clip(np.ceil(totals - room - 1e-6), 0.0, reports)
    high = np.clip(np.floor(totals + room + 1e-6), 0.0, reports)
    errors = np.full(totals.shape, error)
    return Interval(totals, errors, np.minimum(low, high), np.maximum(low, high))


def ratio_intervals(
    joint: JointNoise,
    estimates: Floats,
    scores: ArrayLike,
    miss: float,
    *,
    rounding: ArrayLike = 0.0,
    times: int = 1,
) -> Interval:
    """Return Σ score·count / Σ count over the last axis, each with an interval.

    Every estimate is the sum of ``times`` cells. ``rounding`` is the variance that the scores of
    a group have besides, all people together. A ratio is NaN where the estimated group is empty.
    """
    marks = np.asarray(scores, dtype=np.float64)
    ones, many = np.ones_like(marks), np.full(marks.shape, float(times))
    upper, lower = estimates @ marks, estimates.sum(axis=-1)
    own = tuple(
        joint.covariance(*pair, many) for pair in ((marks, marks), (marks, ones), (ones, ones))
    )
    extra = np.broadcast_to(np.asarray(rounding, dtype=np.float64), upper.shape)
    with np.errstate(divide="ignore", invalid="ignore"):
        found = np.where(lower > 0, upper / lower, np.nan)
        spread = own[0] - 2 * found * own[1] + found**2 * own[2] + extra
        errors = np.where(lower > 0, np.sqrt(np.maximum(spread, 0.0)) / lower, np.nan)
    values, counts = np.unique(marks, return_counts=True)
    counts *= times
    steps = np.linspace(0.0, 1.0, _SEGMENTS + 1)
    multiples = [_multiple_at(joint, values, counts, float(step), 0.5 * miss) for step in steps]
    # What is rounded by chance adds up to a normal law, whose middle is wider than that of noise.
    least = float(special.ndtri(1 - 0.5 * miss)) if extra.any() else 0.0
    low, high = np.full(upper.shape, np.inf), np.full(upper.shape, -np.inf)
    for left, right, *ends in zip(steps, steps[1:], multiples, multiples[1:], strict=False):
        kept = _kept(upper, lower, (*own, extra), max(least, *ends), (float(left), float(right)))
        low, high = np.minimum(low, kept[0]), np.maximum(high, kept[1])
    # Nothing is kept where chance went far beyond what is possible: the nearest ratio is left.
    nearest = np.clip(np.nan_to_num(found, nan=0.5), 0.0, 1.0)
    none = low > high
    low, high = np.where(none, nearest, low), np.where(none, nearest, high)
    return Interval(found, errors, np.maximum(low - 1e-12, 0.0), np.minimum(high + 1e-12, 1.0))


def _kept(
    upper: Floats,
    lower: Floats,
    spreads: tuple[Floats, Floats, Floats, Floats],
    multiple: float,
    segment: tuple[float, float],
) -> tuple[Floats, Floats]:
    """Return the least and the largest r of a segment with |T(r)| ≤ multiple·sd(r).

    (U − rL)² ≤ k²·(A − 2rC + r²B + E) is a quadratic in r; the ends of what it keeps within the
    segment are roots, or ends of the segment. Infinite where it keeps none.
    """
    first, mixed, second, extra = spreads
    square = multiple**2
    bend = lower**2 - square * second
    tilt = -2.0 * upper * lower + 2.0 * square * mixed
    start = upper**2 - square * (first + extra)
    with np.errstate(divide="ignore", invalid="ignore"):
        root = np.sqrt(tilt**2 - 4.0 * bend * start)
        stable = -0.5 * (tilt + np.where(tilt >= 0, root, -root))
        places = [stable / bend, start / stable]
        places = [
            np.where((one >= segment[0]) & (one <= segment[1]), one, np.nan) for one in places
        ]
        for end in segment:
            inside = bend * end**2 + tilt * end + start <= 0
            places.append(np.where(inside, end, np.nan))
    found = np.stack(places)
    low = np.min(np.where(np.isnan(found), np.inf, found), axis=0)
    high = np.max(np.where(np.isnan(found), -np.inf, found), axis=0)
    return low, high


def _multiple_at(
    joint: JointNoise, values: Floats, counts: NDArray[Any], ratio: float, tail: float
) -> float:
    weights = values - ratio
    scale = _LARGEST_WEIGHT / float(np.abs(weights).max())
    whole = np.rint(weights * scale).astype(int)
    divisor = math.gcd(*whole.tolist())
    if not divisor:
        return 0.0
    return critical_multiple(
        joint, tuple((whole // divisor).tolist()), tuple(counts.tolist()), tail
    )


@lru_cache(maxsize=1 << 12)
def critical_multiple(
    joint: JointNoise, weights: tuple[int, ...], cells: tuple[int, ...], tail: float
) -> float:
    """Return k such that a weighted sum of noise is beyond k standard deviations with ``tail``.

    Each way. The law is the inverse Fourier transform of its characteristic function: on the
    integers where it is short, else on a lattice so fine that it is smooth there.
    """
    some, many = np.array(weights, dtype=np.float64), np.array(cells, dtype=np.float64)
    variance = float(joint.covariance(some, some, many)) * joint.slope**2
    if not variance > 1e-9:
        return 0.0
    spread = math.sqrt(variance)
    step = max(1.0, spread / _POINTS)
    # A tail of the heaviest law, the geometric one, falls by e with every 0.71 of these.
    reach = spread * (12.0 - 1.5 * math.log(tail)) + 8.0
    size = 1 << math.ceil(math.log2(2.0 * reach / step))
    middle = round(joint.mean(some, many))
    angles: Floats = 2.0 * math.pi * np.fft.rfftfreq(size, step).astype(np.float64)
    curve = joint.characteristic(angles, some, many) * np.exp(-1j * angles * middle)
    mass = np.fft.fftshift(np.fft.irfft(np.conj(curve), size))
    places = step * np.arange(-(size // 2), size // 2) + (middle - joint.mean(some, many))
    above, below = np.cumsum(mass[::-1])[::-1], np.cumsum(mass)
    # Points of a smooth law stand for half a step to each side.
    room = 0.5 * step if step > 1.0 else 0.0
    up = places[min(int(np.count_nonzero(above > tail)), size - 1)] + room
    down = -places[max(size - 1 - int(np.count_nonzero(below > tail)), 0)] + room
    return max(float(up), float(down)) / spread
