"""Projections: feasible, idempotent, nearest, and open about what they did."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaffinch.analysis.adjust import non_negative, to_total
from chaffinch.errors import InvalidInput

numbers = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=5)
totals = st.floats(0, 1e6)


def nearest_by_support(raw: np.ndarray, total: float) -> np.ndarray:
    """Try every set of positive entries in exact fractions; on each a common shift is nearest."""
    exact, whole = [Fraction(float(one)) for one in raw], Fraction(total)
    best: list[Fraction] = []
    least: Fraction | None = None
    for size in range(1, len(exact) + 1):
        for kept in combinations(range(len(exact)), size):
            shift = (sum((exact[k] for k in kept), Fraction(0)) - whole) / size
            point = [one - shift if k in kept else Fraction(0) for k, one in enumerate(exact)]
            distance = sum(((p - e) ** 2 for p, e in zip(point, exact, strict=True)), Fraction(0))
            if min(point) >= 0 and (least is None or distance < least):
                best, least = point, distance
    return np.array([float(one) for one in best])


@given(numbers, totals)
def test_to_total_is_feasible_idempotent_and_nearest(raw: list[float], total: float) -> None:
    adjusted, _ = to_total(raw, total)
    assert adjusted.min() >= 0
    assert adjusted.sum() == pytest.approx(total, abs=1e-6)
    again, _ = to_total(adjusted, total)
    np.testing.assert_allclose(again, adjusted, atol=1e-6)
    np.testing.assert_allclose(adjusted, nearest_by_support(np.array(raw), total), atol=1e-5)


def test_to_total_is_nearest_beside_a_huge_negative() -> None:
    """Found by a property test: the referee, not the projection, had lost the digits."""
    raw = [1.0, 0.00390625, 0.002, -5793.0]
    adjusted, _ = to_total(raw, 1.0)
    np.testing.assert_allclose(adjusted, [0.99803125, 0.0019375, 0.00003125, 0.0], atol=1e-12)
    np.testing.assert_allclose(adjusted, nearest_by_support(np.array(raw), 1.0), atol=1e-9)


@given(numbers)
def test_non_negative_changes_only_what_is_negative(raw: list[float]) -> None:
    adjusted, _ = non_negative(raw)
    assert adjusted.min() >= 0
    np.testing.assert_array_equal(adjusted, np.where(np.array(raw) > 0, raw, 0.0))


def test_to_total_keeps_its_digits_among_a_million() -> None:
    rng = np.random.default_rng(7)
    adjusted, _ = to_total(rng.normal(0, 1e3, 10**6), 1e7)
    assert adjusted.sum() == pytest.approx(1e7, rel=1e-9)


def test_the_sentences_admit_the_bias() -> None:
    for said in (non_negative([-1.0, 2.0])[1], to_total([-1.0, 2.0], 1.0)[1]):
        assert "bias" in said
        assert "1 of 2" in said


@pytest.mark.parametrize(
    ("raw", "total"), [([float("nan")], 1.0), ([1.0], -1.0), ([], 1.0), ([1.0], float("inf"))]
)
def test_what_cannot_be_projected_is_refused(raw: list[float], total: float) -> None:
    with pytest.raises(InvalidInput):
        to_total(raw, total)
