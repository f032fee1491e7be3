"""Whole rows (vectors and columns of filters): every crowd and every pair, with rationals."""

from __future__ import annotations

from fractions import Fraction
from functools import cache

from chaffinch import privacy
from tests.cases import each_case
from tests.oracles import exact_views, judge
from tests.oracles.exact import Pair
from tests.tiers import chequered, nightly

SIZES = [(users, 2) for users in range(1, 8)] + [(users, 3) for users in range(1, 5)]
EPSILONS = [0.0, 0.5, 1.0, 2.0, 3.0, 5.0]
FLIPS = ["0.05", "0.15", "0.3", "0.45"]
GATE = [
    *chequered(SIZES[:-1], FLIPS),
    *(nightly(*SIZES[-1], flip) if flip != "0.05" else (*SIZES[-1], flip) for flip in FLIPS),
]


@cache
def every_pair(users: int, bits: int, name: str) -> tuple[Pair, ...]:
    return tuple(pair for *_, pair in exact_views.vectors_pairs(users, bits, Fraction(name)))


@each_case(("users", "bits", "name"), GATE)
def test_vectors_contain_the_truth(users: int, bits: int, name: str) -> None:
    mechanism = privacy.FlippedVectors(users=users, bits=bits, flip_probability=name)
    for epsilon in EPSILONS:
        truth = judge.true_delta(every_pair(users, bits, name), epsilon)
        found = judge.complaint(mechanism.delta(epsilon), truth)
        assert not found, (epsilon, found)


@each_case(("columns", "filters", "name"), GATE)
def test_filters_contain_the_truth(columns: int, filters: int, name: str) -> None:
    mechanism = privacy.FlippedFilters(filters=filters, bits=columns, flip_probability=name)
    for epsilon in EPSILONS[1::2]:
        truth = judge.true_delta(every_pair(columns, filters, name), epsilon)
        found = judge.complaint(mechanism.delta(epsilon), truth)
        assert not found, (epsilon, found)


@each_case("name", FLIPS)
@each_case(("users", "bits"), SIZES)
def test_assumed_pair_contains_its_own_truth(users: int, bits: int, name: str) -> None:
    pair = exact_views.assumed_pair(users, bits, Fraction(name))
    mechanism = privacy.FlippedVectors(users=users, bits=bits, flip_probability=name)
    for epsilon in EPSILONS:
        bracket = mechanism.assumed_pair().delta(epsilon)
        found = judge.complaint(bracket, judge.true_delta([pair], epsilon))
        assert not found, (epsilon, found)


def test_the_assumed_pair_is_not_the_worst() -> None:
    """The smallest known counter-example: the package must not fall for it."""
    mechanism = privacy.FlippedVectors(users=7, bits=2, flip_probability="0.15")
    assumed = mechanism.assumed_pair().delta(2.0)
    truth = judge.true_delta(every_pair(7, 2, "0.15"), 2.0)
    assert Fraction(assumed.upper) < truth[0] <= Fraction(mechanism.delta(2.0).upper)
