"""Margins, shares and means of a crossed question, from the estimates of its cells."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np

from chaffinch.analysis.intervals import miss_chance
from chaffinch.analysis.sums import Interval, ratio_intervals, sum_intervals
from chaffinch.protocols.joint import JointNoise
from chaffinch.protocols.noise import Floats
from chaffinch.questions import COUNT, Bit, Cross
from chaffinch.release.crossed import Crossed, Derived

_Group = tuple[str, ...]


def crossed_answer(
    question: Cross, joint: JointNoise, estimates: Floats, reports: int, level: float
) -> Crossed:
    """Return everything that follows from the estimates of all cells."""
    told = _Telling(question, joint, estimates.reshape(question.sizes), reports, level)
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


class _Telling:
    """The cells of one crossed question, and what they are judged by."""

    def __init__(
        self, question: Cross, joint: JointNoise, cells: Floats, reports: int, level: float
    ) -> None:
        self.question, self.joint, self.cells, self.reports = question, joint, cells, reports
        self.miss = miss_chance(level)
        self.groups: list[_Group] = list(itertools.product(*question.axes[:-1]))
        self.names = list(question.questions)
        last = question.questions[self.names[-1]]
        self.last_bit = isinstance(last, Bit)
        # Who did not answer stands in the last cell of a group.
        self.answered = question.sizes[-1] - (last.missing == COUNT)
        self.grouped = cells.reshape(len(self.groups), -1)

    def known_groups(self) -> list[int]:
        """Return the groups that surely have somebody who answered, all together."""
        found = self._group_counts(self.miss / len(self.groups))
        return np.flatnonzero(found.low > 0).tolist()

    def _group_counts(self, miss: float) -> Interval:
        answered = self.grouped[:, : self.answered]
        return sum_intervals(self.joint, answered, self.reports, miss)

    def margins(self) -> Iterator[Derived]:
        """Yield how many people gave each answer to each question but a number."""
        for place, (name, values) in enumerate(zip(self.names, self.question.axes, strict=True)):
            if self.question.measure and place == len(self.names) - 1:
                return
            sums = np.moveaxis(self.cells, place, 0).reshape(len(values), -1)
            each, all_of = (
                sum_intervals(self.joint, sums, self.reports, miss)
                for miss in (self.miss, self.miss / len(values))
            )
            yield from _rows("margin", name, [(value, ()) for value in values], each, all_of)

    def shares(self, known: Sequence[int]) -> Iterator[Derived]:
        """Yield the share of each answer to the last question, among those who answered it."""
        name, values = self.names[-1], self.question.axes[-1]
        # A share of yes says what that of no is.
        told = range(1 if self.last_bit else 0, len(values))
        family = len(self.groups) * len(told)
        found = []
        for value in told:
            width = self.answered if value < self.answered else len(values)
            scores = np.arange(width) == value
            cells = self.grouped[known][:, :width]
            found.append(
                [
                    ratio_intervals(self.joint, cells, scores, miss)
                    for miss in (self.miss, self.miss / family)
                ]
            )
        for place, group in enumerate(known):
            for value, (each, all_of) in zip(told, found, strict=True):
                one, both = _take(each, place), _take(all_of, place)
                yield from _rows("share", name, [(values[value], self.groups[group])], one, both)

    def means(self, known: Sequence[int]) -> Iterator[Derived]:
        """Yield the mean of the number, of everybody and of each group, among who answered it."""
        everybody = self.grouped.sum(axis=0, keepdims=True)[:, : self.answered]
        yield from self._means(everybody, len(self.groups), [()], 1)
        cells = self.grouped[known][:, : self.answered]
        groups = [self.groups[place] for place in known]
        yield from self._means(cells, 1, groups, len(self.groups))

    def _means(
        self, cells: Floats, times: int, groups: Sequence[_Group], family: int
    ) -> Iterator[Derived]:
        """Yield means of levels, each of which is the sum of ``times`` cells."""
        number, scores = self.question.measure, np.array(self.question.scores)
        assert number is not None  # noqa: S101 - only numbers have means
        both = []
        for miss in (self.miss, self.miss / family):
            # Rounding moves each person by at most half a level: Hoeffding's variance, and as
            # many people as there can be.
            people = sum_intervals(
                self.joint, np.repeat(cells, times, axis=1) / times, self.reports, miss
            ).high
            rounding = people / (4.0 * (len(scores) - 1) ** 2)
            found = ratio_intervals(self.joint, cells, scores, miss, rounding=rounding, times=times)
            width = number.high - number.low
            placed = [number.low + width * one for one in (found.estimates, found.low, found.high)]
            both.append(Interval(placed[0], width * found.errors, placed[1], placed[2]))
        yield from _rows("mean", self.names[-1], [("mean", group) for group in groups], *both)


def _take(found: Interval, place: int) -> Interval:
    columns = (found.estimates, found.errors, found.low, found.high)
    return Interval(*(column[place : place + 1] for column in columns))


def _rows(
    kind: Literal["margin", "share", "mean"],
    question: str,
    told: Sequence[tuple[str, _Group]],
    each: Interval,
    together: Interval,
) -> Iterator[Derived]:
    columns = (each.estimates, each.errors, each.low, each.high, together.low, together.high)
    for (value, group), *numbers in zip(told, *(one.tolist() for one in columns), strict=True):
        yield Derived(kind, question, value, group, *numbers)
