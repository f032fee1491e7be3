"""Counter-examples found in review: each is the smallest known input that breaks a promise."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from chaffinch.errors import InvalidInput
from chaffinch.privacy import (
    Bracket,
    DecoyedValues,
    EncodedNumbers,
    FlippedBits,
    FlippedValues,
    compose,
)
from chaffinch.privacy.mechanisms.value_crowds import ValueCrowds
from chaffinch.privacy.numerics.decoyed_sums import UniformDecoys
from chaffinch.privacy.numerics.precision import up


def test_upper_end_of_nan_is_not_zero() -> None:
    assert not up(math.nan) < 1.0


def test_many_copies_keep_their_digits() -> None:
    assert FlippedBits(users=2, flip_probability="0.25", copies=128).delta(1.0).upper <= 1.0


def test_local_epsilon_is_rounded_up() -> None:
    # 11·ln 49 = 42.81002327921689271…, the float below it was returned.
    bits = FlippedBits(users=1, flip_probability="1/50", copies=11)
    assert Fraction(bits.local_epsilon) >= Fraction("42.81002327921689271")


def test_profile_lower_end_beyond_exponent_700() -> None:
    bits = FlippedBits(users=1, flip_probability="0.001", copies=200)
    lower, _ = bits.profile(np.array([1375.0]))
    assert lower[0] <= bits.delta(1375.0).upper


def test_pointwise_lower_end_at_the_window_edge() -> None:
    # The truth is 1.4e-1221 (50-digit arithmetic).
    crowd = FlippedBits(users=10_001, flip_probability="0.25").crowd(ones=0)
    assert crowd.pointwise(1.09).lower <= 1e-300


def test_pair_lower_end_at_the_window_edge() -> None:
    # The truth is below 1e-320 (window of tail 1e-1500).
    values = FlippedValues(users=5_001, values=3, flip_probability="0.25")
    assert values.crowd_delta(first=0, second=0, epsilon=1.0).lower <= 1e-300


def test_two_sums_lower_end_with_many_decoys() -> None:
    # The truth is 0.179255399968474365 (40-digit multinomial sums).
    crowds = ValueCrowds(0, UniformDecoys(10**6, 10**6, Fraction(1, 10**6)))
    lower = crowds.two_sums((0, 0), 1e-30).lower_deltas(np.ones(1))[0]
    assert 0.1792553999 < lower <= 0.1792553999684744


def test_composition_of_losses_below_the_floor() -> None:
    flip = Fraction(1, 2) - Fraction(1, 10**18)
    assert compose(FlippedBits(users=5, flip_probability=flip), times=2).delta(0.0).upper < 1e-10


def test_values_with_hardly_any_flips_are_not_private() -> None:
    values = FlippedValues(users=2, values=3, flip_probability=Fraction(1, 10**3000))
    assert values.delta(13_000.0).upper > 0.5


def test_tradeoff_has_no_nan() -> None:
    rounds = compose(FlippedBits(users=1, flip_probability="0.001"), times=110)
    curve = rounds.tradeoff(np.array([0.0, 0.5]))
    assert np.isfinite(curve.lower).all()
    assert np.isfinite(curve.upper).all()


def test_tradeoff_at_no_levels_is_refused() -> None:
    with pytest.raises(InvalidInput, match="alphas"):
        FlippedBits(users=10, flip_probability="0.1").tradeoff(np.array([]))


def test_mu_with_hardly_any_flips() -> None:
    assert FlippedBits(users=5, flip_probability=Fraction(1, 10**400)).gaussian_mu().upper > 50


def test_numbers_of_many_bits() -> None:
    numbers = EncodedNumbers(users=1, resolution=200, flip_probability="0.3", slots="together")
    assert numbers.delta(1.0).lower > 0.5


def test_epsilon_of_values_returns_where_the_target_lies_inside_the_bracket() -> None:
    values = FlippedValues(users=12, values=3, flip_probability="0.2")
    bracket = values.delta(0.0)
    target = 0.5 * (bracket.lower + bracket.upper)
    assert values.epsilon(target).upper < 0.01


def test_a_target_that_is_met_exactly_is_met() -> None:
    """One decoy over two values leaks with chance one half at every epsilon: 0 is enough."""
    one = DecoyedValues(values=2, decoys=1)
    assert one.epsilon(0.5) == Bracket(0.0, 0.0)
    assert one.epsilon(math.nextafter(0.5, 0)).upper == math.inf
    assert one.epsilon(0.4999).lower == math.inf
    # Two decoys: one half again at 0, a quarter from ln 2 on.
    two = DecoyedValues(values=2, decoys=2)
    assert two.epsilon(0.5) == Bracket(0.0, 0.0)
    assert two.epsilon(0.49).lower > 0
    assert two.epsilon(0.25).upper == math.inf


@pytest.mark.parametrize("values", [2, 3])
def test_a_decoy_is_sent_with_a_chance_of_one_and_no_more(values: int) -> None:
    sure = DecoyedValues(values=values, users=50, decoy_rate=1)
    assert sure.delta(1.0) == DecoyedValues(values=values, decoys=50).delta(1.0)
    with pytest.raises(InvalidInput, match=r"decoy rate must be above 0 and at most 1"):
        DecoyedValues(values=values, users=50, decoy_rate=1 + Fraction(1, 2**71))
