"""Plans in which each person sends several reports into one batch."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

import chaffinch as cf
from chaffinch import privacy
from chaffinch.errors import GuaranteeNotProven, InvalidInput
from chaffinch.plans.plan import Plan
from chaffinch.privacy.mechanism_documents import mechanism_document, mechanism_from

USERS, EACH = 2_000, 3
TARGET = cf.Target(1.0, 1e-6)


@pytest.fixture(scope="module")
def plan() -> Plan:
    return cf.plan(
        cf.Bit(missing="no"), users=USERS, target=TARGET, contributions=EACH, max_messages=1
    )


def test_the_promise_is_about_all_reports_of_a_person(plan: Plan) -> None:
    assert plan.reports == USERS * EACH
    whole = plan.mechanism()
    assert isinstance(whole, privacy.Grouped)
    assert whole.delta(TARGET.epsilon).upper <= TARGET.delta
    assert plan.guarantee.crowd.startswith("2000 honest users with 3 reports each")
    assert plan.guarantee.method == "upper-bound"
    assert "in all of their 3 reports" in plan.explain()
    # One report alone is protected better than that: its noise is made for three.
    (part,) = plan.parts
    assert part.mechanism(plan.honest_reports).epsilon(TARGET.delta).upper < 0.5 * TARGET.epsilon


@pytest.mark.long
def test_more_reports_of_each_person_cost_accuracy(plan: Plan) -> None:
    one = cf.plan(cf.Bit(missing="no"), users=USERS * EACH, target=TARGET, max_messages=1)
    assert one.reports == plan.reports
    ratio = plan.parts[0].standard_error(plan.reports) / one.parts[0].standard_error(one.reports)
    # Three times the shift; a little less here, where noise is few flips.
    assert 2.0 < ratio < 3.6, ratio


def test_a_plan_file_keeps_it(plan: Plan, tmp_path: Path) -> None:
    plan.save(tmp_path / "plan.json")
    document = json.loads((tmp_path / "plan.json").read_text())
    assert document["crowd"]["contributions"] == EACH
    loaded = cf.load_plan(tmp_path / "plan.json")
    assert loaded == plan
    loaded.verify(shares=True)


@pytest.mark.parametrize(("missing", "parts"), [("count", 3), (5, 2)])
def test_parts_that_follow_from_an_answer_need_no_rule_for_missing_ones(
    missing: float | str, parts: int, tmp_path: Path
) -> None:
    """The answer has one; nobody is asked whether there was one, or for its square."""
    asked = cf.Number(0, 60, missing=missing, spread=True)
    made = cf.plan(asked, users=300, target=TARGET, contributions=EACH, view="totals")
    assert len(made.parts) == parts
    made.save(tmp_path / "plan.json")
    loaded = cf.load_plan(tmp_path / "plan.json")
    loaded.verify()
    # Every part is charged for all reports of a person: without one of them less is promised.
    each = [part.mechanism(made.honest_reports) for part in made.parts]
    whole, fewer = (privacy.Grouped(privacy.compose(some), EACH) for some in (each, each[1:]))
    assert loaded.mechanism().delta(0.9) == whole.delta(0.9)
    assert fewer.delta(0.9).upper < whole.delta(0.9).upper
    with pytest.raises(InvalidInput, match="a refusal: answer'"):
        cf.plan(replace(asked, missing="refuse"), users=300, target=TARGET, contributions=EACH)


def test_a_plan_for_fewer_reports_of_each_is_not_enough(plan: Plan) -> None:
    more = replace(plan, contributions=EACH + 1, reports=plan.reports * 2, shares=())
    with pytest.raises(GuaranteeNotProven):
        more.verify()


def test_its_mechanism_is_charged_as_it_is(plan: Plan) -> None:
    mechanism = plan.round_mechanism()
    document = json.loads(json.dumps(mechanism_document(mechanism)))
    assert mechanism_from(document) == mechanism


def test_whoever_sends_several_reports_must_be_able_to_be_silent() -> None:
    with pytest.raises(InvalidInput, match="missing answers of every question"):
        cf.plan(cf.Bit(), users=USERS, target=TARGET, contributions=2, max_messages=1)


def test_no_certificate_is_promised(plan: Plan) -> None:
    with pytest.raises(InvalidInput, match="one report of each person"):
        plan.certificate()


def test_reports_of_a_table(plan: Plan) -> None:
    rows = {
        "who": [f"u{number % USERS}" for number in range(3 * USERS)],
        "answer": ["yes"] * (3 * USERS),
    }
    reports = cf.encode_many(rows, plan, person="who")
    assert reports.count == USERS * EACH
    release = cf.analyze(cf.shuffle(reports), plan)
    estimate = dict(zip(release.answer().labels, release.answer().estimates, strict=True))["yes"]
    assert abs(estimate - USERS * EACH) < 6 * plan.parts[0].standard_error(plan.reports)
    assert "(in reports; 6,000 reports)" in str(release)
    with pytest.raises(InvalidInput, match="column of people"):
        cf.encode_many(rows, plan, columns={"answer": "answer"})


def test_a_person_counts_once() -> None:
    """One person with 319 rows has one report like everybody else."""
    plan = cf.plan(cf.Choice(["a", "b"], missing="refuse"), users=300, target=cf.Target(2.0, 1e-6))
    who = ["many"] * 319 + [f"u{number}" for number in range(299)]
    rows = {"who": who, "answer": ["a"] * 319 + ["b"] * 299}
    reports = cf.encode_many(rows, plan, person="who")
    assert reports.count == len(Counter(who)) == 300
