"""How a bracket is judged: the truth is known to lie in [low, high], and nothing is rounded."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction

from flint import arb

from chaffinch.privacy import Bracket
from tests.oracles import balls, exact
from tests.oracles.exact import Pair

Enclosure = tuple[Fraction, Fraction]


def true_delta(pairs: Iterable[Pair], epsilon: float) -> Enclosure:
    """Return rationals that enclose the worst delta at a float epsilon, 1e-58 apart."""
    below, above = exact.exp_bounds(epsilon)
    known = list(pairs)
    return exact.worst_delta(known, above), exact.worst_delta(known, below)


def complaint(bracket: Bracket, truth: Enclosure) -> str:
    """Return what is wrong with a bracket, or nothing."""
    low, high = truth
    if Fraction(bracket.upper) < low:
        return f"under-report: {bracket!r} but the truth is {float(low)!r}"
    if Fraction(bracket.lower) > high:
        return f"over-report of the lower end: {bracket!r} but the truth is {float(high)!r}"
    return ""


def ball_complaint(bracket: Bracket, truth: arb) -> str:
    """Return the same against a certified ball."""
    with balls.precision(2400):
        if arb(bracket.upper) < truth:
            return f"under-report: {bracket!r} but the truth is {truth.str(25)}"
        if arb(bracket.lower) > truth:
            return f"over-report of the lower end: {bracket!r} but the truth is {truth.str(25)}"
    return ""


def epsilon_complaint(
    bracket: Bracket, delta: float, truth_at: Callable[[float], Enclosure]
) -> str:
    """Return what is wrong with an epsilon bracket: delta has to be met at its upper end only."""
    target = Fraction(delta)
    if truth_at(bracket.upper)[0] > target:
        return f"under-report: delta is above {delta!r} at {bracket!r}.upper"
    if bracket.lower > 0 and truth_at(bracket.lower)[1] < target:
        return f"over-report of the lower end: delta is below {delta!r} at {bracket!r}.lower"
    return ""
