"""Margins, shares and means of a crossed question, from the estimates of its cells."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from chaffinch.privacy.numerics import special
from chaffinch.protocols.intervals import miss_chance
from chaffinch.protocols.joint import JointNoise
from chaffinch.protocols.noise import Floats
from chaffinch.questions import COUNT, Bit, Cross
from chaffinch.release.crossed import Crossed, Derived

_Group = tuple[str, ...]


def crossed_answer(
    question: Cross, joint: JointNoise, estimates: Floats, reports: int, level: float
) -> Crossed:
    """Return everything that follows from the estimates of all cells."""
    told = _Telling(question, joint, estimates, reports, miss_chance(level))
    known = told.known_groups()
    groups = told.groups
    rows = [*told.margins()]
    if known:
        rows += told.means(known) if question.measure else told.shares(known)
    return Crossed(
        questions=tuple(question.questions),
        axes=question.axes,
        rows=tuple(rows),
        unknown=tuple(group for place, group in enumerate(groups) if place not in set(known)),
        unit=question.measure.unit if question.measure else "",
    )


def derived_ends(
    question: Cross,
    joint: JointNoise,
    estimates: Floats,
    reports: int,
    rows: Sequence[Derived],
    *,
    miss: float,
) -> tuple[Floats, Floats]:
    """Return intervals of some rows, each of which misses with ``miss`` at most.

    Those of margins count people; those of shares are parts of 1.
    """
    told = _Telling(question, joint, estimates, reports, miss)
    found = [told.interval_of(row) for row in rows]
    low, high = (np.concatenate([getattr(one, end) for one in found]) for end in ("low", "high"))
    return low, high


class _Telling:
    def __init__(
        self, question: Cross, joint: JointNoise, estimates: Floats, reports: int, miss: float
    ) -> None:
        self.question, self.joint, self.reports, self.miss = question, joint, reports, miss
        self.cells = cells = estimates.reshape(question.sizes)
        self.groups: list[_Group] = list(itertools.product(*question.axes[:-1]))
        self.names = list(question.questions)
        last = question.questions[self.names[-1]]
        self.last_bit = isinstance(last, Bit)
        # Who did not answer stands in the last cell of a group.
        self.answered = question.sizes[-1] - (last.missing == COUNT)
        # A row for each group, a column for each answer to the last question.
        self.grouped = cells.reshape(len(self.groups), -1)

    def known_groups(self) -> list[int]:
        """Return the groups that surely have somebody who answered, all together."""
        found = self._group_counts(self.miss / len(self.groups))
        return np.flatnonzero(found.low > 0).tolist()

    def _group_counts(self, miss: float) -> _Interval:
        answered = self.grouped[:, : self.answered]
        return _sum_intervals(self.joint, answered, self.reports, miss)

    def margins(self) -> Iterator[Derived]:
        """Yield how many people gave each answer to each question but a number."""
        for place, (name, values) in enumerate(zip(self.names, self.question.axes, strict=True)):
            if self.question.measure and place == len(self.names) - 1:
                return
            each, all_of = (
                _sum_intervals(self.joint, self._margin_cells(place), self.reports, miss)
                for miss in (self.miss, self.miss / len(values))
            )
            yield from _rows("margin", name, [(value, ()) for value in values], each, all_of)

    def _margin_cells(self, place: int) -> Floats:
        """Return the cells of each answer to a question, a row for each answer."""
        moved = np.moveaxis(self.cells, place, 0)
        return moved.reshape(len(moved), -1)

    def shares(self, known: Sequence[int]) -> Iterator[Derived]:
        """Yield the share of each answer to the last question, among those who answered it."""
        name, values = self.names[-1], self.question.axes[-1]
        # A share of yes says what that of no is.
        told = range(1 if self.last_bit else 0, len(values))
        # All groups share the chance to miss, not only those that the data have shown to be known.
        family = len(self.groups) * len(told)
        found = [
            [self._share(value, known, miss) for miss in (self.miss, self.miss / family)]
            for value in told
        ]
        for place, group in enumerate(known):
            for value, (each, all_of) in zip(told, found, strict=True):
                one, both = _take(each, place), _take(all_of, place)
                yield from _rows("share", name, [(values[value], self.groups[group])], one, both)

    def _share(self, value: int, groups: Sequence[int], miss: float) -> _Interval:
        """Return the share of an answer in some groups."""
        # An answer has a share of those who answered, and a gap one of everybody.
        width = self.answered if value < self.answered else self.question.sizes[-1]
        cells = self.grouped[groups][:, :width]
        return _ratio_intervals(self.joint, cells, np.arange(width) == value, miss)

    def means(self, known: Sequence[int]) -> Iterator[Derived]:
        """Yield the mean of the number, of everybody and of each group, among who answered it."""
        everybody, groups = [()], [self.groups[place] for place in known]
        for listed, family in ((everybody, 1), (groups, len(self.groups))):
            both = (self._means(listed, miss) for miss in (self.miss, self.miss / family))
            yield from _rows("mean", self.names[-1], [("mean", one) for one in listed], *both)

    def interval_of(self, row: Derived) -> _Interval:
        """Return one row with an interval of its own."""
        if row.kind == "mean":
            return self._means([row.given], self.miss)
        place = self.names.index(row.question)
        value = self.question.axes[place].index(row.value)
        if row.kind == "margin":
            return _sum_intervals(
                self.joint, self._margin_cells(place)[[value]], self.reports, self.miss
            )
        return self._share(value, [self.groups.index(row.given)], self.miss)

    def _means(self, groups: Sequence[_Group], miss: float) -> _Interval:
        """Return the means of some groups, or of everybody: of sums of as many cells each."""
        number, scores = self.question.measure, np.array(self.question.scores)
        assert number is not None  # noqa: S101 - only numbers have means
        if list(groups) == [()]:
            cells, times = self.grouped.sum(axis=0, keepdims=True), len(self.groups)
        else:
            cells, times = self.grouped[[self.groups.index(one) for one in groups]], 1
        cells = cells[:, : self.answered]
        # Rounding moves each person by at most half a level: Hoeffding's variance, and as many
        # people as there can be.
        spread = np.repeat(cells, times, axis=1) / times
        people = _sum_intervals(self.joint, spread, self.reports, miss).high
        rounding = people / (4.0 * (len(scores) - 1) ** 2)
        found = _ratio_intervals(self.joint, cells, scores, miss, rounding=rounding, times=times)
        width = number.high - number.low
        placed = [number.low + width * one for one in (found.estimates, found.low, found.high)]
        return _Interval(placed[0], width * found.errors, placed[1], placed[2])


def _take(found: _Interval, place: int) -> _Interval:
    columns = (found.estimates, found.errors, found.low, found.high)
    return _Interval(*(column[place : place + 1] for column in columns))


def _rows(
    kind: Literal["margin", "share", "mean"],
    question: str,
    told: Sequence[tuple[str, _Group]],
    each: _Interval,
    together: _Interval,
) -> Iterator[Derived]:
    """Yield what is told of some values; nothing of a ratio that nobody is estimated to be in.

    A few messages that take people off a cell are enough for that, and anybody can send them.
    """
    columns = (each.estimates, each.errors, each.low, each.high, together.low, together.high)
    for (value, group), *numbers in zip(told, *(one.tolist() for one in columns), strict=True):
        if math.isnan(numbers[0]):
            continue
        row = Derived(kind, question, value, group, *numbers)
        yield row._replace(of="all") if row.of_all else row


# ----------------------------------------------------------------------------
# Sums of several counts of one histogram, and ratios of two such sums, with intervals.
#
# A sum of estimates is unbiased, and its error has a law that is known (``protocols.joint``): its
# interval is the estimate plus and minus a critical value of that law.
#
# A ratio r = Σ s·h / Σ h over the cells of a group (a share where the scores s are 0 and 1, a mean
# of levels where they lie between) is kept unless T(r) = Σ (s − r)·estimate is beyond its critical
# value: T has mean 0 at the true ratio, whatever the size of the group is [Fieller 1954]. Where the
# group may be empty every ratio may be kept. The critical value is a multiple of the standard
# deviation of T(r), taken from the law itself, which can have far heavier tails than a normal one.

_SEGMENTS = 16
"""Between so many ratios the multiple is that of the end where it is larger."""
_LARGEST_WEIGHT = 24
"""Weights are rounded to so many parts of the largest; only the multiple is taken from them."""
_POINTS = 256
"""Up to so many points per standard deviation of a law that is summed."""


@dataclass(frozen=True, slots=True, eq=False)
class _Interval:
    estimates: Floats
    errors: Floats
    low: Floats
    high: Floats


def _sum_intervals(joint: JointNoise, estimates: Floats, reports: int, miss: float) -> _Interval:
    cells = estimates.shape[-1]
    totals = estimates.sum(axis=-1)
    # Every cell with weight 1: the variance of a sum of cells, with all covariances between them.
    error = math.sqrt(max(float(joint.covariance(1.0, 1.0, np.array([cells]))), 0.0))
    room = error * _critical_multiple(joint, (1,), (cells,), 0.5 * miss)
    # Counts are whole. A millionth covers the rounding of these operations.
    low = np.clip(np.ceil(totals - room - 1e-6), 0.0, reports)
    high = np.clip(np.floor(totals + room + 1e-6), 0.0, reports)
    errors = np.full(totals.shape, error)
    return _Interval(totals, errors, np.minimum(low, high), np.maximum(low, high))


def _ratio_intervals(
    joint: JointNoise,
    estimates: Floats,
    scores: ArrayLike,
    miss: float,
    *,
    rounding: ArrayLike = 0.0,
    times: int = 1,
) -> _Interval:
    """Return Σ score·count / Σ count over the last axis, each with an interval.

    Every estimate is the sum of ``times`` cells. ``rounding`` is the variance that the scores of
    a group have besides, all people together. A ratio is NaN where the estimated group is empty.
    """
    marks = np.asarray(scores, dtype=np.float64)
    ones, many = np.ones_like(marks), np.full(marks.shape, float(times))
    upper, lower = estimates @ marks, estimates.sum(axis=-1)
    own = tuple(
        joint.covariance(*pair, many) for pair in ((marks, marks), (marks, ones), (ones, ones))
    )
    extra = np.broadcast_to(np.asarray(rounding, dtype=np.float64), upper.shape)
    with np.errstate(divide="ignore", invalid="ignore"):
        found = np.where(lower > 0, upper / lower, np.nan)
        spread = own[0] - 2 * found * own[1] + found**2 * own[2] + extra
        errors = np.where(lower > 0, np.sqrt(np.maximum(spread, 0.0)) / lower, np.nan)
    values, counts = np.unique(marks, return_counts=True)
    counts *= times
    steps = np.linspace(0.0, 1.0, _SEGMENTS + 1)
    multiples = [_multiple_at(joint, values, counts, float(step), 0.5 * miss) for step in steps]
    # What is rounded by chance adds up to a normal law, whose middle is wider than that of noise.
    least = float(special.ndtri(1 - 0.5 * miss)) if extra.any() else 0.0
    low, high = np.full(upper.shape, np.inf), np.full(upper.shape, -np.inf)
    for left, right, *ends in zip(steps, steps[1:], multiples, multiples[1:], strict=False):
        kept = _kept(upper, lower, (*own, extra), max(least, *ends), (float(left), float(right)))
        low, high = np.minimum(low, kept[0]), np.maximum(high, kept[1])
    # Nothing is kept where chance went far beyond what is possible: the nearest ratio is left.
    nearest = np.clip(np.nan_to_num(found, nan=0.5), 0.0, 1.0)
    none = low > high
    low, high = np.where(none, nearest, low), np.where(none, nearest, high)
    return _Interval(found, errors, np.maximum(low - 1e-12, 0.0), np.minimum(high + 1e-12, 1.0))


def _kept(
    upper: Floats,
    lower: Floats,
    spreads: tuple[Floats, Floats, Floats, Floats],
    multiple: float,
    segment: tuple[float, float],
) -> tuple[Floats, Floats]:
    """Return the least and the largest r of a segment with |T(r)| ≤ multiple·sd(r).

    (U − rL)² ≤ k²·(A − 2rC + r²B + E) is a quadratic in r; the ends of what it keeps within the
    segment are roots, or ends of the segment. Infinite where it keeps none.
    """
    first, mixed, second, extra = spreads
    square = multiple**2
    bend = lower**2 - square * second
    tilt = -2.0 * upper * lower + 2.0 * square * mixed
    start = upper**2 - square * (first + extra)
    with np.errstate(divide="ignore", invalid="ignore"):
        # The larger root first, and the other one from their product: neither cancels.
        root = np.sqrt(tilt**2 - 4.0 * bend * start)
        stable = -0.5 * (tilt + np.where(tilt >= 0, root, -root))
        places = [stable / bend, start / stable]
        places = [
            np.where((one >= segment[0]) & (one <= segment[1]), one, np.nan) for one in places
        ]
        # An end of the segment is one of what is kept if the quadratic is not above 0 there.
        for end in segment:
            inside = bend * end**2 + tilt * end + start <= 0
            places.append(np.where(inside, end, np.nan))
    found = np.stack(places)
    low = np.min(np.where(np.isnan(found), np.inf, found), axis=0)
    high = np.max(np.where(np.isnan(found), -np.inf, found), axis=0)
    return low, high


def _multiple_at(
    joint: JointNoise, values: Floats, counts: NDArray[Any], ratio: float, tail: float
) -> float:
    weights = values - ratio
    largest = float(np.abs(weights).max())
    if not largest:  # T(r) is 0: all that can be answered has this score
        return 0.0
    whole = np.rint(weights * (_LARGEST_WEIGHT / largest)).astype(int)
    divisor = math.gcd(*whole.tolist())
    return _critical_multiple(
        joint, tuple((whole // divisor).tolist()), tuple(counts.tolist()), tail
    )


@lru_cache(maxsize=1 << 12)
def _critical_multiple(
    joint: JointNoise, weights: tuple[int, ...], cells: tuple[int, ...], tail: float
) -> float:
    """Return k such that a weighted sum of noise is beyond k standard deviations with ``tail``.

    Each way. The law is the inverse Fourier transform of its characteristic function: on the
    integers where it is short, else on a lattice so fine that it is smooth there.
    """
    some, many = np.array(weights, dtype=np.float64), np.array(cells, dtype=np.float64)
    variance = float(joint.covariance(some, some, many)) * joint.slope**2
    if not variance > 1e-9:
        return 0.0
    spread = math.sqrt(variance)
    step = max(1.0, spread / _POINTS)
    # A tail of the heaviest law, the geometric one, falls by e with every 0.71 of these.
    reach = spread * (12.0 - 1.5 * math.log(tail)) + 8.0
    size = 1 << math.ceil(math.log2(2.0 * reach / step))
    middle = round(joint.mean(some, many))
    angles: Floats = 2.0 * math.pi * np.fft.rfftfreq(size, step).astype(np.float64)
    curve = joint.characteristic(angles, some, many) * np.exp(-1j * angles * middle)
    mass = np.fft.fftshift(np.fft.irfft(np.conj(curve), size))
    places = step * np.arange(-(size // 2), size // 2) + (middle - joint.mean(some, many))
    # P[X ≥ place] and P[X ≤ place]; the first place at which it is no more than the tail is taken.
    above, below = np.cumsum(mass[::-1])[::-1], np.cumsum(mass)
    # Points of a smooth law stand for half a step to each side.
    room = 0.5 * step if step > 1.0 else 0.0
    up = places[min(int(np.count_nonzero(above > tail)), size - 1)] + room
    down = -places[max(size - 1 - int(np.count_nonzero(below > tail)), 0)] + room
    return max(float(up), float(down)) / spread
