"""Branch and bound: brackets the true maximum of anything that more records lower."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaffinch.privacy.mechanisms.bit_crowds import BitCrowds
from chaffinch.privacy.numerics import crowds
from chaffinch.privacy.numerics.crowds import Box

weights = st.lists(st.floats(0.01, 1.0), min_size=2, max_size=40)


@given(weights, weights)
def test_the_maximum_of_a_product_of_falling_curves(
    first: list[float], second: list[float]
) -> None:
    """f(ones, zeros) = g(ones)·h(zeros), both falling: the worst split of a fixed total."""
    last = min(len(first), len(second)) - 1
    fall_one = np.cumprod(first)
    fall_zero = np.cumprod(second)

    def bound(box: Box) -> crowds.Ends:
        value = fall_one[box.low[0]] * fall_zero[last - box.high[0]]
        return np.array([value]), np.array([value])

    result = crowds.find_worst([Box((0,), (last,))], bound, width=1e-12)
    truth = max(fall_one[a] * fall_zero[last - a] for a in range(last + 1))
    assert result.lower[0] == pytest.approx(truth, rel=1e-12)
    assert result.upper[0] >= truth
    assert result.upper[0] <= truth * (1 + 1e-11)


def test_running_out_of_evaluations_still_covers_the_truth() -> None:
    def bound(box: Box) -> crowds.Ends:
        value = 1.0 / (1 + box.low[0] + (1000 - box.high[0]))
        lower = value if box.is_crowd else 0.0
        return np.array([lower]), np.array([value])

    result = crowds.find_worst([Box((0,), (1000,))], bound, width=1e-9, most_evaluations=60)
    assert result.lower[0] <= 1 / 1001 <= result.upper[0]


@given(
    st.integers(5, 120),
    st.sampled_from(["0.05", "0.2", "0.4"]),
    st.floats(0.01, 1.5),
    st.data(),
)
def test_a_box_bounds_every_crowd_in_it(
    users: int, flip: str, epsilon: float, data: st.DataObject
) -> None:
    """The bound with its spread, as the search uses it, against each crowd of the box."""
    family = BitCrowds(Fraction(flip), 1, 1, users)
    low = data.draw(st.integers(0, users))
    high = data.draw(st.integers(low, users))

    def ask(knots: object, spread: float) -> crowds.Ends:
        ends = knots.delta(epsilon, spread=spread)  # type: ignore[attr-defined]
        return np.array([ends[0]]), np.array([ends[1]])

    bound = family.bound_of(ask, 1e-30)
    roof = bound(Box((low,), (high,)))[1][0]
    for ones in range(low, high + 1):
        assert bound(Box((ones,), (ones,)))[0][0] <= roof


def test_the_spread_of_a_box_lowers_its_bound() -> None:
    """The refinement must bite where it is meant to: some records of unknown kind."""
    family = BitCrowds(Fraction(1, 4), 1, 1, 10**5)
    knots = family.knots(0, 10, mirrored=False, tail=1e-25)
    plain, refined = knots.delta(0.01)[1], knots.delta(0.01, spread=10 * 0.1875)[1]
    truth = max(family.knots(a, a, mirrored=False, tail=1e-25).delta(0.01)[1] for a in (0, 5, 10))
    assert truth <= refined < plain
    assert refined - truth < 0.7 * (plain - truth)
