"""Laws of epsilon, and its round trip with delta."""

from __future__ import annotations

from typing import Any

from hypothesis import assume, given
from hypothesis import strategies as st

from tests.laws.mechanisms import bits, epsilons, flipped_values, numbers, rows
from tests.tiers import slower

asked = bits() | flipped_values | numbers | rows
deltas = st.floats(-12.0, 0.0).map(lambda power: 10.0**power)


@slower
@given(mechanism=asked, delta=deltas)
def test_epsilon_lies_between_zero_and_the_local_one(mechanism: Any, delta: float) -> None:
    bracket = mechanism.epsilon(delta)
    assert 0.0 <= bracket.lower <= bracket.upper <= mechanism.local_epsilon


@slower
@given(mechanism=asked, one=deltas, two=deltas)
def test_epsilon_falls_as_delta_rises(mechanism: Any, one: float, two: float) -> None:
    small, large = sorted((one, two))
    assert mechanism.epsilon(large).lower <= mechanism.epsilon(small).upper


@slower
@given(mechanism=asked, delta=deltas)
def test_delta_holds_at_the_promised_epsilon(mechanism: Any, delta: float) -> None:
    """A hair above the upper end: the two searches round on their own."""
    upper = mechanism.epsilon(delta).upper
    assert mechanism.delta(upper * (1 + 1e-9) + 1e-12).lower <= delta


@slower
@given(mechanism=asked, epsilon=epsilons)
def test_round_trip_from_epsilon(mechanism: Any, epsilon: float) -> None:
    bracket = mechanism.delta(epsilon)
    assume(bracket.lower >= 1e-12)
    assert mechanism.epsilon(bracket.upper).lower <= epsilon
    assert mechanism.epsilon(bracket.lower).upper >= epsilon


@slower
@given(mechanism=bits(100), exponent=st.floats(-300.0, -12.0))
def test_tiny_deltas_have_an_answer(mechanism: Any, exponent: float) -> None:
    bracket = mechanism.epsilon(10.0**exponent)
    assert 0.0 <= bracket.lower <= bracket.upper <= mechanism.local_epsilon


@slower
@given(mechanism=asked, delta=deltas)
def test_the_guarantee_says_what_was_computed(mechanism: Any, delta: float) -> None:
    promise = mechanism.guarantee(delta=delta)
    assert promise.epsilon == mechanism.epsilon(delta).upper
    assert promise.delta == delta
    assert promise.neighbours == mechanism.neighbours
    assert promise.neighbours.startswith("replace-one")
    assert promise.proven
    assert promise.local_epsilon == mechanism.local_epsilon
