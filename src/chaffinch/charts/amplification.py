"""What is known of a shuffled randomizer, side by side: exact numbers, bounds and claims."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Literal

from chaffinch.errors import InvalidInput
from chaffinch.privacy import FlippedBits, Mechanism, published
from chaffinch.privacy.amplification import (
    ShuffledRandomizer,
    ShuffledResponse,
    ShuffledTable,
    clone_delta,
    clone_epsilon,
    clone_epsilon_closed_form,
)
from chaffinch.privacy.numerics.roots import bisect_real

_BoundKind = Literal["exact", "proven", "at least", "published"]
"""``at least`` is a crowd that can exist; ``published`` is a claim, never a guarantee."""

_MOST_LOCAL = 30.0
"""Beyond, no bound by the local epsilon alone is better than the local epsilon."""

_LOGS = (0.01, 690.0)
"""−ln δ between which the closed form is looked for."""


@dataclass(frozen=True, slots=True)
class Bound:
    """One way to bound a shuffled randomizer; both functions answer None where it says nothing."""

    label: str
    source: str
    kind: _BoundKind
    epsilon: Callable[[float], float | None]
    delta: Callable[[float], float]
    """1 where nothing is said."""
    note: str = ""

    points: ClassVar[int] = 40
    """How many of its line are computed."""

    @property
    def epsilon_alone(self) -> float:
        """Return NaN: every bound here knows its delta."""
        return math.nan


def amplification_bounds(mechanism: ShuffledRandomizer) -> tuple[Bound, ...]:
    """Return what is known of a shuffled randomizer, from the truth to the loosest bound."""
    return tuple(_bounds(mechanism))


def _bounds(mechanism: ShuffledRandomizer) -> Iterator[Bound]:
    local, users = mechanism.local_epsilon, mechanism.users
    bits = exact_form(mechanism)
    if isinstance(bits, FlippedBits):
        yield Bound(
            "exact, worst crowd",
            "chaffinch",
            "exact",
            lambda delta: bits.epsilon(delta).upper,
            lambda epsilon: bits.delta(epsilon).upper,
        )
    yield Bound(
        "worst crowd found",
        "chaffinch",
        "at least",
        lambda delta: mechanism.epsilon(delta).lower,
        lambda epsilon: mechanism.delta(epsilon).lower,
        "the true value is at least this: a crowd in which everybody else holds the same value",
    )
    yield Bound(
        "privacy blanket",
        "Balle et al. 2019",
        "proven",
        lambda delta: mechanism.epsilon(delta).upper,
        lambda epsilon: mechanism.delta(epsilon).upper,
    )
    if not 0 < local <= _MOST_LOCAL:
        return
    yield Bound(
        "clones, numerical",
        "Feldman et al. 2021",
        "proven",
        lambda delta: clone_epsilon(local_epsilon=local, users=users, delta=delta).upper,
        lambda epsilon: clone_delta(local_epsilon=local, users=users, epsilon=epsilon).upper,
        "for every randomizer with this local epsilon",
    )
    yield Bound(
        "clones, closed form",
        "Feldman et al. 2021",
        "proven",
        lambda delta: _closed_form(local, users, delta),
        lambda epsilon: _closed_form_delta(local, users, epsilon),
        "says nothing for a small crowd",
    )
    yield from _closed_forms(mechanism, local)
    yield _variation_ratio(mechanism, local)


def _closed_forms(mechanism: ShuffledRandomizer, local: float) -> Iterator[Bound]:
    users = mechanism.users
    # They know k-ary response by name; of any other randomizer they use the local epsilon.
    given: dict[str, Any] = {"local_epsilon": local, "users": users}
    if isinstance(mechanism, ShuffledResponse):
        given["values"] = mechanism.values
    kind: _BoundKind = "published"
    yield Bound(
        "blanket, Hoeffding",
        "Balle et al. 2019",
        kind,
        lambda delta: published.blanket_hoeffding_epsilon(**given, delta=delta),
        lambda epsilon: published.blanket_hoeffding_delta(**given, epsilon=epsilon),
    )
    yield Bound(
        "blanket, Bennett",
        "Balle et al. 2019",
        kind,
        lambda delta: published.blanket_bennett_epsilon(**given, delta=delta),
        lambda epsilon: published.blanket_bennett_delta(**given, epsilon=epsilon),
    )


def exact_form(mechanism: Mechanism) -> Mechanism:
    """Return two values that are flipped alike as flipped bits, whose worst crowd is known."""
    if not isinstance(mechanism, ShuffledTable) or len(mechanism.table) != 2:
        return mechanism
    one, two = mechanism.table
    if len(one) != 2 or one != two[::-1] or not 0 < min(one) < Fraction(1, 2):
        return mechanism
    return FlippedBits(users=mechanism.users, flip_probability=min(one))


def _closed_form(local: float, users: int, delta: float) -> float | None:
    try:
        return clone_epsilon_closed_form(local_epsilon=local, users=users, delta=delta)
    except InvalidInput:
        return None


def _closed_form_delta(local: float, users: int, epsilon: float) -> float:
    def holds(log: float) -> bool:
        found = _closed_form(local, users, math.exp(-log))
        return found is not None and found <= epsilon

    low, high = _LOGS
    if not holds(low):
        return 1.0
    return math.exp(-high if holds(high) else -bisect_real(holds, good=low, bad=high))


def _variation_ratio(mechanism: ShuffledRandomizer, local: float) -> Bound:
    (formula,) = (one for one in published.FORMULAS if one.name == "variation_ratio_epsilon")
    variation = mechanism.variation

    def epsilon(delta: float) -> float:
        return published.variation_ratio_epsilon(
            local_epsilon=local, variation=variation, users=mechanism.users, delta=delta
        )

    def delta(epsilon: float) -> float:
        return published.variation_ratio_delta(
            local_epsilon=local, variation=variation, users=mechanism.users, epsilon=epsilon
        )

    # Its defect is known of k-ary response alone.
    known = isinstance(mechanism, ShuffledResponse) and mechanism.values > 2
    note = formula.defect if known else ""
    return Bound("variation ratio", formula.label, "published", epsilon, delta, note)
