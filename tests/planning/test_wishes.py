"""Wishes besides the promise: what may be left if parties collude, and what one report may move."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import chaffinch as cf
from chaffinch.cli import main
from chaffinch.errors import GuaranteeNotProven, InvalidInput, NoPlanFound, UselessPlan
from chaffinch.planning.candidates import Task
from chaffinch.planning.levels import count_error, hopeless_rounds
from chaffinch.planning.survey_file import load_survey
from chaffinch.plans.expansion import Asked
from chaffinch.plans.parts import Part
from chaffinch.plans.plan import Plan
from chaffinch.protocols import Decoys, Flips, Signed
from chaffinch.questions import Question
from tests.tiers import all_but, nightly

TARGET = cf.Target(1.0, 1e-6)
QUESTIONS: dict[str, cf.Bit | cf.Choice] = {
    "bit": cf.Bit(),
    "choice": cf.Choice(["a", "b", "c", "d"], missing="refuse"),
}


@pytest.mark.parametrize("kind", all_but(QUESTIONS, "choice"))
def test_where_nothing_need_be_left_the_count_is_nearly_as_exact_as_a_centre(kind: str) -> None:
    """Discrete Laplace noise of a trusted centre at epsilon 1: 1.357, or 2.799 where two move."""
    question, central = QUESTIONS[kind], {"bit": 1.357, "choice": 2.799}[kind]
    plan = cf.plan(question, users=5_000, target=TARGET, local_epsilon=math.inf)
    assert isinstance(plan.parts[0].protocol, Signed)
    assert central < plan.parts[0].standard_error(5_000) <= 1.25 * central
    assert math.isinf(plan.guarantee.local_epsilon)
    plan.verify(shares=True)
    assert all(math.isfinite(epsilon) for _, epsilon in plan.shares)


@pytest.mark.long
def test_what_fewer_honest_users_leave_of_several_answers_is_told() -> None:
    survey = cf.Survey({"one": cf.Bit(), "two": QUESTIONS["choice"]})
    plan = cf.plan(survey, users=1_000, target=TARGET, local_epsilon=math.inf)
    assert all(isinstance(part.protocol, Signed) for part in plan.parts)
    epsilons = [epsilon for _, epsilon in plan.shares]
    assert 1 < epsilons[0] < epsilons[1] < epsilons[2] < 5
    plan.verify(shares=True)


@pytest.mark.parametrize("users", [1_000, 200_000])
def test_unasked_the_more_exact_protocol_wins_where_flips_cost_more_than_twice(users: int) -> None:
    """Of 1,000 people flips would leave an epsilon of 3.5, at 3.5 times the error."""
    plan = cf.plan(cf.Bit(), users=users, target=TARGET, max_messages=2)
    assert isinstance(plan.parts[0].protocol, Signed)
    assert "within 15 % of the smallest error; a protocol that leaves" in plan.explain()
    # What two hundred thousand people would leave by themselves counts as nothing.
    assert ("Given up: an epsilon of 3.45" in plan.explain()) == (users == 1_000)


def test_unasked_reports_that_protect_by_themselves_are_worth_twice_the_error() -> None:
    plan = cf.plan(cf.Bit(), users=60, target=TARGET, max_messages=4, influence=math.inf)
    least = min(one.error for one in plan.alternatives if not one.ruled_out)
    assert isinstance(plan.parts[0].protocol, Flips)
    assert plan.guarantee.local_epsilon <= 4
    assert 1.15 * least < plan.parts[0].standard_error(60) <= 2 * least
    assert "for at most twice the smallest error." in plan.explain()


def test_a_survey_gives_each_question_a_share_of_what_a_report_may_leave() -> None:
    """Four questions that leave an epsilon of 2 each leave 8: nobody is protected."""
    survey = cf.Survey({name: cf.Bit() for name in "abcd"})
    plan = cf.plan(survey, users=60, target=cf.Target(4.0, 1e-6), influence=math.inf)
    local = plan.guarantee.local_epsilon
    assert local <= 4 or math.isinf(local)


def test_a_survey_that_signed_decoys_do_not_fit_gets_another_protocol() -> None:
    survey = cf.Survey({f"q{number}": cf.Bit() for number in range(16)})
    plan = cf.plan(survey, users=40, target=cf.Target(8.0, 1e-2), anyway=True)
    assert all(isinstance(part.protocol, Flips) for part in plan.parts)
    assert any(
        "more than 64 messages" in words for one in plan.alternatives for words in one.ruled_out
    )


@pytest.mark.parametrize("users", [nightly(1_000), 200_000])
def test_what_may_be_left_is_kept_even_where_the_promise_needs_less_noise(users: int) -> None:
    plan = cf.plan(cf.Bit(), users=users, target=TARGET, local_epsilon=3.0)
    assert isinstance(plan.parts[0].protocol, Flips)
    assert 2.9 < plan.guarantee.local_epsilon <= 3.0
    plan.verify()


def test_protocols_without_local_protection_are_then_no_candidates() -> None:
    plan = cf.plan(QUESTIONS["choice"], users=1_000, target=TARGET, local_epsilon=6.0)
    assert not isinstance(plan.parts[0].protocol, (Decoys, Signed))


def test_one_report_moves_no_count_further_than_wished() -> None:
    plan = cf.plan(
        cf.Bit(), users=5_000, target=TARGET, local_epsilon=math.inf, influence=1.5, max_messages=8
    )
    assert plan.parts[0].influence(plan.slots) <= 1.5
    free = cf.plan(cf.Bit(), users=5_000, target=TARGET, local_epsilon=math.inf, max_messages=8)
    assert free.parts[0].influence(free.slots) > 1.5
    assert "moves a count by at most" in free.explain()


@pytest.mark.parametrize(
    ("slots", "gain", "expected"), [(40, 2, 20.5), (40, 1, 41.0)], ids=["bit", "choice"]
)
def test_a_report_of_one_sign_also_takes_its_own_answer(
    slots: int, gain: int, expected: float
) -> None:
    protocol = Signed(Fraction(1, 2), (Fraction(1),), 1000, 39)
    assert protocol.influence(QUESTIONS["bit" if gain == 2 else "choice"], slots) == expected


@pytest.mark.long
def test_a_protocol_that_cannot_be_built_is_no_candidate() -> None:
    """At so small an epsilon a bit would need more than a million decoy slots."""
    wish = cf.Target(1e-4, 1e-6)
    plan = cf.plan(cf.Bit(), users=1_000, target=wish, influence=math.inf, anyway=True)
    assert "clear with decoys" not in {one.name for one in plan.alternatives}
    plan.verify()


def test_impossible_wishes_are_no_plan() -> None:
    with pytest.raises(NoPlanFound) as caught:
        cf.plan(cf.Bit(), users=1_000, target=TARGET, influence=0.5, max_messages=1)
    assert "an influence of 1.0" in caught.value.hint


def test_unasked_one_report_never_outvotes_half_of_the_crowd() -> None:
    """Among twenty people a report of signed decoys has room for a hundred messages."""
    plan = cf.plan(cf.Bit(), users=20, target=TARGET)
    assert plan.parts[0].influence(plan.slots) <= 10
    assert any("one report moves more than 10" in one.ruled_out for one in plan.alternatives)
    free = cf.plan(cf.Bit(), users=20, target=TARGET, influence=math.inf)
    assert free.parts[0].influence(free.slots) > 20
    assert "One dishonest report can move a count by at most" in free.explain()


def test_useful_plans_come_before_useless_ones() -> None:
    """Flips are within twice the error of signed decoys here, and their error is the crowd's."""
    plan = cf.plan(cf.Bit(), users=12, target=cf.Target(0.5, 1e-6), influence=math.inf)
    assert plan.warnings == []


def test_an_error_that_no_float_shows_the_noise_of_is_no_crash() -> None:
    survey = cf.Survey({"a": cf.Bit(), "c": cf.Choice(list("abcde"), missing="refuse")})
    plan = cf.plan(survey, users=20, error=cf.Error(0.01), anyway=True)
    plan.verify()


def test_a_forged_number_of_many_steps_is_refused_at_once() -> None:
    flood = tuple(Fraction(1, 2) for _ in range(8))
    protocol = Signed(Fraction(127, 128), flood, 1000, 4096, 1000)
    part = Part("n", cf.Number(0, 1), protocol)
    forged = Plan("", (part,), 1000, 1000, 1000, 20, 1.0, 1e-6)
    with pytest.raises(GuaranteeNotProven):
        forged.verify()


def test_an_error_leads_to_the_rule_of_epsilon() -> None:
    plan = cf.plan(cf.Bit(), users=200, error=cf.Error(0.05), max_messages=2)
    assert "smallest epsilon" in plan.choice
    assert "(flips, epsilon" in plan.explain()


@pytest.mark.parametrize("wrong", [0, -1.0, math.nan, "none", True])
def test_wishes_that_are_none_are_refused(wrong: object) -> None:
    for name in ("local_epsilon", "influence"):
        with pytest.raises(InvalidInput, match=name.replace("_", " ")):
            cf.plan(cf.Bit(), users=100, target=TARGET, **{name: wrong})  # type: ignore[arg-type]


SURVEY = """
users = 2000
epsilon = 1.0
delta = 1e-6
local_epsilon = {local}
max_messages = 4

[questions.member]
kind = "bit"
"""


@pytest.mark.parametrize(("local", "protocol"), [('"none"', Signed), ("3", Flips)])
def test_a_survey_file_has_the_same_wishes(local: str, protocol: type, tmp_path: Path) -> None:
    path = tmp_path / "survey.toml"
    path.write_text(SURVEY.format(local=local))
    assert isinstance(load_survey(path).plan().parts[0].protocol, protocol)


def test_the_command_line_has_the_same_wishes(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "one.plan.json"
    line = "plan --bit --users 2000 --epsilon 1 --delta 1e-6 --max-messages 4 --local-epsilon"
    assert main([*line.split(), "none", "--out", str(out)]) == 0
    assert isinstance(cf.load_plan(out).parts[0].protocol, Signed)
    assert main([*line.split(), "few"]) == 2
    assert "local epsilon" in capfd.readouterr().err


MIXED: dict[str, Question] = {
    "member": cf.Bit(),
    "drink": cf.Choice(list("abcd")),
    "age": cf.Number(0, 60),
}
TIGHT: dict[str, tuple[Question | cf.Survey, dict[str, Any]]] = {
    # 6 messages were said to be enough, for protocols that are not chosen where 6 are allowed.
    "survey": (cf.Survey(MIXED), {"users": 200, "max_messages": 2}),
    "influence": (cf.Bit(), {"users": 1000, "influence": 0.5}),
    "choice": (cf.Choice(range(3000)), {"users": 100, "max_messages": 4}),
    # A smaller delta was left out of account.
    "error": (
        cf.Number(0, 1),
        {"users": 100, "error": cf.Error(0.002), "delta": 1e-12, "max_messages": 1},
    ),
}


def ways_out(question: Question | cf.Survey, wishes: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what is said to work where nothing meets all wishes."""
    with pytest.raises(NoPlanFound) as refused:
        cf.plan(question, **wishes)
    ways: Any = refused.value.details["would_work"]
    found = [
        {"target": cf.Target(way["epsilon"], wishes["target"].delta)}
        if "epsilon" in way
        else {"error": replace(wishes["error"], share=way["error"])}
        if "error" in way
        else way
        for way in ways
    ]
    assert len(found) == (
        refused.value.hint.count(";") + 1 if "would work" in refused.value.hint else 0
    )
    return found


@pytest.mark.parametrize("name", all_but(TIGHT, "survey", "influence", "choice"))
def test_every_way_out_is_a_plan_that_is_found(name: str) -> None:
    question, wishes = TIGHT[name]
    if "error" not in wishes:
        wishes = {"target": TARGET} | wishes
    ways = ways_out(question, wishes)
    assert ways
    for way in ways:
        assert cf.plan(question, **wishes | way).own


@pytest.mark.long
def test_fifty_questions_have_true_ways_out() -> None:
    survey = cf.Survey({f"q{place}": list(MIXED.values())[place % 3] for place in range(50)})
    wishes: dict[str, Any] = {"users": 100_000, "target": cf.Target(1.0, 1e-8)}
    ways = ways_out(survey, wishes)
    assert ways
    for way in ways:
        assert cf.plan(survey, **wishes | way).own


@pytest.mark.long
def test_a_wish_that_anything_meets_is_not_told_as_one() -> None:
    wishes: dict[str, Any] = {"target": cf.Target(0.2, 1e-12), "protocol": "signed decoys"}
    for most, told in ((math.inf, False), (3.0, True)):
        with pytest.raises(NoPlanFound, match="must meet epsilon") as refused:
            cf.plan(cf.Bit(), users=2, max_messages=1, local_epsilon=most, **wishes)
        assert ("local epsilon" in str(refused.value)) is told


def test_so_many_rounds_that_nothing_is_left_are_refused_at_once() -> None:
    """No search of minutes first: nothing has less noise than Gaussian noise has, all in all."""
    told: list[str] = []
    with pytest.raises(UselessPlan, match="100,000 answers of each person") as refused:
        cf.plan(cf.Bit(), users=1_000, target=TARGET, rounds=100_000, progress=told.append)
    assert told == []
    assert refused.value.hint.startswith("ask more people, or for fewer rounds")


def test_noise_of_many_rounds_is_not_far_below_what_is_refused() -> None:
    """A bit, whose change moves one count only, needs a root of two less than is reckoned with."""
    task = Task((Asked("q", cf.Bit()),), 20_000, 20_000, 1_000, 1)
    least = count_error(task, (TARGET.epsilon, TARGET.delta))
    plan = cf.plan(cf.Bit(), users=20_000, target=TARGET, rounds=1_000, protocol="flips")
    assert plan.own is not None
    assert 0.5 * least < plan.own.error < least
    assert hopeless_rounds(task, (TARGET.epsilon, TARGET.delta)) == []
    few = replace(task, users=int(least), reports=int(least))
    assert hopeless_rounds(few, (TARGET.epsilon, TARGET.delta))
    assert not hopeless_rounds(replace(few, rounds=999), (TARGET.epsilon, TARGET.delta))
