"""Numbers for people: no more digits than the error allows, and interval ends never inwards."""

from __future__ import annotations

import math
from collections.abc import Iterable
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction

_MOST_DECIMALS = 12
_LONG = 1e15
"""Numbers from here on are written with an exponent."""


def decimal_places(error: float, *, counted: bool = False) -> int:
    """Return how many decimals a number with this standard error deserves: two digits of it.

    What was ``counted`` has none unless the error is below one.

    >>> [decimal_places(error) for error in (26.5, 4.2, 0.031)]
    [0, 1, 3]
    >>> decimal_places(4.2, counted=True)
    0
    """
    if not (error > 0 and math.isfinite(error)) or (counted and error >= 1):
        return 0
    return min(max(0, 1 - math.floor(math.log10(error))), _MOST_DECIMALS)


def nearest_text(value: float, places: int) -> str:
    """Return a number with so many decimals and thousands set apart.

    >>> nearest_text(1512.5, 0), nearest_text(-0.04, 1)
    ('1,512', '0.0')
    """
    return _rounded_text(value, places, ROUND_HALF_EVEN)


def lower_text(value: float, places: int) -> str:
    """Return the lower end of an interval, rounded down.

    >>> lower_text(0.129, 2)
    '0.12'
    """
    return _rounded_text(value, places, ROUND_FLOOR)


def upper_text(value: float, places: int) -> str:
    """Return the upper end of an interval, rounded up.

    >>> upper_text(0.121, 2)
    '0.13'
    """
    return _rounded_text(value, places, ROUND_CEILING)


def error_text(error: float) -> str:
    """Return a standard error in two digits, or in all before the point if they are more.

    >>> error_text(9.03), error_text(18.06), error_text(415.2), error_text(0.0742)
    ('9.0', '18', '415', '0.074')
    """
    return nearest_text(error, decimal_places(error))


def in_percent(number: float, whole: float | None) -> float:
    """Return a part in percent, or the number itself where no ``whole`` is known.

    It is divided once, so that a share that is short to write stays so, and is not rounded up.

    >>> in_percent(508, 1000), 100 / 1000 * 508
    (50.8, 50.800000000000004)
    """
    return number if whole is None else 100.0 * number / whole


def half_width(estimate: float, ends: tuple[float, float]) -> float:
    """Return how far an interval goes to its longer side."""
    return max(estimate - ends[0], ends[1] - estimate)


def around_text(estimate: float, ends: tuple[float, float], places: int, sign: str = "") -> str:
    """Return an interval beside its estimate: as ±, rounded up, or by its ends.

    Its ends are given where the estimate lies outside, or where the interval is cut on one side.

    >>> around_text(51.17, (50.98, 51.36), 2), around_text(-0.2, (0.0, 1.31), 1, "%")
    ('± 0.19', '0.0 to 1.4%')
    """
    low, high = ends
    longer, shorter = half_width(estimate, ends), min(estimate - low, high - estimate)
    if not math.isfinite(longer) or shorter < longer / 2:
        return f"{lower_text(low, places)} to {upper_text(high, places)}{sign}"
    # The estimate beside it is rounded, too: from there to the ends, without an error of floats.
    shown = Decimal(nearest_text(estimate, places).replace(",", ""))
    most = max(shown - Decimal(repr(float(low))), Decimal(repr(float(high))) - shown)
    return f"± {most.quantize(Decimal(1).scaleb(-places), ROUND_CEILING, Context(prec=400)):,}"


def promise_text(value: float, digits: int) -> str:
    """Return a promise, such as an epsilon, in so many digits and never less than it is.

    A float stands for the decimal it is written as: 0.1 stays 0.1.

    >>> promise_text(1.00001, 3), promise_text(1e-6, 3), promise_text(0.1, 3)
    ('1.01', '1e-06', '0.1')
    """
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    return f"{float(_short_decimal(value, digits, ROUND_CEILING)):.{digits}g}"


def percent_text(share: float) -> str:
    """Return a level of confidence as it was chosen.

    >>> percent_text(0.95), percent_text(0.999)
    ('95%', '99.9%')
    """
    return f"{100 * share:.10g}%"


def quantile_name(probability: float) -> str:
    """Return what a quantile is called.

    >>> quantile_name(0.5), quantile_name(0.9)
    ('median', '90% are at most')
    """
    return "median" if probability == 0.5 else f"{percent_text(probability)} are at most"


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


def add_promises(promises: Iterable[float]) -> float:
    """Return the sum of promises, rounded up; each stands for the decimal it is written as.

    >>> add_promises([0.1, 0.1, 0.1]), 0.1 + 0.1 + 0.1
    (0.3, 0.30000000000000004)
    >>> add_promises([1.0, math.inf])
    inf
    """
    listed = list(promises)
    if math.inf in listed:
        return math.inf
    exact = sum(Fraction(repr(float(one))) for one in listed)
    nearest = float(exact)
    return nearest if Fraction(repr(nearest)) >= exact else math.nextafter(nearest, math.inf)


def _rounded_text(value: float, places: int, rounding: str) -> str:
    if not math.isfinite(value):
        return f"{value:g}"
    if abs(value) >= _LONG:
        return f"{_short_decimal(value, 6, rounding):.5e}"
    # repr gives the shortest decimal that is this float: 0.1 stays 0.1, and is not rounded up
    # for the hair by which the float lies above it.
    rounded = Decimal(repr(float(value))).quantize(
        Decimal(1).scaleb(-places), rounding, Context(prec=60)
    )
    # There is no "-0".
    return f"{rounded:,}" if rounded else f"{abs(rounded):,}"


def _short_decimal(value: float, digits: int, rounding: str) -> Decimal:
    return Context(prec=digits, rounding=rounding).create_decimal(repr(float(value)))


def count_of(number: int, noun: str) -> str:
    """Return how many there are of something.

    >>> count_of(1, "report"), count_of(2000, "report")
    ('1 report', '2,000 reports')
    """
    return f"{number:,} {noun}" + "s" * (number != 1)
