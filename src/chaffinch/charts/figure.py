"""What a figure is: numbers, words and meaning, with nothing said about how to draw it.

Renderers (`files`, `svg`, `terminal`) read the same `Figure`, so what a figure shows can be
tested without looking at pixels.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from chaffinch.errors import InvalidInput
from chaffinch.privacy.guarantee import PROVEN, Method
from chaffinch.privacy.mechanism import Mechanism

Scale = Literal["linear", "log"]
Style = Literal["proven", "assumed", "published", "reference", "measured"]
"""What a line stands for: a proof, a figure under an assumption, a claim, a landmark, or one of
several quantities that promise nothing."""


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis: what it measures, on which scale, from where to where."""

    label: str
    low: float
    high: float
    scale: Scale = "linear"

    def __post_init__(self) -> None:
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise InvalidInput("axis", "from a low to a high number", (self.low, self.high))
        if self.scale == "log" and not self.low > 0:
            raise InvalidInput("low end of a logarithmic axis", "above 0", self.low)

    def ticks(self, *, most: int = 8) -> tuple[tuple[float, str], ...]:
        """Return where the ticks stand and what is written there, ``most`` of them or fewer."""
        if self.scale == "log":
            return powers_of_ten(self.low, self.high, most=most)
        return round_numbers(self.low, self.high, most=most)

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


@dataclass(frozen=True, slots=True)
class Series:
    """One line. For a bracket ``y`` is the safe end and ``other_end`` the opposite one."""

    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    style: Style
    other_end: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if len(self.x) != len(self.y) or len(self.other_end) not in (0, len(self.y)):
            raise InvalidInput("series", "as long in x as in y", (len(self.x), len(self.y)))


@dataclass(frozen=True, slots=True)
class Terms:
    """What the proven line of a figure depends on: the parts of a guarantee's sentence."""

    neighbours: str
    view: str
    crowd: str
    method: Method

    def __str__(self) -> str:
        kind = "proven" if self.method in PROVEN else "not proven"
        return (
            f"Neighbours: {self.neighbours}; view: {self.view}; crowd: {self.crowd}; "
            f"method: {self.method} ({kind})."
        )


@dataclass(frozen=True, slots=True)
class Figure:
    """A picture as data, with its text alternative and the terms it holds under."""

    title: str
    x: Axis
    y: Axis
    series: tuple[Series, ...]
    alternative: str
    terms: Terms | str
    """A sentence where nothing is promised."""

    @property
    def caption(self) -> str:
        """Return the terms, with a warning where published lines are shown."""
        claims = any(series.style == "published" for series in self.series)
        return f"{self.terms}{' Published lines are claims, not guarantees.' if claims else ''}"

    def save(self, path: str | Path) -> Path:
        """Write the figure to a PNG, SVG or PDF file, by its suffix; needs the extra ``plot``."""
        from chaffinch.charts import files

        return files.save(self, Path(path))

    def text(self, *, width: int = 72, height: int = 20) -> str:
        """Return the figure drawn with plain characters, ``width`` columns wide."""
        from chaffinch.charts import terminal

        return terminal.draw(self, width=width, height=height)

    def svg(self, *, name: str = "chart", styled: bool = True) -> str:
        """Return the figure as an SVG element; ``name`` must differ between those of a page.

        ``styled=False`` leaves the looks to the page.
        """
        from chaffinch.charts import svg_lines

        return svg_lines.draw(self, name=name, styled=styled)


# ----------------------------------------------------------------------------
# Where ticks stand and what is written at them, the same in every medium.

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


# ----------------------------------------------------------------------------
# How a mechanism is called in a title, and the terms its figures hold under.


def called(mechanism: Mechanism) -> str:
    """Return the mechanism in words: its kind, its crowd and its parameters."""
    parameters = vars(mechanism)
    if "parts" in parameters:
        return " + ".join(f"{count} × ({called(part)})" for part, count in parameters["parts"])
    kind = re.sub(r"(?<=[a-z])([A-Z])", lambda m: " " + m[1].lower(), type(mechanism).__name__)
    words = f"{kind}, {mechanism.crowd_words}"
    if parameters.get("copies", 1) > 1:
        words += f", {parameters['copies']} copies"
    if "flip_probability" in parameters:
        words += f", flip probability {float(parameters['flip_probability']):.4g}"
    return words


def terms(mechanism: Mechanism) -> Terms:
    """Return what a proven line of this mechanism depends on."""
    return Terms(
        neighbours=mechanism.neighbours,
        view=mechanism.view,
        crowd=mechanism.crowd_words,
        method=mechanism.method,
    )


def line(mechanism: Mechanism) -> tuple[str, Style]:
    """Return the name and the meaning of a mechanism's own line."""
    if mechanism.method == "exact":
        return "exact, worst crowd", "proven"
    if mechanism.method in PROVEN:
        return "proven bound, every crowd", "proven"
    return mechanism.method.replace("-", " "), "assumed"
