"""What a figure is: numbers, words and meaning, with nothing said about how to draw it.

Renderers (`files`, `svg`, `terminal`) read the same `Figure`, so what a figure shows can be
tested without looking at pixels.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from chaffinch.charts import ticks
from chaffinch.errors import InvalidInput
from chaffinch.privacy.guarantee import PROVEN, Method

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
            return ticks.powers_of_ten(self.low, self.high, most=most)
        return ticks.round_numbers(self.low, self.high, most=most)

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
