"""Scores of attacks are logs of likelihood ratios of the exact law."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from chaffinch.errors import InvalidInput
from chaffinch.protocols.likelihoods import (
    LONGEST,
    DecoyLikelihood,
    SignedLikelihood,
    TallyLikelihood,
    _law,
    _log_ratio,
)
from chaffinch.protocols.noise import Noise
from chaffinch.protocols.signed import Digit
from chaffinch.questions import Bit
from tests.analysis import exact
from tests.protocols.test_readings import CHOICE, DIGITS, EIGHTH, NUMBER, QUARTER, SIGNED

every_kind = pytest.mark.parametrize("noise", exact.KINDS.values(), ids=list(exact.KINDS))


@every_kind
@pytest.mark.parametrize("held", [0, 1, 2, 5])
def test_the_law_of_a_tally(noise: Noise, held: int) -> None:
    start, mass = _law(noise, held, 5)
    true = np.array(exact.law(noise, held, 5), float)
    assert mass == pytest.approx(true[start : start + len(mass)], rel=1e-9)
    assert mass.sum() == pytest.approx(1)
    assert mass[0] > 0 < mass[-1], "nothing that cannot be seen"


def test_a_long_law_is_cut_where_nothing_is_seen() -> None:
    start, mass = _law(exact.KINDS["flips"], 0, 100_000)
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
    assert np.add(*one.laws())[-1] > 0
    tallies = np.flatnonzero(without + with_one)
    with np.errstate(divide="ignore"):
        ratio = np.clip(np.log(with_one[tallies]) - np.log(without[tallies]), -60, 60)
    assert one.score(tallies[:, None]) == pytest.approx(ratio, abs=1e-8)
    beyond = one.score(tallies[[0, -1], None] + np.array([[-9], [9]]))
    assert beyond == pytest.approx(ratio[[0, -1]]), "what is never seen tells as much"


def test_a_law_is_as_long_as_is_said() -> None:
    """Of 62 500 bits with a standard deviation of 100: 12 of these, and 30 more, on both sides."""
    long = TallyLikelihood(exact.KINDS["flips"], 0, 62_500)
    assert long.outcomes == 2461 == len(_law(long.noise, 0, 62_500)[1])
    both = TallyLikelihood(exact.KINDS["flips"], 30_000, 62_500)
    assert both.outcomes == pytest.approx(len(_law(both.noise, 30_000, 62_500)[1]), abs=4)
    for name in ("clear", "no noise"):
        short = TallyLikelihood(exact.KINDS[name], 3, 5)
        assert short.outcomes == len(_law(short.noise, 3, 5)[1])


def test_the_score_of_a_value_among_decoys() -> None:
    found = DecoyLikelihood(3).score(np.array([[2], [3], [4], [10]]))
    assert found == pytest.approx([-60, -60, 0, math.log(7)])
    with pytest.raises(InvalidInput, match="attack"):
        DecoyLikelihood(3).laws()


def test_what_one_world_only_allows_is_sure_enough() -> None:
    logs = np.array([-math.inf, 0.0, -1.0, -math.inf, 100.0])
    other = np.array([0.0, -math.inf, -3.0, -math.inf, 0.0])
    assert _log_ratio(logs, other).tolist() == [-60.0, 60.0, 2.0, 0.0, 60.0]


def test_the_score_of_a_long_law_is_linear_and_nearly_exact() -> None:
    one = TallyLikelihood(exact.KINDS["flips"], 1_000_000, 4_000_000)
    assert one.outcomes > LONGEST
    start, _ = _law(one.noise, one.held, one.people)
    tallies = 1_400_000 + np.array([-3000, 3000])
    without, with_one = (mass[tallies - start] for mass in one.laws())
    assert one.score(tallies[:, None]) == pytest.approx(np.log(with_one / without), rel=2e-3)


def test_what_all_answers_send_in_clear_is_known() -> None:
    (one,) = SIGNED.likelihood(Bit(), 3, 10).digits
    assert one == SignedLikelihood(QUARTER, (EIGHTH,), Fraction(1, 10), ((3, 7), (4, 6)))
    assert SIGNED.likelihood(CHOICE, 3, 10).digits[0].answers == ((3, 0), (4, 0))
    both = DIGITS.likelihood(NUMBER, 3, 10).digits
    assert [digit.answers for digit in both] == [((12, 28), (16, 24)), ((6, 14), (8, 12))]


def test_digits_stand_side_by_side_and_what_they_tell_is_added() -> None:
    three = replace(DIGITS, finer=(*DIGITS.digits[1:], Digit(QUARTER, (EIGHTH,), 1)))
    together = three.likelihood(NUMBER, 3, 100)
    first, second, third = together.digits
    counts = np.array([[20, 395, 9, 192, 5, 98], [16, 390, 8, 199, 4, 99]])
    told = first.score(counts[:, :2]) + second.score(counts[:, 2:4]) + third.score(counts[:, 4:])
    assert together.score(counts) == pytest.approx(told)
    assert told[0] != pytest.approx(told[1])


def test_noise_that_is_never_seen_has_a_score() -> None:
    one = SignedLikelihood(QUARTER, (EIGHTH,), Fraction(1), ((0, 0), (1, 0)))
    far = 10**6
    scores = one.score(np.array([[far, 0], [1, far], [far, far]]))
    assert np.isfinite(scores).all()
