"""Changes between rounds: unbiased, with correct errors, and covered as often as is said."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from scipy import stats

import chaffinch as cf
from chaffinch.analysis.intervals import intervals, two_sided
from chaffinch.analysis.numbers import Scale, mean_ends
from chaffinch.analysis.trend import _compared_rounds, _differences, _Measures
from chaffinch.errors import InvalidInput
from chaffinch.ledger.charge import Charge, total
from chaffinch.planning.explanation import Unit
from chaffinch.planning.plan import Part
from chaffinch.privacy import Guarantee
from chaffinch.protocols.base import number_question
from chaffinch.protocols.noise import Floats, Noise, SignedNoise, TallyNoise, Truth
from chaffinch.questions import PublicGroup
from chaffinch.release.surveys import Answer, Together
from tests.tiers import nightly

ALARM = 1e-6
EPSILONS = (0.693, 0.656, 1.379)
RUNS = 5_000
LEVEL = 0.95


def counted(part: Part, rounds: Sequence[Sequence[int]], runs: int) -> tuple[_Measures, Floats]:
    """Return the shares of many collections, rounds first, and the true ones."""
    columns: list[list[Floats]] = [[], [], [], [], [], []]
    draws = np.random.default_rng(1)
    for held in rounds:
        people, places = sum(held), np.arange(len(part.labels))
        truth = Truth(part.question.shape, people, np.array(held))
        codes = part.protocol.draw_tallies(part.question, truth, runs, draws, places)
        reading = part.protocol.read(part.question, codes, people)
        seen, noise = reading.tallies, reading.noise
        estimates = noise.estimate(seen, people)
        errors = np.broadcast_to(noise.standard_error(people, estimates), estimates.shape)
        ends = (
            *intervals(noise, seen, people, LEVEL),
            *intervals(noise, seen, people, 1 - (1 - LEVEL) / len(places)),
        )
        for column, values in zip(columns, (estimates, errors, *ends), strict=True):
            column.append(np.asarray(values) / people)
    found, errors, low, high, low_all, high_all = (np.array(column) for column in columns)
    measures = _Measures(found, errors, (low, high), (low_all, high_all), LEVEL)
    first = 1 if part.question.shape == "bit" else 0
    truths = np.array([np.array(held[first:]) / sum(held) for held in rounds])
    return measures, truths[:, np.newaxis, :]


def averaged(part: Part, middles: Sequence[float], runs: int) -> tuple[_Measures, Floats]:
    """Return the means of many collections of numbers, and the true ones."""
    question, steps = number_question(part.question), part.protocol.thermometer
    scale = Scale(question.low, question.high, steps.resolution, steps.noise)
    columns: list[list[Floats]] = [[], [], [], []]
    draws, truths, people = np.random.default_rng(1), [], 1000
    for middle in middles:
        shares, held = np.unique(np.linspace(0, 2 * middle, people), return_counts=True)
        truth = Truth("number", people, held, shares)
        truths.append(scale.place(float(shares @ held) / people))
        codes = part.protocol.draw_tallies(part.question, truth, runs, draws, np.arange(1))
        tallies = part.protocol.read(part.question, codes, people).tallies.sum(axis=-1)
        trials = steps.resolution * people
        estimates = scale.place(scale.noise.estimate(tallies, trials) / trials)
        spread = math.sqrt(float(scale.noise.standard_error(trials)) ** 2 + people / 4)
        errors = np.full(runs, (scale.high - scale.low) * spread / trials)
        ends = mean_ends(scale, tallies, people, LEVEL)
        for column, values in zip(columns, (estimates, errors, *ends), strict=True):
            column.append(np.asarray(values)[:, np.newaxis])
    found, errors, low, high = (np.array(column) for column in columns)
    return _Measures(found, errors, (low, high), (low, high), LEVEL), np.array(truths)[
        :, np.newaxis, np.newaxis
    ]


def check_changes(measures: _Measures, truths: Floats, *, exact: bool) -> None:
    """Check bias, errors and both kinds of intervals, with false alarms at ``ALARM`` in all."""
    rounds, runs, values = measures.estimates.shape
    pairs = _compared_rounds(rounds)
    reach, shared = measures.reach(), measures.reach_together(len(pairs))
    alarm = ALARM / (4 * values * len(pairs))
    far = -float(stats.norm.ppf(alarm / 2))
    missed_any = np.zeros(runs, dtype=bool)
    for first, last in pairs:
        moved = measures.estimates[last] - measures.estimates[first]
        off = moved - (truths[last] - truths[first])
        error = _differences(measures.errors[first], measures.errors[last])
        assert (np.abs(off.mean(axis=0)) <= far * np.sqrt((error**2).mean(0) / runs)).all()
        # The variance of a square is 2 and the excess of the law, which is at most 3.
        ratio, spread = (off**2).mean(axis=0) / (error**2).mean(axis=0), math.sqrt(5 / runs)
        assert (ratio <= 1 + far * spread).all()
        assert not exact or (ratio >= 1 - far * spread).all()
        inside = (np.abs(off) <= _differences(reach[first], reach[last])).sum(axis=0)
        assert (stats.binom.cdf(inside, runs, LEVEL) >= alarm).all(), inside / runs
        missed_any |= (np.abs(off) > _differences(shared[first], shared[last])).any(axis=1)
        if exact:  # and no much wider interval than that
            assert (stats.binom.sf(inside, runs, 0.985) >= alarm).all(), inside / runs
    assert stats.binom.sf(missed_any.sum() - 1, runs, 1 - LEVEL) >= alarm, missed_any.mean()


def part_of(question: cf.Bit | cf.Choice | cf.Number, users: int, **wishes: object) -> Part:
    plan = cf.plan(question, users=users, target=cf.Target(1, 1e-6), **wishes)  # type: ignore[arg-type]
    return plan.parts[0]


BIT = cf.Bit(missing="refuse")
DRINKS = cf.Choice(["tea", "coffee", "water"], missing="refuse")


@pytest.mark.parametrize(
    ("question", "wishes", "rounds"),
    [
        (BIT, {"max_messages": 1}, [(300, 700), (250, 950), (310, 690)]),
        (DRINKS, {}, [(500, 480, 20), (400, 700, 0), (450, 540, 10)]),
        nightly(BIT, {}, [(1000, 0), (0, 1000), (500, 500)]),
        nightly(DRINKS, {"local_epsilon": 4.0}, [(500, 480, 20), (400, 700, 0)]),
        nightly(DRINKS, {}, [(990, 5, 5), (5, 990, 5), (0, 0, 1000), (400, 400, 200)]),
    ],
)
def test_changes_of_shares(
    question: cf.Bit | cf.Choice, wishes: dict[str, object], rounds: list[tuple[int, ...]]
) -> None:
    part = part_of(question, 1000, **wishes)
    check_changes(*counted(part, rounds, RUNS), exact=True)


@pytest.mark.long
def test_changes_of_means() -> None:
    part = part_of(cf.Number(0, 10, missing="refuse"), 1000, max_messages=16)
    check_changes(*averaged(part, [0.2, 0.25, 0.4], RUNS), exact=False)


# ----------------------------------------------------------------------------
# From releases to a trend.

LABELS = ["tea", "coffee", "water"]


@pytest.fixture(scope="module")
def plan() -> cf.Plan:
    cups = cf.Number(0, 10, unit="cups", missing="refuse")
    survey = cf.Survey({"drink": DRINKS, "cups": cups}, "Cafe")
    return cf.plan(survey, users=300, target=cf.Target(2, 1e-4), max_messages=8)


@pytest.fixture(scope="module")
def releases(plan: cf.Plan) -> list[cf.Release]:
    made = []
    for tea in (150, 100, 200):
        people = 300 + tea // 10
        drinks = ["tea"] * tea + ["coffee"] * (people - tea)
        table = {"drink": drinks, "cups": [tea / 50] * people}
        made.append(cf.analyze(cf.shuffle(cf.encode_many(table, plan)), plan))
    return made


def test_rows_follow_from_the_releases(releases: list[cf.Release]) -> None:
    trend = cf.trend(releases, names=["May", "June", "July"])
    drinks, cups = trend.answers
    assert [row.round for row in drinks.estimates] == ["May", "June", "July"] * 3
    assert {row.until for row in (*drinks.estimates, *cups.estimates)} == {""}
    for row, release in zip(drinks.estimates, releases, strict=False):
        answer = release.answer("drink")
        assert row.estimate == answer.estimates[0] / release.reports
        assert (row.low, row.high) == (
            answer.low[0] / release.reports,
            answer.high[0] / release.reports,
        )
        assert row.low_together <= answer.low_together[0] / release.reports
        assert row.high_together >= answer.high_together[0] / release.reports
        assert 0 <= row.low_together <= row.high_together <= 1
    pairs = [("May", "June"), ("June", "July"), ("May", "July")]
    assert [(row.round, row.until) for row in drinks.changes] == pairs * 3
    shares = {(row.value, row.round): row for row in drinks.estimates}
    for row in drinks.changes:
        first, last = shares[row.value, row.round], shares[row.value, row.until]
        assert row.estimate == pytest.approx(last.estimate - first.estimate)
        both = math.hypot(first.standard_error, last.standard_error)
        assert row.standard_error == pytest.approx(both)
        assert row.low_together < row.low < row.estimate < row.high < row.high_together
    (mean, *_) = cups.estimates
    assert (mean.value, mean.estimate) == ("mean", releases[0].answer("cups").estimates[0])
    assert (cups.unit, drinks.unit) == ("cups", None)


def reach_of(answer: Answer, size: int, value: int, misses: float) -> float:
    """Return how far a share may be from its estimate, by the intervals of all values."""
    estimate = answer.estimates[value]
    ends = estimate - answer.low_together[value], answer.high_together[value] - estimate
    normal = float(stats.norm.isf(misses / 2)) * answer.standard_errors[value]
    return float(max(*ends, normal)) / size


@pytest.mark.parametrize("rounds", [2, 3])
def test_what_holds_together_is_as_much_wider_as_there_are_rounds(
    releases: list[cf.Release], rounds: int
) -> None:
    """Of three values in some rounds, and of their changes: the tail of exp(-x) for all of them."""
    found = releases[:rounds]
    drinks, cups = cf.trend(found).answers
    shared = (1 - LEVEL) / 3
    wider = math.log(shared / rounds) / math.log(shared)
    for row in drinks.estimates:
        value, release = LABELS.index(row.value), found[int(row.round[-1]) - 1]
        answer, size = release.answer("drink"), release.reports
        low, high = answer.low_together[value] / size, answer.high_together[value] / size
        person, below, above = 1 / size, row.estimate - low, high - row.estimate
        if below >= 0 <= above:
            low, high = (
                row.estimate - wider * (below + person),
                row.estimate + wider * (above + person),
            )
            assert row.low_together == pytest.approx(max(0.0, low))
            assert row.high_together == pytest.approx(min(1.0, high))
    compared = len(_compared_rounds(rounds))
    wider = math.log(shared / compared) / math.log(shared)
    for row in drinks.changes:
        value = LABELS.index(row.value)
        both = [found[int(name[-1]) - 1] for name in (row.round, row.until)]
        reach = wider * math.hypot(
            *(
                reach_of(one.answer("drink"), one.reports, value, shared) + 1 / one.reports
                for one in both
            )
        )
        assert row.low_together == pytest.approx(max(-1.0, row.estimate - reach))
        assert row.high_together == pytest.approx(min(1.0, row.estimate + reach))
    # A mean is in its own unit, and no share of anything: nothing is cut off at 1.
    wider = math.log((1 - LEVEL) / rounds) / math.log(1 - LEVEL)
    for row, release in zip(cups.estimates, found, strict=True):
        (low,), (high,) = release.answer("cups").low_together, release.answer("cups").high_together
        assert row.low_together == pytest.approx(row.estimate - wider * (row.estimate - low))
        assert row.high_together == pytest.approx(row.estimate + wider * (high - row.estimate))
        assert row.high_together > 1
    assert all(row.high_together - row.low_together > 1 for row in cups.changes)


def test_the_longer_of_two_whiskers_counts() -> None:
    ones = np.ones((2, 2))
    for ends in ((-3 * ones, 1 * ones), (-1 * ones, 3 * ones)):
        measures = _Measures(0 * ones, 0.1 * ones, ends, ends, LEVEL)
        assert (measures.reach() == 3).all()
        half = (1 - LEVEL) / 2
        assert measures.reach_together(1) == pytest.approx(3 * ones)
        assert measures.reach_together(7) == pytest.approx(
            3 * math.log(half / 7) / math.log(half) * ones
        )
    # Where noise is all that is known, the error tells, for as many values as there are.
    none = _Measures(0 * ones, ones, (0 * ones, 0 * ones), (0 * ones, 0 * ones), LEVEL)
    assert none.reach_together(1) == pytest.approx(float(stats.norm.isf(0.0125)) * ones)


def test_an_estimate_outside_its_interval_moves_no_end(releases: list[cf.Release]) -> None:
    """Shares below 0 are estimated, and their intervals start at 0."""
    first, second, _ = releases
    answer = first.answers[0]
    below = replace(
        answer,
        estimates=np.array([-3.0, 100.0, 330.0]),
        low_together=np.array([0.0, 90.0, 300.0]),
        high_together=np.array([5.0, 110.0, 315.0]),
    )
    moved = replace(first, answers=(below, *first.answers[1:]))
    rows = {row.value: row for row in cf.trend([moved, second]).answers[0].estimates[::2]}
    assert rows["tea"].low_together == 0
    assert rows["water"].high_together == 1
    assert 0 < rows["coffee"].low_together < 90 / 315


def test_a_trend_is_called_as_its_last_release_and_its_rounds_by_number(
    releases: list[cf.Release],
) -> None:
    told = [
        replace(one, title=f"title {number}", version=str(number))
        for number, one in enumerate(releases)
    ]
    trend = cf.trend(told)
    assert (trend.title, trend.version, trend.level) == ("title 2", "2", LEVEL)
    assert [one.name for one in trend.rounds] == ["round 1", "round 2", "round 3"]
    assert [(one.batch, one.reports, one.plan_id, one.guarantee) for one in trend.rounds] == [
        (one.batch, one.reports, one.plan_id, one.guarantee) for one in told
    ]


def test_rows_are_what_all_rounds_protect_if_one_does(releases: list[cf.Release]) -> None:
    first, second, third = releases
    assert cf.trend(releases).protects == "report"
    assert cf.trend([first, replace(second, unit="row"), third]).protects == "row"


def test_a_release_that_adds_to_earlier_ones_counts_with_them(
    plan: cf.Plan, releases: list[cf.Release]
) -> None:
    """What it promises with the earlier ones is added, also where plans would prove less."""
    exact = replace(plan.guarantee, local_epsilon=3.0, method="exact")
    first, second, third = (replace(one, guarantee=exact) for one in releases)
    more = replace(plan.guarantee, epsilon=5.0, delta=2e-4, local_epsilon=7.0)
    added = [first, replace(second, together=Together(2, more)), third]
    for found in (cf.trend(added, plans=[plan]), cf.trend([replace(o, rounds=3) for o in added])):
        promise = found.guarantee
        assert (promise.epsilon, promise.delta) == pytest.approx((9, 4e-4))
        assert promise.local_epsilon == pytest.approx(2 * 3 + 7)
        assert promise.method == "upper-bound"
    certain = replace(plan.guarantee, delta=0.6, crowd="another crowd")
    both = cf.trend([replace(one, guarantee=certain) for one in (first, second)]).guarantee
    assert (both.delta, both.crowd) == (1.0, "another crowd")
    mixed = cf.trend([first, replace(second, guarantee=certain)]).guarantee
    assert mixed.crowd == f"{plan.guarantee.crowd} and another crowd"


def test_nothing_is_composed_without_all_plans(plan: cf.Plan, releases: list[cf.Release]) -> None:
    other = replace(plan, rounds=2)
    first, second, third = releases
    mixed = [first, replace(second, plan_id=other.id, rounds=2), third]
    for plans in ([], [plan], [other]):
        assert cf.trend(mixed, plans=plans).guarantee.epsilon == pytest.approx(6)


@pytest.mark.long
def test_releases_of_several_plans_promise_what_these_compose_to(
    plan: cf.Plan, releases: list[cf.Release]
) -> None:
    other = replace(plan, rounds=2)
    first, second, third = releases
    mixed = [first, replace(second, plan_id=other.id, rounds=2), third]
    both = cf.trend(mixed, plans=[plan, other]).guarantee
    assert plan.epsilon < both.epsilon < 6


def test_of_public_groups_the_one_with_the_most_releases_counts(
    plan: cf.Plan, releases: list[cf.Release]
) -> None:
    """But devices may have answered in several groups, so that theirs add up."""
    shops = replace(plan, group=PublicGroup("shop", cf.Choice(["a", "b", "c"])))
    own = {shop: shops.of_group(shop) for shop in shops.groups}

    def promised(groups: str, unit: Unit) -> Guarantee:
        found = [
            replace(one, plan_id=own[shop].id, unit=unit)
            for one, shop in zip(releases, groups, strict=True)
        ]
        return cf.trend(found, plans=own.values()).guarantee

    def composed(times: int) -> tuple[float, float]:
        delta = times * plan.delta
        return total([Charge.of(plan)] * times).epsilon(delta).upper, delta

    assert promised("abc", "row") == plan.guarantee
    several: list[tuple[str, Unit, int]]
    several = [("aba", "row", 2), ("aaa", "row", 3), ("abc", "report", 3)]
    for groups, unit, times in several:
        found = promised(groups, unit)
        epsilon, delta = composed(times)
        assert found.epsilon == max(epsilon, plan.epsilon)
        assert found.delta == pytest.approx(delta)


def test_a_repeated_round_leaves_the_other_rounds_of_its_plan_to_come(
    plan: cf.Plan, releases: list[cf.Release]
) -> None:
    """Files of before do not say which round they are; all rounds of a plan have one mechanism."""
    two = replace(plan, rounds=2, epsilon=3.9, shares=())

    def promised(*rounds: int | None, plans: Sequence[cf.Plan] = (two,)) -> tuple[float, float]:
        found = [
            replace(one, plan_id=two.id, rounds=2, guarantee=two.guarantee, round=number)
            for one, number in zip(releases, rounds, strict=False)
        ]
        guarantee = cf.trend(found, plans=plans).guarantee
        return guarantee.epsilon, guarantee.delta

    once = (two.epsilon, two.delta)
    different: list[tuple[int | None, ...]]
    different = [(1, 2), (2, 1), (None, None), (None, 1), (2, None)]
    for rounds in different:
        assert promised(*rounds) == promised(*rounds, plans=()) == once

    def composed(times: int) -> tuple[float, float]:
        return total([Charge.of(two)] * times).epsilon(2e-4).upper, 2e-4

    repeated: list[tuple[int | None, ...]]
    repeated = [(1, 1), (2, 2), (1, 1, 2), (2, 1, 2), (None, 2, 1), (None, None, None)]
    for rounds in repeated:
        assert promised(*rounds) == composed(3)
        assert promised(*rounds, plans=()) > promised(*rounds)
    assert promised(1, 1, 1) == composed(4)
    assert promised(2, None, 2) == composed(3)
    # Each group has rounds of its own.
    shops = replace(two, group=PublicGroup("shop", cf.Choice(["a", "b"])))
    own = {shop: shops.of_group(shop) for shop in shops.groups}
    for told, times in (("a1 b1 b2", 2), ("a1 b1 a1", 3), ("a1 b2 b2", 3)):
        found = [
            replace(one, plan_id=own[name[0]].id, rounds=2, unit="row", round=int(name[1]))
            for one, name in zip(releases, told.split(), strict=True)
        ]
        promise = cf.trend(found, plans=own.values()).guarantee
        assert promise.epsilon == (plan.epsilon if times == 2 else composed(times)[0])


def test_two_rounds_are_compared_once() -> None:
    assert _compared_rounds(2) == [(0, 1)]
    assert _compared_rounds(4) == [(0, 1), (1, 2), (2, 3), (0, 3)]


def test_fewer_misses_are_further_away() -> None:
    ones = np.ones((2, 1))
    measures = _Measures(0 * ones, ones, (-2 * ones, 2 * ones), (-2 * ones, 2 * ones), LEVEL)
    assert (measures.widened(2 * ones, 1) == 2).all()
    # P(|X| > x) = exp(-x) is the longest tail that a log-concave law has.
    longer = math.log(0.005) / math.log(0.05)
    assert measures.widened(2 * ones, 10) == pytest.approx(2 * longer * ones)
    stepped = replace(measures, person=0.5 * ones)
    assert stepped.widened(2 * ones, 10) == pytest.approx(2.5 * longer * ones)
    assert (measures.reach() == 2).all()
    cut = replace(measures, each=(0 * ones, 0.5 * ones))
    assert cut.reach() == pytest.approx(1.959964 * ones)


def test_what_all_rounds_promise(plan: cf.Plan, releases: list[cf.Release]) -> None:
    added = cf.trend(releases).guarantee
    assert (added.epsilon, added.delta) == pytest.approx((6, 3e-4))
    composed = cf.trend(releases, plans=[plan]).guarantee
    assert composed.delta == pytest.approx(3e-4)
    assert composed.epsilon == total([Charge.of(plan)] * 3).epsilon(composed.delta).upper < 6
    # Nothing is composed to less than what one release promises by itself.
    first, *others = releases
    careful = replace(first, guarantee=replace(first.guarantee, epsilon=50.0))
    assert cf.trend([careful, *others], plans=[plan]).guarantee.epsilon == 50
    of_three = [replace(one, rounds=3) for one in releases]
    assert cf.trend(of_three, plans=[plan]).guarantee == plan.guarantee
    of_two = [replace(one, rounds=2) for one in releases]
    assert cf.trend(of_two).guarantee.epsilon == 6
    said = str(cf.trend(releases, plans=[plan]))
    assert "one person who took part in all 3 rounds" in " ".join(said.split())
    assert "that round alone: at worst (2, 0.0001)" in " ".join(said.split())


def test_no_sum_of_promises_is_below_what_is_written(releases: list[cf.Release]) -> None:
    """The nearest float to the sum of these is written as 2.7279999999999998, not 2.728."""
    told = [
        replace(one, guarantee=replace(one.guarantee, epsilon=epsilon, local_epsilon=math.inf))
        for one, epsilon in zip(releases, EPSILONS, strict=True)
    ]
    added = cf.trend(told).guarantee
    assert Decimal(repr(added.epsilon)) >= sum(Decimal(repr(one)) for one in EPSILONS)
    assert added.local_epsilon == math.inf


def test_files(releases: list[cf.Release], tmp_path: Path) -> None:
    trend = cf.trend(releases, names=["May", "June", "July <b>"])
    for suffix in ("json", "csv", "parquet", "html"):
        trend.save(tmp_path / f"trend.{suffix}")
    document = json.loads((tmp_path / "trend.json").read_text())
    assert document == trend.document()
    assert document["format"] == "chaffinch/trend@1"
    assert [one["reports"] for one in document["rounds"]] == [315, 310, 320]
    rows = pq.read_table(tmp_path / "trend.parquet").to_pylist()
    assert [tuple(row.values()) for row in rows] == [tuple(row) for row in trend.table()]
    assert len((tmp_path / "trend.csv").read_text().splitlines()) == 1 + len(trend.table())
    page = (tmp_path / "trend.html").read_text()
    assert page.count("<svg") == 4
    assert "July <b>" not in page


def test_only_what_is_asked_alike_is_compared(releases: list[cf.Release]) -> None:
    first, second, _ = releases
    turned = replace(second, answers=second.answers[::-1])
    assert [one.question for one in cf.trend([first, turned]).answers] == ["drink", "cups"]
    fewer = replace(second, answers=second.answers[:1])
    trend = cf.trend([first, fewer])
    assert [answer.question for answer in trend.answers] == ["drink"]
    assert trend.left_out == ("cups",)
    assert "left out: cups" in str(trend)
    other = replace(first, answers=second.answers[1:])
    with pytest.raises(InvalidInput, match="same questions"):
        cf.trend([fewer, other])
    relabelled = replace(second.answers[0], labels=("tea", "coffee", "wine"))
    with pytest.raises(InvalidInput, match="same questions"):
        cf.trend([fewer, replace(first, answers=(relabelled,))])
    cups = second.answers[1]
    assert cups.summary is not None
    litres = replace(cups, summary=replace(cups.summary, unit="litres"))
    trend = cf.trend([first, replace(second, answers=(second.answers[0], litres))])
    assert trend.left_out == ("cups",)


def test_what_is_no_trend_is_refused(plan: cf.Plan, releases: list[cf.Release]) -> None:
    first, second, _ = releases
    for wrong, said in (
        ([first], "number of releases"),
        ([first] * 1001, "number of releases"),
        ([first, first], "batches"),
        ([first, replace(second, level=0.9)], "level"),
        ([first, "second"], "those of a survey"),
        ([first, replace(second, guarantee=replace(plan.guarantee, neighbours="x"))], "neighbours"),
    ):
        with pytest.raises(InvalidInput, match=said):
            cf.trend(wrong)  # type: ignore[arg-type]
    for names in (["May"], ["May", "May"], ["May", "June", "July"]):
        with pytest.raises(InvalidInput, match="names of the rounds"):
            cf.trend([first, second], names=names)
    table = {"drink": ["tea"] * 300, "cups": [1] * 300}
    for adjustment in ("non-negative", "total"):
        batch = cf.shuffle(cf.encode_many(table, plan))
        adjusted = cf.analyze(batch, plan, adjustment=adjustment)
        with pytest.raises(InvalidInput, match="unbiased"):
            cf.trend([first, adjusted])


NOISES: dict[str, TallyNoise] = {
    **{
        f"signed, {ratio}, gain {gain}, {people} of 1000": SignedNoise(((1, ratio),), people, gain)
        for ratio in (Fraction(1, 10), Fraction(1, 2), Fraction(2, 3), Fraction(9, 10))
        for gain in (1, 2)
        for people in (1000, 400)
    },
    **{f"flips, {flip}": Noise.flips(flip) for flip in (Fraction(1, 20), Fraction(3, 10))},
    "decoys": Noise(1, Fraction(1), Fraction(0), cover_slots=1, cover=Fraction(1, 50)),
}


@pytest.mark.parametrize("rounds", [2, 4, 12, 52])
@pytest.mark.parametrize("name", NOISES)
def test_a_widened_whisker_reaches_as_far_as_the_exact_one(name: str, rounds: int) -> None:
    noise, people = NOISES[name], 1000
    tally = np.array([round(float(noise.slope * 500 + Fraction(noise.base(people))))])  # type: ignore[arg-type]
    ends = [two_sided(noise, tally, people, chance) for chance in (0.05, 0.05 / rounds)]
    (low, high), (exact_low, exact_high) = [(int(low[0]), int(high[0])) for low, high in ends]
    estimate = float(noise.estimate(tally, reports=people)[0])
    one = np.array([[0.0]])
    measures = _Measures(one, one, (one, one), (one, one), LEVEL, person=1.0)
    whiskers = np.array([estimate - low, high - estimate])
    below, above = measures.widened(whiskers, rounds).tolist()
    # A count is whole: an interval to x holds the same ones as one to the whole number below it.
    assert math.floor(estimate + above + 1e-9) >= exact_high
    assert math.ceil(estimate - below - 1e-9) <= exact_low


@pytest.mark.parametrize("level", [0.5, 0.8, 0.9, 0.95, 0.99, 0.999])
@pytest.mark.parametrize("ratio", [0.02, 0.165, 0.288, 0.431, 0.658, 0.829, 0.95])
def test_the_interval_of_a_change_misses_no_more_than_it_says(ratio: float, level: float) -> None:
    """By enumeration: both rounds have noise of P(d) = (1 - a) / (1 + a) * a^|d|."""
    most = math.ceil(60 / -math.log(ratio))
    places = np.arange(-most, most + 1)
    law = (1 - ratio) / (1 + ratio) * ratio ** np.abs(places)
    people, half = 1000, (1 - level) / 2
    noise = SignedNoise(((1, Fraction(ratio)),), people, 1)
    tally = np.array([round(float(noise.slope * 500 + Fraction(noise.base(people))))])
    low, high = (one.astype(np.float64) for one in two_sided(noise, tally, people, 1 - level))
    estimate = noise.estimate(tally, reports=people)
    # The ends are those of the law: beyond them it has no more than it may miss.
    far = int(high[0] - estimate[0])
    assert law[places > far].sum() <= half < law[places >= far].sum()
    error = np.array([math.sqrt(2 * ratio) / (1 - ratio)])
    measures = _Measures(estimate, error, (low, high), (low, high), level, person=1.0)
    reach = float(_differences(measures.reach(), measures.reach())[0])
    both, distances = np.convolve(law, law), np.arange(-2 * most, 2 * most + 1)
    assert both[np.abs(distances) <= reach].sum() >= level
    if (ratio, level) == (0.165, 0.95):  # where the last count that is not excluded is too near
        shorter = reach - math.sqrt(2)
        assert both[np.abs(distances) <= shorter].sum() == pytest.approx(0.891, abs=5e-4)
