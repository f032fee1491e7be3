"""The guide for a table of people, followed to the letter."""

from __future__ import annotations

import os
import random
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


def write_visits(path: Path) -> None:
    """Write a table as the guide describes it: members with one to four visits, and gaps."""
    source = random.Random(1)
    with path.open("w") as file:
        file.write("member,shop,happy,paid\n")
        for number in range(MEMBERS):
            for _ in range(number % 4 + 1):
                happy, paid = source.choice(["yes", "no", "NA"]), source.choice(["", "12.50", "99"])
                file.write(f"m{number},{source.choice(['north', 'south'])},{happy},{paid}\n")


@pytest.mark.long
def test_every_command_of_the_guide_does_what_it_says(tmp_path: Path) -> None:
    write_visits(tmp_path / "visits.csv")
    blocks = pages.blocks(PAGE)
    (survey,) = [block.text for block in blocks if block.language == "toml"]
    (tmp_path / "survey.toml").write_text(survey, encoding="utf-8")
    commands = [line for one in blocks if one.language == "sh" for line in one.text.splitlines()]
    assert len(commands) == 6
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
    release = cf.load_release(tmp_path / "another" / "release.json")
    assert (release.reports, release.unit) == (MEMBERS, "person")
    assert release.together is not None
    assert {answer.question for answer in release.answers} == {"shop × happy", "paid by shop"}
