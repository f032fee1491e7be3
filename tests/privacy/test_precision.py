"""The working float: rationals come in, and safe floats go out."""

from __future__ import annotations

import decimal
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaffinch.privacy.numerics import precision
from tests.cases import each_case

positive = st.fractions(min_value=Fraction(1, 10**40), max_value=10**40)


def exact(value: Any) -> Fraction:
    """Return what a working float stands for."""
    numerator, denominator = value.as_integer_ratio()
    return Fraction(int(numerator), int(denominator))


@given(positive)
def test_a_rational_is_off_by_at_most_two_roundoffs(value: Fraction) -> None:
    error = abs(exact(precision.wide(value)) - value) / value
    assert error <= 2 * exact(precision.ROUNDOFF)


def test_a_rational_keeps_the_digits_of_the_widest_working_float(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """IEEE quadruple precision rounds at 2⁻¹¹³; exact arithmetic shows what would get there."""
    monkeypatch.setattr(precision, "Wide", Fraction)
    monkeypatch.setattr(np, "ldexp", lambda value, power: value * Fraction(2) ** power)
    for value in (Fraction(1, 3), Fraction(2, 7), Fraction(10**30 + 1, 3**50)):
        assert abs(precision.wide(value) - value) / value <= Fraction(2) ** -112


@given(positive)
def test_up_and_down_enclose(value: Fraction) -> None:
    working = precision.wide(value)
    assert Fraction(precision.down(working)) <= exact(working) <= Fraction(precision.up(working))


@given(positive)
def test_logarithms_are_enclosed(value: Fraction) -> None:
    low, high = precision.log_of(value)
    assert low < math.log(value.numerator) - math.log(value.denominator) + 1e-9 * (1 + abs(high))
    assert low < high
    assert high - low <= 4 * math.ulp(max(abs(low), abs(high)))


def test_one_plus_a_roundoff_is_not_one() -> None:
    """The error term must survive being added to 1, or every bound loses its margin."""
    assert 1 + precision.gamma(2.0) > 1
    assert 1 - precision.gamma(2.0) < 1
    assert 1 + 6.0 * precision.ROUNDOFF > 1


def test_exp_minus_one_keeps_its_digits() -> None:
    for epsilon in (0.0, 1e-40, 1e-20, 1e-3, 1.0, 50.0, 700.0, 10_000.0):
        value = precision.exp_minus_one(epsilon)
        if epsilon <= 700:
            assert math.isclose(float(value), math.expm1(epsilon), rel_tol=1e-15)
        assert np.isfinite(value)


@each_case("epsilon", [1e-40, 1e-33, 1e-30, 1e-28, 1e-20, 1e-3, 1.0, 50.0])
def test_exp_minus_one_keeps_the_digits_of_the_widest_working_float(
    epsilon: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(precision, "Wide", Fraction)
    monkeypatch.setattr(np, "ldexp", lambda value, power: value * Fraction(2) ** power)
    found = precision.exp_minus_one.__wrapped__(epsilon)
    digits = decimal.Context(prec=200)
    true = Fraction(digits.subtract(digits.exp(decimal.Decimal(epsilon)), decimal.Decimal(1)))
    assert abs(found - true) / true <= Fraction(2) ** -112


def test_power_gap_where_two_terms_nearly_cancel() -> None:
    """p² − e^ε·q² at the float just below 2 ln(p/q), where plain floats give nothing."""
    keep, flip = Fraction(999, 1000), Fraction(1, 1000)
    epsilon = math.nextafter(precision.log_of((keep / flip) ** 2)[0], 0.0)
    gap = precision.power_gap(keep, flip, 2, epsilon)
    assert 0 < float(gap) < 1e-14
