"""Figures in a terminal: plain characters, no colours, nothing to install."""

from __future__ import annotations

import math
import textwrap
import unicodedata
from collections.abc import Iterator, Sequence

from chaffinch import checks
from chaffinch.charts.figure import Axis, Figure, Series

_CLAIMS = "ox+^"
_LEAST_LABEL = 12
_MARKS = {"proven": "#", "assumed": "?", "reference": "."}


def draw(figure: Figure, *, width: int, height: int) -> str:
    """Return title, picture, legend and terms, no line longer than ``width``."""
    width = checks.whole("width", width, least=40, most=1000)
    height = checks.whole("height", height, least=8, most=1000)
    rows = dict(_rows(figure.y, height))
    margin = max(map(len, rows.values()))
    columns = width - margin - 2
    grid = [[" "] * columns for _ in range(height)]
    marks = _marks(figure)
    # What is proven is drawn last, on top of the others.
    order = sorted(zip(figure.series, marks, strict=True), key=lambda p: p[0].style == "proven")
    for series, mark in order:
        _trace(series, mark, figure, grid)
    # The y axis is named above it, as there is no upright text in a terminal.
    lines = [*textwrap.wrap(figure.title, width), "", figure.y.label]
    for number, row in enumerate(grid):
        label = rows.get(number, "")
        edge = "+" if label else "|"
        lines.append(f"{label:>{margin}} {edge}{''.join(row)}".rstrip())
    lines += [*_x_axis(figure.x, margin, columns), ""]
    lines += [
        f"  {mark} {_named(series)}" for series, mark in zip(figure.series, marks, strict=True)
    ]
    lines += ["", *textwrap.wrap(figure.caption, width)]
    return "\n".join(lines)


def columns_of(text: str) -> int:
    """Return how many columns a text takes in a terminal.

    >>> columns_of("tea"), columns_of("茶")
    (3, 2)
    """
    return sum(
        0 if unicodedata.combining(letter) else 1 + (unicodedata.east_asian_width(letter) in "WF")
        for letter in text
    )


def shortened(text: str, most: int) -> str:
    """Return a text of at most ``most`` columns; one that was cut ends in an ellipsis.

    >>> shortened("peppermint tea", 8)
    'pepperm…'
    """
    if columns_of(text) <= most:
        return text
    while columns_of(text) > most - 1:
        text = text[:-1]
    return text + "…"


def table(rows: Sequence[Sequence[str]], width: int) -> Iterator[str]:
    """Yield rows in columns: a label, cut to what its numbers leave of the width, then numbers.

    >>> for line in table([("drink", "cups"), ("peppermint tea", "5")], 24):
    ...     print(line)
      drink           cups
      peppermint tea     5
    """
    wide = [max(map(len, column)) for column in list(zip(*rows, strict=True))[1:]]
    room = max(_LEAST_LABEL, width - 2 - sum(wide) - 2 * len(wide))
    labels = [shortened(row[0], room) for row in rows]
    first = max(map(columns_of, labels))
    for label, row in zip(labels, rows, strict=True):
        numbers = "".join(f"  {cell:>{n}}" for cell, n in zip(row[1:], wide, strict=True))
        yield f"  {label}{' ' * (first - columns_of(label))}{numbers}".rstrip()


def _named(series: Series) -> str:
    return f"{series.name} (published)" if series.style == "published" else series.name


def _marks(figure: Figure) -> list[str]:
    claims = iter(_CLAIMS * (1 + len(figure.series) // len(_CLAIMS)))
    return [_MARKS.get(series.style) or next(claims) for series in figure.series]


def _rows(axis: Axis, height: int) -> list[tuple[int, str]]:
    """Return which rows carry a tick, from the top, and its label."""
    ticks = axis.ticks(most=max(2, height // 3))
    return [(round((1.0 - axis.place(value)) * (height - 1)), label) for value, label in ticks]


def _x_axis(axis: Axis, margin: int, columns: int) -> list[str]:
    """Return the ruled line with its ticks, their labels, and the name of the axis."""
    rule, labels = ["-"] * columns, [" "] * (columns + margin + 2)
    for value, label in axis.ticks(most=max(2, columns // 9)):
        column = round(axis.place(value) * (columns - 1))
        rule[column] = "+"
        start = min(margin + 2 + column - len(label) // 2, len(labels) - len(label))
        labels[start : start + len(label)] = label
    named = axis.label.rjust(margin + 2 + columns)
    return [" " * (margin + 1) + "+" + "".join(rule), "".join(labels).rstrip(), named]


def _trace(series: Series, mark: str, figure: Figure, grid: list[list[str]]) -> None:
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
