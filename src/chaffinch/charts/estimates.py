"""Charts of estimates: a dot for each, whiskers for its intervals, one below the other.

They take labels and numbers, not releases, so that anything with intervals can be drawn. In the
drawing, places across are percentages and places down are pixels: letters keep their size on a
narrow screen. Labels stand above their whiskers, where a long one has room.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from chaffinch.charts import rounding
from chaffinch.charts.axis import Axis
from chaffinch.charts.svg import (
    MOST_TICKS,
    Drawing,
    Picture,
    across,
    element,
    full_width,
    grid_kind,
    level,
    scale_below,
    upright,
)
from chaffinch.charts.text_tables import shorten_text
from chaffinch.errors import InvalidInput, checks

_MOST_DOTS = 40
_ROOM = 0.02
"""The axis goes on a little beyond the outermost whisker, so that nothing is cut off."""

_Interval = tuple[float, float]
_Measured = tuple[str, float, _Interval | None, _Interval | None]
"""A label, an estimate, its own interval, and the one that holds for several together."""

# Pixels of the drawing.
_ROW = 38
_LEGEND = 26
_AXIS = 38
_LABEL_COLUMNS = 26


@dataclass(frozen=True, slots=True)
class Dot:
    """One estimate with the intervals that are known: its own, and the one for all together."""

    label: str
    estimate: float
    each: _Interval | None = None
    together: _Interval | None = None
    said: str = ""
    """The numbers in words, rounded for people."""

    def __post_init__(self) -> None:
        for ends in (self.each, self.together):
            if ends is not None and not ends[0] <= ends[1]:
                raise InvalidInput("interval", "from a low end to a high end", ends)

    @property
    def ends(self) -> tuple[float, ...]:
        """Return every number that must have a place on the axis."""
        return (self.estimate, *(self.each or ()), *(self.together or ()))


@dataclass(frozen=True, slots=True)
class DotFigure(Picture):
    """A chart of estimates: the first dot is the uppermost."""

    title: str
    x: Axis
    dots: tuple[Dot, ...]
    level: float
    alternative: str
    note: str = ""
    """What is left out, if anything is."""

    def _draw(self, *, name: str, styled: bool) -> Drawing:  # noqa: ARG002 - alike on any page
        bottom = _LEGEND + _ROW * len(self.dots)
        body = [*_legend(self), *scale_below(self.x, bottom)]
        for number, dot in enumerate(self.dots):
            top = _LEGEND + _ROW * number
            body.extend([*_grid(self.x, top), *_row(dot, self.x, top)])
        return Drawing(body, full_width(bottom + _AXIS), self.note)


def estimates_chart(
    title: str,
    labels: Sequence[str],
    estimates: ArrayLike,
    *,
    each: tuple[ArrayLike, ArrayLike],
    together: tuple[ArrayLike, ArrayLike],
    level: float,
    unit: str = "people",
    most: int = _MOST_DOTS,
) -> DotFigure:
    """Return the chart of many estimates, the largest first and at most ``most`` of them.

    ``each`` holds the low and the high ends of the intervals by themselves, ``together`` of
    those that hold for all values at once.

    >>> chart = estimates_chart(
    ...     "drinks",
    ...     ["tea", "coffee"],
    ...     [30, 50],
    ...     each=([25, 45], [35, 55]),
    ...     together=([20, 40], [40, 60]),
    ...     level=0.95,
    ... )
    >>> [dot.label for dot in chart.dots], chart.dots[0].said
    (['coffee', 'tea'], '50 (45 to 55)')
    """
    found, *ends = (np.asarray(one, dtype=np.float64) for one in (estimates, *each, *together))
    if not len(labels) or any(one.shape != (len(labels),) for one in (found, *ends)):
        raise InvalidInput("estimates", "one for each label, with both intervals", found.shape)
    checks.whole("number of dots", most, least=1)
    order = np.argsort(-found, kind="stable")[:most]
    pairs = [zip(*(end[order].tolist() for end in ends[k : k + 2]), strict=True) for k in (0, 2)]
    dots = [
        _dot(labels[place], estimate, own, shared, counted=True)
        for place, estimate, own, shared in zip(order, found[order].tolist(), *pairs, strict=True)
    ]
    left_out = len(labels) - len(dots)
    note = f"The {len(dots)} largest of {len(labels):,} values; {left_out:,} are left out."
    return DotFigure(
        title=title,
        x=_axis(unit, dots, zero=True),
        dots=tuple(dots),
        level=level,
        alternative=_alternative(dots, len(labels), level, unit),
        note=note if left_out else "",
    )


def number_chart(
    title: str,
    mean: tuple[float, float, float],
    quantiles: Iterable[tuple[float, float, float, float]] = (),
    *,
    level: float,
    unit: str = "",
) -> DotFigure:
    """Return the chart of a mean (estimate, low, high) and of quantiles in their brackets.

    A quantile is (probability, low, estimate, high). The brackets hold together; the interval
    of the mean holds by itself.
    """
    estimate, low, high = mean
    rows: list[_Measured] = [("mean", estimate, (low, high), None)]
    rows += [
        (rounding.quantile_name(chance), middle, None, (below, above))
        for chance, below, middle, above in quantiles
    ]
    return measured_chart(title, rows, level=level, unit=unit)


def measured_chart(
    title: str, rows: Iterable[_Measured], *, level: float, unit: str = ""
) -> DotFigure:
    """Return the chart of numbers on one scale, in their order and wherever zero is."""
    dots = [_dot(*row) for row in rows]
    return DotFigure(
        title=title,
        x=_axis(unit or "answer", dots, zero=False),
        dots=tuple(dots),
        level=level,
        alternative=" ".join(f"{dot.label}: {dot.said}." for dot in dots),
    )


def _dot(
    label: str,
    estimate: float,
    each: _Interval | None,
    together: _Interval | None,
    *,
    counted: bool = False,
) -> Dot:
    low, high = each or together or (estimate, estimate)
    # Intervals of 95% are about four standard errors wide.
    places = rounding.decimal_places((high - low) / 4, counted=counted)
    said = (
        f"{rounding.nearest_text(estimate, places)} "
        f"({rounding.lower_text(low, places)} to {rounding.upper_text(high, places)})"
    )
    return Dot(label, estimate, each, together, said)


def _axis(label: str, dots: Sequence[Dot], *, zero: bool) -> Axis:
    ends = [end for dot in dots for end in dot.ends] + ([0.0] if zero else [])
    return Axis.around(label, ends, room=_ROOM)


def _alternative(dots: Sequence[Dot], values: int, level: float, unit: str) -> str:
    of = f"{values:,} values" if values > 1 else "one value"
    words = f"Estimated number of {unit} for {of}, with {rounding.percent_text(level)} intervals."
    words += f" The largest is {dots[0].label}: {dots[0].said}."
    if len(dots) == values > 1:
        words += f" The smallest is {dots[-1].label}: {dots[-1].said}."
    return words


def _legend(figure: DotFigure) -> Iterator[str]:
    share = rounding.percent_text(figure.level)
    yield element("circle", cx=5, cy=10, r=4.5, class_="cf-dot")
    yield element("text", "estimate", x=14, y=14, class_="cf-soft")
    x = 72.0
    for kind, words, there in (
        ("cf-each", f"{share}, each", any(dot.each for dot in figure.dots)),
        ("cf-together", f"{share}, all together", any(dot.together for dot in figure.dots)),
    ):
        if there:
            yield level(10, x, x + 16, kind)
            yield element("text", words, x=x + 20, y=14, class_="cf-soft")
            x += 32 + 6.3 * len(words)


def _grid(axis: Axis, top: int) -> Iterator[str]:
    for value, _ in axis.ticks(most=MOST_TICKS):
        yield upright(across(axis, value), top + 19, top + 35, grid_kind(value))


def _row(dot: Dot, axis: Axis, top: int) -> Iterator[str]:
    middle = top + 27
    yield element("text", shorten_text(dot.label, _LABEL_COLUMNS), x=0, y=top + 15)
    yield element("text", dot.said, x="100%", y=top + 15, text_anchor="end", class_="cf-soft")
    if dot.each:
        yield _line(axis, dot.each, middle, "cf-each")
    if dot.together:
        yield _line(axis, dot.together, middle, "cf-together")
        for end in dot.together:
            yield upright(across(axis, end), middle - 4, middle + 4, "cf-together")
    yield element("circle", cx=across(axis, dot.estimate), cy=middle, r=4.5, class_="cf-dot")


def _line(axis: Axis, ends: _Interval, y: int, kind: str) -> str:
    low, high = (across(axis, end) for end in ends)
    return level(y, low, high, kind)
