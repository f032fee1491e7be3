"""Signal to noise of a moved column: S4's three observations, as far as they are true."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from chaffinch.errors import InvalidInput
from chaffinch.privacy.mechanisms.filters import FlippedFilters, SignalToNoise, _flip_counts
from tests.cases import each_case
from tests.oracles import filters as oracle

COUNTS = (10, 100, 10, 5, 5, 5, 5, 1)


def ratios(counts: tuple[int, ...], flip: str) -> SignalToNoise:
    filters = (len(counts) - 1).bit_length()
    mechanism = FlippedFilters(filters=filters, bits=sum(counts), flip_probability=flip)
    return mechanism.signal_to_noise(counts)


def test_flips_are_applied_bit_by_bit() -> None:
    table = [[float(x) for x in row] for row in oracle.transition(3, Fraction(1, 5))]
    vector = np.arange(8.0) ** 2
    assert _flip_counts(vector, 0.2) == pytest.approx(np.array(table) @ vector)
    assert _flip_counts(np.eye(8), 0.2) == pytest.approx(np.array(table))


@each_case("counts", [COUNTS, (7, 0, 0, 0), (1, 2, 3, 4), (1, 0)])
@each_case("flip", ["0.02", "0.2", "0.45"])
def test_every_move_against_rationals(counts: tuple[int, ...], flip: str) -> None:
    found = ratios(counts, flip)
    matrix = found.matrix()
    for i in range(len(counts)):
        for j in range(i):
            truth = float(oracle.signal_to_noise(counts, Fraction(flip), i, j))
            assert matrix[i, j] == pytest.approx(truth, rel=1e-9)
            assert matrix[j, i] == pytest.approx(truth, rel=1e-9)
            assert found.of((i, j)) == pytest.approx(truth, rel=1e-9)


def test_opposite_logos_are_not_always_the_loudest() -> None:
    found = ratios(COUNTS, "0.2")
    move, loudest = found.largest()
    assert move == (1, 6)
    assert loudest == pytest.approx(0.0785, abs=5e-5)
    assert found.of((0, 7)) == pytest.approx(0.0660, abs=5e-5)


@pytest.mark.parametrize("flip", ["0.05", "0.2", "0.4"])
def test_skewness_makes_moves_louder(flip: str) -> None:
    """S4 observation 1, on the way from equal counts to all columns on one logo."""
    path = [(70 + 49 * t, *[70 - 7 * t] * 7) for t in range(0, 11, 2)]
    loudest = [ratios(counts, flip).largest()[1] for counts in path]
    assert loudest == sorted(loudest)
    assert loudest[0] < loudest[-1]


@pytest.mark.parametrize("filters", [1, 2, 3, 6, 12])
def test_a_crowd_on_one_logo_is_loudest_between_opposites(filters: int) -> None:
    """S4 observation 2, with the value (t^k − 1)/m in closed form."""
    mechanism = FlippedFilters(filters=filters, bits=50, flip_probability="0.2")
    found, last = mechanism.signal_to_noise(), 2**filters - 1
    closed = ((0.64 / 0.2 + 0.04 / 0.8) ** filters - 1) / 50
    assert found.of((0, last)) == pytest.approx(closed, rel=1e-11)
    if filters <= 6:
        assert found.largest()[0] == (0, last)
        assert found.largest()[1] == pytest.approx(closed, rel=1e-11)


def test_best_coefficients_are_the_ratios() -> None:
    """S4 observation 3, corrected: exactly a constant less (p/q)^(2y−k), y the set bits."""
    found = FlippedFilters(filters=3, bits=9, flip_probability="0.3").signal_to_noise()
    best = found.coefficients((0, 7))
    shape = np.array([-((7 / 3) ** (2 * logo.bit_count() - 3)) for logo in range(8)])
    shape = shape - shape.mean()
    assert best == pytest.approx(shape / np.linalg.norm(shape), abs=1e-12)
    small = FlippedFilters(filters=3, bits=9, flip_probability="0.01").signal_to_noise()
    tail = small.coefficients((0, 7))
    assert tail[7] < -0.9
    assert np.all(np.abs(tail[:7] - tail[0]) < 1e-3)


@each_case(
    "counts",
    [[1, 2], [1, 2, 3, -1], [1, 1, 1, 1], [math.nan, 1, 2, 2], "abcd", [[5, 0, 0, 0]], 5],
)
def test_wrong_counts_are_refused(counts: Any) -> None:
    mechanism = FlippedFilters(filters=2, bits=5, flip_probability="0.2")
    with pytest.raises(InvalidInput, match="logo counts"):
        mechanism.signal_to_noise(counts)


@pytest.mark.parametrize("move", [(0, 0), (0, 4), (-1, 2), (0.5, 1), (True, 2)])
def test_wrong_moves_are_refused(move: Any) -> None:
    found = FlippedFilters(filters=2, bits=5, flip_probability="0.2").signal_to_noise()
    with pytest.raises(InvalidInput):
        found.of(move)


def test_all_moves_of_many_filters_are_refused() -> None:
    found = FlippedFilters(filters=11, bits=5, flip_probability="0.2").signal_to_noise()
    with pytest.raises(InvalidInput, match="one move"):
        found.matrix()
