"""Means and quantiles: coverage by enumeration of rounding and flips together."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaffinch.analysis.number_estimates import Scale, _falling, _Mean, mean, survival
from chaffinch.errors import InvalidInput
from chaffinch.privacy.numerics import laws
from chaffinch.protocols.intervals import two_sided
from chaffinch.protocols.noise import Noise, TotalsNoise
from chaffinch.simulate import judging
from tests.analysis import exact
from tests.cases import each_case
from tests.tiers import chequered

LEVELS = [0.5, 0.9, 0.99]
CROWDS = [
    [Fraction(0)],
    [Fraction(1, 2)],
    [Fraction(1), Fraction(1, 3)],
    [Fraction(1, 5), Fraction(3, 4), Fraction(9, 10)],
    [Fraction(1, 4)] * 3,
    [Fraction(0), Fraction(0), Fraction(1)],
]


def roundings(people: list[Fraction], steps: int) -> dict[tuple[int, ...], Fraction]:
    """Return the chances of (T_1, …, T_r)."""
    chances = {(0,) * steps: Fraction(1)}
    for x in people:
        sure = math.floor(x * steps)
        after: dict[tuple[int, ...], Fraction] = {}
        for bits, chance in ((sure, 1 - (x * steps - sure)), (sure + 1, x * steps - sure)):
            if chance:
                for slots, before in chances.items():
                    key = tuple(t + (j < bits) for j, t in enumerate(slots))
                    after[key] = after.get(key, Fraction(0)) + before * chance
        chances = after
    return chances


@each_case(("people", "steps"), chequered(((people,) for people in CROWDS), [1, 2, 4]), ids=str)
def test_the_mean_is_unbiased_and_covered(people: list[Fraction], steps: int) -> None:
    noise, reports = Noise.flips(Fraction(1, 10)), len(people)
    scale = Scale(-1.0, 3.0, steps, noise)
    truth = -1 + 4 * sum(people) / reports
    masses = [Fraction(0)] * (steps * reports + 1)
    for slots, chance in roundings(people, steps).items():
        for s, mass in enumerate(exact.law(noise, sum(slots), steps * reports)):
            masses[s] += chance * mass
    for level in LEVELS:
        answers = [mean(scale, s, reports, level) for s in range(len(masses))]
        covered = sum(m for m, a in zip(masses, answers, strict=True) if a.low <= truth <= a.high)
        assert covered >= Fraction(level)
    estimates = np.array([answer.estimate for answer in answers])
    weights = np.array(masses, dtype=float)
    assert weights @ estimates == pytest.approx(float(truth))
    spread = math.sqrt(weights @ (estimates - float(truth)) ** 2)
    # The bound on the rounding is met when everybody is half way between two steps.
    halves = all((x * steps) % 1 == Fraction(1, 2) for x in people)
    assert spread <= answers[0].standard_error * (1 + 1e-9)
    assert (spread == pytest.approx(answers[0].standard_error)) == halves


def all_zero_coverage(true: Fraction, assumed: Fraction) -> float:
    """Return the coverage of the mean 0 among 400 people with 100 bits each."""
    law = laws.binomial(40_000, true, 1e-16)
    scale = Scale(0.0, 1.0, 100, Noise.flips(assumed))
    picks = range(law.start, law.stop, 20)
    inside = [law.mass[s - law.start] for s in picks if mean(scale, s, 400, 0.95).low <= 0.0]
    return float(sum(inside) * 20)


def test_a_wrong_flip_probability_loses_the_mean() -> None:
    assert all_zero_coverage(Fraction(1, 5), Fraction(1, 5)) > 0.97
    assert all_zero_coverage(Fraction(11, 50), Fraction(1, 5)) < 0.01


def test_one_tally_per_slot_gives_the_same_mean_as_their_sum() -> None:
    scale = Scale(0.0, 1.0, 3, Noise.flips(Fraction(1, 10)))
    assert mean(scale, [50, 40, 30], 100, 0.9) == mean(scale, 120, 100, 0.9)


def test_a_mean_knows_its_sum_and_stays_in_range() -> None:
    answer = mean(Scale(10.0, 20.0, 4, Noise.flips(Fraction(1, 10))), 400, 100, 0.9)
    assert isinstance(answer, _Mean)
    assert answer.total == pytest.approx(100 * answer.estimate)
    assert 10.0 <= answer.low < answer.high == 20.0 < answer.estimate


def test_more_people_narrow_the_interval() -> None:
    scale = Scale(0.0, 1.0, 10, Noise.flips(Fraction(1, 10)))
    widths = [a.high - a.low for a in (mean(scale, 5 * n, n, 0.95) for n in (10, 100, 10**4))]
    assert all(before > after for before, after in pairwise(widths))
    assert widths[-1] < 0.01


PROBABILITIES = [0.0, 0.1, 0.25, 0.5, 0.6, 0.9, 1.0]


def quantile(people: list[Fraction], probability: float) -> Fraction:
    rank = max(1, math.ceil(Fraction(str(probability)) * len(people)))
    return sorted(people)[rank - 1]


@each_case(
    ("people", "steps", "flip"),
    chequered(product(CROWDS, [1, 2, 3]), [Fraction(1, 50), Fraction(1, 5)]),
    ids=str,
)
def test_all_quantiles_are_covered_together(
    people: list[Fraction], steps: int, flip: Fraction
) -> None:
    noise, reports, level = Noise.flips(flip), len(people), 0.8
    scale = Scale(0.0, 1.0, steps, noise)
    truth = np.array([float(quantile(people, chance)) for chance in PROBABILITIES])
    slot = [exact.law(noise, held, reports) for held in range(reports + 1)]
    chances = roundings(people, steps)
    covered = Fraction(0)
    for seen in product(range(reports + 1), repeat=steps):
        low, middle, high = survival(scale, seen, reports, level).quantiles(PROBABILITIES)
        assert ((low <= middle) & (middle <= high)).all()
        if ((low <= truth + 1e-12) & (truth - 1e-12 <= high)).all():
            covered += sum(
                chance * math.prod((slot[t][s] for t, s in zip(slots, seen, strict=True)))
                for slots, chance in chances.items()
            )
    assert covered >= Fraction(level)


def test_quantile_brackets_say_something_and_notice_wrong_flips() -> None:
    reports, steps, flip = 100_000, 20, Fraction(1, 20)
    held = reports * (np.arange(steps, 0, -1) - 0.5) / steps  # uniform numbers
    tallies = np.rint(held * 0.9 + reports * 0.05).astype(int)
    right = survival(Scale(0.0, 1.0, steps, Noise.flips(flip)), tallies, reports, 0.95)
    low, middle, high = right.quantiles([0.12, 0.5, 0.88])
    np.testing.assert_allclose(middle, [0.12, 0.5, 0.88], atol=1e-3)
    assert (high - low < 2.1 / steps).all()
    wrong = survival(Scale(0.0, 1.0, steps, Noise.flips(4 * flip)), tallies, reports, 0.95)
    low, _, high = wrong.quantiles([0.12, 0.88])
    assert high[0] < 0.12 or low[1] > 0.88 or low[0] > 0.12 or high[1] < 0.88


def test_many_steps_share_out_the_chance_to_miss_among_few() -> None:
    """Half of all people are low and half are high: no step between them tells the median.

    Every step there is at the very count that must not pass; noise a third larger is noticed.
    """
    reports, steps, runs = 20_000, 128, 3_000
    tallies = np.where(np.arange(steps) < 100, reports // 2, 0)
    tallies[:20] = reports
    noise = TotalsNoise("gaussian", Fraction(50))
    draws = np.random.default_rng(4)

    def misses(times: float) -> int:
        seen = tallies + np.rint(draws.normal(0.0, 50.0 * times, (runs, steps))).astype(int)
        ends = two_sided(noise, seen, reports, 0.05 / 4)
        found = survival(Scale(0.0, 1.0, steps, noise), seen[0], reports, 0.95)
        told = [found.brackets([0.5], (low, high)) for low, high in zip(*ends, strict=True)]
        # The lower half is at the end of step 20.
        return sum(not low[0] <= 20 / steps <= high[0] for low, _, high in told)

    assert 0.01 * runs < misses(1.0) <= judging.miss_limit(0.05, runs, 1e-6)
    assert misses(4 / 3) > judging.miss_limit(0.05, runs, 1e-6)


def test_no_quantiles_may_be_asked_for() -> None:
    answer = survival(Scale(0.0, 1.0, 4, Noise.flips(Fraction(1, 10))), [9, 7, 5, 2], 10, 0.9)
    assert [len(ends) for ends in answer.quantiles([])] == [0, 0, 0]


def test_survival_is_monotone_and_says_what_it_did() -> None:
    answer = survival(Scale(0.0, 1.0, 4, Noise.flips(Fraction(1, 10))), [60, 70, 5, 20], 100, 0.9)
    assert (np.diff(answer.share) <= 0).all()
    assert ((answer.share >= 0) & (answer.share <= 1)).all()
    assert answer.raw[1] > answer.raw[0]
    assert "bias" in answer.said


@given(st.lists(st.integers(-9, 9), min_size=1, max_size=6))
def test_falling_is_the_nearest_sequence_that_never_rises(values: list[int]) -> None:
    raw = np.array(values, dtype=float)
    best, least = raw, np.inf
    for cuts in product((False, True), repeat=len(values) - 1):
        pools = np.split(raw, [i + 1 for i, cut in enumerate(cuts) if cut])
        tried = np.concatenate([np.full(len(pool), pool.mean()) for pool in pools])
        distance = float(((tried - raw) ** 2).sum())
        if (np.diff(tried) <= 1e-12).all() and distance < least - 1e-12:
            best, least = tried, distance
    np.testing.assert_allclose(_falling(values), best, atol=1e-9)


@pytest.mark.parametrize(
    "numbers",
    [
        (1.0, 1.0, 4),
        (0.0, math.inf, 4),
        (0.0, 1.0, 0),
    ],
)
def test_impossible_scales_are_refused(numbers: tuple[float, float, int]) -> None:
    with pytest.raises(InvalidInput):
        Scale(*numbers, Noise.flips(Fraction(1, 10)))


def test_survival_needs_one_tally_per_slot() -> None:
    with pytest.raises(InvalidInput):
        survival(Scale(0.0, 1.0, 4, Noise.flips(Fraction(1, 10))), [1, 2, 3], 10, 0.9)
