"""Plans of numbers whose missing answers are counted: two parts, one question."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import chaffinch as cf
from chaffinch.analysis.analyze import _NO_MEAN, _NO_SHARES
from chaffinch.errors import InvalidFile, InvalidInput
from chaffinch.plans.expansion import Asked, answers_of_parts, expanded
from chaffinch.plans.parts import Part
from chaffinch.plans.plan import Plan, plan_from
from chaffinch.protocols import Encoded, Flips
from chaffinch.questions import Question
from chaffinch.release.surveys import read_release
from tests.engines.plans import LEAST

DELAY = cf.Number(-30, 120, unit="minutes", missing="count")


@pytest.fixture(scope="module")
def plan() -> Plan:
    return cf.plan(DELAY, users=2_000, target=cf.Target(2.0, 1e-6), max_messages=8)


def test_only_counted_numbers_need_a_part_beside_them() -> None:
    asked: list[tuple[str, Question]] = [
        ("a", cf.Number(0, 1)),
        ("b", DELAY),
        ("c", cf.Choice(["x", "y"], missing="count")),
        ("d", cf.Flags(["x"], missing="count")),
    ]
    assert expanded(asked) == (
        Asked("a", asked[0][1]),
        Asked("b", DELAY),
        Asked("b (answered)", cf.Bit(), "b"),
        Asked("c", asked[2][1]),
        Asked("d", asked[3][1]),
    )


def test_every_part_is_told_its_own_answer() -> None:
    asked: list[tuple[str, Question]] = [
        ("a", cf.Bit()),
        ("b", DELAY),
        ("c", DELAY),
        ("d", cf.Bit()),
    ]
    silent, told = np.array([math.nan, 0.25]), np.array([0.75, math.nan])
    found = answers_of_parts(expanded(asked), [np.array([0, 1]), silent, told, np.array([1, 1])])
    assert [one.tolist() for one in found] == [
        [0, 1],
        [0.5, 0.25],
        [0, 1],
        [0.75, 0.5],
        [1, 0],
        [1, 1],
    ]


def test_the_count_of_answers_is_paid_for(plan: Plan) -> None:
    number, answered = plan.parts
    assert plan.questions == {"answer": DELAY}
    assert plan.part() is number
    assert answered.answers_to == "answer"
    alone = replace(plan, parts=(number,))
    epsilon = 0.9 * plan.epsilon
    assert alone.mechanism().delta_bound(epsilon) < plan.mechanism().delta_bound(epsilon)
    plan.verify()
    assert "one person's answer if each sends one report:" in plan.explain()


def test_whether_somebody_answered_is_not_sent_in_clear(plan: Plan) -> None:
    """It would leave nothing if shuffler and analyzer collude, where the number leaves much."""
    assert math.isfinite(plan.guarantee.local_epsilon)
    assert not any(part.protocol.clear for part in plan.parts)


def test_it_is_kept_in_the_plan_file(plan: Plan) -> None:
    document = plan.document()
    assert [one.get("answers_to") for one in document["questions"]] == [None, "answer"]
    assert document["questions"][0]["question"]["missing"] == "count"
    assert plan_from(json.dumps(document)) == plan


def without_count(document: dict[str, Any]) -> None:
    del document["questions"][1]


def of_another(document: dict[str, Any]) -> None:
    document["questions"][1]["answers_to"] = "somebody"


def plain_bit(document: dict[str, Any]) -> None:
    del document["questions"][1]["answers_to"]


def in_front(document: dict[str, Any]) -> None:
    document["questions"].reverse()


@pytest.mark.parametrize("change", [without_count, of_another, plain_bit, in_front])
def test_a_file_without_its_count_is_refused(plan: Plan, change: Any) -> None:
    document = plan.document()
    change(document)
    with pytest.raises(InvalidFile):
        plan_from(json.dumps(document))


def made(question: cf.Number = DELAY, **other: Any) -> Plan:
    number = Encoded(LEAST, other.pop("bits", 1), together=other.pop("together", True))
    parts = (
        Part("delay", question, number),
        Part("delay (answered)", cf.Bit(), Flips(LEAST), "delay"),
    )
    return Plan("", parts, 4, 4, 4, 1, 100.0, 1.0, **other)


def test_only_a_counted_number_has_answers_counted() -> None:
    with pytest.raises(InvalidInput, match="whose missing answers are counted"):
        made(cf.Number(0, 1))


def released(answers: list[Any], plan: Plan) -> cf.Release:
    release = cf.analyze(cf.shuffle(cf.encode_many(answers, plan)), plan)
    assert read_release(json.dumps(release.document())) == release
    return release


def test_the_mean_is_that_of_the_people_who_answered() -> None:
    """Without noise, and with bounds as answers, everything is exact."""
    release = released([120, "NA", None, -30, 120], made(bits=2))
    rows = {row.value: row for row in release.table()}
    assert list(rows) == ["mean", "answered", "sum"]
    assert rows["mean"].estimate == pytest.approx(70)
    assert rows["sum"].estimate == pytest.approx(210)
    assert rows["answered"].estimate == pytest.approx(3.0)
    assert (rows["answered"].low, rows["answered"].high) == (3.0, 3.0)
    for name, truth in (("mean", 70), ("sum", 210)):
        assert rows[name].low <= truth <= rows[name].high
    shown = str(release)
    assert "answered (people)" in shown
    assert "Missing answers are counted" in shown
    assert "answered (people)" in release.page()


def test_quantiles_are_those_of_the_people_who_answered() -> None:
    plan = made(replace(DELAY, quantiles=True), bits=5, together=False)
    answers = [-30, 0, 0, 120, 120, *([None] * 20)]
    release = released(answers, plan)
    (low, guess, high) = next(
        (row.low, row.estimate, row.high) for row in release.table() if row.value == "median"
    )
    assert low <= 0 <= high
    assert -30 <= low <= guess <= high <= 30


def test_where_nobody_answered_no_mean_is_told() -> None:
    release = released([None] * 5, made(bits=2))
    rows = {row.value: row for row in release.table()}
    assert (rows["mean"].low, rows["mean"].high) == (-30, 120)
    assert rows["answered"].estimate == pytest.approx(0.0)
    assert rows["sum"].estimate == pytest.approx(0.0, abs=1e-6)
    assert _NO_MEAN in release.answer().notes
    assert _NO_MEAN not in released([3, None, None, 3], made()).answer().notes


@pytest.mark.parametrize(
    ("question", "answers", "shares"),
    [
        (cf.Bit("count"), [True, False, None, True, "NA"], [1 / 3, 2 / 3, 0.4]),
        (cf.Choice(["a", "b"], missing="count"), ["a", None, "a", "b"], [2 / 3, 1 / 3, 0.25]),
        (
            cf.Flags(["a", "b"], missing="count"),
            [["a"], None, [], ["a", "b"]],
            [2 / 3, 1 / 3, 0.25],
        ),
    ],
    ids=lambda one: getattr(one, "kind", ""),
)
def test_shares_are_those_of_the_people_who_answered(
    question: cf.Bit | cf.Choice | cf.Flags, answers: list[Any], shares: list[float]
) -> None:
    slots = None if isinstance(question, cf.Flags) else 3
    plan = Plan("", (Part("q", question, Flips(LEAST, 1, slots)),), 4, 4, 4, 1, 100.0, 1.0)
    release = released(answers, plan)
    found = release.answer().shares
    assert [one.value for one in found] == list(question.labels)
    assert [one.estimate for one in found] == pytest.approx(shares)
    for one, truth in zip(found, shares, strict=True):
        assert one.low_together <= one.low <= truth + 1e-9
        assert truth - 1e-9 <= one.high <= one.high_together
    names = [row.value for row in release.table()][len(found) :]
    assert names == [
        *(f"{label}, share of answers" for label in question.labels[:-1]),
        "(missing), share of all",
    ]
    assert "shares of those who answered" in str(release)
    assert _NO_SHARES not in release.answer().notes
    assert _NO_SHARES in released([None] * 4, plan).answer().notes


def test_questions_without_counted_gaps_have_no_shares() -> None:
    plan = Plan("", (Part("q", cf.Bit(), Flips(LEAST)),), 4, 4, 4, 1, 100.0, 1.0)
    release = released([True, False, True, False], plan)
    assert release.answer().shares == ()
    assert "shares" not in release.document()["questions"][0]


def test_a_simulation_takes_both_parts(plan: Plan) -> None:
    answers: list[Any] = [*np.linspace(-30, 120, 1_500), *([None] * 500)]
    people = cf.simulate.from_column(plan, answers)
    assert people.truths[1].counts.tolist() == [500, 1_500]
    assert people.truths[0].mean == pytest.approx(0.5)
    found = cf.simulate.simulate(plan, people, 500, seed=3)
    assert found.faults == ()
    assert [(row.question, row.value) for row in found.rows()] == [
        ("answer", "mean, gaps in the middle"),
        ("answer (answered)", "yes"),
    ]
