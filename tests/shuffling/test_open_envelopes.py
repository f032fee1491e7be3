"""Opening: a report counts once, junk is counted, and what is not known yet waits."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chaffinch.errors import Reason, StorageFault
from chaffinch.keys import KeyFolder
from chaffinch.shuffling import open_envelopes
from chaffinch.shuffling.inbox import Upload, sealed_segments
from chaffinch.shuffling.open_envelopes import Contents, HopKey, HopKeys, SegmentOpener, remove_file
from chaffinch.shuffling.state import Counts, Partition, State
from chaffinch.tables.parallel import Processes
from chaffinch.wire.sealed_reports import route_of
from tests.services.oracle import Collection, write_segment


def hop_keys(folder: KeyFolder) -> HopKeys:
    return HopKeys({number: HopKey.of(one) for number, one in folder.opening_keys().items()})


class Bench:
    """A first hop's opener on a folder."""

    def __init__(self, collection: Collection, data: Path, processes: Processes) -> None:
        self.collection, self.data, self._processes = collection, data, processes
        self.state = State.open(data / "state.sqlite")
        # As of a plan whose number of messages follows the noise.
        self.layout = replace(collection.plan.layout, fixed_slots=0)
        self.keys = hop_keys(collection.hops[0])
        self.opener = self.opener_for({collection.plan.id})
        self.give_out(route_of(collection.sealer.keys[1:]))

    def give_out(self, *routes: bytes) -> None:
        with self.state.changing() as change:
            for route in routes:
                change.give_out(self.collection.plan.id, route)

    def seal(self, route: bytes, *items: bytes) -> bytes:
        """Return a report that goes some way, as any stranger can make one."""
        layout = self.layout
        sealing = next(iter(self.collection.hops[0].opening_keys().values())).key.sealing
        return sealing.seal(layout.pack(route, items), layout.binding(1, 1))

    def opener_for(self, plans: set[str]) -> SegmentOpener:
        layouts = dict.fromkeys(plans, self.layout)
        return SegmentOpener(self.state, self.data / "inbox", layouts, self._processes)

    def take(self, *reports: bytes) -> Counts:
        self.collection.write_segment(self.data, reports)
        return self.open_all()

    def open_all(self) -> Counts:
        self.opener.open_segments(sealed_segments(self.data / "inbox"), self.keys)
        return self.counts()

    def counts(self) -> Counts:
        counts = self.state.counts().get(self.collection.plan.id, Counts())
        assert counts.adds_up
        return counts


@pytest.fixture(name="collection", scope="module")
def _collection(tmp_path_factory: pytest.TempPathFactory) -> Collection:
    return Collection.make(tmp_path_factory.mktemp("parties"))


@pytest.fixture(name="bench")
def _bench(collection: Collection, tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(collection, tmp_path, Processes(1))
    yield bench
    bench.state.close()


def test_a_copy_is_a_copy_wherever_it_stands(bench: Bench) -> None:
    one, two = bench.collection.seal([1, 2])
    assert bench.take(one, two, one).duplicate == 1, "in one upload"
    assert bench.take(one).duplicate == 2, "in another segment"
    uploads = [Upload(bench.collection.plan.id, 1, report) for report in (two, two, one)]
    write_segment(bench.data, uploads)
    assert bench.open_all().duplicate == 5, "in two uploads of one segment"
    assert bench.counts().opened == 2


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_segments_may_be_opened_in_any_order(bench: Bench, order: tuple[int, ...]) -> None:
    reports = bench.collection.seal(range(6))
    parts = [reports[:4], reports[2:], [reports[5], reports[0]]]
    paths = [bench.collection.write_segment(bench.data, part) for part in parts]
    bench.opener.open_segments([paths[place] for place in order], bench.keys)
    counts = bench.counts()
    assert (counts.durable, counts.opened, counts.duplicate) == (10, 6, 4)


def test_no_byte_of_a_report_can_be_changed(bench: Bench) -> None:
    (report,) = bench.collection.seal([7])
    changed = []
    for place in range(len(report)):
        bad = bytearray(report)
        bad[place] ^= 1
        changed.append(bytes(bad))
    counts = bench.take(*changed)
    # Another key id is that of a key that may become known; everything else is junk.
    assert (counts.durable, counts.waiting) == (len(report), 1)
    assert (counts.undecryptable, counts.opened) == (len(report) - 1, 0)
    assert bench.take(report).opened == 1, "junk does not stand in the way of the report"


def test_a_report_of_another_round_or_plan_does_not_open(bench: Bench) -> None:
    (report,) = bench.collection.seal([7])
    write_segment(bench.data, [Upload(bench.collection.plan.id, 2, report)])
    assert bench.open_all().undecryptable == 1


def test_a_payload_that_breaks_a_rule_is_counted(bench: Bench) -> None:
    layout = bench.collection.plan.layout
    key = bench.collection.hops[0].opening_keys()
    sealing = next(iter(key.values())).key.sealing
    junk = sealing.seal(bytes(layout.payload_length), layout.binding(1, 1))
    counts = bench.take(junk, junk)
    assert (counts.malformed, counts.opened) == (2, 0)


def test_a_report_whose_key_is_not_known_waits_for_it(bench: Bench) -> None:
    one, two = bench.collection.seal([1, 2])
    known, bench.keys = bench.keys, HopKeys({})
    counts = bench.take(one, two, one)
    assert (counts.durable, counts.waiting, counts.opened) == (3, 3, 0)
    bench.opener.open_held(bench.keys)
    assert bench.counts().waiting == 3
    bench.opener.open_held(known)
    counts = bench.counts()
    assert (counts.durable, counts.waiting, counts.opened, counts.duplicate) == (3, 0, 2, 1)
    assert not bench.state.held()


def test_a_report_whose_key_is_destroyed_is_rejected_and_counted(bench: Bench) -> None:
    reports = bench.collection.seal([1, 2])
    bench.keys = HopKeys({})
    assert bench.take(reports[0]).waiting == 1
    bench.keys = HopKeys({}, {reports[0][0]})
    assert bench.take(reports[1]).destroyed_key == 1
    bench.opener.open_held(bench.keys)
    counts = bench.counts()
    assert (counts.durable, counts.waiting, counts.destroyed_key) == (2, 0, 2)


def test_a_report_for_keys_that_were_not_given_out_is_rejected_and_leaves_its_tag_alone(
    bench: Bench,
) -> None:
    """Anybody can make them: what they leave behind is a number, and their tags."""
    (honest,) = bench.collection.seal([1])
    route = b"\1" + os.urandom(31)
    marked, *strange = (bench.seal(one) for one in (route, *(b"\1" + os.urandom(31),) * 9))
    with bench.state.changing() as change:
        change.give_out("00" * 32, route)  # The keys of another plan are others.
    counts = bench.take(honest, marked, *strange, marked)
    assert (counts.opened, counts.pooled, counts.duplicate) == (1, 1, 1)
    assert (counts.not_given_out, counts.rejected, counts.durable) == (10, 10, 12)
    bench.give_out(route)
    counts = bench.take(marked, bench.seal(route))
    assert (counts.not_given_out, counts.pooled) == (10, 2), "what comes from now on"
    assert counts.duplicate == 2, "a copy of what was rejected comes too late, too"


def test_what_waited_is_judged_by_the_keys_that_are_given_out_when_it_is_opened(
    bench: Bench,
) -> None:
    known, bench.keys = bench.keys, HopKeys({})
    late = b"\1" + os.urandom(31)
    assert bench.take(bench.seal(late), bench.seal(b"\1" + os.urandom(31))).waiting == 2
    bench.give_out(late)
    bench.opener.open_held(known)
    counts = bench.counts()
    assert (counts.waiting, counts.pooled, counts.not_given_out) == (0, 1, 1)


def test_a_report_of_a_plan_that_is_not_known_waits_for_it(bench: Bench) -> None:
    reports = bench.collection.seal([1, 2, 1])
    known, bench.opener = bench.opener, bench.opener_for(set())
    assert bench.take(*reports, reports[0]) == Counts()
    before = bench.state.held()
    bench.opener.open_held(bench.keys)
    assert bench.state.held() == before != []
    known.open_held(bench.keys)
    counts = bench.counts()
    assert (counts.durable, counts.opened, counts.duplicate) == (4, 3, 1)


def test_what_can_be_opened_does_not_wait_for_the_rest(tmp_path: Path) -> None:
    """Of one upload a part, and an upload behind one whose plan is not known."""
    bench = Bench(Collection.make(tmp_path / "parties"), tmp_path, Processes(1))
    folder = bench.collection.hops[0]
    before = bench.collection.seal([1, 2])
    folder.rotate(at_once=True)
    after = bench.collection.seal([3])
    known = hop_keys(folder)
    bench.keys = HopKeys({})
    write_segment(bench.data, [Upload("5b" * 32, 1, before[0])])
    bench.open_all()
    assert bench.take(*before, *after).waiting == 3
    old = before[0][0]
    bench.opener.open_held(HopKeys({old: known.opening[old]}))
    counts = bench.counts()
    assert (counts.durable, counts.opened, counts.waiting) == (3, 2, 1)
    bench.opener.open_held(known)
    counts = bench.counts()
    assert (counts.durable, counts.opened, counts.waiting) == (3, 3, 0)
    (held,) = bench.state.held()
    assert held.plan_id == "5b" * 32
    bench.state.close()


class Ahead:
    """A pool that takes all of its work before the first of it is done."""

    def mapped(
        self, function: Callable[[Any, Any], Any], shared: object, items: Iterable[object]
    ) -> Iterator[Any]:
        return iter([function(shared, item) for item in list(items)])

    def close(self) -> None:
        """Nobody else works here."""


def test_a_segment_is_taken_over_when_all_of_it_is_open(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However much of it, and of others, is under way when the first of it comes back."""
    monkeypatch.setattr(open_envelopes, "_CHUNK", 1)
    bench.opener = SegmentOpener(
        bench.state,
        bench.data / "inbox",
        {bench.collection.plan.id: bench.collection.plan.layout},
        Ahead(),
    )
    reports = bench.collection.seal(range(9))
    for start in (0, 4, 8):
        bench.collection.write_segment(bench.data, reports[start : start + 4])
    counts = bench.open_all()
    assert (counts.durable, counts.opened) == (9, 9)
    assert not list((bench.data / "inbox").iterdir())


def test_what_cannot_be_used_is_counted_chunk_by_chunk(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_envelopes, "_CHUNK", 1)
    layout, (report,) = bench.layout, bench.collection.seal([7])
    sealing = next(iter(bench.collection.hops[0].opening_keys().values())).key.sealing
    malformed = sealing.seal(bytes(layout.payload_length), layout.binding(1, 1))
    changed = report[:-1] + bytes([report[-1] ^ 1])
    counts = bench.take(changed, malformed, changed, report, malformed)
    assert (counts.undecryptable, counts.malformed, counts.opened) == (2, 2, 1)


def test_an_upload_behind_one_whose_plan_is_not_known_is_taken_with_its_segment(
    bench: Bench,
) -> None:
    reports = bench.collection.seal([1, 2])
    plans = ("5b" * 32, bench.collection.plan.id)
    uploads = [Upload(one, 1, report) for one, report in zip(plans, reports, strict=True)]
    write_segment(bench.data, uploads)
    assert bench.open_all().opened == 1
    assert [held.plan_id for held in bench.state.held()] == ["5b" * 32]


def test_every_report_of_a_destroyed_key_is_counted(bench: Bench) -> None:
    reports = bench.collection.seal([1, 2, 3])
    bench.keys = HopKeys({}, {reports[0][0]})
    assert bench.take(*reports).destroyed_key == 3


def test_a_file_that_cannot_be_removed_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: Path) -> None:
        raise OSError(errno.EIO, "")

    remove_file(tmp_path / "gone")
    with monkeypatch.context() as patch:
        patch.setattr(open_envelopes, "sync_folder", fail)
        remove_file(tmp_path / "gone", sync=False)
        with pytest.raises(StorageFault):
            remove_file(tmp_path / "gone")
    (tmp_path / "folder").mkdir()
    with pytest.raises(StorageFault, match="folder"):
        remove_file(tmp_path / "folder")


def test_rows_of_several_parts_are_joined_place_by_place(bench: Bench) -> None:
    parts = [
        Contents.of([(b"a" * 16, b"1122"), (b"b" * 16, b"")], 2),
        Contents.of([(b"c" * 16, b"33")], 2),
    ]
    whole = Contents.joined(parts)
    assert whole == Contents.of([(b"a" * 16, b"1122"), (b"b" * 16, b""), (b"c" * 16, b"33")], 2)
    assert (whole.envelopes, whole.items) == (3, b"112233")
    assert np.frombuffer(whole.sizes, "<u4").tolist() == [2, 0, 1]
    with bench.state.changing() as change:
        assert change.claim(1, [b"b" * 16]) == [True]
        assert whole.claim(change, 1, 2) == Contents.joined(
            [Contents.of([(b"a" * 16, b"1122")], 2), parts[1]]
        )
        assert whole.claim(change, 1, 2).envelopes == 0
        assert whole.claim(change, 2, 2) == whole


def test_a_segment_that_is_done_is_not_opened_again(bench: Bench) -> None:
    """It may come back after a power cut: its name was removed, and the folder not synced."""
    path = bench.collection.write_segment(bench.data, bench.collection.seal([1]))
    content = path.read_bytes()
    with bench.state.changing() as change:
        change.finish_segment(path.stem)
    bench.opener.open_segments([path], bench.keys)
    assert bench.counts() == Counts()
    assert not path.exists()
    path.write_bytes(content)
    bench.opener.open_segments([path], bench.keys)
    assert bench.counts().opened == 1, "a name that is forgotten is one that was surely gone"


def test_a_segment_is_forgotten_when_it_is_surely_gone(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its file is removed, then the folder is synced, once for all of them, then its name goes."""
    seen = []

    def sync(folder: Path) -> None:
        seen.append((sealed_segments(folder), len(bench.state.opened_segments())))

    monkeypatch.setattr(open_envelopes, "sync_folder", sync)
    for number in (1, 2):
        bench.collection.write_segment(bench.data, bench.collection.seal([number]))
    assert bench.open_all().opened == 2
    assert seen == [([], 2)]
    assert bench.state.opened_segments() == set()


def test_a_segment_that_was_taken_is_not_opened_again_after_a_crash(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(place: str) -> None:
        if place == "opening.committed":
            raise KeyboardInterrupt

    path = bench.collection.write_segment(bench.data, bench.collection.seal([1]))
    with monkeypatch.context() as patch:
        patch.setattr(open_envelopes, "kill_point", crash)
        with pytest.raises(KeyboardInterrupt):
            bench.open_all()
    assert bench.state.opened_segments() == {path.stem}
    counts = bench.open_all()
    assert (counts.opened, counts.duplicate) == (1, 0)
    assert not path.exists()


def test_a_segment_that_cannot_be_read_now_stays_as_it_is(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only what is damaged is put aside."""

    def fail(_: Path) -> list[Upload]:
        raise StorageFault("The segment must be within reach.", reason=Reason.BUSY)

    path = bench.collection.write_segment(bench.data, bench.collection.seal([1]))
    with monkeypatch.context() as patch:
        patch.setattr(open_envelopes, "read_segment", fail)
        with pytest.raises(StorageFault, match="within reach"):
            bench.open_all()
    assert list(path.parent.iterdir()) == [path]
    assert bench.open_all().opened == 1


def test_a_segment_behind_a_damaged_one_is_taken_with_it(bench: Bench) -> None:
    one, two = bench.collection.seal([1, 2])
    damaged, whole = (bench.collection.write_segment(bench.data, [each]) for each in (one, two))
    content = damaged.read_bytes()
    damaged.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    bench.opener.open_segments([damaged, whole], bench.keys)
    counts = bench.counts()
    assert (counts.opened, counts.damaged) == (1, 1)
    assert [path.suffix for path in whole.parent.iterdir()] == [".damaged"]


def test_a_key_is_known_by_its_whole_name(bench: Bench) -> None:
    (key,) = bench.keys.opening.values()
    assert key.name[0] == key.id != key.name[1]
    assert bench.keys.named(key.name) == key
    assert bench.keys.named(key.name[:1] + bytes(len(key.name) - 1)) is None
    assert bench.keys.named(bytes([key.id ^ 1]) + key.name[1:]) is None


def test_reports_are_kept_apart_by_their_way(bench: Bench) -> None:
    item = bytes(bench.collection.plan.layout.item_length(1))
    ours, other, marked = b"\1" + bytes(31), b"\2" + bytes(31), b"\1" + bytes([1] * 31)
    bench.give_out(ours, other, marked)
    bench.take(*(bench.seal(way, item) for way in (ours, other, ours, marked)))
    found = bench.state.partitions()
    plan_id = bench.collection.plan.id
    assert found == {
        Partition(plan_id, 1, route): count for route, count in ((ours, 2), (other, 1), (marked, 1))
    }


def test_of_reports_with_copies_the_items_of_each_are_kept_once(bench: Bench) -> None:
    """Reports of one way stand in one row, whatever number of items each has."""
    length, route = bench.collection.plan.layout.item_length(1), b"\1" + bytes(31)
    bench.give_out(route)
    held = [
        [bytes([8 * report + place]) * length for place in range(report % 3)] for report in range(7)
    ]
    reports = [bench.seal(route, *items) for items in held]
    counts = bench.take(*reports[:5], reports[1], *reports[3:], reports[2])
    assert (counts.opened, counts.duplicate) == (7, 4)
    (pooled,) = bench.state.pooled(Partition(bench.collection.plan.id, 1, route))
    assert [*memoryview(pooled.sizes).cast("I")] == [len(items) for items in held]
    assert pooled.items == b"".join(b"".join(items) for items in held)


def test_of_a_copy_on_its_way_to_another_hop_no_item_is_kept(tmp_path: Path) -> None:
    collection = Collection.make(tmp_path / "parties", hops=2)
    bench = Bench(collection, tmp_path, Processes(1))
    one, two = collection.seal([1, 2])
    counts = bench.take(one, two, one)
    assert (counts.opened, counts.duplicate) == (2, 1)
    (pooled,) = bench.state.pooled(*bench.state.partitions())
    items = sum(memoryview(pooled.sizes).cast("I"))
    assert len(pooled.items) == items * collection.plan.layout.item_length(1)
    bench.state.close()


def test_processes_open_and_hold_no_key_where_others_could_read_it(
    collection: Collection, tmp_path: Path
) -> None:
    processes = Processes(2)
    bench = Bench(collection, tmp_path, processes)
    try:
        counts = bench.take(*collection.seal(range(120)) * 9)
        assert (counts.opened, counts.duplicate) == (120, 960)
        children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
        assert children
        (key,) = bench.keys.opening.values()
        for child in children:
            for name in ("cmdline", "environ"):
                shown = Path(f"/proc/{child}/{name}").read_bytes()
                for secret in (key.private, key.tag_secret):
                    assert secret not in shown
                    assert secret.hex().encode() not in shown
    finally:
        bench.state.close()
        processes.close()
