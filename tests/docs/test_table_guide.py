"""The guide for a table of people, followed to the letter."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import chaffinch as cf
from tests.docs import pages
from tests.meta import repository

PAGE = repository.ROOT / "docs" / "guides" / "a-table-of-people.md"
MEMBERS = 3_000


@pytest.mark.long
def test_every_command_of_the_guide_does_what_it_says(tmp_path: Path) -> None:
    blocks = pages.blocks(PAGE)
    (survey,) = [block.text for block in blocks if block.language == "toml"]
    (tmp_path / "survey.toml").write_text(survey, encoding="utf-8")
    made_up = "\n".join(block.text for block in blocks if block.language == "bash")
    subprocess.run(["/bin/bash", "-ec", made_up], check=True, cwd=tmp_path)
    commands = [line for one in blocks if one.language == "sh" for line in one.text.splitlines()]
    assert len(commands) == 10
    for line in commands:
        words = shlex.split(line, comments=True)
        done = subprocess.run(
            [sys.executable, "-m", *words],
            capture_output=True,
            text=True,
            check=False,
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": str(Path(cf.__file__).parents[1])},
        )
        assert done.returncode == (4 if line.endswith("# refused") else 0), done.stderr
    trend = (tmp_path / "trend.html").read_text(encoding="utf-8")
    assert "november" in trend
    release = cf.load_release(tmp_path / "another" / "release.json")
    assert (release.reports, release.unit) == (MEMBERS, "person")
    assert release.together is not None
    assert {answer.question for answer in release.answers} == {"shop × happy", "paid by shop"}
