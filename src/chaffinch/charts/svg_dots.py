"""Estimates with their intervals as SVG, in whatever width there is.

Places across are percentages and places down are pixels: letters keep their size on a narrow
screen. Labels stand above their whiskers, where a long one has room.
"""

from __future__ import annotations

from collections.abc import Iterator

from chaffinch import rounding
from chaffinch.charts.estimates import Dot, DotFigure, Interval
from chaffinch.charts.figure import Axis
from chaffinch.charts.svg import element, framed
from chaffinch.charts.terminal import shortened

_ROW = 38
_LEGEND = 26
_AXIS = 38
_TICKS = 6
_LABEL_COLUMNS = 26
_HALF_LETTER = 0.012
"""Of the width of a narrow screen."""


def draw(figure: DotFigure, *, name: str, styled: bool) -> str:
    """Return the SVG element of a chart of estimates."""
    bottom = _LEGEND + _ROW * len(figure.dots)
    body = [*_legend(figure), *scale(figure.x, bottom)]
    for number, dot in enumerate(figure.dots):
        top = _LEGEND + _ROW * number
        body.extend([*_grid(figure.x, top), *_row(dot, figure.x, top)])
    return framed(
        body,
        name=name,
        title=figure.title,
        description=f"{figure.alternative} {figure.note}".strip(),
        size=f'width="100%" height="{bottom + _AXIS}"',
        styled=styled,
    )


def _legend(figure: DotFigure) -> Iterator[str]:
    """Yield what the marks mean; only those that there are."""
    level = rounding.percent(figure.level)
    yield element("circle", cx=5, cy=10, r=4.5, class_="cf-dot")
    yield element("text", "estimate", x=14, y=14, class_="cf-soft")
    x = 72.0
    for kind, words, there in (
        ("cf-each", f"{level}, each", any(dot.each for dot in figure.dots)),
        ("cf-together", f"{level}, all together", any(dot.together for dot in figure.dots)),
    ):
        if there:
            yield element("line", x1=x, x2=x + 16, y1=10, y2=10, class_=kind)
            yield element("text", words, x=x + 20, y=14, class_="cf-soft")
            x += 32 + 6.3 * len(words)


def scale(axis: Axis, bottom: int) -> Iterator[str]:
    """Yield the numbers and the name of an axis below everything else."""
    for value, label in axis.ticks(most=_TICKS):
        written = f"{value:,.0f}" if value == round(value) and abs(value) < 1e9 else label
        share, half = axis.place(value), _HALF_LETTER * len(written)
        anchor = "start" if share < half else "end" if share > 1 - half else "middle"
        yield element(
            "text",
            written,
            x=_across(axis, value),
            y=bottom + 14,
            text_anchor=anchor,
            class_="cf-soft",
        )
    yield element("text", axis.label, x="100%", y=bottom + 32, text_anchor="end", class_="cf-soft")


def _grid(axis: Axis, top: int) -> Iterator[str]:
    """Yield the grid behind one row of whiskers; it leaves out the labels above them."""
    for value, _ in axis.ticks(most=_TICKS):
        at = _across(axis, value)
        kind = "cf-zero" if value == 0 else "cf-grid"
        yield element("line", x1=at, x2=at, y1=top + 19, y2=top + 35, class_=kind)


def _row(dot: Dot, axis: Axis, top: int) -> Iterator[str]:
    middle = top + 27
    yield element("text", shortened(dot.label, _LABEL_COLUMNS), x=0, y=top + 15)
    yield element("text", dot.said, x="100%", y=top + 15, text_anchor="end", class_="cf-soft")
    if dot.each:
        yield _line(axis, dot.each, middle, "cf-each")
    if dot.together:
        yield _line(axis, dot.together, middle, "cf-together")
        for end in dot.together:
            at = _across(axis, end)
            yield element("line", x1=at, x2=at, y1=middle - 4, y2=middle + 4, class_="cf-together")
    yield element("circle", cx=_across(axis, dot.estimate), cy=middle, r=4.5, class_="cf-dot")


def _line(axis: Axis, ends: Interval, y: int, kind: str) -> str:
    low, high = (_across(axis, end) for end in ends)
    return element("line", x1=low, x2=high, y1=y, y2=y, class_=kind)


def _across(axis: Axis, value: float) -> str:
    return f"{100 * min(max(axis.place(value), 0.0), 1.0):.2f}%"
