"""Numbers for people: no more digits than the error allows, and interval ends never inwards."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal

_MOST_DECIMALS = 12
_LONG = 1e15
"""Numbers from here on are written with an exponent."""


def decimals(error: float, *, counted: bool = False) -> int:
    """Return how many decimals a number with this standard error deserves: two digits of it.

    What was ``counted`` has none unless the error is below one.

    >>> decimals(26.5), decimals(4.2), decimals(0.031), decimals(4.2, counted=True)
    (0, 1, 3, 0)
    """
    if not (error > 0 and math.isfinite(error)) or (counted and error >= 1):
        return 0
    return min(max(0, 1 - math.floor(math.log10(error))), _MOST_DECIMALS)


def nearest(value: float, places: int) -> str:
    """Return a number with so many decimals and thousands set apart.

    >>> nearest(1512.5, 0), nearest(-0.04, 1)
    ('1,512', '0.0')
    """
    return _written(value, places, ROUND_HALF_EVEN)


def downwards(value: float, places: int) -> str:
    """Return the lower end of an interval, rounded down.

    >>> downwards(0.129, 2)
    '0.12'
    """
    return _written(value, places, ROUND_FLOOR)


def upwards(value: float, places: int) -> str:
    """Return the upper end of an interval, rounded up.

    >>> upwards(0.121, 2)
    '0.13'
    """
    return _written(value, places, ROUND_CEILING)


def two_digits(error: float) -> str:
    """Return a standard error in two digits, or in all before the point if they are more.

    >>> two_digits(9.03), two_digits(18.06), two_digits(415.2), two_digits(0.0742)
    ('9.0', '18', '415', '0.074')
    """
    return nearest(error, decimals(error))


def at_most(value: float, digits: int) -> str:
    """Return a promise, such as an epsilon, in so many digits and never less than it is.

    A float stands for the decimal it is written as: 0.1 stays 0.1.

    >>> at_most(1.00001, 3), at_most(1e-6, 3), at_most(0.1, 3)
    ('1.01', '1e-06', '0.1')
    """
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    return f"{float(_short(value, digits, ROUND_CEILING)):.{digits}g}"


def percent(share: float) -> str:
    """Return a level of confidence as it was chosen.

    >>> percent(0.95), percent(0.999)
    ('95%', '99.9%')
    """
    return f"{100 * share:.10g}%"


def quantile_name(probability: float) -> str:
    """Return what a quantile is called.

    >>> quantile_name(0.5), quantile_name(0.9)
    ('median', '90% are at most')
    """
    return "median" if probability == 0.5 else f"{percent(probability)} are at most"


def bytes_for_people(count: int) -> str:
    """Return a number of bytes in three digits.

    >>> bytes_for_people(16_777_216), bytes_for_people(512)
    ('16.8 MB', '512 B')
    """
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count} B"


def rounded_up(epsilon: float) -> float:
    """Return the next number with four significant digits: short to read, safe to promise."""
    if epsilon == 0 or math.isinf(epsilon):
        return epsilon
    digits = 3 - math.floor(math.log10(epsilon))
    short = round(epsilon, digits)
    if short < epsilon:
        short = round(short + 10.0**-digits, digits)
    return short


def _written(value: float, places: int, rounding: str) -> str:
    if not math.isfinite(value):
        return f"{value:g}"
    if abs(value) >= _LONG:
        return f"{_short(value, 6, rounding):.5e}"
    rounded = Decimal(repr(float(value))).quantize(
        Decimal(1).scaleb(-places), rounding, Context(prec=60)
    )
    return f"{rounded:,}" if rounded else f"{abs(rounded):,}"


def _short(value: float, digits: int, rounding: str) -> Decimal:
    return Context(prec=digits, rounding=rounding).create_decimal(repr(float(value)))
