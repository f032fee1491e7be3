"""Working precision: the widest plain hardware float, and how far it can be off.

Every error bound in this package is written in units of ``ROUNDOFF``, so it holds with
80-bit, 128-bit and 64-bit floats alike; narrower floats give wider brackets, never
wrong ones.
"""

from __future__ import annotations

import decimal
import math
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

Wide: Any = np.longdouble if np.finfo(np.longdouble).nmant in (63, 112) else np.float64
"""The working float. A "double double" (nmant 105) does not round like an IEEE float."""

WideArray = NDArray[Any]
Floats = NDArray[np.float64]
ROUNDOFF = np.finfo(Wide).eps / Wide(2)
"""The unit roundoff, itself a working float: 1 + ROUNDOFF must not round to 1 in a smaller one."""
TINIEST = np.finfo(Wide).tiny * Wide(2.0) ** 64
"""Below this a product may have lost its relative accuracy to underflow."""

LEAST_TAIL = Wide(10) ** (-280 if np.finfo(Wide).maxexp < 2000 else -4000)
"""The smallest probability that a window may leave out."""

LARGEST_EXPONENT = float(np.log(np.finfo(Wide).max)) - 2.0
"""e to the power of it is still a working float."""

GRAIN = 1 << 64
"""Flip probabilities are whole multiples of 1/GRAIN: what a device can draw exactly."""

_DOUBLE_ROUNDOFF = 2.0**-53
_EXACT_POWER = 64
_DIGITS, _MANY_DIGITS = decimal.Context(prec=60), decimal.Context(prec=80)

_ONE_CORE = 2**15
"""A product of matrices with so few multiplications is done on one core by every common BLAS."""


def product(left: NDArray[Any], right: NDArray[Any]) -> NDArray[Any]:
    """Return left @ right, in blocks so small that a BLAS does not start threads for them.

    >>> float(product(np.ones((300, 500)), np.ones((500, 200))).sum())
    30000000.0
    """
    side = max(math.isqrt(_ONE_CORE // max(left.shape[1], 1)), 8)
    rows, columns = range(0, len(left), side), range(0, right.shape[1], side)
    found = np.empty((len(left), right.shape[1]), dtype=np.result_type(left, right))
    for row in rows:
        for column in columns:
            block = left[row : row + side] @ right[:, column : column + side]
            found[row : row + side, column : column + side] = block
    return found


def wide(value: Fraction | decimal.Decimal | int) -> Any:
    """Return a rational in the working float, off by at most two roundoffs."""
    numerator, denominator = value.as_integer_ratio()
    if numerator == 0:
        return Wide(0)
    # 130 leading bits, put together from pieces that every working float holds exactly.
    shift = 130 - abs(numerator).bit_length() + denominator.bit_length()
    scaled = (
        (numerator << shift) // denominator if shift >= 0 else numerator // (denominator << -shift)
    )
    high, low = divmod(scaled, 1 << 64)
    pieces = [high >> 40, high & (2**40 - 1), low >> 40, low & (2**40 - 1)]
    total = (Wide(pieces[0]) * Wide(2**40) + Wide(pieces[1])) * Wide(2**24) + Wide(pieces[2])
    # The last piece is below half a unit of an 80-bit float, but a 128-bit one has room for it.
    return np.ldexp(total * Wide(2**40) + Wide(pieces[3]), -shift)


@lru_cache(maxsize=256)
def exp_minus_one(epsilon: float) -> Any:
    """Return e^epsilon − 1 in the working float, off by at most three roundoffs.

    The decimal exponential is correctly rounded to 60 digits, or to 80 where epsilon is tiny,
    which leaves 35 good digits or more; below 1e-36 epsilon itself is as good.
    """
    if epsilon < 1e-36:
        return Wide(epsilon)
    digits, exact = _DIGITS if epsilon > 1e-24 else _MANY_DIGITS, decimal.Decimal(epsilon)
    return wide(digits.subtract(digits.exp(exact), decimal.Decimal(1)))


def exp_ends(epsilon: float) -> tuple[Fraction, Fraction]:
    """Return rationals just below and just above e^epsilon.

    The decimal exponential is correctly rounded, so its neighbours of 60 digits enclose it.
    """
    if epsilon == 0:
        return Fraction(1), Fraction(1)
    nearest = _DIGITS.exp(decimal.Decimal(epsilon))
    return Fraction(_DIGITS.next_minus(nearest)), Fraction(_DIGITS.next_plus(nearest))


def power_gap(base: Fraction, other: Fraction, power: int, epsilon: float) -> Any:
    """Return base^power − e^epsilon·other^power from 0 up, with its digits, however close."""
    # 120 digits: of two nearly equal powers enough are left after the subtraction.
    digits = decimal.Context(prec=120)
    first = digits.divide(decimal.Decimal(base.numerator), decimal.Decimal(base.denominator))
    second = digits.divide(decimal.Decimal(other.numerator), decimal.Decimal(other.denominator))
    growth = digits.exp(decimal.Decimal(epsilon))
    gap = digits.subtract(
        digits.power(first, power), digits.multiply(growth, digits.power(second, power))
    )
    return wide(max(gap, decimal.Decimal(0)))


def wide_exponential(powers: list[tuple[int | Fraction, Fraction]]) -> Any:
    """Return the product of base^power over ``powers``, off by at most four roundoffs.

    With 60 digits and exponents below 10¹² the logarithm keeps 40 digits behind the point.
    """
    total = decimal.Decimal(0)
    for power, base in powers:
        logarithm = _DIGITS.ln(_decimal(base))
        total = _DIGITS.add(total, _DIGITS.multiply(_decimal(power), logarithm))
    return wide(_DIGITS.exp(total))


def wide_exp(power: Fraction) -> Any:
    """Return e^power of a rational of at most 10¹² in size, off by at most four roundoffs."""
    return wide(_DIGITS.exp(_decimal(power)))


def wide_power_of_two_times_exp(halvings: int, power: Fraction) -> Any:
    """Return 2^halvings·e^power, whose factors may leave the range of floats.

    >>> float(wide_power_of_two_times_exp(1, Fraction(0)))
    2.0
    """
    found = _DIGITS.multiply(_DIGITS.power(2, halvings), _DIGITS.exp(_decimal(power)))
    return wide(found)


def _decimal(value: int | Fraction) -> decimal.Decimal:
    numerator, denominator = value.as_integer_ratio()
    return _DIGITS.divide(decimal.Decimal(numerator), decimal.Decimal(denominator))


@lru_cache(maxsize=256)
def log_of(value: Fraction) -> tuple[float, float]:
    """Return floats just below and just above ln(value) for a positive rational."""
    numerator, denominator = value.as_integer_ratio()
    logarithm = _DIGITS.subtract(
        _DIGITS.ln(decimal.Decimal(numerator)), _DIGITS.ln(decimal.Decimal(denominator))
    )
    # float() rounds to nearest, so one step to either side encloses the logarithm.
    nearest = float(logarithm)
    return math.nextafter(nearest, -math.inf), math.nextafter(nearest, math.inf)


def log_of_power(value: Fraction, power: int) -> float:
    """Return a float just above power·ln(value), however many digits the power has."""
    if power <= _EXACT_POWER:
        return log_of(value**power)[1]
    return up(power * log_of(value)[1])


def up(value: Any) -> float:
    """Return a float that is at least ``value``, with room for one last rounding.

    A value that is no number proves nothing, so its upper end is infinite.
    """
    if value != value:  # noqa: PLR0124 - only NaN differs from itself, in any float type
        return math.inf
    # Rounding to a double, and this product, take at most one roundoff each; four are added.
    return max(0.0, math.nextafter(float(value) * (1.0 + 4.0 * _DOUBLE_ROUNDOFF), math.inf))


def down(value: Any) -> float:
    """Return a float from 0 up that is at most ``value``, with room for one last rounding."""
    if value != value:  # noqa: PLR0124 - only NaN differs from itself, in any float type
        return 0.0
    return max(0.0, math.nextafter(float(value) * (1.0 - 4.0 * _DOUBLE_ROUNDOFF), -math.inf))


def grain_above(value: Fraction) -> Fraction:
    """Return the least multiple of 2⁻⁶⁴ at or above a chance: more noise, more private."""
    return Fraction(math.ceil(value * GRAIN), GRAIN)


def grain_below(value: Fraction) -> Fraction:
    """Return the largest multiple of 2⁻⁶⁴ at or below a ratio of chances, at least 1."""
    return max(Fraction(math.floor(value * GRAIN), GRAIN), Fraction(1))


def gamma(operations: float) -> Any:
    """Return the relative error of ``operations`` roundings in a row: k·u / (1 − k·u).

    A working float, so that 1 + gamma(k) keeps it.
    """
    # From k·u = 1/2 on the error may be as large as the number: nothing is claimed of it.
    product = Wide(operations) * ROUNDOFF
    return product / (1 - product) if product < 0.5 else Wide(np.inf)
