"""What a promise costs: the error against epsilon, both on logarithmic scales.

Three lines: this plan, a centre whom everybody trusts, and devices that trust nobody. Places across
are percentages and places down are pixels, so letters keep their size; the lines stand in a picture
of their own that is stretched, with strokes that are not.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar, NamedTuple, Protocol

from chaffinch.charts.axis import Axis
from chaffinch.charts.svg import (
    Drawing,
    Picture,
    across,
    element,
    full_width,
    level,
    scale_below,
    upright,
)
from chaffinch.errors import InvalidInput

_HEIGHT = 190
_WIDE = 1000
"""Width of the stretched picture, in units of its own."""
_MOST_TICKS = 8
_LETTERS = 16
"""The height of a number."""
_CLEAR = 12
"""So far the middle of a number stays away from lines."""
_NAME_SHARE = 0.4
"""The share of a narrow picture that the longest name takes."""
_NOTE = (
    "How far intervals reach to each side, in % of the people or of a range, against epsilon; "
    "both axes are logarithmic."
)


class PricePoint(Protocol):
    """What one promise costs: half-widths of intervals, as shares; None where there is no plan."""

    @property
    def epsilon(self) -> float:
        """Return what is promised."""

    @property
    def plan(self) -> float | None:
        """Return what the plan would cost that would be chosen."""

    @property
    def centre(self) -> float | None:
        """Return what a centre would cost whom everybody trusts."""

    @property
    def local(self) -> float | None:
        """Return what it costs to trust nobody."""


class _Line(NamedTuple):
    name: str
    kind: str
    values: tuple[float | None, ...]
    below: bool


@dataclass(frozen=True, slots=True)
class PriceFigure(Picture):
    """The picture of a price curve, with a mark at one epsilon."""

    title: str
    x: Axis
    y: Axis
    points: tuple[PricePoint, ...]
    marked: float
    alternative: str
    labelled: bool = True
    """Whether the numbers of the axis stand below; else there is a dial that says them."""
    rules: ClassVar[str] = """
.cf-name,.cf-value{paint-order:stroke;stroke:var(--card,var(--cf-paper));stroke-width:4px}
.cf-name{font-weight:600}
.cf-proven-name{fill:var(--cf-main)}
.cf-claim-0-name{fill:var(--cf-leak)}
.cf-reference-name{fill:var(--cf-soft)}
.cf-handle{stroke:var(--cf-ink);stroke-dasharray:2 3}
.cf-here{fill:var(--card,var(--cf-paper));stroke:var(--cf-main);stroke-width:3}
"""

    def error_at(self, epsilon: float) -> float | None:
        """Return about what a promise costs between points; None beyond them, or without a plan."""
        known = [(math.log(one.epsilon), math.log(one.plan)) for one in self.points if one.plan]
        place = math.log(epsilon)
        for (left, low), (right, high) in pairwise(known):
            if left - 1e-9 <= place <= right + 1e-9:
                return math.exp(low + (high - low) * (place - left) / (right - left))
        return None

    def spot(self, epsilon: float, error: float) -> tuple[str, float]:
        """Return where a promise and its error stand: in percent across, in pixels down."""
        return across(self.x, epsilon), round(self._down(error), 1)

    def _draw(self, *, name: str, styled: bool) -> Drawing:  # noqa: ARG002 - alike on any page
        body = [*self._grid(), *self._lines(), *self._values(), *self._names(), *self._mark()]
        if not self.labelled:
            return Drawing(body, full_width(_HEIGHT + 4), "")
        some = self.points[:: math.ceil(len(self.points) / _MOST_TICKS)]
        body += scale_below(
            self.x, _HEIGHT, ticks=[(one.epsilon, f"{one.epsilon:g}") for one in some]
        )
        return Drawing(body, full_width(_HEIGHT + 38), _NOTE)

    def _grid(self) -> Iterator[str]:
        for _, y in self._levels():
            yield level(y, 0, "100%", "cf-grid")

    def _values(self) -> Iterator[str]:
        lines = [*self._series()]
        names = [self._name_height(line) for line in lines]
        few = math.ceil(_NAME_SHARE / 2 * len(self.points))

        def room(height: float, part: slice, *others: float) -> float:
            values = [one for line in lines for one in line.values[part] if one]
            return min(abs(height - one) for one in (*map(self._down, values), *others, math.inf))

        for value, y in self._levels():
            # At the right, unless a line is there: lines fall, so the left is free below them.
            right = room(y - 8, slice(-few, None)) >= _CLEAR
            right = right or room(y - 8, slice(few), *names) < _CLEAR
            x, anchor = ("100%", "end") if right else ("0", "start")
            words, kind = f"± {_share(value)}", "cf-soft cf-value"
            yield element("text", words, x=x, y=y - 4, text_anchor=anchor, class_=kind)

    def _levels(self) -> Iterator[tuple[float, float]]:
        for value, _ in self.y.ticks(most=6):
            y = self._down(value)
            if y >= _LETTERS:  # above, a number would stand on what is above the picture
                yield value, y

    def _lines(self) -> Iterator[str]:
        inner = []
        for line in self._series():
            places = [
                f"{_WIDE * self.x.place(point.epsilon):.1f},{self._down(value):.1f}"
                for point, value in zip(self.points, line.values, strict=True)
                if value
            ]
            if len(places) > 1:
                inner.append(
                    element(
                        "polyline",
                        points=" ".join(places),
                        class_=f"cf-line {line.kind}",
                        vector_effect="non-scaling-stroke",
                    )
                )
        yield (
            f'<svg x="0" y="0" width="100%" height="{_HEIGHT}" viewBox="0 0 {_WIDE} {_HEIGHT}" '
            f'preserveAspectRatio="none">{"".join(inner)}</svg>'
        )

    def _names(self) -> Iterator[str]:
        for line in self._series():
            y = self._name_height(line)
            if y < math.inf:
                yield element("text", line.name, x="1%", y=y, class_=f"cf-name {line.kind}-name")

    def _name_height(self, line: _Line) -> float:
        """Return where a name stands: above where its line begins, or below where that has sunk."""
        reach = math.ceil(_NAME_SHARE * len(self.points))
        known = [self._down(one) for one in line.values[:reach] if one]
        if not known:
            return math.inf
        return max(known) + 16 if line.below else min(known) - 8

    def _mark(self) -> Iterator[str]:
        x = across(self.x, self.marked)
        yield upright(x, 0, _HEIGHT, "cf-handle")
        error = self.error_at(self.marked)
        if error is not None:
            yield element("circle", cx=x, cy=self._down(error), r=5, class_="cf-here")

    def _series(self) -> Iterator[_Line]:
        columns = zip(*((one.local, one.plan, one.centre) for one in self.points), strict=True)
        names = (
            ("trusting nobody", "cf-claim-0", False),
            ("this plan", "cf-proven", False),
            ("a trusted centre", "cf-reference", True),
        )
        for (name, kind, below), values in zip(names, columns, strict=True):
            yield _Line(name, kind, values, below)

    def _down(self, value: float) -> float:
        return _HEIGHT * (1.0 - self.y.place(value))


def price_chart(
    prices: Iterable[PricePoint], *, marked: float, labelled: bool = True
) -> PriceFigure:
    """Return the picture of what promises cost, from ``chaffinch.planning.price``.

    One of them is ``marked``. What is not ``labelled`` has no numbers below.

    >>> from chaffinch import planning
    >>> from chaffinch.questions import Bit
    >>> prices = planning.price(Bit(), users=5000, epsilons=[1.0, 0.5], protocol="flips")
    >>> price_chart(prices, marked=1.0).alternative
    'The error falls from ± 0.48% at epsilon 0.5 to ± 0.298% at epsilon 1.'
    """
    points = sorted(prices, key=lambda one: one.epsilon)
    known = [one for one in points if one.plan]
    if len(known) < 2:
        raise InvalidInput("price", "of two promises or more that have a plan", len(known))
    values = [value for one in points for value in (one.plan, one.centre, one.local) if value]
    first, last = known[0], known[-1]
    words = (
        f"The error falls from ± {_share(first.plan or 0.0)} at epsilon {first.epsilon:g} to "
        f"± {_share(last.plan or 0.0)} at epsilon {last.epsilon:g}."
    )
    return PriceFigure(
        title="What a promise costs",
        x=Axis("epsilon", points[0].epsilon, points[-1].epsilon, "log"),
        y=Axis("error", 0.7 * min(values), 3.0 * max(values), "log"),
        points=tuple(points),
        marked=marked,
        alternative=words,
        labelled=labelled,
    )


def _share(share: float) -> str:
    """Return a share as it is read off an axis.

    >>> _share(0.0042)
    '0.42%'
    """
    return f"{100 * share:.3g}%"
