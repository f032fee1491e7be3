"""What a promise means, in guesses and factors, and when a plan is of no use."""

from __future__ import annotations

import math

from chaffinch.charts.rounding import error_text
from chaffinch.privacy.guarantee import Guarantee, promised, right_guesses


def useless_promise(
    epsilon: float, delta: float, *, guess: str = "which of two answers a person gave"
) -> list[str]:
    """Return a warning where a promise is so weak that all of 100 guessers can be right.

    >>> useless_promise(4.5, 1e-6)
    []
    """
    if right_guesses(epsilon, delta) < 100:
        return []
    said = (
        f"with epsilon {promised(epsilon, 4)} somebody who guesses {guess} can be right "
        "practically always: this protects nobody."
    )
    return [said]


def useless_error(name: str, error: float, reports: int) -> list[str]:
    """Return a warning where the error of a count, or of a sum in ranges, is as large as the crowd.

    >>> useless_error("member", 40.0, 100)
    []
    """
    if 2 * error < reports:
        return []
    said = (
        f"two standard errors of {name!r} are {error_text(2 * error)} people, in a crowd of "
        f"{reports:,}: the answer will say nothing."
    )
    return [said]


def factor(epsilon: float) -> str:
    """Return the factor that a promise allows, never less than it is.

    >>> factor(1.1)
    'e^1.1 = 3.01'
    """
    return f"e^{promised(epsilon, 6)} = {promised(math.exp(min(epsilon, 700)), 3)}"


def promise_words(promise: Guarantee, covered: str, *, change: str, seen: str) -> str:
    """Return what a promise covers, and by how much a ``change`` of it may be ``seen``."""
    return (
        f"The promise covers {covered}: {change} (neighbours: {promise.neighbours}) changes the "
        f"chance of anything {seen} by a factor of at most {factor(promise.epsilon)}, plus "
        f"{promised(promise.delta, 3)} at most. Method: {promise.method}"
    )


def odds(promise: Guarantee, *, guess: str, seen: str) -> str:
    """Return how many of 100 people are right who guess, before and after something is seen."""
    by_luck, right = promise.odds.by_luck, promise.odds.right
    return (
        f"of 100 people who guess {guess}, {by_luck} are right by tossing a coin, and at most "
        f"{right} after seeing {seen}."
    )
