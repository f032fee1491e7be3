"""Opening: sealed segments of the inbox become reports that wait for their crowd.

Processes open envelopes, chunk by chunk, and give back what was inside with its replay tags,
one behind the other and sorted by where it goes: the owner of the state is alone, and all that
it does for each report holds up the processes. It takes a whole segment over in one transaction:
tags, the reports whose tags were new, counters, and that the segment is done. A crash before
that leaves the segment as it was; after it the segment is never opened again, and its file goes.
A segment that was damaged on the disk is put aside first; all blocks of it that are whole are
taken like any other segment. If it is restored from a copy, what was taken is known by its tags.
So a copy is a copy wherever it stands: in one upload, in two segments, or long after its report
was passed on.

A report whose plan or key is not known here was acknowledged, so it waits in the state until it
is known: a service that was started with another folder of keys loses nothing. A key that was
destroyed opens nothing any more: what comes for it is rejected, and counted.

So is a report for later parties' keys that this hop has not given out (``later_keys``): its sender
has them from somebody else, who can fill the crowd around it. That is judged in the transaction
that takes it. The state has a route before any device has it, so no honest report comes too early.
The tag of a rejected one is kept: no copy of it is taken once everybody is given its keys.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np

from chaffinch.disk.files import put_aside, put_aside_in, sync_folder
from chaffinch.disk.kill_points import kill_point
from chaffinch.disk.storage_errors import storage_fault
from chaffinch.errors import Reason, StorageFault
from chaffinch.keys import StoredKey
from chaffinch.shuffling.batch_outbox import items_of
from chaffinch.shuffling.inbox import Upload, read_segment, salvage
from chaffinch.shuffling.state import Change, Partition, State
from chaffinch.tables.parallel import Pool
from chaffinch.wire.envelopes import TAG, Binding, OpeningKey, replay_tag
from chaffinch.wire.sealed_reports import Layout

_CHUNK = 250
"""Envelopes that a process opens before it hands them back."""
_SIZE = np.dtype("<u4")


@dataclass(frozen=True)
class HopKey:
    """A key of this hop with the secret of its replay tags. ``repr`` shows neither."""

    id: int
    kem: int
    name: bytes
    private: bytes = field(repr=False)
    tag_secret: bytes = field(repr=False)

    @classmethod
    def of(cls, stored: StoredKey) -> Self:
        """Return a key of the folder of this hop."""
        key = stored.key
        return cls(key.id, key.kem, key.sealing.name, key.private, stored.tag_secret)


@dataclass(frozen=True)
class HopKeys:
    """The keys that open here, and the ids of those that were destroyed."""

    opening: Mapping[int, HopKey]
    destroyed: Container[int] = ()

    def named(self, name: bytes) -> HopKey | None:
        """Return the key of a name; another one with its id is not the same."""
        # A name begins with the id of its key.
        found = self.opening.get(name[0])
        return found if found is not None and found.name == name else None


class Chunk(NamedTuple):
    """Envelopes of one plan, round, layer and route, one behind the other."""

    layout: Layout
    hop: int
    """Who opens them; hops count from 1."""
    binding: Binding
    length: int
    envelopes: bytes


class Route(NamedTuple):
    """Where the items of an envelope go: copies of one envelope always go the same way."""

    key: int
    """The key that opened it."""
    route: bytes
    """That of the report. At a later hop all that opens goes on as the head of the batch says."""


class Contents(NamedTuple):
    """What was in envelopes that go one way: three rows, in which each has its place."""

    tags: bytes
    sizes: bytes
    """How many items each has, as unsigned numbers of 4 bytes."""
    items: bytes

    @property
    def envelopes(self) -> int:
        """Return of how many envelopes it is."""
        return len(self.tags) // TAG

    @staticmethod
    def of(pairs: Sequence[tuple[bytes, bytes]], length: int) -> Contents:
        """Return pairs of a tag and items as rows; ``length`` is that of an item."""
        sizes = np.fromiter((len(items) // length for _, items in pairs), _SIZE, len(pairs))
        tags = b"".join(tag for tag, _ in pairs)
        return Contents(tags, sizes.tobytes(), b"".join(items for _, items in pairs))

    @staticmethod
    def joined(parts: Iterable[Contents]) -> Contents:
        """Return the rows of several parts as one."""
        return Contents(*map(b"".join, zip(*parts, strict=True)))

    def claim(self, change: Change, key: int, length: int) -> Contents:
        """Return those that are here for the first time, and remember all of them.

        ``length`` is that of an item.
        """
        tags = [self.tags[at : at + TAG] for at in range(0, len(self.tags), TAG)]
        fresh = change.claim(key, tags)
        if all(fresh):
            return self
        sizes = np.frombuffer(self.sizes, _SIZE)
        # A report that was here before takes all of its items with it.
        items = items_of(self.items, length)[np.repeat(fresh, sizes)]
        kept = b"".join(tag for tag, new in zip(tags, fresh, strict=True) if new)
        return Contents(kept, sizes[fresh].tobytes(), items.tobytes())


class Opened(NamedTuple):
    """What was in the envelopes of a chunk, and how many of them held nothing of use."""

    contents: dict[Route, Contents]
    undecryptable: int
    malformed: int


def open_chunk(given: tuple[HopKey, ...], chunk: Chunk) -> Opened:
    """Return what is in the envelopes, sorted by its way. Runs in any process."""
    keys = {key.id: (_loaded(key), key.tag_secret) for key in given}
    layout, hop, binding, length, envelopes = chunk
    unit = layout.item_length(hop)
    found: dict[Route, list[tuple[bytes, bytes]]] = {}
    undecryptable = malformed = 0
    for at in range(0, len(envelopes), length):
        envelope = envelopes[at : at + length]
        known = keys.get(envelope[0])
        content = known and known[0].open(envelope, binding)
        if known is None or content is None:
            undecryptable += 1
            continue
        # Only the first hop gets several items in one envelope; later ones get the item itself.
        unpacked = layout.unpack(content) if hop == 1 else (b"", content)
        if unpacked is None:
            malformed += 1
            continue
        (key, secret), (route, items) = known, unpacked
        # Only for what holds something: junk would fill the store with tags.
        tag = replay_tag(secret, envelope, key.kem)
        found.setdefault(Route(key.id, route), []).append((tag, items))
    contents = {way: Contents.of(pairs, unit) for way, pairs in found.items()}
    return Opened(contents, undecryptable, malformed)


@lru_cache(maxsize=8)
def _loaded(key: HopKey) -> OpeningKey:
    return OpeningKey(key.id, key.kem, key.private)


def chunks_of(
    envelopes: bytes, length: int, layout: Layout, hop: int, binding: Binding
) -> Iterator[Chunk]:
    """Yield envelopes of one binding in chunks."""
    for at in range(0, len(envelopes), _CHUNK * length):
        yield Chunk(layout, hop, binding, length, envelopes[at : at + _CHUNK * length])


# ----------------------------------------------------------------------------
# Segments of a first hop.


class SegmentOpener:
    """Takes segments over into the state; it knows the plans of which this is the first hop."""

    def __init__(
        self, state: State, inbox: Path, layouts: Mapping[str, Layout], pool: Pool
    ) -> None:
        self._state = state
        self._inbox = inbox
        self._layouts = layouts
        self._pool = pool

    def open_segments(self, paths: Iterable[Path], keys: HopKeys) -> None:
        """Take over all reports of sealed segments, one segment after the other, and remove them.

        While one is written down, the processes open the next. That they are done is forgotten
        for all of them together.
        """
        done = self._state.opened_segments()
        aside = {path.name: path for path in put_aside_in(self._inbox)}
        taken = self._taken_of(aside)
        # Some were put aside by a process that ended before it took them.
        again = (self._salvage(path, keys) for name, path in aside.items() if name not in taken)
        fresh = (self._read(path, keys, aside) for path in paths if path.stem not in done)
        # For each segment: one transaction, then its file goes. A kill before the commit leaves the
        # segment as it was; a kill after it leaves a file whose name is in ``done`` next time.
        for segment in self._opened(chain(again, fresh), keys):
            kill_point("opening.opened")
            with self._state.changing() as change:
                self._take(change, segment.groups)
                if segment.is_damaged:
                    self._count_lost(change, segment.lost)
                    change.finish_damaged(segment.path.name)
                else:
                    change.finish_segment(segment.path.stem)
                kill_point("opening.taken")
            kill_point("opening.committed")
            if segment.is_damaged:
                continue
            done.add(segment.path.stem)
            # Not synced for each: until ``_forget`` the state remembers the name, so a file that
            # comes back after a power cut is not opened again.
            remove_file(segment.path, sync=False)
            kill_point("opening.removed")
        self._forget(done)

    def _read(self, path: Path, keys: HopKeys, used: Container[str]) -> _Segment:
        """Return a segment to open; one that is damaged is put aside, and what is whole taken.

        ``used`` are names of damaged ones that are done with, or will be: it gets none of them.
        """
        try:
            return _Segment(path, self._groups(read_segment(path), keys))
        except StorageFault as fault:
            if fault.reason is not Reason.DAMAGED:
                raise
        aside = put_aside(path, used)
        kill_point("opening.aside")
        return self._salvage(aside, keys)

    def _salvage(self, path: Path, keys: HopKeys) -> _Segment:
        found = salvage(path)
        groups = self._groups(found.uploads, keys)
        return _Segment(path, groups, lost=found.lost, is_damaged=True)

    def _taken_of(self, aside: Collection[str]) -> set[str]:
        """Return which damaged segments are taken; forget those that are not there any more."""
        taken = self._state.put_aside()
        # A copy that is damaged as well may get the name of one that was removed.
        if gone := taken.difference(aside):
            with self._state.changing() as change:
                change.forget_damaged(gone)
        return taken - gone

    def _count_lost(self, change: Change, lost: Iterable[Upload]) -> None:
        for upload in lost:
            layout = self._layouts.get(upload.plan_id)
            if layout is not None:
                reports = len(upload.reports) // layout.report_length
                change.count(upload.plan_id, {"durable": reports, "damaged": reports})

    def open_held(self, keys: HopKeys) -> None:
        """Take over what waited for its plan or key, as far as these are known now."""
        for held in self._state.held():
            groups = self._groups([Upload(held.plan_id, held.round, held.reports)], keys)
            if all(group.waiting and not group.known for group in groups):
                continue
            for segment in self._opened([_Segment(self._inbox, groups)], keys):
                with self._state.changing() as change:
                    change.unhold(held.id)
                    # They are counted again by what becomes of them.
                    change.count(held.plan_id, {"durable": -held.counted})
                    self._take(change, segment.groups)

    def _forget(self, done: Collection[str]) -> None:
        if not done:
            return
        # The files must surely be gone before the state forgets their names. Otherwise a file that
        # comes back after a power cut would be opened, and counted, a second time.
        for name in done:
            remove_file(self._inbox / f"{name}.segment", sync=False)
        sync_removed(self._inbox)
        with self._state.changing() as change:
            change.forget_segments(done)

    def _groups(self, uploads: Sequence[Upload], keys: HopKeys) -> list[_Group]:
        together: dict[tuple[str, int], list[bytes]] = {}
        for upload in uploads:
            together.setdefault((upload.plan_id, upload.round), []).append(upload.reports)
        groups = []
        for (plan_id, number), reports in together.items():
            group = _Group(plan_id, number, self._layouts.get(plan_id))
            group.sort(b"".join(reports), keys)
            groups.append(group)
        return groups

    def _opened(self, segments: Iterable[_Segment], keys: HopKeys) -> Iterator[_Segment]:
        # A group for each of its chunks, and a segment behind its last one. Results come in this
        # order. The pool takes chunks ahead, so the processes open the next segments while the
        # caller writes one down.
        handed_out: deque[_Group | _Segment] = deque()

        def chunks() -> Iterator[Chunk]:
            for segment in segments:
                for group in segment.groups:
                    for chunk in group.chunks():
                        handed_out.append(group)
                        yield chunk
                handed_out.append(segment)

        for found in self._pool.mapped(open_chunk, tuple(keys.opening.values()), chunks()):
            while isinstance(first := handed_out.popleft(), _Segment):
                yield first
            first.add(found)
        # Nothing is out any more, so no group is left.
        yield from (last for last in handed_out if isinstance(last, _Segment))

    def _take(self, change: Change, groups: Sequence[_Group]) -> None:
        for group in groups:
            counted = Counter(group.rejected)
            if group.waiting:
                change.hold(group.plan_id, group.round, group.held, group.waiting)
            if group.layout is None:
                continue
            length = group.layout.item_length(1)
            for way, parts in group.found.items():
                found = Contents.joined(parts)
                # Claimed before it is judged: no duplicate of a rejected report is taken later.
                kept = found.claim(change, way.key, length)
                counted["duplicate"] += found.envelopes - kept.envelopes
                if not change.is_given_out(group.plan_id, way.route):
                    counted["not_given_out"] += kept.envelopes
                elif kept.envelopes:
                    counted["opened"] += kept.envelopes
                    partition = Partition(group.plan_id, group.round, way.route)
                    change.add_to_pool(partition, kept.envelopes, kept.sizes, kept.items)
            counted["durable"] = group.known + group.held
            change.count(group.plan_id, counted)


@dataclass
class _Segment:
    path: Path
    groups: list[_Group]
    lost: list[Upload] = field(default_factory=list)
    is_damaged: bool = False


@dataclass
class _Group:
    """Reports of one plan and round, sorted by what can be done about them."""

    plan_id: str
    round: int
    layout: Layout | None = None
    due: bytes = b""
    waiting: bytes = b""
    rejected: Counter[str] = field(default_factory=Counter)
    found: dict[Route, list[Contents]] = field(default_factory=dict)

    def sort(self, reports: bytes, keys: HopKeys) -> None:
        if self.layout is None:
            self.waiting = reports
            return
        length = self.layout.report_length
        ids = reports[::length]  # An envelope starts with the id of its key.
        if set(ids) <= keys.opening.keys():
            self.due = reports
            return
        due, waiting = [], []
        for place, key in enumerate(ids):
            report = reports[place * length : (place + 1) * length]
            if key in keys.opening:
                due.append(report)
            elif key in keys.destroyed:
                self.rejected["destroyed_key"] += 1
            else:
                waiting.append(report)
        self.due, self.waiting = b"".join(due), b"".join(waiting)

    @property
    def held(self) -> int:
        """Return how many reports wait; none are counted where their length is not known."""
        return 0 if self.layout is None else len(self.waiting) // self.layout.report_length

    @property
    def known(self) -> int:
        """Return of how many reports something becomes now."""
        if self.layout is None:
            return 0
        return self.rejected["destroyed_key"] + len(self.due) // self.layout.report_length

    def chunks(self) -> Iterator[Chunk]:
        if self.layout is not None:
            length, binding = self.layout.report_length, self.layout.binding(1, self.round)
            yield from chunks_of(self.due, length, self.layout, 1, binding)

    def add(self, opened: Opened) -> None:
        self.rejected["undecryptable"] += opened.undecryptable
        self.rejected["malformed"] += opened.malformed
        for way, contents in opened.contents.items():
            self.found.setdefault(way, []).append(contents)


def remove_file(path: Path, *, sync: bool = True) -> None:
    """Remove a file that is done with; one that is gone already is fine.

    Without ``sync`` it may come back after a power cut, until ``sync_removed``.
    """
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise storage_fault(path.name, error, verb="remove") from None
    if sync:
        sync_removed(path.parent)


def sync_removed(folder: Path) -> None:
    """Make sure that what was removed from a folder stays removed."""
    try:
        sync_folder(folder)
    except OSError as error:
        raise storage_fault(folder.name, error, verb="remove") from None
