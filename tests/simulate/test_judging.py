"""The thresholds themselves: against exact laws, not against themselves."""

from __future__ import annotations

import math

import numpy as np
import pytest

from chaffinch.simulate import judging


def binomial(trials: int, chance: float) -> list[float]:
    return [
        math.comb(trials, hits) * chance**hits * (1 - chance) ** (trials - hits)
        for hits in range(trials + 1)
    ]


@pytest.mark.parametrize("alarm", [1e-2, 1e-6])
@pytest.mark.parametrize(("runs", "chance"), [(100, 0.05), (300, 0.2), (150, 0.001)])
def test_misses_beyond_the_limit_are_as_rare_as_said(
    runs: int, chance: float, alarm: float
) -> None:
    law = binomial(runs, chance)
    limit = judging.miss_limit(chance, runs, alarm)
    assert sum(law[limit + 1 :]) <= alarm
    assert sum(law[limit:]) > alarm


@pytest.mark.parametrize("alpha", [1e-2, 1e-6])
@pytest.mark.parametrize("chance", [0.0, 0.01, 0.3, 0.97, 1.0])
def test_clopper_pearson_ends_hold(chance: float, alpha: float) -> None:
    law = np.array(binomial(80, chance))
    low, high = judging.clopper_pearson(np.arange(81), 80, alpha)
    assert law[low > chance].sum() <= alpha
    assert law[high < chance].sum() <= alpha
    assert (np.diff(low) > 0).all()
    assert (np.diff(high) > 0).all()


def test_clopper_pearson_ends_are_sharp() -> None:
    low, high = judging.clopper_pearson([0, 80], 80, 1e-3)
    assert low.tolist() == [0.0, pytest.approx(1e-3 ** (1 / 80))]
    assert high.tolist() == [pytest.approx(1 - 1e-3 ** (1 / 80)), 1.0]


@pytest.mark.parametrize("chance", [0.001, 0.1, 0.5])
def test_a_mean_beyond_its_room_is_as_rare_as_said(chance: float) -> None:
    law = np.array(binomial(400, chance))
    off = np.abs(np.arange(401) / 400 - chance)
    room = float(judging.mean_room(np.array(chance * (1 - chance)), 400, 1e-3))
    assert law[off > room].sum() <= 1e-3
    # Not far from what the normal law would ask for, 3.3 standard deviations.
    if chance == 0.5:
        assert room < 4.2 * 0.5 / 20


@pytest.mark.parametrize("chance", [0.05, 0.5])
def test_variances_beyond_their_ratios_are_as_rare_as_said(chance: float) -> None:
    draws = np.random.default_rng(1)
    spread = chance * (1 - chance)
    tallies = draws.binomial(200, chance, (20_000, 100))
    excess = np.array((1 - 6 * spread) / (200 * spread))
    low, high = judging.variance_ratios(excess, 100, 1e-2)
    ratio = tallies.var(axis=1, ddof=1) / (200 * spread)
    outside = float(((ratio < low) | (ratio > high)).mean())
    # 1 % of 20,000 is 200, give or take 14: three quarters to one and a half is 3.5 to 7 of them.
    assert 0.0075 < outside < 0.015
