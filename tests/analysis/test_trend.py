"""Changes between rounds: unbiased, with correct errors, and covered as often as is said."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from scipy import stats

import chaffinch as cf
from chaffinch.analysis.differences import EstimateError, error_of, half_widths
from chaffinch.analysis.number_estimates import Scale, mean_ends
from chaffinch.analysis.trend import _compared_rounds
from chaffinch.errors import InvalidFile, InvalidInput
from chaffinch.ledger.charge import Charge, total
from chaffinch.plans.parts import Part
from chaffinch.plans.protected_units import Unit
from chaffinch.privacy import Guarantee
from chaffinch.protocols import Flips, Signed
from chaffinch.protocols.base import number_question
from chaffinch.protocols.intervals import two_sided
from chaffinch.protocols.noise import Floats, SignedNoise, TallyNoise, Truth
from chaffinch.questions import PublicGroup
from chaffinch.release.surveys import Together
from chaffinch.release.trend_release import load_trend
from tests.tiers import nightly

ALARM = 1e-6
EPSILONS = (0.693, 0.656, 1.379)
RUNS = 5_000
LEVEL = 0.95


def errors_of(part: Part, noise: TallyNoise, people: int) -> EstimateError:
    """Return the error of a share, or of the mean of a number."""
    if part.question.shape != "number":
        return error_of(noise, people, 1.0 / people)
    question, steps = number_question(part.question), part.protocol.thermometer
    step = (question.high - question.low) / (steps.resolution * people)
    return error_of(steps.noise, steps.resolution * people, step, people * step**2)


def counted(part: Part, held: Sequence[int], runs: int) -> tuple[Floats, EstimateError]:
    """Return how far the shares of many collections are off, and their error."""
    people, places = sum(held), np.arange(len(part.labels))
    truth, draws = Truth(part.question.shape, people, np.array(held)), generator(held)
    codes = part.protocol.draw_tallies(part.question, truth, runs, draws, places)
    reading = part.protocol.read(part.question, codes, people)
    off = reading.noise.estimate(reading.tallies, people) - truth.held(len(places))
    return off / people, errors_of(part, reading.noise, people)


def averaged(part: Part, middle: float, runs: int) -> tuple[Floats, EstimateError]:
    """Return how far the means of many collections of numbers are off, and their error."""
    question, steps, people = number_question(part.question), part.protocol.thermometer, 1000
    scale = Scale(question.low, question.high, steps.resolution, steps.noise)
    shares, held = np.unique(np.linspace(0, 2 * middle, people), return_counts=True)
    truth, draws = Truth("number", people, held, shares), generator([int(1000 * middle)])
    codes = part.protocol.draw_tallies(part.question, truth, runs, draws, np.arange(1))
    tallies = part.protocol.read(part.question, codes, people).tallies.sum(axis=-1)
    trials = steps.resolution * people
    estimates = scale.place(scale.noise.estimate(tallies, trials) / trials)
    off = estimates - scale.place(truth.mean)
    return off[:, np.newaxis], errors_of(part, steps.noise, people)


def generator(seed: Sequence[int]) -> np.random.Generator:
    return np.random.default_rng(list(seed))


def check_changes(
    rounds: Sequence[tuple[Floats, EstimateError]], *, exact: bool, widest: float = 0.985
) -> None:
    """Check bias, errors and both kinds of intervals, with false alarms at ``ALARM`` in all."""
    runs, values = rounds[0][0].shape
    pairs = _compared_rounds(len(rounds))
    alarm = ALARM / (4 * values * len(pairs))
    far = -float(stats.norm.ppf(alarm / 2))
    missed_any = np.zeros(runs, dtype=bool)
    for (before, first), (after, last) in ((rounds[i], rounds[j]) for i, j in pairs):
        off = after - before
        variance = first.variance + last.variance
        assert (np.abs(off.mean(axis=0)) <= far * math.sqrt(variance / runs)).all()
        # The variance of a square is 2 and the excess of the law, which is at most 3.
        ratio, spread = (off**2).mean(axis=0) / variance, math.sqrt(5 / runs)
        assert (ratio <= 1 + far * spread).all()
        assert not exact or (ratio >= 1 - far * spread).all()
        up, down = half_widths(first, last, 1 - LEVEL)
        inside = ((off <= up) & (off >= -down)).sum(axis=0)
        assert (stats.binom.cdf(inside, runs, LEVEL) >= alarm).all(), inside / runs
        up, down = half_widths(first, last, (1 - LEVEL) / (values * len(pairs)))
        missed_any |= ((off > up) | (off < -down)).any(axis=1)
        if exact:  # and no much wider interval than that
            assert (stats.binom.sf(inside, runs, widest) >= alarm).all(), inside / runs
    assert stats.binom.sf(missed_any.sum() - 1, runs, 1 - LEVEL) >= alarm, missed_any.mean()


def part_of(question: cf.Bit | cf.Choice | cf.Number, users: int, **wishes: object) -> Part:
    plan = cf.plan(question, users=users, target=cf.Target(1, 1e-6), **wishes)  # type: ignore[arg-type]
    return plan.parts[0]


BIT = cf.Bit(missing="refuse")
DRINKS = cf.Choice(["tea", "coffee", "water"], missing="refuse")


@pytest.mark.parametrize(
    ("question", "wishes", "rounds"),
    [
        (DRINKS, {}, [(500, 480, 20), (400, 700, 0), (450, 540, 10)]),
        nightly(BIT, {}, [(1000, 0), (0, 1000), (500, 500)]),
        nightly(DRINKS, {}, [(990, 5, 5), (5, 990, 5), (0, 0, 1000), (400, 400, 200)]),
    ],
)
def test_changes_of_shares(
    question: cf.Bit | cf.Choice, wishes: dict[str, object], rounds: list[tuple[int, ...]]
) -> None:
    part = part_of(question, 1000, **wishes)
    assert isinstance(part.protocol, Signed)
    check_changes([counted(part, held, RUNS) for held in rounds], exact=True)


@pytest.mark.parametrize(
    ("question", "wishes", "rounds"),
    [
        (BIT, {"max_messages": 1}, [(300, 700), (250, 950), (310, 690)]),
        nightly(DRINKS, {"local_epsilon": 4.0}, [(500, 480, 20), (400, 700, 0)]),
    ],
)
def test_changes_of_flipped_shares(
    question: cf.Bit | cf.Choice, wishes: dict[str, object], rounds: list[tuple[int, ...]]
) -> None:
    """Their law depends on the answers, and the bound for all of them is a little wider."""
    part = part_of(question, 1000, **({"local_epsilon": 50.0} | wishes))
    assert isinstance(part.protocol, Flips)
    found = [counted(part, held, RUNS) for held in rounds]
    check_changes(found, exact=True, widest=0.996)


@pytest.mark.parametrize("wishes", [{"max_messages": 16}, nightly({"local_epsilon": math.inf})])
def test_changes_of_means(wishes: dict[str, object]) -> None:
    part = part_of(cf.Number(0, 10, missing="refuse"), 1000, **wishes)
    check_changes([averaged(part, one, 2000) for one in (0.2, 0.25, 0.4)], exact=False)


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


def test_cells_are_explained_and_nothing_else(releases: list[cf.Release]) -> None:
    trend = cf.trend(releases)
    assert "is a cell" not in str(trend)
    first, *others = trend.answers
    crossed = replace(first, labels=("a × 0", "b × 10"), estimates=(), changes=())
    words = str(replace(trend, answers=(crossed, *others)))
    assert "“a × 0” is a cell" in words


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


def test_what_holds_together_shares_the_chance_to_miss(
    plan: cf.Plan, releases: list[cf.Release]
) -> None:
    """Of three values in three rounds, and of two changes more than there are values."""
    drinks, cups = cf.trend(releases, plans=[plan]).answers
    miss = 1 - LEVEL
    noise = plan.part("drink").protocol.noise(DRINKS)
    assert isinstance(noise, SignedNoise)
    for value, label in enumerate(LABELS):
        rows = [row for row in drinks.estimates if row.value == label]
        for row, release in zip(rows, releases, strict=True):
            tallies = release.answer("drink").tallies
            low, high = two_sided(noise, tallies, release.reports, miss / 9)
            ends = (low[value] / release.reports, high[value] / release.reports)
            assert (row.low_together, row.high_together) == pytest.approx(ends)
    errors = [error_of(noise, one.reports, 1.0 / one.reports) for one in releases]
    for row in drinks.changes:
        first, last = (int(name[-1]) - 1 for name in (row.round, row.until))
        up, down = half_widths(errors[first], errors[last], miss)
        assert row.low == pytest.approx(max(row.estimate - up, -1.0))
        assert row.high == pytest.approx(min(row.estimate + down, 1.0))
        up, down = half_widths(errors[first], errors[last], miss / 9)
        assert row.low_together == pytest.approx(max(row.estimate - up, -1.0))
        assert row.high_together == pytest.approx(min(row.estimate + down, 1.0))
    question, steps = plan.part("cups").question, plan.part("cups").protocol.thermometer
    scale = Scale(0.0, 10.0, steps.resolution, steps.noise)
    assert question.shape == "number"
    for row, release in zip(cups.estimates, releases, strict=True):
        bits = release.answer("cups").tallies.sum(keepdims=True)
        means = mean_ends(scale, bits, release.reports, miss / 3)
        ends = float(means[0][0]), float(means[1][0])
        assert (row.low_together, row.high_together) == pytest.approx(ends)
    # A mean is in its own unit, and no share of anything: nothing is cut off at 1.
    assert all(row.high_together > 1 for row in cups.estimates)


def test_without_plans_intervals_are_wider_and_say_so(
    plan: cf.Plan, releases: list[cf.Release]
) -> None:
    known, unknown = cf.trend(releases, plans=[plan]), cf.trend(releases)
    warned = "The plan of some release was not given"
    assert warned not in " ".join(str(known).split())
    assert warned in " ".join(str(unknown).split())
    for one, other in zip(known.table(), unknown.table(), strict=True):
        assert (one.estimate, one.standard_error) == (other.estimate, other.standard_error)
        assert other.low_together <= one.low_together
        assert other.high_together >= one.high_together
        if one.until:
            assert other.low <= one.low < one.high <= other.high
    # One plan too few, and nothing more is claimed than without any.
    moved = [replace(releases[0], plan_id="f" * 64), *releases[1:]]
    assert not cf.trend(moved, plans=[plan]).laws_known


def test_no_interval_leaves_what_is_possible(releases: list[cf.Release]) -> None:
    first, second, _ = releases
    answer = first.answers[0]
    below = replace(answer, estimates=np.array([-3.0, 100.0, 330.0]))
    moved = replace(first, answers=(below, *first.answers[1:]))
    rows = {row.value: row for row in cf.trend([moved, second]).answers[0].estimates[::2]}
    assert rows["tea"].low_together == 0
    assert rows["water"].high_together == 1
    assert 0 < rows["coffee"].low_together < rows["coffee"].high_together < 1


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


@pytest.mark.long
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


def test_a_repeated_round_leaves_the_other_rounds_of_its_plan_to_come() -> None:
    """Files of before do not say which round they are; all rounds of a plan have one mechanism."""
    # One bit: what is composed here again and again takes longest for several questions.
    plan = cf.plan(cf.Bit(), users=300, target=cf.Target(2, 1e-4), max_messages=1)
    releases = [
        cf.analyze(cf.shuffle(cf.encode_many([True] * yes + [False] * 150, plan)), plan)
        for yes in (170, 180, 190)
    ]
    two = replace(plan, rounds=2, epsilon=2.7, shares=())

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

    @cache
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
    assert "one person who took part in all 3 releases" in " ".join(said.split())
    assert "the promise of that release: at worst (2, 0.0001)" in " ".join(said.split())


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
    assert page.count("<svg") == 4 + 1 + 3, "two pictures of each question, the dots, their legend"
    assert "July <b>" not in page


def test_a_file_comes_back_as_it_was(releases: list[cf.Release], tmp_path: Path) -> None:
    trend = cf.trend(releases, names=["May", "June", "July"])
    path = tmp_path / "trend.json"
    trend.save(path)
    again = load_trend(path)
    # Nobody knows from the file whether the plans were given.
    assert again == replace(trend, laws_known=None)
    assert any("does not say whether the plans" in note for note in again.statement().notes)
    assert again.chart("drink").svg() == trend.chart("drink").svg()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"name": "June"', '"name": "May"'),
        ('"until": "July"', '"until": "August"'),
        ('"level": 0.95', '"level": 1.5'),
        ('"protects"', '"protect"'),
        ('"round": "May"', '"round": "June"'),
    ],
)
def test_a_damaged_file_is_refused(
    releases: list[cf.Release], tmp_path: Path, old: str, new: str
) -> None:
    path = tmp_path / "trend.json"
    cf.trend(releases, names=["May", "June", "July"]).save(path)
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(InvalidFile):
        load_trend(path)
    with pytest.raises(InvalidFile, match="trend of several releases"):
        cf.load_release(path)


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


# ---------------------------------------------------------------------- means of groups


def test_means_of_groups_stand_beside_their_cells(tmp_path: Path) -> None:
    asked = cf.Survey(
        {"team": cf.Choice(["x", "y"], missing="refuse"), "n": cf.Number(0, 30, unit="h")},
        by={"n": "team"},
    )
    promise = cf.Target(4, 1e-4)
    plan = cf.plan(asked, users=400, target=promise, rounds=2, protocol="signed decoys")
    batches = []
    for number, hours in ((1, (6, 21)), (2, (9, 21))):
        table = {"team": ["x", "y"] * 200, "n": list(hours) * 200}
        batches.append(cf.shuffle(cf.encode_many(table, plan, round=number)))

    def told(level: float) -> list[list[tuple[float, float, float]]]:
        """Return estimate and interval of each mean, in each round: each misses by itself."""
        found = []
        for batch in batches:
            crossed = cf.analyze(batch, plan, level=level).answer("n by team").crossed
            assert crossed is not None
            found.append([(row.estimate, row.low, row.high) for row in crossed.of_kind("mean")])
        return found

    releases = [cf.analyze(batch, plan) for batch in batches]
    known = cf.trend(releases, plans=[plan])
    means, teams = known.answers
    assert (means.question, means.labels, means.unit) == (
        "mean of n by team",
        ("everybody", "x", "y"),
        "h",
    )
    assert (teams.question, teams.labels, teams.unit) == ("team", ("x", "y"), None)
    known.save(tmp_path / "trend.json")
    assert load_trend(tmp_path / "trend.json").answers == known.answers
    alone, rows = told(LEVEL), iter(means.estimates)
    # Three means in two rounds share the chance to miss; three changes of two means each do, too.
    shared, change = told(1 - (1 - LEVEL) / 6), told(1 - (1 - LEVEL) / 2)
    for group, changed in enumerate(means.changes):
        for turn in range(2):
            row = next(rows)
            assert (row.estimate, row.low, row.high) == alone[turn][group]
            assert (row.low_together, row.high_together) == pytest.approx(shared[turn][group][1:])
        first, last = alone[0][group], alone[1][group]
        assert changed.estimate == pytest.approx(last[0] - first[0])
        # While both intervals hold, so does this; each of them gets half of the chance to miss.
        for ends, found in (
            ((changed.low, changed.high), change),
            ((changed.low_together, changed.high_together), shared),
        ):
            (_, low, high), (_, after, below) = found[0][group], found[1][group]
            assert ends == pytest.approx((after - high, below - low))
    # What was put in: 3 hours more in one team, and none in the other one.
    for one, moved in zip(means.changes, (1.5, 3, 0), strict=True):
        assert one.low_together <= moved <= one.high_together
    # Without a plan the law is not known, and intervals are wider.
    unknown = cf.trend(releases).answers[0]
    for wide, narrow in zip(unknown.estimates, means.estimates, strict=True):
        assert wide.low_together < narrow.low_together
        assert narrow.high_together < wide.high_together
    assert "y: 2" in known.chart("mean of n by team").alternative
    assert "is a cell" not in known.page()
    with_cells = cf.trend(releases, plans=[plan], cells=True)
    assert [one.question for one in with_cells.answers] == [
        "mean of n by team",
        "team",
        "n by team",
    ]
    assert "is a cell" in with_cells.page()


def test_shares_of_groups_and_of_all_are_compared_and_cells_on_request(tmp_path: Path) -> None:
    asked = cf.Survey(
        {
            "town": cf.Choice(["x", "y"], missing="refuse"),
            "bike": cf.Bit(missing="count"),
            "car": cf.Bit(missing="refuse"),
        },
        cross=[["town", "bike"], ["town", "car"]],
    )
    plan = cf.plan(asked, users=4000, target=cf.Target(4, 1e-6), rounds=2, protocol="signed decoys")
    releases = []
    for number, (some, more) in ((1, ("no", "no")), (2, ("yes", "no"))):
        table = {
            "town": ["x", "y"] * 2000,
            "bike": [some, "", more, "yes"] * 1000,
            "car": ["yes", "no"] * 2000,
        }
        batch = cf.shuffle(cf.encode_many(table, plan, round=number))
        releases.append(cf.analyze(batch, plan))
    known = cf.trend(releases, plans=[plan])
    told = {answer.question: answer for answer in known.answers}
    # Of both crosses the towns are counted once.
    assert list(told) == ["bike by town", "town", "bike", "car by town", "car"]
    shares, of_all = told["bike by town"], told["bike"]
    assert (shares.of_answers, of_all.of_answers) == (True, False)
    assert shares.labels == ("x: yes", "x: (missing), of all", "y: yes", "y: (missing), of all")
    truths = {"x: yes": 0.5, "x: (missing), of all": 0, "y: yes": 0, "y: (missing), of all": 0}
    for changes, moved in ((shares, truths), (of_all, {"yes": 0.25, "no": -0.25, "(missing)": 0})):
        for row in changes.changes:
            # 12 standard errors: a fair run is further off with chance below 1e-6.
            assert abs(row.estimate - moved[row.value]) < 12 * row.standard_error
            assert row.low_together <= row.low <= row.high <= row.high_together
    # What one release says, as parts of all reports; each interval is that of the release.
    crossed = releases[0].answer("town × bike").crossed
    assert crossed is not None
    margins = [row for row in crossed.of_kind("margin") if row.question == "bike"]
    for margin, row in zip(margins, of_all.estimates[::2], strict=True):
        assert (row.estimate, row.low, row.high) == pytest.approx(
            tuple(one / 4000 for one in (margin.estimate, margin.low, margin.high))
        )
    said = " ".join(str(known).split())
    assert "bike by town (in percent of those who answered; reports" in said
    assert "bike (in percent of the reports; reports" in said
    assert "×" not in said
    assert "x × yes" in str(cf.trend(releases, plans=[plan], cells=True))
    # Without plans the same rows, with wider intervals.
    unknown = cf.trend(releases)
    for wide, narrow in zip(unknown.table(), known.table(), strict=True):
        assert wide[:6] == narrow[:6]
        assert wide.low_together <= narrow.low_together + 1e-9
    known.save(tmp_path / "trend.json")
    assert load_trend(tmp_path / "trend.json").answers == known.answers
