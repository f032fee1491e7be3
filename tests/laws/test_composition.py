"""Laws of composition."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaffinch import privacy
from tests.laws.mechanisms import bits, decoyed, epsilons
from tests.tiers import slower

parts = bits(40) | decoyed


def meet(one: privacy.Bracket, two: privacy.Bracket) -> bool:
    """Return whether two brackets can hold the same truth."""
    return one.lower <= two.upper and two.lower <= one.upper


@slower
@given(mechanism=parts, epsilon=epsilons)
def test_one_round_is_the_mechanism(mechanism: Any, epsilon: float) -> None:
    alone = mechanism.delta(epsilon)
    for composed in (privacy.compose(mechanism, times=1), privacy.compose([mechanism])):
        found = composed.delta(epsilon)
        assert meet(found, alone)
        assert found.upper <= alone.upper * 1.01 + 1e-9


@pytest.mark.long
@slower
@given(first=parts, second=parts, epsilon=epsilons)
def test_order_does_not_matter(first: Any, second: Any, epsilon: float) -> None:
    one = privacy.compose([first, second]).delta(epsilon)
    two = privacy.compose([second, first]).delta(epsilon)
    assert meet(one, two)


@slower
@given(mechanism=bits(40), epsilon=epsilons)
def test_two_rounds_are_two_of_a_list(mechanism: Any, epsilon: float) -> None:
    one = privacy.compose(mechanism, times=2).delta(epsilon)
    two = privacy.compose([mechanism, mechanism]).delta(epsilon)
    assert meet(one, two)


@slower
@given(mechanism=parts, epsilon=epsilons, times=st.integers(1, 6))
def test_more_rounds_never_help(mechanism: Any, epsilon: float, times: int) -> None:
    fewer = privacy.compose(mechanism, times=times).delta(epsilon)
    more = privacy.compose(mechanism, times=times + 1).delta(epsilon)
    assert fewer.lower <= more.upper


@slower
@given(mechanism=parts, epsilon=epsilons, times=st.integers(1, 6))
def test_never_worse_than_basic_composition(mechanism: Any, epsilon: float, times: int) -> None:
    composed = privacy.compose(mechanism, times=times).delta(times * epsilon)
    assert composed.lower <= times * mechanism.delta(epsilon).upper


@slower
@given(mechanism=bits(40), times=st.integers(1, 5))
def test_local_epsilons_add(mechanism: Any, times: int) -> None:
    composed = privacy.compose(mechanism, times=times)
    assert composed.local_epsilon >= times * mechanism.local_epsilon * (1 - 1e-15)
    assert composed.local_epsilon <= times * mechanism.local_epsilon * (1 + 1e-9)
