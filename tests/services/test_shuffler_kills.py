"""The shuffler is killed at every place where it changes something, and goes on as if nothing was.

Each time: the same reports come out, each once, and no batch is below its crowd.
"""

from __future__ import annotations

import errno
import inspect
import os
import resource
import shutil
import sqlite3
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from chaffinch.disk import leftovers
from chaffinch.errors import Reason, StorageFault
from chaffinch.keys import KeyFolder, folder
from chaffinch.services.shuffler import Shuffler, ShufflerSettings
from chaffinch.shuffling.release_rule import ReleaseRule
from chaffinch.shuffling.report_work import ReportWork
from chaffinch.shuffling.state import State
from tests.services.oracle import Collection, Receiver, dies_at, port_of, receiving
from tests.services.test_shuffler import ones, sealed, shuffler

CROWD = 4
FIRST_HOP = [
    "opening.opened",
    "opening.taken",
    "opening.committed",
    "opening.removed",
    "outbox.ordering",
    "outbox.written",
    "outbox.named",
    "releasing.written",
    "releasing.taken",
    "releasing.committed",
]
LATER_HOP = [
    "relaying.claimed",
    "relaying.written",
    "relaying.committed",
    "outbox.ordering",
    "outbox.written",
    "outbox.named",
]
HANDING_OVER = ["forwarding.replied", "forwarding.acknowledged", "forwarding.removed"]


def work(collection: Collection, data: Path, hop: int = 1) -> None:
    with shuffler(collection, data, hop) as one:
        one.take()
        one.tick()
        assert one.status.adds_up


def forwarded(hop: Shuffler, data: Path) -> None:
    while sealed(data):
        hop.forward()


@pytest.mark.parametrize("place", FIRST_HOP)
def test_a_first_hop_that_is_killed_goes_on(tmp_path: Path, place: str) -> None:
    collection = Collection.make(tmp_path / "keys", crowd=CROWD)
    data = tmp_path / "data"
    reports = collection.seal(range(6))
    # Copies in one upload, in two segments, and of a report that is alone in its segment.
    collection.write_segment(data, [*reports[:4], reports[1]])
    collection.write_segment(data, [*reports[3:], reports[0]])
    collection.write_segment(data, reports[:1])
    for visit in (1, 2, 3):
        dead = dies_at(f"{place}:{visit}", lambda: work(collection, data))
        assert dead or visit > 1, "the first time it comes by"
    work(collection, data)
    assert collection.histogram(sealed(data)) == ones(*range(6))
    with shuffler(collection, data) as hop:
        # What was passed on is known when it comes again.
        collection.write_segment(data, reports)
        hop.take()
        hop.tick()
        counts = hop.status.plans[collection.plan.id]
        assert (counts.durable, counts.opened, counts.duplicate) == (16, 6, 10)
        assert counts.batched == 6
    assert collection.histogram(sealed(data)) == ones(*range(6))


@pytest.mark.parametrize("place", LATER_HOP)
def test_a_later_hop_that_is_killed_goes_on(tmp_path: Path, place: str) -> None:
    collection = Collection.make(tmp_path / "keys", crowd=CROWD, hops=2)
    before, after = tmp_path / "first", tmp_path / "second"
    collection.write_segment(before, collection.seal(range(5)))
    work(collection, before)
    ((name, content),) = [(path.name, path.read_bytes()) for path in (before / "outbox").iterdir()]
    (after / "received").mkdir(parents=True)
    (after / "received" / name).write_bytes(content)
    assert dies_at(place, lambda: work(collection, after, 2))
    work(collection, after, 2)
    assert collection.histogram(sealed(after)) == ones(*range(5))
    (after / "received" / name).write_bytes(content)
    work(collection, after, 2)
    assert collection.histogram(sealed(after)) == ones(*range(5))


@pytest.mark.parametrize("place", HANDING_OVER)
def test_a_hand_over_that_is_killed_goes_on(tmp_path: Path, place: str) -> None:
    collection = Collection.make(tmp_path / "keys", crowd=CROWD)
    data = tmp_path / "data"
    collection.write_segment(data, collection.seal(range(5)))
    work(collection, data)
    receiver = Receiver(collection, collection.analyzer)

    def hand_over() -> None:
        with shuffler(collection, data) as hop:
            forwarded(hop, data)
            hop.forward()

    with receiving(receiver, port_of(collection.plan, "analyzer")):
        assert dies_at(place, hand_over)
        with shuffler(collection, data) as hop:
            forwarded(hop, data)
            hop.forward()
            hop.tick()
            assert hop.status.batches == {"sealed": 0, "acknowledged": 0, "purged": 1}
    assert receiver.histogram == ones(*range(5))
    assert Counter(receiver.requests)["PUT"] == 1, "it is asked first whether it has the batch"


def test_the_id_of_a_destroyed_key_is_that_of_no_other(tmp_path: Path) -> None:
    """Ids are used again: what was known of the key before says nothing of the next one."""
    collection, data = Collection.make(tmp_path / "keys", crowd=CROWD), tmp_path / "data"
    keys = collection.hops[0]
    (old,) = keys.opening_keys()
    with shuffler(collection, data, grace=0.0) as hop:
        hop.take()
        keys.rotate(at_once=True)
        keys.close(old)
        hop.take()
        hop.tick()
        keys.refresh()
        assert old not in keys.opening_keys()
        collection.write_segment(data, collection.seal([1]))
        assert hop.needs_key(old), "another key may have this id, and a report waits"


def test_a_key_whose_file_could_not_be_wiped_is_gone_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a full disk: it opens nothing, its tags go, and its file when there is room again."""
    collection, data = Collection.make(tmp_path / "keys", crowd=CROWD), tmp_path / "data"
    keys = collection.hops[0]
    (old,) = keys.opening_keys()
    file = keys.path / f"key-{old:03d}.json"

    def full(_: Path) -> None:
        raise StorageFault("full", reason=Reason.NO_SPACE)

    with shuffler(collection, data, grace=0.0) as hop:
        collection.write_segment(data, collection.seal(range(3)))
        hop.take()
        keys.rotate(at_once=True)
        keys.close(old)
        hop.take()
        with monkeypatch.context() as patched:
            patched.setattr(folder, "_wipe", full)
            assert not hop._goes_on(hop.tick)  # noqa: SLF001
            assert hop._goes_on(hop.take)  # noqa: SLF001
        assert file.exists()
        work = hop._works[-1]  # noqa: SLF001
        assert isinstance(work, ReportWork)
        assert old not in work._opening.opening  # noqa: SLF001
        with closing(sqlite3.connect(data / "state.sqlite")) as state:
            assert state.execute("SELECT COUNT(*) FROM tags").fetchone() == (0,)
        hop.tick()
        assert not file.exists()


def test_a_command_that_holds_the_keys_does_not_end_a_service(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have been stopped in a terminal; its lock is waited for, and the next tick asks."""
    monkeypatch.setitem(inspect.unwrap(leftovers.alone_in).__kwdefaults__, "patience", 0.05)
    collection, data = Collection.make(tmp_path / "keys", crowd=CROWD), tmp_path / "data"
    keys = collection.hops[0]
    (old,) = keys.opening_keys()
    keys.rotate(at_once=True)
    keys.close(old)
    with shuffler(collection, data, grace=0.0) as hop:
        hop.take()
        with leftovers.alone_in(keys.path, "keys"):
            assert not hop._goes_on(hop.tick)  # noqa: SLF001
        assert hop._goes_on(hop.tick)  # noqa: SLF001
        keys.refresh()
        assert old not in keys.opening_keys()


def test_tags_go_with_their_key_and_it_waits_for_what_was_taken(tmp_path: Path) -> None:
    collection = Collection.make(tmp_path / "keys", crowd=CROWD)
    data = tmp_path / "data"
    reports = collection.seal(range(3))
    collection.write_segment(data, reports)
    work(collection, data)
    keys = collection.hops[0]
    (old,) = keys.opening_keys()
    late = collection.seal([7])
    keys.rotate(at_once=True)
    keys.close(old)
    unfinished = data / "inbox" / "0.open"
    unfinished.touch()
    with shuffler(collection, data, grace=0.0) as hop:
        hop.tick()
        assert old in keys.opening_keys(), "a segment that is not sealed may need it"
        collection.write_segment(data, late)
        unfinished.unlink()
        hop.take()

    def destroy() -> None:
        with shuffler(collection, data, grace=0.0) as hop:
            hop.tick()

    assert dies_at("opening.forgotten", destroy)
    keys.refresh()
    assert old not in keys.opening_keys()
    collection.write_segment(data, [*reports, *collection.seal([8])])
    with shuffler(collection, data) as hop:
        hop.take()
        hop.tick()
        counts = hop.status.plans[collection.plan.id]
    assert (counts.destroyed_key, counts.opened, counts.batched) == (3, 5, 4)
    assert collection.histogram(sealed(data)) == ones(0, 1, 2, 7)


@contextmanager
def no_room() -> Iterator[None]:
    """Let no file grow beyond a few bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    collection = Collection.make(tmp_path / "keys", crowd=CROWD)
    data = tmp_path / "data"
    with shuffler(collection, data, interval_seconds=0.0, look_seconds=0.0) as hop:
        collection.write_segment(data, collection.seal(range(5)))
        hop.take()
        with no_room(), pytest.raises(StorageFault) as caught:
            hop.tick()
        assert caught.value.reason is Reason.NO_SPACE
        assert not list((data / "outbox").iterdir())
        counts = hop.overview().counts[collection.plan.id]
        assert (counts.pooled, counts.batched) == (5, 0)
        # The service goes on by itself when there is room.
        stop, full = hop.stop, no_room()
        full.__enter__()
        waits = []

        def wait(seconds: float) -> bool:
            waits.append(seconds)
            if len(waits) == 3:
                full.__exit__(None, None, None)
            return stop.is_set()

        monkeypatch.setattr(stop, "wait", wait)
        hop.run(stop.set)
    assert max(waits) > 1.0
    assert collection.histogram(sealed(data)) == ones(*range(5))


def test_what_a_full_disk_has_undone_does_not_fill_it_further(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of three batches of one release the first is written, and there is no room for the next."""
    collection = Collection.make(tmp_path / "keys", crowd=CROWD)
    data = tmp_path / "data"
    rule = ReleaseRule(largest_batch=8)
    with shuffler(collection, data, interval_seconds=0.0, look_seconds=0.0, rule=rule) as hop:
        collection.write_segment(data, collection.seal(range(21)))
        hop.take()
        stop, full = hop.stop, no_room()

        def written(place: str) -> None:
            if place == "outbox.named":
                full.__enter__()

        def wait(_: float) -> bool:
            stop.set()
            return True

        monkeypatch.setattr("chaffinch.shuffling.batch_outbox.kill_point", written)
        monkeypatch.setattr(stop, "wait", wait)
        try:
            hop.run()
        finally:
            full.__exit__(None, None, None)
        assert not list((data / "outbox").iterdir())
        monkeypatch.undo()
        hop.tick()
    assert collection.histogram(sealed(data)) == ones(*range(21))


def test_a_full_disk_does_not_keep_batches_from_leaving_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is handed over is purged: on a full disk nothing else makes room."""
    collection = Collection.make(tmp_path / "keys", crowd=CROWD)
    data = tmp_path / "data"
    receiver = Receiver(collection, collection.analyzer)
    with (
        receiving(receiver, port_of(collection.plan, "analyzer")),
        shuffler(collection, data, look_seconds=0.0) as hop,
    ):
        collection.write_segment(data, collection.seal(range(5)))
        hop.take()
        hop.tick()
        stop = hop.stop

        def no_room_to_take() -> None:
            raise StorageFault("The disk must have room. Got a full one.", reason=Reason.NO_SPACE)

        def wait(_: float) -> bool:
            time.sleep(0.01)
            if not sealed(data) or time.monotonic() > last:
                stop.set()
            return True

        last = time.monotonic() + 20.0
        monkeypatch.setattr(hop, "take", no_room_to_take)
        monkeypatch.setattr(stop, "wait", wait)
        hop.run()
    assert receiver.histogram == ones(*range(5))
    assert not sealed(data)


def test_what_waits_for_its_key_is_opened_when_the_disk_has_room_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    collection = Collection.make(tmp_path / "keys", crowd=CROWD)
    data, place = tmp_path / "data", collection.hops[0].path
    old = shutil.copytree(place, tmp_path / "old")
    collection.hops[0].rotate(at_once=True)
    collection.write_segment(data, collection.seal(range(5)))
    with Shuffler(data, KeyFolder.open(old), [collection.plan], ShufflerSettings(openers=1)) as hop:
        collection.show_keys(hop)
        hop.take()
        assert hop.overview().counts[collection.plan.id].waiting == 5
        shutil.copytree(place, old, dirs_exist_ok=True)
        with monkeypatch.context() as patch:
            patch.setattr(State, "changing", full)
            with pytest.raises(StorageFault):
                hop.take()
        hop.take()
        counts = hop.overview().counts[collection.plan.id]
    assert (counts.waiting, counts.opened) == (0, 5)


def full(_: State) -> None:
    raise StorageFault("The disk must have room. Got a full one.", reason=Reason.NO_SPACE)


def test_a_long_backlog_keeps_nobody_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stop and a tick come between segments, however many there are."""
    monkeypatch.setattr("chaffinch.shuffling.report_work._SEGMENTS_AT_ONCE", 8)
    collection = Collection.make(tmp_path / "keys", crowd=CROWD)
    data = tmp_path / "data"
    (report,) = collection.seal([0])
    for _ in range(20):
        collection.write_segment(data, [report])
    with shuffler(collection, data, interval_seconds=0.0, look_seconds=0.0) as hop:
        hop.run(hop.stop.set)
        assert hop.status.segments == 12
        hop.stop.clear()
        while hop.status.segments:
            hop.take()
            hop.tick()
        counts = hop.status.plans[collection.plan.id]
    assert (counts.durable, counts.opened, counts.duplicate) == (20, 1, 19)


@pytest.mark.parametrize("number", range(1, 4))
def test_a_disk_that_fails_to_sync_ends_the_service_and_loses_nothing(
    tmp_path: Path, number: int
) -> None:
    collection = Collection.make(tmp_path / "keys", crowd=CROWD)
    data = tmp_path / "data"
    collection.write_segment(data, collection.seal(range(5)))
    with shuffler(collection, data, interval_seconds=0.0, look_seconds=0.0) as hop:
        calls = []

        def failing(_: int) -> None:
            calls.append(1)
            if len(calls) == number:
                raise OSError(errno.EIO, "")

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, "fsync", failing)
            with pytest.raises(StorageFault, match="an error of the disk"):
                hop.run(hop.stop.set)
        assert not hop.stop.is_set(), "it went on after an error"
    work(collection, data)
    assert collection.histogram(sealed(data)) == ones(*range(5))
