"""The program that a page shows makes the plan of the survey file beside it."""

from __future__ import annotations

from typing import Any

import pytest

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
users = 3000
epsilon = 2
delta = 1e-6
honest = "90%"
max_messages = 8
[questions.day]
kind = "choice"
dates = "weekday"
protocol = "flips"
"""


@pytest.mark.parametrize("text", [EXAMPLE, SEVERAL, OWN], ids=["example", "several", "own"])
def test_the_program_makes_the_plan_of_the_file(text: str) -> None:
    asked = survey_from(text)
    program = as_program(asked)
    assert all(len(line) <= 100 for line in program.splitlines())
    names: dict[str, Any] = {}
    exec(program, names)  # noqa: S102 - it is ours
    assert names["plan"].id == asked.plan().id
