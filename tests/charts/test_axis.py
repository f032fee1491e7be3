from __future__ import annotations

import math
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from chaffinch.charts import Axis


def test_delta_ticks_are_powers_of_ten() -> None:
    found = Axis("delta", 1e-12, 1.0, "log").ticks(most=8)
    assert [label for _, label in found] == ["10⁻¹²", "10⁻¹⁰", "10⁻⁸", "10⁻⁶", "10⁻⁴", "10⁻²", "1"]
    assert [value for value, _ in found] == [1e-12, 1e-10, 1e-8, 1e-6, 1e-4, 1e-2, 1.0]


def test_linear_ticks_are_round_numbers() -> None:
    labels = [label for _, label in Axis("error", 0.0, 1.0).ticks(most=8)]
    assert labels == ["0", "0.2", "0.4", "0.6", "0.8", "1"]


@given(low=st.integers(-300, 290), size=st.integers(1, 300), most=st.integers(2, 20))
def test_powers_lie_on_the_axis_and_are_few(low: int, size: int, most: int) -> None:
    high = min(low + size, 300)
    found = Axis("delta", 10.0**low, 10.0**high, "log").ticks(most=most)
    assert 1 <= len(found) <= most
    exponents = [round(math.log10(value)) for value, _ in found]
    assert exponents[-1] == high
    assert all(low <= exponent <= high for exponent in exponents)
    assert len({after - before for before, after in pairwise(exponents)}) <= 1


@given(
    low=st.floats(-1e3, 1e3), size=st.floats(1e-3, 1e4, allow_nan=False), most=st.integers(2, 20)
)
def test_round_numbers_lie_on_the_axis_and_are_few(low: float, size: float, most: int) -> None:
    found = Axis("error", low, low + size).ticks(most=most)
    assert len(found) <= most
    slack = 1e-6 * (size + abs(low))
    assert all(low - slack <= value <= low + size + slack for value, _ in found)
    assert all(float(label) == value for value, label in found)
    assert len({label for _, label in found}) == len(found)
