"""Charts of estimates: a bar for each count or share, and a mark on a ruler for each number.

A count is a bar from 0 on the scale of the crowd, and a number is a position on its range, never
a bar: a mean of 20 degrees is not twice one of 10. The 95% interval of each row by itself is a
band, the one for all together a thin line with ends.

They take labels and numbers, not releases, so that anything with intervals can be drawn. In the
drawing, places across are percentages and places down are pixels: letters keep their size on a
narrow screen. Labels stand above their rows, where a long one has room.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from chaffinch.charts import rounding
from chaffinch.charts.axis import Axis
from chaffinch.charts.svg import (
    Drawing,
    Picture,
    across,
    element,
    full_width,
    grid_kind,
    level,
    scale_below,
    ticks_below,
    upright,
)
from chaffinch.charts.text_tables import shorten_text
from chaffinch.errors import InvalidInput, checks

MOST_BARS = 40
_ROOM = 0.02
"""An axis goes on a little beyond the outermost whisker, so that nothing is cut off."""
PERCENT = "%"
"""The unit of shares, which have bars as counts have."""

_Interval = tuple[float, float]
_Measured = tuple[str, float, _Interval | None, _Interval | None]
"""A label, an estimate, its own interval, and the one that holds for several together."""

# Pixels of the drawing.
_ROW = 40
_BAR_TOP, _BAR = 21, 11
_AXIS = 22
_LABEL_COLUMNS, _LINE_COLUMNS = 26, 44
"""Letters of a label in any case, and of a label and its numbers on the narrowest screen."""


@dataclass(frozen=True, slots=True)
class Dot:
    """One estimate with the intervals that are known: its own, and the one for all together."""

    label: str
    estimate: float
    each: _Interval | None = None
    together: _Interval | None = None
    said: str = ""
    """The numbers in words, rounded for people."""
    shown: tuple[str, str, str] = ("", "", "")
    """The same in three parts: what a wide picture has room for, the number, and its interval."""

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
    """What the marks are, and what is left out, if anything is."""
    bars: bool = False
    """Whether rows are bars from 0; otherwise they are positions."""
    sign: str = ""
    """What stands behind the numbers of the axis."""

    def _draw(self, *, name: str, styled: bool) -> Drawing:  # noqa: ARG002 - alike on any page
        bottom = _ROW * len(self.dots)
        body = list(scale_below(self.x, bottom, named=False, sign=self.sign))
        for number, dot in enumerate(self.dots):
            body.extend(_row(self, dot, _ROW * number))
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
    most: int = MOST_BARS,
) -> DotFigure:
    """Return the bars of many estimates, in their order; of more than ``most`` the largest.

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
    >>> [dot.label for dot in chart.dots], chart.dots[1].said
    (['tea', 'coffee'], '50 (45 to 55)')
    """
    found, *ends = (np.asarray(one, dtype=np.float64) for one in (estimates, *each, *together))
    if not len(labels) or any(one.shape != (len(labels),) for one in (found, *ends)):
        raise InvalidInput("estimates", "one for each label, with both intervals", found.shape)
    low, high, low_all, high_all = (end.tolist() for end in ends)
    rows = zip(
        labels,
        found.tolist(),
        zip(low, high, strict=True),
        zip(low_all, high_all, strict=True),
        strict=True,
    )
    return counts_chart(title, list(rows), level=level, unit=unit, most=most)


def counts_chart(
    title: str,
    rows: Sequence[_Measured],
    *,
    level: float,
    unit: str,
    crowd: int | None = None,
    most: int = MOST_BARS,
    ordered: bool = False,
) -> DotFigure:
    """Return the bars of counts, in their order; of more than ``most`` the largest, by size.

    With a ``crowd`` the bars are shares of it, in percent. What is ``ordered``, as months are,
    stays in its order.

    >>> rows = [("tea", 30.0, (25.0, 35.0), None), ("coffee", 50.0, (45.0, 55.0), None)]
    >>> chart = counts_chart("drinks", rows, level=0.95, unit="people", crowd=200)
    >>> chart.dots[1].said, chart.x.label
    ('25.0% (22.5% to 27.5%)', 'Share of all 200 people')
    """
    checks.whole("number of dots", most, least=1)
    shown = list(rows)
    if len(rows) > most:
        shown = sorted(rows, key=lambda row: -row[1])[:most]
    if ordered:
        shown = [row for row in rows if row in shown]
    left_out = len(rows) - len(shown)
    cut = f"The {len(shown)} largest of {len(rows):,} values; {left_out:,} are left out."
    of = f"Number of {unit}" if crowd is None else f"Share of all {crowd:,} {unit}"
    words = f"Estimated number of {unit} for {_values(len(rows))}"
    return _bars(
        title, shown, (of, words, cut * bool(left_out)), level=level, crowd=crowd, counts=unit
    )


def shares_chart(title: str, rows: Iterable[_Measured], *, level: float, of: str) -> DotFigure:
    """Return the bars of shares in percent, in their order; ``of`` says of whom they are."""
    listed = list(rows)
    words = f"Shares in percent, {of}, for {_values(len(listed))}"
    return _bars(title, listed, (f"In percent, {of}", words, ""), level=level, crowd=100.0)


def number_chart(
    title: str,
    mean: tuple[float, float, float],
    quantiles: Iterable[tuple[float, float, float, float]] = (),
    *,
    level: float,
    unit: str = "",
    within: _Interval | None = None,
) -> DotFigure:
    """Return the ruler of a mean (estimate, low, high) and of quantiles in their brackets.

    A quantile is (probability, low, estimate, high). The brackets hold together; the interval
    of the mean holds by itself.
    """
    estimate, low, high = mean
    rows: list[_Measured] = [("mean", estimate, (low, high), None)]
    rows += [
        (rounding.quantile_name(chance), middle, None, (below, above))
        for chance, below, middle, above in quantiles
    ]
    return measured_chart(title, rows, level=level, unit=unit, within=within)


def measured_chart(
    title: str,
    rows: Iterable[_Measured],
    *,
    level: float,
    unit: str = "",
    within: _Interval | None = None,
) -> DotFigure:
    """Return numbers as positions on one ruler, in their order and wherever zero is.

    ``within`` is the range that the numbers can have, if it is known: then the ruler is that.
    """
    dots = [_measured(*row) for row in rows]
    found = [end for dot in dots for end in dot.ends]
    x = Axis.around(unit or "answer", found, room=_ROOM)
    if within is not None and within[0] < within[1]:
        x = Axis(x.label, min(within[0], *found), max(within[1], *found))
    of = f"In {unit}" if unit else ""
    return DotFigure(
        title=title,
        x=x,
        dots=tuple(dots),
        level=level,
        alternative=" ".join(f"{dot.label}: {dot.said}." for dot in dots),
        note=_note(of, dots, x, level, ""),
    )


def _measured(
    label: str, estimate: float, each: _Interval | None, together: _Interval | None
) -> Dot:
    ends = each or together or (estimate, estimate)
    # Intervals of 95% are about four standard errors wide.
    places = rounding.decimal_places((ends[1] - ends[0]) / 4)
    said, shown = _words(estimate, ends, places, "")
    return Dot(label, estimate, each, together, said, ("", *shown))


def _bars(
    title: str,
    rows: Sequence[_Measured],
    words: tuple[str, str, str],
    *,
    level: float,
    crowd: float | None,
    counts: str = "",
) -> DotFigure:
    """Return bars: of numbers, or with a ``crowd`` of shares of it in percent.

    ``counts`` is what is counted, if anything is.
    """
    # Shares in percent are given in percent; counts of a crowd become so.
    whole = crowd if counts else None
    sign = "" if crowd is None else PERCENT

    def part(ends: _Interval) -> _Interval:
        return rounding.in_percent(ends[0], whole), rounding.in_percent(ends[1], whole)

    widths = [
        rounding.half_width(estimate, each or together or (estimate, estimate))
        for _, estimate, each, together in rows
    ]
    narrowest = min((one for one in widths if one > 0), default=0.0)
    places = rounding.decimal_places(
        rounding.in_percent(narrowest, whole), counted=bool(counts) and crowd is None
    )
    people = rounding.decimal_places(narrowest, counted=True)
    dots = []
    for label, estimate, each, together in rows:
        found = rounding.in_percent(estimate, whole)
        said, shown = _words(found, part(each or together or (estimate, estimate)), places, sign)
        more = f"{rounding.nearest_text(estimate, people)} {counts} · " if whole else ""
        own, shared = (None if one is None else part(one) for one in (each, together))
        dots.append(Dot(label, found, own, shared, said, (more, *shown)))
    of, told, cut = words
    x = _scale_of_bars(of, dots, percent=crowd is not None)
    return DotFigure(
        title=title,
        x=x,
        dots=tuple(dots),
        level=level,
        alternative=_alternative(dots, told, cut, level),
        note=_note(of, dots, x, level, cut),
        bars=True,
        sign=sign,
    )


def _words(estimate: float, ends: _Interval, places: int, sign: str) -> tuple[str, tuple[str, str]]:
    shown = rounding.nearest_text(estimate, places) + sign
    low, high = rounding.lower_text(ends[0], places), rounding.upper_text(ends[1], places)
    said = f"{shown} ({low}{sign} to {high}{sign})"
    return said, (shown, rounding.around_text(estimate, ends, places, sign))


def _scale_of_bars(label: str, dots: Sequence[Dot], *, percent: bool) -> Axis:
    """Return an axis from 0, or from the least estimate below it, to a round number."""
    ends = [end for dot in dots for end in dot.ends]
    if not all(map(math.isfinite, ends)):
        raise InvalidInput("estimates", "finite numbers", "one that is not")
    low, high = min(0.0, *ends), max(0.0, *ends)
    if low == high:
        high = 100.0 if percent else 1.0
    low *= 1 + _ROOM
    ticks = [value for value, _ in ticks_below(Axis(label, low, high))]
    apart = ticks[1] - ticks[0] if len(ticks) > 1 else high - low
    top = apart * math.ceil(high / apart - 1e-9)
    if percent and high <= 100.0:
        # A bar alone is seen against all of the crowd: nothing else says how long it is.
        top = 100.0 if len(dots) == 1 else min(top, 100.0)
    return Axis(label, low, max(top, high))


def _values(count: int) -> str:
    return f"{count:,} values" if count > 1 else "one value"


def _alternative(dots: Sequence[Dot], told: str, cut: str, share: float) -> str:
    words = f"{told}, with {rounding.percent_text(share)} intervals."
    largest, smallest = (pick(dots, key=lambda dot: dot.estimate) for pick in (max, min))
    words += f" The largest is {largest.label}: {largest.said}."
    if len(dots) > 1 and not cut:
        words += f" The smallest is {smallest.label}: {smallest.said}."
    return words


def _note(of: str, dots: Sequence[Dot], x: Axis, share: float, cut: str) -> str:
    """Return what the marks mean, in as few words as this picture needs."""
    word = rounding.percent_text(share)
    marks = f"The band is the {word} interval"
    if any(_line_of(dot) for dot in dots):
        marks += " of each by itself, the thin line the one for all together"
    elif any(dot.each for dot in dots) and not all(dot.each for dot in dots):
        marks += " (of quantiles for all together)"
    band = max((dot.each or dot.together or (0.0, 0.0) for dot in dots), key=lambda e: e[1] - e[0])
    if band[1] - band[0] < 0.006 * (x.high - x.low):
        marks += "; where it is no wider than a line, so small is the error"
    return " ".join(f"{one}." for one in (of, marks, cut.rstrip(".")) if one)


def _line_of(dot: Dot) -> _Interval | None:
    """Return the interval for all together where it is not the one that the band shows."""
    return dot.together if dot.each and dot.together != dot.each else None


def _row(figure: DotFigure, dot: Dot, top: int) -> Iterator[str]:
    axis, high, low = figure.x, top + _BAR_TOP, top + _BAR_TOP + _BAR
    middle = (high + low) / 2
    room = max(_LABEL_COLUMNS, _LINE_COLUMNS - sum(map(len, dot.shown[1:])))
    yield element("text", shorten_text(dot.label, room), x=0, y=top + 14)
    yield _numbers(dot, top + 14)
    if figure.bars:
        yield _bar(axis, (max(axis.low, 0.0), axis.high), high, _BAR, "cf-track")
    else:
        yield _bar(axis, (axis.low, axis.high), middle - 1, 2, "cf-rule")
    for value, _ in ticks_below(axis):
        yield upright(across(axis, value), high - 2, low + 3, grid_kind(value))
    if figure.bars:
        ends = (min(dot.estimate, 0.0), max(dot.estimate, 0.0))
        yield _bar(axis, ends, high, _BAR, "cf-bar")
    band, line = dot.each or dot.together, _line_of(dot)
    if band:
        yield _bar(axis, band, middle - 3.5, 7, "cf-cap")
        for end in band:
            yield upright(across(axis, end), middle - 3.5, middle + 3.5, "cf-end")
    if line:
        yield level(middle, across(axis, line[0]), across(axis, line[1]), "cf-end")
        for end in line:
            yield upright(across(axis, end), high - 1, low + 1, "cf-end")
    if not figure.bars:
        yield element("circle", cx=across(axis, dot.estimate), cy=middle, r=5, class_="cf-dot")


def _numbers(dot: Dot, y: int) -> str:
    more, number, around = dot.shown
    parts = [("cf-soft cf-wide", more), ("cf-strong", number)]
    spans = [element("tspan", words, class_=kind) for kind, words in parts if words]
    spans.append(element("tspan", f" {around}", class_="cf-soft"))
    return f'<text x="100%" y="{y}" text-anchor="end">{"".join(spans)}</text>'


def _bar(axis: Axis, ends: _Interval, top: float, height: float, kind: str) -> str:
    low, high = (100 * min(max(axis.place(end), 0.0), 1.0) for end in ends)
    return element(
        "rect", x=f"{low:.2f}%", y=top, width=f"{high - low:.2f}%", height=height, class_=kind
    )
