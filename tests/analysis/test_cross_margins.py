"""Margins, shares and means of crossed questions, in thousands of simulated collections.

Tallies are drawn from their exact joint law. How often intervals may miss, and how far a mean may
lie from the truth, is set so that all checks of a test together ring by chance with 1e-6.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from chaffinch.analysis.cross_margins import (
    _critical_multiple,
    _Interval,
    _multiple_at,
    _ratio_intervals,
    _sum_intervals,
    crossed_answer,
)
from chaffinch.protocols import Decoys, FlippedDecoys, Flips, Protocol, Signed
from chaffinch.protocols.joint import FlippedTogether, JointNoise, SignedTogether
from chaffinch.protocols.noise import Truth
from chaffinch.questions import Bit, Choice, Cross, Number
from tests.cases import each_case
from tests.tiers import nightly, some

FALSE_ALARM = 1e-6
PEOPLE = 2_000
CROSS = Cross({"group": Choice(["a", "b", "c", "d"], missing="refuse"), "held": Bit()})
TABLE = np.array([[900, 600], [300, 20], [45, 30], [0, 105]])
PROTOCOLS: dict[str, Protocol] = {
    "flips": Flips(Fraction(1, 32), 1, 8),
    "decoys": Decoys(1, Fraction(1)),
    "flipped decoys": FlippedDecoys(Fraction(1, 64), 1, 8),
    # Noise of one geometric with each sign: far heavier tails than a normal law has.
    "signed": Signed(Fraction(7, 8), (Fraction(1),), PEOPLE, 50),
}


def estimates_of(
    protocol: Protocol, cross: Cross, counts: NDArray[np.int64], runs: int, seed: int
) -> tuple[NDArray[np.float64], list[JointNoise]]:
    """Return the estimates of all cells in many collections, and the law that each is told by."""
    draws = np.random.default_rng(seed)
    people = int(counts.sum())
    truth = Truth("choice", people, counts.ravel())
    places = np.arange(len(cross.labels))
    tallies = protocol.draw_tallies(cross, truth, runs, draws, places)
    reading = protocol.read(cross, tallies, people)
    found = reading.noise.estimate(reading.tallies, people)
    joints: list[JointNoise] = [protocol.joint(cross, one, people) for one in reading.tallies]
    if len(set(joints)) == 1:
        joints = joints[:1]
    return found.reshape(runs, *cross.sizes), joints


def most_misses(runs: int, miss: float, checks: int) -> int:
    return int(stats.binom.isf(FALSE_ALARM / checks, runs, miss))


@pytest.mark.parametrize("name", PROTOCOLS)
@pytest.mark.parametrize("runs", [1_000, nightly(20_000)])
def test_a_margin_is_unbiased_and_has_the_error_that_is_told(name: str, runs: int) -> None:
    found, joints = estimates_of(PROTOCOLS[name], CROSS, TABLE, runs, seed=1)
    for axis in (0, 1):
        truth = TABLE.sum(axis=1 - axis)
        sums = found.sum(axis=2 - axis)
        cells = CROSS.sizes[1 - axis]
        told = np.mean([float(one.covariance(1.0, 1.0, np.array([cells]))) for one in joints])
        assert np.abs(sums.mean(axis=0) - truth).max() < 5.5 * math.sqrt(told / runs)
        # The variance of a variance is (kurtosis − 1)/runs; no law here has one above 6.
        ratios = sums.var(axis=0) / told
        assert np.abs(ratios - 1).max() < 5.5 * math.sqrt(5 / runs)


def test_margins_as_if_cells_erred_independently_are_caught() -> None:
    """Planted: a decoy that fell on one cell did not fall on another, which is forgotten."""
    runs = 1_000
    found, joints = estimates_of(PROTOCOLS["decoys"], CROSS, TABLE, runs, seed=1)
    sums, cells = found.sum(axis=1), 4
    told = np.mean([one.own * cells for one in joints])
    assert np.abs(sums.var(axis=0) / told - 1).min() > 5.5 * math.sqrt(5 / runs)


def test_a_law_for_every_number_of_decoys_holds_as_often_as_it_says() -> None:
    """How many decoys arrive is chance; each collection is judged by its own number."""
    runs, miss, protocol = 12, 0.1, Decoys(2, Fraction(1, 2))
    found, joints = estimates_of(protocol, CROSS, TABLE, runs, seed=7)
    assert len(set(joints)) > runs / 2
    told = [_ratio_intervals(one, cells, [0, 1], miss) for one, cells in paired(joints, found)]
    truth = TABLE[:, 1] / TABLE.sum(axis=1)
    missed = [(one.low[0] > truth) | (one.high[0] < truth) for one in told]
    assert np.sum(missed, axis=0).max() <= most_misses(runs, miss, 4)


@each_case("name", PROTOCOLS)
@each_case("miss", [0.1, 0.01])
@each_case("runs", [1_000, nightly(20_000)])
def test_intervals_of_margins_and_shares_hold_as_often_as_they_say(
    name: str, miss: float, runs: int
) -> None:
    found, joints = estimates_of(PROTOCOLS[name], CROSS, TABLE, runs, seed=2)
    allowed = most_misses(runs, miss, 10)
    for axis in (0, 1):
        truth, sums = TABLE.sum(axis=1 - axis), np.moveaxis(found, axis + 1, 1)
        told = [_sum_intervals(one, cells, PEOPLE, miss) for one, cells in paired(joints, sums)]
        low, high = (np.concatenate([getattr(one, end) for one in told]) for end in ("low", "high"))
        assert ((low > truth) | (high < truth)).sum(axis=0).max() <= allowed
    ratios = [_ratio_intervals(one, cells, [0, 1], miss) for one, cells in paired(joints, found)]
    low, high = (np.concatenate([getattr(one, end) for one in ratios]) for end in ("low", "high"))
    truth = TABLE[:, 1] / TABLE.sum(axis=1)
    assert ((low > truth) | (high < truth)).sum(axis=0).max() <= allowed
    # And they are of use: a share of a large group is known to a few percent.
    assert (high - low)[:, 0].max() < 0.15


def paired(
    joints: list[JointNoise], cells: NDArray[np.float64]
) -> list[tuple[JointNoise, NDArray[np.float64]]]:
    """Return all collections with their one law, or each with its own."""
    if len(joints) == 1:
        return [(joints[0], cells)]
    return [(one, some[None]) for one, some in zip(joints, cells, strict=True)]


@pytest.mark.parametrize("runs", [2_000, nightly(20_000)])
def test_the_delta_method_fails_where_a_group_is_small(runs: int) -> None:
    """Planted: estimate ± multiple·standard error, which is caught, where the inversion is not."""
    miss, small = 0.01, np.array([[1_970, 0], [0, 30]])
    cross = Cross({"group": Choice(["a", "b"], missing="refuse"), "held": Bit()})
    found, (joint,) = estimates_of(PROTOCOLS["signed"], cross, small, runs, seed=3)
    told = _ratio_intervals(joint, found[:, 1], [0, 1], miss)
    truth, allowed = 1.0, most_misses(runs, miss, 2)
    assert int(((told.low > truth) | (told.high < truth)).sum()) <= allowed
    known = ~np.isnan(told.estimates)
    far = np.abs(told.estimates - truth)[known] > stats.norm.isf(miss / 2) * told.errors[known]
    assert int(far.sum()) > allowed
    # Where nobody seems to be there, most often every share is kept.
    assert (told.high - told.low)[~known].mean() > 0.7


@pytest.mark.parametrize(
    ("ratio", "tail"), [(0.1, 0.025), (0.3, 0.2), (7 / 8, 0.001), (0.932, 1e-9)]
)
def test_critical_values_of_geometric_noise_have_a_closed_form(ratio: float, tail: float) -> None:
    """P(D >= n) = a^n / (1 + a), however little noise there is and however rare a miss."""
    joint = SignedTogether(ratio, 1.0)
    by_hand = math.ceil(math.log(tail * (1 + ratio)) / math.log(ratio))
    found = _critical_multiple(joint, (1,), (1,), tail) * math.sqrt(joint.own)
    assert found == pytest.approx(by_hand)


def test_a_normal_law_fails_where_the_noise_is_geometric() -> None:
    """Planted: a quantile of the normal law for the critical value of one cell."""
    joint, miss, runs = SignedTogether(7 / 8, 1.0), 0.002, 20_000
    draws = np.random.default_rng(4)
    noise = draws.negative_binomial(1, 1 / 8, (2, runs))
    seen = np.abs(noise[0] - noise[1]) / math.sqrt(joint.own)
    allowed = most_misses(runs, miss, 2)
    assert int((seen > _critical_multiple(joint, (1,), (1,), miss / 2)).sum()) <= allowed
    assert int((seen > stats.norm.isf(miss / 2)).sum()) > allowed


@pytest.mark.parametrize(("weights", "cells"), [((1,), (1,)), ((1,), (5,)), ((3, -1), (2, 3))])
def test_critical_values_are_those_of_the_law_summed_by_hand(
    weights: tuple[int, ...], cells: tuple[int, ...]
) -> None:
    joint, tail = FlippedTogether(0.0, 0, 8, 60), 0.01
    # One decoy after the other, with the law of where it falls.
    chances = {0: 1 - sum(cells) / 8}
    for weight, count in zip(weights, cells, strict=True):
        chances[weight] = chances.get(weight, 0) + count / 8
    law = np.zeros(2 * 60 * 3 + 1)
    law[180] = 1
    for _ in range(60):
        law = sum((chance * np.roll(law, move) for move, chance in chances.items()), np.zeros(361))
    places = np.arange(-180, 181) - joint.mean(np.array(weights), np.array(cells))
    spread = math.sqrt(float(law @ places**2))
    above, below = np.cumsum(law[::-1])[::-1], np.cumsum(law)
    by_hand = max(places[above <= tail].min(), -places[below <= tail].max()) / spread
    assert _critical_multiple(joint, weights, cells, tail) == pytest.approx(by_hand, rel=1e-9)


def test_critical_values_of_flips_are_those_of_their_binomial_law() -> None:
    joint, tail = FlippedTogether(0.25, 40, 4), 0.01
    law = stats.binom(80, 0.25)
    places = np.arange(81)
    above, below = law.sf(places - 1), law.cdf(places)
    by_hand = max(places[above <= tail].min() - 20, 20 - places[below <= tail].max())
    found = _critical_multiple(joint, (1,), (2,), tail)
    assert found == pytest.approx(by_hand / math.sqrt(15), rel=1e-9)


def test_a_law_that_leans_down_is_as_far_as_its_mirror() -> None:
    """So long a law is on a lattice, whose points stand for half a step to each side."""
    joint = FlippedTogether(0.0, 0, 1_000, 70_000_000)
    up, down = (_critical_multiple(joint, (sign,), (1,), 0.001) for sign in (1, -1))
    assert up == pytest.approx(down, rel=1e-6)


def test_a_long_law_is_summed_on_a_lattice_that_changes_next_to_nothing() -> None:
    short = _critical_multiple(SignedTogether(0.5, 2e4), (1,), (1,), 0.001)
    long = _critical_multiple(SignedTogether(0.5, 2e9), (1,), (1,), 0.001)
    for found in (short, long):
        assert found == pytest.approx(stats.norm.isf(0.001), rel=3e-3)
        assert found >= stats.norm.isf(0.001)


LEVELS = Cross(
    {"group": Choice(["a", "b", "c"], missing="refuse"), "delay": Number(-10, 30, "minutes")},
    levels=5,
)


@pytest.mark.parametrize("name", some(PROTOCOLS, "decoys", "signed"))
@pytest.mark.parametrize("runs", [100, nightly(5_000)])
def test_means_of_groups_hold_and_are_unbiased(name: str, runs: int) -> None:
    """Everything at once, as a release tells it: people round their numbers by chance."""
    miss, draws = 0.05, np.random.default_rng(5)
    sizes = np.array([1_100, 600, 300])
    numbers = np.concatenate([draws.beta(2, 3, 1_100), draws.beta(1, 9, 600), np.full(300, 0.87)])
    places = np.repeat(np.arange(3), sizes) * 5 + numbers * 4
    wanted = [-10 + 40 * numbers.mean()]
    wanted += [-10 + 40 * some.mean() for some in np.split(numbers, np.cumsum(sizes)[:-1])]
    rows = []
    for _ in range(runs):
        cells = np.floor(places + draws.random(PEOPLE)).astype(int)
        counts = np.bincount(cells, minlength=15).reshape(3, 5)
        found, (joint,) = estimates_of(
            PROTOCOLS[name], LEVELS, counts, 1, seed=int(draws.integers(1 << 60))
        )
        told = crossed_answer(LEVELS, joint, found[0].ravel(), PEOPLE, 1 - miss)
        rows.append([row.numbers for row in told.of_kind("mean")])
    estimates, errors, low, high, low_all, high_all = np.moveaxis(np.array(rows), -1, 0)
    misses = (low > wanted) | (high < wanted)
    assert misses.sum(axis=0).max() <= most_misses(runs, miss, 6)
    together = ((low_all > wanted) | (high_all < wanted))[:, 1:].any(axis=1)
    assert int(together.sum()) <= most_misses(runs, miss, 6)
    # The error is told with the most that rounding can add, so it is no smaller than it is. A
    # ratio is biased by about its relative variance, which is next to nothing here.
    assert (estimates.std(axis=0) < errors.mean(axis=0) * (1 + 5.5 / math.sqrt(runs))).all()
    room = 5.5 * errors.mean(axis=0) / math.sqrt(runs) + 0.05 * errors.mean(axis=0)
    assert (np.abs(estimates.mean(axis=0) - wanted) < room).all()


def test_groups_that_may_be_empty_are_named_and_nothing_is_told_of_them() -> None:
    counts = np.array([[900, 600], [0, 0], [400, 100], [0, 0]])
    found, (joint,) = estimates_of(PROTOCOLS["signed"], CROSS, counts, 1, seed=6)
    told = crossed_answer(CROSS, joint, found[0].ravel(), PEOPLE, 0.95)
    assert told.unknown == (("b",), ("d",))
    assert [(row.value, row.given) for row in told.of_kind("share")] == [
        ("yes", ("a",)),
        ("yes", ("c",)),
    ]
    (note,) = told.unknown_notes()
    assert note == "No share can be given for b, d: nobody may be there, as far as is known."


def test_a_group_is_known_if_somebody_is_there_in_all_groups_at_once() -> None:
    """One that has its own interval above 0, and not that of all four together, is not."""

    def least(count: float, miss: float) -> float:
        return float(_sum_intervals(JOINT, np.array([[count, 0.0]]), PEOPLE, miss).low[0])

    counts = range(1, 200)
    doubtful = next(one for one in counts if least(one, MISS) > 0)
    assert least(doubtful, MISS / 4) == 0
    surely = next(one for one in counts if least(one, MISS / 4) == 1)
    cells = np.array([[doubtful, 0], [surely, 0], [500, 0], [500, 0]], dtype=float)
    told = crossed_answer(CROSS, JOINT, cells.ravel(), PEOPLE, 1 - MISS)
    assert told.unknown == (("a",),)


def test_shares_are_of_those_who_answered() -> None:
    cross = Cross(
        {
            "group": Choice(["a", "b"], missing="refuse"),
            "drink": Choice(["tea", "mate"], missing="count"),
        }
    )
    counts = np.array([[600, 200, 400], [100, 300, 400]])
    joint = SignedTogether(1e-9, 1.0)
    told = crossed_answer(cross, joint, counts.ravel().astype(float), 2_000, 0.95)
    found = {(row.given, row.value): row.estimate for row in told.of_kind("share")}
    assert found[("a",), "tea"] == pytest.approx(600 / 800)
    assert found[("b",), "mate"] == pytest.approx(300 / 400)
    assert found[("a",), "(missing)"] == pytest.approx(400 / 1200)


def test_of_three_questions_the_groups_are_pairs() -> None:
    cross = replace(CROSS, questions={**CROSS.questions, "third": Bit()})
    counts = np.arange(100, 1700, 100)
    told = crossed_answer(cross, SignedTogether(1e-9, 1.0), counts.astype(float), 13_600, 0.95)
    assert [row.given for row in told.of_kind("share")][:2] == [("a", "no"), ("a", "yes")]
    margins = {(row.question, row.value): row.estimate for row in told.of_kind("margin")}
    assert margins["third", "no"] == sum(range(100, 1700, 200))
    assert margins["group", "a"] == 1_000
    assert {row.question for row in told.of_kind("share")} == {"third"}
    assert told.unit == ""


def test_of_three_questions_the_last_one_is_told() -> None:
    """Whatever the second one has: more values, or no gaps."""
    groups = {
        "group": Choice(["a", "b"], missing="refuse"),
        "held": Choice(["x", "y", "z"], missing="refuse"),
    }
    quiet = SignedTogether(1e-9, 1.0)
    cross = Cross({**groups, "drink": Choice(["tea"], missing="count")})
    counts = np.array([[30.0, 10.0], [10.0, 10.0], [50.0, 0.0]] * 2)
    told = crossed_answer(cross, quiet, counts.ravel(), 220, 0.95)
    found = [(*row.given, row.value, row.estimate) for row in told.of_kind("share")]
    assert found[:2] == [
        ("a", "x", "tea", pytest.approx(1.0)),
        ("a", "x", "(missing)", pytest.approx(0.25)),
    ]
    assert {row.question for row in told.of_kind("share")} == {"drink"}
    cross = Cross({**groups, "delay": Number(0, 10)}, levels=3)
    told = crossed_answer(cross, quiet, np.full(18, 20.0), 360, 0.95)
    assert {(row.question, row.value) for row in told.of_kind("mean")} == {("delay", "mean")}


# ----------------------------------------------------------------------------
# Intervals that hold together.

JOINT, MISS = SignedTogether(7 / 8, 1.0), 0.05


def told_by(each: _Interval, together: _Interval, place: int) -> tuple[float, ...]:
    columns = (each.estimates, each.errors, each.low, each.high, together.low, together.high)
    return tuple(float(column[place]) for column in columns)


def test_margins_and_shares_that_hold_together_share_the_chance_to_miss() -> None:
    """Among the values of a question; among all answers in all groups."""
    drinks = Choice(["tea", "mate", "milk"], missing="count")
    cross = Cross({"group": Choice(["a", "b"], missing="refuse"), "drink": drinks})
    cells = np.array([[600.0, 200.0, 150.0, 50.0], [100.0, 300.0, 400.0, 200.0]])
    told = crossed_answer(cross, JOINT, cells.ravel(), PEOPLE, 1 - MISS)
    margins = {(row.question, row.value): row.numbers for row in told.of_kind("margin")}
    for name, values, sums in (("group", "ab", cells), ("drink", cross.axes[1], cells.T)):
        each, together = (
            _sum_intervals(JOINT, sums, PEOPLE, miss) for miss in (MISS, MISS / len(values))
        )
        for place, value in enumerate(values):
            assert margins[name, value] == pytest.approx(told_by(each, together, place))
    shares = {(row.given, row.value): row.numbers for row in told.of_kind("share")}
    assert len(shares) == 8
    for place, value in enumerate(cross.axes[1]):
        # A share of those who answered; of the gap, among all.
        some = cells[:, :3] if place < 3 else cells
        scores = np.arange(some.shape[1]) == place
        each, together = (_ratio_intervals(JOINT, some, scores, miss) for miss in (MISS, MISS / 8))
        for group in (0, 1):
            found = shares[("ab"[group],), value]
            assert found == pytest.approx(told_by(each, together, group))


def test_means_that_hold_together_share_the_chance_to_miss() -> None:
    """Those of three groups; that of everybody, of sums of three cells, stands for itself."""
    cells = np.array([[200.0, 300.0, 300.0, 200.0, 100.0], [300.0] * 5, [0, 0, 90.0, 200.0, 10.0]])
    told = crossed_answer(LEVELS, JOINT, cells.ravel(), 4_000, 1 - MISS)
    scores = np.arange(5) / 4

    def means(some: NDArray[np.float64], times: int, miss: float) -> _Interval:
        spread = np.repeat(some / times, times, axis=1)
        most = _sum_intervals(JOINT, spread, 4_000, miss).high
        return _ratio_intervals(JOINT, some, scores, miss, rounding=most / 64, times=times)

    everybody = means(cells.sum(axis=0)[None], 3, MISS)
    each, together = means(cells, 1, MISS), means(cells, 1, MISS / 3)
    rows = [told_by(everybody, everybody, 0)]
    rows += [told_by(each, together, place) for place in range(3)]
    wanted = [
        (-10 + 40 * estimate, 40 * error, *(-10 + 40 * end for end in ends))
        for estimate, error, *ends in rows
    ]
    found = told.of_kind("mean")
    assert [row.given for row in found] == [(), ("a",), ("b",), ("c",)]
    assert [row.question for row in told.of_kind("margin")] == ["group"] * 3, "levels are none"
    for row, numbers in zip(found, wanted, strict=True):
        assert row.numbers == pytest.approx(numbers)


def test_a_sum_lies_between_whole_numbers_within_its_critical_value() -> None:
    sums = np.array([[100.25, 40.5], [3.0, -2.5], [1_990.0, 40.0]])
    found = _sum_intervals(JOINT, sums, PEOPLE, MISS)
    error = math.sqrt(2 * JOINT.own)
    room = error * _critical_multiple(JOINT, (1,), (2,), MISS / 2)
    assert found.errors == pytest.approx([error] * 3)
    assert found.estimates.tolist() == [140.75, 0.5, 2_030.0]
    assert found.low.tolist() == [math.ceil(140.75 - room), 0, math.ceil(2_030 - room)]
    assert found.high.tolist() == [math.floor(140.75 + room), math.floor(0.5 + room), PEOPLE]
    assert 20 < room < 50
    nobody = _sum_intervals(JOINT, np.array([[-50.0, -50.0]]), PEOPLE, MISS)
    assert (nobody.low[0], nobody.high[0]) == (0, 0)
    known = _sum_intervals(SignedTogether(1e-12, 1.0), np.array([[60.0, 40.0]]), PEOPLE, MISS)
    assert (known.low[0], known.high[0]) == (100, 100)


def test_a_ratio_is_told_wherever_somebody_seems_to_be() -> None:
    cells = np.array([[0.3, 0.2], [0.0, 0.0], [1.0, -3.0], [2.0, -2.0]])
    found = _ratio_intervals(JOINT, cells, [0, 1], MISS)
    assert found.estimates[0] == pytest.approx(0.4)
    assert np.isnan(found.estimates).tolist() == [False, True, True, True]
    assert np.isnan(found.errors).tolist() == [False, True, True, True]


@pytest.mark.parametrize(
    ("ratio", "weights"), [(0.0, (0, 1)), (0.3, (-5, 12)), (0.5, (-1, 1)), (1.0, (-1, 0))]
)
def test_a_ratio_is_judged_by_the_law_of_its_own_weights(
    ratio: float, weights: tuple[int, int]
) -> None:
    found = _multiple_at(JOINT, np.array([0.0, 1.0]), np.array([2, 3]), ratio, 0.01)
    assert found == _critical_multiple(JOINT, weights, (2, 3), 0.01)


def test_a_normal_law_has_no_part_in_a_ratio_without_rounding() -> None:
    """Half of this noise is far nearer to 0 than that of a normal law is."""
    joint, count = SignedTogether(0.99, 0.1), 20_000.0
    found = _ratio_intervals(joint, np.array([[count, count]]), [0, 1], 0.5)
    normal = stats.norm.isf(0.25) * found.errors[0]
    assert 0 < found.high[0] - 0.5 < 0.8 * normal


@pytest.mark.parametrize("miss", [1e-4, 0.5])
def test_the_ends_of_a_ratio_are_where_its_test_statistic_is_critical(miss: float) -> None:
    """Of two equal halves T(r) = Σ (s − r)·count weighs both cells alike."""
    count = 20_000.0
    found = _ratio_intervals(JOINT, np.array([[count, count]]), [0, 1], miss)
    multiple = _critical_multiple(JOINT, (-1, 1), (1, 1), miss / 2)
    room = multiple * math.sqrt(0.5 * JOINT.own) / (2 * count)
    assert found.estimates[0] == 0.5
    assert 0.5 - found.low[0] == pytest.approx(room, rel=0.04)
    assert found.high[0] - 0.5 == pytest.approx(room, rel=0.04)
    assert found.errors[0] == pytest.approx(math.sqrt(0.5 * JOINT.own) / (2 * count))


def test_without_noise_rounding_is_all_that_a_mean_can_miss_by() -> None:
    """T(r) is normal then, with the variance that rounding has; a group may have none."""
    quiet = SignedTogether(1e-15, 1.0)
    cells = np.array([[50.0, 50.0, 0.0], [20.0, 60.0, 20.0], [30.0, 40.0, 30.0]])
    spread = np.array([0.25, 4.0, 0.0])
    found = _ratio_intervals(quiet, cells, [0, 0.5, 1], MISS, rounding=spread)
    assert found.estimates == pytest.approx([0.25, 0.5, 0.5])
    assert found.errors == pytest.approx(np.sqrt(spread) / 100, abs=1e-6)
    room = stats.norm.isf(MISS / 2) * np.sqrt(spread) / 100
    assert found.low == pytest.approx(found.estimates - room, abs=1e-6)
    assert found.high == pytest.approx(found.estimates + room, abs=1e-6)


def test_an_answer_that_is_the_only_one_has_all_who_answered() -> None:
    cross = Cross(
        {
            "group": Choice(["a", "b"], missing="refuse"),
            "drink": Choice(["tea"], missing="count"),
        }
    )
    told = crossed_answer(cross, JOINT, np.array([600.0, 400.0, 300.0, 700.0]), PEOPLE, 1 - MISS)
    found = {(*row.given, row.value): row.numbers for row in told.of_kind("share")}
    assert found["a", "tea"] == found["b", "tea"] == pytest.approx((1, 0, 1, 1, 1, 1))
    assert found["a", "(missing)"][0] == pytest.approx(0.4)


def test_without_noise_a_ratio_is_known() -> None:
    """Also next to a place where one multiple takes over from another."""
    quiet = SignedTogether(1e-12, 1.0)
    cells = np.array([[199.6, 600.4], [200.4, 599.6], [0.0, 70.0], [70.0, 0.0]])
    found = _ratio_intervals(quiet, cells, [0, 1], MISS)
    for ends in (found.low, found.high):
        assert ends == pytest.approx([0.7505, 0.7495, 1.0, 0.0], abs=1e-4)
        assert ends.max() <= 1


def test_where_nothing_is_possible_the_nearest_ratio_is_left() -> None:
    quiet = SignedTogether(1e-12, 1.0)
    cells = np.array([[-10.0, 70.0], [70.0, -10.0], [-100.0, 50.0]])
    found = _ratio_intervals(quiet, cells, [0, 1], MISS)
    for ends in (found.low, found.high):
        assert ends == pytest.approx([1.0, 0.0, 0.5], abs=1e-9)
