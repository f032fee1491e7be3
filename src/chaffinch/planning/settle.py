"""One root search for the planner: the largest strength that still keeps a promise."""

from __future__ import annotations

import math
from collections.abc import Callable

from chaffinch.errors import GuaranteeNotProven

_FIRST_STEP = 0.02
_MOST_STEPS = 80


def settle(
    excess: Callable[[float], float],
    guess: float,
    *,
    least: float,
    most: float,
    tolerance: float = 5e-4,
) -> float | None:
    """Return a number near ``guess`` with excess ≤ 0 such that a little more has excess > 0.

    ``excess`` rises with the number and is expensive, so steps follow its slope in the
    logarithm. What could not be proven counts as too much. None: not even ``least`` will do.

    >>> round(settle(lambda x: x * x - 2, 1.0, least=0.01, most=100, tolerance=1e-6), 5)
    1.41421
    """

    def value(place: float) -> float:
        try:
            return excess(math.exp(place))
        except GuaranteeNotProven:
            return math.inf

    ends = _around(value, math.log(guess), math.log(least), math.log(most))
    if ends is None:
        return None
    low, below, high, above = ends
    for count in range(_MOST_STEPS):
        if high - low <= tolerance:
            break
        share = 0.5
        if count % 3 < 2 and math.isfinite(above - below) and above > below:
            # Aim a little to the safe side, so that the last step is one that counts.
            share = min(max(-below / (above - below), 0.0), 1.0)
            margin = 0.4 * tolerance / (high - low)
            share = min(max(share - margin if count % 2 == 0 else share + margin, 0.02), 0.98)
        middle = low + share * (high - low)
        reached = value(middle)
        if reached <= 0:
            low, below = middle, reached
        else:
            high, above = middle, reached
    return math.exp(low)


def _around(
    value: Callable[[float], float], guess: float, floor: float, ceiling: float
) -> tuple[float, float, float, float] | None:
    """Return a place with value ≤ 0, its value, a place above it, and that one's value.

    Both places are the ceiling where even that is not too much.
    """
    low = high = min(max(guess, floor), ceiling)
    below = above = value(low)
    step = _FIRST_STEP
    while below > 0:
        if low <= floor:
            return None
        high, above = low, below
        low = max(low - step, floor)
        below, step = value(low), 3 * step
    while above <= 0:
        if high >= ceiling:
            return high, above, high, above
        low, below = high, above
        high = min(high + step, ceiling)
        above, step = value(high), 3 * step
    return low, below, high, above
