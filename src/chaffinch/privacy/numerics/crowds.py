"""A search for the worst crowd, with a proof that no other crowd is worse.

Adding records never hurts (S0 Prop. 3.1): whatever a view with more records shows, a view
with fewer can simulate. So every privacy number that a tester wants large (delta, epsilon,
mu, power) is non-increasing in the number of ones and in the number of zeros among the
others. All crowds of a box l ≤ ones ≤ u therefore stay below the smaller crowd that has only
l ones and only the zeros that remain at u. Splitting boxes until the largest such bound meets
the best crowd actually seen brackets the true maximum, for any number of users.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from chaffinch.privacy.numerics.precision import Floats
from chaffinch.privacy.progress import count_step

Ends = tuple[Floats, Floats]
"""Lower and upper ends of one or several numbers, as arrays of the same length."""


@dataclass(frozen=True, slots=True)
class Box:
    """Crowds with ``low`` ≤ counts ≤ ``high`` in every coordinate, in one direction."""

    low: tuple[int, ...]
    high: tuple[int, ...]
    mirrored: bool = False

    @property
    def is_crowd(self) -> bool:
        """Return whether the box holds one crowd only."""
        return self.low == self.high

    def halves(self) -> tuple[Box, Box]:
        """Return the box cut in the middle of its longest side."""
        sides = [high - low for low, high in zip(self.low, self.high, strict=True)]
        axis = sides.index(max(sides))
        middle = (self.low[axis] + self.high[axis]) // 2
        below = (*self.high[:axis], middle, *self.high[axis + 1 :])
        above = (*self.low[:axis], middle + 1, *self.low[axis + 1 :])
        return Box(self.low, below, self.mirrored), Box(above, self.high, self.mirrored)


@dataclass(slots=True)
class Search:
    """What a search has proven; ``lower`` comes from crowds that exist."""

    lower: Floats
    upper: Floats
    best: list[Box]
    """For each number the worst crowd seen."""
    evaluations: int = 0


@dataclass(slots=True)
class _SearchState:
    bound: Callable[[Box], Ends]
    clip: Callable[[Box], Box | None]
    floor: float
    width: Callable[[Floats], Floats]
    result: Search
    settled: Floats
    """Upper ends of everything that was put aside."""
    heap: list[tuple[float, int, Box, Floats]] = field(default_factory=list)

    def add(self, box: Box) -> None:
        clipped = self.clip(box)
        if clipped is None:
            return
        lower, upper = self.bound(clipped)
        self.result.evaluations += 1
        if clipped.is_crowd:
            _keep_best(self.result, lower, clipped)
            # A single crowd cannot be split: its upper end counts as it is.
            np.maximum(self.settled, upper, out=self.settled)
            return
        # The heap gives the smallest first, so the excess is negated; the count breaks ties.
        entry = (-self.excess(upper), self.result.evaluations, clipped, upper)
        heapq.heappush(self.heap, entry)

    def excess(self, upper: Floats) -> float:
        """Return how far above what was seen an upper end is, in allowed widths: 1 is enough."""
        # Below the floor nothing needs to be narrow, and nothing may be divided by 0.
        base = np.maximum(np.maximum(self.result.lower, self.floor), 1e-300)
        with np.errstate(over="ignore"):
            return float(((upper / base - 1.0) / self.width(base)).max())


def find_worst(
    roots: Sequence[Box],
    bound: Callable[[Box], Ends],
    *,
    width: float | Callable[[Floats], Floats],
    floor: float = 0.0,
    most_evaluations: int = 200_000,
    clip: Callable[[Box], Box | None] = lambda box: box,
) -> Search:
    """Return a two-sided bracket of the maximum over all crowds of all roots.

    ``bound`` returns both ends for the crowd that keeps, of a box, only the records all its
    crowds have; at a box of one crowd that is the crowd itself. ``clip`` may shrink a box to
    the crowds that can exist. Stops when every upper end is within ``width`` (relative, or
    given as a function of the lower ends) of its lower end or below ``floor``; a search that
    runs out of evaluations returns what it has proven so far.
    """
    allowed = width if callable(width) else lambda base: np.full(len(base), width)

    def evaluate(box: Box) -> Ends:
        count_step("crowds")
        return bound(box)

    work = _SearchState(
        evaluate, clip, floor, allowed, _sample_and_climb(roots, evaluate, clip), np.zeros(0)
    )
    work.settled = np.zeros_like(work.result.lower)
    for root in roots:
        work.add(root)
    while work.heap and work.result.evaluations < most_evaluations:
        stale, _, box, upper = heapq.heappop(work.heap)
        if -stale <= 1.0:
            # Every entry was this close when it was pushed, and lower ends only rise.
            np.maximum(work.settled, upper, out=work.settled)
            break
        if work.excess(upper) <= 1.0:
            np.maximum(work.settled, upper, out=work.settled)
            continue
        for half in box.halves():
            work.add(half)
    # What was not split any further still counts with the upper end it has.
    for entry in work.heap:
        np.maximum(work.settled, entry[3], out=work.settled)
    work.result.upper = np.maximum(work.settled, work.result.lower)
    return work.result


def _keep_best(result: Search, lower: Floats, crowd: Box) -> None:
    for index in np.flatnonzero(lower > result.lower):
        result.lower[index] = lower[index]
        result.best[index] = crowd


def _sample_and_climb(
    roots: Sequence[Box], bound: Callable[[Box], Ends], clip: Callable[[Box], Box | None]
) -> Search:
    seen: dict[Box, Ends] = {}

    def evaluate(crowd: Box) -> Ends:
        if crowd not in seen:
            seen[crowd] = bound(crowd)
        return seen[crowd]

    # A good lower end prunes the search early, and any crowd that can exist gives a true one.
    starts = [crowd for root in roots for crowd in _edge_crowds(root) if clip(crowd) == crowd]
    lower, upper = evaluate(starts[0])
    result = Search(lower.copy(), upper.copy(), [starts[0]] * len(lower))
    for crowd in starts:
        _keep_best(result, evaluate(crowd)[0], crowd)
    # Of many numbers (a profile) the two ends and the middle are enough to climb for.
    for number in sorted({0, len(result.lower) // 2, len(result.lower) - 1}):
        _climb(roots, clip, result, evaluate, number)
    result.evaluations = len(seen)
    return result


def _edge_crowds(root: Box) -> list[Box]:
    points = [
        (*root.low[:axis], value, *root.low[axis + 1 :])
        for axis in range(len(root.low))
        for value in _sample_counts(root.low[axis], root.high[axis])
    ]
    return [Box(point, point, root.mirrored) for point in points]


def _sample_counts(low: int, high: int) -> list[int]:
    # Powers of four from either end: the worst count may be any order of magnitude away from it.
    points = {low, high, (low + high) // 2}
    step = 1
    while step < high - low:
        points |= {low + step, high - step}
        step *= 4
    return sorted(points)


def _climb(
    roots: Sequence[Box],
    clip: Callable[[Box], Box | None],
    result: Search,
    evaluate: Callable[[Box], Ends],
    number: int,
) -> None:
    # Cheap, and wrong only in speed: a climb that ends too low costs evaluations, never the proof.
    crowd = result.best[number]
    # Every direction has one root: what is mirrored stays mirrored on the way up.
    root = next(r for r in roots if r.mirrored == crowd.mirrored)
    # Far steps first: the worst crowd may be orders of magnitude away from where one starts.
    step = max(1, max(crowd.low) // 2)
    while step:
        for candidate in _neighbours(crowd, step, root):
            if clip(candidate) != candidate:
                continue
            lower = evaluate(candidate)[0]
            better = lower[number] > result.lower[number]
            _keep_best(result, lower, candidate)
            if better:
                crowd = candidate
                break
        else:
            step //= 2


def _neighbours(crowd: Box, step: int, root: Box) -> list[Box]:
    found = []
    for axis, value in enumerate(crowd.low):
        for moved in (value - step, value + step):
            if root.low[axis] <= moved <= root.high[axis]:
                point = (*crowd.low[:axis], moved, *crowd.low[axis + 1 :])
                found.append(Box(point, point, crowd.mirrored))
    return found
