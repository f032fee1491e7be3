"""A fixed number of random responders: the law of every fixed set, and of a set drawn in secret."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from chaffinch.errors import InvalidInput
from chaffinch.privacy import RandomResponders, compose

Law = dict[int, Fraction]
EPSILONS = (0.0, 0.1, 0.3, 1.0, 2.5)


def law_of_sum(bits: tuple[int, ...], responders: frozenset[int]) -> Law:
    """Return the law of the sum by throwing every coin."""
    found: Law = {}
    for coins in itertools.product((0, 1), repeat=len(responders)):
        told = sum(bit for place, bit in enumerate(bits) if place not in responders)
        total = told + sum(coins)
        found[total] = found.get(total, Fraction(0)) + Fraction(1, 2 ** len(responders))
    return found


def hockey_stick(first: Law, second: Law, growth: Fraction) -> Fraction:
    parts = (mass - growth * second.get(key, Fraction(0)) for key, mass in first.items())
    return sum((part for part in parts if part > 0), Fraction(0))


def mixture(laws: list[Law]) -> Law:
    found: Law = {}
    for law in laws:
        for key, mass in law.items():
            found[key] = found.get(key, Fraction(0)) + mass / len(laws)
    return found


def worst(users: int, sets: list[frozenset[int]], growth: Fraction) -> Fraction:
    """Return the largest delta of the law that draws one of these sets, over all neighbours."""
    laws = {
        bits: mixture([law_of_sum(bits, some) for some in sets])
        for bits in itertools.product((0, 1), repeat=users)
    }
    return max(
        hockey_stick(laws[one], laws[other], growth)
        for one, other in itertools.permutations(laws, 2)
        if sum(a != b for a, b in zip(one, other, strict=True)) == 1
    )


@pytest.mark.parametrize(("users", "responders"), [(1, 0), (2, 1), (3, 2), (4, 1), (5, 3)])
def test_a_fixed_set_has_exactly_this_delta(users: int, responders: int) -> None:
    mechanism = RandomResponders(responders=responders)
    for epsilon in EPSILONS:
        growth = Fraction(math.exp(epsilon))
        truth = float(worst(users, [frozenset(range(responders))], growth))
        found = mechanism.delta(epsilon)
        assert found.lower <= truth * (1 + 1e-12)
        assert truth <= found.upper * (1 + 1e-12)
        assert found.upper - found.lower <= 1e-8 * found.upper
        # Two responders more hide more (one more does not always, at epsilon 0): a wrong law shows.
        assert RandomResponders(responders=responders + 2).delta(epsilon).upper < truth


def test_a_set_that_is_drawn_in_secret_hides_more() -> None:
    users, responders = 4, 2
    sets = [frozenset(some) for some in itertools.combinations(range(users), responders)]
    for epsilon in EPSILONS:
        fixed = RandomResponders(responders=responders).delta(epsilon)
        drawn = worst(users, sets, Fraction(math.exp(epsilon)))
        # By joint convexity at most the mean over sets, of which half have the target in them.
        assert float(drawn) <= fixed.upper / 2


def test_the_curve_runs_through_the_best_tests() -> None:
    mechanism = RandomResponders(responders=50)
    below = np.cumsum([math.comb(50, k) / 2**50 for k in range(51)])
    corners = mechanism.tradeoff(below[:-1])
    # S3 claim B.4: type I error P[B ≤ k], type II error 1 − P[B ≤ k + 1].
    assert corners.lower == pytest.approx(1 - below[1:], abs=1e-14)
    assert corners.upper == pytest.approx(1 - below[1:], abs=1e-14)
    middle = mechanism.tradeoff((below[:-1] + below[1:]) / 2)
    straight = 1 - (below + np.append(below[1:], 1.0))[1:] / 2
    assert middle.lower == pytest.approx(straight[: len(middle.lower)], abs=1e-14)


def test_a_clear_bit_among_coins_has_no_finite_mu_and_no_local_guarantee() -> None:
    mechanism = RandomResponders(responders=50)
    assert mechanism.local_epsilon == math.inf
    assert mechanism.gaussian_mu().upper == math.inf
    # The sum 0 gives a zero away: no epsilon does below 2^-50.
    assert mechanism.epsilon(2.0**-52).lower == math.inf
    assert mechanism.epsilon(2.0**-48).upper < 50
    assert "50 honest users who answer at random" in mechanism.crowd_words


def test_rounds_compose() -> None:
    ten = compose(RandomResponders(responders=200), times=10)
    once = RandomResponders(responders=200).epsilon(1e-6)
    found = ten.epsilon(1e-5)
    assert once.lower < found.lower <= found.upper < 10 * once.upper


@pytest.mark.parametrize("wrong", [-1, 1.5, True, math.nan])
def test_a_number_of_responders_is_whole(wrong: float) -> None:
    with pytest.raises(InvalidInput):
        RandomResponders(responders=wrong)  # type: ignore[arg-type]
