"""Wishes besides the promise: what may be left if parties collude, and what one report may move."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path

import pytest

import chaffinch as cf
from chaffinch.cli import main
from chaffinch.errors import InvalidInput, NoPlanFound
from chaffinch.planning.survey_file import load_survey
from chaffinch.protocols import Decoys, Flips, Signed

TARGET = cf.Target(1.0, 1e-6)
QUESTIONS: dict[str, cf.Bit | cf.Choice] = {
    "bit": cf.Bit(),
    "choice": cf.Choice(["a", "b", "c", "d"], missing="refuse"),
}


@pytest.mark.parametrize("kind", QUESTIONS)
def test_where_nothing_need_be_left_the_count_is_nearly_as_exact_as_a_centre(kind: str) -> None:
    """Discrete Laplace noise of a trusted centre at epsilon 1: 1.357, or 2.799 where two move."""
    question, central = QUESTIONS[kind], {"bit": 1.357, "choice": 2.799}[kind]
    plan = cf.plan(question, users=5_000, target=TARGET, local_epsilon=math.inf)
    assert isinstance(plan.parts[0].protocol, Signed)
    assert central < plan.parts[0].standard_error(5_000) <= 1.25 * central
    assert math.isinf(plan.guarantee.local_epsilon)
    plan.verify(shares=True)
    assert all(math.isfinite(epsilon) for _, epsilon in plan.shares)


def test_what_fewer_honest_users_leave_of_several_answers_is_not_claimed() -> None:
    """It would take minutes to work out; no promise is the safe answer."""
    survey = cf.Survey({"one": cf.Bit(), "two": cf.Bit()})
    plan = cf.plan(survey, users=2_000, target=TARGET, local_epsilon=math.inf)
    assert all(isinstance(part.protocol, Signed) for part in plan.parts)
    assert all(math.isinf(epsilon) for _, epsilon in plan.shares)
    plan.verify(shares=True)


def test_signed_decoys_are_not_weighed_unasked() -> None:
    plan = cf.plan(cf.Bit(), users=5_000, target=TARGET, max_messages=1)
    weighed = [plan.parts, *(one.parts for one in plan.alternatives)]
    assert not any(isinstance(part.protocol, Signed) for parts in weighed for part in parts)


@pytest.mark.parametrize("users", [1_000, 200_000])
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
    ("slots", "gain", "expected"), [(40, 2, 20.5), (40, 1, 40.0)], ids=["bit", "choice"]
)
def test_a_report_of_pluses_also_takes_its_own_minus(
    slots: int, gain: int, expected: float
) -> None:
    protocol = Signed(Fraction(1, 2), (Fraction(1),), 1000, 39)
    assert protocol.influence(QUESTIONS["bit" if gain == 2 else "choice"], slots) == expected


def test_impossible_wishes_are_no_plan() -> None:
    with pytest.raises(NoPlanFound) as caught:
        cf.plan(cf.Bit(), users=1_000, target=TARGET, influence=0.5, max_messages=1)
    assert "an influence of 1.0" in caught.value.hint


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
