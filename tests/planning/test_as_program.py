"""The program that a page shows makes the plan of the survey file beside it."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

import chaffinch as cf
from chaffinch.planning import survey_file
from chaffinch.planning.as_program import as_program
from chaffinch.planning.survey_file import EXAMPLE, survey_from

SEVERAL = """
users = 5000
error = "9%"
confidence = 0.9
rounds = 2
local_epsilon = "none"
cross = ["a", "b"]
title = "it's \\"x\\" \\\\ ü"
[questions.a]
kind = "choice"
values = ["1", "2", "c'd"]
unknown = "2"
[questions.b]
kind = "bit"
missing = "count"
[questions.n]
kind = "number"
low = -1
high = 1.5
clip = true
[questions.f]
kind = "flags"
names = ["u", "v"]
"""
OWN = """
users = 300
epsilon = 4
delta = 1e-6
honest = "90%"
max_messages = 8
[questions.day]
kind = "choice"
dates = "weekday"
protocol = "flips"
"""


def made_by(program: str) -> Any:
    names: dict[str, Any] = {}
    exec(program, names)  # noqa: S102 - it is ours
    return names["plan"]


def test_the_program_makes_the_plan_of_the_file() -> None:
    asked = survey_from(OWN)
    assert made_by(as_program(asked)).id == asked.plan().id


@pytest.mark.parametrize("text", [EXAMPLE, SEVERAL, OWN], ids=["example", "several", "own"])
def test_the_program_asks_for_what_the_file_asks_for(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = {name: one.default for name, one in inspect.signature(cf.plan).parameters.items()}

    def asked_for(question: cf.Survey, **wishes: Any) -> dict[str, Any]:
        named = (dict(question.planned), question.title)
        return usual | wishes | {"question": named, "progress": None}

    monkeypatch.setattr(cf, "plan", asked_for)
    monkeypatch.setattr(survey_file, "plan", asked_for)
    asked = survey_from(text)
    program = as_program(asked)
    assert all(len(line) <= 100 for line in program.splitlines())
    assert made_by(program) == asked.plan()
