"""The analyzer on HTTP: receipts for what is durable, releases for ever, through kills and lies."""

from __future__ import annotations

import json
import signal
import sqlite3
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from functools import partial
from http.client import HTTPException
from pathlib import Path

import pytest

from chaffinch.disk.kill_points import VARIABLE
from chaffinch.release.surveys import read_release
from chaffinch.services.analyzer import AnalyzerSettings, AnalyzerWorker
from chaffinch.wire import media_types
from chaffinch.wire.problems import problem_word
from chaffinch.wire.sealed_batches import is_receipt
from tests.analysis.sealed import PEOPLE, Batch, LastHop, flips
from tests.forks import Forked
from tests.services.commands import waited
from tests.services.servers import Reply, Running
from tests.tiers import nightly

FRONT = """
import json, sys
from pathlib import Path
from chaffinch.keys import KeyFolder
from chaffinch.plans.plan import load_plan
from chaffinch.services.analyzer import AnalyzerFront
from chaffinch.services.batch_intake import BatchLimits
from chaffinch.services.server import Listener, run

folder = Path(sys.argv[1])
plans, keys = [load_plan(folder / "plan.json")], KeyFolder.open(folder / "keys")
limits = BatchLimits(free_bytes=0, **json.loads(sys.argv[2]))
front = AnalyzerFront(folder / "data", plans, keys, limits=limits)
run(
    [Listener(front.application)],
    background=[front.front.following_keys()],
    announce=lambda addresses: print(*addresses, flush=True),
)
"""
WORKER = """
import signal, sys, threading
from pathlib import Path
from chaffinch.keys import KeyFolder
from chaffinch.plans.plan import load_plan
from chaffinch.services.analyzer import AnalyzerSettings, AnalyzerWorker

folder, stop = Path(sys.argv[1]), threading.Event()
signal.signal(signal.SIGTERM, lambda *_: stop.set())
plans, keys = [load_plan(folder / "plan.json")], KeyFolder.open(folder / "keys")
settings = AnalyzerSettings(openers=int(sys.argv[2]), look_seconds=0.05)
with AnalyzerWorker(folder / "data", plans, keys, settings=settings, stop=stop) as worker:
    print("ready", flush=True)
    worker.run(tell=print)
"""


@pytest.fixture
def hop(tmp_path: Path) -> LastHop:
    made = LastHop.of(flips(), tmp_path)
    made.plan.save(tmp_path / "plan.json")
    return made


@contextmanager
def answering(
    folder: Path,
    *,
    program: str = FRONT,
    environment: Mapping[str, str] | None = None,
    **limits: int,
) -> Iterator[Running]:
    """Yield the front of an analyzer."""
    process = Forked(program, folder, json.dumps(limits), environment=environment)
    assert process.stdout is not None
    try:
        address = process.stdout.readline()
        assert address, process.communicate()[1]
        yield Running(process, int(address.rpartition(":")[2]))
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def address(hop: LastHop, *steps: str) -> str:
    return "/".join([f"/v1/plans/{hop.plan.id}", *steps])


def put(service: Running, hop: LastHop, batch: Batch, kind: str = media_types.BATCH) -> Reply:
    where = address(hop, "batches", batch.id)
    return service.ask("PUT", where, batch.content, {"content-type": kind})


def work(hop: LastHop, folder: Path) -> AnalyzerWorker:
    """Do what the worker does, until nothing is left."""
    settings = AnalyzerSettings(openers=1)
    with AnalyzerWorker(folder / "data", [hop.plan], hop.keys, settings=settings) as worker:
        while worker.step():
            pass
    assert worker.status.adds_up
    return worker


def test_nobody_waits_while_the_state_is_locked(hop: LastHop, tmp_path: Path) -> None:
    """The worker makes a large change: whoever asks is told when to come again."""
    batch = hop.batch(hop.crowd())
    with answering(tmp_path) as service:
        assert put(service, hop, batch).status == 201
        work(hop, tmp_path)
        asked = ("GET", "releases"), ("GET", "releases", batch.id), ("GET", "batches", batch.id)
        with closing(sqlite3.connect(tmp_path / "data" / "state.sqlite")) as owner:
            owner.execute("BEGIN EXCLUSIVE")
            start = time.monotonic()
            with ThreadPoolExecutor(len(asked)) as pool:
                replies = pool.map(lambda one: service.ask(one[0], address(hop, *one[1:])), asked)
            assert time.monotonic() - start < 8
            for reply in replies:
                assert (reply.status, problem_word(reply.content)) == (503, "overloaded")
                assert reply.headers["retry-after"] == "5"
        for method, *steps in asked:
            ask = partial(service.ask, method, address(hop, *steps))
            waited(lambda ask=ask: ask().status == 200)  # type: ignore[misc]
        assert service.stop()[0] == 0


def arrived(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "data" / "received").iterdir())


def test_a_batch_becomes_one_release(hop: LastHop, tmp_path: Path) -> None:
    batch = hop.batch(hop.crowd())
    identity = bytes.fromhex(hop.keys.identity_hex)
    with answering(tmp_path) as service:
        assert service.ask("GET", address(hop, "batches", batch.id)).status == 404
        first = put(service, hop, batch)
        assert first.status == 201
        assert is_receipt(batch.id, first.content, identity)
        again = [put(service, hop, batch), service.ask("GET", address(hop, "batches", batch.id))]
        listed = service.ask("GET", address(hop, "releases"))
        assert json.loads(listed.content)["releases"] == []
        for name in (batch.id, f"{batch.id}.json", f"{batch.id}.html"):
            assert service.ask("GET", address(hop, "releases", name)).status == 404
        work(hop, tmp_path)
        assert arrived(tmp_path) == []
        again += [put(service, hop, batch), service.ask("GET", address(hop, "batches", batch.id))]
        assert {(one.status, one.content) for one in again} == {(200, first.content)}
        work(hop, tmp_path)
        listed = service.ask("GET", address(hop, "releases"))
        expected = {"batch": batch.id, "round": 1, "reports": PEOPLE}
        assert json.loads(listed.content)["releases"] == [expected]
        documents = [
            service.ask("GET", address(hop, "releases", name))
            for name in (batch.id, f"{batch.id}.json", batch.id)
        ]
        assert len({one.content for one in documents}) == 1
        assert read_release(documents[0].content).reports == PEOPLE
        page = service.ask("GET", address(hop, "releases", f"{batch.id}.html"))
        assert page.headers["content-type"].startswith("text/html")
        assert b"value 3" in page.content
        code, out, err = service.stop()
    assert (code, err) == (0, "")
    assert batch.id not in out


def test_plan_and_keys_are_shown(hop: LastHop, tmp_path: Path) -> None:
    with answering(tmp_path) as service:
        plan = service.ask("GET", address(hop))
        assert plan.content == (tmp_path / "plan.json").read_bytes()
        keys = service.ask("GET", address(hop, "keys"))
        assert keys.content == hop.keys.key_list(hop.plan.id)
        assert service.ask("GET", f"/v1/plans/{'0' * 64}/releases").status == 404
        where = address(hop, "rounds", "1", "reports")
        assert service.ask("POST", where, b"x", {"content-type": media_types.REPORTS}).status == 404


REFUSED: dict[str, tuple[dict[str, object], str]] = {
    "another plan": ({"plan_id": "00" * 32}, "invalidMessage"),
    "another round": ({"round": 3}, "invalidMessage"),
    "another hop": ({"hop": 2}, "invalidMessage"),
    "too small": ({"reports": PEOPLE - 1}, "batchTooSmall"),
    "another key": ({"route": b"\x63" + bytes(31)}, "outdatedKeys"),
}


def test_what_is_not_due_is_refused_and_leaves_nothing(hop: LastHop, tmp_path: Path) -> None:
    good = hop.batch(hop.crowd())
    with answering(tmp_path, batch_bytes=len(good.content)) as service:

        def word(batch: Batch, kind: str = media_types.BATCH) -> str | None:
            return problem_word(put(service, hop, batch, kind).content)

        for said, expected in REFUSED.values():
            assert word(hop.batch(hop.crowd(), **said)) == expected
        assert word(good, "application/json") == "wrongType"
        assert word(Batch(good.id, good.content + b"\0")) == "tooLarge"
        assert word(Batch("ab" * 32, good.content)) == "damagedBatch"
        for place in (0, 10, 95, 700, len(good.content) - 1):
            changed = bytearray(good.content)
            changed[place] ^= 1
            assert word(Batch(good.id, bytes(changed))) in {
                "damagedBatch",
                "invalidMessage",
                "batchTooSmall",
            }
            assert word(Batch(good.id, good.content[:place])) == "damagedBatch"
        assert put(service, hop, Batch("ab" * 31, b"")).status == 404
        assert arrived(tmp_path) == []
        assert put(service, hop, good).status == 201
        assert service.stop()[0] == 0


def test_a_sender_who_goes_leaves_nothing(hop: LastHop, tmp_path: Path) -> None:
    batch = hop.batch(hop.crowd())
    with answering(tmp_path) as service:
        head = (
            f"PUT {address(hop, 'batches', batch.id)} HTTP/1.1\r\nhost: a\r\n"
            f"content-type: {media_types.BATCH}\r\ncontent-length: {len(batch.content)}\r\n\r\n"
        )
        connection = service.connect()
        connection.connect()
        assert connection.sock is not None
        connection.sock.sendall(head.encode() + batch.content[:-1])
        connection.close()
        assert put(service, hop, batch).status == 201
        assert service.stop()[0] == 0
    assert arrived(tmp_path) == [f"{batch.id}.batch"]


def test_eight_senders_of_one_batch_get_one_receipt(hop: LastHop, tmp_path: Path) -> None:
    batch = hop.batch(hop.crowd())
    found: list[Reply] = []
    with answering(tmp_path, at_once=8) as service:
        senders = [
            threading.Thread(target=lambda: found.append(put(service, hop, batch)))
            for _ in range(8)
        ]
        for one in senders:
            one.start()
        for one in senders:
            one.join()
        assert service.stop()[0] == 0
    assert {one.status for one in found} <= {200, 201}
    assert len({one.content for one in found}) == 1
    assert arrived(tmp_path) == [f"{batch.id}.batch"]


@pytest.mark.parametrize(
    "place", ["arrival.written", "arrival.synced", "arrival.named", "arrival.stored"]
)
def test_a_killed_front_takes_the_batch_again(hop: LastHop, tmp_path: Path, place: str) -> None:
    batch = hop.batch(hop.crowd())
    with (
        answering(tmp_path, environment={VARIABLE: place}) as service,
        pytest.raises((OSError, HTTPException)),
    ):
        put(service, hop, batch)
    with answering(tmp_path) as service:
        known = service.ask("GET", address(hop, "batches", batch.id))
        assert known.status == (200 if place in ("arrival.named", "arrival.stored") else 404)
        reply = put(service, hop, batch)
        assert is_receipt(batch.id, reply.content, bytes.fromhex(hop.keys.identity_hex))
    assert arrived(tmp_path) == [f"{batch.id}.batch"]
    assert work(hop, tmp_path).status.plans[hop.plan.id].released == 1


BROKEN = """
import os, stat
sync = os.fsync
def fail(number):
    if stat.S_ISREG(os.fstat(number).st_mode):
        raise OSError(5, "broken")
    sync(number)
os.fsync = fail
"""
FULL = """
import resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (2000, resource.RLIM_INFINITY))
"""


def test_a_disk_that_fails_ends_the_process_and_one_that_is_full_does_not(
    hop: LastHop, tmp_path: Path
) -> None:
    batch = hop.batch(hop.crowd())
    work(hop, tmp_path)
    with answering(tmp_path, program=BROKEN + FRONT) as service:
        with pytest.raises((OSError, HTTPException)):
            put(service, hop, batch)
        assert service.process.wait(20) == 5
    with answering(tmp_path, program=FULL + FRONT) as service:
        assert put(service, hop, batch).status == 503
        assert arrived(tmp_path) == []
        assert service.ask("GET", address(hop)).status == 200
        assert service.stop()[0] == 0
    with answering(tmp_path) as service:
        assert put(service, hop, batch).status == 201


@pytest.mark.parametrize("openers", [1, nightly(2)])
def test_front_and_worker_run_beside_one_another(
    hop: LastHop, tmp_path: Path, openers: int
) -> None:
    """A worker that is killed while the front goes on; another finishes what it had begun."""
    batches = [hop.batch(hop.crowd()) for _ in range(3)]
    killed = Forked(WORKER, tmp_path, openers, environment={VARIABLE: "analyzer.opened:2"})
    with answering(tmp_path) as service:
        assert [put(service, hop, one).status for one in batches] == [201] * 3
        assert killed.wait(30) == -signal.SIGKILL
        killed.communicate()
        worker = Forked(WORKER, tmp_path, openers)
        try:
            while len(released(service, hop)) < 3:
                assert worker.poll() is None, worker.communicate()
        finally:
            worker.send_signal(signal.SIGTERM)
            out, err = worker.communicate(timeout=30)
        assert (worker.returncode, out, err) == (0, "ready\n", "")
    counts = work(hop, tmp_path).status.plans[hop.plan.id]
    assert (counts.released, counts.replayed, counts.counted) == (3, 0, 3 * PEOPLE)


def released(service: Running, hop: LastHop) -> list[str]:
    reply = service.ask("GET", address(hop, "releases"))
    return [one["batch"] for one in json.loads(reply.content)["releases"]]


def test_what_is_held_is_told(hop: LastHop, tmp_path: Path) -> None:
    old = hop.crowd()
    hop.put(tmp_path / "data" / "received", hop.batch(old))
    work(hop, tmp_path)
    copied = hop.batch(old)
    hop.put(tmp_path / "data" / "received", copied)
    worker = work(hop, tmp_path)
    assert worker.status.held.keys() == {copied.id}
    assert "copies or junk" in worker.status.held[copied.id]
    counts = worker.status.plans[hop.plan.id]
    assert (counts.released, counts.short, counts.replayed) == (1, 1, len(old))


def test_a_canary_is_found_nowhere(hop: LastHop, tmp_path: Path) -> None:
    batch = hop.batch(hop.crowd())
    canary = "canary-7f3a"
    with answering(tmp_path) as service:
        headers = {"x-forwarded-for": canary, "cookie": canary, "user-agent": canary}
        given = {"content-type": media_types.BATCH, **headers}
        where = address(hop, "batches", batch.id)
        assert service.ask("PUT", where, batch.content, given).status == 201
        assert service.ask("GET", f"/{canary}", None, headers).status == 404
        _, out, err = service.stop()
    work(hop, tmp_path)
    found = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert not any(canary.encode() in path.read_bytes() for path in found)
    assert canary not in out + err
