"""A figure of lines: numbers, words and meaning, and the two ways to draw it without a library.

What a figure shows can be tested without looking at pixels. Plain characters and SVG are drawn
here; PNG and PDF, which need matplotlib, in `files`.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from chaffinch import checks
from chaffinch.charts.axis import Axis
from chaffinch.charts.files import save_figure
from chaffinch.charts.svg import Picture, element, escape, framed
from chaffinch.errors import InvalidInput
from chaffinch.privacy.guarantee import PROVEN, Method, commas_in

Style = Literal["proven", "assumed", "published", "reference", "measured"]
"""What a line stands for: a proof, a figure under an assumption, a claim, a landmark, or one of
several quantities that promise nothing."""

_CLAIM_MARKS = "ox+^"
_MARKS = {"proven": "#", "assumed": "?", "reference": "."}

# Pixels of the SVG: the whole, the margins around the frame, and one line of the legend.
_WIDTH, _HEIGHT = 640, 400
_LEFT, _RIGHT, _TOP, _BOTTOM = 60, 16, 24, 44
_LINE = 18
_CLAIM_COLOURS = 4


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
            f"Neighbours: {self.neighbours}; view: {self.view}; crowd: {commas_in(self.crowd)}; "
            f"method: {self.method} ({kind})."
        )


@dataclass(frozen=True, slots=True)
class Figure(Picture):
    """A picture as data, with its text alternative and the terms it holds under."""

    title: str
    x: Axis
    y: Axis
    series: tuple[Series, ...]
    alternative: str
    terms: Terms | str
    """A sentence where nothing is promised."""

    def __repr__(self) -> str:
        lines = ", ".join(repr(_legend_name(series)) for series in self.series)
        return f"<Figure {self.title!r} of {lines}>"

    @property
    def caption(self) -> str:
        """Return the terms, with a warning where published lines are shown."""
        claims = any(series.style == "published" for series in self.series)
        return f"{self.terms}{' Published lines are claims, not guarantees.' if claims else ''}"

    def save(self, path: str | Path) -> Path:
        """Write the figure to a PNG, SVG or PDF file, by its suffix; needs the extra ``plot``."""
        return save_figure(self, Path(path))

    def text(self, *, width: int = 72, height: int = 20) -> str:
        """Return the figure drawn with plain characters, ``width`` columns wide."""
        return _draw_text(self, width=width, height=height)

    def svg(self, *, name: str = "chart", styled: bool = True) -> str:
        """Return the figure as an SVG element; ``name`` must differ between those of a page.

        ``styled=False`` leaves the looks to the page.
        """
        return _draw_svg(self, name=name, styled=styled)


def _legend_name(series: Series) -> str:
    return f"{series.name} (published)" if series.style == "published" else series.name


def _draw_text(figure: Figure, *, width: int, height: int) -> str:
    """Return title, picture, legend and terms, no line longer than ``width``."""
    width = checks.whole("width", width, least=40, most=1000)
    height = checks.whole("height", height, least=8, most=1000)
    rows = dict(_text_rows(figure.y, height))
    margin = max(map(len, rows.values()))
    columns = width - margin - 2
    grid = [[" "] * columns for _ in range(height)]
    marks = _text_marks(figure)
    # What is proven is drawn last, on top of the others.
    order = sorted(zip(figure.series, marks, strict=True), key=lambda p: p[0].style == "proven")
    for series, mark in order:
        _trace_text(series, mark, figure, grid)
    # The y axis is named above it, as there is no upright text in a terminal.
    lines = [*textwrap.wrap(figure.title, width), "", figure.y.label]
    for number, row in enumerate(grid):
        label = rows.get(number, "")
        edge = "+" if label else "|"
        lines.append(f"{label:>{margin}} {edge}{''.join(row)}".rstrip())
    lines += [*_text_axis(figure.x, margin, columns), ""]
    for series, mark in zip(figure.series, marks, strict=True):
        entry = f"  {mark} {_legend_name(series)}"
        lines += textwrap.wrap(entry, width, subsequent_indent="    ")
    lines += ["", *textwrap.wrap(figure.caption, width)]
    return "\n".join(lines)


def _text_marks(figure: Figure) -> list[str]:
    claims = iter(_CLAIM_MARKS * (1 + len(figure.series) // len(_CLAIM_MARKS)))
    return [_MARKS.get(series.style) or next(claims) for series in figure.series]


def _text_rows(axis: Axis, height: int) -> list[tuple[int, str]]:
    """Return which rows carry a tick, from the top, and its label."""
    ticks = axis.ticks(most=max(2, height // 3))
    return [(round((1.0 - axis.place(value)) * (height - 1)), label) for value, label in ticks]


def _text_axis(axis: Axis, margin: int, columns: int) -> list[str]:
    """Return the ruled line with its ticks, their labels, and the name of the axis."""
    rule, labels = ["-"] * columns, [" "] * (columns + margin + 2)
    for value, label in axis.ticks(most=max(2, columns // 9)):
        column = round(axis.place(value) * (columns - 1))
        rule[column] = "+"
        start = min(margin + 2 + column - len(label) // 2, len(labels) - len(label))
        labels[start : start + len(label)] = label
    named = axis.label.rjust(margin + 2 + columns)
    return [" " * (margin + 1) + "+" + "".join(rule), "".join(labels).rstrip(), named]


def _trace_text(series: Series, mark: str, figure: Figure, grid: list[list[str]]) -> None:
    """Draw straight lines between the points of a series, cell by cell."""
    height, columns = len(grid), len(grid[0])
    before: tuple[float, float] | None = None
    for x, y in zip(series.x, series.y, strict=True):
        across, down = figure.x.place(x), 1.0 - figure.y.place(y)
        if math.isnan(across) or math.isnan(down):
            before = None
            continue
        here = (across * (columns - 1), down * (height - 1))
        start = before or here
        steps = max(1, math.ceil(max(abs(here[0] - start[0]), abs(here[1] - start[1]))))
        for step in range(steps + 1):
            column = round(start[0] + (here[0] - start[0]) * step / steps)
            row = round(start[1] + (here[1] - start[1]) * step / steps)
            if 0 <= column < columns and 0 <= row < height:
                grid[row][column] = mark
        before = here


def _draw_svg(figure: Figure, *, name: str, styled: bool) -> str:
    """Return the SVG element of a figure of lines; its legend stands below it."""
    kinds = _svg_classes(figure)
    clip = f"{escape(name)}-frame"
    body = [*_svg_axes(figure), f'<clipPath id="{clip}">{_svg_frame()}</clipPath>']
    body.append(f'<g clip-path="url(#{clip})">')
    for series, kind in zip(figure.series, kinds, strict=True):
        body.extend(_svg_line(series, kind, figure))
    body.append("</g>")
    for number, (series, kind) in enumerate(zip(figure.series, kinds, strict=True)):
        y = _HEIGHT + 14 + _LINE * number
        body.append(
            element("line", x1=_LEFT, x2=_LEFT + 28, y1=y - 4, y2=y - 4, class_=f"cf-line {kind}")
        )
        body.append(element("text", _legend_name(series), x=_LEFT + 36, y=y))
    height = _HEIGHT + 14 + _LINE * len(figure.series)
    return framed(
        body,
        name=name,
        title=figure.title,
        description=f"{figure.alternative} {figure.caption}",
        size=f'viewBox="0 0 {_WIDTH} {height}" width="100%"',
        styled=styled,
    )


def _svg_classes(figure: Figure) -> list[str]:
    """Return the class of each line; claims and measures differ in colour and in dashes."""
    claims = 0
    kinds = []
    for series in figure.series:
        if series.style in ("published", "measured"):
            kinds.append(f"cf-claim-{claims % _CLAIM_COLOURS}")
            claims += 1
        else:
            kinds.append(f"cf-{series.style}")
    return kinds


def _svg_axes(figure: Figure) -> Iterator[str]:
    right, bottom = _WIDTH - _RIGHT, _HEIGHT - _BOTTOM
    for value, label in figure.x.ticks():
        x = _across(figure, value)
        yield element("line", x1=x, x2=x, y1=_TOP, y2=bottom, class_="cf-grid")
        yield element("text", label, x=x, y=bottom + 16, text_anchor="middle", class_="cf-soft")
    for value, label in figure.y.ticks():
        y = _down(figure, value)
        yield element("line", x1=_LEFT, x2=right, y1=y, y2=y, class_="cf-grid")
        yield element("text", label, x=_LEFT - 6, y=y + 4, text_anchor="end", class_="cf-soft")
    yield element("text", figure.x.label, x=right, y=bottom + 34, text_anchor="end")
    yield element("text", figure.y.label, x=6, y=14)


def _svg_frame() -> str:
    width, height = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM
    return element("rect", x=_LEFT, y=_TOP, width=width, height=height)


def _svg_line(series: Series, kind: str, figure: Figure) -> Iterator[str]:
    upper = _svg_points(series.x, series.y, figure)
    if series.other_end:
        lower = _svg_points(series.x, series.other_end, figure)
        band = " ".join([*upper, *reversed(lower)])
        yield element("polygon", points=band, class_="cf-band")
    yield element("polyline", points=" ".join(upper), class_=f"cf-line {kind}")


def _svg_points(xs: tuple[float, ...], ys: tuple[float, ...], figure: Figure) -> list[str]:
    places = ((_across(figure, x), _down(figure, y)) for x, y in zip(xs, ys, strict=True))
    return [f"{x:.1f},{y:.1f}" for x, y in places if not (math.isnan(x) or math.isnan(y))]


def _across(figure: Figure, value: float) -> float:
    return _LEFT + figure.x.place(value) * (_WIDTH - _LEFT - _RIGHT)


def _down(figure: Figure, value: float) -> float:
    return _TOP + (1.0 - figure.y.place(value)) * (_HEIGHT - _TOP - _BOTTOM)
