"""Tails by the saddlepoint against laws whose tails are known."""

from __future__ import annotations

import math
from functools import partial

import pytest
from scipy import special

from chaffinch.reach.analyzer.group_intervals import Cumulants, tail_chance


def poisson(mean: float, u: float) -> Cumulants:
    """Return the cumulants of a Poisson number less its mean."""
    grown = mean * math.exp(u)
    return grown - mean - u * mean, grown - mean, grown


def test_a_normal_law_is_exact() -> None:
    for place in (-3.0, -0.5, 0.01, 0.2, 4.0, 9.0):
        found = tail_chance(lambda u: (0.5 * u * u, u, 1.0), place, 100.0)
        assert found == pytest.approx(float(special.ndtr(-place)), rel=1e-6)


def mirrored(mean: float, u: float) -> Cumulants:
    value, slope, curve = poisson(mean, -u)
    return value, -slope, curve


def test_half_a_step_given_away_keeps_tails_of_few_on_the_safe_side() -> None:
    """The tail of whole numbers, itself included, is met from above; nearly, where many are."""
    for mean, most in ((0.3, 1.45), (1.0, 1.3), (3.7, 1.15), (12.0, 1.45), (90.0, 1.05)):
        tried = 0
        for seen in range(int(mean + 8 * math.sqrt(mean)) + 3):
            more = float(special.pdtrc(seen - 1, mean)) if seen else 1.0
            above = tail_chance(partial(poisson, mean), seen - mean - 0.5, 60.0)
            less = float(special.pdtr(seen, mean))
            below = tail_chance(partial(mirrored, mean), mean - seen - 0.5, 60.0)
            for exact, found in ((more, above), (less, below)):
                if 1e-12 < exact < 0.3:
                    assert 0.999 * exact <= found <= most * exact, (mean, seen)
                    tried += 1
        assert tried > 2


def test_a_sum_of_one_value_has_no_tail() -> None:
    assert tail_chance(lambda _: (0.0, 0.0, 0.0), 1.0, 50.0) < 1e-20
    assert tail_chance(lambda _: (0.0, 0.0, 0.0), -1.0, 50.0) == 1.0
