"""True answers, and how tallies are drawn around them."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from chaffinch.errors import InvalidInput
from chaffinch.protocols.noise import (
    MOST_REPORTS,
    Noise,
    Truth,
    draw_thermometer,
    flip_counts,
    scatter_evenly,
)
from tests.cases import each_case


def truth(shape: str, people: int, counts: list[int], shares: list[float] | None = None) -> Truth:
    places = None if shares is None else np.array(shares)
    return Truth(shape, people, np.array(counts, np.int64), places)


@each_case(
    ("shape", "people", "counts", "shares"),
    [
        ("choice", 0, [0, 0], None),
        ("choice", 3, [], None),
        ("choice", 3, [1, 1], None),
        ("choice", 3, [4, -1], None),
        ("choice", 3, [3, 1], None),
        ("flags", 3, [4, 0], None),
        ("flags", 3, [-1, 3], None),
        ("choice", 3, [1, 2], [0.0, 1.0]),
        ("number", 3, [1, 2], None),
        ("number", 3, [1, 2], [0.5]),
        ("number", 3, [1, 2], [0.5, 0.5]),
        ("number", 3, [1, 2], [0.7, 0.5]),
        ("number", 3, [1, 2], [-0.1, 0.5]),
        ("number", 3, [1, 1, 1], [0.2, 0.1, 0.9]),
        ("number", 3, [1, 1, 1], [0.2, 0.5, 1.5]),
        ("number", 3, [3], [1.5]),
        ("number", 3, [1, 2], [0.5, 1.1]),
    ],
)
def test_a_truth_that_cannot_be_is_refused(
    shape: str, people: int, counts: list[int], shares: list[float] | None
) -> None:
    with pytest.raises(InvalidInput):
        truth(shape, people, counts, shares)


def test_people_are_listed_one_by_one() -> None:
    assert truth("choice", 4, [1, 0, 3]).numbers().tolist() == [0, 2, 2, 2]
    flags = truth("flags", 3, [0, 3, 1]).numbers()
    assert flags.tolist() == [[0, 1, 1], [0, 1, 0], [0, 1, 0]]
    assert flags.dtype == np.uint8
    assert truth("choice", 1, [0, 1]).numbers().tolist() == [1]
    assert truth("number", 3, [3], [0.5]).numbers().tolist() == [0.5, 0.5, 0.5]
    assert truth("number", 3, [1, 2], [0.0, 1.0]).numbers().tolist() == [0.0, 1.0, 1.0]


def test_a_lone_code_of_a_bit_says_yes() -> None:
    bit = truth("bit", 5, [2, 3])
    assert bit.held(1).tolist() == [3]
    assert bit.held(2).tolist() == [2, 3]


def test_means_and_rounding_are_of_numbers_only() -> None:
    number = truth("number", 4, [1, 1, 2], [0.0, 0.6, 1.0])
    assert number.mean == pytest.approx(0.65)
    full, chances = number.rounding(4)
    assert full.tolist() == [0, 2, 4]
    assert chances == pytest.approx([0.0, 0.4, 0.0])
    with pytest.raises(InvalidInput, match="about numbers"):
        _ = truth("choice", 3, [1, 2]).mean


class Means:
    """Draws that are their means: what a law is centred on, without chance."""

    def binomial(self, trials: Any, chance: Any, size: Any = None) -> Any:
        mean = np.asarray(trials) * np.asarray(chance)
        drawn = np.rint(mean).astype(np.int64)
        assert drawn == pytest.approx(mean), "choose numbers of people whose means are whole"
        return drawn if size is None else np.broadcast_to(drawn, size)

    def multinomial(self, trials: int, weights: Any, runs: int) -> Any:
        assert weights.sum() == pytest.approx(1.0)
        return np.broadcast_to(trials * weights, (runs, len(weights)))


MEANS: Any = Means()


def test_flipped_bits_are_kept_ones_and_flipped_zeros() -> None:
    assert flip_counts(np.array([[0, 4, 12]]), 12, 0.25, MEANS).tolist() == [[3, 5, 9]]


def test_decoys_are_scattered_evenly_over_all_values() -> None:
    places = np.array([0, 1, 2])
    assert scatter_evenly(100, 0.1, 2, MEANS, places) == pytest.approx(np.full((2, 3), 10.0))
    # Chances that add up to a hair more than one are still chances.
    assert scatter_evenly(90, 1 / 3 + 1e-17, 1, MEANS, places) == pytest.approx(
        np.full((1, 3), 30.0)
    )
    assert scatter_evenly(90, 0.34, 1, MEANS, places) == pytest.approx(np.full((1, 3), 30.0))


def test_thermometers_are_full_below_and_a_coin_at_the_border() -> None:
    number = truth("number", 100, [10, 20, 30, 40], [0.0, 0.25, 0.3, 1.0])
    # All but the first ten set one bit; 0.3 is a bit and a fifth of one; forty set all.
    assert draw_thermometer(4, number, 2, MEANS).tolist() == [[90, 46, 40, 40]] * 2
    # Two numbers with a coin at the same bit, and one with a coin at another.
    loose = truth("number", 30, [10, 10, 10], [0.1, 0.2, 0.9])
    assert draw_thermometer(2, loose, 1, MEANS).tolist() == [[2 + 4 + 10, 8]]
    whole = truth("number", 3, [1, 2], [0.0, 0.5])
    assert draw_thermometer(2, whole, 1, MEANS).tolist() == [[2, 0]]


@pytest.mark.parametrize("reports", [0, MOST_REPORTS + 1])
def test_impossible_numbers_of_reports_are_refused(reports: int) -> None:
    noise = Noise.flips(Fraction(1, 4))
    with pytest.raises(InvalidInput):
        noise.estimate([1], reports)
    with pytest.raises(InvalidInput):
        noise.variance([1], reports)
    with pytest.raises(InvalidInput):
        noise.standard_error(reports)
    assert noise.standard_error(MOST_REPORTS) > 0
    assert noise.estimate([MOST_REPORTS // 2], MOST_REPORTS) == pytest.approx(MOST_REPORTS // 2)


def test_the_mirror_of_reports_without_decoys_has_none() -> None:
    mirror = Noise.flips(Fraction(1, 4)).mirrored()
    assert (mirror.cover_slots, mirror.cover) == (0, Fraction(0))


def test_the_largest_error_is_where_the_noise_is_largest() -> None:
    for hit, miss, worst in ((Fraction(1), Fraction(1, 4), 0), (Fraction(3, 4), Fraction(0), 1)):
        noise = Noise(1, hit, miss)
        assert noise.standard_error(1) ** 2 == pytest.approx(noise.variance(worst, 1))
        assert noise.standard_error(1) > 0


def test_every_decoy_slot_may_count_for_one_value() -> None:
    assert Noise(1, Fraction(1), Fraction(0), 1, Fraction(1)).base(3) == 3
