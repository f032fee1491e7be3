"""A process dies where a test wants it to, and nowhere else; no place is without a test."""

from __future__ import annotations

import ast
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from chaffinch.disk.kill_points import PLACES, VARIABLE

ROOT = Path(__file__).parents[2]
PROGRAM = """
from chaffinch.disk.kill_points import kill_point
for step in range(4):
    kill_point("inbox.written")
    print(step, flush=True)
"""


def _run(wanted: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, VARIABLE: wanted},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("wanted", "steps"), [("inbox.written", 0), ("inbox.written:1", 0), ("inbox.written:3", 2)]
)
def test_a_process_dies_at_the_place_and_the_time(wanted: str, steps: int) -> None:
    done = _run(wanted)
    assert done.returncode == -signal.SIGKILL
    assert len(done.stdout.split()) == steps


@pytest.mark.parametrize("wanted", ["", "inbox.synced", "inbox.written:9"])
def test_a_process_lives_where_nothing_is_wanted(wanted: str) -> None:
    done = _run(wanted)
    assert done.returncode == 0
    assert len(done.stdout.split()) == 4


@pytest.mark.parametrize("wanted", ["inbox.writen", "inbox.written:x", "inbox.written:-1"])
def test_a_misspelt_place_is_refused(wanted: str) -> None:
    done = _run(wanted)
    assert done.returncode == 1
    assert "disk.kill_points" in done.stderr


def _reached() -> list[str]:
    """Return the word of every call of ``kill_point`` in the sources."""
    found = []
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", None) == "kill_point":
                (word,) = node.args
                assert isinstance(word, ast.Constant), path
                found.append(str(word.value))
    return found


def test_the_table_lists_every_kill_point_in_the_sources() -> None:
    assert sorted(set(_reached())) == sorted(PLACES)


def test_every_place_is_in_a_fault_test() -> None:
    here = Path(__file__)
    tests = [path for path in (ROOT / "tests").rglob("*.py") if path != here]
    text = "\n".join(path.read_text(encoding="utf-8") for path in tests)
    untested = [place for place in PLACES if f'"{place}"' not in text]
    assert not untested
