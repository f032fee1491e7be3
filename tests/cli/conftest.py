"""A plan that is quick to make, a table that fits it, and a way to call the command."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import chaffinch as cf
from chaffinch.cli import main
from tests import forks
from tests.planned_once import plans_are_made_once  # noqa: F401 - a fixture of all tests here

USERS = 2000
YES = 1300


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    code: int
    out: str
    err: str


@pytest.fixture
def cli(capfd: pytest.CaptureFixture[str]) -> Callable[..., Done]:
    """Run the command in this process."""

    def call(*words: object) -> Done:
        capfd.readouterr()
        code = main([str(word) for word in words])
        out, err = capfd.readouterr()
        return Done(code, out, err)

    return call


@pytest.fixture(scope="session")
def shell() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run a line in a shell in which ``chaffinch`` is the command; where asked, from its start."""

    def call(
        line: str, folder: Path, *, fresh: bool = False, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        source = Path(cf.__file__).parents[1]
        inherited = {
            name: value
            for name, value in os.environ.items()
            if name not in {"COLUMNS", "NO_COLOR", "FORCE_COLOR"}
        }
        variables: dict[str, Any] = inherited | {"PYTHONPATH": str(source)} | environment
        command, inherited_line = forks.as_words()
        if fresh:
            command = [sys.executable, "-m", "chaffinch"]
        script = f'set -o pipefail\nchaffinch() {{ {shlex.join(command)} "$@"; }}\n{line}'
        return subprocess.run(
            ["/bin/bash", "-c", script],
            capture_output=True,
            text=True,
            check=False,
            cwd=folder,
            env=variables,
            timeout=100,
            pass_fds=[inherited_line],
        )

    return call


@pytest.fixture(scope="session")
def plan() -> cf.Plan:
    survey = cf.Survey({"member": cf.Bit()}, "Members")
    return cf.plan(survey, users=USERS, target=cf.Target(1.0, 1e-6), max_messages=1)


@pytest.fixture
def folder(tmp_path: Path, plan: cf.Plan) -> Path:
    """A folder with a plan, a survey, and a table of answers."""
    plan.save(tmp_path / "members.plan.json")
    (tmp_path / "survey.toml").write_text(
        f'title = "Members"\nusers = {USERS}\nepsilon = 1\ndelta = 1e-6\nmax_messages = 1\n'
        '[questions.member]\nkind = "bit"\nmissing = "refuse"\n'
    )
    lines = ["id,member,age", *(f"{i},{'yes' if i < YES else 'no'},{i % 60}" for i in range(USERS))]
    (tmp_path / "people.csv").write_text("\n".join(lines) + "\n")
    return tmp_path
