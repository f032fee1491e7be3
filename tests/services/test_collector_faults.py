"""What the collector has acknowledged is there after kills, on a full disk and a broken one."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import threading
import time
from http.client import HTTPException
from pathlib import Path

import pytest

from chaffinch.disk.kill_points import VARIABLE
from chaffinch.services.group_commit import GroupCommit, InboxLimits
from chaffinch.shuffling.inbox import Upload, read_segment, sealed_segments
from chaffinch.wire import media_types
from chaffinch.wire.problems import Problem
from tests.services.commands import waited
from tests.services.servers import COLLECTOR, Running, Site, collecting, make_site

REPORTS = {"content-type": media_types.REPORTS}


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


def _sent_when_taken(service: Running, site: Site, number: int) -> list[int]:
    """Send a report again and again until it is taken."""

    def is_taken() -> bool:
        try:
            return service.post(site.path(), site.reports(1, first=number)) == 201
        except (OSError, HTTPException):
            return False

    waited(is_taken)
    return [number]


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
    for visit in (1, 2):
        with collecting(site, small, environment={VARIABLE: f"{place}:{visit}"}) as service:
            told += _send(service, site, range(100 * visit, 100 * visit + 20))
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


# ----------------------------------------------------------------------------
# A disk that is full, or fails.

FAILING = """
import errno, os
sync, left = os.fdatasync, [3]

def fail(number):
    left[0] -= 1
    if left[0] == 0:
        raise OSError(errno.EIO, "")
    sync(number)

os.fdatasync = fail
"""


def test_a_failed_sync_ends_the_process_and_is_never_told_to_be_done(site: Site) -> None:
    with collecting(site, program=FAILING + COLLECTOR) as service:
        told = _send(service, site, range(20))
        assert service.process.wait(20) == 5
        _, err = service.process.communicate()
    assert told == [0, 1]
    assert "an error of the disk" in err
    assert {0, 1} <= set(site.numbers())


def _fill(service: Running, site: Site, first: int) -> tuple[list[int], list[int]]:
    """Send reports until one is refused; return what was acknowledged, and all statuses."""
    told: list[int] = []
    statuses: list[int] = []
    for start in range(first, first + 100_000, 50):
        statuses.append(service.post(site.path(), site.reports(50, first=start)))
        if statuses[-1] != 201:
            break
        told += range(start, start + 50)
    return told, statuses


def test_a_full_disk_is_told_and_takes_again_when_there_is_space(site: Site) -> None:
    data = site.folder / "hop1" / "data"
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(data)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("nobody may mount a disk here: the test below has a limit on files instead")
    try:
        chosen = {"inbox": {"free_bytes": 0, "segment_bytes": 50_000}}
        with collecting(site, chosen) as service:
            told, statuses = _fill(service, site, 0)
            assert statuses[-1] == 503
            assert len(told) > 1000
            for path in sealed_segments(data / "inbox")[:5]:
                gone = {_number(site, path, place) for place in range(_count(site, path))}
                told = [number for number in told if number not in gone]
                path.unlink()
            more = _sent_when_taken(service, site, 999_999)
            told_now, statuses = _fill(service, site, 1_000_000)
            more += told_now
            assert statuses[-1] == 503
            assert service.stop()[0] == 0
        assert set(told + more) <= set(site.numbers())
    finally:
        subprocess.run(["umount", data], check=True)  # noqa: S607 - where the system has it


def test_a_write_that_fails_half_way_leaves_nothing_of_it(site: Site) -> None:
    limit = "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (70_000, 70_000))\n"
    chosen = {"inbox": {"free_bytes": 0, "segment_seconds": 0.3}}
    with collecting(site, chosen, program=limit + COLLECTOR) as service:
        told, statuses = _fill(service, site, 0)
        assert statuses[-1] == 503
        # The segment is sealed by its age, and the next one has room.
        waited(lambda: sealed_segments(site.folder / "hop1" / "data" / "inbox"))
        told += _sent_when_taken(service, site, 999_999)
        more, statuses = _fill(service, site, 1_000_000)
        assert statuses[0] == 201
        assert service.stop()[0] == 0
    assert sorted(site.numbers()) == told + more


def test_little_free_space_is_left_to_others(site: Site) -> None:
    with collecting(site, {"inbox": {"free_bytes": 1 << 60}}) as service:
        reply = service.ask("POST", site.path(), site.reports(1), REPORTS)
        assert (reply.status, reply.headers["retry-after"]) == (503, "1")
        service.stop()


def test_a_plan_has_a_quota_until_its_reports_are_opened(site: Site) -> None:
    chosen = {"inbox": {"free_bytes": 0, "plan_bytes": 100_000, "segment_seconds": 0.1}}
    with collecting(site, chosen) as service:
        told, statuses = _fill(service, site, 0)
        assert statuses[-1] == 503
        assert 50_000 < len(told) * site.plan.layout.report_length <= 100_000
        service.stop()
    with collecting(site, chosen) as service:
        assert service.post(site.path(), site.reports(50)) == 503
        for path in sealed_segments(site.folder / "hop1" / "data" / "inbox"):
            path.unlink()
        waited(lambda: service.post(site.path(), site.reports(50)) == 201)
        service.stop()


SLOW = """
import os, time
sync = os.fdatasync
os.fdatasync = lambda number: (time.sleep(0.7), sync(number))
"""


def test_what_waits_in_memory_has_an_end(site: Site) -> None:
    statuses: list[int] = []
    chosen = {"collector": {"pending_bytes": 25_000}}
    with collecting(site, chosen, program=SLOW + COLLECTOR) as service:

        def send(place: int) -> None:
            body = site.reports(20, first=20 * place)
            statuses.append(service.post(site.path(), body))

        senders = [threading.Thread(target=send, args=(place,)) for place in range(12)]
        for one in senders:
            one.start()
        for one in senders:
            one.join()
        service.stop()
    assert set(statuses) == {201, 503}
    assert len(site.numbers()) == 20 * statuses.count(201)


def test_bodies_that_do_not_end_leave_room_when_their_senders_go(site: Site) -> None:
    body = site.reports(100)
    head = f"POST {site.path()} HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n"
    start = f"{head}content-type: {media_types.REPORTS}\r\n\r\n".encode() + body[:-1]
    with collecting(site, {"collector": {"pending_bytes": 5 * len(body)}}) as service:
        held = [socket.create_connection(("127.0.0.1", service.port)) for _ in range(5)]
        for one in held:
            one.sendall(start)
        waited(lambda: service.post(site.path(), body) == 503)
        for one in held:
            one.close()
        waited(lambda: service.post(site.path(), body) == 201)
        for _ in range(10):  # What was refused has given its room back, too.
            assert service.post(site.path(), body) == 201
        service.stop()


def test_a_stop_answers_what_is_under_way(site: Site) -> None:
    statuses: list[int] = []
    with collecting(site, program=SLOW + COLLECTOR) as service:
        sender = threading.Thread(
            target=lambda: statuses.append(service.post(site.path(), site.reports(1)))
        )
        sender.start()
        time.sleep(0.3)
        code, _, err = service.stop()
        sender.join()
    assert (statuses, code, err) == ([201], 0, "")
    assert site.numbers() == [0]
    assert not list((site.folder / "hop1" / "data" / "inbox").glob("*.open"))


def _count(site: Site, path: Path) -> int:
    length = site.plan.layout.report_length
    return sum(len(upload.reports) for upload in read_segment(path)) // length


def _number(site: Site, path: Path, place: int) -> int:
    content = b"".join(upload.reports for upload in read_segment(path))
    start = place * site.plan.layout.report_length
    return int.from_bytes(content[start + 7 : start + 15], "big")


def test_looks_at_a_slow_folder_do_not_queue_before_uploads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A shuffler that was away for days leaves a folder in which a look takes long."""
    looks, scan = [], os.scandir

    def slow(folder: Path) -> object:
        looks.append(folder)
        time.sleep(0.1)
        return scan(folder)

    async def run() -> int:
        async with GroupCommit(tmp_path / "inbox", InboxLimits(free_bytes=0)) as inbox:
            await asyncio.sleep(1.0)
            await inbox.put(Upload("ab" * 32, 1, b"report"))
            return inbox._jobs.qsize()  # noqa: SLF001 - what waits for the disk

    monkeypatch.setattr("chaffinch.services.group_commit.os.scandir", slow)
    monkeypatch.setattr("chaffinch.services.group_commit._PAUSE", 0.08)
    assert asyncio.run(run()) == 0
    assert len(looks) <= 4, "each is followed by other work for twenty times as long"


def test_what_was_opened_makes_room_for_its_plan(tmp_path: Path) -> None:
    plans = ["ab" * 32, "cd" * 32]
    limits = InboxLimits(free_bytes=0, plan_bytes=100, segment_bytes=1)

    async def run() -> None:
        async with GroupCommit(tmp_path / "inbox", limits) as inbox:
            for plan_id in plans:
                await inbox.put(Upload(plan_id, 1, bytes(100)))
            with pytest.raises(Problem):
                await inbox.put(Upload(plans[0], 1, bytes(1)))
            for path in sealed_segments(tmp_path / "inbox"):
                if read_segment(path)[0].plan_id == plans[0]:
                    path.unlink()
            await asyncio.sleep(0.6)
            await inbox.put(Upload(plans[0], 1, bytes(100)))
            with pytest.raises(Problem):
                await inbox.put(Upload(plans[1], 1, bytes(1)))

    asyncio.run(run())


# ----------------------------------------------------------------------------
# Senders who hold everything that a process may open.

FEW_FILES = """
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, ({soft}, {hard}))
"""


@pytest.mark.parametrize(("soft", "hard"), [(200, 4096), (520, 520)])
def test_strangers_with_many_connections_do_not_end_the_service(
    site: Site, soft: int, hard: int
) -> None:
    program = FEW_FILES.format(soft=soft, hard=hard) + COLLECTOR
    with collecting(site, program=program) as service:
        place = ("127.0.0.1", service.port)
        held = [socket.create_connection(place, 5) for _ in range(600)]
        time.sleep(0.5)
        assert service.process.poll() is None
        for one in held:
            one.close()
        assert _sent_when_taken(service, site, 0) == [0]
        assert service.stop()[0] == 0
    assert site.numbers() == [0]
