"""Calibration: the parameter that just meets a target, and was itself seen to meet it."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from chaffinch.errors import InvalidInput, NoParameterFound, Unquoted, checks
from chaffinch.privacy.guarantee import Target
from chaffinch.privacy.mechanism import Mechanism
from chaffinch.privacy.mechanisms.totals import NoisyTotals
from chaffinch.privacy.numerics.precision import GRAIN
from chaffinch.privacy.numerics.roots import bisect_whole, narrow_crossing

FINE = 1e-5
"""Four digits of what is calibrated are then those of the smallest."""
_Progress = Callable[[str], None]


def calibrate(
    make: Callable[[Fraction], Mechanism],
    target: Target,
    *,
    relative_tolerance: float = FINE,
    progress: _Progress | None = None,
) -> Fraction:
    """Return the smallest flip probability k/2⁶⁴ whose mechanism meets ``target``.

    ``make`` turns a flip probability into a mechanism; more flips must never be less
    private. The result was itself seen to meet the target; a probability smaller by
    ``relative_tolerance`` was seen to miss it. A planner stops sooner: the flips of a plan may be
    up to 0.05 % more, or 0.2 % where only an upper bound is known. ``progress`` is told what is
    tried. Nothing but a flip probability is varied: no scale of noise.

    >>> from chaffinch.privacy import FlippedBits
    >>> q = calibrate(lambda q: FlippedBits(users=1000, flip_probability=q), Target(1.0, 1e-6))
    >>> round(float(q), 6)
    0.030741
    """
    tolerance = checks.real("relative tolerance", relative_tolerance, least=1e-12, most=1.0)
    goal = _check_target(target)

    most = GRAIN // 2 - 1
    seen: dict[int, float] = {}

    def reached(units: float) -> float:
        # Steps narrower than one unit ask the same probability again.
        whole = min(int(units), most)
        if whole not in seen:
            if progress is not None:
                progress(f"flip probability {whole / GRAIN:.6g}")
            made = make(Fraction(whole, GRAIN))
            if isinstance(made, NoisyTotals):
                raise InvalidInput(
                    "result of make",
                    "a mechanism with a flip probability, which is all that is varied",
                    Unquoted("noise with a scale"),
                    hint="a plan with view='totals' finds the scale",
                )
            seen[whole] = _reached(made, goal)
        return seen[whole]

    if reached(most) > goal.delta:
        raise NoParameterFound(
            f"The flip probability must be below 0.5 to leave an answer, and no such one meets "
            f"epsilon {goal.epsilon:g} with delta {goal.delta:g}.",
            hint="ask for a looser target, or for more users",
            details={"epsilon": goal.epsilon, "delta": goal.delta},
        )
    # Down by factors of eight until a probability misses: flips of large crowds are tiny.
    low = high = most
    while reached(low) <= goal.delta:
        high, low = low, low // 8
        if low == 0:
            return Fraction(high, GRAIN)
    found = narrow_crossing(reached, goal.delta, low, high, tolerance=tolerance)[1]
    # The search saw it through the same rounding: this very probability met the target.
    return Fraction(min(int(found), most), GRAIN)


def calibrate_count(
    make: Callable[[int], Mechanism],
    target: Target,
    *,
    least: int = 1,
    most: int = checks.LARGEST_CROWD,
    largest: bool = False,
    progress: _Progress | None = None,
) -> int:
    """Return the smallest count (users, decoys) that meets ``target``, or the largest (copies).

    ``make`` turns a count into a mechanism that more of it makes more private, or, with
    ``largest``, less private. The result was itself seen to meet the target and its
    neighbour was seen to miss it. ``progress`` is told what is tried.

    >>> from chaffinch.privacy import DecoyedValues
    >>> calibrate_count(lambda m: DecoyedValues(decoys=m, values=100), Target(1.0, 1e-6))
    4261
    """
    goal = _check_target(target)
    least = checks.whole("least count", least)
    most = checks.whole("most count", most, least=least)

    def meets(count: int) -> bool:
        if progress is not None:
            progress(f"count {count:,}")
        return _reached(make(count), goal) <= goal.delta

    # The least count settles it: it meets already, or none meets because more is less private.
    if meets(least) is not largest:
        if largest:
            raise _no_count(goal, least, most)
        return least
    before, after = _grow(meets, least, most, until=not largest)
    if before == after:
        raise _no_count(goal, least, most)
    good, bad = (before, after) if largest else (after, before)
    return bisect_whole(meets, good, bad)


def _grow(meets: Callable[[int], bool], least: int, most: int, *, until: bool) -> tuple[int, int]:
    """Double a count until the answer becomes ``until``; return the last two counts."""
    before = least
    while before < most:
        count = min(max(2 * before, before + 1), most)
        if meets(count) is until:
            return before, count
        before = count
    # Without ``until`` every count up to the most meets: one more stands for the first that fails.
    return (before, before) if until else (before, before + 1)


def _no_count(goal: Target, least: int, most: int) -> NoParameterFound:
    return NoParameterFound(
        f"The count must be from {least} to {most}, and none of them meets epsilon "
        f"{goal.epsilon:g} with delta {goal.delta:g}.",
        hint="ask for a looser target, or change another parameter",
        details={"epsilon": goal.epsilon, "delta": goal.delta},
    )


def _check_target(target: Target) -> Target:
    if not isinstance(target, Target):
        raise InvalidInput("target", "a Target(epsilon, delta)", target)
    return target


def _reached(mechanism: Mechanism, goal: Target) -> float:
    if not isinstance(mechanism, Mechanism):
        raise InvalidInput("result of make", "a mechanism", mechanism)
    return mechanism.delta(goal.epsilon).upper
