"""Group commit: the uploads that came while a block was synced are written as the next block.

A thread of its own does everything that waits for the disk. No upload is acknowledged before it is
on the disk. A sync that fails ends the process: nobody can know what is on the disk then.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Annotated, Self

from chaffinch.disk.files import DAMAGED, make_folder
from chaffinch.errors import Reason, StorageFault
from chaffinch.services.worker_thread import end_process
from chaffinch.shuffling.inbox import (
    LARGEST_SEGMENT,
    SegmentWriter,
    Upload,
    read_segment,
    recover,
    sealed_segments,
)
from chaffinch.wire.problems import Kind, Problem

_PAUSE = 0.25
_WORK_PER_MEASUREMENT = 20
"""After a measurement of the disk, there is so many times as long for other work."""


@dataclass(frozen=True)
class InboxLimits:
    """How much may wait, and where."""

    plan_bytes: Annotated[int, "on the disk for one plan, not yet opened"] = 1 << 30
    free_bytes: Annotated[int, "that must be free on the disk"] = 512 << 20
    """Shuffling needs room, too."""
    segment_bytes: Annotated[int, "after which a segment is closed, and can be opened"] = (
        LARGEST_SEGMENT
    )
    segment_seconds: Annotated[float, "or after so long"] = 1.0


USUAL_INBOX = InboxLimits()


@dataclass(frozen=True)
class _DiskUsage:
    full: bool
    unopened: Counter[str]
    """Bytes for each plan."""
    seconds: float
    """How long it took."""


class GroupCommit:
    """The way into an inbox; to be entered in the event loop that uses it."""

    def __init__(self, folder: Path, limits: InboxLimits = USUAL_INBOX) -> None:
        self._limits = limits
        self._disk = _Disk(folder, limits)
        self._jobs: SimpleQueue[list[Upload] | None] = SimpleQueue()
        self._waiting: list[Upload] = []
        self._waiting_done: asyncio.Future[bool] | None = None
        self._busy = False
        self._full = False
        self._unopened: Counter[str] = Counter()

    async def __aenter__(self) -> Self:
        """Seal what a dead process left, and start."""
        self._loop = asyncio.get_running_loop()
        self._disk.start()
        self._thread = Thread(target=self._work, name="inbox", daemon=True)
        self._use_measurement(self._disk.measure())
        self._thread.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Write what waits, and seal it."""
        self._next_measurement.cancel()
        self._jobs.put(None)
        await asyncio.to_thread(self._thread.join)

    async def put(self, upload: Upload) -> None:
        """Return when an upload is on the disk; Problem if there is no room for it."""
        size = len(upload.reports)
        # The next measurement replaces this sum by what is on the disk, without what waits in
        # memory: so the limit is exceeded by at most what all requests may hold there.
        if self._full or self._unopened[upload.plan_id] + size > self._limits.plan_bytes:
            raise Problem(Kind.OVERLOADED, retry_after=1)
        done = self._waiting_done
        if done is None:
            done = self._waiting_done = self._loop.create_future()
            if not self._busy:
                # Not at once: uploads that have arrived by now come into the same block.
                self._loop.call_soon(self._hand_over)
        self._waiting.append(upload)
        self._unopened[upload.plan_id] += size
        if not await done:
            raise Problem(Kind.OVERLOADED, retry_after=1)

    def _hand_over(self) -> None:
        # Only one block is under way: a second one would gain nothing while the disk is syncing the
        # first, and more uploads share the sync of the next one.
        if self._busy or self._waiting_done is None:
            return
        self._busy = True
        self._writing_done, self._waiting_done = self._waiting_done, None
        group, self._waiting = self._waiting, []
        self._jobs.put(group)

    def _finish(self, written: bool) -> None:  # noqa: FBT001 - a callback
        self._busy = False
        # A disk that was full for this block stays full until it is measured again.
        self._full = self._full or not written
        # The future is cancelled where a request that waited for it was.
        if not self._writing_done.done():
            self._writing_done.set_result(written)
        self._hand_over()

    def _use_measurement(self, found: _DiskUsage) -> None:
        # The next one is asked for only now, so there are never two measurements in the queue.
        self._full = found.full
        self._unopened = found.unopened
        pause = max(_PAUSE, _WORK_PER_MEASUREMENT * found.seconds)
        self._next_measurement = self._loop.call_later(pause, self._jobs.put, [])

    def _work(self) -> None:
        try:
            # An empty group asks for a measurement, None for the end.
            while (group := self._jobs.get()) is not None:
                if group:
                    self._tell(self._finish, self._disk.write(group))
                else:
                    self._tell(self._use_measurement, self._disk.measure())
            self._disk.stop()
        # A sync may have failed: what the disk holds is unknown, so no upload of this block may be
        # answered, not even with a refusal that invites its sender to send it again.
        except BaseException as fault:  # noqa: BLE001 - a process without this thread is of no use
            end_process("The inbox", fault)

    def _tell(self, news: Callable[..., object], *facts: object) -> None:
        # Futures and counters belong to the thread of the loop.
        with suppress(RuntimeError):  # The loop is closed: nobody waits for this any more.
            self._loop.call_soon_threadsafe(news, *facts)


class _Disk:
    """The folder of an inbox; one thread at a time uses it."""

    def __init__(self, folder: Path, limits: InboxLimits) -> None:
        self._folder = folder
        self._limits = limits
        self._writer = SegmentWriter(folder, largest=limits.segment_bytes)
        self._opened = 0.0
        self._bytes: dict[str, Counter[str]] = {}
        """For every segment that may still be there: its bytes for each plan."""
        self._unopened: Counter[str] = Counter()
        """The sum of these."""

    def start(self) -> None:
        make_folder(self._folder)
        # First what a killed process left open is sealed: only then is every segment counted.
        cut = recover(self._folder)
        if cut:
            sys.stderr.write(
                f"The inbox ended with {cut} bytes of uploads that were not acknowledged; "
                "they are removed.\n"
            )
        for path in sealed_segments(self._folder):
            with suppress(StorageFault):  # whoever opens it tells of it
                self._count(path.stem, read_segment(path))

    def write(self, group: list[Upload]) -> bool:
        if not self._writer.length:
            self._opened = time.monotonic()
        try:
            self._writer.append(group)
        except StorageFault as fault:
            if fault.reason is not Reason.NO_SPACE:
                raise
            return False  # Nothing of the block is in the file.
        self._count(self._writer.name, group)
        return True

    def measure(self) -> _DiskUsage:
        """Seal a segment that is old enough; return how much room there is."""
        age = time.monotonic() - self._opened
        # The shuffler opens sealed segments only: a slow stream of reports must not wait for the
        # largest segment to be full.
        if self._writer.length and age >= self._limits.segment_seconds:
            self._writer.seal()
        start = time.monotonic()
        # A segment that is gone was opened, and one that was put aside as far as it can be.
        names = (entry.name for entry in os.scandir(self._folder))
        there = {name.partition(".")[0] for name in names if not name.endswith(DAMAGED)}
        for name in self._bytes.keys() - there:
            self._unopened -= self._bytes.pop(name)
        full = shutil.disk_usage(self._folder).free < self._limits.free_bytes
        return _DiskUsage(full, self._unopened.copy(), time.monotonic() - start)

    def stop(self) -> None:
        self._writer.seal()

    def _count(self, name: str, uploads: Iterable[Upload]) -> None:
        found = self._bytes.setdefault(name, Counter())
        for upload in uploads:
            found[upload.plan_id] += len(upload.reports)
            self._unopened[upload.plan_id] += len(upload.reports)
