"""Whole processes whose wall clock is ten years ahead, and then ten years behind.

Nothing of what services do for reports asks for the time; keys come and go by it. A clock that
jumps may let a key take one step, and never two: none is destroyed, and what was sealed for one
that is in use is opened. The monotonic clock and the times of files are the true ones.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import urllib3

from chaffinch.analysis.received import KnownBatches
from chaffinch.ledger import Ledger
from chaffinch.wire import media_types
from tests import forks
from tests.services.commands import ROLES, Service, serving, waited, write_settings
from tests.services.faults import calls
from tests.services.faults.world import make_ledger
from tests.services.oracle import Collection
from tests.services.test_hop import counts

TEN_YEARS = 3653 * 86_400
CROWD = 4


@dataclass
class Off:
    """The parties of a collection at a wall clock that is off by so many seconds."""

    root: Path
    collection: Collection
    environment: dict[str, str]
    services: dict[str, Service]

    def send(self, numbers: list[int], sealed: dict[int, bytes]) -> None:
        """Send numbers, each of which has one sealed report whenever it is sent."""
        new = [number for number in numbers if number not in sealed]
        sealed.update(zip(new, self.collection.seal(new), strict=True))
        plan = self.collection.plan
        reply = urllib3.request(
            "POST",
            f"{self.services['collector'].addresses[0]}/v1/plans/{plan.id}/rounds/1/reports",
            body=b"".join(sealed[number] for number in numbers),
            headers={"content-type": media_types.REPORTS},
        )
        assert reply.status == 201, reply.data

    def rotate(self, *options: str) -> list[list[str]]:
        """Let both parties run the command of their timer; return the states of their keys."""
        folders = (*self.collection.hops, self.collection.analyzer)
        for keys in folders:
            command = ["keys", "rotate", str(keys.path), "--quiet", *options]
            forks.run(forks.COMMAND, *command, environment=self.environment).check_returncode()
            keys.refresh()
        return [[str(one.state) for one in keys.entries] for keys in folders]

    def counts(self) -> dict[str, int]:
        return counts(self.services["shuffler"])

    def released(self) -> Counter[int]:
        """Return how often each number was released; no batch is below its crowd."""
        received = KnownBatches(self.root / "analyzer" / "state.sqlite")
        found: Counter[int] = Counter()
        for batch in received.all():
            assert batch.state in ("opened", "released")
            assert batch.reports >= CROWD
            tally = received.tally(batch.id).counts
            found.update({int(code): int(tally[code]) for code in tally.nonzero()[0]})
        return found

    def is_all_paid(self) -> bool:
        """Return whether every opened batch is charged and released: that is a step of its own."""
        received = KnownBatches(self.root / "analyzer" / "state.sqlite")
        return all(batch.state == "released" for batch in received.all())

    def year(self) -> int:
        """Return which year it is for the services: that of their last line."""
        code, said = self.services.pop("shuffler").stop()
        assert code == 0
        return int(json.loads(said.splitlines()[-1])["at"][:4])


@pytest.fixture(scope="module")
def clock(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return what puts clocks off."""
    return calls.build(tmp_path_factory.mktemp("clock"), "clock.c")


@contextmanager
def off_by(seconds: int, clock: Path, root: Path, collection: Collection) -> Iterator[Off]:
    environment = {"LD_PRELOAD": str(clock), "CLOCK_OFF_BY": str(seconds)}
    with ExitStack() as stack:
        services = {
            role: stack.enter_context(serving(role, root / name, environment))
            for role, name in ROLES.items()
        }
        yield Off(root, collection, environment, services)


def this_year(clock: Path, seconds: int) -> int:
    """Return the year of a process whose clock is off."""
    environment = {"LD_PRELOAD": str(clock), "CLOCK_OFF_BY": str(seconds)}
    words = "import time; print(time.gmtime().tm_year)"
    return int(forks.run(words, environment=environment).stdout)


@pytest.mark.timeout(300)
def test_clocks_ten_years_off_lose_nothing_and_count_nothing_twice(
    clock: Path, tmp_path: Path
) -> None:
    collection = Collection.make(tmp_path, crowd=CROWD, numbers=20)
    make_ledger(tmp_path)
    write_settings(tmp_path, collection.plan)
    sealed: dict[int, bytes] = {}
    with off_by(TEN_YEARS, clock, tmp_path, collection) as ahead:
        waited(lambda: keys_are_told(ahead))
        ahead.send([0, 1, 1], sealed)
        # The next key is made known; it takes over after its hour, as every key does.
        assert ahead.rotate() == [["active", "pending"]] * 2
        assert ahead.rotate() == [["active", "pending"]] * 2
        ahead.send([0, 2], sealed)
        waited(lambda: ahead.counts()["durable"] == 5)
        waited(lambda: ahead.counts()["pooled"] == 3)
        assert not ahead.released(), "three are no crowd, however long they wait"
        assert ahead.year() == this_year(clock, TEN_YEARS)
    with off_by(-TEN_YEARS, clock, tmp_path, collection) as behind:
        # Of a time to come the period starts again: nobody waits for twenty years.
        assert behind.rotate() == [["active", "pending"]] * 2
        now = this_year(clock, 0)
        years = [one.since / (365.25 * 86_400) + 1970 for one in collection.hops[0].entries]
        assert all(abs(year + 10 - now) < 2 for year in years)
        behind.send([2, 3], sealed)
        waited(lambda: behind.released().keys() == {0, 1, 2, 3})
        assert behind.rotate("--at-once") == [["expired", "active"]] * 2
    # At its start the hop asks for the keys of the analyzer, and later once a minute.
    with off_by(-TEN_YEARS, clock, tmp_path, collection) as behind:
        waited(lambda: keys_are_told(behind))
        # What was sealed for the old key is a copy under its key still.
        behind.send([3, 4, 5, 6, 7, 7], sealed)
        waited(lambda: behind.released().total() == 8)
        waited(behind.is_all_paid)
        waited(lambda: behind.counts()["durable"] == 13)
        found = behind.counts()
        assert behind.year() == this_year(clock, -TEN_YEARS)
    assert behind.released() == Counter(range(8))
    assert (found["opened"], found["duplicate"], found["batched"]) == (8, 5, 8)
    assert (found["rejected"], found["pooled"]) == (0, 0)
    ledger = Ledger.open(tmp_path / "ledger", mark=tmp_path / "mark")
    assert len(ledger.entries()) == 2


def keys_are_told(parties: Off) -> bool:
    """Return whether the collector gives out the lists of all keys as they are now."""
    plan = parties.collection.plan
    url = f"{parties.services['collector'].addresses[0]}/v1/plans/{plan.id}/key-lists"
    told = urllib3.request("GET", url, timeout=10, retries=False).data
    everyone = (*parties.collection.hops, parties.collection.analyzer)
    return told == b"".join(keys.key_list(plan.id) for keys in everyone)
