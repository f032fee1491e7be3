"""Scores of attacks are logs of likelihood ratios of the exact law."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from chaffinch.errors import InvalidInput
from chaffinch.protocols.likelihoods import (
    LONGEST,
    DecoyLikelihood,
    TallyLikelihood,
    law,
    log_ratio,
)
from chaffinch.protocols.noise import Noise
from tests.analysis import exact

every_kind = pytest.mark.parametrize("noise", exact.KINDS.values(), ids=list(exact.KINDS))


@every_kind
@pytest.mark.parametrize("held", [0, 2, 5])
def test_the_law_of_a_tally(noise: Noise, held: int) -> None:
    start, mass = law(noise, held, 5)
    true = np.array(exact.law(noise, held, 5), float)
    assert mass == pytest.approx(true[start : start + len(mass)], rel=1e-9)
    assert mass.sum() == pytest.approx(1)


def test_a_long_law_is_cut_where_nothing_is_seen() -> None:
    start, mass = law(exact.KINDS["flips"], 0, 100_000)
    reach = 12 * math.sqrt(100_000 * 0.2 * 0.8) + 30
    assert (start, start + len(mass) - 1) == (math.floor(2e4 - reach), math.ceil(2e4 + reach))
    places = np.arange(start, start + len(mass))
    assert mass == pytest.approx(stats.binom.pmf(places, 100_000, 0.2), rel=1e-6, abs=1e-40)


@every_kind
def test_the_score_of_a_tally(noise: Noise) -> None:
    one = TallyLikelihood(noise, 2, 5)
    without, with_one = (np.array(exact.law(noise, held, 5), float) for held in (2, 3))
    assert [len(each) for each in one.laws()] == [len(one.laws()[0])] * 2
    assert one.outcomes >= np.count_nonzero(without)
    tallies = np.flatnonzero(without + with_one)
    with np.errstate(divide="ignore"):
        ratio = np.clip(np.log(with_one[tallies]) - np.log(without[tallies]), -60, 60)
    assert one.score(tallies[:, None]) == pytest.approx(ratio, abs=1e-8)


def test_the_score_of_a_value_among_decoys() -> None:
    found = DecoyLikelihood(3).score(np.array([[2], [3], [4], [10]]))
    assert found == pytest.approx([-60, -60, 0, math.log(7)])
    with pytest.raises(InvalidInput, match="attack"):
        DecoyLikelihood(3).laws()


def test_what_one_world_only_allows_is_sure_enough() -> None:
    logs = np.array([-math.inf, 0.0, -1.0, -math.inf, 100.0])
    other = np.array([0.0, -math.inf, -3.0, -math.inf, 0.0])
    assert log_ratio(logs, other).tolist() == [-60.0, 60.0, 2.0, 0.0, 60.0]


def test_the_score_of_a_long_law_is_linear_and_nearly_exact() -> None:
    one = TallyLikelihood(exact.KINDS["flips"], 1_000_000, 4_000_000)
    assert one.outcomes > LONGEST
    start, _ = law(one.noise, one.held, one.people)
    tallies = 1_400_000 + np.array([-3000, 3000])
    without, with_one = (mass[tallies - start] for mass in one.laws())
    assert one.score(tallies[:, None]) == pytest.approx(np.log(with_one / without), rel=2e-3)
