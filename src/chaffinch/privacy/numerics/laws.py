"""Laws (distributions) of whole numbers with proven errors: binomials, sums of flipped bits.

A ``Law`` holds the masses of a stretch of integers (a window) in working precision, with
proof of how far they can be off. Writing a(s) for the true mass at s and m(s) for the stored
one, for every set S of integers

    sum a ≥ (1 − relative) sum m − noise        sum a ≤ (1 + relative) sum m + missing + noise

where the sums of m and of ``noise`` run over S. ``missing`` is probability that lies
outside the window (or was dropped on the way); ``noise`` is the two-sided error of a fast
Fourier transform, point by point, and is None where sums were made directly.

The view of a collection of bits is a sum of two parts: what the others add, Bin(ones, p) +
Bin(zeros, q) (``sum_of_flips``), and what the target adds, Bin(copies, q) or Bin(copies, p)
(``target_bits``). S0 §4 is the case of one copy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chaffinch.privacy.numerics.precision import (
    LEAST_TAIL,
    ROUNDOFF,
    TINIEST,
    Wide,
    WideArray,
    gamma,
    wide,
    wide_exponential,
)
from chaffinch.privacy.numerics.roots import bisect_real

_CUT = 1e-280
"""Masses below this are left out of a Fourier transform."""

_EXACT_COPIES = 64
"""Up to so many bits of one person are counted in whole numbers, and rounded once."""

DIRECT_PRODUCTS = 4_000_000
"""Up to this many multiplications a convolution is summed directly: no cancellation, no noise."""


@dataclass(frozen=True, slots=True, eq=False)
class Law:
    """Masses of the integers ``start``, ``start + 1``, … with their proven error."""

    start: int
    mass: WideArray
    relative: Any
    missing: Any
    noise: WideArray | None = None
    cut: bool = False
    """Whether what lies right of the window was left out on purpose and is not in ``missing``."""

    @property
    def stop(self) -> int:
        """Return the first integer behind the window."""
        return self.start + len(self.mass)


def point(value: int) -> Law:
    """Return the law of a number that is always ``value``."""
    return Law(value, np.ones(1, dtype=Wide), Wide(0), Wide(0))


def half_width(variance: float, tail: Any) -> int:
    """Return t with P[|X − mean| ≥ t] ≤ 2·tail for a sum of independent bits.

    Bernstein: P[X − mean ≥ t] ≤ exp(−t² / (2(variance + t/3))), and the same on the left.
    """
    # The root t of t² = 2L(variance + t/3), L = ln(1/tail). Up: a wider window misses less.
    logarithm = -float(np.log(Wide(tail)))
    return math.ceil(logarithm / 3.0 + math.sqrt(logarithm**2 / 9.0 + 2.0 * variance * logarithm))


@lru_cache(maxsize=1024)
def binomial(count: int, chance: Fraction, tail: Any) -> Law:
    """Return Bin(count, chance) on a window that misses at most 2·``tail``.

    From the mode outwards by the ratio of neighbouring masses, then normalised. A step
    rounds at most five times (odds twice, quotient, product, running product), so a mass
    j steps out is off by at most gamma(5j), and the sum by no more than its worst term.
    """
    if count == 0 or chance == 0:
        return point(0)
    if chance == 1:
        return point(count)
    # In whole numbers, which is as exact as fractions and many times as fast.
    part, whole = chance.as_integer_ratio()
    # Bernstein counts from the mean, which is within 1 of the mode.
    reach = half_width(count * part * (whole - part) / whole**2, tail) + 2
    mode = (count + 1) * part // whole
    low, high = max(0, mode - reach), min(count, mode + reach)
    rising = np.arange(mode, high, dtype=Wide)
    odds, inverse = _odds(chance)
    # P(k+1)/P(k) = (n − k)/(k + 1)·p/(1 − p), and its inverse on the way down.
    upper = np.cumprod((count - rising) / (rising + 1) * odds)
    falling = np.arange(mode, low, -1, dtype=Wide)
    lower = np.cumprod(falling / (count + 1 - falling) * inverse)
    keep_low, keep_high = _accurate(lower), _accurate(upper)
    dropped = (len(lower) - keep_low + len(upper) - keep_high) * TINIEST
    lower, upper = lower[:keep_low], upper[:keep_high]
    weights = np.concatenate([lower[::-1], np.ones(1, dtype=Wide), upper])
    # The window's own weights are divided by their sum, so what is outside raises every mass.
    complete = low == 0 and high == count
    missing = dropped + (Wide(0) if complete else 2 * Wide(tail))
    steps = max(keep_low, keep_high)
    # Of a weight, of the sum that it is divided by, and of what the window lacks of that sum.
    relative = gamma(5.0 * steps) + gamma(5.0 * steps + len(weights) + 1.0) + 2 * missing
    return Law(mode - keep_low, weights / weights.sum(), relative, missing)


def _accurate(weights: WideArray) -> int:
    """Return how many of some falling weights cannot have underflowed: the rest is at the end."""
    if len(weights) == 0 or weights[-1] >= TINIEST:
        return len(weights)
    return int(np.searchsorted(-weights, -TINIEST, side="right"))


@lru_cache(maxsize=64)
def _odds(chance: Fraction) -> tuple[Any, Any]:
    # Kept: a search asks for thousands of crowds with one chance.
    return wide(chance / (1 - chance)), wide((1 - chance) / chance)


def convolve(first: Law, second: Law, *, most_products: int = DIRECT_PRODUCTS) -> Law:
    """Return the law of the sum of two independent numbers, by FFT when the windows are long."""
    # A direct sum has at most as many terms as the shorter law, and its error counts them.
    if len(first.mass) < len(second.mass):
        first, second = second, first
    start = first.start + second.start
    # (1 + a)(1 + b) − 1. Neither law may have noise: nothing here would carry it on.
    relative = first.relative + second.relative + first.relative * second.relative
    # A sum is lost when either part of it is; TINIEST is room for products that underflow.
    missing = (first.missing + second.missing) * (1 + relative) + TINIEST * len(first.mass)
    if len(second.mass) == 1:
        return Law(start, first.mass * second.mass[0], relative + 2.0 * ROUNDOFF, missing)
    if len(first.mass) * len(second.mass) <= most_products:
        mass = np.convolve(first.mass, second.mass)
        return Law(start, mass, relative + gamma(len(second.mass) + 1.0), missing)
    mass, error = _fourier_product(first.mass, second.mass)
    # What was cut to 0 before the transform is missing in every product that it was part of.
    noise = np.full(len(mass), error + 2 * _CUT * len(first.mass), dtype=Wide)
    return Law(start, mass, relative + Wide(2.0) ** -51, missing, noise)


def _fourier_product(first: WideArray, second: WideArray) -> tuple[WideArray, float]:
    """Return a convolution by FFT in double precision and a bound on the error of any entry.

    Three transforms of length N, each within 8·u·log2(N) of exact in the 2-norm [Higham
    2002, theorem 24.2, with room for other radices], and one product: the 2-norm of the
    error, and so every entry of it, is below 26·u·log2(N)·‖x‖·‖y‖. The inputs are rounded
    to doubles first, which is a relative error of at most 2⁻⁵² of every entry.
    """
    x, y = _plain_floats(first), _plain_floats(second)
    length = len(x) + len(y) - 1
    size = 1 << (length - 1).bit_length()
    # Zeros up to the next power of two keep the ends from wrapping into one another.
    product = np.fft.irfft(np.fft.rfft(x, size) * np.fft.rfft(y, size), size)[:length]
    norms = float(np.linalg.norm(x) * np.linalg.norm(y))
    error = (26.0 * math.log2(size) + 4.0) * 2.0**-53 * norms
    # No true mass is negative, so 0 is nearer to the truth than what is cut off here.
    return np.maximum(product, 0.0).astype(Wide), error


def _plain_floats(values: WideArray) -> NDArray[np.float64]:
    """Return doubles without subnormals, which are slow; what is cut counts as ``_CUT`` each."""
    return np.where(values < _CUT, 0.0, values).astype(np.float64)


def sum_of_flips(
    ones: int,
    zeros: int,
    flip: Fraction,
    tail: Any,
    aim: Any,
    *,
    most_products: int = DIRECT_PRODUCTS,
) -> Law:
    """Return the law of Bin(ones, p) + Bin(zeros, q), accurate where its left tail is ``aim``.

    Where an FFT has to be used, its error is as large in the tail as in the middle. A small
    aim is then met by tilting: Bin(n, θ) weighted by r^s is again a binomial, and with r
    chosen such that the tail of probability ``aim`` becomes the middle, the error is relative
    to that tail. The result is cut on the right where its noise begins to show.
    """
    parts = binomial(ones, 1 - flip, tail), binomial(zeros, flip, tail)
    plain = convolve(*parts, most_products=most_products)
    # Without noise, or with a tail far above it, there is nothing to gain by tilting.
    if plain.noise is None or aim > 1e8 * plain.noise[0]:
        return plain
    # Direct sums have no noise at all: worth more products than the caller would pay.
    direct = convolve(*parts)
    if direct.noise is None:
        return direct
    return _tilted_law(ones, zeros, flip, aim)


def _tilted_law(ones: int, zeros: int, flip: Fraction, aim: Any) -> Law:
    """Return the law from tilted parts: a(s) = M·r^−s·ã(s), M = (q+pr)^ones·(p+qr)^zeros."""
    tilt = _tilt_for(ones, zeros, float(flip), float(np.log(Wide(aim))))
    # A share of the tilted law, which is itself scaled down to about the aim.
    tail = Wide(10) ** -40
    total_one, total_zero = flip + (1 - flip) * tilt, (1 - flip) + flip * tilt
    law = convolve(
        binomial(ones, (1 - flip) * tilt / total_one, tail),
        binomial(zeros, flip * tilt / total_zero, tail),
    )
    # M and r^−s leave the range of floats; their product in the middle of the window does not.
    middle = law.start + len(law.mass) // 2
    anchor = wide_exponential([(ones, total_one), (zeros, total_zero), (-middle, tilt)])
    scale = anchor * _powers(wide(1 / tilt), law.start - middle, law.stop - middle)
    # What the parts' windows lack may belong to any sum in this one: each is charged all of it.
    noise = np.full(len(scale), law.missing, dtype=Wide)
    if law.noise is not None:
        noise += law.noise
    # To the right r^−s grows and lifts the noise with it: cut where a mass is not clear of it.
    clear = np.flatnonzero(law.mass > 1e6 * noise)
    stop = int(clear[-1]) + 1 if len(clear) else 1
    mass, noise = (law.mass * scale)[:stop], (noise * scale)[:stop]
    relative = law.relative + gamma(2.0 * len(scale) + 16.0)
    # Left of the window r^−s is below its first value here; right of it is cut, not missing.
    return Law(law.start, mass, relative, law.missing * scale[0], noise, cut=True)


def _tilt_for(ones: int, zeros: int, flip: float, log_aim: float) -> Fraction:
    keep = 1.0 - flip

    def beyond(log_tilt: float) -> bool:
        # Chernoff: with Λ the cumulant and r = e^t, ln P[S ≤ Λ′(t)] is about Λ(t) − t·Λ′(t).
        growth = math.exp(log_tilt)
        cumulant = ones * math.log1p(keep * (growth - 1)) + zeros * math.log1p(flip * (growth - 1))
        slope = ones * keep * growth / (1 + keep * (growth - 1)) + zeros * flip * growth / (
            1 + flip * (growth - 1)
        )
        return cumulant - log_tilt * slope < log_aim

    found = bisect_real(beyond, good=-60.0, bad=0.0, steps=60)
    # Tilting back is exact for every r, so it may be a short fraction, whose powers cost little.
    return Fraction(math.exp(found)).limit_denominator(1 << 40)


def _powers(base: Any, first: int, last: int) -> WideArray:
    """Return base^k for first ≤ k < last, first ≤ 0 < last, two roundings per step."""
    rising = np.cumprod(np.full(last - 1, base, dtype=Wide))
    falling = np.cumprod(np.full(-first, 1 / base, dtype=Wide))
    return np.concatenate([falling[::-1], np.ones(1, dtype=Wide), rising])


@dataclass(frozen=True, slots=True, eq=False)
class TargetBits:
    """What the target adds to the sum: Bin(copies, q) for value 0, Bin(copies, p) for value 1.

    ``lead[j]`` = F₀(j) − F₁(j) ≥ 0 and ``behind[j]`` = F₁(j) for j < copies, where F are
    the distribution functions: all that the level and the gain need.
    """

    zero: WideArray
    one: WideArray
    lead: WideArray
    behind: WideArray
    relative: Any
    flip: Fraction

    @property
    def copies(self) -> int:
        """Return how many bits the target sends."""
        return len(self.zero) - 1


@lru_cache(maxsize=256)
def target_bits(copies: int, flip: Fraction) -> TargetBits:
    """Return the target's contribution, exactly rounded for up to 64 copies."""
    if copies <= _EXACT_COPIES:
        numerator, denominator = flip.as_integer_ratio()
        other = denominator - numerator
        whole = denominator**copies
        # Over the common denominator^copies every term, sum and difference is an integer.
        terms = [
            math.comb(copies, j) * numerator**j * other ** (copies - j) for j in range(copies + 1)
        ]
        zero_sums = np.cumsum(np.array(terms, dtype=object))
        one_sums = np.cumsum(np.array(terms[::-1], dtype=object))
        return TargetBits(
            zero=_wide_array([Fraction(int(t), whole) for t in terms]),
            one=_wide_array([Fraction(int(t), whole) for t in terms[::-1]]),
            lead=_wide_array(
                [Fraction(int(z - o), whole) for z, o in zip(zero_sums, one_sums, strict=True)][:-1]
            ),
            behind=_wide_array([Fraction(int(o), whole) for o in one_sums][:-1]),
            relative=2.0 * ROUNDOFF,
            flip=flip,
        )
    return _rounded_target(copies, flip)


def _rounded_target(copies: int, flip: Fraction) -> TargetBits:
    """Return the target_bits of many copies, with the error of its subtraction measured."""
    law = binomial(copies, flip, LEAST_TAIL)
    zero = np.zeros(copies + 1, dtype=Wide)
    zero[law.start : law.stop] = law.mass
    one = zero[::-1].copy()
    zero_sums, one_sums = np.cumsum(zero), np.cumsum(one)
    # With q < 1/2 a target of value 0 adds less, so F₀ ≥ F₁: what is below 0 is rounding.
    lead = np.maximum(zero_sums - one_sums, 0)[:-1]
    # F₀(j) − F₁(j) is the same at j and at copies − 1 − j; the left half keeps its digits.
    half = (copies + 1) // 2
    lead[half:] = lead[: copies - half][::-1]
    term = law.relative + law.missing + gamma(copies + 2.0)
    # Each difference may have lost as many digits as its terms are larger than it.
    safe = np.maximum(lead[:half], Wide(np.finfo(Wide).tiny))
    cancelled = np.max(np.where(lead[:half] > 0, (zero_sums + one_sums)[:half] / safe, 1))
    return TargetBits(zero, one, lead, one_sums[:-1], term * cancelled + 2 * ROUNDOFF, flip)


def _wide_array(values: list[Fraction]) -> WideArray:
    return np.array([wide(value) for value in values], dtype=Wide)
