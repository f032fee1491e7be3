"""Means, sums, shares and quantiles of those who answered, over many simulated collections.

The false-alarm rate of a setting is 1e-6, shared out over its tests: see `simulate.judging`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from chaffinch.analysis.answered import Answerers, answered_mean, answered_shares
from chaffinch.analysis.number_estimates import Scale, survival
from chaffinch.plans.expansion import COUNT_SHARE, GAP_SHARE
from chaffinch.plans.parts import Part
from chaffinch.protocols import Decoys, Encoded, FlippedDecoys, Flips, Protocol
from chaffinch.protocols.intervals import two_sided
from chaffinch.protocols.noise import Truth
from chaffinch.questions import Bit, Choice, Flags, Number, Question
from chaffinch.simulate import judging
from chaffinch.simulate.populations import draw_tallies
from tests.simulate.settings import ALARM, chance, digits, signed
from tests.tiers import nightly

LEVEL = 0.95
RUNS = 5_000
PEOPLE = 20_000
RANGE = Number(-30, 120, missing="count")

NUMBERS: dict[str, tuple[Protocol, Protocol]] = {
    "flips": (Encoded(chance(0.06), 16, together=True), Flips(chance(0.04))),
    "odd steps": (Encoded(chance(0.06), 5, together=True), Flips(chance(0.1), copies=5)),
    "steps seen": (Encoded(chance(0.06), 8, together=False), Flips(chance(0.04))),
    "signed": (
        signed(PEOPLE, 2.0, 1.5, 1.0, ratio=0.85, steps=20),
        signed(PEOPLE, 2.0, 1.5, 1.0),
    ),
    "digits": (digits(PEOPLE, 9, 9, ratio=0.85), Decoys(1, chance(0.2))),
}
COUNTS: dict[str, tuple[Question, Protocol]] = {
    "bit": (Bit(missing="count"), Flips(chance(0.05), slots=3)),
    "choice": (Choice(list("abc"), missing="count"), signed(PEOPLE, 2.0, 1.5, 1.0)),
    "decoys": (Choice(list("abc"), missing="count"), Decoys(2, chance(0.4))),
    "flipped decoys": (
        Choice(list("abc"), missing="count"),
        FlippedDecoys(chance(0.1), 1, 4),
    ),
    "flags": (Flags(["x", "y"], missing="count"), Flips(chance(0.05))),
}
QUICK = ("flips", "digits", "bit", "flags")


def settings(every: dict[str, Any]) -> list[Any]:
    """Return settings by name: some for the gate, all for the nightly tier."""
    return [name if name in QUICK else nightly(name) for name in every]


class People:
    """Some who answered, with most of their numbers in the lower half, and some who did not."""

    def __init__(self, silent: int, *, gaps_at: float = GAP_SHARE) -> None:
        shares = np.linspace(0.0, 1.0, 41)
        weights = (1.0 + np.arange(41.0)) ** -0.7
        counts = np.floor((PEOPLE - silent) * weights / weights.sum()).astype(np.int64)
        counts[0] += PEOPLE - silent - counts.sum()
        self.answered = PEOPLE - silent
        self.sum = float(counts @ (RANGE.low + (RANGE.high - RANGE.low) * shares))
        self.counts, self.shares = counts, shares
        sent = counts.copy()
        sent[np.flatnonzero(shares == gaps_at)] += silent
        self.number = Truth("number", PEOPLE, sent, shares)
        self.bit = Truth("bit", PEOPLE, np.array([silent, self.answered]))


class Collections:
    """Many collections of a number beside the count of who answered."""

    def __init__(self, name: str, people: People, runs: int = RUNS) -> None:
        draws = np.random.default_rng(7)
        number, answered = NUMBERS[name]
        self.number, self.bit = Part("q", RANGE, number), Part("q", Bit(), answered)
        steps = self.number.protocol.thermometer
        self.scale = Scale(RANGE.low, RANGE.high, steps.resolution, steps.noise)
        seen = draw_tallies(self.number, people.number, runs, draws)
        self.tallies = self.number.protocol.read(RANGE, seen, PEOPLE).tallies
        self.totals = self.tallies.sum(axis=-1, keepdims=True)
        seen = draw_tallies(self.bit, people.bit, runs, draws)
        self.reading = self.bit.protocol.read(Bit(), seen, PEOPLE)
        alpha = (1 - LEVEL) * COUNT_SHARE
        yes = self.reading.tallies[..., -1:]
        self.answerers = Answerers.of(self.reading.noise, yes, PEOPLE, alpha)
        self.found = answered_mean(self.scale, self.totals, self.answerers, 1 - LEVEL)


def room_of(made: Collections, weight: float, people: People, alarm: float) -> float:
    """Return how far the mean of W + weight·C may be off, W the sum of numbers less the middle."""
    scale, bit = made.scale, made.bit.protocol.noise(Bit())
    trials, slope = scale.resolution * PEOPLE, float(scale.noise.slope)
    unit = (scale.high - scale.low) / (scale.resolution * slope)
    _, chances = people.number.rounding(scale.resolution)
    rounding = float(people.number.counts @ (chances * (1 - chances))) * slope**2
    number = float(scale.noise.tally_variance(np.zeros(1), trials)[0]) + rounding
    count = float(bit.tally_variance(people.answered, PEOPLE))
    each = abs(weight) / float(bit.slope)
    variance = unit**2 * number + each**2 * count
    grain = max(unit * scale.noise.grain, each * bit.grain)
    return float(judging.mean_room(variance, RUNS, alarm, grain))


def faults(made: Collections, people: People) -> list[str]:
    """Return what is further off than chance allows."""
    found, who = made.found, made.answerers
    middle = 0.5 * (RANGE.low + RANGE.high)
    truth = people.sum / people.answered
    alarm = ALARM / 7
    limit = judging.miss_limit(1 - LEVEL, RUNS, alarm)
    # A quotient is biased by the variance of its denominator; the numerator's own part is not.
    second = abs(truth - middle) * (who.standard_error / people.answered) ** 2
    wrong = {
        "count": abs(float(who.estimate.mean()) - people.answered)
        > room_of(made, 1.0, people, alarm),
        "sum": abs(float(found.total.mean()) - people.sum) > room_of(made, middle, people, alarm),
        "mean": abs(float(found.mean.mean()) - truth)
        > 2 * second + 1.1 * room_of(made, middle - truth, people, alarm) / people.answered,
    }
    for name, exact, (low, high) in (
        ("interval of the mean", truth, found.mean_ends),
        ("interval of the sum", people.sum, found.total_ends),
        ("interval of the count", float(people.answered), (who.low, who.high)),
    ):
        wrong[name] = int(((exact < low) | (exact > high)).sum()) > limit
    observed, predicted = float(found.mean.std()), float(np.median(found.mean_error))
    # Rounding is predicted at its worst.
    wrong["standard error"] = not observed < 1.1 * predicted
    return [name for name, bad in wrong.items() if bad]


@pytest.mark.parametrize("silent", [nightly(0), 3_000, nightly(17_000)])
@pytest.mark.parametrize("name", settings(NUMBERS))
def test_means_and_sums_are_those_of_the_people_who_answered(name: str, silent: int) -> None:
    people = People(silent)
    made = Collections(name, people)
    assert faults(made, people) == []
    assert not made.found.nobody.any()


@pytest.mark.parametrize("name", settings(NUMBERS))
def test_gaps_that_are_sent_as_low_are_noticed(name: str) -> None:
    """The planted fault: a hundred gaps of 20,000 count as the lower bound."""
    people = People(100, gaps_at=0.0)
    found = faults(Collections(name, people), people)
    assert {"mean", "sum"} <= set(found)
    assert "count" not in found


def test_many_gaps_that_are_sent_as_low_break_the_intervals() -> None:
    people = People(3_000, gaps_at=0.0)
    found = faults(Collections("flips", people), people)
    assert {"interval of the mean", "interval of the sum"} <= set(found)


@pytest.mark.parametrize("name", settings(NUMBERS))
def test_where_nobody_may_have_answered_no_mean_is_given(name: str) -> None:
    """The interval is the whole range, so that it always holds; the sum still means something."""
    made = Collections(name, people := People(PEOPLE - 3), runs=200)
    found = made.found
    silent = found.nobody[:, 0]
    assert silent.mean() > 0.5
    assert (found.mean_ends[0][silent] == RANGE.low).all()
    assert (found.mean_ends[1][silent] == RANGE.high).all()
    assert (found.mean[silent] == 45.0).all()
    low, high = found.total_ends
    assert ((low <= people.sum) & (people.sum <= high)).mean() > 0.9


# ------------------------------------------------------------------ quantiles


@pytest.mark.parametrize("silent", [nightly(0), 6_000])
@pytest.mark.parametrize("runs", [100, nightly(RUNS)])
def test_quantiles_are_those_of_the_people_who_answered(silent: int, runs: int) -> None:
    people = People(silent)
    made = Collections("steps seen", people, runs)
    who, probabilities = made.answerers, (0.1, 0.5, 0.9)
    ranks = np.cumsum(people.counts)
    truths = np.array(
        [
            people.shares[np.searchsorted(ranks, math.ceil(chance * people.answered - 1e-9))]
            for chance in probabilities
        ]
    )
    truths = RANGE.low + (RANGE.high - RANGE.low) * truths
    within = 1 - (1 - LEVEL) * (1 - COUNT_SHARE)
    share = (1 - within) / made.scale.resolution
    low_all, high_all = two_sided(made.scale.noise, made.tallies, PEOPLE, share)
    missed = 0
    for run in range(runs):
        known = (
            float(who.some[run, 0]),
            int(who.low[run, 0]),
            int(who.high[run, 0]),
        )
        ends = low_all[run], high_all[run]
        seen = made.tallies[run]
        found = survival(made.scale, seen, PEOPLE, within, known)
        low, guess, high = found.brackets(probabilities, ends)
        missed += not ((low <= truths) & (truths <= high)).all()
        # A bracket is at most a few of the eight steps wide.
        assert (high - low).max() <= 3 * (RANGE.high - RANGE.low) / 8
        assert (np.abs(guess - truths) <= 2 * (RANGE.high - RANGE.low) / 8).all()
    assert missed <= judging.miss_limit(1 - LEVEL, runs, ALARM)


# ------------------------------------------------------------------ shares


@pytest.mark.parametrize("name", settings(COUNTS))
def test_shares_are_those_of_the_people_who_answered(name: str) -> None:
    question, protocol = COUNTS[name]
    part = Part("q", question, protocol)
    held = {3: [9_000, 6_000, 5_000], 4: [9_000, 40, 5_960, 5_000]}[len(part.labels)]
    truth = Truth(question.shape, PEOPLE, np.array(held))
    seen = draw_tallies(part, truth, RUNS, np.random.default_rng(8))
    reading = protocol.read(question, seen, PEOPLE)
    low, high = answered_shares(reading.noise, reading.tallies, PEOPLE, 1 - LEVEL)
    exact = np.array(held[:-1]) / 15_000
    missed = ((exact < low) | (exact > high)).sum(axis=0)
    assert (missed <= judging.miss_limit(1 - LEVEL, RUNS, ALARM / len(exact))).all()
    # The planted fault: shares of all people instead of those who answered.
    wrong = np.array(held[:-1]) / PEOPLE
    assert ((wrong < low) | (wrong > high)).sum(axis=0)[0] == RUNS
    assert (high - low).max() < 0.1


def test_shares_of_nobody_may_be_anything() -> None:
    question, protocol = COUNTS["bit"]
    truth = Truth("choice", PEOPLE, np.array([0, 0, PEOPLE]))
    seen = draw_tallies(Part("q", question, protocol), truth, 100, np.random.default_rng(9))
    low, high = answered_shares(protocol.read(question, seen, PEOPLE).noise, seen, PEOPLE, 0.05)
    assert (high == 1.0).mean() > 0.9
    assert ((low >= 0.0) & (low <= high)).all()
