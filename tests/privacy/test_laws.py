"""Windowed laws against exact rationals: every mass within its stated error."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaffinch.privacy.numerics import laws
from chaffinch.privacy.numerics.laws import Law, _tilted_law
from chaffinch.privacy.numerics.precision import Wide, wide

chances = st.fractions(min_value=Fraction(1, 10**6), max_value=Fraction(999_999, 10**6))


def exact_binomial(count: int, chance: Fraction) -> dict[int, Fraction]:
    """Return Bin(count, chance) in rationals."""
    return {
        k: math.comb(count, k) * chance**k * (1 - chance) ** (count - k) for k in range(count + 1)
    }


def check(law: Law, truth: dict[int, Fraction]) -> None:
    """Assert the promise of ``Law`` for single points and for all left tails."""
    stored = law.mass
    noise = np.zeros(len(stored), dtype=Wide) if law.noise is None else law.noise
    tail, left, doubt = Fraction(0), Wide(0), Wide(0)
    for point in sorted(truth):
        tail += truth[point]
        if not law.start <= point < law.stop:
            continue
        index = point - law.start
        left, doubt = left + stored[index], doubt + noise[index]
        for true, mass, slack in (
            (truth[point], stored[index], noise[index]),
            (tail, left, doubt),
        ):
            roof = mass * (1 + law.relative + 1e-17) + law.missing + slack
            assert wide(true) <= roof, point
            assert wide(true) >= mass * (1 - law.relative - 1e-17) - slack, point


@given(st.integers(0, 60), chances, st.sampled_from([1e-5, 1e-12, 1e-40]))
def test_binomial(count: int, chance: Fraction, tail: float) -> None:
    check(laws.binomial(count, chance, tail), exact_binomial(count, chance))


@given(st.integers(0, 25), st.integers(0, 25), chances)
def test_convolution_summed_directly(ones: int, zeros: int, flip: Fraction) -> None:
    first, second = exact_binomial(ones, 1 - flip), exact_binomial(zeros, flip)
    truth: dict[int, Fraction] = {}
    for i, a in first.items():
        for j, b in second.items():
            truth[i + j] = truth.get(i + j, Fraction(0)) + a * b
    parts = laws.binomial(ones, 1 - flip, 1e-30), laws.binomial(zeros, flip, 1e-30)
    check(laws.convolve(*parts), truth)
    check(laws.convolve(*parts, most_products=0), truth)


@pytest.mark.parametrize("aim", [1e-20, 1e-100, 1e-280])
def test_a_tilted_law_keeps_relative_digits_in_its_tail(aim: float) -> None:
    """Left of its cut the tilted law must agree with the direct one to many digits."""
    flip = Fraction(3, 10)
    direct = laws.sum_of_flips(400, 1000, flip, Wide(10) ** -320, aim)
    assert direct.noise is None
    tilted = _tilted_law(400, 1000, flip, aim)
    assert tilted.cut
    middle = tilted.start + len(tilted.mass) // 2
    for point in range(middle - 20, middle + 20):
        known, found = direct.mass[point - direct.start], tilted.mass[point - tilted.start]
        assert abs(found / known - 1) < 1e-9


def test_the_stated_error_of_a_fourier_product_holds_and_is_not_idle() -> None:
    generator = np.random.default_rng(5)
    for size in (30, 1000):
        x, y = generator.random(size), generator.random(size)
        x, y = x / x.sum(), y / y.sum()
        parts = [laws.Law(0, mass.astype(Wide), Wide(0), Wide(0)) for mass in (x, y)]
        found = laws.convolve(*parts, most_products=0)
        assert found.noise is not None
        truth = np.convolve(parts[0].mass, parts[1].mass)
        worst = float(np.abs(found.mass - truth).max())
        assert worst <= float(found.noise[0]) + 2.0**-52 * float(truth.max())
        assert found.noise[0] < 1e-13
