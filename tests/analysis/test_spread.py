"""The standard deviation of a number: estimate, error and interval, from two noisy sums."""

from __future__ import annotations

import itertools
import json
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import chaffinch as cf
from chaffinch.analysis.answered import Answerers
from chaffinch.analysis.spread import Deviation, _ends_of_variance, _Sum, standard_deviation
from chaffinch.plans.expansion import squares_of
from chaffinch.plans.parts import Part
from chaffinch.plans.plan import Plan
from chaffinch.protocols import Encoded, Flips, Totals
from chaffinch.protocols.noise import Floats
from chaffinch.release.surveys import read_release
from chaffinch.simulate import judging
from tests.engines.plans import LEAST

ALARM = 1e-6
"""How often a test of a correct estimator may fail."""


def sums(*numbers: float) -> _Sum:
    return _Sum(np.array([0.0]), 0.0, 0.0, *(np.array([one]) for one in numbers))


@pytest.mark.parametrize("box", [(-3, -1), (-2, 3), (1, 4), (-0.5, 0.25)])
def test_the_ends_are_those_of_the_whole_box(box: tuple[float, float]) -> None:
    """Compared with a fine grid of the box, which holds every corner."""
    second, people = (2.0, 5.0), (6.0, 11.0)
    low, high = _ends_of_variance(
        sums(*box), sums(*second), np.array([people[0]]), np.array([people[1]])
    )
    grid = [np.linspace(*ends, 41) for ends in (box, second)]
    count = 1.0 / np.linspace(1 / people[0], 1 / people[1], 201)
    u, q, c = np.meshgrid(*grid, count)
    found = np.clip(q / c - (u / c) ** 2, 0.0, 1.0)
    assert low[0] == pytest.approx(found.min(), abs=1e-9)
    assert found.max() <= high[0] < found.max() + 5e-3


def made(question: cf.Number, bits: int = 4) -> Plan:
    """Return a plan without noise worth the name."""
    encoded = Encoded(LEAST, bits, together=True)
    parts = [Part("delay", question, encoded)]
    if question.missing == "count":
        parts.append(Part("delay (answered)", cf.Bit(), Flips(LEAST), "delay"))
    parts.append(Part("delay (squares)", squares_of(question), encoded, "delay"))
    return Plan("", tuple(parts), 4, 4, 4, 1, 100.0, 1.0)


@pytest.mark.parametrize(
    ("answers", "missing"),
    [([0, 10, 10, 0, 10], "refuse"), ([0, None, 10, 10, None, 5, 0], "count"), ([5] * 4, "count")],
)
def test_without_noise_it_is_exact(answers: list[Any], missing: str) -> None:
    """Bounds and the middle are whole steps, of the numbers and of their squares."""
    plan = made(cf.Number(0, 10, unit="minutes", missing=missing, spread=True))
    release = cf.analyze(cf.shuffle(cf.encode_many(answers, plan)), plan)
    assert read_release(json.dumps(release.document())) == release
    row = next(one for one in release.table() if one.kind == "standard deviation")
    truth = float(np.std([one for one in answers if one is not None]))
    assert row.estimate == pytest.approx(truth, abs=0.01)
    assert row.low <= truth <= row.high
    assert row.unit == "minutes"
    names = [one.kind for one in release.table()]
    assert names[:2] == ["mean", "standard deviation"]
    assert len(release.answer().tallies) == len(plan.parts)


def test_where_nobody_answered_it_may_be_anything() -> None:
    plan = made(cf.Number(0, 10, missing="count", spread=True))
    release = cf.analyze(cf.shuffle(cf.encode_many([None] * 5, plan)), plan)
    row = next(one for one in release.table() if one.kind == "standard deviation")
    assert (row.low, row.high) == (0.0, 5.0)


RUNS, PEOPLE = 20_000, 400
NUMBERS = np.clip(np.random.default_rng(5).gamma(2.0, 6.0, PEOPLE), 0, 60)
EVENLY = np.linspace(0, 60, PEOPLE)


def drawn(
    spread: float = 1.0, *, gaps: int = 0, numbers: Floats = NUMBERS, noise: int = 1
) -> Deviation:
    """Return the standard deviations of many collections with so many times the noise."""
    question = cf.Number(0, 60, spread=True)
    steps, wide = 256, Totals("gaussian", Fraction(256 * noise), 256)
    draws = np.random.default_rng(11)
    told, scale = wide.thermometer, float(wide.scale) * spread
    places = 2 * numbers / 60 - 1
    seen = [
        np.rint(steps * total + draws.normal(0.0, scale, RUNS)).astype(np.int64)
        for total in ((places.sum() + PEOPLE + gaps) / 2, np.square(places).sum())
    ]
    people: int | Answerers = PEOPLE
    if gaps:
        counted = Totals("gaussian", Fraction(noise)).noise(cf.Bit())
        yes = PEOPLE + np.rint(draws.normal(0.0, noise * spread, RUNS)).astype(np.int64)
        people = Answerers.of(counted, yes, PEOPLE + gaps, 0.05 * 0.15)
    return standard_deviation(question, (told, seen[0]), (told, seen[1]), people, 0.05)


TRUTH = float(np.std(NUMBERS))


@pytest.mark.parametrize("gaps", [0, 150])
def test_error_and_interval_hold(gaps: int) -> None:
    """And a law with a tenth more noise fails the first, one with three times as much both."""
    low, high = judging.variance_ratios(np.array([0.5]), RUNS, ALARM)

    def judged(spread: float) -> tuple[bool, bool]:
        found = drawn(spread, gaps=gaps)
        ratio = found.estimate.var() / np.median(found.standard_error) ** 2
        missed = int(((found.low > TRUTH) | (found.high < TRUTH)).sum())
        # Room of 3 % for what the delta method leaves out.
        fits = bool(0.97 * low[0] <= ratio <= 1.03 * high[0])
        return fits, missed <= judging.miss_limit(0.05, RUNS, ALARM)

    assert judged(1.0) == (True, True)
    assert judged(1.1) == (False, True)
    assert judged(3.0) == (False, False)


def test_the_estimate_lies_in_its_interval() -> None:
    """Also where more people are estimated to have answered than there are reports."""
    ends = np.repeat([0.0, 60.0], PEOPLE // 2)
    for gaps, numbers in itertools.product((0, 1), (ends, EVENLY)):
        found = drawn(gaps=gaps, numbers=numbers, noise=8)
        assert (found.low <= found.estimate).all()
        assert (found.estimate <= found.high).all()


def test_the_variance_is_unbiased_because_the_noise_of_the_mean_is_taken_off() -> None:
    found = drawn(numbers=EVENLY, noise=20)
    # Not cut at either end here, so that the square of the root is the variance.
    squares = found.estimate**2
    assert 0.0 < squares.min() < squares.max() < 30**2
    room = judging.mean_room(squares.var(), RUNS, ALARM, 30**2 / 3)
    off = abs(squares.mean() - EVENLY.var())
    assert off < room
    # What U² would be too large by: the variance of twice the noise of the mean.
    assert off + room < (2 * 20 / PEOPLE) ** 2 * 30**2


def test_squares_from_the_middle_are_the_better_ones() -> None:
    """Noise of one size in both sums; the distance from the lower bound is what they are not."""
    draws = np.random.default_rng(3)
    shares = NUMBERS / 60
    errors = 0.02 * draws.normal(size=(2, RUNS))
    mean = shares.mean() + errors[0]
    centred = (np.square(2 * shares - 1).mean() + errors[1] - np.square(2 * mean - 1)) / 4
    plain = np.square(shares).mean() + errors[1] - np.square(mean)
    middle = shares.mean()
    told = [0.02**2 * (1 / 16 + (2 * middle - 1) ** 2), 0.02**2 * (1 + 4 * middle**2)]
    low, high = judging.variance_ratios(np.array([0.0]), RUNS, ALARM)
    for found, variance in zip((centred, plain), told, strict=True):
        assert 0.98 * low[0] < found.var() / variance < 1.02 * high[0]
    for at in (1 / 64, 0.0):
        assert (1 / 16 + (2 * at - 1) ** 2 <= 1 + 4 * at**2) == (at > 0)


def test_groups_and_very_wide_ranges_are_refused() -> None:
    asked: dict[str, Any] = {"a": cf.Bit(), "b": cf.Number(0, 1, spread=True)}
    with pytest.raises(cf.errors.InvalidInput, match="without quantiles or spread"):
        cf.Survey(asked, by={"b": "a"})
    for ends in itertools.pairwise((-1e200, 0.0, 1e-200)):
        with pytest.raises(cf.errors.InvalidInput, match="width"):
            cf.Number(*ends, spread=True)
