"""Charts of estimates over time: a line for each value, with a whisker in every round.

Places across are percentages and places down are pixels, as in charts of estimates. Values
stand a little apart in each round, so that their whiskers can be told from one another.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from chaffinch.charts import rounding
from chaffinch.charts.axis import Axis
from chaffinch.charts.svg import Drawing, Picture, element, full_width, grid_kind, legend, level
from chaffinch.charts.text_tables import shorten_text
from chaffinch.errors import InvalidInput, checks

_Course = tuple[Sequence[float], Sequence[tuple[float, float]]]
"""Estimates in the order of the rounds, and their intervals."""

_KINDS = ("cf-proven", "cf-claim-0", "cf-claim-1", "cf-claim-2", "cf-claim-3")
"""What lines look like: they differ in colour and in dashes."""
_COLOURS = ("main", "claim-0", "claim-1", "claim-2", "claim-3")
"""Those of the lines, for their whiskers."""
_ROOM = 0.04

# Pixels down and percentages across of the drawing.
_TOP, _HEIGHT = 24, 220
_LEFT, _RIGHT = 9.0, 97.0
_APART = 0.9


@dataclass(frozen=True, slots=True)
class _TrendLine:
    label: str
    estimates: tuple[float, ...]
    intervals: tuple[tuple[float, float], ...]
    said: str
    """The first and the last estimate in words."""


@dataclass(frozen=True, slots=True)
class TrendFigure(Picture):
    """A chart of values over several rounds."""

    title: str
    rounds: tuple[str, ...]
    y: Axis
    paths: tuple[_TrendLine, ...]
    level: float
    alternative: str
    note: str = ""
    """What is left out, if anything is."""

    def _draw(self, *, name: str, styled: bool) -> Drawing:  # noqa: ARG002 - alike on any page
        bottom = _TOP + _HEIGHT
        body = [*_scale(self, bottom)]
        for number, path in enumerate(self.paths):
            body.extend(_line(self, number, path))
        named = (f"{path.label}: {path.said}" for path in self.paths)
        listed, end = legend(zip(_KINDS, named, strict=False), bottom + 44)
        return Drawing([*body, *listed], full_width(end), self.note)


def trend_chart(
    title: str,
    rounds: Sequence[str],
    courses: Mapping[str, _Course],
    *,
    level: float,
    unit: str = "",
) -> TrendFigure:
    """Return the chart of values over several rounds; of many, those that are largest at the end.

    >>> chart = trend_chart(
    ...     "drinks",
    ...     ["May", "June"],
    ...     {"tea": ([30.0, 34.0], [(28.0, 32.0), (32.0, 36.0)])},
    ...     level=0.95,
    ...     unit="percent",
    ... )
    >>> chart.alternative
    'Estimates in percent from May to June, with 95% intervals. tea: 30.0 to 34.0.'
    """
    checks.whole("number of rounds", len(rounds), least=2)
    for estimates, intervals in courses.values():
        if not (len(estimates) == len(intervals) == len(rounds)):
            raise InvalidInput("estimates", "one for each round", len(estimates))
    order = sorted(courses, key=lambda label: -courses[label][0][-1])[: len(_KINDS)]
    paths = tuple(_path(label, *courses[label]) for label in courses if label in order)
    left_out = len(courses) - len(paths)
    measured = f"in {unit} " if unit else ""
    words = (
        f"Estimates {measured}from {rounds[0]} to {rounds[-1]}, with "
        f"{rounding.percent_text(level)} intervals."
    )
    return TrendFigure(
        title=title,
        rounds=tuple(rounds),
        y=_axis(unit, paths),
        paths=paths,
        level=level,
        alternative=" ".join([words, *(f"{path.label}: {path.said}." for path in paths)]),
        note=f"The {len(paths)} largest of {len(courses):,} values." if left_out else "",
    )


def _path(
    label: str, estimates: Sequence[float], intervals: Sequence[tuple[float, float]]
) -> _TrendLine:
    # Intervals of 95% are about four standard errors wide.
    digits = rounding.decimal_places(min(high - low for low, high in intervals) / 4)
    first, last = (rounding.nearest_text(estimates[place], digits) for place in (0, -1))
    return _TrendLine(label, tuple(estimates), tuple(intervals), f"{first} to {last}")


def _axis(label: str, paths: Sequence[_TrendLine]) -> Axis:
    ends = [end for path in paths for ends in path.intervals for end in ends]
    ends += [estimate for path in paths for estimate in path.estimates]
    return Axis.around(label, ends, room=_ROOM)


def _scale(figure: TrendFigure, bottom: int) -> Iterator[str]:
    share = rounding.percent_text(figure.level)
    words = f"{figure.y.label}; whiskers: {share}, all together".removeprefix("; ")
    yield element("text", words, x=0, y=12, class_="cf-soft")
    for value, label in figure.y.ticks(most=6):
        y = _down(figure, value)
        yield level(y, f"{_LEFT}%", f"{_RIGHT}%", grid_kind(value))
        at = f"{_LEFT - 1}%"
        yield element("text", label, x=at, y=y + 4, text_anchor="end", class_="cf-soft")
    # Names that would touch are left out, but never the first and the last one.
    last = len(figure.rounds) - 1
    every = max(1, math.ceil(len(figure.rounds) / 8))
    for place, name in enumerate(figure.rounds):
        if place in {0, last} or (place % every == 0 and last - place >= every):
            anchor = {0: "start", last: "end"}.get(place, "middle")
            yield element(
                "text",
                shorten_text(name, 14),
                x=f"{_across(figure, place):.2f}%",
                y=bottom + 16,
                text_anchor=anchor,
                class_="cf-soft",
            )


def _line(figure: TrendFigure, number: int, path: _TrendLine) -> Iterator[str]:
    kind = _KINDS[number]
    shift = _APART * (number - (len(figure.paths) - 1) / 2)
    places = [_across(figure, place) + shift for place in range(len(path.estimates))]
    heights = [_down(figure, estimate) for estimate in path.estimates]
    for x, (low, high) in zip(places, path.intervals, strict=True):
        ends = {"y1": _down(figure, low), "y2": _down(figure, high)}
        # Whiskers are short: dashes would look like gaps in them.
        at, colour = f"{x:.2f}%", f"var(--cf-{_COLOURS[number]})"
        yield element("line", x1=at, x2=at, **ends, class_="cf-line", stroke=colour)
    for place in range(len(places) - 1):
        yield element(
            "line",
            x1=f"{places[place]:.2f}%",
            x2=f"{places[place + 1]:.2f}%",
            y1=heights[place],
            y2=heights[place + 1],
            class_=f"cf-line {kind}",
        )


def _across(figure: TrendFigure, place: int) -> float:
    # The outer rounds leave room for values that stand apart.
    room = _APART * (len(figure.paths) + 1) / 2
    return _LEFT + room + (_RIGHT - _LEFT - 2 * room) * place / (len(figure.rounds) - 1)


def _down(figure: TrendFigure, value: float) -> float:
    return _TOP + _HEIGHT * (1.0 - figure.y.place(value))
