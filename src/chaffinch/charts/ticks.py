"""Where ticks stand and what is written at them, the same in every medium."""

from __future__ import annotations

import math

Ticks = tuple[tuple[float, str], ...]

_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def powers_of_ten(low: float, high: float, *, most: int) -> Ticks:
    """Return ticks at whole powers of ten, evenly apart, counted from the high end down."""
    first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
    apart = next(
        step * scale
        for scale in (1, 10, 100, 1000)
        for step in (1, 2, 3, 5)
        if (last - first) // (step * scale) < most
    )
    exponents = range(last, first - 1, -apart)
    return tuple((10.0**exponent, power_of_ten(exponent)) for exponent in reversed(exponents))


def power_of_ten(exponent: int) -> str:
    """Return 10 to a whole power as it is written: 1, 10, 10⁻⁶.

    >>> power_of_ten(-12)
    '10⁻¹²'
    """
    if exponent in (0, 1):
        return "10" if exponent else "1"
    return "10" + str(exponent).translate(_SUPERSCRIPTS)


def round_numbers(low: float, high: float, *, most: int) -> Ticks:
    """Return ticks at multiples of 1, 2 or 5 times a power of ten."""
    decade = 10.0 ** math.floor(math.log10((high - low) / most))
    apart = next(
        step * decade
        for step in (1, 2, 5, 10, 20, 50)
        if math.floor(high / (step * decade) + 1e-9) - math.ceil(low / (step * decade) - 1e-9)
        < most
    )
    numbers = range(math.ceil(low / apart - 1e-9), math.floor(high / apart + 1e-9) + 1)
    # 12 digits: enough for any axis, and few enough to write 0.3 instead of 0.30000000000000004.
    return tuple((float(f"{n * apart:.12g}"), f"{n * apart:.12g}") for n in numbers)
