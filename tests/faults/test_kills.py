"""Whatever stops a verb: nothing partial, nothing unpaid, nothing paid that is lost, nothing left.

A verb is killed, asked to end, or finds a full disk, at every step that it takes on the disk and
at random moments. Then the disk is looked at, and the same command is run again.

The long tier does this until each verb was killed 300 times, with and without a ledger where it
can have one, also those that only read: about 11,000 lives, 25 minutes of processor time. The gate
kills the verbs that pay or write messages twice each.

Where a verb was stopped before it changed anything, the same command is not run again: it would
find what the first one has found. Searches of the planner are made once, before all lives.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from cyclopts import App

from chaffinch.cli.app import app
from tests import forks, in_memory
from tests.faults.steps import FULL
from tests.faults.verbs import VERBS, prepare

FEW = 2
EVERY = 10**6
KILLS = 300
"""How often each verb is killed in the long tier: the disk is full besides."""
GATE = (
    "run, paid", "run, groups", "encode", "send, paid", "shuffle", "analyze, paid", "trend",
    "reach encode, paid", "reach shuffle", "reach analyze, paid", "reach key", "ledger create",
    "keys rotate",
)  # fmt: skip
"""In one sweep: to get ready for one takes as long as to kill four verbs."""


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Yield a folder with everything that verbs read."""
    with in_memory.folder(tmp_path_factory.mktemp("kills")) as made:
        yield prepare(made / "start")


def sweep(start: Path, verbs: Sequence[str], *, most: int, kills: int) -> dict[str, Any]:
    """Return how often each fault happened to each verb."""
    done = forks.run(forks.MODULE, "tests.faults.sweep", start, most, kills, *verbs)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_stopped_at_some_steps(start: Path) -> None:
    found = sweep(start, GATE, most=FEW, kills=0)
    assert set(found) == set(GATE)
    assert all(happened["kill"] >= FEW for happened in found.values()), found


@pytest.mark.long
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("verb", VERBS)
def test_stopped_at_every_step_and_at_any_moment(
    start: Path, verb: str, record_property: Callable[[str, object], None]
) -> None:
    happened = sweep(start, [verb], most=EVERY, kills=KILLS)[verb]
    record_property("happened", happened)
    assert sum(happened.values()) - happened.get(FULL, 0) >= KILLS, happened


WITH_SERVICES = {
    "status", "rehearse", "reach send", "serve collector", "serve shuffler", "serve analyzer",
    "web",
}  # fmt: skip
"""Verbs that talk to services, or are one: these are stopped in tests/services (test_rehearsal,
test_status, test_sealed_filters, test_reach_day, faults) or in tests/web."""


def verbs_of(commands: App) -> Iterator[str]:
    """Yield every verb of the command line, those of a group with its name in front."""
    for name in commands:
        if not name.startswith("-"):
            inner = list(verbs_of(commands[name]))
            yield from (f"{name} {one}" for one in inner)
            if not inner:
                yield name


def test_every_verb_is_stopped() -> None:
    known = {name.partition(",")[0] for name in VERBS}
    assert not known & WITH_SERVICES
    assert known | WITH_SERVICES == set(verbs_of(app))
