"""The normal quantile that mu rests on, against 60 digits, far into the tail."""

from __future__ import annotations

import mpmath
import numpy as np
from scipy.special import ndtri_exp

from chaffinch.privacy import tradeoff
from chaffinch.privacy.numerics import loss
from tests.cases import each_case

LOGS = [-1e-12, -1e-3, -0.1, -0.7, -3.0, -40.0, -745.0, -9000.0]


def error_of(found: float, log: float) -> float:
    """Return how far a normal quantile is off."""
    with mpmath.workdps(60):
        truth = mpmath.mpf(found)
        for _ in range(3):
            wrong = mpmath.log(mpmath.ncdf(truth)) - mpmath.mpf(log)
            truth -= wrong * mpmath.ncdf(truth) / mpmath.npdf(truth)
        return float(abs(truth - found))


@each_case("log", LOGS)
def test_the_allowance_covers_the_error_with_room(log: float) -> None:
    found = float(ndtri_exp(log))
    error = error_of(found, log)
    assert error <= 0.2 * loss._NORMAL_QUANTILE_ERROR * (1 + abs(found))  # noqa: SLF001


def test_quantiles_of_any_depth_keep_their_digits() -> None:
    logs = [*LOGS, -11_356.0, -105_360.0, -2.5e5, -1e7, -1e9]
    for log, found in zip(logs, tradeoff.normal_quantile(np.array(logs)).tolist(), strict=True):
        assert error_of(found, log) <= 0.2 * tradeoff.QUANTILE_ERROR * (1 + abs(found))


def test_both_sides_of_a_far_quantile_enclose_it() -> None:
    tail = np.array([1e-300])
    rest = np.ones(1)
    low, high = loss._quantile(tail, rest, -1)[0], loss._quantile(tail, rest, 1)[0]  # noqa: SLF001
    assert low < high
    assert high - low >= 1e-13 * high
