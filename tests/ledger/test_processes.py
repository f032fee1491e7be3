"""Many processes at once, and processes that die: nothing is over-granted, nothing forgotten."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from chaffinch.errors import LedgerRolledBack, Reason, StorageFault
from chaffinch.ledger import Ledger
from chaffinch.privacy import Target
from tests import forks
from tests.ledger import made
from tests.ledger.made import ONE
from tests.ledger.worker import CHARGES, KINDS
from tests.meta import repository
from tests.tiers import nightly

STRACE = shutil.which("strace")
TOUCHING = ("pwrite64", "fdatasync", "fsync", "rename", "unlink", "link", "write")


def worker(*words: object, wrap: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    if not wrap:
        return forks.run(forks.MODULE, "tests.ledger.worker", *words)
    command = [*wrap, sys.executable, "-B", "-m", "tests.ledger.worker", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=repository.ROOT)


def told(*words: object) -> Any:
    done = worker(*words)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def race(folder: Path, kind: str, *, processes: int, attempts: int, shared: int) -> Counter[str]:
    """Return how often each key was granted, after checking what holds for every ledger."""
    made.create(folder)
    result = told("race", kind, folder, processes, attempts, shared)
    assert result["codes"] == [0] * processes
    entries = made.reopen(folder).entries()
    # Everyone was told the truth: every grant is in the file, in its place.
    places = {entry.key: entry.sequence for entry in entries}
    assert all(places[key] == sequence for key, sequence, _ in result["told"])
    fresh = Counter(key for key, _, replayed in result["told"] if not replayed)
    assert set(fresh) == set(places)
    return fresh


@pytest.mark.parametrize("kind", ["shipped", nightly("always under the lock")])
def test_eight_processes_are_granted_exactly_what_fits(tmp_path: Path, kind: str) -> None:
    granted = race(tmp_path, kind, processes=8, attempts=3, shared=0)
    assert sum(granted.values()) == made.GRANTS


def test_the_race_shows_a_ledger_that_does_not_look_again(tmp_path: Path) -> None:
    granted = race(tmp_path, "careless", processes=8, attempts=2, shared=0)
    assert sum(granted.values()) == 16 > made.GRANTS


@pytest.mark.parametrize("processes", [4, nightly(8)])
def test_processes_with_one_key_are_charged_once(tmp_path: Path, processes: int) -> None:
    granted = race(tmp_path, "shipped", processes=processes, attempts=3, shared=3)
    assert granted == Counter({str(number): 1 for number in range(3)})


def test_four_processes_with_one_content_are_charged_once(tmp_path: Path) -> None:
    made.create(tmp_path, role="analyzer", cap=Target(300, 1e-2))
    result = told("content", tmp_path, 4, 8)
    assert result["codes"] == [0] * 4
    assert (len(result["subjects"]), len(set(result["subjects"]))) == (8, 8)


def check_survivor(folder: Path) -> None:
    """Check what a process left behind that made a ledger and charged CHARGES."""
    said = (folder / "said").read_text(encoding="utf-8") if (folder / "said").exists() else ""
    acknowledged = [key for key in CHARGES if key in said]
    if not (folder / "ledger").exists():
        # It died while making the ledger; nothing was promised, and it can be made now.
        assert said == ""
        made.create(folder)
    survivor = made.reopen(folder)
    found = made.keys(survivor)
    assert set(acknowledged) <= set(found) <= set(CHARGES)
    # What was handed out for a charge is there whenever the charge is.
    assert [survivor.content_of(one) for one in survivor.entries()] == [
        key.encode() for key in found
    ]
    if "!" not in said:
        assert len(found) <= len(acknowledged) + 1
    # It works on, and what was tried is not charged twice.
    for key in CHARGES:
        assert survivor.charge(ONE, key).replayed == (key in found)
    assert sorted(made.keys(survivor)) == sorted(CHARGES)


def check_older_copies(folder: Path) -> int:
    """Check that copies which lack an acknowledged charge are refused; return how many."""
    said = (folder / "said").read_text(encoding="utf-8") if (folder / "said").exists() else ""
    refused = 0
    for key in CHARGES[: max(0, len(said) - 2)]:
        shutil.copy(folder / f"after-{key}", folder / "older")
        with pytest.raises(LedgerRolledBack):
            Ledger.open(folder / "older", mark=folder / "mark")
        refused += 1
    return refused


def deaths(folder: Path, order: str, step: int) -> tuple[int, int]:
    result = told("deaths", order, folder, step)
    assert result["code"] == 0
    refused = 0
    for place in folder.iterdir():
        refused += check_older_copies(place)
        check_survivor(place)
    return result["points"], refused


def test_death_at_every_point_of_a_life(tmp_path: Path) -> None:
    points, refused = deaths(tmp_path, "shipped", 1)
    assert points > 60
    assert refused > 10


def test_deaths_show_a_mark_that_runs_ahead(tmp_path: Path) -> None:
    # Such an order locks an honest ledger out.
    with pytest.raises(LedgerRolledBack):
        deaths(tmp_path, "mark first", 4)


def test_deaths_show_a_mark_that_stays_behind(tmp_path: Path) -> None:
    # Such an order lets an older copy in.
    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        deaths(tmp_path, "mark never", 4)


def test_a_full_disk_acknowledges_nothing(tmp_path: Path) -> None:
    faults = 0
    for limit in (0, 600, 5000, 9000):
        folder = tmp_path / str(limit)
        made.create(folder).charge(ONE, "before")
        fault = told("full", folder, limit)["fault"]
        faults += fault == "storage-fault"
        survivor = made.reopen(folder)
        assert "before" in made.keys(survivor)
        assert (fault is None) <= ("full" in made.keys(survivor))
        survivor.charge(ONE, "full")
        assert made.keys(survivor) == ["before", "full"]
    assert faults >= 3


def broken(*_: object) -> None:
    """Fail as a disk does."""
    raise OSError(5, "Input/output error")


def test_a_mark_that_cannot_be_written_costs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = made.create(tmp_path)
    before = (tmp_path / "mark").read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", broken)
        with pytest.raises(StorageFault, match="Input/output") as caught:
            ledger.charge(ONE, "a")
    assert caught.value.reason is Reason.UNCERTAIN
    assert made.keys(ledger) == []
    assert (tmp_path / "mark").read_bytes() == before
    assert not list(tmp_path.glob(".*.part"))
    assert not ledger.charge(ONE, "a").replayed


def test_an_error_while_moving_the_mark_is_no_acknowledgement(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = made.create(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", broken)
        with pytest.raises(StorageFault, match="Input/output"):
            ledger.charge(ONE, "a")
    # It may stand in the file all the same: unknown counts as spent, and is not charged twice.
    assert ledger.charge(ONE, "a").replayed
    assert made.keys(ledger) == ["a"]


def needs_strace() -> None:
    if STRACE is None:
        pytest.skip("strace is not installed: faults inside system calls are not tested")


def lives(folder: Path, call: str, fault: str) -> int:
    """Live with a fault at the n-th system call, for n = 1, 2, … until it is never reached."""
    for count in range(1, 10_000):
        place = folder / f"{call}-{count}"
        place.mkdir(parents=True)
        inject = f"inject={call}:{fault}:when={count}"
        log = place / "trace"
        wrap = (str(STRACE), "-f", "-qq", "-o", str(log), "-e", f"trace={call}", "-e", inject)
        worker("life", place, wrap=wrap)
        reached = log.exists() and log.read_text(encoding="utf-8").count(f"{call}(") >= count
        check_survivor(place)
        if not reached:
            return count - 1
    raise AssertionError(call)


@pytest.mark.long
@pytest.mark.parametrize("call", TOUCHING)
def test_death_at_every_system_call(tmp_path: Path, call: str) -> None:
    needs_strace()
    assert lives(tmp_path, call, "signal=SIGKILL") > 0


@pytest.mark.long
@pytest.mark.parametrize("error", ["EIO", "ENOSPC"])
@pytest.mark.parametrize("call", ["pwrite64", "fdatasync", "fsync", "rename", "link"])
def test_an_error_at_every_system_call(tmp_path: Path, call: str, error: str) -> None:
    needs_strace()
    assert lives(tmp_path, call, f"error={error}") > 0


@pytest.mark.long
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "careless"])
def test_a_long_race(tmp_path: Path, kind: str) -> None:
    for number in range(50):
        granted = race(tmp_path / str(number), kind, processes=8, attempts=25, shared=0)
        assert sum(granted.values()) == made.GRANTS
