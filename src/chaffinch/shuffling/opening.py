"""Opening: sealed segments of the inbox become reports that wait for their crowd.

Processes open envelopes, chunk by chunk, and give back what was inside with its replay tags.
The owner of the state then takes a whole segment over in one transaction: tags, the reports
whose tags were new, counters, and that the segment is done. A crash before that leaves the
segment as it was; after it the segment is never opened again, and its file goes. So a copy is
a copy wherever it stands: in one upload, in two segments, or long after its report was passed on.

A report whose plan or key is not known here was acknowledged, so it waits in the state until it
is known: a service that was started with another folder of keys loses nothing. A key that was
destroyed opens nothing any more: what comes for it is rejected, and counted.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from chaffinch.parallel import Pool
from chaffinch.shuffling.inbox import Upload, read_segment
from chaffinch.shuffling.state import Change, Partition, State
from chaffinch.storage.failpoints import reach
from chaffinch.storage.faults import storage_fault
from chaffinch.storage.files import sync_folder
from chaffinch.wire.envelopes import Binding, OpeningKey, replay_tag
from chaffinch.wire.sealed_reports import Layout

_CHUNK = 500
"""Envelopes that a process opens before it hands them back."""


@dataclass(frozen=True)
class HopKey:
    """A key of this hop with the secret of its replay tags. ``repr`` shows neither."""

    id: int
    kem: int
    private: bytes = field(repr=False)
    tag_secret: bytes = field(repr=False)


@dataclass(frozen=True)
class HopKeys:
    """The keys that open here, and the ids of those that were destroyed."""

    opening: Mapping[int, HopKey]
    destroyed: Container[int] = ()


class Found(NamedTuple):
    """What was in an envelope that did open."""

    key: int
    tag: bytes
    content: bytes


class Chunk(NamedTuple):
    """Envelopes of one length and purpose, one behind the other."""

    binding: Binding
    length: int
    envelopes: bytes


def open_chunk(given: tuple[HopKey, ...], chunk: Chunk) -> list[Found | None]:
    """Return what is in each envelope; None for one that does not open. Runs in any process."""
    keys = {key.id: (_loaded(key), key.tag_secret) for key in given}
    length, binding, envelopes = chunk.length, chunk.binding, chunk.envelopes
    found: list[Found | None] = []
    for at in range(0, len(envelopes), length):
        envelope = envelopes[at : at + length]
        known = keys.get(envelope[0])
        content = known and known[0].open(envelope, binding)
        if known is None or content is None:
            found.append(None)
        else:
            key, secret = known
            found.append(Found(key.id, replay_tag(secret, envelope, key.kem), content))
    return found


@lru_cache(maxsize=8)
def _loaded(key: HopKey) -> OpeningKey:
    return OpeningKey(key.id, key.kem, key.private)


def chunks_of(envelopes: bytes, length: int, binding: Binding) -> Iterator[Chunk]:
    """Yield envelopes in chunks."""
    for at in range(0, len(envelopes), _CHUNK * length):
        yield Chunk(binding, length, envelopes[at : at + _CHUNK * length])


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

        While one is written down, the processes open the next.
        """
        done = self._state.opened_segments()
        fresh = (
            _Segment(path, self._groups(read_segment(path), keys))
            for path in paths
            if path.stem not in done
        )
        for segment in self._opened(fresh, keys):
            reach("opening.opened")
            with self._state.changing() as change:
                self._take(change, segment.groups)
                change.finish_segment(segment.path.stem)
                reach("opening.taken")
            reach("opening.committed")
            self._remove(segment.path)
        for name in done:
            self._remove(self._inbox / f"{name}.segment")

    def open_held(self, keys: HopKeys) -> None:
        """Take over what waited for its plan or key, as far as these are known now."""
        for held in self._state.held():
            groups = self._groups([Upload(held.plan_id, held.round, held.reports)], keys)
            if all(group.waiting and not group.known for group in groups):
                continue
            for segment in self._opened([_Segment(self._inbox, groups)], keys):
                with self._state.changing() as change:
                    change.unhold(held.id)
                    change.count(held.plan_id, {"durable": -held.counted})
                    self._take(change, segment.groups)

    def _remove(self, path: Path) -> None:
        remove_file(path)
        reach("opening.removed")
        with self._state.changing() as change:
            change.forget_segments([path.stem])

    def _groups(self, uploads: Sequence[Upload], keys: HopKeys) -> list[_Group]:
        """Sort reports by what they are for, and by what can be done about them."""
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
        """Yield segments in their order, with all that could be opened."""
        under_way: deque[_Segment] = deque()
        handed_out: deque[tuple[_Segment, _Group]] = deque()

        def chunks() -> Iterator[Chunk]:
            for segment in segments:
                under_way.append(segment)
                for group in segment.groups:
                    for chunk in group.chunks():
                        segment.left += 1
                        handed_out.append((segment, group))
                        yield chunk
                segment.all_handed_out = True

        for found in self._pool.mapped(open_chunk, tuple(keys.opening.values()), chunks()):
            segment, group = handed_out.popleft()
            group.found += found
            segment.left -= 1
            while under_way and under_way[0].is_open:
                yield under_way.popleft()
        yield from under_way

    def _take(self, change: Change, groups: Sequence[_Group]) -> None:
        for group in groups:
            counted = Counter(group.rejected)
            if group.waiting:
                change.hold(group.plan_id, group.round, group.held, group.waiting)
            if group.layout is None:
                continue
            payloads = group.payloads(group.layout, counted)
            fresh = claimed(change, [found for found, _, _ in payloads])
            counted["duplicate"] += fresh.count(False)
            counted["opened"] += fresh.count(True)
            counted["durable"] = group.known + group.held
            kept = [one[1:] for one, new in zip(payloads, fresh, strict=True) if new]
            for route, items in _by_route(kept).items():
                length = group.layout.item_length(1)
                sizes = np.array([len(each) // length for each in items], "<u4").tobytes()
                partition = Partition(group.plan_id, group.round, route)
                change.add_to_pool(partition, len(items), sizes, b"".join(items))
            change.count(group.plan_id, counted)


@dataclass
class _Segment:
    """A segment on its way through the processes."""

    path: Path
    groups: list[_Group]
    left: int = 0
    """Chunks that were handed out and are not back."""
    all_handed_out: bool = False

    @property
    def is_open(self) -> bool:
        return self.all_handed_out and not self.left


@dataclass
class _Group:
    """Reports of one plan and round, sorted by what can be done about them."""

    plan_id: str
    round: int
    layout: Layout | None = None
    due: bytes = b""
    waiting: bytes = b""
    rejected: Counter[str] = field(default_factory=Counter)
    found: list[Found | None] = field(default_factory=list)

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
        """Yield what can be opened, in chunks."""
        if self.layout is not None:
            binding, length = self.layout.binding(1, self.round), self.layout.report_length
            yield from chunks_of(self.due, length, binding)

    def payloads(self, layout: Layout, counted: Counter[str]) -> list[tuple[Found, bytes, bytes]]:
        """Return what was opened with its route and items; count what cannot be used."""
        usable = []
        for found in self.found:
            unpacked = found and layout.unpack(found.content)
            if found is None:
                counted["undecryptable"] += 1
            elif unpacked is None:
                counted["malformed"] += 1
            else:
                usable.append((found, *unpacked))
        return usable


def claimed(change: Change, found: Sequence[Found]) -> list[bool]:
    """Return which of these are here for the first time, and remember all of them."""
    fresh = [False] * len(found)
    places: dict[int, list[int]] = {}
    for place, one in enumerate(found):
        places.setdefault(one.key, []).append(place)
    for key, of_key in places.items():
        new = change.claim(key, [found[place].tag for place in of_key])
        for place, is_new in zip(of_key, new, strict=True):
            fresh[place] = is_new
    return fresh


def _by_route(kept: Iterable[tuple[bytes, bytes]]) -> dict[bytes, list[bytes]]:
    routes: dict[bytes, list[bytes]] = {}
    for route, items in kept:
        routes.setdefault(route, []).append(items)
    return routes


def remove_file(path: Path) -> None:
    """Remove a file that is done with, durably; one that is gone already is fine."""
    try:
        path.unlink(missing_ok=True)
        sync_folder(path.parent)
    except OSError as error:
        raise storage_fault(path.name, error, verb="remove") from None
