"""Laws of delta. A law speaks of the truth, so it is asked of the two ends that enclose it."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from chaffinch import privacy
from tests.laws.mechanisms import any_mechanism, bits, decoyed, epsilons, flips, numbers
from tests.tiers import slower


def not_above(smaller: privacy.Bracket, larger: privacy.Bracket) -> bool:
    """Return whether the brackets leave room for smaller truth <= larger truth."""
    return smaller.lower <= larger.upper


@given(mechanism=any_mechanism, epsilon=epsilons)
def test_delta_is_a_probability(mechanism: Any, epsilon: float) -> None:
    bracket = mechanism.delta(epsilon)
    assert 0.0 <= bracket.lower <= bracket.upper <= 1.0


@given(mechanism=any_mechanism, epsilon=epsilons, step=st.floats(0.0, 3.0))
def test_delta_falls_as_epsilon_rises(mechanism: Any, epsilon: float, step: float) -> None:
    assert not_above(mechanism.delta(epsilon + step), mechanism.delta(epsilon))


@given(mechanism=bits() | numbers)
def test_nothing_is_left_at_the_local_epsilon(mechanism: Any) -> None:
    assert mechanism.delta(mechanism.local_epsilon).upper == 0.0
    assert mechanism.delta(0.999 * mechanism.local_epsilon).upper > 0.0


@given(mechanism=bits())
def test_the_local_epsilon_is_the_log_odds_times_copies(mechanism: Any) -> None:
    q = mechanism.flip_probability
    assert mechanism.local_epsilon == pytest.approx(mechanism.copies * math.log((1 - q) / q))


WITH_FLIPS: list[tuple[str, dict[str, Any]]] = [
    ("FlippedBits", {"users": 40, "copies": 2, "decoys": 3}),
    ("FlippedBits", {"users": 1}),
    ("FlippedValues", {"users": 8, "decoys": 0, "values": 4}),
    ("FlippedVectors", {"users": 5, "bits": 2}),
    ("FlippedFilters", {"filters": 2, "bits": 5}),
    ("EncodedNumbers", {"users": 6, "resolution": 3, "slots": "together"}),
    ("EncodedNumbers", {"users": 4, "resolution": 2, "slots": "separate"}),
]


@pytest.mark.parametrize(("name", "rest"), WITH_FLIPS)
@slower
@given(data=st.data(), epsilon=epsilons)
def test_delta_falls_as_flips_rise(
    name: str, rest: dict[str, Any], data: st.DataObject, epsilon: float
) -> None:
    """More flips are fewer flips, flipped again: post-processing."""
    few, many = sorted([data.draw(flips), data.draw(flips)])
    build = getattr(privacy, name)
    fewer, more = (build(flip_probability=q, **rest).delta(epsilon) for q in (few, many))
    assert not_above(more, fewer)


GROWING: list[tuple[str, str, int, dict[str, Any]]] = [
    ("FlippedBits", "users", 1, {"flip_probability": "0.07", "copies": 2, "decoys": 1}),
    ("FlippedBits", "decoys", 0, {"flip_probability": "0.07", "users": 9}),
    ("DecoyedValues", "decoys", 0, {"values": 5}),
    ("DecoyedValues", "users", 1, {"values": 5, "decoy_rate": "0.3"}),
    ("FlippedValues", "users", 1, {"flip_probability": "0.1", "values": 4, "decoys": 0}),
    ("FlippedVectors", "users", 1, {"flip_probability": "0.2", "bits": 2}),
    ("FlippedFilters", "bits", 1, {"flip_probability": "0.2", "filters": 2}),
]


@pytest.mark.parametrize(("name", "grows", "least", "rest"), GROWING)
@slower
@given(start=st.integers(0, 25), more=st.integers(1, 10), epsilon=epsilons)
def test_adding_records_never_hurts(
    *,
    name: str,
    grows: str,
    least: int,
    rest: dict[str, Any],
    start: int,
    more: int,
    epsilon: float,
) -> None:
    """S0 Proposition 3.1."""
    build = getattr(privacy, name)
    small, large = least + start, least + start + more
    fewer, bigger = (build(**{grows: size}, **rest).delta(epsilon) for size in (small, large))
    assert not_above(bigger, fewer)


@given(
    users=st.integers(1, 30),
    ones=st.integers(0, 29),
    more=st.integers(1, 9),
    flip=flips,
    epsilon=epsilons,
)
def test_one_more_of_either_kind_never_hurts(
    users: int, ones: int, more: int, flip: Fraction, epsilon: float
) -> None:
    """The two monotone directions on which the search over crowds stands."""
    assume(ones < users)
    small = privacy.FlippedBits(users=users, flip_probability=flip)
    large = privacy.FlippedBits(users=users + more, flip_probability=flip)
    here = small.crowd(ones=ones).delta(epsilon)
    assert not_above(large.crowd(ones=ones + more).delta(epsilon), here)
    assert not_above(large.crowd(ones=ones).delta(epsilon), here)


@given(mechanism=bits(60), share=st.floats(0.0, 1.0), epsilon=epsilons)
def test_no_crowd_is_worse_than_the_worst(
    mechanism: privacy.FlippedBits, share: float, epsilon: float
) -> None:
    ones = int(share * (mechanism.users - 1))
    assert not_above(mechanism.crowd(ones=ones).delta(epsilon), mechanism.delta(epsilon))


@given(
    decoys=st.integers(0, 300), values=st.integers(2, 40), more=st.integers(1, 40), epsilon=epsilons
)
def test_more_values_spread_decoys_thinner(
    decoys: int, values: int, more: int, epsilon: float
) -> None:
    dense = privacy.DecoyedValues(decoys=decoys, values=values).delta(epsilon)
    thin = privacy.DecoyedValues(decoys=decoys, values=values + more).delta(epsilon)
    assert not_above(dense, thin)


@given(users=st.integers(1, 300), values=st.integers(2, 40), epsilon=epsilons)
def test_a_rate_of_almost_one_is_almost_one_decoy_each(
    users: int, values: int, epsilon: float
) -> None:
    fixed = privacy.DecoyedValues(decoys=users, values=values).delta(epsilon)
    rated = privacy.DecoyedValues(users=users, decoy_rate="0.9999", values=values).delta(epsilon)
    assert not_above(fixed, rated)
    assert rated.lower <= fixed.upper + users * 1e-4


@given(users=st.integers(1, 8), resolution=st.integers(1, 3), flip=flips, epsilon=epsilons)
def test_slots_together_are_never_worse_than_apart(
    users: int, resolution: int, flip: Fraction, epsilon: float
) -> None:
    together, apart = (
        privacy.EncodedNumbers(
            users=users, resolution=resolution, flip_probability=flip, slots=slots
        ).delta(epsilon)
        for slots in ("together", "separate")
    )
    assert not_above(together, apart)


@given(mechanism=bits(60) | decoyed, epsilon=epsilons)
def test_the_point_wise_quantity_is_never_smaller(mechanism: Any, epsilon: float) -> None:
    assume(hasattr(mechanism, "pointwise"))
    assert not_above(mechanism.delta(epsilon), mechanism.pointwise(epsilon))


@given(
    users=st.integers(1, 12),
    flip=flips,
    values=st.integers(3, 10_000),
    epsilon=epsilons,
)
def test_values_nobody_touches_do_not_matter(
    users: int, flip: Fraction, values: int, epsilon: float
) -> None:
    """Without decoys only the two affected sums count, however many values there are."""
    three, many = (
        privacy.FlippedValues(users=users, decoys=0, values=d, flip_probability=flip).delta(epsilon)
        for d in (3, values)
    )
    assert three.lower <= many.upper
    assert many.lower <= three.upper
