"""A plan that protects nobody, or says nothing, is not handed out silently."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path

import pytest

import chaffinch as cf
from chaffinch.cli import main
from chaffinch.errors import NoPlanFound, UselessPlan
from chaffinch.privacy.guarantee import right_guesses
from tests.cli.conftest import Done

WEAK = cf.Target(6.0, 1e-6)
LINE = "plan --bit --users 100 --delta 1e-6 --max-messages 1 --local-epsilon 7 --epsilon"


def test_a_promise_with_which_every_guess_is_right_is_refused() -> None:
    assert right_guesses(6.0, 1e-6) == 100
    with pytest.raises(UselessPlan, match="protects nobody") as caught:
        cf.plan(cf.Bit(), users=100, target=WEAK, max_messages=1)
    assert "anyway" in caught.value.hint
    assert isinstance(caught.value, NoPlanFound)


def test_anyway_it_is_made_and_starts_with_a_warning() -> None:
    plan = cf.plan(cf.Bit(), users=100, target=WEAK, max_messages=1, anyway=True)
    assert plan.explain().startswith("Warning: with epsilon 6 ")
    release = cf.analyze(cf.shuffle(cf.encode_many(["yes"] * 100, plan)), plan)
    text = str(release)
    assert text.index("Warning: with epsilon 6 ") < text.index("The promise covers")
    assert "Warning: with epsilon 6 " in release.page()


@pytest.mark.long
def test_an_error_as_large_as_the_crowd_is_refused() -> None:
    question = cf.Choice(range(500), missing="refuse")
    wishes = {
        "users": 30,
        "target": cf.Target(0.1, 1e-9),
        "max_messages": 10**6,
        "influence": math.inf,
    }
    with pytest.raises(UselessPlan, match="will say nothing"):
        cf.plan(question, **wishes)  # type: ignore[arg-type]
    plan = cf.plan(question, **wishes, anyway=True)  # type: ignore[arg-type]
    assert 2 * plan.parts[0].standard_error(30) >= 30
    release = cf.analyze(cf.shuffle(cf.encode_many([1] * 30, plan)), plan)
    assert release.answers[0].notes[0].startswith("Warning: two standard errors")


def test_a_plan_of_use_has_no_warnings() -> None:
    assert cf.plan(cf.Bit(), users=100, target=cf.Target(4.0, 1e-6)).warnings == []


def test_the_command_line_says_it_first(cli: Callable[..., Done], tmp_path: Path) -> None:
    assert cli(*LINE.split(), "6").code == 3
    done = cli(*LINE.split(), "6", "--anyway", "--json")
    assert "protects nobody" in json.loads(done.out)["warnings"][0]
    file = tmp_path / "weak.plan.json"
    shown = cli(*LINE.split(), "6", "--anyway", "-o", file).out
    assert shown.index("Warning") < shown.index("The promise covers")
    assert "warning: with epsilon 6" in cli("plan", "--check", file).err


def test_a_survey_may_say_anyway(tmp_path: Path) -> None:
    survey = tmp_path / "survey.toml"
    text = 'users = 100\nepsilon = 6\ndelta = 1e-6\n{}[questions.q]\nkind = "bit"\n'
    survey.write_text(text.format(""))
    (tmp_path / "people.csv").write_text("q\n" + "yes\n" * 100)
    line = ["run", str(survey), "--data", str(tmp_path / "people.csv"), "--out"]
    assert main([*line, str(tmp_path / "one")]) == 3
    assert main([*line, str(tmp_path / "two"), "--anyway"]) == 0
    survey.write_text(text.format("anyway = true\n"))
    # It speaks for its own plan, and not for all releases of the same data together.
    assert main([*line, str(tmp_path / "three"), "--again"]) == 4
    (tmp_path / "people.csv").write_text("q\n" + "yes\n" * 99 + "no\n")
    assert main([*line, str(tmp_path / "three")]) == 0
