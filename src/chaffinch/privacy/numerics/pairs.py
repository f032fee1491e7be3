"""Two independent sums that move in opposite directions: the view of one value out of many.

When a user's value changes from u to v, the sum at u loses a one and the sum at v gains one.
With P and Q the two laws of the first sum (target present, target gone) and a curve of best
tests for the second, the hockey-stick of the pair is a sum over the first outcome:

    delta = Σ_s P(s)·δ₂(e^ε·Q(s)/P(s)),  δ₂(g) = max over k of gain₂(k) − (g − 1)·level₂(k)

with one more test for g < 1, "always": gain 0, level 1. (S0 §5.2; the exact loss is the
convolution of the two single ones, and this is that convolution, asked at one epsilon.)

Where decoys fall on the two values at random the two sums are no longer independent: a decoy
is on the first value, on the second, or on neither. But the records are independent, so the
Fourier transform of the joint law is a product of powers, and the hockey-stick is a sum over
a grid: ``mixture_delta``, used for lower ends only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chaffinch.privacy.numerics.laws import Law, TargetBits, half_width
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

_ROUNDOFF = 2.0**-53
_TAIL = 1e-22
"""What either sum may have outside the grid, on either side."""
_MOST_CELLS = 4_000_000

_Complex = NDArray[np.complex128]


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
    low, high = _near(tests, ratio, places, wider)
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


def _near(
    tests: SideTests, ratio: WideArray, places: NDArray[np.intp], wider: float
) -> tuple[WideArray, WideArray]:
    """Try the tests around a place, and "always", which may win where the ratio is below 1."""
    last = len(tests.low_gain) - 1
    steps = np.arange(-_NEAR, _NEAR + 1)
    picked = np.clip(places[:, None] + steps, 0, last)
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


def mixture_delta(
    *, first: int, second: int, users: int, decoys: int, values: int, flip: Fraction, epsilon: float
) -> float:
    """Return a lower end of delta for one crowd among ``decoys`` random decoys.

    ``first`` and ``second`` of the ``users`` − 1 others hold the two values. Returns 0 where
    the grid would be too large: a valid, if idle, lower end.
    """
    wrong, right = float(flip), float(1 - flip)
    records = users + decoys
    size = _size(records * wrong * right + 2 * decoys / values)
    if size * size > _MOST_CELLS:
        return 0.0
    # One record's bit at every frequency ω: p + q·e^(−iω) for a zero, q + p·e^(−iω) for a one.
    step = np.exp(-2j * np.pi * np.fft.fftfreq(size))
    zero, one = right + wrong * step, wrong + right * step
    others = users - 1
    share = 1.0 / values
    none = (zero[:, None], zero[None, :])
    # Records on the first value, on the second, on neither, and decoys, anywhere.
    parts = [
        (_outer(one, zero), first),
        (_outer(zero, one), second),
        (none[0] * none[1], others - first - second),
        (
            share * (_outer(one, zero) + _outer(zero, one)) + (1 - 2 * share) * none[0] * none[1],
            decoys,
        ),
    ]
    log, size_of_log = _log_power(parts)
    # The target's own record: on the first value, or moved to the second.
    stay = np.exp(log) * _outer(one, zero)
    move = np.exp(log) * _outer(zero, one)
    # The exponent is off by a few roundoffs of its terms; Parseval turns that into the grid's.
    doubt = np.abs(stay) * np.minimum((8 * _ROUNDOFF) * (8 + size_of_log), 1.0)
    transform = 16 * _ROUNDOFF * math.log2(size * size) * float(np.sqrt((np.abs(stay) ** 2).mean()))
    error = size * (float(np.sqrt((doubt**2).mean())) + transform)
    growth = math.exp(epsilon)
    here, there = np.fft.ifft2(stay).real, np.fft.ifft2(move).real
    total = float(np.maximum(here - growth * there, 0.0).sum())
    # Mass outside the grid wraps around: at most 4·tail of either law.
    slack = (1 + growth) * (error + 8 * _TAIL + 4 * _ROUNDOFF)
    return max(0.0, total * (1 - 1e-13 - 64 * _ROUNDOFF * records) - slack)


def _size(variance: float) -> int:
    return 1 << (2 * half_width(variance, _TAIL) + 4).bit_length()


def _outer(rows: _Complex, columns: _Complex) -> _Complex:
    return np.asarray(rows[:, None] * columns[None, :])


def _log_power(parts: list[tuple[_Complex, int]]) -> tuple[_Complex, NDArray[np.float64]]:
    """Return Σ count·log(part) and Σ count·|log(part)|."""
    total = np.zeros(parts[0][0].shape, dtype=np.complex128)
    size = np.zeros(parts[0][0].shape)
    for part, count in parts:
        if count:
            with np.errstate(divide="ignore"):
                log = np.log(part)
            # A factor 0 gets a finite logarithm that the exponential still sends to nothing.
            log = np.where(np.isfinite(log), log, -1e6)
            total += count * log
            # A part is off by a few roundoffs of 1, whatever its logarithm is.
            size += count * (np.abs(log) + 4.0 / np.maximum(np.abs(part), 1e-300))
    # Where the product is below e^−700 it is nothing, and its phase does not matter.
    return np.where(total.real < -700, -700 + 0j, total), size
