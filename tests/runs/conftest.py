"""A plan that is quick to make, and a table that answers it, in memory and in files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import chaffinch as cf
from chaffinch.cli import main
from tests.planned_once import plans_are_made_once  # noqa: F401 - a fixture of all tests here

USERS = 200
SURVEY = f"""users = {USERS}
epsilon = 2
delta = 1e-6
max_messages = 1
[questions.tea]
kind = "bit"
missing = "refuse"
"""


@pytest.fixture(scope="session")
def plan() -> cf.Plan:
    survey = cf.Survey({"tea": cf.Bit(missing="refuse")})
    return cf.plan(survey, users=USERS, target=cf.Target(2, 1e-6), max_messages=1)


@pytest.fixture
def table() -> dict[str, list[object]]:
    """A table in which person n has answered row n."""
    yes = USERS // 2 + 1
    return {"tea": [*["yes"] * yes, *["no"] * (USERS - yes)], "cups": [*range(USERS)]}


@pytest.fixture
def folder(tmp_path: Path, plan: cf.Plan, table: dict[str, list[object]]) -> Path:
    """A folder with the plan, its survey, and the table."""
    plan.save(tmp_path / "tea.plan.json")
    (tmp_path / "survey.toml").write_text(SURVEY)
    rows = [",".join(map(str, row)) for row in zip(*table.values(), strict=True)]
    (tmp_path / "people.csv").write_text("\n".join([",".join(table), *rows]) + "\n")
    return tmp_path


@pytest.fixture
def command(capfd: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    """Run the command in this process; return its exit code and what it printed."""

    def call(*words: object) -> tuple[int, str]:
        capfd.readouterr()
        code = main([str(word) for word in words])
        return code, capfd.readouterr().out

    return call
