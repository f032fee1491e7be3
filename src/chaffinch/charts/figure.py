"""A figure of lines: numbers, words and meaning, and the ways to draw it.

What a figure shows can be tested without looking at pixels. Plain characters and SVG for pages
need no library; PNG, SVG and PDF in files need matplotlib.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from chaffinch.charts.axis import Axis
from chaffinch.charts.svg import (
    Drawing,
    Picture,
    element,
    full_width,
    headline,
    legend,
    level,
    ticks_below,
    upright,
)
from chaffinch.disk.files import atomic
from chaffinch.errors import InvalidInput, MissingExtra, checks
from chaffinch.privacy.guarantee import PROVEN, Method, commas_in

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Style = Literal["proven", "bound", "assumed", "published", "reference", "measured"]
"""What a line stands for: a proof, a looser proof beside it, a figure under an assumption, a claim,
a landmark, or one of several quantities that promise nothing."""

_CLAIM_MARKS = "ox+^"
_MARKS = {"proven": "#", "assumed": "?", "reference": "."}

# The SVG. Places across are percentages, so letters keep their size however narrow it is; alone
# it has a width of its own, as an image without one has hardly any. Places down are pixels.
_WIDTH, _HEIGHT = 640, 400
_LEFT, _RIGHT, _TOP, _BOTTOM = 11.0, 98.0, 24, 44
_FRAME = 1000
"""The width of the frame in its own units, which stretch."""
_NEAR_END = 0.97
_CLAIM_COLOURS = 6
_BESIDE = ("bound", "published", "measured")
"""Styles of which there may be several lines: each has its own colour and dashes."""


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
        return _save_figure(self, Path(path))

    def text(self, *, width: int = 72, height: int = 20) -> str:
        """Return the figure drawn with plain characters, ``width`` columns wide."""
        return _draw_text(self, width=width, height=height)

    def _draw(self, *, name: str, styled: bool) -> Drawing:  # noqa: ARG002 - it has no names inside
        return _draw_svg(self, styled=styled)


def _legend_name(series: Series) -> str:
    told = {"published": " (published)", "bound": " (proven)"}.get(series.style, "")
    return series.name + told


def _draw_text(figure: Figure, *, width: int, height: int) -> str:
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
    ticks = axis.ticks(most=max(2, height // 3))
    return [(round((1.0 - axis.place(value)) * (height - 1)), label) for value, label in ticks]


def _text_axis(axis: Axis, margin: int, columns: int) -> list[str]:
    rule, labels = ["-"] * columns, [" "] * (columns + margin + 2)
    for value, label in axis.ticks(most=max(2, columns // 9)):
        column = round(axis.place(value) * (columns - 1))
        rule[column] = "+"
        start = min(margin + 2 + column - len(label) // 2, len(labels) - len(label))
        labels[start : start + len(label)] = label
    named = axis.label.rjust(margin + 2 + columns)
    return [" " * (margin + 1) + "+" + "".join(rule), "".join(labels).rstrip(), named]


def _trace_text(series: Series, mark: str, figure: Figure, grid: list[list[str]]) -> None:
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


def _draw_svg(figure: Figure, *, styled: bool) -> Drawing:
    kinds = _svg_classes(figure)
    bottom = _HEIGHT - _BOTTOM - _TOP
    lines = [
        one
        for series, kind in zip(figure.series, kinds, strict=True)
        for one in _svg_line(series, kind, figure)
    ]
    # It cuts off whatever is outside of the axes, and stretches all but the width of lines.
    frame = (
        f'<svg x="{_LEFT:g}%" y="{_TOP}" width="{_RIGHT - _LEFT:g}%" height="{bottom}" '
        f'viewBox="0 0 {_FRAME} {bottom}" preserveAspectRatio="none">{"".join(lines)}</svg>'
    )
    names = map(_legend_name, figure.series)
    listed, y = legend(zip(kinds, names, strict=True), _HEIGHT + 14)
    body = [*_svg_axes(figure), frame, *listed]
    if not styled:
        return Drawing(body, full_width(y), figure.caption)
    # A page has the title beside the picture; alone it has to say itself what it shows.
    words, room = headline(figure.title, bottom=-6)
    size = f'viewBox="0 {-room - 6} {_WIDTH} {y + room + 6}" width="100%"'
    return Drawing([*body, *words], size, figure.caption)


def _svg_classes(figure: Figure) -> list[str]:
    claims = 0
    kinds = []
    for series in figure.series:
        if series.style in _BESIDE:
            kinds.append(f"cf-claim-{claims % _CLAIM_COLOURS}")
            claims += 1
        else:
            kinds.append(f"cf-{series.style}")
    return kinds


def _svg_axes(figure: Figure) -> Iterator[str]:
    right, bottom = f"{_RIGHT:g}%", _HEIGHT - _BOTTOM
    for value, label in ticks_below(figure.x):
        place = figure.x.place(value)
        x = f"{_LEFT + place * (_RIGHT - _LEFT):.2f}%"
        anchor = "end" if place > _NEAR_END else "middle"
        yield upright(x, _TOP, bottom, "cf-grid")
        yield element("text", label, x=x, y=bottom + 16, text_anchor=anchor, class_="cf-soft")
    for value, label in figure.y.ticks():
        y = _TOP + (1.0 - figure.y.place(value)) * (bottom - _TOP)
        yield level(y, f"{_LEFT:g}%", right, "cf-grid")
        at = f"{_LEFT - 1:g}%"
        yield element("text", label, x=at, y=y + 4, text_anchor="end", class_="cf-soft")
    yield element("text", figure.x.label, x=right, y=bottom + 34, text_anchor="end")
    yield element("text", figure.y.label, x=0, y=14)


def _svg_line(series: Series, kind: str, figure: Figure) -> Iterator[str]:
    upper = _svg_points(series.x, series.y, figure)
    if series.other_end:
        lower = _svg_points(series.x, series.other_end, figure)
        band = " ".join([*upper, *reversed(lower)])
        yield element("polygon", points=band, class_="cf-band")
    yield element(
        "polyline",
        points=" ".join(upper),
        class_=f"cf-line {kind}",
        vector_effect="non-scaling-stroke",
    )


def _svg_points(xs: tuple[float, ...], ys: tuple[float, ...], figure: Figure) -> list[str]:
    tall = _HEIGHT - _BOTTOM - _TOP
    places = [
        (_FRAME * figure.x.place(x), tall * (1.0 - figure.y.place(y)))
        for x, y in zip(xs, ys, strict=True)
    ]
    return [f"{x:.1f},{y:.1f}" for x, y in places if not (math.isnan(x) or math.isnan(y))]


# ----------------------------------------------------------------------------
# Files: PNG, SVG or PDF, drawn by matplotlib (extra ``plot``), imported late.

_SUFFIXES = (".pdf", ".png", ".svg")

# Okabe and Ito's colours: apart from one another for every kind of colour sight.
_PROVEN = "#0072B2"
_CLAIMS = ("#D55E00", "#009E73", "#CC79A7", "#E69F00", "#6A3D9A", "#6B6B00")
_DASHES = ((5, 2), (2, 1.5), (7, 2, 1.5, 2), (1, 1), (9, 2), (4, 1.5, 1, 1.5))
_REFERENCE = "#666666"


def check_figure_name(path: Path) -> Path:
    """Return the path of a figure; refuse a suffix in which no figure can be written."""
    if path.suffix.lower() not in _SUFFIXES:
        raise InvalidInput("file name", "one that ends in " + ", ".join(_SUFFIXES), path.name)
    return path


def _save_figure(figure: Figure, path: Path) -> Path:
    check_figure_name(path)
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure as Canvas
    except ImportError:
        raise MissingExtra("drawing library for figures in files", "plot") from None
    with mpl.rc_context({"svg.hashsalt": "chaffinch", "svg.fonttype": "none"}):
        # No pyplot: nothing global is touched, and no window system is looked for.
        canvas = Canvas(figsize=(7.0, 5.2), dpi=150, layout="constrained")
        axes = canvas.add_subplot()
        _axes(figure, axes)
        for series, style in zip(figure.series, _line_styles(figure), strict=True):
            _line(series, style, axes)
        axes.legend(frameon=False, fontsize=9, loc="best")
        canvas.suptitle(textwrap.fill(figure.title, 78), fontsize=11)
        canvas.supxlabel(textwrap.fill(figure.caption, 105), fontsize=7.5, color="#444444")
        suffix = path.suffix.lower()
        with atomic(path) as file:
            canvas.savefig(file, format=suffix[1:], metadata=_metadata(figure, suffix))
    return path


def _axes(figure: Figure, axes: Axes) -> None:
    axes.set_xlabel(figure.x.label)
    axes.set_ylabel(figure.y.label)
    axes.set_yscale(figure.y.scale)
    axes.set_xscale(figure.x.scale)
    axes.set_xlim(figure.x.low, figure.x.high)
    axes.set_ylim(figure.y.low, figure.y.high)
    for axis, spec in ((axes.xaxis, figure.x), (axes.yaxis, figure.y)):
        places, labels = zip(*spec.ticks(), strict=True)
        axis.set_ticks(places, labels=labels)
        axis.set_ticks([], minor=True)
    axes.grid(color="#DDDDDD", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def _line_styles(figure: Figure) -> list[dict[str, Any]]:
    styles: list[dict[str, Any]] = []
    claims = 0
    for series in figure.series:
        if series.style in _BESIDE:
            number = claims % len(_CLAIMS)
            styles.append({"color": _CLAIMS[number], "dashes": _DASHES[number], "linewidth": 1.4})
            claims += 1
        elif series.style == "reference":
            styles.append({"color": _REFERENCE, "linewidth": 0.9})
        else:
            dashes = {} if series.style == "proven" else {"dashes": (3, 1)}
            styles.append({"color": _PROVEN, "linewidth": 2.2, "zorder": 3, **dashes})
    return styles


def _line(series: Series, style: dict[str, Any], axes: Axes) -> None:
    axes.plot(series.x, series.y, label=_legend_name(series), **style)
    if series.other_end:
        # Where the bracket is too narrow to see, this band hides under its line.
        axes.fill_between(
            series.x, series.y, series.other_end, color=style["color"], alpha=0.2, linewidth=0
        )


def _metadata(figure: Figure, suffix: str) -> dict[str, Any]:
    # No dates and no versions: the same figure always gives the same file.
    words = {"Title": figure.title}
    if suffix == ".pdf":
        return words | {"Subject": figure.alternative, "CreationDate": None}
    if suffix == ".svg":
        return words | {"Description": figure.alternative, "Date": None}
    return words | {"Description": figure.alternative, "Software": None}
