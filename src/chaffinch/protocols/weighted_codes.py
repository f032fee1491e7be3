"""Codes of weighted numbers, and the sets of messages, atoms, whose weights add up to nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise

import numpy as np

from chaffinch.protocols.bursts import Codes


@dataclass(frozen=True, eq=False)
class Atoms:
    """Sets of messages that are sent together, in parts that are drawn alike."""

    lists: tuple[tuple[int, ...], ...]
    parts: dict[str, tuple[int, int]]
    """By name the first atom of a part, and how many it has."""

    @cached_property
    def lengths(self) -> Codes:
        """Return how many messages each atom has."""
        return np.array([len(codes) for codes in self.lists], np.int64)

    @cached_property
    def _flat(self) -> Codes:
        return np.array([code for codes in self.lists for code in codes], np.int64)

    @cached_property
    def _starts(self) -> Codes:
        return np.concatenate([[0], np.cumsum(self.lengths)[:-1]])

    def codes_of(self, atoms: Codes) -> Codes:
        """Return the codes of some atoms, one behind another."""
        lengths = self.lengths[atoms]
        ends = np.cumsum(lengths)
        within = np.arange(int(lengths.sum())) - np.repeat(ends - lengths, lengths)
        return np.asarray(self._flat[np.repeat(self._starts[atoms], lengths) + within])


@dataclass(frozen=True, eq=False)
class _Group:
    """The codes of a group of levels: their place, the weight of the first, and how many."""

    first: int
    least: int
    number: int
    grain: int
    """2 to the power of the lowest level: weights are so far apart."""


@dataclass(frozen=True, eq=False)
class Layout:
    """Which codes there are, in their order: whole codes, those of groups, units, and two tops.

    >>> from chaffinch.protocols.weighted_codes import Layout
    >>> layout = Layout.of(3, (3, 2))
    >>> layout.weights[:21].tolist()
    [-5, -4, -3, -2, -1, 0, 1, 2, -48, -40, -32, -24, -16, -8, 0, 8, 16, 24, 32, 40, 48]
    >>> layout.weights[layout.answer(np.array([98 - 48]))].tolist()
    [[2, 0]]
    """

    tops: int
    groups: tuple[_Group, ...]
    levels: int
    whole: int
    """How many whole codes there are: none, or one for each number of steps."""

    @classmethod
    def of(cls, tops: int, sizes: Sequence[int], *, whole: bool = False) -> Layout:
        """Return the layout of a number with so many tops, and so many levels in each group."""
        return _layout(tops, tuple(sizes), whole)

    @property
    def _units(self) -> int:
        last = self.groups[-1]
        return last.first + last.number

    @property
    def size(self) -> int:
        """Return how many codes there are."""
        return self._units + self.levels + 2

    @property
    def _middle(self) -> int:
        return (self.tops << self.levels) // 2

    @cached_property
    def weights(self) -> Codes:
        """Return what each code weighs, in steps."""
        groups = [one.least + one.grain * np.arange(one.number) for one in self.groups]
        units = [(-2) ** level for level in range(self.levels + 1)]
        whole = np.arange(self.whole) - self._middle
        found = np.concatenate([whole, *groups, units, [-units[-1]]])
        found.setflags(write=False)
        return np.asarray(found, np.int64)

    def part_of(self, code: int) -> str:
        """Return in a few words what a code is."""
        if code < self.whole:
            return "number"
        if code < self._units:
            place = sum(code >= one.first for one in self.groups)
            return "number" if len(self.groups) == 1 and not self.whole else f"part {place}"
        return "unit" if code < self._units + self.levels else "top"

    def answer(self, steps: Codes) -> Codes:
        """Return the codes of numbers of steps: a row for each number."""
        return steps[:, None] if self.whole else self._parts(steps - self._middle)

    def _parts(self, weight: Codes) -> Codes:
        """Return the code of each group, whose weights add up to these."""
        found, rest = [], weight
        for group, after in pairwise(self.groups):
            index = (rest - group.least) // group.grain % group.number
            found.append(group.first + index)
            rest = rest - (group.least + group.grain * index)
            assert after.grain == group.grain * group.number  # noqa: S101 - by construction
        last = self.groups[-1]
        found.append(last.first + (rest - last.least) // last.grain)
        return np.stack(found, axis=-1)

    def units(self, weight: int) -> list[int]:
        """Return the units, at most one of each level, and the tops that weigh so much."""
        found = []
        for level in range(self.levels):
            digit = weight & 1
            found += [self._units + level] * digit
            weight = (weight - digit) // -2
        top = self._units + self.levels + (weight < 0)
        return [*found, *([top] * abs(weight))]

    @cached_property
    def atoms(self) -> Atoms:
        """Return all atoms; each adds up to nothing, but for single units and single tops."""
        units, top = self._units, self._units + self.levels
        codes = range(self.whole, units)
        parts: dict[str, list[tuple[int, ...]]] = {
            "codes": [(code, *self.units(-int(self.weights[code]))) for code in codes],
            "links": [(u, u, u + 1) for u in range(units, top)],
            "units": [(u,) for u in range(units, top)],
            "tops": [(top,), (top + 1,)],
            "pairs": [(top, top + 1)],
        }
        if self.whole:
            others = self._parts(-self.weights[: self.whole])
            parts["whole"] = [(code, *row) for code, row in enumerate(others.tolist())]
        places, first = {}, 0
        for name, lists in parts.items():
            places[name] = first, len(lists)
            first += len(lists)
        return Atoms(tuple(one for lists in parts.values() for one in lists), places)


@lru_cache(maxsize=16)
def _layout(tops: int, sizes: tuple[int, ...], whole: bool) -> Layout:  # noqa: FBT001 - of a cache
    # Kept: a search for the noise of one crowd asks for the same layout all the time.
    levels = sum(sizes)
    steps = tops << levels
    ends = [-(steps // 2), steps - steps // 2]
    first, level = steps + 1 if whole else 0, 0
    groups = []
    for size in sizes[:-1]:
        # −(−2)^level times the numbers of so many digits in base −2: 2^size numbers in a row.
        signs = [-((-2) ** (level + digit)) for digit in range(size)]
        least = sum(weight for weight in signs if weight < 0)
        groups.append(_Group(first, least, 1 << size, 1 << level))
        first, level = first + (1 << size), level + size
        # What is left is a multiple of the next grain.
        ends = [(end - least) >> level << level for end in ends]
    number = ((ends[1] - ends[0]) >> level) + 1
    groups.append(_Group(first, ends[0], number, 1 << level))
    return Layout(tops, tuple(groups), levels, steps + 1 if whole else 0)
