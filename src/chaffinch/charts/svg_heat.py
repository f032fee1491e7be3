"""Heat maps as SVG, in whatever width there is: places across are percentages.

One hue from faint to full, so that the order of the shades is the order of their lightness for
every kind of colour sight. The full shade leaves the letters on it a contrast of 4.5 or more,
on light paper and on dark.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from chaffinch.charts.heat import HeatFigure, two_digits
from chaffinch.charts.svg import element, framed

_LEFT = 14.0
"""Percent of the width for the names of the rows."""
_HEAD, _ROW, _THIN = 38, 30, 240
_SCALE = 52
_STEPS = 40
_FAINTEST = 0.04


def draw(figure: HeatFigure, *, name: str, styled: bool) -> str:
    """Return the SVG element of a heat map; its scale stands below it."""
    tall = _tall(figure)
    bottom = _HEAD + tall * len(figure.rows)
    body = [*_names(figure, tall), *_cells(figure, tall), *_scale(figure, bottom)]
    return framed(
        body,
        name=name,
        title=figure.title,
        description=f"{figure.alternative} {figure.note}".strip(),
        size=f'width="100%" height="{bottom + _SCALE:g}"',
        styled=styled,
    )


def _tall(figure: HeatFigure) -> float:
    """Return the height of a row: enough for letters, unless there are many."""
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
        at = f"{_LEFT - 2:g}%"
        yield element("text", name, x=at, y=y, text_anchor="end", class_="cf-soft")


def _cells(figure: HeatFigure, tall: float) -> Iterator[str]:
    width = f"{(100 - _LEFT) / len(figure.columns):.3f}%"
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
    """Yield a strip from the lightest to the darkest, its numbers and what it measures."""
    width = (100 - _LEFT) / _STEPS
    for step in range(_STEPS):
        yield element(
            "rect",
            x=f"{_LEFT + width * step:.3f}%",
            y=bottom + 10,
            width=f"{width + 0.05:.3f}%",
            height=8,
            class_="cf-cell",
            fill_opacity=_opacity((step + 0.5) / _STEPS),
        )
    for share, anchor in ((0.0, "start"), (0.5, "middle"), (1.0, "end")):
        at = f"{_LEFT + (100 - _LEFT) * share:.2f}%"
        label = two_digits(figure.scale.at(share))
        yield element("text", label, x=at, y=bottom + 31, text_anchor=anchor, class_="cf-soft")
    words = figure.scale.label
    yield element("text", words, x="100%", y=bottom + 47, text_anchor="end", class_="cf-soft")


def _opacity(shade: float) -> float:
    return _FAINTEST + (1 - _FAINTEST) * shade


def _across(figure: HeatFigure, column: float) -> str:
    return f"{_LEFT + (100 - _LEFT) * column / len(figure.columns):.3f}%"
