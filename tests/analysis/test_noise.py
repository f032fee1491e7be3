"""Estimates and variances against the exact law; the five numbers of each protocol."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from chaffinch.errors import InvalidInput
from chaffinch.protocols.noise import Noise
from tests.analysis import exact
from tests.cases import each_case

every_kind = pytest.mark.parametrize("noise", exact.KINDS.values(), ids=list(exact.KINDS))


@every_kind
@pytest.mark.parametrize("reports", [1, 2, 5])
def test_estimates_are_unbiased_and_their_variance_is_exact(noise: Noise, reports: int) -> None:
    estimates = noise.estimate(np.arange(noise.largest(reports) + 1), reports)
    for held in range(reports + 1):
        masses = np.array(exact.law(noise, held, reports), dtype=float)
        assert masses @ estimates == pytest.approx(held, abs=1e-9)
        spread = masses @ (estimates - held) ** 2
        assert noise.variance(held, reports) == pytest.approx(spread, rel=1e-9, abs=1e-12)


@every_kind
def test_the_mirror_is_the_law_of_what_is_missing(noise: Noise) -> None:
    for held in range(4):
        assert exact.law(noise.mirrored(), 3 - held, 3) == exact.law(noise, held, 3)[::-1]


def test_decoys_among_flips_are_one_hot_records_that_are_flipped() -> None:
    flip, rate, values = Fraction(1, 7), Fraction(2, 5), 3
    chance = Fraction(0)
    for value, flipped in product(range(values), (False, True)):
        if (value == 0) != flipped:
            chance += Fraction(1, values) * (flip if flipped else 1 - flip)
    noise = Noise.flips_with_decoys(flip, decoy_slots=1, rate=rate, values=values)
    assert noise.cover == rate * chance


def test_flips_and_decoys_add_their_variances() -> None:
    # Flips of all records, (n + m)·p·q/(p − q)², and where the decoys fell, (m/d)·(1 − 1/d).
    flip, values, reports, decoys = 0.1, 8, 50, 100
    noise = Noise.flips_with_decoys(Fraction(1, 10), decoy_slots=2, rate=Fraction(1), values=values)
    flips = (reports + decoys) * flip * (1 - flip) / (1 - 2 * flip) ** 2
    assert noise.variance(3, reports) == pytest.approx(flips + decoys / values * (1 - 1 / values))


def test_standard_errors_of_flips_do_not_depend_on_the_count() -> None:
    noise = Noise.flips(Fraction(1, 10))
    errors = noise.standard_error(400, [-20.0, 0.0, 100.0, 900.0])
    assert errors == pytest.approx(np.full(4, 7.5))
    assert noise.standard_error(400) == pytest.approx(7.5)


def test_standard_errors_take_the_clipped_estimate_for_the_count() -> None:
    noise = Noise(1, Fraction(5, 8), Fraction(1, 8))
    clipped = noise.standard_error(100, [-3.0, 104.0]) ** 2
    assert clipped == pytest.approx(noise.variance([0, 100], 100))
    assert clipped[0] != pytest.approx(clipped[1])
    assert noise.standard_error(100) == pytest.approx(np.sqrt(clipped.max()))


@each_case(
    "numbers",
    [
        (0, Fraction(1), Fraction(0)),
        (1, Fraction(1, 2), Fraction(1, 2)),
        (1, Fraction(1, 4), Fraction(1, 2)),
        (1, Fraction(5, 4), Fraction(1, 2)),
        (1, Fraction(1, 2), Fraction(-1, 2)),
        (1, Fraction(1), Fraction(0), -1),
        (1, Fraction(1), Fraction(0), 1, Fraction(2)),
    ],
)
def test_impossible_noise_is_refused(numbers: tuple[int, Fraction, Fraction]) -> None:
    with pytest.raises(InvalidInput):
        Noise(*numbers)


@pytest.mark.parametrize("reports", [0, -1, 1.5, True])
def test_reports_are_counted(reports: int) -> None:
    with pytest.raises(InvalidInput):
        Noise.flips(Fraction(1, 10)).estimate([1], reports)
