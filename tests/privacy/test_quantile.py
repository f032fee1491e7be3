"""The normal quantile that mu rests on, against 60 digits, far into the tail."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from scipy.special import ndtri_exp

from chaffinch.privacy.numerics import loss

LOGS = [-1e-12, -1e-3, -0.1, -0.7, -3.0, -40.0, -745.0, -9000.0]


@pytest.mark.parametrize("log", LOGS)
def test_the_allowance_covers_the_error_with_room(log: float) -> None:
    with mpmath.workdps(60):
        found = float(ndtri_exp(log))
        truth = mpmath.mpf(found)
        for _ in range(3):
            wrong = mpmath.log(mpmath.ncdf(truth)) - mpmath.mpf(log)
            truth -= wrong * mpmath.ncdf(truth) / mpmath.npdf(truth)
        error = float(abs(truth - found))
    assert error <= 0.2 * loss._NORMAL_QUANTILE_ERROR * (1 + abs(found))  # noqa: SLF001


def test_both_sides_of_a_far_quantile_enclose_it() -> None:
    tail = np.array([1e-300])
    rest = np.ones(1)
    low, high = loss._quantile(tail, rest, -1)[0], loss._quantile(tail, rest, 1)[0]  # noqa: SLF001
    assert low < high
    assert high - low >= 1e-13 * high
