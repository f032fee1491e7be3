"""Charts of estimates hold the right numbers in the right order, and say what they leave out."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaffinch.charts import Dot, DotFigure, estimates_chart, number_chart, rounding
from chaffinch.errors import InvalidInput


def chart(size: int, *, most: int = 40) -> DotFigure:
    found = (np.arange(size) * 7.0) % 101
    return estimates_chart(
        "title",
        [f"v{n}" for n in range(size)],
        found,
        each=(found - 5, found + 5),
        together=(found - 9, found + 9),
        level=0.9,
        most=most,
    )


def test_of_many_the_largest_come_first_with_their_own_intervals() -> None:
    figure = chart(200)
    estimates = [dot.estimate for dot in figure.dots]
    assert estimates == sorted(((n * 7.0) % 101 for n in range(200)), reverse=True)[:40]
    for dot in figure.dots:
        place = int(dot.label[1:])
        assert dot.estimate == (place * 7.0) % 101
        assert dot.each == (dot.estimate - 5, dot.estimate + 5)
        assert dot.together == (dot.estimate - 9, dot.estimate + 9)
    assert figure.note.endswith("The 40 largest of 200 values; 160 are left out.")


def test_nothing_is_said_where_nothing_is_left_out() -> None:
    figure = chart(40)
    assert len(figure.dots) == 40
    assert "left out" not in figure.note
    assert [dot.label for dot in figure.dots] == [f"v{n}" for n in range(40)], "in their order"
    assert "The smallest is" in figure.alternative


@pytest.mark.parametrize("size", [1, 2, 40, 41])
def test_everything_has_a_place_on_the_axis_and_so_has_zero(size: int) -> None:
    figure = chart(size)
    for value in [0.0, *(end for dot in figure.dots for end in dot.ends)]:
        assert 0 <= figure.x.place(value) <= 1


def test_what_does_not_fit_together_is_refused() -> None:
    one = np.zeros(1)
    for labels, estimates in ((["a", "b"], one), ([], np.zeros(0))):
        with pytest.raises(InvalidInput):
            estimates_chart("t", labels, estimates, each=(one, one), together=(one, one), level=0.9)
    with pytest.raises(InvalidInput, match="low end"):
        Dot("a", 1.0, each=(2.0, 1.0))
    with pytest.raises(InvalidInput, match="finite"):
        number_chart("t", (math.nan, 0.0, 1.0), level=0.9)


def test_a_number_shows_its_mean_and_its_brackets() -> None:
    figure = number_chart(
        "t", (14.56, 14.3, 14.8), [(0.5, 6, 10.4, 15), (0.9, 30, 33, 39)], level=0.95, unit="min"
    )
    assert [dot.label for dot in figure.dots] == ["mean", "median", "90% are at most"]
    assert figure.dots[0].each == (14.3, 14.8)
    assert figure.dots[0].together is None
    assert figure.dots[1].each is None
    assert figure.dots[1].together == (6, 15)
    assert figure.x.label == "min"
    assert figure.alternative.startswith("mean: 14.56 (14.30 to 14.80). median: ")


def test_a_number_known_exactly_still_has_an_axis() -> None:
    for value in (0.0, 7.0, -1e300):
        axis = number_chart("t", (value, value, value), level=0.9).x
        assert axis.low < value < axis.high


NUMBERS = st.floats(-1e300, 1e300, allow_subnormal=True)


@given(NUMBERS, st.integers(0, 12))
def test_ends_are_never_rounded_inwards(value: float, places: int) -> None:
    low, middle, high = (
        float(write(value, places).replace(",", ""))
        for write in (rounding.lower_text, rounding.nearest_text, rounding.upper_text)
    )
    assert low <= value <= high
    assert low <= middle <= high
    assert high - low <= max(1.0001 * 10.0**-places, 1e-4 * abs(value))


@given(st.floats(1e-300, 1e300), st.integers(1, 12))
def test_a_promise_is_never_rounded_down(value: float, digits: int) -> None:
    said = float(rounding.promise_text(value, digits))
    assert value <= said <= value * (1 + 1.0001 * 10.0 ** (1 - digits))


def test_infinity_is_written() -> None:
    assert rounding.promise_text(math.inf, 3) == "inf"
    assert rounding.upper_text(math.inf, 1) == "inf"
