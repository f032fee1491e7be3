"""An axis: what it measures, and where its ticks stand, the same in every medium."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from chaffinch.errors import InvalidInput, Unquoted

Scale = Literal["linear", "log"]

_Ticks = tuple[tuple[float, str], ...]
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis: what it measures, on which scale, from where to where."""

    label: str
    low: float
    high: float
    scale: Scale = "linear"
    whole: bool = False
    """Whether it counts something, so that ticks stand at whole numbers only."""

    def __post_init__(self) -> None:
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise InvalidInput("axis", "from a low to a high number", (self.low, self.high))
        if self.scale == "log" and not self.low > 0:
            raise InvalidInput("low end of a logarithmic axis", "above 0", self.low)

    @classmethod
    def around(cls, label: str, ends: Iterable[float], *, room: float) -> Axis:
        """Return an axis that goes on beyond all estimates, by a share ``room`` of its length."""
        found = list(ends)
        low, high = min(found), max(found)
        if not (math.isfinite(low) and math.isfinite(high)):
            raise InvalidInput("estimates", "finite numbers", Unquoted("one that is not finite"))
        beyond = room * (high - low) or 0.5 * abs(high) or 1.0
        return cls(label, low - beyond, high + beyond)

    def ticks(self, *, most: int = 8) -> tuple[tuple[float, str], ...]:
        """Return where the ticks stand and what is written there, ``most`` of them or fewer."""
        if self.scale == "log":
            return _powers_of_ten(self.low, self.high, most=most)
        return _round_numbers(self.low, self.high, most=most, least=1.0 if self.whole else 0.0)

    def place(self, value: float) -> float:
        """Return where a value lies: 0 at the low end, 1 at the high end, NaN for nowhere."""
        if self.scale == "log":
            if not value > 0:
                return math.nan
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    def at(self, place: float) -> float:
        """Return the value that lies at a place: the low end at 0, the high end at 1."""
        if self.scale == "log":
            return float(self.low * (self.high / self.low) ** place)
        return self.low + (self.high - self.low) * place


def _powers_of_ten(low: float, high: float, *, most: int) -> _Ticks:
    first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
    apart = next(
        step * scale
        for scale in (1, 10, 100, 1000)
        for step in (1, 2, 3, 5)
        if (last - first) // (step * scale) < most
    )
    exponents = range(last, first - 1, -apart)
    return tuple((10.0**exponent, _power_of_ten(exponent)) for exponent in reversed(exponents))


def _power_of_ten(exponent: int) -> str:
    """Return 10 to a whole power as it is written: 1, 10, 10⁻⁶.

    >>> _power_of_ten(-12)
    '10⁻¹²'
    """
    if exponent in (0, 1):
        return "10" if exponent else "1"
    return "10" + str(exponent).translate(_SUPERSCRIPTS)


def _round_numbers(low: float, high: float, *, most: int, least: float) -> _Ticks:
    decade = 10.0 ** math.floor(math.log10((high - low) / most))
    apart = next(
        step * decade
        for step in (1, 2, 5, 10, 20, 50)
        if step * decade >= least * (1 - 1e-9)
        and math.floor(high / (step * decade) + 1e-9) - math.ceil(low / (step * decade) - 1e-9)
        < most
    )
    numbers = range(math.ceil(low / apart - 1e-9), math.floor(high / apart + 1e-9) + 1)
    # 12 digits: enough for any axis, and few enough to write 0.3 instead of 0.30000000000000004.
    return tuple((float(f"{n * apart:.12g}"), f"{n * apart:.12g}") for n in numbers)
