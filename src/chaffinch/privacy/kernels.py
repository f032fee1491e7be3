"""What the target adds to a sum: its flipped bits, for either value."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from chaffinch.privacy.laws import binomial
from chaffinch.privacy.precision import LEAST_TAIL, ROUNDOFF, Wide, WideArray, gamma, wide

_EXACT_KERNEL = 64


@dataclass(frozen=True, slots=True, eq=False)
class Kernel:
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
def kernel(copies: int, flip: Fraction) -> Kernel:
    """Return the target's contribution, exactly rounded for up to 64 copies."""
    if copies <= _EXACT_KERNEL:
        numerator, denominator = flip.as_integer_ratio()
        other = denominator - numerator
        whole = denominator**copies
        terms = [
            math.comb(copies, j) * numerator**j * other ** (copies - j) for j in range(copies + 1)
        ]
        zero_sums = np.cumsum(np.array(terms, dtype=object))
        one_sums = np.cumsum(np.array(terms[::-1], dtype=object))
        return Kernel(
            zero=_wide_array([Fraction(int(t), whole) for t in terms]),
            one=_wide_array([Fraction(int(t), whole) for t in terms[::-1]]),
            lead=_wide_array(
                [Fraction(int(z - o), whole) for z, o in zip(zero_sums, one_sums, strict=True)][:-1]
            ),
            behind=_wide_array([Fraction(int(o), whole) for o in one_sums][:-1]),
            relative=2.0 * ROUNDOFF,
            flip=flip,
        )
    return _rounded_kernel(copies, flip)


def _rounded_kernel(copies: int, flip: Fraction) -> Kernel:
    """Return the kernel of many copies, with the error of its subtraction measured."""
    law = binomial(copies, flip, LEAST_TAIL)
    zero = np.zeros(copies + 1, dtype=Wide)
    zero[law.start : law.stop] = law.mass
    one = zero[::-1].copy()
    zero_sums, one_sums = np.cumsum(zero), np.cumsum(one)
    lead = np.maximum(zero_sums - one_sums, 0)[:-1]
    # F₀(j) − F₁(j) is the same at j and at copies − 1 − j; the left half keeps its digits.
    half = (copies + 1) // 2
    lead[half:] = lead[: copies - half][::-1]
    term = law.relative + law.missing + gamma(copies + 2.0)
    safe = np.maximum(lead[:half], Wide(np.finfo(Wide).tiny))
    cancelled = np.max(np.where(lead[:half] > 0, (zero_sums + one_sums)[:half] / safe, 1))
    return Kernel(zero, one, lead, one_sums[:-1], term * cancelled + 2 * ROUNDOFF, flip)


def _wide_array(values: list[Fraction]) -> WideArray:
    return np.array([wide(value) for value in values], dtype=Wide)
