"""One value out of d: every crowd, every outcome, the decoys mixed exactly."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import partial

import pytest

from chaffinch import privacy
from tests.cases import each_case
from tests.oracles import exact, exact_views, judge
from tests.tiers import chequered, nightly

EPSILONS = [0.0, 0.1, 0.5, 1.0, 2.0, 5.0, 30.0]
FLIPS = ["0.01", "0.1", "0.25", "0.45"]


def decoyed_truth(
    decoys: int, values: int, rate: Fraction, epsilon: float
) -> tuple[Fraction, Fraction]:
    below, above = exact.exp_bounds(epsilon)
    return (
        exact.decoyed_delta(decoys, values, above, rate),
        exact.decoyed_delta(decoys, values, below, rate),
    )


@each_case("values", [2, 3, 5, 50])
@each_case("decoys", [0, 1, 2, 5, 12, 40])
def test_decoyed_values_contain_the_truth(decoys: int, values: int) -> None:
    mechanism = privacy.DecoyedValues(decoys=decoys, values=values)
    for epsilon in EPSILONS:
        bracket = mechanism.delta(epsilon)
        found = judge.complaint(bracket, decoyed_truth(decoys, values, Fraction(1), epsilon))
        assert not found, (epsilon, found)
        assert bracket.relative_width <= 1e-9


@each_case("rate", ["1/2", "0.125", "0.999"])
@each_case(("users", "values"), [(1, 2), (3, 3), (12, 4), (30, 10)])
def test_decoys_sent_at_a_rate_contain_the_truth(users: int, values: int, rate: str) -> None:
    mechanism = privacy.DecoyedValues(users=users, decoy_rate=rate, values=values)
    for epsilon in EPSILONS:
        bracket = mechanism.delta(epsilon)
        found = judge.complaint(bracket, decoyed_truth(users, values, Fraction(rate), epsilon))
        assert not found, (epsilon, found)
        assert bracket.relative_width <= 1e-9


@pytest.mark.parametrize(("decoys", "values"), [(5, 2), (40, 3), (60, 10)])
def test_decoyed_epsilon_contains_the_truth(decoys: int, values: int) -> None:
    mechanism = privacy.DecoyedValues(decoys=decoys, values=values)
    floor = (1 - 1 / values) ** decoys  # E[2^-T]: the top outcome, which no epsilon covers
    for delta in (0.5, 1e-2, 1e-4):
        if delta <= 2.0 * floor:
            continue
        bracket = mechanism.epsilon(delta)
        truth = partial(decoyed_truth, decoys, values, Fraction(1))
        assert not judge.epsilon_complaint(bracket, delta, truth), (delta, bracket)


def test_clear_values_have_no_local_guarantee() -> None:
    assert math.isinf(privacy.DecoyedValues(decoys=100, values=4).local_epsilon)


MANY = [(4, 2), (5, 0), (5, 1), (5, 2)]


@each_case(
    ("users", "decoys", "values"),
    [
        *chequered(((users, decoys) for users in (1, 2, 3, 4) for decoys in (0, 1)), (2, 3)),
        *chequered([(1, 2), (2, 2), (3, 2)], (2, 3)),
        *((users, decoys, 2) for users, decoys in MANY),
        *(nightly(users, decoys, 3) for users, decoys in MANY),
    ],
)
def test_flipped_values_contain_the_truth(users: int, decoys: int, values: int) -> None:
    for name in FLIPS:
        flip = Fraction(name)
        pairs = list(exact_views.flipped_values_pairs(users, decoys, values, flip))
        mechanism = privacy.FlippedValues(
            users=users, decoys=decoys, values=values, flip_probability=flip
        )
        for epsilon in EPSILONS[:6]:
            truth = judge.true_delta(pairs, epsilon)
            found = judge.complaint(mechanism.delta(epsilon), truth)
            assert not found, (name, epsilon, found)


@pytest.mark.parametrize(("users", "decoys"), [(1, 0), (3, 0), nightly(5, 1)])
def test_flipped_values_epsilon_contains_the_truth(users: int, decoys: int) -> None:
    for name in FLIPS:
        flip = Fraction(name)
        pairs = list(exact_views.flipped_values_pairs(users, decoys, 3, flip))
        mechanism = privacy.FlippedValues(
            users=users, decoys=decoys, values=3, flip_probability=flip
        )
        for delta in (0.1, 1e-5):
            bracket = mechanism.epsilon(delta)
            found = judge.epsilon_complaint(bracket, delta, partial(judge.true_delta, pairs))
            assert not found, (name, delta, found)
            assert bracket.upper <= mechanism.local_epsilon


@pytest.mark.parametrize("users", [2, 4, 6, 9, 13])
def test_two_sums_of_the_worst_crowd_without_decoys(users: int) -> None:
    """More users than whole histograms allow: third values cancel when there are no decoys."""
    for name in FLIPS:
        flip, others = Fraction(name), users - 1
        crowds = [(a, b) for a in range(others + 1) for b in range(others + 1 - a)]
        pairs = [exact_views.two_sums_pair(a, b, others, flip) for a, b in crowds]
        mechanism = privacy.FlippedValues(users=users, decoys=0, values=1000, flip_probability=flip)
        for epsilon in (0.2, 1.0, 3.0):
            truth = judge.true_delta(pairs, epsilon)
            found = judge.complaint(mechanism.delta(epsilon), truth)
            assert not found, (name, epsilon, found)


@pytest.mark.parametrize(
    ("users", "decoys", "values"), [(1, 3, 150), (1, 8, 8), (2, 6, 20), (5, 3, 2), (4, 5, 1000)]
)
def test_no_under_report_with_more_decoys(users: int, decoys: int, values: int) -> None:
    """The two affected sums alone are a lower bound of what the whole histogram shows."""
    for name in ("0.02", "0.2"):
        flip = Fraction(name)
        crowds = [
            (a, b, users - 1 - a - b)
            for a in range(users)
            for b in range(users - a)
            if values > 2 or a + b == users - 1
        ]
        pairs = [exact_views.two_sums_mixture(crowd, decoys, values, flip) for crowd in crowds]
        mechanism = privacy.FlippedValues(
            users=users, decoys=decoys, values=values, flip_probability=flip
        )
        for epsilon in (0.0, 0.5, 2.0, 5.0, 7.55):
            known = judge.true_delta(pairs, epsilon)[0]
            assert Fraction(mechanism.delta(epsilon).upper) >= known, (name, epsilon)
