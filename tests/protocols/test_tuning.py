"""First guesses: the Gaussian limit, against another implementation of it."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import pytest
from scipy import stats

from chaffinch.privacy.shortened_reports import cutting_cost
from chaffinch.protocols import Encoded, FlippedDecoys, Flips, local_variant
from chaffinch.protocols.base import Setting, cut_chance
from chaffinch.protocols.flipped_records import overflow
from chaffinch.protocols.tuning import (
    _gaussian_delta,
    flip_for_local,
    flip_for_shift,
    gaussian_epsilon,
    gaussian_mu,
    gaussian_slope,
)
from chaffinch.questions import Choice, Number

PAIRS = [(0.1, 0.05), (0.5, 0.3), (1.0, 0.2), (1.0, 1.0), (3.0, 0.7)]


@pytest.mark.parametrize(("epsilon", "mu"), PAIRS)
def test_delta_of_the_gaussian_mechanism(epsilon: float, mu: float) -> None:
    normal = stats.norm.cdf
    true = normal(-epsilon / mu + mu / 2) - math.exp(epsilon) * normal(-epsilon / mu - mu / 2)
    assert _gaussian_delta(epsilon, mu) == pytest.approx(true, rel=1e-6)


def test_delta_is_never_negative_where_both_terms_are_nothing() -> None:
    assert _gaussian_delta(700.0, 1e-3) == 0.0
    assert _gaussian_delta(0.0, 1e-300) >= 0.0


@pytest.mark.parametrize(("epsilon", "mu"), PAIRS)
def test_mu_epsilon_and_slope_belong_to_that_delta(epsilon: float, mu: float) -> None:
    delta = _gaussian_delta(epsilon, mu)
    assert gaussian_mu(epsilon, delta) == pytest.approx(mu, rel=1e-9)
    assert gaussian_epsilon(mu, delta) == pytest.approx(epsilon, rel=1e-9)
    higher = _gaussian_delta(epsilon, mu * (1 + 1e-6))
    assert gaussian_slope(epsilon, mu) == pytest.approx((higher / delta - 1) * 1e6, rel=0.15)


def test_very_small_strengths_are_found_as_exactly_as_large_ones() -> None:
    for mu in (1e-6, 1e-3):
        delta = _gaussian_delta(mu, mu)
        assert gaussian_mu(mu, delta) == pytest.approx(mu, rel=1e-9)
        assert gaussian_epsilon(mu, delta) == pytest.approx(mu, rel=1e-6)


def test_a_slope_is_one_at_least_and_where_nothing_is_known() -> None:
    assert gaussian_slope(700.0, 1e-3) == 1.0
    # Where delta of the smaller mu is too small for a float, and that of the larger is not.
    for place in range(400):
        assert gaussian_slope(38.5 + 0.002 * place, 1.0) >= 1.0
    assert gaussian_slope(1.0, 90.0) == 1.0
    assert gaussian_slope(0.0, 1e-3) == pytest.approx(1.0, rel=1e-3)


def test_flips_are_rounded_to_the_private_side() -> None:
    for epsilon in (0.1, 1.0, 5.0):
        flip = flip_for_local(epsilon)
        assert (1 - flip) / flip <= Fraction(math.exp(epsilon)) * (1 + Fraction(1, 10**15))
        assert float(flip) == pytest.approx(1 / (1 + math.exp(epsilon)), rel=1e-9)
    # (1 − 2q)²·moved/(crowd·q·(1 − q)) = mu²
    for mu, crowd, moved in ((0.1, 1000, 1.0), (2.0, 10, 4.0)):
        q = float(flip_for_shift(mu, crowd, moved))
        assert (1 - 2 * q) ** 2 * moved / (crowd * q * (1 - q)) == pytest.approx(mu**2, rel=1e-9)


def test_the_smallest_flips_are_rounded_up_as_well() -> None:
    # 1.84 grains: fewer would be less private than asked for.
    assert flip_for_shift(1e8, 1000, 1.0) == Fraction(2, 2**64)


@pytest.mark.parametrize("kind", ["flips", "local", "flipped decoys"])
def test_slots_are_as_few_as_the_records_of_the_crowd_allow(kind: str) -> None:
    """With a little more to give away than so many records need, and less than twice that."""
    question = Choice(range(40), missing="count")
    setting = Setting(question, crowd=1000, epsilon=1.0, cutting=1e-6, delta=1e-6)
    variant, records = {
        "flips": (Flips.variants(question, 1)[0], 1),
        "local": (local_variant(question), 1),
        "flipped decoys": (FlippedDecoys.variants(question, 1)[0], 2),
    }[kind]
    strength = 9.0 if kind == "local" else 1.0
    flip = variant.make(setting, strength).flip_probability  # type: ignore[attr-defined]
    for slots in (12, 14, 16):
        chance = cut_chance(overflow(len(question.labels), flip, slots), 1000 * records)
        for room in (1.0, 1.3):
            limit = room * cutting_cost(chance, 1.0)
            made = variant.make(replace(setting, cutting=limit), strength)
            assert made.slots == slots  # type: ignore[attr-defined]
        tight = replace(setting, cutting=0.99 * cutting_cost(chance, 1.0))
        assert variant.make(tight, strength).slots == slots + 1  # type: ignore[attr-defined]


def test_resolutions_of_numbers_are_powers_of_two() -> None:
    number = Number(0, 1)
    setting = Setting(number, crowd=1000, epsilon=1.0, cutting=1e-6, delta=1e-6)
    made = [variant.make(setting, 0.5) for variant in Encoded.variants(number, 10**6)]
    assert [each.resolution for each in made] == [1, 2, 4, 8, 16, 32, 64, 128, 256]  # type: ignore[attr-defined]
