"""The shuffler at work: every acknowledged report in one batch with its crowd, whatever happens."""

from __future__ import annotations

import errno
import http.server
import io
import os
import secrets
import sqlite3
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from chaffinch.disk import databases, stores
from chaffinch.errors import StorageFault
from chaffinch.keys import KeyFolder
from chaffinch.keys.folder import GRACE
from chaffinch.services.shuffler import Shuffler, ShufflerSettings
from chaffinch.shuffling import open_envelopes, report_work
from chaffinch.shuffling.forwarding import Patience
from chaffinch.shuffling.inbox import Salvage, SegmentWriter, Upload, read_segment, salvage
from chaffinch.shuffling.open_envelopes import HopKeys
from chaffinch.shuffling.release_rule import ReleaseRule
from chaffinch.shuffling.state import is_relayed, overview_of
from chaffinch.wire.problems import Kind, Problem
from chaffinch.wire.sealed_batches import (
    HEAD_LENGTH,
    START_LENGTH,
    BatchHead,
    blocks_of,
    check_batch,
    write_batch,
)
from tests.engines.plans import clear
from tests.services.oracle import (
    Collection,
    Receiver,
    bad_sector,
    dies_at,
    port_of,
    receiving,
)

QUICK = Patience(connect=2.0, reply=2.0, first_pause=0.01, longest_pause=0.02)


def shuffler(
    collection: Collection, data: Path, hop: int = 1, *, grace: float = GRACE, **more: object
) -> Shuffler:
    """Return a hop at work; a first one has seen the keys of all behind it."""
    chosen: dict[str, Any] = {"openers": 1, "patience": QUICK, "key_pause_seconds": 0.0, **more}
    keys = KeyFolder.open(collection.hops[hop - 1].path)
    settings = ShufflerSettings(**chosen)
    made = Shuffler(data, keys, [collection.plan], settings, key_grace_seconds=grace)
    if hop == 1:
        collection.show_keys(made)
    return made


def test_batches_of_changes_that_a_reader_has_undone_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(databases, "_PATIENCE", 0.1)
    collection, data = Collection.make(tmp_path / "keys", crowd=3), tmp_path / "data"
    with shuffler(collection, data) as hop:
        collection.write_segment(data, collection.seal(range(3)))
        hop.take()
        with closing(sqlite3.connect(data / "state.sqlite", isolation_level=None)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT * FROM clock").fetchall()
            # On a busy machine a tick may lose its patience before it has written a batch.
            while len(sealed(data)) < 2:
                assert not hop._goes_on(hop.tick)  # noqa: SLF001
        assert hop._goes_on(hop.tick)  # noqa: SLF001
        assert len(sealed(data)) == 1
        assert hop.status.batches["sealed"] == 1


def test_what_is_on_its_way_holds_its_key_under_any_name(tmp_path: Path) -> None:
    collection, data = Collection.make(tmp_path / "keys", hops=2), tmp_path / "data"
    with shuffler(collection, data, hop=2) as hop:
        draft = data / "received" / f".{'ab' * 32}.batch.{'0' * 16}.part"
        draft.touch()
        assert hop.needs_key(1)
        draft.rename(data / "received" / f"{'ab' * 32}.batch")
        assert hop.needs_key(1), "it has arrived, and is not opened"


def test_a_report_with_nothing_in_it_spoils_no_crowd(tmp_path: Path) -> None:
    """The analyzer would refuse the batch, and the honest reports in it were gone."""
    collection, data = Collection.make(tmp_path / "keys", crowd=4), tmp_path / "data"
    plan = collection.plan
    sealer = collection.sealer
    loose = replace(plan.layout, fixed_slots=0)
    nothing = sealer.wrap(loose.pack(sealer._route, []), 1)  # noqa: SLF001
    with shuffler(collection, data) as hop:
        collection.write_segment(data, [*collection.seal(range(3)), nothing])
        hop.take()
        hop.tick()
        assert hop.status.plans[plan.id].malformed == 1
        assert not sealed(data), "the crowd is not there"
        collection.write_segment(data, collection.seal([3]))
        hop.take()
        hop.tick()
        assert hop.status.plans[plan.id].batched == 4
    assert len(sealed(data)) == 1


def sealed(data: Path) -> list[bytes]:
    return [path.read_bytes() for path in sorted((data / "outbox").glob("*.batch"))]


def ones(*numbers: int) -> Counter[int]:
    return Counter(dict.fromkeys(numbers, 1))


@pytest.fixture(name="collection")
def _collection(tmp_path: Path) -> Collection:
    return Collection.make(tmp_path / "keys")


def test_reports_leave_when_their_crowd_is_there(collection: Collection, tmp_path: Path) -> None:
    data = tmp_path / "data"
    with shuffler(collection, data) as hop:
        collection.write_segment(data, collection.seal(range(3)))
        hop.take()
        hop.tick()
        assert not sealed(data), "three of four"
        assert hop.status.plans[collection.plan.id].pooled == 3
        collection.write_segment(data, collection.seal([3]))
        hop.take()
        hop.tick()
        assert collection.histogram(sealed(data)) == ones(0, 1, 2, 3)
        counts = hop.status.plans[collection.plan.id]
        assert (counts.durable, counts.opened, counts.batched, counts.pooled) == (4, 4, 4, 0)
        assert hop.status.adds_up
    assert not list((data / "inbox").iterdir())


def test_a_cascade_of_three_hops(tmp_path: Path) -> None:
    collection = Collection.make(tmp_path / "keys", hops=3)
    first, second, third = (tmp_path / f"data{number}" for number in (1, 2, 3))
    with (
        shuffler(collection, first) as one,
        shuffler(collection, second, 2) as two,
        shuffler(collection, third, 3) as three,
    ):
        # Just as many as the plan counts on.
        collection.write_segment(first, collection.seal(range(4)))
        one.take()
        one.tick()
        for before, after, hop in ((first, second, two), (second, third, three)):
            for path in (before / "outbox").iterdir():
                (after / "received" / path.name).write_bytes(path.read_bytes())
            hop.take()
            hop.tick()
            assert hop.status.adds_up
            assert hop.status.batches == {"sealed": 1, "acknowledged": 0, "purged": 0}
            assert not list((after / "received").iterdir())
        assert collection.histogram(sealed(third)) == ones(*range(4))


@pytest.mark.parametrize(
    "faults",
    [
        [],
        ["drop-request"],
        ["", "drop-request"],
        ["", "drop-reply"],
        ["drop-reply", "", "drop-reply", "drop-reply"],
        ["busy", "", "busy"],
        ["forged", "", "forged"],
        ["long", "", "long"],
    ],
)
def test_a_batch_is_offered_until_there_is_a_receipt(
    collection: Collection, tmp_path: Path, faults: list[str]
) -> None:
    data = tmp_path / "data"
    receiver = Receiver(collection, collection.analyzer, list(faults))
    with (
        receiving(receiver, port_of(collection.plan, "analyzer")),
        shuffler(collection, data) as hop,
    ):
        collection.write_segment(data, collection.seal(range(4)))
        hop.take()
        hop.tick()
        (name,) = [path.stem for path in (data / "outbox").iterdir()]
        while sealed(data):
            hop.forward()
        hop.tick()
        assert hop.status.batches == {"sealed": 0, "acknowledged": 0, "purged": 1}
        assert list(receiver.batches) == [name]
    assert receiver.histogram == ones(*range(4))


def test_a_stranger_s_words_are_not_counted(collection: Collection, tmp_path: Path) -> None:
    """Whoever answers in place of the next party could fill memory and figures with them."""

    class Stranger(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            word = secrets.token_hex(8).encode()
            body = Problem(Kind.FAILED).body().replace(b'failed"', word + b'"', 1)
            self.send_response(500)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    data = tmp_path / "data"
    place = ("127.0.0.1", port_of(collection.plan, "analyzer"))
    with http.server.HTTPServer(place, Stranger) as server, shuffler(collection, data) as hop:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        collection.write_segment(data, collection.seal(range(4)))
        hop.take()
        hop.tick()
        last = time.monotonic() + 20.0
        while hop.status.attempts.get("the status 500", 0) < 3 and time.monotonic() < last:
            hop.forward()
            hop.tick()
        server.shutdown()
        assert set(hop.status.attempts) == {"the status 500"}
        # Why the batch stays is told to whoever looks at the store.
        (unsent,) = overview_of(data / "state.sqlite").unsent[collection.plan.id]
        assert unsent.why == "the status 500"


def test_more_than_the_largest_batch_is_split_at_random(
    collection: Collection, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    with shuffler(collection, data, rule=ReleaseRule(largest_batch=8)) as hop:
        for start in range(0, 21, 7):
            collection.write_segment(data, collection.seal(range(start, start + 7)))
        hop.take()
        hop.tick()
        assert hop.status.adds_up
    found = [collection.numbers_in(content) for content in sealed(data)]
    assert [sum(one.values()) for one in found] == [7, 7, 7]
    assert sum(found, Counter()) == ones(*range(21))


def test_it_runs_until_it_is_stopped_and_stopping_releases_nothing(
    collection: Collection, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    receiver = Receiver(collection, collection.analyzer)
    ticks = []
    collection.write_segment(data, collection.seal(range(5)))
    with (
        receiving(receiver, port_of(collection.plan, "analyzer")),
        shuffler(collection, data, interval_seconds=0.05, look_seconds=0.01) as hop,
    ):

        def ticked() -> None:
            ticks.append(hop.status)
            if hop.status.batches["purged"] == 1 and len(ticks) % 5 == 0:
                # Now three of four come, and it is stopped when they are there.
                if hop.status.plans[collection.plan.id].pooled:
                    hop.stop.set()
                elif not hop.status.segments:
                    collection.write_segment(data, collection.seal(range(5, 8)))

        hop.run(ticked)
    assert receiver.histogram == ones(*range(5))
    assert not sealed(data)
    overview = overview_of(data / "state.sqlite")
    assert overview.counts[collection.plan.id].pooled == 3
    assert overview.batches == {collection.plan.id: {"purged": 1}}
    assert all(status.adds_up for status in ticks)


@pytest.mark.parametrize("place", [0, 700])
def test_a_batch_that_the_disk_does_not_give_is_put_aside(tmp_path: Path, place: int) -> None:
    collection = Collection.make(tmp_path / "keys", hops=2)
    second = tmp_path / "second"
    path = handed_over(collection, tmp_path / "first", second, range(5))
    other = handed_over(collection, tmp_path / "other", second, range(5, 10))
    with shuffler(collection, second, 2) as hop:
        with bad_sector(path, place):
            hop.take()
        assert collection.histogram(sealed(second)) == ones(*range(5, 10))
        assert not other.exists()
        path.with_suffix(".damaged").rename(path)
        hop.take()
        assert collection.histogram(sealed(second)) == ones(*range(10))


def test_a_batch_that_is_not_as_it_was_signed_is_put_aside(tmp_path: Path) -> None:
    """The collector has checked it, so the disk has damaged it: nobody guesses what it was."""
    collection = Collection.make(tmp_path / "keys", hops=2)
    first, second = tmp_path / "first", tmp_path / "second"
    path = handed_over(collection, first, second, range(5))
    whole = path.read_bytes()
    damage(path, len(whole) // 2)
    damaged = path.read_bytes()
    with shuffler(collection, second, 2) as hop:
        hop.take()
        assert not sealed(second)
        assert hop.overview().counts == {}
        assert path.with_suffix(".damaged").read_bytes() == damaged
        path.write_bytes(whole)
        hop.take()
        assert collection.histogram(sealed(second)) == ones(*range(5))


def test_the_hop_before_can_ask_while_a_batch_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    collection = Collection.make(tmp_path / "keys", hops=2, numbers=1000)
    second = tmp_path / "second"
    path = handed_over(collection, tmp_path / "first", second, range(900))
    found: list[bool] = []

    def ask(name: str) -> None:
        if name == "relaying.claimed":
            found.append(is_relayed(second / "state.sqlite", path.stem))

    monkeypatch.setattr(databases, "_PATIENCE", 0.1)
    # The tags of these few items are then as large for it as those of a real batch are.
    monkeypatch.setattr(stores, "_PRAGMAS", ("PRAGMA cache_size = 10",))
    monkeypatch.setattr(report_work, "kill_point", ask)
    with shuffler(collection, second, 2) as hop:
        hop.take()
    assert found == [False]
    assert collection.histogram(sealed(second)) == ones(*range(900))


def damage(path: Path, place: int) -> None:
    """Change one bit of a file."""
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)


def write_blocks(collection: Collection, data: Path, *blocks: Iterable[int]) -> Path:
    """Put reports into one segment of the inbox, in so many blocks."""
    (data / "inbox").mkdir(parents=True, exist_ok=True)
    writer = SegmentWriter(data / "inbox")
    for numbers in blocks:
        writer.append([Upload(collection.plan.id, 1, b"".join(collection.seal(numbers)))])
    path = writer.seal()
    assert path is not None
    return path


@pytest.mark.parametrize("place", [None, "opening.aside", "opening.taken", "opening.committed"])
def test_what_is_whole_in_a_damaged_segment_is_taken_once(
    collection: Collection, tmp_path: Path, place: str | None
) -> None:
    """Also if the hop is killed in between; and nothing counts twice when it is restored."""
    data = tmp_path / "data"
    path = write_blocks(collection, data, [0, 1], [2, 3, 4], [5])
    others = [collection.write_segment(data, collection.seal([number])) for number in (6, 7)]
    whole = path.read_bytes()
    length = collection.plan.layout.report_length
    damage(path, -length - 100)  # The last report of the second block.
    damaged = path.read_bytes()

    def work() -> None:
        with shuffler(collection, data) as hop:
            hop.take()

    assert place is None or dies_at(place, work)
    for _ in range(2):
        work()
    with shuffler(collection, data) as hop:
        hop.tick()
        assert hop.status.adds_up
        counts = hop.status.plans[collection.plan.id]
        assert (counts.durable, counts.batched, counts.damaged) == (8, 5, 3)
        assert collection.histogram(sealed(data)) == ones(0, 1, 5, 6, 7)
        assert path.with_suffix(".damaged").read_bytes() == damaged, "it is never removed"
        assert not any(one.exists() for one in (path, *others))
        # Restored from a copy, under its own name; and it is damaged once more.
        path.write_bytes(whole)
        damage(path, -1)
        hop.take()
        path.write_bytes(whole)
        hop.take()
        collection.write_segment(data, collection.seal([8, 9]))
        hop.take()
        hop.tick()
        assert collection.histogram(sealed(data)) == ones(*range(10))
        assert hop.status.adds_up
        assert hop.status.plans[collection.plan.id].duplicate == 5 + 3
    aside = sorted(one.name for one in (data / "inbox").iterdir())
    assert aside == [f"{path.stem}.2.damaged", f"{path.stem}.damaged"]


@pytest.mark.parametrize(
    ("first_dies", "second_dies", "meanwhile"),
    [
        (None, None, False),
        (None, "opening.aside", False),
        (None, None, True),
        (None, "opening.aside", True),
        ("opening.aside", None, True),
    ],
)
def test_a_copy_that_is_damaged_too_is_taken_whenever_the_first_is_removed(
    collection: Collection,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    first_dies: str | None,
    second_dies: str | None,
    meanwhile: bool,
) -> None:
    """It gets the name that the first had, of which all that is whole was taken.

    Or its owner removes the first when the hop has looked, and before it reads the copy.
    """
    data = tmp_path / "data"
    path = write_blocks(collection, data, [0, 1], [2, 3, 4], [5])
    whole, length = path.read_bytes(), collection.plan.layout.report_length

    def work(dies: str | None = None) -> None:
        def take() -> None:
            with shuffler(collection, data) as hop:
                hop.take()

        if dies is None:
            take()
        else:
            assert dies_at(dies, take)

    def remove_first() -> None:
        path.with_suffix(".damaged").unlink(missing_ok=True)

    def reading(given: Path) -> list[Upload]:
        remove_first()
        return read_segment(given)

    damage(path, -length - 100)
    work(first_dies)
    if meanwhile:
        monkeypatch.setattr(open_envelopes, "read_segment", reading)
    else:
        remove_first()
    path.write_bytes(whole)
    damage(path, -1)
    work(second_dies)
    work()
    with shuffler(collection, data) as hop:
        hop.tick()
        assert collection.histogram(sealed(data)) == ones(*range(6))
        assert hop.status.adds_up


def test_a_damaged_segment_that_is_removed_at_that_moment_stops_nothing(
    collection: Collection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "data"
    path = write_blocks(collection, data, [0, 1])
    whole = path.read_bytes()
    collection.write_segment(data, collection.seal([2, 3]))
    damage(path, -1)

    def removing(given: Path) -> Salvage:
        given.unlink(missing_ok=True)
        return salvage(given)

    with shuffler(collection, data) as hop:
        with monkeypatch.context() as patch:
            patch.setattr(open_envelopes, "salvage", removing)
            hop.take()
        path.write_bytes(whole)
        hop.take()
        path.write_bytes(whole)
        damage(path, -1)
        hop.take()
        hop.tick()
        assert collection.histogram(sealed(data)) == ones(0, 1, 2, 3)
        assert hop.status.adds_up


def test_a_segment_that_the_disk_does_not_give_is_a_damaged_one(
    collection: Collection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "data"
    path = write_blocks(collection, data, [0, 1], list(range(2, 60)), [60])
    other = collection.write_segment(data, collection.seal([61]))
    bad, read = path.stat().st_ino, os.pread
    page = 2 * collection.plan.layout.report_length // 4096 + 1

    def pread(number: int, length: int, place: int) -> bytes:
        if os.fstat(number).st_ino == bad and place <= page * 4096 < place + length:
            raise OSError(errno.EIO, "")
        return read(number, length, place)

    monkeypatch.setattr(os, "pread", pread)
    with shuffler(collection, data) as hop:
        hop.take()
        hop.tick()
        assert collection.histogram(sealed(data)) == ones(0, 1, 60, 61)
        counts = hop.status.plans[collection.plan.id]
        assert (counts.batched, counts.damaged) == (4, 58)
    assert path.with_suffix(".damaged").exists()
    assert not other.exists()


def test_a_key_stays_while_a_damaged_segment_may_need_it(
    collection: Collection, tmp_path: Path
) -> None:
    data, keys = tmp_path / "data", collection.hops[0]
    path = write_blocks(collection, data, [0])
    damage(path, -1)
    (old,) = keys.opening_keys()
    with shuffler(collection, data) as hop:
        hop.take()
        keys.rotate(at_once=True)
        keys.close(old)
        assert hop.needs_key(old)
        path.with_suffix(".damaged").unlink()
        assert not hop.needs_key(old)


def test_only_what_was_there_when_it_was_closed_holds_a_key(
    collection: Collection, tmp_path: Path
) -> None:
    inbox, keys = tmp_path / "data" / "inbox", collection.hops[0]
    (old,) = keys.opening_keys()
    with shuffler(collection, tmp_path / "data") as hop:
        keys.rotate(at_once=True)
        keys.close(old)
        (inbox / "0.open").touch()
        assert hop.needs_key(old)
        keys.rotate(at_once=True)
        hop.take()  # and look at the keys
        (inbox / "1.open").touch()
        assert hop.needs_key(old)
        (inbox / "0.open").unlink()
        assert not hop.needs_key(old), "what has come since is not for it"


def test_a_key_that_goes_takes_its_tags_along(collection: Collection, tmp_path: Path) -> None:
    data, keys = tmp_path / "data", collection.hops[0]
    (old,) = keys.opening_keys()

    def tags() -> int:
        with closing(sqlite3.connect(data / "state.sqlite")) as reader:
            return int(reader.execute("SELECT count(*) FROM tags").fetchone()[0])

    with shuffler(collection, data, grace=0.0) as hop:
        collection.write_segment(data, collection.seal(range(3)))
        hop.take()
        assert tags() == 3
        keys.rotate(at_once=True)
        keys.close(old)
        hop.take()
        hop.tick()
        keys.refresh()
        assert old not in keys.opening_keys()
        assert tags() == 0


def test_reports_wait_for_their_key_and_hold_no_other(
    collection: Collection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, keys = tmp_path / "data", collection.hops[0]
    (old,) = keys.opening_keys()
    with shuffler(collection, data) as hop:
        keys.rotate(at_once=True)
        (new,) = keys.opening_keys().keys() - {old}
        hop.take()  # and look at the keys
        work: Any = hop._works[-1]  # noqa: SLF001
        monkeypatch.setattr(work, "_opening", HopKeys({old: work._opening.opening[old]}))  # noqa: SLF001
        collection.write_segment(data, collection.seal(range(4)))
        hop.take()
        assert [hop.needs_key(one) for one in (old, new)] == [False, True]
        keys.rotate(at_once=True)
        hop.take()
        hop.tick()
        assert not hop.needs_key(new)
        assert collection.histogram(sealed(data)) == ones(*range(4))


def test_reports_of_an_unknown_plan_may_be_for_any_key(
    collection: Collection, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    (key,) = collection.hops[0].opening_keys()
    with shuffler(collection, data) as hop:
        for content, needed in ((b"\0" * 100, False), (b"\0" * 99 + bytes([key]), True)):
            writer = SegmentWriter(data / "inbox")
            writer.append([Upload("f" * 64, 1, content)])
            writer.seal()
            hop.take()
            assert hop.needs_key(key) == needed


def test_plans_that_lack_messages_are_named(collection: Collection, tmp_path: Path) -> None:
    names = [letter * 64 for letter in "abcdefgh"]
    with shuffler(collection, tmp_path / "data") as hop:
        hop._works[-1]._releaser.short.update(names)  # type: ignore[attr-defined]  # noqa: SLF001
        assert hop.short == tuple(
            f"plan {name[:16]} has enough reports, but too few messages in them: some reports are "
            "nearly empty, so it waits for more"
            for name in names
        )


def handed_over(collection: Collection, first: Path, second: Path, numbers: Iterable[int]) -> Path:
    """Return a batch of the first hop in the folder of the second."""
    with shuffler(collection, first) as hop:
        collection.write_segment(first, collection.seal(numbers))
        hop.take()
        hop.tick()
    (path,) = (first / "outbox").iterdir()
    (second / "received").mkdir(parents=True, exist_ok=True)
    return path.rename(second / "received" / path.name)


def remade(
    collection: Collection,
    path: Path,
    items: Callable[[list[bytes]], list[bytes]] = list,
    **said: Any,
) -> None:
    """Put another batch beside one, as a bad first hop makes it of the items of that one."""
    with path.open("rb") as file:
        head, _ = check_batch(file, collection.hops[0].identity.public_key().public_bytes_raw())
        content = b"".join(blocks_of(file, head.items * head.item_length))
    length = head.item_length
    made = items([content[at : at + length] for at in range(0, len(content), length)])
    other = io.BytesIO()
    head = replace(head, items=len(made), **said)
    name = write_batch(other, head, made, collection.hops[0].identity)
    path.with_name(f"{name}.batch").write_bytes(other.getvalue())


@pytest.mark.parametrize("said", ["route", "round", "hop", "item_length"])
def test_a_signed_batch_that_is_not_for_this_hop_is_put_aside(tmp_path: Path, said: str) -> None:
    """Nobody who checks has let it in: somebody has put it there by hand."""
    collection = Collection.make(tmp_path / "keys", hops=2)
    second = tmp_path / "second"
    path = handed_over(collection, tmp_path / "first", second, range(5))
    with path.open("rb") as file:
        head = BatchHead.read(file)
    wrong = {"route": head.key_name, "round": 7, "hop": 2, "item_length": 1}[said]
    remade(collection, path, (lambda _: [b"x"]) if said == "item_length" else list, **{said: wrong})
    with shuffler(collection, second, 2) as hop:
        hop.take()
        assert collection.histogram(sealed(second)) == ones(*range(5))
    (aside,) = (second / "received").iterdir()
    assert aside.suffix == ".damaged"


def test_a_hop_before_that_repeats_items_gains_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report_work, "_BLOCK", 3)  # So that copies are in several blocks.
    collection = Collection.make(tmp_path / "keys", hops=2)
    second = tmp_path / "second"
    path = handed_over(collection, tmp_path / "first", second, range(5))
    with shuffler(collection, second, 2) as hop:
        # Of its ten items one twice, then one of them alone many times, then junk for people.
        remade(collection, path, lambda items: [*items, items[0]])
        path.unlink()
        hop.take()
        assert collection.histogram(sealed(second)) == ones(*range(5))
        (mixed,) = hop.overview().counts.values()
        assert (mixed.opened, mixed.duplicate, mixed.batched) == (10, 1, 10)
        again = handed_over(collection, tmp_path / "again", second, range(5, 10))
        remade(collection, again, lambda items: [items[0]] * 10)
        remade(collection, again, lambda items: [items[1], *(bytes([9]) + i[1:] for i in items)])
        remade(collection, again, lambda items: [bytes([9]) + i[1:] for i in items])
        again.unlink()
        hop.take()
        (counts,) = hop.overview().counts.values()
        assert (counts.pooled, counts.undecryptable, counts.duplicate) == (2, 20, 10)
        assert counts.adds_up
        assert len(sealed(second)) == 1
        assert not list((second / "received").iterdir())


def short_batch(
    collection: Collection, folder: Path, second: Path, numbers: range, *, good: int
) -> Path:
    """Return a batch for the second hop in which all items but some are junk."""

    def spoilt(items: list[bytes]) -> list[bytes]:
        junk = [one[:1] + secrets.token_bytes(len(one) - 1) for one in items[good:]]
        return [*items[:good], *junk]

    path = handed_over(collection, folder, second, numbers)
    before = set(path.parent.iterdir())
    remade(collection, path, spoilt)
    path.unlink()
    (made,) = set(path.parent.iterdir()) - before
    return made


def test_junk_costs_nobody_a_place_behind_a_later_hop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is left of a batch waits for others, over a restart, and leaves with them as one."""
    monkeypatch.setattr(report_work, "_BLOCK", 3)
    collection = Collection.make(tmp_path / "keys", hops=2, crowd=4)
    second, least = tmp_path / "second", collection.plan.least_items
    keys = collection.hops[1]
    (old,) = keys.opening_keys()
    with shuffler(collection, second, 2) as hop:
        first = short_batch(collection, tmp_path / "a", second, range(4), good=least - 1)
        copy = first.read_bytes()
        hop.take()
        assert not sealed(second)
        (counts,) = hop.overview().counts.values()
        assert (counts.durable, counts.pooled, counts.adds_up) == (least, least - 1, True)
        (short,) = hop.short
        assert short == (
            f"{least - 1} messages of plan {collection.plan.id[:16]} wait here for others of their "
            "round and keys: some reports of their batch were invalid or duplicates"
        )
        assert not list((second / "received").iterdir())
        keys.rotate(at_once=True)
        keys.close(old)
        assert not hop.needs_key(old), "it is open already"
    with shuffler(collection, second, 2) as hop:
        first.with_name(f"{'ab' * 32}.batch").write_bytes(copy)
        short_batch(collection, tmp_path / "b", second, range(4, 8), good=3)
        hop.take()
        assert not list((second / "received").iterdir())
        (made,) = sealed(second)
        head = BatchHead.unpack(made[:HEAD_LENGTH])
        assert (head.reports, head.items) == (5, least + 2), "junk is nobody's"
        (counts,) = hop.overview().counts.values()
        assert (counts.pooled, counts.batched, counts.adds_up) == (0, least + 2, True)
        short_batch(collection, tmp_path / "c", second, range(8, 12), good=2)
        handed_over(collection, tmp_path / "d", second, range(12, 16))
        hop.take()
        _, both = sorted(sealed(second), key=len)
        assert BatchHead.unpack(both[:HEAD_LENGTH]).items in (least, least + 2)
        (counts,) = hop.overview().counts.values()
        assert (counts.pooled + counts.batched, counts.adds_up) == (2 * least + 4, True)


def test_one_message_goes_on_for_a_plan_for_one(tmp_path: Path) -> None:
    collection = Collection.make(tmp_path / "keys", hops=2, crowd=1, slots=1)
    second = tmp_path / "second"
    handed_over(collection, tmp_path / "first", second, [7])
    with shuffler(collection, second, 2) as hop:
        hop.take()
    assert collection.histogram(sealed(second)) == ones(7)


def test_rounds_and_ways_do_not_help_one_another_behind_a_later_hop(tmp_path: Path) -> None:
    collection = Collection.make(tmp_path / "keys", hops=2, crowd=4)
    second, least = tmp_path / "second", collection.plan.least_items
    with shuffler(collection, second, 2) as hop:
        short_batch(collection, tmp_path / "a", second, range(4), good=least - 1)
        hop.take()
        collection.analyzer.rotate(at_once=True)
        short_batch(collection, tmp_path / "b", second, range(4, 8), good=least - 1)
        hop.take()
        assert not sealed(second)
        (counts,) = hop.overview().counts.values()
        assert (counts.pooled, counts.adds_up) == (2 * least - 2, True)


@pytest.mark.parametrize("place", ["relaying.claimed", "relaying.written", "relaying.committed"])
def test_batches_that_leave_as_one_are_taken_once(tmp_path: Path, place: str) -> None:
    collection = Collection.make(tmp_path / "keys", hops=2, crowd=4)
    second, least = tmp_path / "second", collection.plan.least_items
    for start in (0, 4):
        folder = tmp_path / str(start)
        short_batch(collection, folder, second, range(start, start + 4), good=least - 1)

    def take() -> None:
        with shuffler(collection, second, 2) as hop:
            hop.take()

    # The first of them is taken before the second, which makes a batch.
    assert dies_at(place if place == "relaying.written" else f"{place}:2", take)
    take()
    (made,) = sealed(second)
    assert BatchHead.unpack(made[:HEAD_LENGTH]).items == 2 * (least - 1)
    assert not list((second / "received").iterdir())


def test_a_short_batch_that_says_many_reports_ends_nothing(tmp_path: Path) -> None:
    collection = Collection.make(tmp_path / "keys", hops=2, crowd=4)
    second, least = tmp_path / "second", collection.plan.least_items
    for start in (0, 4):
        path = short_batch(
            collection, tmp_path / f"{start}", second, range(start, start + 4), good=least - 1
        )
        remade(collection, path, reports=10**12)
        path.unlink()
    with shuffler(collection, second, 2) as hop:
        hop.take()
        (made,) = sealed(second)
        assert BatchHead.unpack(made[:HEAD_LENGTH]).reports <= 2 * 4


def test_what_was_opened_is_held_in_memory_or_beside_the_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where others put their files there may be no room, or another disk."""
    collection = Collection.make(tmp_path / "keys", hops=2)
    second, folders = tmp_path / "second", list[object]()
    handed_over(collection, tmp_path / "first", second, range(5))
    real = tempfile.TemporaryFile

    def spilled(*given: Any, **more: Any) -> Any:
        folders.append(more["dir"])
        return real(*given, **more)

    monkeypatch.setattr(report_work, "_IN_MEMORY", 1)
    monkeypatch.setattr(tempfile, "TemporaryFile", spilled)
    with shuffler(collection, second, 2) as hop:
        hop.take()
    assert folders == [str(second / "outbox")]
    assert collection.histogram(sealed(second)) == ones(*range(5))


def test_a_batch_that_cannot_be_opened_now_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    collection = Collection.make(tmp_path / "keys", hops=2)
    second = tmp_path / "second"
    path = handed_over(collection, tmp_path / "first", second, range(5))
    real = Path.open

    with shuffler(collection, second, 2) as hop:
        # Its head is looked at first, and then it is opened for all of it.
        for good in (0, 1):
            opened = count()

            def too_many(
                self: Path, *given: Any, good: int = good, opened: Any = opened, **more: Any
            ) -> Any:
                if self == path and next(opened) >= good:
                    raise OSError(errno.EMFILE, "")
                return real(self, *given, **more)

            with monkeypatch.context() as patch:
                patch.setattr(Path, "open", too_many)
                with pytest.raises(StorageFault):
                    hop.take()
            assert path.exists()
        hop.take()
        assert collection.histogram(sealed(second)) == ones(*range(5))


def test_a_hop_before_that_says_more_reports_than_there_are_gains_nothing(tmp_path: Path) -> None:
    """Also where the number of messages follows the noise: each report has one at the least."""
    made = Collection.make(tmp_path / "keys", hops=2)
    assert made.plan.parties is not None
    collection = replace(made, plan=clear(20, 3).run_by(made.plan.parties))
    assert collection.plan.varying
    assert "as long as one of hop1 and hop2" in collection.plan.trust
    second = tmp_path / "second"
    path = handed_over(collection, tmp_path / "first", second, [1] * 20)
    remade(collection, path, lambda items: items[:1])
    remade(collection, path, lambda items: [one[:1] + bytes(len(one) - 1) for one in items[:3]])
    path.unlink()
    with shuffler(collection, second, 2) as hop:
        hop.take()
        (counts,) = hop.overview().counts.values()
        assert (counts.refused, counts.batched) == (1, 0), "one report where twenty are said"
        assert (counts.undecryptable, counts.adds_up) == (3, True), "and none"
        path = handed_over(collection, tmp_path / "again", second, [1] * 20)
        remade(collection, path, reports=25)
        path.unlink()
        hop.take()
        (counts,) = hop.overview().counts.values()
        assert (counts.refused, counts.batched, counts.adds_up) == (1, 20, True)
        (batch,) = sealed(second)
        assert BatchHead.unpack(batch[:HEAD_LENGTH]).reports == 25, "nobody here can tell better"


def test_an_item_that_the_analyzer_would_know_by_its_key_goes_no_further(tmp_path: Path) -> None:
    """A bad first hop puts it among others, which are for the key that the batch names."""
    collection = Collection.make(tmp_path / "keys", hops=2)
    second = tmp_path / "second"
    path = handed_over(collection, tmp_path / "first", second, range(5))
    collection.analyzer.rotate(at_once=True)
    other = handed_over(collection, tmp_path / "other", second, range(5, 10))
    length = collection.plan.layout.item_length(1)
    marked = other.read_bytes()[START_LENGTH : START_LENGTH + length]
    remade(collection, path, lambda items: [*items, marked])
    path.unlink()
    other.unlink()
    with shuffler(collection, second, 2) as hop:
        hop.take()
        (counts,) = hop.overview().counts.values()
        assert (counts.opened, counts.undecryptable, counts.batched) == (10, 1, 10)
        assert counts.adds_up


def test_a_batch_for_a_key_that_is_not_known_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    collection = Collection.make(tmp_path / "keys", hops=2)
    second = tmp_path / "second"
    (old,) = collection.hops[1].opening_keys()
    with shuffler(collection, second, 2) as hop:
        hop.take()  # and look at the keys
        path = handed_over(collection, tmp_path / "first", second, range(5))
        work = hop._works[-1]  # noqa: SLF001
        monkeypatch.setattr(work, "_opening", HopKeys({}))
        hop.take()
        assert path.exists()
        assert hop.needs_key(old)
        monkeypatch.setattr(work, "_opening", HopKeys({}, {old}))
        content = path.read_bytes()
        hop.take()
        (counts,) = hop.overview().counts.values()
        assert (counts.destroyed_key, counts.opened) == (10, 0)
        assert counts.adds_up
        path.write_bytes(content)
        monkeypatch.undo()
        hop.take()
        assert not path.exists(), "what was taken once is not taken again"
        assert not sealed(second)
        assert is_relayed(second / "state.sqlite", path.stem)
        assert not is_relayed(second / "state.sqlite", "00" * 32)


def test_a_segment_that_is_sealed_meanwhile_still_needs_its_key(
    collection: Collection, tmp_path: Path
) -> None:
    inbox = tmp_path / "data" / "inbox"
    inbox.mkdir(parents=True)
    writer = SegmentWriter(inbox)
    writer.append([Upload(collection.plan.id, 1, b"".join(collection.seal([1])))])
    (old,) = collection.hops[0].opening_keys()
    with shuffler(collection, tmp_path / "data") as hop:
        assert hop.needs_key(old)
        writer.seal()
        assert hop.needs_key(old), "under another name it is the same segment"
        hop.take()
        assert not hop.needs_key(old)


def test_openers_end_with_a_shuffler_that_is_killed(collection: Collection, tmp_path: Path) -> None:
    data = tmp_path / "data"
    collection.write_segment(data, collection.seal(range(4)))
    reading, writing = os.pipe()

    def work() -> None:
        keys = KeyFolder.open(collection.hops[0].path)
        with Shuffler(data, keys, [collection.plan], ShufflerSettings(openers=2)) as hop:
            collection.show_keys(hop)
            hop.take()
            found = Path(f"/proc/self/task/{os.getpid()}/children").read_text(encoding="ascii")
            os.write(writing, found.encode())
            hop.tick()

    assert dies_at("releasing.committed", work)
    children = os.read(reading, 1000).split()
    assert children
    deadline = time.monotonic() + 10
    while any(Path(f"/proc/{int(child)}").exists() for child in children):
        assert time.monotonic() < deadline
        time.sleep(0.02)
