"""A published formula: a claim with its source, its domain and its known defect."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from chaffinch.errors import InvalidInput, checks
from chaffinch.privacy.guarantee import Method


@dataclass(frozen=True, slots=True)
class Formula:
    """One published closed form, with what a reader must know before quoting it.

    ``compute`` is the formula in the direction its source prints it. ``claimed_epsilon`` and
    ``claimed_delta`` solve the same equation for the other two numbers, for charts; they take
    the same keywords as ``compute`` with the wanted number left out.
    """

    name: str
    label: str
    """Author, year and number, as charts and tables call it."""
    source: str
    """Where it stands: document and equation, as the claims ledger has them."""
    equation: str
    gives: str
    domain: str
    defect: str
    compute: Callable[..., object]
    claimed_epsilon: Callable[..., float] | None = None
    claimed_delta: Callable[..., float] | None = None

    @property
    def method(self) -> Method:
        """Return how such a number is labelled: never as a proof."""
        return "published"


def positive_epsilon(value: object) -> float:
    """Return an epsilon above 0: every formula here divides by it."""
    epsilon = checks.epsilon(value)
    if not epsilon > 0:
        raise InvalidInput("epsilon", "above 0", value)
    return epsilon


def open_delta(value: object) -> float:
    """Return a delta above 0 and below 1."""
    delta = checks.delta(value)
    if not delta < 1:
        raise InvalidInput("delta", "above 0 and below 1", value)
    return delta


def flip(value: object) -> float:
    """Return a flip probability as a float: a claim is no proof and needs no exact one."""
    return float(checks.flip_probability(value))


def flip_from(expected: float, users: int, parameter: str) -> float:
    """Return q = expected/users, refusing a crowd that would need q ≥ 1/2."""
    if not 2.0 * expected < users:
        least = math.floor(2.0 * expected) + 1
        rule = f"at least {least} for this formula to give a flip probability below 1/2"
        raise InvalidInput(parameter, rule, users)
    return expected / users


def refuse(users: object, parameter: str) -> InvalidInput:
    """Return the error for a crowd too small for the formula to claim anything."""
    return InvalidInput(
        parameter, "large enough for the formula to claim an epsilon at this delta", users
    )
