"""Two independent sums that move in opposite directions: the view of one value out of many.

When a user's value changes from u to v, the sum at u loses a one and the sum at v gains one.
With P and Q the two laws of the first sum (target present, target gone) and a curve of best
tests for the second, the hockey-stick of the pair is a sum over the first outcome:

    delta = Σ_s P(s)·δ₂(e^ε·Q(s)/P(s)),  δ₂(g) = max over k of gain₂(k) − (g − 1)·level₂(k)

with one more test for g < 1, "always": gain 0, level 1. (S0 §5.2; the exact loss is the
convolution of the two single ones, and this is that convolution, asked at one epsilon.)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chaffinch.privacy.numerics.laws import Law, TargetBits
from chaffinch.privacy.numerics.loss import knots_of_sum
from chaffinch.privacy.numerics.precision import (
    LARGEST_EXPONENT,
    ROUNDOFF,
    Wide,
    WideArray,
    down,
    exp_minus_one,
    gamma,
    up,
)

_BLOCK = 2_000_000
_NEAR = 3
_UNLIKELY = np.finfo(Wide).max ** Wide(0.5)
"""A ratio so large that no test gains by the outcome; capped so that products stay finite."""


@dataclass(frozen=True, slots=True, eq=False)
class SideTests:
    """The tests on one of the two sums: ready to be asked at any likelihood ratio.

    Low and high ends of gain and level for every test, "never" first and "always" last, and
    the ratio at which each next outcome stops being worth including.
    """

    low_gain: WideArray
    high_gain: WideArray
    low_level: WideArray
    high_level: WideArray
    ratios: WideArray
    doubt: float
    """How far a ratio can be off, relatively (infinite where a Fourier transform was used)."""
    missing: Any


def side_tests(others: Law, target: TargetBits) -> SideTests:
    """Return the tests of "value 0" against "value 1" at one sum."""
    knots = knots_of_sum(others, target, 0.0)
    error = knots.relative + 6.0 * ROUNDOFF
    ends = np.zeros(1, dtype=Wide)
    full = np.ones(1, dtype=Wide)
    zero, one = np.convolve(others.mass, target.zero), np.convolve(others.mass, target.one)
    # Ratios fall with the outcome (S0 Lemma 4.1); rounding may break that by a hair.
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.minimum.accumulate(np.where(one > 0, zero / one, np.inf))
    doubt = 2 * (others.relative + target.relative) + gamma(4.0 * target.copies + 20.0)
    small = (1 - error) * knots.level - knots.level_noise
    large = (1 + error) * knots.level + knots.level_noise + knots.missing
    gain = knots.gain
    return SideTests(
        low_gain=np.concatenate([ends, (1 - error) * gain - knots.gain_noise, ends]),
        high_gain=np.concatenate([ends, (1 + error) * gain + knots.gain_noise, ends]),
        low_level=np.concatenate([ends, np.maximum(small, 0), full]),
        high_level=np.concatenate([ends, large, full]),
        ratios=ratios,
        # After a Fourier transform a small mass may have no right digit, nor a ratio of two of
        # them.
        doubt=math.inf if others.noise is not None else doubt,
        missing=knots.missing,
    )


def pair_delta(
    leaving: Law, joining: SideTests, target: TargetBits, epsilon: float
) -> tuple[float, float]:
    """Return both ends of delta for a target that leaves one sum and joins another.

    ``leaving`` is the sum of the others at the first value, ``joining`` the tests at the second.
    """
    present = np.convolve(leaving.mass, target.one)
    gone = np.convolve(leaving.mass, target.zero)
    growth = exp_minus_one(min(epsilon, LARGEST_EXPONENT)) + 1
    wider = leaving.relative + target.relative + gamma(target.copies + 8.0)
    sure = present > 0
    with np.errstate(over="ignore"):
        ratio = np.where(sure, growth * gone / np.where(sure, present, 1), _UNLIKELY)
    # A quotient of two masses is off by the error of both.
    low, high = _curve(joining, np.minimum(ratio, _UNLIKELY), 2 * wider)
    total = wider + gamma(len(present) + 1.0)
    noise = Wide(0) if leaving.noise is None else leaving.noise.sum()
    lacking = leaving.missing + joining.missing
    # What either law lacks moves first − e^ε·second by at most 1 + e^ε times as much.
    lower = (present * low).sum() * (1 - total) - (noise + lacking) * (1 + growth)
    if epsilon > LARGEST_EXPONENT:
        lower = Wide(0)
    # P(s)·δ₂ ≤ P(s): what the window of the first sum lacks counts in full.
    upper = (present * high).sum() * (1 + total) + leaving.missing + noise * (1 + growth)
    return min(down(lower), 1.0), min(up(upper), 1.0)


def _curve(tests: SideTests, ratio: WideArray, wider: float) -> tuple[WideArray, WideArray]:
    """Return both ends of δ₂ at every ratio, where the ratio itself is within ``wider``.

    The best test includes the outcomes whose own ratio is larger. Where the ratios around
    that place are surely on the right sides, only the tests next to it need to be tried.
    """
    # How many outcomes have at least this ratio: the best test includes just these.
    places = len(tests.ratios) - np.searchsorted(tests.ratios[::-1], ratio, side="left")
    low, high = _best_near(tests, ratio, places, wider)
    margin = tests.doubt + wider
    before = np.maximum(places - _NEAR, 0)
    after = np.minimum(places + _NEAR - 1, len(tests.ratios) - 1)
    sure_before = (places <= _NEAR) | (tests.ratios[before] > ratio * (1 + margin))
    sure_after = (places + _NEAR >= len(tests.ratios)) | (
        tests.ratios[after] < ratio * (1 - margin)
    )
    # Where a neighbour is not surely on its side, every test is tried.
    unsure = np.flatnonzero(~(sure_before & sure_after))
    block = max(1, _BLOCK // len(tests.low_gain))
    everywhere = np.arange(len(tests.low_gain))
    for begin in range(0, len(unsure), block):
        rows = unsure[begin : begin + block]
        picked = np.broadcast_to(everywhere, (len(rows), len(everywhere)))
        low[rows], high[rows] = _best_of(tests, ratio[rows], picked, wider)
    return np.maximum(low, 0), np.minimum(high + tests.missing, 1)


def _best_near(
    tests: SideTests, ratio: WideArray, places: NDArray[np.intp], wider: float
) -> tuple[WideArray, WideArray]:
    last = len(tests.low_gain) - 1
    steps = np.arange(-_NEAR, _NEAR + 1)
    picked = np.clip(places[:, None] + steps, 0, last)
    # "Always", the last test, may be the best one where the ratio is below 1.
    picked = np.concatenate([picked, np.full((len(places), 1), last)], axis=1)
    return _best_of(tests, ratio, picked, wider)


def _best_of(
    tests: SideTests, ratio: WideArray, picked: NDArray[np.intp], wider: float
) -> tuple[WideArray, WideArray]:
    """Return both ends of the best value among the picked tests.

    A positive cost makes a small level cheap and a negative one makes a large level cheap,
    so which end of the level counts depends on the sign.
    """
    low_level, high_level = tests.low_level[picked], tests.high_level[picked]
    cheap, dear = (ratio * (1 - wider) - 1)[:, None], (ratio * (1 + wider) - 1)[:, None]
    most = tests.high_gain[picked] - np.where(cheap > 0, cheap * low_level, cheap * high_level)
    least = tests.low_gain[picked] - np.where(dear > 0, dear * high_level, dear * low_level)
    return least.max(axis=1), most.max(axis=1)
