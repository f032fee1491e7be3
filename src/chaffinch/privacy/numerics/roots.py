"""Root finding: the smallest or largest number that keeps a promise, for the whole package.

A test that costs little, and is true on one side of a border and false on the other, is
bisected; both functions return the side on which it is true:

* ``bisect_whole(holds, good, bad)`` between whole numbers,
* ``bisect_real(holds, good, bad, steps=…)`` between floats, by halves of the interval or, with
  ``geometric``, of its logarithm.

A privacy curve costs much, and its shape is known, so a few evaluations are enough:

* ``find_crossing(curve, level, top=…)`` where a falling curve passes a level, from both sides,
* ``find_crossing_below(curve, level, top=…)`` the same where it is thought to be near top,
* ``narrow_crossing(curve, level, left, right)`` the same between two known places,
* ``find_largest(excess, guess, least=…, most=…)`` the largest number whose excess is not
  positive, from below only: fewer evaluations where the other side need not be shown.

None of them proves that a curve is monotone. The promise is about the place that is returned:
it was itself seen on the side that was asked for (or was given by the caller as lying there).
"""

from __future__ import annotations

import math
from collections.abc import Callable

from chaffinch.errors import GuaranteeNotProven
from chaffinch.privacy.progress import count_step

Curve = Callable[[float], float]

_MOST_STEPS = 200
_SMALLEST = 1e-250
_FARTHEST = 1e4
"""A curve that has no known end is not followed further."""


def bisect_whole(holds: Callable[[int], bool], good: int, bad: int) -> int:
    """Return the last whole number from ``good`` towards ``bad`` at which ``holds`` is true.

    Either may be the larger one. It is taken as known that it holds at ``good`` and not at
    ``bad``; neither is asked.

    >>> bisect_whole(lambda n: n * n <= 50, good=0, bad=50)
    7
    >>> bisect_whole(lambda n: n * n >= 50, good=50, bad=0)
    8
    """
    while abs(good - bad) > 1:
        middle = (good + bad) // 2
        good, bad = (middle, bad) if holds(middle) else (good, middle)
    return good


def bisect_real(
    holds: Callable[[float], bool],
    good: float,
    bad: float,
    *,
    steps: int = _MOST_STEPS,
    tolerance: float = 0.0,
    geometric: bool = False,
) -> float:
    """Return a number near the border between ``good`` and ``bad``, where ``holds`` is true.

    It is taken as known that it holds at ``good`` and not at ``bad``; neither is asked. The
    search ends after ``steps``, when the interval is no wider than ``tolerance`` times its
    larger end, or when no float is left inside. ``geometric`` needs positive ends.

    >>> round(bisect_real(lambda x: x * x <= 2, good=0.0, bad=2.0), 12)
    1.414213562373
    """
    for _ in range(steps):
        if abs(good - bad) <= tolerance * max(good, bad):
            break
        middle = math.sqrt(good * bad) if geometric else 0.5 * (good + bad)
        if middle in {good, bad}:
            break
        good, bad = (middle, bad) if holds(middle) else (good, middle)
    return good


# Where a falling curve crosses a level ------------------------------------------------------


def find_crossing(
    curve: Curve, level: float, *, top: float, tolerance: float, guess: float = 1.0
) -> tuple[float, float]:
    """Return (left, right): ``curve`` was seen above ``level`` at left, and at most it at right.

    ``curve(top)`` is known to be at most ``level``. If the curve starts at or below the level
    both ends are 0. Otherwise right − left ≤ tolerance·right, or left is 0 because no point
    above was found. An infinite ``top`` means that no such place is known; right is infinite
    too if none is found up to 10⁴.
    """
    start = curve(0.0)
    if start <= level:
        return 0.0, 0.0
    left, right = (0.0, _height(start, level)), (top, -math.inf)
    middle = min(guess, top)
    while middle < top:
        height = _height_at(curve, middle, level)
        if height <= 0:
            right = (middle, height)
            break
        left, middle = (middle, height), min(2.0 * middle, top)
        # A curve that has not fallen so far out may never fall: infinity is the only proven end.
        if middle > _FARTHEST and math.isinf(top):
            return left[0], math.inf
    return _narrow(curve, level, left, right, tolerance)


def find_crossing_below(
    curve: Curve, level: float, *, top: float, tolerance: float, near: float
) -> tuple[float, float]:
    """Return (left, right) as `find_crossing` does, where the crossing is just below ``top``.

    The first step down is by ``near`` times top, and each further one eight times as long.
    """
    right, step = (top, min(_height_at(curve, top, level), 0.0)), near
    while step < 1.0:
        place = top * (1.0 - step)
        height = _height_at(curve, place, level)
        if height > 0:
            return _narrow(curve, level, (place, height), right, tolerance)
        right, step = (place, height), 8.0 * step
    start = curve(0.0)
    if start <= level:
        return 0.0, 0.0
    return _narrow(curve, level, (0.0, _height(start, level)), right, tolerance)


def narrow_crossing(
    curve: Curve, level: float, left: float, right: float, *, tolerance: float
) -> tuple[float, float]:
    """Return (left, right) moved together until right − left ≤ tolerance·right.

    The curve is above ``level`` at the given left and at most it at the given right.
    """
    ends = [(place, _height_at(curve, place, level)) for place in (left, right)]
    return _narrow(curve, level, ends[0], ends[1], tolerance)


def _narrow(
    curve: Curve,
    level: float,
    left: tuple[float, float],
    right: tuple[float, float],
    tolerance: float,
) -> tuple[float, float]:
    """Run regula falsi on ln(curve), nearly a parabola for privacy curves, with halved weights.

    The halved weights are the Illinois rule: an end that stays twice is pulled towards the
    level. Where that does not halve the interval in three steps, it is halved outright.
    """
    (a, high), (b, low) = left, right
    span, last, stalled = b - a, 0, 0
    for _ in range(_MOST_STEPS):
        if b - a <= tolerance * b or b < _SMALLEST:
            break
        # A step a little past the estimate, away from the end that moved last, closes both.
        push = -0.4 * last * tolerance * b
        middle = _between((a, high), (b, low), push, halve=stalled >= 3)
        if not a < middle < b:  # No float is left inside.
            break
        height = _height_at(curve, middle, level)
        if height <= 0:
            b, low = middle, height
            # The same end moved twice, so the one that stayed counts half.
            high, last = (0.5 * high if last == 1 else high), 1
        else:
            a, high = middle, height
            low, last = (0.5 * low if last == -1 else low), -1
        halved = b - a <= 0.5 * span
        span, stalled = (b - a, 0) if halved else (span, stalled + 1)
    return a, b


def _between(
    left: tuple[float, float], right: tuple[float, float], push: float, *, halve: bool
) -> float:
    (a, high), (b, low) = left, right
    # Halved weights may underflow to 0 on both sides, where the curve runs along the level.
    if not halve and math.isfinite(low) and low < high:
        guess = a + high / (high - low) * (b - a) + push
        if a < guess < b:
            return guess
    # Ends that are orders of magnitude apart are halved in their logarithm.
    return math.sqrt(a * b) if 0 < a < 0.1 * b else 0.5 * (a + b)


def _height_at(curve: Curve, place: float, level: float) -> float:
    count_step("points of a curve")
    return _height(curve(place), level)


def _height(value: float, level: float) -> float:
    """Return ln(value/level), and −inf for 0."""
    if value <= 0:
        return -math.inf
    # At most the level counts as not above, whatever the logarithm rounds to.
    height = math.log(value) - math.log(level)
    return max(height, 5e-324) if value > level else min(height, 0.0)


# The largest number that keeps a promise ----------------------------------------------------

_MOST_TRIES = 60
_LONGEST_STEP = 0.5
_FIRST_STEP = 0.02

_Seen = tuple[float, float] | None
"""A place, as a logarithm, and the excess there."""


def find_largest(
    excess: Curve,
    guess: float,
    *,
    least: float,
    most: float,
    tolerance: float = 5e-4,
    slope: float | None = None,
    patience: int = _MOST_TRIES,
) -> float | None:
    """Return a number near ``guess`` with excess ≤ 0 such that a little more has excess > 0.

    ``excess`` rises with the logarithm of the number, about by ``slope`` per unit where that
    is known beforehand, and is expensive: each step aims just below the root, and a number
    that is seen to be that close is taken. What could not be proven counts as too much. None:
    not even ``least`` will do, or nothing did when the excess had risen for so many steps down
    in a row, ``patience``.

    >>> round(find_largest(lambda x: x * x - 2, 1.0, least=0.01, most=100, tolerance=1e-6), 5)
    1.41421
    """

    def value(place: float) -> float:
        count_step("points of a curve")
        try:
            return excess(math.exp(place))
        except GuaranteeNotProven:
            return math.inf

    floor, ceiling = math.log(least), math.log(most)
    place = min(max(math.log(guess), floor), ceiling)
    low = high = None
    rises, reached = 0, value(place)
    for count in range(_MOST_TRIES):
        if reached <= 0:
            low = (place, reached)
        else:
            high = (place, reached)
        if _close(low, high, slope, tolerance, ceiling):
            break
        if low is None and place <= floor:
            return None
        place = min(max(_next(low, high, slope, tolerance, count), floor), ceiling)
        before, reached = reached, value(place)
        rises = rises + 1 if low is None and reached > before else 0
        if rises == patience:
            return None
        if before == reached > 0:
            # It does not fall at all here, whatever was thought of its slope.
            slope = None
    return None if low is None else math.exp(low[0])


def _close(low: _Seen, high: _Seen, slope: float | None, tolerance: float, ceiling: float) -> bool:
    if low is None:
        return False
    if low[0] >= ceiling:
        return True
    if high is not None and high[0] - low[0] <= tolerance:
        return True
    rise = _rise(low, high) or slope
    return rise is not None and -low[1] <= rise * tolerance


def _rise(low: _Seen, high: _Seen) -> float | None:
    if low is None or high is None or not math.isfinite(high[1] - low[1]):
        return None
    return (high[1] - low[1]) / (high[0] - low[0])


def _next(low: _Seen, high: _Seen, slope: float | None, tolerance: float, count: int) -> float:
    if low is not None and high is not None:
        rise = _rise(low, high)
        middle = 0.5 * (low[0] + high[0])
        # Every fourth step halves, so that a curve that is bent badly still comes to an end.
        if rise is None or count % 4 == 3:
            return middle
        # A little below the root: a place just above it would be of no use to the caller.
        aim = low[0] - low[1] / rise - 0.4 * tolerance
        return min(max(aim, low[0] + 0.2 * tolerance), high[0] - 0.2 * tolerance)
    seen = low or high
    if seen is None:  # pragma: no cover - one place has always been looked at
        raise AssertionError
    # Only one side is known: a step by the slope, or steps that grow until the other is seen.
    known = slope if slope and math.isfinite(seen[1]) else None
    step = _FIRST_STEP * 3.0**count if known is None else abs(seen[1]) / known + 0.4 * tolerance
    step = min(step, _LONGEST_STEP * 2.0**count)
    if low is None:
        return seen[0] - step
    return seen[0] + step - (0.0 if known is None else 0.8 * tolerance)
