"""Plans of numbers whose standard deviation is asked for: the number and its squares."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import chaffinch as cf
from chaffinch.analysis.trend import RoundAnswer
from chaffinch.errors import InvalidFile
from chaffinch.plans import check_certificate as checker
from chaffinch.plans.expansion import Asked, answers_of_parts, expanded, squares_of
from chaffinch.plans.plan import Plan, plan_from

FLIPS = "number in 4 bits, total seen"
DELAY = cf.Number(-30, 120, unit="minutes", missing="count", spread=True)


@pytest.fixture(scope="module")
def plan() -> Plan:
    return cf.plan(DELAY, users=2_000, target=cf.Target(2.0, 1e-6), protocol=FLIPS)


def test_squares_are_asked_last_and_centred() -> None:
    asked = expanded([("a", DELAY), ("b", cf.Bit())])
    squares = cf.Number(0.0, 75.0**2, unit="minutes²")
    assert squares_of(DELAY) == squares
    assert asked[1:3] == (
        Asked("a (answered)", cf.Bit(), "a"),
        Asked("a (squares)", squares, "a"),
    )
    given = np.array([0.0, 0.25, np.nan, 1.0])
    told = answers_of_parts(asked, [given, np.zeros(4)])
    assert told[2].tolist() == [1.0, 0.25, 0.0, 1.0]
    assert [float(one) for one in answers_of_parts(asked, [0.75, 1])] == [0.75, 1.0, 0.25, 1.0]


def test_the_squares_are_paid_for_and_kept_in_the_file(plan: Plan) -> None:
    assert list(plan.questions) == ["answer"]
    alone = replace(plan, parts=plan.parts[:2])
    epsilon = 0.9 * plan.epsilon
    assert alone.mechanism().delta_bound(epsilon) < plan.mechanism().delta_bound(epsilon)
    document = plan.document()
    assert document["questions"][0]["question"]["spread"] is True
    assert plan_from(json.dumps(document)) == plan
    plan.verify()


def test_files_of_other_numbers_are_as_before() -> None:
    number = cf.Number(0, 1)
    plain = cf.plan(number, users=2_000, target=cf.Target(2.0, 1e-6), protocol="local")
    assert "spread" not in plain.document()["questions"][0]["question"]
    old = "Number(low=0.0, high=1.0, unit='', missing='refuse', clip=False, quantiles=False)"
    assert repr(number) == old  # of which digests of surveys are made
    assert eval(repr(DELAY), {"Number": cf.Number}) == DELAY  # noqa: S307 - our own text


def without_squares(document: dict[str, Any]) -> None:
    del document["questions"][2]


def of_another(document: dict[str, Any]) -> None:
    document["questions"][2]["answers_to"] = "somebody"


def asked_by_itself(document: dict[str, Any]) -> None:
    del document["questions"][2]["answers_to"]


def of_other_size(document: dict[str, Any]) -> None:
    document["questions"][2]["question"]["high"] = "5626"


def in_front(document: dict[str, Any]) -> None:
    document["questions"][1:] = document["questions"][:0:-1]


def not_asked_for(document: dict[str, Any]) -> None:
    del document["questions"][0]["question"]["spread"]


CHANGES = [without_squares, of_another, asked_by_itself, of_other_size, in_front, not_asked_for]


@pytest.mark.parametrize("change", CHANGES)
def test_a_file_without_its_squares_is_refused(plan: Plan, change: Any) -> None:
    document = plan.document()
    change(document)
    with pytest.raises(InvalidFile):
        plan_from(json.dumps(document))


def test_the_stranger_who_checks_certificates_knows_them(plan: Plan) -> None:
    checker.check_answered(plan.document()["questions"])
    for one in plan.document()["questions"]:
        checker.part_of(one)
    for change in (without_squares, of_another, asked_by_itself, in_front, not_asked_for):
        document = plan.document()
        change(document)
        with pytest.raises(checker.Refused):
            checker.check_answered(document["questions"])


def test_it_can_be_certified() -> None:
    made = cf.plan(
        DELAY, users=2_000, target=cf.Target(2.0, 1e-6), protocol="number in 1 bits, total seen"
    )
    assert made.certificate().document()["plan"] == made.id  # which the checker has proven


def test_collections_are_shown_and_simulated_with_squares(plan: Plan) -> None:
    people = cf.simulate.uniform(plan, 2_000, seed=1)
    answered, squares = people.truths[1].counts[1] / 2_000, people.truths[2]
    # A gap is at the middle of the range, where the square is 0.
    assert squares.mean == pytest.approx(answered / 3, abs=0.02)
    result = cf.simulate.simulate(plan, people, 200, seed=2)
    assert result.ok, result.verdict
    row = next(one for one in result.values if one.value == "standard deviation")
    assert row.error_observed == pytest.approx(row.error_predicted, rel=0.35)
    seen = cf.simulate.collect(plan, people, seed=3)
    assert "standard deviation" in [row.kind for row in seen.release.table()]
    assert list(seen.devices[0].answers) == ["answer"]


def test_a_run_of_a_table_tells_it() -> None:
    numbers = np.random.default_rng(2).gamma(2.0, 8.0, 3_000).clip(0, 60)
    survey = cf.Survey({"delay": cf.Number(0, 60, unit="minutes", spread=True)})
    plan = cf.plan(survey, users=3_000, target=cf.Target(1.0, 1e-6), view="totals")
    release = cf.run(plan, {"delay": numbers}, rows_are_people=True)
    row = release.table()[1]
    assert row.low < numbers.std() < row.high
    assert row.standard_error == pytest.approx(0.07, rel=0.5)
    assert row.high - row.low < 0.6
    assert ", the standard deviation 1" in " ".join(str(release).split())
    assert "the standard deviation" in release.page()


def test_trends_follow_the_mean_as_without_squares(plan: Plan) -> None:
    people = cf.simulate.uniform(plan, 2_000, seed=1)
    release = cf.simulate.collect(plan, people, seed=3).release
    answer = release.answer()
    low, high = RoundAnswer.of(release, "answer", plan).ends(1.0 - release.level)
    assert (low[0], high[0]) == pytest.approx((answer.low[0], answer.high[0]), rel=1e-9)
