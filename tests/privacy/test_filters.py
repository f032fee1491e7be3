"""Filters: S4's golden pairs, the proven bound, and the search for a flip probability."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest

from chaffinch.errors import InvalidInput, NoParameterFound
from chaffinch.privacy.mechanisms.filters import FlippedFilters, flip_probability_for
from chaffinch.privacy.mechanisms.records import FlippedVectors
from tests.cases import each_case
from tests.tiers import chequered

GOLDEN = [
    (30, 3, "0.2", 1.0, 0.0675697381472133),
    (50, 2, "0.25", 0.5, 0.0117483555226182),
    (20, 4, "0.3", 1.0, 0.014153550665904),
    (100, 1, "0.1", 1.0, 0.000501748668101162),
]


@pytest.mark.parametrize(("bits", "filters", "flip", "epsilon", "value"), GOLDEN)
def test_assumed_pair_is_golden(
    *, bits: int, filters: int, flip: str, epsilon: float, value: float
) -> None:
    mechanism = FlippedFilters(filters=filters, bits=bits, flip_probability=flip)
    bracket = mechanism.assumed_pair().delta(epsilon)
    assert bracket.lower == pytest.approx(value, rel=1e-9)
    assert bracket.upper == pytest.approx(value, rel=1e-9)
    assert mechanism.delta(epsilon).upper >= value


def test_columns_are_records_of_another_name() -> None:
    columns = FlippedFilters(filters=3, bits=200, flip_probability="0.2")
    rows = FlippedVectors(users=200, bits=3, flip_probability="0.2")
    assert columns.delta(1.0) == rows.delta(1.0)
    assert columns.epsilon(1e-4) == rows.epsilon(1e-4)
    promise = columns.guarantee(delta=1e-4)
    assert promise.view == "columns"
    assert "per column" in promise.crowd


def test_a_million_columns() -> None:
    mechanism = FlippedFilters(filters=5, bits=10**6, flip_probability="0.25")
    proven = mechanism.epsilon(1e-9)
    assumed = mechanism.assumed_pair().epsilon(1e-9)
    assert assumed.upper == pytest.approx(0.0400297, rel=1e-5)
    assert 1.6 < proven.upper / assumed.upper < 1.7


def test_monte_carlo_agrees_with_the_certified_pair() -> None:
    """Above the hockey-stick epsilon, and at the normal quantile of ln R up to its skewness.

    False alarms: the sample quantile has a relative error of 0.7 %, and 10 % are granted.
    """
    mechanism = FlippedFilters(filters=3, bits=1000, flip_probability="0.25")
    made = mechanism.monte_carlo(delta=0.01, samples=50_000, seed=3)
    assert mechanism.assumed_pair().epsilon(0.01).upper < made.epsilon
    spread = math.sqrt(((0.5625 / 0.25 + 0.0625 / 0.75) ** 3 - 1) / 1000)
    assert made.epsilon == pytest.approx(2.3263 * spread, rel=0.1)


@pytest.mark.parametrize(
    ("filters", "bits", "epsilon", "delta", "method"),
    chequered(
        [(2, 10_000, 1.0, 1e-6), (3, 50, 1.0, 1e-3), (5, 10**6, 0.1, 1e-9), (1, 1000, 1.0, 1e-6)],
        ["proven", "assumed"],
    ),
)
def test_the_smallest_flip_probability_is_safe_and_smallest(
    *, filters: int, bits: int, epsilon: float, delta: float, method: str
) -> None:
    flip = flip_probability_for(
        epsilon=epsilon, delta=delta, filters=filters, bits=bits, method=method
    )
    assert (flip * 2**64).denominator == 1

    def reached(value: Fraction) -> float:
        mechanism = FlippedFilters(filters=filters, bits=bits, flip_probability=value)
        if method == "proven":
            return mechanism.proven_delta(epsilon)
        return mechanism.assumed_pair().delta(epsilon, relative_width=1e-4).upper

    assert reached(flip) <= delta < reached(flip * Fraction(999_999, 1_000_000))


def test_a_flip_probability_may_be_out_of_reach_or_not_needed() -> None:
    with pytest.raises(NoParameterFound):
        flip_probability_for(epsilon=0.0, delta=1e-300, filters=2, bits=10)
    tiny = flip_probability_for(epsilon=100.0, delta=0.1, filters=1, bits=10)
    assert tiny == Fraction(1, 2**64)


@each_case(
    "change",
    [
        {"epsilon": -1},
        {"epsilon": math.nan},
        {"delta": 0},
        {"filters": 21},
        {"bits": 0},
        {"method": "guess"},
        {"method": None},
    ],
)
def test_the_search_refuses_bad_parameters(change: dict[str, Any]) -> None:
    good: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6, "filters": 2, "bits": 10}
    with pytest.raises(InvalidInput, match="must be"):
        flip_probability_for(**(good | change))


@pytest.mark.parametrize(
    "change", [{"filters": 0}, {"filters": 21}, {"bits": 0}, {"bits": 1.5}, {"flip_probability": 0}]
)
def test_bad_filters_are_refused(change: dict[str, Any]) -> None:
    good: dict[str, Any] = {"filters": 2, "bits": 10, "flip_probability": "0.1"}
    with pytest.raises(InvalidInput, match="must be"):
        FlippedFilters(**(good | change))
