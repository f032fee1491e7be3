"""The transforms against matrices that are written out, in floats and in fractions."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from chaffinch.reach.planning.audience import Audience
from chaffinch.reach.planning.estimator import (
    _differences,
    _empty_columns,
    _transposed_differences,
    column_weights,
    seen_law,
)
from tests.cases import each_case

Floats = NDArray[np.float64]
SHAPES = [(1, 1), (2, 1), (3, 1), (5, 1), (1, 2), (2, 2), (1, 4), (2, 3), (3, 2)]
FLIP = Fraction(3, 16)


def audience(publishers: int, frequencies: int) -> Audience:
    return Audience([f"p{place}" for place in range(publishers)], frequencies=frequencies)


def kron(matrices: list[Floats]) -> Floats:
    """Return the product in which the first matrix moves the lowest bits."""
    found = np.eye(1)
    for matrix in matrices:
        found = np.kron(matrix, found).astype(np.float64)
    return found


def flips(rows: int, flip: float) -> Floats:
    """Return S4's matrix of all flips: how likely a logo (column) is seen as another (row)."""
    one = np.array([[1 - flip, flip], [flip, 1 - flip]])
    return kron([one] * rows)


def numbered(values: Floats) -> Floats:
    """Return a grid as a vector in which the first publisher moves fastest."""
    return values.reshape(-1, order="F")


def empty_by_hand(publishers: int, frequencies: int) -> Floats:
    """Return which true logos count as empty for each v: row v must be 0, for each publisher."""
    whose = audience(publishers, frequencies)
    places = sorted(product(*[range(frequencies + 1)] * publishers), key=lambda v: v[::-1])
    table = np.zeros((len(places), 2**whose.rows))
    for number, most in enumerate(places):
        for logo in range(2**whose.rows):
            table[number, logo] = all(
                views == frequencies or not (logo >> (place * frequencies + views)) & 1
                for place, views in enumerate(most)
            )
    return table


@each_case(("publishers", "frequencies"), SHAPES)
@each_case("flip", [0.0, 0.01, 0.2, 0.45])
def test_empty_columns_are_the_inverse_of_the_flips_added_up(
    publishers: int, frequencies: int, flip: float
) -> None:
    whose = audience(publishers, frequencies)
    counts = np.random.default_rng(1).integers(0, 1000, 2**whose.rows).astype(float)
    before = np.linalg.solve(flips(whose.rows, flip), counts)
    expected = empty_by_hand(publishers, frequencies) @ before
    found = _empty_columns(counts, whose, flip)
    assert found.shape == whose.grid
    assert numbered(found) == pytest.approx(expected, rel=1e-9, abs=1e-6)


@pytest.mark.parametrize(("publishers", "frequencies"), [(1, 1), (2, 1), (3, 1), (2, 2), (1, 3)])
def test_empty_columns_agree_with_exact_fractions(publishers: int, frequencies: int) -> None:
    whose = audience(publishers, frequencies)
    right, wrong = (1 - FLIP) / (1 - 2 * FLIP), -FLIP / (1 - 2 * FLIP)
    counts = [(7 * logo * logo + 3) % 101 for logo in range(2**whose.rows)]
    found = _empty_columns(np.array(counts, float), whose, float(FLIP))
    for most in np.ndindex(*whose.grid):
        total = Fraction(0)
        for logo, count in enumerate(counts):
            weight = Fraction(1)
            for place, views in enumerate(most):
                if views < frequencies:
                    weight *= wrong if (logo >> (place * frequencies + views)) & 1 else right
            total += weight * count
        assert found[most] == pytest.approx(float(total), rel=1e-12)


@each_case(("publishers", "frequencies"), SHAPES)
def test_what_is_seen_is_what_was_sent_flipped(publishers: int, frequencies: int) -> None:
    whose = audience(publishers, frequencies)
    exactly = np.random.default_rng(2).dirichlet(np.ones(int(np.prod(whose.grid))))
    exactly = exactly.reshape(whose.grid)
    sent = np.zeros(2**whose.rows)
    for views in np.ndindex(*whose.grid):
        logo = sum((2**one - 1) << (place * frequencies) for place, one in enumerate(views))
        sent[logo] += exactly[views]
    at_most = exactly
    for axis in range(publishers):
        at_most = np.cumsum(at_most, axis=axis)
    found = seen_law(at_most, whose, 0.2)
    assert found == pytest.approx(flips(whose.rows, 0.2) @ sent, rel=1e-9)
    assert found.sum() == pytest.approx(1.0, abs=1e-12)
    # Undoing it leads back to where it came from.
    assert _empty_columns(found, whose, 0.2) == pytest.approx(at_most, rel=1e-9)


def test_a_wrong_flip_does_not_lead_back() -> None:
    whose = audience(2, 1)
    at_most = np.array([[0.2, 0.5], [0.6, 1.0]])
    back = _empty_columns(seen_law(at_most, whose, 0.2), whose, 0.22)
    assert back != pytest.approx(at_most, rel=1e-3)


@given(data=st.data())
def test_transposes_are_transposes(data: Any) -> None:
    publishers, frequencies = data.draw(st.sampled_from(SHAPES))
    flip = data.draw(st.floats(0.0, 0.45))
    whose = audience(publishers, frequencies)
    draws = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    logos = draws.normal(size=2**whose.rows)
    grid, other = draws.normal(size=whose.grid), draws.normal(size=whose.grid)
    there = float((_empty_columns(logos, whose, flip) * grid).sum())
    back = float(logos @ column_weights(grid, whose, flip))
    size = float(np.abs(_empty_columns(np.abs(logos), whose, flip)).sum() * np.abs(grid).max())
    assert there == pytest.approx(back, abs=1e-10 * max(size, 1.0))
    there = float((_differences(other) * grid).sum())
    back = float((other * _transposed_differences(grid)).sum())
    assert there == pytest.approx(back, abs=1e-9)


@pytest.mark.parametrize("size", [(3,), (2, 2), (4, 4, 4)])
def test_differences_undo_running_sums(size: tuple[int, ...]) -> None:
    values = np.random.default_rng(3).integers(0, 9, size).astype(float)
    sums = values
    for axis in range(len(size)):
        sums = np.cumsum(sums, axis=axis)
    assert (_differences(sums) == values).all()


def test_twenty_rows_take_no_matrix() -> None:
    whose = audience(20, 1)
    counts = np.zeros(2**20)
    counts[0] = 1.0
    found = _empty_columns(counts, whose, 0.1)
    assert found.shape == (2,) * 20
    assert found[(0,) * 20] == pytest.approx((0.9 / 0.8) ** 20)
    assert found[(1,) * 20] == 1.0
