"""A filter by ranges of its columns, for several who make one each.

A digest is a fraction of 2⁶⁴ and its column the same fraction of the width, so a range of columns
is a range of digests. A view of an id goes to every range in which the id has a column, once. So
whoever makes a range sees all views of its ids, and counts them as if there were no others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from chaffinch.errors import checks
from chaffinch.reach.planning.alignment import word_range
from chaffinch.reach.planning.plan import ReachPlan
from chaffinch.reach.publisher.filters import Row, true_rows
from chaffinch.reach.publisher.ids import Digests
from chaffinch.reach.publisher.repeats import LEAST_HELD, thinned
from chaffinch.sampling import digest_again

_MOST_RANGES = 1 << 12


@dataclass(frozen=True)
class ColumnRanges:
    """The columns of a plan's filters in ``count`` ranges of whole words, nearly alike."""

    plan: ReachPlan
    further: bytes = field(repr=False)
    """The key that leads from a digest to further columns."""
    count: int

    def __post_init__(self) -> None:
        checks.whole("number of ranges", self.count, least=1, most=_most(self.plan))

    @classmethod
    def about(cls, wanted: int, plan: ReachPlan, further: bytes) -> ColumnRanges:
        """Return as many ranges as are wanted, or as can be."""
        return cls(plan, further, max(1, min(wanted, _most(plan))))

    def words(self, place: int) -> slice:
        """Return which words of a row a range has."""
        return word_range(self.plan.bits, place, self.count)

    def split(self, views: Digests) -> Iterator[tuple[int, Digests]]:
        """Yield views for each range that has a column of theirs.

        Copies beyond those that count are left out: one id that comes a hundred million times is
        no burden to its range.
        """
        views = thinned(views.copy(), self.plan.audience.frequencies)
        digests, seen = views, np.empty((0, len(views)), np.intp)
        for stage in range(self.plan.hashes):
            if stage:
                digests = digest_again(digests, self.further)
            places = np.searchsorted(self._edges, digests, side="right")
            # A range that has an earlier column of an id has this view of it already.
            new = ~(seen == places).any(axis=0)
            yield from _by_place(places[new], views[new])
            seen = np.vstack([seen, places])

    def rows(self, place: int, views: Sequence[Digests]) -> list[Row]:
        """Return the rows of a range before any flip, from all views that ``split`` gave for it.

        Memory that is never written to is never taken: of the whole width only the columns of
        these ids are. No digest goes to the disk of a machine that is somebody else's.
        """
        words, count = self.words(place), sum(map(len, views))
        rows = true_rows(views, self.plan, self.further, held=count + LEAST_HELD)
        return [row[words].copy() for row in rows]

    @cached_property
    def _edges(self) -> NDArray[np.uint64]:
        """Return the first digest of every range but the first.

        A digest d has the column ⌊d·bits/2⁶⁴⌋, which is at least c from d = c·2⁶⁴/bits on: a whole
        number, as the number of bits is a power of two.
        """
        firsts = [64 * self.words(place).start for place in range(1, self.count)]
        return np.array([(one << 64) // self.plan.bits for one in firsts], np.uint64)


def _most(plan: ReachPlan) -> int:
    return min(_MOST_RANGES, plan.bits // 64)


def _by_place(places: NDArray[np.intp], views: Digests) -> Iterator[tuple[int, Digests]]:
    order = np.argsort(places.astype(np.uint16), kind="stable")
    views = views[order]
    found, starts, sizes = np.unique(places[order], return_index=True, return_counts=True)
    for place, start, size in zip(found.tolist(), starts, sizes, strict=True):
        yield place, views[start : start + size]
