"""What the collector has acknowledged is there after kills, on a full disk and a broken one."""

from __future__ import annotations

import signal
import threading
from http.client import HTTPException
from pathlib import Path

import pytest

from chaffinch.storage.failpoints import VARIABLE
from tests.services.servers import COLLECTOR, Running, Site, collecting, make_site


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return make_site(tmp_path)


def _send(service: Running, site: Site, numbers: range) -> list[int]:
    """Send reports one by one until the service dies; return what was acknowledged."""
    told = []
    for number in numbers:
        try:
            status = service.post(site.path(), site.reports(1, first=number))
        except (OSError, HTTPException):
            break
        assert status == 201
        told.append(number)
    return told


@pytest.mark.parametrize(
    "place",
    [
        "collector.read",
        "inbox.created",
        "inbox.written",
        "inbox.synced",
        "inbox.sealing",
        "inbox.sealed",
    ],
)
def test_what_was_told_is_there_after_two_kills(site: Site, place: str) -> None:
    small = {"inbox": {"free_bytes": 0, "segment_bytes": 500}}
    told = []
    for time in (1, 2):
        with collecting(site, small, environment={VARIABLE: f"{place}:{time}"}) as service:
            told += _send(service, site, range(100 * time, 100 * time + 20))
            assert service.process.wait(20) == -signal.SIGKILL
    with collecting(site, small) as service:
        more = _send(service, site, range(5))
        assert service.stop()[0] == 0
    kept = site.numbers()
    assert more == list(range(5))
    assert {*told, *more} <= set(kept)
    assert len(kept) == len(set(kept)) <= len(told) + 2 + 5


PLANTED = """
from chaffinch.services import group_commit

async def put(self, upload):
    self._jobs.put([upload])

group_commit.GroupCommit.put = put
group_commit.GroupCommit._finish = lambda *_: None
"""


def test_an_answer_before_the_sync_is_caught(site: Site) -> None:
    """The planted fault: whoever acknowledges first loses what it has acknowledged."""
    program = PLANTED + COLLECTOR
    with collecting(site, environment={VARIABLE: "inbox.created"}, program=program) as service:
        told = _send(service, site, range(1))
        service.process.wait(20)
    assert not set(told) <= set(site.numbers())


def test_eight_senders_of_the_same_bytes_are_all_told_the_truth(site: Site) -> None:
    statuses: list[int] = []
    with collecting(site) as service:

        def send() -> None:
            statuses.extend(service.post(site.path(), site.reports(3)) for _ in range(5))

        senders = [threading.Thread(target=send) for _ in range(8)]
        for one in senders:
            one.start()
        for one in senders:
            one.join()
        service.stop()
    assert statuses == [201] * 40
    assert sorted(site.numbers()) == sorted([0, 1, 2] * 40)
