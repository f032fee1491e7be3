"""Uniform decoys are read given how many arrived, against laws that are enumerated."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from scipy import stats

import chaffinch as cf
from chaffinch.analysis.tally import check_tally
from chaffinch.errors import InvalidFile
from chaffinch.plans.plan import Plan
from chaffinch.protocols import Decoys
from chaffinch.protocols.intervals import SHARPNESS, two_sided
from chaffinch.protocols.noise import SeenDecoys
from chaffinch.questions import Bit, Question
from chaffinch.wire.batches import Counts
from chaffinch.wire.messages import Tally
from tests.cases import each_case
from tests.simulate.settings import chance, choice, planned
from tests.tiers import chequered

QUARTER = Fraction(1, 4)
SMALL: list[tuple[Question, Decoys, tuple[int, ...]]] = [
    (Bit(), Decoys(1, QUARTER), (2, 1)),
    (Bit(), Decoys(2, Fraction(3, 4)), (0, 2)),
    (choice(3), Decoys(1, QUARTER), (2, 0, 1)),
    (choice(3), Decoys(2, Fraction(1)), (1, 1, 0)),
]


def views(protocol: Decoys, held: tuple[int, ...]) -> Iterator[tuple[Counts, int, Fraction]]:
    """Yield everything that can be seen, how many decoys arrived, and the chance of it."""
    places = sum(held) * protocol.decoy_slots
    rate, values = protocol.decoy_rate, len(held)
    for drawn in product(range(values + 1), repeat=places):
        fell = np.bincount(drawn, minlength=values + 1)
        arrived = places - int(fell[values])
        weight = (rate / values) ** arrived * (1 - rate) ** (places - arrived)
        yield np.array(held) + fell[:values], arrived, weight


@pytest.mark.parametrize(("question", "protocol", "held"), SMALL)
def test_estimates_are_unbiased_given_how_many_arrived(
    question: Question, protocol: Decoys, held: tuple[int, ...]
) -> None:
    reports, noise = sum(held), protocol.noise(question)
    given: dict[int, list[tuple[Counts, Fraction]]] = {}
    for counts, arrived, weight in views(protocol, held):
        given.setdefault(arrived, []).append((counts, weight))
    moments = np.zeros((2, len(held)))
    for arrived, rows in given.items():
        readings = protocol.read(question, np.array([counts for counts, _ in rows]), reports)
        away = readings.noise.estimate(readings.tallies, reports) - np.array(held)
        weights = np.array([float(weight) for _, weight in rows])
        assert weights @ away == pytest.approx(0, abs=1e-12)
        # All estimates together are the number of reports, whatever arrived.
        assert away.sum(axis=1) == pytest.approx(np.zeros(len(rows)))
        one = SeenDecoys(len(held), np.array([arrived]))
        share = weights / weights.sum() if weights.sum() else weights
        for power, found in ((2, one.tally_variance), (4, one.fourth_cumulant)):
            exact = share @ away**power
            exact -= 3 * (share @ away**2) ** 2 if power == 4 else 0
            if weights.sum():
                assert found(held, reports) == pytest.approx(exact, abs=1e-12)
        moments += [weights @ away**2, weights @ away**4]
    assert noise.tally_variance(held, reports) == pytest.approx(moments[0])
    fourth = moments[1] - 3 * moments[0] ** 2
    assert noise.fourth_cumulant(held, reports) == pytest.approx(fourth)
    assert protocol.standard_error(question, reports) == pytest.approx(math.sqrt(moments[0].max()))


def test_a_bit_of_the_first_source_is_half_as_scattered() -> None:
    """S0 §5.1 at epsilon 1 and delta 1e-6: 86 decoys, (m/d)(1 − 1/d) instead of m/d."""
    protocol = Decoys(1, chance(0.086))
    assert protocol.standard_error(Bit(), 1000) == pytest.approx(math.sqrt(86 / 4), rel=1e-3)


@each_case(
    ("arrived", "values", "alpha"),
    chequered(product([0, 1, 86, 5000], [2, 5, 1000]), [0.05, 1e-6]),
)
def test_intervals_are_those_of_the_binomial_law(arrived: int, values: int, alpha: float) -> None:
    reports = 400
    noise = SeenDecoys(values, np.array([arrived]))
    tallies = np.arange(0, reports + arrived + 1, 7)
    low, high = two_sided(noise, tallies, reports, alpha)
    law = stats.binom(arrived, 1 / values)
    held = np.arange(reports + 1)[:, None]
    kept = (law.sf(tallies - held - 1) > alpha / 2) & (law.cdf(tallies - held) > alpha / 2)
    for tally_low, tally_high, column in zip(low, high, kept.T, strict=True):
        if column.any():
            assert (tally_low, tally_high) == (np.argmax(column), reports - np.argmax(column[::-1]))


def test_every_row_of_tallies_has_its_own_decoys() -> None:
    arrived = np.array([[40], [44], [40]])
    tallies = np.array([[30, 30], [30, 34], [29, 31]])
    low, high = two_sided(SeenDecoys(2, arrived), tallies, 20, 0.05)
    for row in range(3):
        alone = two_sided(SeenDecoys(2, arrived[row]), tallies[row], 20, 0.05)
        assert (low[row].tolist(), high[row].tolist()) == (alone[0].tolist(), alone[1].tolist())
    assert low[0].tolist() != low[1].tolist()


def test_many_numbers_of_decoys_share_laws_on_the_safe_side() -> None:
    arrived = np.arange(100_000, 120_000, 50)[:, None]
    tallies, reports = arrived // 2 + 500, 1000
    low, high = two_sided(SeenDecoys(2, arrived), tallies, reports, 0.05)
    room = math.ceil(SHARPNESS * math.sqrt(120_000 / 4))
    for row in range(0, len(arrived), 37):
        alone = two_sided(SeenDecoys(2, arrived[row]), tallies[row], reports, 0.05)
        assert 0 <= alone[0][0] - low[row, 0] <= room
        assert 0 <= high[row, 0] - alone[1][0] <= room


def test_intervals_of_very_many_decoys_are_those_of_the_normal_law() -> None:
    reports, arrived = 10**9, 6 * 10**10
    noise = SeenDecoys(2, np.array([arrived]))
    low, high = two_sided(noise, [arrived // 2 + reports // 2], reports, 0.05)
    spread = math.sqrt(arrived / 4)
    assert (high - low)[0] / (2 * spread) == pytest.approx(1.96, rel=1e-3)
    assert low[0] + high[0] == pytest.approx(reports, abs=spread / 1000)


# ------------------------------------------------------------------ dishonest reports


@pytest.mark.parametrize(("question", "values"), [(Bit(), 2), (choice(4), 4)])
@pytest.mark.parametrize("slots", [3, 5])
def test_one_report_moves_a_count_by_its_influence(
    question: Question, values: int, slots: int
) -> None:
    """Whatever one report sends, against an honest one that holds the value or does not."""
    protocol, reports = Decoys(2, QUARTER), 50
    others = np.full(values, 40, np.int64)
    moved = []
    for sent in product(range(slots + 1), repeat=values):
        if sum(sent) <= slots:
            reading = protocol.read(question, others + sent, reports)
            dishonest = reading.noise.estimate(reading.tallies, reports)[0]
            for own in range(2):
                honest = others + np.eye(values, dtype=np.int64)[own]
                other = protocol.read(question, honest, reports)
                moved.append(abs(dishonest - other.noise.estimate(other.tallies, reports)[0]))
    assert max(moved) == pytest.approx(protocol.influence(question, slots))
    assert protocol.influence(question, 1) == 1


def test_fewer_messages_than_reports_are_read_without_decoys() -> None:
    """Dishonest reports may be empty: an answer is still due."""
    reading = Decoys(1, QUARTER).read(Bit(), np.array([3, 4]), 10)
    assert isinstance(reading.noise, SeenDecoys)
    assert reading.noise.arrived.tolist() == [0]
    assert not reading.lowered
    assert reading.noise.estimate(reading.tallies, 10).tolist() == [3.0, 4.0]


def test_codes_that_honest_reports_cannot_send_are_lowered() -> None:
    reading = Decoys(1, QUARTER).read(Bit(), np.array([3, 25]), 10)
    assert reading.lowered
    assert reading.tallies.tolist() == [3, 20]
    assert isinstance(reading.noise, SeenDecoys)
    assert reading.noise.arrived.tolist() == [13]


# ------------------------------------------------------------------ a rate that is off


@each_case("protocol", [Decoys(2, chance(0.3)), Decoys(1, chance(0.01))])
@each_case("users", [10, 1000, 10**6])
def test_honest_decoys_are_too_many_once_in_a_billion_at_most(protocol: Decoys, users: int) -> None:
    most = protocol.most_messages(Bit(), users) - users
    slots, rate = users * protocol.decoy_slots, float(protocol.decoy_rate)
    assert stats.binom.sf(most, slots, rate) <= 1e-9
    spread = math.sqrt(slots * rate * (1 - rate))
    # By Chernoff, so not the very last.
    assert most == slots or stats.binom.sf(math.floor(most - spread - 1), slots, rate) > 1e-9


def test_decoys_that_are_always_sent_are_neither_few_nor_many() -> None:
    always = Decoys(3, Fraction(1))
    assert always.most_messages(Bit(), 50) == 200
    assert always.most_messages(Bit(), 50) >= always.least_messages(Bit(), 50)


def batch(plan: Plan, reports: int, messages: int) -> Tally:
    counts = np.zeros(plan.codes, np.int64)
    counts[0] = messages
    return Tally(plan.id, reports, counts)


@pytest.mark.parametrize("off", [0.9, 1.1])
def test_a_batch_with_a_tenth_of_the_decoys_off_is_refused(off: float) -> None:
    plan = planned(10_000, (choice(10), Decoys(1, Fraction(1, 2))))
    check_tally(batch(plan, 10_000, 15_000), plan)
    with pytest.raises(InvalidFile, match="release nothing of this batch") as refused:
        check_tally(batch(plan, 10_000, 10_000 + round(off * 5_000)), plan)
    assert "the noise that 10,000 honest users send" in str(refused.value)
    assert ("dropped" if off < 1 else "added") in str(refused.value.hint)


def test_reports_beyond_the_honest_users_may_be_full() -> None:
    plan = planned(10_000, (choice(10), Decoys(1, Fraction(1, 2))))
    most = plan.parts[0].protocol.most_messages(choice(10), 10_000)
    assert most is not None
    check_tally(batch(plan, 10_100, most + 200), plan)
    with pytest.raises(InvalidFile, match="what other reports have room for"):
        check_tally(batch(plan, 10_100, most + 201), plan)


# ------------------------------------------------------------------ the whole way


def test_a_release_says_what_the_decoys_that_arrived_leave() -> None:
    plan = cf.plan(Bit(), users=500, target=cf.Target(1.0, 1e-6), local_epsilon=math.inf)
    part = replace(plan.parts[0], protocol=Decoys(1, chance(0.25)))
    plan = replace(plan, parts=(part,), shares=(), epsilon=1.0)
    plan.verify()
    reports = cf.encode_many([True] * 200 + [False] * 300, plan)
    shuffled = cf.shuffle(reports)
    release = cf.analyze(shuffled, plan)
    answer = release.answers[0]
    arrived = int(answer.tallies.sum()) - 500
    assert answer.estimates.sum() == 500
    assert answer.standard_errors == pytest.approx(np.full(2, math.sqrt(arrived / 4)))
