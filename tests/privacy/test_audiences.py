"""One id in several filters: the group bound against every pair of neighbours, counted out."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations_with_replacement
from typing import Any

import mpmath
import pytest

from chaffinch import privacy
from chaffinch.errors import InvalidInput
from chaffinch.privacy.mechanism_documents import mechanism_document, mechanism_from
from chaffinch.privacy.mechanisms.filters import audience_flip_probability, group_weight
from tests.oracles import judge
from tests.oracles.exact import Pair
from tests.oracles.exact_views import Weights, add_row, row_weights
from tests.tiers import chequered

EPSILONS = (0.0, 0.5, 1.0, 2.0, 4.0)


def law(columns: tuple[int, ...], filters: int, flip: Fraction) -> Weights:
    """Return the law of the released logo counts, as weights over a common total."""
    found: Weights = {(0,) * 2**filters: 1}
    for column in columns:
        found = add_row(found, row_weights(column, filters, flip))
    return found


def neighbours(bits: int, filters: int, hashes: int, flip: Fraction) -> list[Pair]:
    """Return the view without and with one id: any others, any publishers, any columns of it."""
    pairs: list[Pair] = []
    total = flip.denominator ** (bits * filters)
    for others in combinations_with_replacement(range(2**filters), bits):
        without = law(others, filters, flip)
        for publishers in range(1, 2**filters):
            for touched in range(1, min(hashes, bits) + 1):
                for places in combinations_with_replacement(range(bits), touched):
                    joined = list(others)
                    for place in places:
                        joined[place] |= publishers
                    if tuple(joined) == others:
                        continue
                    added = law(tuple(joined), filters, flip)
                    keys = sorted(without)
                    pair = Pair(
                        tuple(without[key] for key in keys),
                        tuple(added[key] for key in keys),
                        total,
                    )
                    pairs.extend((pair, pair.reversed()))
    return pairs


@pytest.mark.parametrize(
    ("bits", "filters", "hashes", "name"),
    chequered([(3, 2, 1), (3, 2, 2), (3, 2, 3), (5, 1, 2), (2, 3, 2)], ["0.1", "0.3"]),
)
def test_the_bracket_holds_every_neighbour(bits: int, filters: int, hashes: int, name: str) -> None:
    mechanism = privacy.FlippedAudiences(
        filters=filters, bits=bits, hashes=hashes, flip_probability=name
    )
    pairs = neighbours(bits, filters, hashes, Fraction(name))
    for epsilon in EPSILONS:
        truth = judge.true_delta(pairs, epsilon)
        found = judge.complaint(mechanism.delta(epsilon), truth)
        assert not found, (epsilon, found)
        if hashes > 1 and filters * bits > 4 and epsilon == 1.0:
            # One column's guarantee is no guarantee for an id: the test can fail.
            assert Fraction(mechanism.columns.assumed_pair().delta(epsilon).upper) < truth[0]


def test_one_hash_is_one_column() -> None:
    one = privacy.FlippedAudiences(filters=3, bits=1000, hashes=1, flip_probability="0.2")
    assert one.delta_bound(0.7) == one.columns.proven_delta(0.7)
    assert one.epsilon(1e-6).upper == pytest.approx(one.columns.epsilon(1e-6).upper, rel=1e-6)
    assert one.local_epsilon == one.columns.local_epsilon


def test_group_privacy_in_numbers() -> None:
    """The bound of two columns is the textbook one, with the sum for the quotient."""
    two = privacy.FlippedAudiences(filters=2, bits=10_000, hashes=2, flip_probability="0.1")
    column = two.columns.proven_delta(0.5)
    assert two.delta_bound(1.0) == pytest.approx(column * math.expm1(1) / math.expm1(0.5), rel=1e-9)
    assert two.delta_bound(1.0) >= column * (1 + math.exp(0.5))
    assert two.local_epsilon == pytest.approx(4 * math.log(9))
    assert two.delta_bound(two.local_epsilon) == 0.0


def test_more_columns_protect_and_more_hashes_expose() -> None:
    def bound(bits: int, hashes: int) -> float:
        return privacy.FlippedAudiences(
            filters=3, bits=bits, hashes=hashes, flip_probability="0.2"
        ).delta_bound(0.5)

    deltas = [bound(bits, 2) for bits in (1_000, 3_000, 10_000)]
    assert deltas == sorted(deltas, reverse=True)
    deltas = [bound(10_000, hashes) for hashes in (1, 2, 3, 5)]
    assert deltas == sorted(deltas)


def test_weights_are_above_the_exact_sum() -> None:
    with mpmath.workdps(60):
        for step in (0.0, 1e-9, 0.3, 2.0):
            for hashes in (2, 5, 64):
                exact = mpmath.fsum(mpmath.exp(place * mpmath.mpf(step)) for place in range(hashes))
                assert exact <= group_weight(step, hashes) <= exact * (1 + mpmath.mpf("1e-12"))
    assert math.isinf(group_weight(100.0, 64))


@pytest.mark.parametrize(("hashes", "bits"), [(1, 10_000), (2, 10_000), (4, 10**6)])
def test_the_smallest_flip_probability_is_safe_and_smallest(hashes: int, bits: int) -> None:
    flip = audience_flip_probability(epsilon=1.0, delta=1e-8, filters=3, bits=bits, hashes=hashes)

    def bound(value: Fraction) -> float:
        return privacy.FlippedAudiences(
            filters=3, bits=bits, hashes=hashes, flip_probability=value
        ).delta_bound(1.0)

    assert (flip * 2**64).denominator == 1
    assert bound(flip) <= 1e-8 < bound(flip * Fraction(99_999, 100_000))


def test_the_assumed_figure_stands_below_the_proven_one() -> None:
    ids = privacy.FlippedAudiences(filters=3, bits=10**5, hashes=2, flip_probability="0.1")
    assert ids.assumed_epsilon(1e-8) < ids.epsilon(1e-8).upper
    promise = ids.guarantee(delta=1e-8)
    assert promise.proven
    assert promise.neighbours == "add-remove-one-id"
    assert "up to 2 columns" in promise.crowd


def test_documents_keep_it() -> None:
    ids = privacy.FlippedAudiences(filters=3, bits=1000, hashes=2, flip_probability="1/4")
    assert mechanism_from(mechanism_document(ids)) == ids


@pytest.mark.long
def test_rounds_compose() -> None:
    """Two campaigns of the same ids: below twice epsilon, above once."""
    ids = privacy.FlippedAudiences(filters=2, bits=10**4, hashes=1, flip_probability="0.1")
    once, twice = ids.epsilon(1e-6).upper, privacy.compose(ids, times=2).epsilon(1e-6).upper
    assert once < twice < 2 * once


@pytest.mark.parametrize(
    "change", [{"hashes": 0}, {"hashes": 65}, {"hashes": True}, {"bits": 0}, {"filters": 21}]
)
def test_bad_parameters_are_refused(change: dict[str, Any]) -> None:
    good: dict[str, Any] = {"filters": 2, "bits": 10, "hashes": 1, "flip_probability": "0.1"}
    with pytest.raises(InvalidInput, match="must be"):
        privacy.FlippedAudiences(**(good | change))
    with pytest.raises(InvalidInput, match="must be"):
        audience_flip_probability(epsilon=0.0, delta=1e-6, filters=2, bits=10, hashes=1)
