"""Heat maps as data: a table of numbers in which shade says how large they are."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from chaffinch.charts.figure import Axis
from chaffinch.errors import InvalidInput

MOST_NUMBERED = 64
"""With more cells than this the numbers are left out of the picture."""

_UNITS = ((1e9, "G"), (1e6, "M"), (1e3, "k"))
_MOST_DECIMALS = 3

Cell = tuple[int, int]


@dataclass(frozen=True, slots=True)
class HeatFigure:
    """A table as a picture: the first row is the uppermost, NaN is a cell without a number.

    ``scale`` says which numbers are the lightest and the darkest; give several maps the same
    one to compare them. ``marked`` cells have a frame.

    >>> chart = HeatFigure(
    ...     "noise",
    ...     "to",
    ...     "from",
    ...     ("a", "b"),
    ...     ("a", "b"),
    ...     ((1.0, 2.0), (3.0, 4.0)),
    ...     scale=Axis("decibel", 0.0, 4.0),
    ...     alternative="It grows.",
    ...     marked=((1, 1),),
    ... )
    >>> chart.shade(1, 0), chart.written(1, 0)
    (0.75, '3.0')
    """

    title: str
    x_label: str
    y_label: str
    columns: tuple[str, ...]
    rows: tuple[str, ...]
    values: tuple[tuple[float, ...], ...]
    scale: Axis
    alternative: str
    marked: tuple[Cell, ...] = ()
    note: str = ""

    def __post_init__(self) -> None:
        shape = (len(self.rows), *{len(row) for row in self.values})
        if not self.rows or shape != (len(self.values), len(self.columns)):
            raise InvalidInput("heat map", "one number for each row and column", shape)
        if not all(math.isnan(value) or self._fits(value) for row in self.values for value in row):
            raise InvalidInput("heat map", "numbers within its scale", self.scale)
        for row, column in self.marked:
            if not (0 <= row < len(self.rows) and 0 <= column < len(self.columns)):
                raise InvalidInput("marked cell", "one of the map", (row, column))

    @property
    def numbered(self) -> bool:
        """Return whether the cells are few enough to carry their numbers."""
        return len(self.rows) * len(self.columns) <= MOST_NUMBERED

    def shade(self, row: int, column: int) -> float:
        """Return how dark a cell is, from 0 to 1; NaN where there is no number."""
        value = self.values[row][column]
        return math.nan if math.isnan(value) else min(max(self.scale.place(value), 0.0), 1.0)

    def written(self, row: int, column: int) -> str:
        """Return a cell's number in two digits, or in all before the point."""
        return two_digits(self.values[row][column])

    def cells(self) -> Iterator[Cell]:
        """Yield the place of every cell that has a number."""
        for row, values in enumerate(self.values):
            for column, value in enumerate(values):
                if not math.isnan(value):
                    yield row, column

    def svg(self, *, name: str = "chart", styled: bool = True) -> str:
        """Return the map as an SVG element; ``name`` must differ between those of a page.

        It takes the width it is given. ``styled=False`` leaves the looks to the page.
        """
        from chaffinch.charts import svg_heat

        return svg_heat.draw(self, name=name, styled=styled)

    def text(self) -> str:
        """Return the map as a table of plain characters; marked cells have a star."""
        marked = set(self.marked)
        body = [
            [self.written(r, c) + ("*" if (r, c) in marked else "") for c in range(len(values))]
            for r, values in enumerate(self.values)
        ]
        width = max(len(cell) for line in [list(self.columns), *body] for cell in line) + 2
        margin = max(map(len, self.rows))
        lines = [self.title, "", f"{self.y_label} (down), {self.x_label} (across)", ""]
        lines.append(" " * margin + "".join(f"{name:>{width}}" for name in self.columns))
        for name, line in zip(self.rows, body, strict=True):
            lines.append(f"{name:>{margin}}" + "".join(f"{cell:>{width}}" for cell in line))
        lines += ["", f"{self.scale.label}. {self.note}".strip()]
        return "\n".join(lines)

    def _fits(self, value: float) -> bool:
        room = 1e-9 * max(abs(self.scale.low), abs(self.scale.high))
        return self.scale.low - room <= value <= self.scale.high + room


def two_digits(value: float) -> str:
    """Return a number in two digits, three below a thousand; a dot where there is none.

    >>> two_digits(6.945), two_digits(155.4), two_digits(0.0334), two_digits(1689.2)
    ('6.9', '155', '0.033', '1.7k')
    """
    if math.isnan(value):
        return "·"
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    # 999.7 is a thousand to three digits, and so on upwards.
    unit, sign = next(
        ((size, sign) for size, sign in _UNITS if abs(value) >= size * (1 - 5e-4)), (1.0, "")
    )
    shown = value / unit
    decimals = max(0, 1 - math.floor(math.log10(abs(shown)) + 1e-12))
    return f"{shown:.{decimals}f}{sign}" if decimals <= _MOST_DECIMALS else f"{value:.1e}"
