"""Where a falling curve crosses a level, with few evaluations and on the safe side."""

from __future__ import annotations

import math
from collections.abc import Callable

Curve = Callable[[float], float]

_MOST_STEPS = 200
_SMALLEST = 1e-250


def crossing(
    curve: Curve,
    level: float,
    *,
    top: float,
    tolerance: float,
    guess: float = 1.0,
    ask_top: bool = False,
) -> tuple[float, float]:
    """Return (left, right): ``curve`` was seen above ``level`` at left, and at most it at right.

    ``curve(top)`` is known to be at most ``level``; with ``ask_top`` it is asked how far below,
    for a start when top is near. If the curve starts at or below the level both ends are 0.
    Otherwise right − left ≤ tolerance·right, or left is 0 because no point above was found.

    The search runs on ln(curve), nearly a parabola for privacy curves, by regula falsi with
    halved weights; when that does not halve the interval in three steps, it is halved outright.
    """
    start = curve(0.0)
    if start <= level:
        return 0.0, 0.0
    end = min(_height(curve(top), level), 0.0) if ask_top else -math.inf
    left, right = (0.0, _height(start, level)), (top, end)
    middle = min(guess, top)
    while middle < top:
        height = _height(curve(middle), level)
        if height <= 0:
            right = (middle, height)
            break
        left, middle = (middle, height), min(2.0 * middle, top)
    return _narrow(curve, level, left, right, tolerance)


def _narrow(
    curve: Curve,
    level: float,
    left: tuple[float, float],
    right: tuple[float, float],
    tolerance: float,
) -> tuple[float, float]:
    (a, high), (b, low) = left, right
    span, last, stalled = b - a, 0, 0
    for _ in range(_MOST_STEPS):
        if b - a <= tolerance * b or b < _SMALLEST:
            break
        # A step a little past the estimate, away from the end that moved last, closes both.
        push = -0.4 * last * tolerance * b
        middle = _between((a, high), (b, low), push, halve=stalled >= 3)
        height = _height(curve(middle), level)
        if height <= 0:
            b, low = middle, height
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
    """Return a point strictly between: interpolated where both heights are known."""
    (a, high), (b, low) = left, right
    if not halve and math.isfinite(low):
        guess = a + high / (high - low) * (b - a) + push
        if a < guess < b:
            return guess
    return math.sqrt(a * b) if 0 < a < 0.1 * b else 0.5 * (a + b)


def _height(value: float, level: float) -> float:
    """Return ln(value/level), and −inf for 0."""
    if value <= 0:
        return -math.inf
    # At most the level counts as not above, whatever the logarithm rounds to.
    height = math.log(value) - math.log(level)
    return max(height, 5e-324) if value > level else min(height, 0.0)
