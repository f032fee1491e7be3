"""The worst crowd, found with proof.

Adding records never hurts: whatever a view with more records shows, a view with fewer can
simulate. So every privacy number that a tester wants large (delta, epsilon, mu, power) is
non-increasing in the number of ones and in the number of zeros among the others. All crowds
of a box l ≤ ones ≤ u therefore stay below the smaller crowd that has only l ones and only
the zeros that remain at u. Splitting boxes until the largest such bound meets the best crowd
actually seen brackets the true maximum, for any number of users.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ends = tuple[Floats, Floats]
"""Lower and upper ends of one or several numbers, as arrays of the same length."""


@dataclass(slots=True)
class Line:
    """A family of crowds: ``ones`` from 0 to ``last``, the rest zeros.

    ``bound(l, u)`` returns both ends of the numbers for the crowd that has l ones and the
    zeros left at u; at l = u that is the crowd itself.
    """

    last: int
    bound: Callable[[int, int], Ends]


@dataclass(slots=True)
class Search:
    """What a search has proven so far; ``lower`` comes from crowds that exist."""

    lower: Floats
    upper: Floats
    evaluations: int = 0
    best: list[tuple[int, int]] = field(default_factory=list)
    """For each number the (line, ones) of the worst crowd seen."""


def worst(
    lines: list[Line], *, width: float, floor: float = 0.0, most_evaluations: int = 200_000
) -> Search:
    """Return a two-sided bracket of the maximum over all crowds of all lines.

    Stops when every upper end is within ``width`` (relative) of its lower end or below
    ``floor``; a search that runs out of evaluations returns what it has proven.
    """
    state = _first_look(lines)
    heap: list[tuple[float, int, int, int, int, Floats]] = []
    done = np.zeros_like(state.upper)
    counter = 0

    def push(line: int, low: int, high: int) -> None:
        nonlocal counter
        lower, upper = lines[line].bound(low, high)
        state.evaluations += 1
        if low == high:
            _keep_best(state, lower, line, low)
            np.maximum(done, upper, out=done)
            return
        counter += 1
        heapq.heappush(heap, (-_excess(upper, state.lower, floor), counter, line, low, high, upper))

    for index, line in enumerate(lines):
        push(index, 0, line.last)
    while heap and state.evaluations < most_evaluations:
        stale, _, line, low, high, upper = heapq.heappop(heap)
        excess = _excess(upper, state.lower, floor)
        if excess <= 1.0 + width:
            # The order in the heap may be out of date, but only downwards.
            if -stale <= 1.0 + width:
                np.maximum(done, upper, out=done)
                break
            np.maximum(done, upper, out=done)
            continue
        middle = (low + high) // 2
        push(line, low, middle)
        push(line, middle + 1, high)
    for entry in heap:
        np.maximum(done, entry[5], out=done)
    state.upper = np.maximum(done, state.lower)
    return state


def _excess(upper: Floats, lower: Floats, floor: float) -> float:
    """Return the largest factor by which an upper end is above what was seen."""
    if np.all(upper <= np.maximum(lower, floor)):
        return 1.0
    base = np.maximum(np.maximum(lower, floor), 1e-320)
    return float((upper / base).max())


def _keep_best(state: Search, lower: Floats, line: int, ones: int) -> None:
    for index in np.flatnonzero(lower > state.lower):
        state.lower[index] = lower[index]
        state.best[index] = (line, ones)


def _first_look(lines: list[Line]) -> Search:
    """Evaluate a spread of crowds, then climb: a good lower end prunes the search early."""
    seen: dict[tuple[int, int], Ends] = {}

    def look(line: int, ones: int) -> Ends:
        if (line, ones) not in seen:
            seen[line, ones] = lines[line].bound(ones, ones)
        return seen[line, ones]

    first = look(0, 0)
    state = Search(first[0].copy(), first[1].copy(), best=[(0, 0)] * len(first[0]))
    for index, line in enumerate(lines):
        for ones in _spread(line.last):
            _keep_best(state, look(index, ones)[0], index, ones)
    for number in _sample(len(state.lower)):
        _climb(lines, state, look, number)
    state.evaluations = len(seen)
    return state


def _spread(last: int) -> list[int]:
    """Return 0, last and powers of four from both ends."""
    points = {0, last, last // 2}
    step = 1
    while step < last:
        points |= {step, last - step}
        step *= 4
    return sorted(points)


def _sample(count: int) -> list[int]:
    return sorted({0, count // 2, count - 1})


def _climb(
    lines: list[Line], state: Search, look: Callable[[int, int], Ends], number: int
) -> None:
    """Walk uphill in ones with halving steps: cheap, and wrong only in speed."""
    line, ones = state.best[number]
    step = max(1, ones // 2)
    while step:
        moved = False
        for candidate in (ones - step, ones + step):
            if 0 <= candidate <= lines[line].last:
                lower = look(line, candidate)[0]
                better = lower[number] > state.lower[number]
                _keep_best(state, lower, line, candidate)
                if better:
                    ones, moved = candidate, True
                    break
        if not moved:
            step //= 2
