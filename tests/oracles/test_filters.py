"""S4's parts: the referees against what is known, and the package against the referees."""

from __future__ import annotations

from fractions import Fraction

import pytest

from tests.oracles import filters

COUNTS = (10, 100, 10, 5, 5, 5, 5, 1)


def test_opposite_logos_are_not_always_the_loudest() -> None:
    flip = Fraction(1, 5)
    near = filters.signal_to_noise(COUNTS, flip, 1, 6)
    ends = filters.signal_to_noise(COUNTS, flip, 0, 7)
    assert float(near) == pytest.approx(0.0785, abs=5e-5)
    assert float(ends) == pytest.approx(0.0660, abs=5e-5)


@pytest.mark.parametrize("columns", [1, 2, 5, 9])
def test_one_filter_is_a_ratio_of_hypergeometric_means_everywhere(columns: int) -> None:
    for flip in (Fraction(1, 10), Fraction(2, 5)):
        for before in range(columns):
            for shown in range(columns + 1):
                direct = filters.one_filter_ratio(columns, before, shown, flip)
                assert direct == filters.hypergeometric_ratio(columns, before, shown, flip)
                mirror = filters.one_filter_ratio(
                    columns, columns - 1 - before, columns - shown, flip
                )
                assert direct * mirror == 1
