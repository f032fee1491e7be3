"""One answer on one device: which plans are refused, which answers, and what a report says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from chaffinch.encoding.device import encode
from chaffinch.errors import BudgetExhausted, GuaranteeNotProven, InvalidAnswer, InvalidInput
from chaffinch.ledger import Ledger
from chaffinch.plans.plan import Plan
from chaffinch.privacy import Target
from chaffinch.protocols import Encoded, Flips
from chaffinch.questions import Bit, Choice, Flags, Number
from chaffinch.wire.messages import EMPTY
from tests.engines import plans
from tests.ledger import made

LEAST = Flips(plans.LEAST)
TEA = ("tea", Bit(), LEAST)
LOOKS = ("looks", Flags(["dark", "large"]), LEAST)
DRINK = ("drink", Choice(["milk", "water"], missing="count"), Flips(plans.LEAST, 1, 2))
AGE = ("age", Number(0, 100), Encoded(plans.LEAST, 2, together=False))


def sent(answer: object, *parts: object) -> list[int]:
    """Return the codes of a report under a plan that flips nothing."""
    plan = plans.plan_of(*parts, users=3)  # type: ignore[arg-type]
    return [code for code in encode(answer, plan).codes if code != EMPTY]


def test_a_report_knows_its_plan_and_fills_its_slots() -> None:
    plan = plans.plan_of(TEA, DRINK, users=3)
    report = encode({"tea": True, "drink": "water"}, plan)
    origin = report.origin
    assert (origin.plan_id, origin.codes, origin.least_reports, origin.slots) == (
        plan.id,
        plan.codes,
        plan.reports,
        plan.slots,
    )
    assert report.codes == (0, 2, EMPTY)


def test_every_kind_of_answer_is_sent_as_it_is() -> None:
    assert sent("yes", TEA) == [0]
    assert sent("water", DRINK) == [1]
    assert sent(["large"], LOOKS) == [1]
    assert sent(50, AGE) == [0]
    together = {"tea": False, "drink": "milk", "looks": ["dark"], "age": 100}
    assert sent(together, TEA, DRINK, LOOKS, AGE) == [1, 4, 6, 7]


def test_a_counted_gap_is_the_middle_and_a_no_beside_it() -> None:
    age = ("age", Number(0, 100, missing="count"), Encoded(plans.LEAST, 2, together=False))
    answered = ("age (answered)", Bit(), LEAST, "age")
    for gap in (None, "n/a", float("nan")):
        assert sent(gap, age, answered) == [0]
        assert sent({"age": gap, "tea": True}, TEA, age, answered) == [0, 1]
    assert sent(0, age, answered) == [2]
    assert sent(50, age, answered) == [0, 2]
    assert sent(100, age, answered) == [0, 1, 2]


def test_a_counted_gap_of_flags_is_a_flag() -> None:
    looks = ("looks", Flags(["dark", "large"], missing="count"), LEAST)
    assert [sent(one, looks) for one in (None, [], ["large"])] == [[2], [], [1]]


@pytest.mark.parametrize("question", [TEA, LOOKS, AGE])
def test_a_gap_is_refused_unless_it_counts(question: object) -> None:
    with pytest.raises(InvalidAnswer, match="given, not missing"):
        sent(None, question)


def test_a_plan_that_promises_too_much_makes_no_report() -> None:
    boast = plans.plan_of(TEA, users=3, epsilon=0.1, delta=1e-9)
    with pytest.raises(GuaranteeNotProven):
        encode("yes", boast)


def test_a_device_may_ask_for_more_than_the_plan_promises() -> None:
    plan = plans.plan_of(TEA, users=3)
    assert encode("yes", plan, within=Target(plan.epsilon, plan.delta)).codes == (0,)
    with pytest.raises(InvalidInput, match="promise of a plan"):
        encode("yes", plan, within=Target(1.0, 1e-9))


@pytest.mark.parametrize("given", [None, "plan.json", {"tea": True}])
def test_what_is_no_plan_is_refused(given: object) -> None:
    with pytest.raises(InvalidInput, match="plan"):
        encode("yes", given)  # type: ignore[arg-type]


def test_a_survey_is_answered_by_the_names_of_its_questions() -> None:
    with pytest.raises(InvalidAnswer, match="mapping"):
        sent("yes", TEA, DRINK)
    for answer in ({"tea": True}, {"tea": True, "drink": "milk", "more": 1}, {"a": 1, "b": 2}):
        with pytest.raises(InvalidInput, match="'tea', 'drink'"):
            sent(answer, TEA, DRINK)


@pytest.mark.parametrize("answer", [{"tea": True}, True])
def test_the_only_question_may_be_named_or_not(answer: object) -> None:
    assert sent(answer, TEA) == [0]


@pytest.mark.parametrize(
    ("answer", "codes"),
    [
        ({"dark": False, "large": True}, [1]),
        ({"looks": ["large"]}, [1]),
        ({"looks": {"dark": True, "large": True}}, [0, 1]),
    ],
)
def test_a_mapping_of_flags_is_an_answer_by_itself(
    answer: Mapping[str, object], codes: list[int]
) -> None:
    assert sent(answer, LOOKS) == codes


def test_silence_must_be_meant() -> None:
    with pytest.raises(InvalidInput, match="None for a missing answer"):
        sent({}, TEA)


# -------------------------------------------------------------------- charged reports


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return made.create(tmp_path, cap=Target(250.0, 1e-6))


@pytest.fixture
def plan() -> Plan:
    return plans.plan_of(TEA, users=3)


def test_a_report_is_charged_under_its_key_or_the_plan(ledger: Ledger, plan: Plan) -> None:
    assert encode("yes", plan, ledger=ledger, key="week 1").codes == (0,)
    assert encode("yes", plan, ledger=ledger).codes == (0,)
    entries = ledger.entries()
    assert [entry.key for entry in entries] == ["week 1", plan.id]
    assert {entry.charge.plan_id for entry in entries} == {plan.id}


def test_the_same_key_never_makes_a_second_report(ledger: Ledger, plan: Plan) -> None:
    encode("yes", plan, ledger=ledger)
    with pytest.raises(InvalidInput, match="key"):
        encode("yes", plan, ledger=ledger)


def test_an_empty_budget_makes_no_report(tmp_path: Path, plan: Plan) -> None:
    small = made.create(tmp_path, cap=Target(1.0, 1e-6))
    with pytest.raises(BudgetExhausted):
        encode("yes", plan, ledger=small)
    assert small.entries() == ()


# -------------------------------------------------------------------- rounds


def test_each_round_is_an_occasion_of_its_own(ledger: Ledger, plan: Plan) -> None:
    twice = replace(plan, rounds=2)
    for number in (1, 2):
        assert encode("yes", twice, ledger=ledger, round=number).origin.round == number
    assert made.keys(ledger) == [f"{twice.id}/1", f"{twice.id}/2"]
    with pytest.raises(InvalidInput, match="key"):
        encode("yes", twice, ledger=ledger, round=2)


def test_a_plan_of_several_rounds_is_told_which(plan: Plan) -> None:
    with pytest.raises(InvalidInput, match="round"):
        encode("yes", replace(plan, rounds=2))
    assert encode("yes", replace(plan, rounds=2), round=2).origin.round == 2
