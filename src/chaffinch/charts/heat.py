"""Heat maps: a table of numbers in which shade says how large they are.

In the drawing, places across are percentages of whatever width there is. One hue from faint to
full, so that the order of the shades is the order of their lightness for every kind of colour
sight. The full shade leaves the letters on it a contrast of 4.5 or more, on light paper and on
dark.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from chaffinch.charts.axis import Axis
from chaffinch.charts.svg import Drawing, Picture, element, full_width, headline
from chaffinch.errors import InvalidInput

_MOST_NUMBERED = 64
"""With more cells than this the numbers are left out of the picture."""

_UNITS = ((1e9, "G"), (1e6, "M"), (1e3, "k"))
_MOST_DECIMALS = 3

_LEFT, _LETTER = 14.0, 2.2
"""Percent of the width for the names of the rows: at least so many, and for a letter on the
narrowest screen."""
_HEAD, _ROW, _THIN = 38, 30, 240
_SCALE = 52
_STEPS = 40
_FAINTEST = 0.04

Cell = tuple[int, int]


@dataclass(frozen=True, slots=True)
class HeatFigure(Picture):
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
    def left(self) -> float:
        """Return how many percent of the width the names of the rows take."""
        return max(_LEFT, 2 + _LETTER * max(map(len, self.rows)))

    @property
    def numbered(self) -> bool:
        """Return whether the cells are few enough to carry their numbers."""
        return len(self.rows) * len(self.columns) <= _MOST_NUMBERED

    def shade(self, row: int, column: int) -> float:
        """Return how dark a cell is, from 0 to 1; NaN where there is no number."""
        value = self.values[row][column]
        return math.nan if math.isnan(value) else min(max(self.scale.place(value), 0.0), 1.0)

    def written(self, row: int, column: int) -> str:
        """Return a cell's number in two or three digits."""
        return short_number(self.values[row][column])

    def cells(self) -> Iterator[Cell]:
        """Yield the place of every cell that has a number."""
        for row, values in enumerate(self.values):
            for column, value in enumerate(values):
                if not math.isnan(value):
                    yield row, column

    def _draw(self, *, name: str, styled: bool) -> Drawing:  # noqa: ARG002 - no part has a name
        tall = _row_height(self)
        bottom = _HEAD + tall * len(self.rows)
        body = [*_names(self, tall), *_cells(self, tall), *_scale(self, bottom)]
        room = 0
        if styled:
            # A page has the title beside the picture; alone it has to say itself what it shows.
            words, room = headline(self.title, bottom=0)
            body = [f'<g transform="translate(0 {room})">', *words, *body, "</g>"]
        return Drawing(body, full_width(bottom + _SCALE + room), self.note)

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


def short_number(value: float) -> str:
    """Return a number in two digits, from a hundred on in three; a dot where there is none.

    >>> short_number(6.945), short_number(155.4), short_number(0.0334), short_number(1689.2)
    ('6.9', '155', '0.033', '1.69k')
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
    digits = 2 if unit == 1.0 else 3
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(shown)) + 1e-12))
    return f"{shown:.{decimals}f}{sign}" if decimals <= _MOST_DECIMALS else f"{value:.1e}"


def _row_height(figure: HeatFigure) -> float:
    return _ROW if figure.numbered else max(3.0, _THIN / len(figure.rows))


def _names(figure: HeatFigure, tall: float) -> Iterator[str]:
    yield element("text", figure.x_label, x="100%", y=12, text_anchor="end", class_="cf-soft")
    yield element("text", figure.y_label, x=0, y=12, class_="cf-soft")
    apart = math.ceil(len(figure.columns) / 16)
    for number, name in list(enumerate(figure.columns))[::apart]:
        middle = _across(figure, number + 0.5)
        yield element("text", name, x=middle, y=30, text_anchor="middle", class_="cf-soft")
    apart = math.ceil(14 / tall)
    for number, name in list(enumerate(figure.rows))[::apart]:
        y = _HEAD + tall * (number + 0.5) + 4
        at = f"{figure.left - 2:g}%"
        yield element("text", name, x=at, y=y, text_anchor="end", class_="cf-soft")


def _cells(figure: HeatFigure, tall: float) -> Iterator[str]:
    width = f"{(100 - figure.left) / len(figure.columns):.3f}%"
    for row, column in figure.cells():
        left, top = _across(figure, column), _HEAD + tall * row
        shade = _opacity(figure.shade(row, column))
        yield element(
            "rect",
            x=left,
            y=top,
            width=width,
            height=tall,
            class_="cf-cell",
            fill_opacity=shade,
        )
    for row, column in figure.marked:
        left, top = _across(figure, column), _HEAD + tall * row
        yield element("rect", x=left, y=top, width=width, height=tall, class_="cf-mark")
    if figure.numbered:
        for row, column in figure.cells():
            yield element(
                "text",
                figure.written(row, column),
                x=_across(figure, column + 0.5),
                y=_HEAD + tall * (row + 0.5) + 4,
                text_anchor="middle",
                class_="cf-number",
            )


def _scale(figure: HeatFigure, bottom: float) -> Iterator[str]:
    width = (100 - figure.left) / _STEPS
    for step in range(_STEPS):
        yield element(
            "rect",
            x=f"{figure.left + width * step:.3f}%",
            y=bottom + 10,
            width=f"{width + 0.05:.3f}%",
            height=8,
            class_="cf-cell",
            fill_opacity=_opacity((step + 0.5) / _STEPS),
        )
    for share, anchor in ((0.0, "start"), (0.5, "middle"), (1.0, "end")):
        at = f"{figure.left + (100 - figure.left) * share:.2f}%"
        label = short_number(figure.scale.at(share))
        yield element("text", label, x=at, y=bottom + 31, text_anchor=anchor, class_="cf-soft")
    words = figure.scale.label
    yield element("text", words, x="100%", y=bottom + 47, text_anchor="end", class_="cf-soft")


def _opacity(shade: float) -> float:
    return _FAINTEST + (1 - _FAINTEST) * shade


def _across(figure: HeatFigure, column: float) -> str:
    return f"{figure.left + (100 - figure.left) * column / len(figure.columns):.3f}%"
