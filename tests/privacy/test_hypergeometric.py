"""One filter: two ways to the same ratio, and the mirror where one of them ends."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaffinch.errors import InvalidInput
from chaffinch.privacy.published.one_filter import exact_one_filter_ratio
from tests.cases import each_case
from tests.oracles import filters as oracle

WAYS = ("expectations", "continued-fraction")


def ratio(bits: int, ones: int, shown: int, flip: Any, by: str = WAYS[0]) -> float:
    return exact_one_filter_ratio(
        bits=bits, input_ones=ones, output_ones=shown, flip_probability=flip, by=by
    )


@each_case("flip", [Fraction(1, 1000), Fraction(1, 10), Fraction(49, 100)])
@each_case("bits", [1, 2, 6, 17])
def test_both_ways_against_rationals(bits: int, flip: Fraction) -> None:
    for ones in range(bits):
        for shown in range(bits + 1):
            truth = float(oracle.one_filter_ratio(bits, ones, shown, flip))
            for by in WAYS:
                assert ratio(bits, ones, shown, flip, by) == pytest.approx(truth, rel=1e-13)


@given(
    bits=st.integers(1, 20_000),
    share=st.floats(0.0, 1.0),
    seen=st.floats(0.0, 1.0),
    flip=st.floats(1e-4, 0.49),
)
def test_both_ways_agree_and_have_a_mirror(
    bits: int, share: float, seen: float, flip: float
) -> None:
    ones, shown = int(share * (bits - 1)), int(seen * bits)
    direct = ratio(bits, ones, shown, flip)
    assert ratio(bits, ones, shown, flip, WAYS[1]) == pytest.approx(direct, rel=1e-13)
    mirror = ratio(bits, bits - 1 - ones, bits - shown, flip)
    assert direct * mirror == pytest.approx(1.0, rel=1e-12)
    odds = (1 - flip) / flip
    assert 1 / odds * (1 - 1e-12) <= direct <= odds * (1 + 1e-12)


def test_a_thousand_terms_are_not_enough() -> None:
    """S4 stops the fraction at T = 1000 and gets 0.945 here."""
    assert ratio(10**4, 4900, 5000, 0.01, WAYS[1]) == pytest.approx(2.348, abs=5e-4)
    assert ratio(1010, 503, 505, 1e-4, WAYS[1]) == pytest.approx(39.46, abs=5e-3)


def test_large_filters() -> None:
    for ones, shown, flip in ((300_000, 400_000, 0.2), (900_000, 600_000, 0.05), (5, 10, 0.001)):
        one, two = (ratio(10**6, ones, shown, flip, by) for by in WAYS)
        assert one == pytest.approx(two, rel=1e-13)


@each_case(
    "change",
    [
        {"bits": 0},
        {"input_ones": 5},
        {"output_ones": 6},
        {"output_ones": -1},
        {"flip_probability": 0.5},
        {"flip_probability": math.nan},
        {"by": "magic"},
    ],
)
def test_bad_parameters_are_refused(change: dict[str, Any]) -> None:
    good = {"bits": 5, "input_ones": 2, "output_ones": 3, "flip_probability": 0.1}
    with pytest.raises(InvalidInput, match="must be"):
        exact_one_filter_ratio(**(good | change))
