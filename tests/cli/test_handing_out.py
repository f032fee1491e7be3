"""Whatever stops a verb that pays: nothing unpaid is handed out, nothing paid is lost."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from chaffinch import Bit, Ledger, Target, plan, reach
from chaffinch.engines import engine
from tests.cli.sweep import VERBS
from tests.meta import repository

USERS = 40


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return folders in which each verb can run, with a ledger of its role."""
    base = tmp_path_factory.mktemp("faults")
    survey = plan(Bit(), users=USERS, target=Target(2, 1e-2))
    audience = reach.plan(reach.Audience(["daily"]), sizes=[1000], target=Target(2, 1e-4))
    found = {}
    for role in ("analyzer", "client"):
        folder = base / role
        folder.mkdir()
        survey.save(folder / "survey.plan.json")
        (folder / "people.csv").write_text("answer\n" + "yes\nno\n" * USERS)
        local = engine()
        local.encode(folder / "people.csv", survey, folder / "encoded.parquet")
        encoded, shuffled = folder / "encoded.parquet", folder / "shuffled.parquet"
        local.shuffle([encoded], survey, shuffled, record=folder / "shuffler.record")
        audience.save(folder / "reach.plan.json")
        (folder / "ids.csv").write_text("id\n" + "".join(f"{n}\n" for n in range(1000)))
        reach.new_key().save(folder / "campaign.key")
        cap = Target(20, 1e-2)
        Ledger.create(folder / "ledger", role=role, cap=cap, mark=folder / "mark")
        found[role] = folder
    return found


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("fault", ["kill", "full"])
@pytest.mark.parametrize("verb", VERBS)
def test_a_fault_at_every_step(verb: str, fault: str, start: dict[str, Path]) -> None:
    assert fail(verb, fault, start, every=1) >= 8


@pytest.mark.parametrize("fault", ["kill", "full"])
@pytest.mark.parametrize("verb", VERBS)
def test_a_fault_at_some_steps(verb: str, fault: str, start: dict[str, Path]) -> None:
    every = {"analyze": 5, "run": 9, "reach encode": 11}[verb]
    assert fail(verb, fault, start, every=every) >= 5


def fail(verb: str, fault: str, start: dict[str, Path], *, every: int) -> int:
    """Return how many steps a verb has, after it failed at all of them or every few."""
    folder = start["client" if verb == "reach encode" else "analyzer"]
    done = subprocess.run(
        [sys.executable, "-m", "tests.cli.sweep", verb, fault, str(folder), str(every)],
        cwd=repository.ROOT,
        capture_output=True,
        text=True,
        timeout=800,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return int(done.stdout)
