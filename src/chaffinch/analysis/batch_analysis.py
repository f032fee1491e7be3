"""The analyzer at work: batches that arrived are opened, paid for and released, each once.

Its folder holds ``received`` with the batches as they came, and ``state.sqlite``. A step may be
cut off anywhere and taken again: a batch is opened by one transaction, paid for by one of the
ledger, and its file goes when its release is kept. The file of a refused batch stays, and that of
one that is short until it is part of another.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import BrokenExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from chaffinch.analysis.plan_analysis import PlanAnalysis, require_analyzer
from chaffinch.analysis.received import KnownBatch, KnownBatches, Received
from chaffinch.disk.files import make_folder, sync_folder
from chaffinch.disk.storage_errors import storage_fault
from chaffinch.errors import (
    ChaffinchError,
    ClusterFault,
    InvalidFile,
    InvalidInput,
    StorageFault,
)
from chaffinch.keys import KeyFolder, KeyState
from chaffinch.ledger import Ledger
from chaffinch.tables.parallel import Pool, Stopped
from chaffinch.wire.arrivals import arrived_batches, unfinished
from chaffinch.wire.sealed_batches import HEAD_LENGTH, BatchHead

RECEIVED, STATE = "received", "state.sqlite"
"""Where batches arrive, and what is known of them, in the folder of an analyzer."""

_NOT_OF_A_BATCH = (StorageFault, ClusterFault, Stopped, OSError, BrokenExecutor)
"""What has nothing to do with the batch that is worked on: the process waits for that, or ends."""
_SETTLED = 10**9
"""Nanoseconds in which two changes of a file may have the same time."""


@dataclass(frozen=True)
class AnalyzerCounts:
    """What became of the batches of one plan, and of the items in those that were opened."""

    INVARIANTS: ClassVar = {"items": ("counted", "dummies", "replayed", "rejected")}
    """What each whole is the sum of, whatever happens."""

    waiting: int = 0
    opened: int = 0
    unpaid: int = 0
    short: int = 0
    refused: int = 0
    released: int = 0
    joined: int = 0
    items: int = 0
    counted: int = 0
    dummies: int = 0
    replayed: int = 0
    rejected: int = 0

    @property
    def adds_up(self) -> bool:
        """Return whether every item is accounted for."""
        return all(
            getattr(self, whole) == sum(getattr(self, part) for part in parts)
            for whole, parts in self.INVARIANTS.items()
        )


class Analyzer:
    """One process that opens batches and releases them."""

    def __init__(
        self,
        folder: Path,
        keys: KeyFolder,
        analyses: Iterable[PlanAnalysis],
        *,
        ledger: Ledger | None = None,
        level: float = 0.95,
        pool: Pool | None = None,
    ) -> None:
        self._keys = keys
        self._analyses = {one.plan.id: one for one in analyses}
        for one in self._analyses.values():
            require_analyzer(one.plan, keys)
        self._ledger = None if ledger is None else ledger.of("analyzer")
        self._level = level
        self._pool = pool
        self._asked: set[str] = set()
        self._forgotten: set[int] = set()
        self.unreadable: dict[str, str] = {}
        """Batches that were taken and cannot be opened or released now, and why; they are kept."""
        self._tried: dict[str, int] = {}
        """When the files of these were last changed; see ``_open``."""
        self._folder = folder / RECEIVED
        make_folder(self._folder)
        self._received = Received(folder / STATE)

    def close(self) -> None:
        """Let another process go on."""
        self._received.close()

    def step(self) -> int:
        """Open and release all that waits; return how many batches came further."""
        if self._keys.refresh():
            self._tried.clear()
        # Opened first, joined only where too few came by themselves: a batch that is complete never
        # waits for others.
        done = sum(map(self._open, self._waiting()))
        done += sum(map(self._release, self._due()))
        if sum(map(self._join, self._analyses.values())):
            done += sum(map(self._release, self._due()))
        self._remove_released()
        self._forget_keys()
        return done

    def _join(self, analysis: PlanAnalysis) -> bool:
        try:
            joined = analysis.join_short(self._received)
        except _NOT_OF_A_BATCH:
            raise
        except Exception as fault:  # noqa: BLE001 - whatever it is, other plans go on
            said = f"Short batches are not joined. {_unforeseen(fault)}"
            self.unreadable[analysis.plan.id] = said
            return False
        self.unreadable.pop(analysis.plan.id, None)
        return joined

    def _due(self) -> list[KnownBatch]:
        # What the ledger had no room for is tried once in the life of a process: no cap grows.
        return [
            batch
            for batch in self._received.all()
            if batch.state in ("opened", "unpaid") and batch.id not in self._asked
        ]

    def batches(self) -> list[KnownBatch]:
        """Return all batches that were opened."""
        return self._received.all()

    def needs_key(self, number: int) -> bool:
        """Return whether a batch that is not opened yet needs a key: it must not be destroyed."""
        names = {one.key.sealing.name for one in self._keys.opening_keys().values()}
        for start in unfinished(self._folder, HEAD_LENGTH):
            with suppress(InvalidFile):
                if BatchHead.unpack(start).key_id == number:
                    return True
        # A damaged file may be restored, and then needs the key it always needed; so does one whose
        # head names no key of ours.
        heads = map(_head_of, self._waiting())
        return any(
            head is None or head.key_id == number or head.key_name not in names for head in heads
        )

    def counts(self) -> dict[str, AnalyzerCounts]:
        """Return what became of all batches, by plan."""
        return _counts_in(self._received, self._folder)

    def _waiting(self) -> list[Path]:
        return _unopened_files(self._received, self._folder)

    def _open(self, path: Path) -> bool:
        """Open a batch; return whether it is open then.

        To find that one cannot be opened takes a look at all of it, which may be gigabytes. So the
        next look is when the keys or the file have changed. A copy that was restored can have the
        length and the time of the file before, but not the time of its inode.
        """
        changed = _inode_changed_at(path)
        if self._tried.get(path.stem) == changed:
            return False
        why = self._try_open(path)
        if why is None:
            self.unreadable.pop(path.stem, None)
            return True
        self.unreadable[path.stem] = why
        # A file that was changed just now may change again without a new time: look again.
        if time.time_ns() - changed > _SETTLED:
            self._tried[path.stem] = changed
        return False

    def _try_open(self, path: Path) -> str | None:
        analysis = self._analyses.get(_plan_of(path))
        if analysis is None:
            return "its plan is not run here"
        try:
            keys = self._keys.opening_keys()
            taken = analysis.take_over(path, self._received, keys, self._pool)
        except (InvalidFile, InvalidInput) as fault:
            return fault.message
        except _NOT_OF_A_BATCH:
            raise
        except Exception as fault:  # noqa: BLE001 - whatever it is, other batches are opened
            return _unforeseen(fault)
        return None if taken else "it is another batch than its name says"

    def _release(self, batch: KnownBatch) -> bool:
        analysis = self._analyses.get(batch.plan_id)
        if analysis is None:
            return False
        try:
            after = analysis.release(self._received, batch, ledger=self._ledger, level=self._level)
        except _NOT_OF_A_BATCH:
            raise
        except Exception as fault:  # noqa: BLE001 - whatever it is, other batches are released
            after, self.unreadable[batch.id] = batch, _unforeseen(fault)
        self._asked.add(batch.id)
        return after.state != batch.state

    def _forget_keys(self) -> None:
        # The key first, then its tags: a kill in between leaves tags that nothing can use. In the
        # other order a duplicate could still be opened, and would count a second time.
        self._keys.destroy_closed(self.needs_key)
        gone = {one.id for one in self._keys.entries if one.state is KeyState.DESTROYED}
        if gone != self._forgotten:
            self._received.forget_tags(gone)
            self._forgotten = gone

    def _remove_released(self) -> None:
        known = {one.id for one in self._received.all() if one.state in ("released", "joined")}
        gone = [path for path in arrived_batches(self._folder) if path.stem in known]
        # Only when the release is committed. A file that comes back after a power cut is known by
        # its name, and removed again.
        for path in gone:
            path.unlink()
        if gone:
            sync_folder(self._folder)


def analyzer_counts(folder: Path) -> dict[str, AnalyzerCounts]:
    """Return what became of all batches in the folder of an analyzer, whether it runs or not."""
    return _counts_in(KnownBatches(folder / STATE), folder / RECEIVED)


def _counts_in(known: KnownBatches, folder: Path) -> dict[str, AnalyzerCounts]:
    waiting = Counter(map(_plan_of, _unopened_files(known, folder)))
    found: dict[str, Counter[str]] = {one: Counter(waiting=count) for one, count in waiting.items()}
    for batch in known.all():
        counted = found.setdefault(batch.plan_id, Counter())
        counted[batch.state] += 1
        if batch.state == "joined":
            continue  # Its items are those of another one now.
        for name in ("items", "counted", "dummies", "replayed", "rejected"):
            counted[name] += getattr(batch, name)
    return {plan_id: AnalyzerCounts(**counted) for plan_id, counted in found.items()}


def _unopened_files(known: KnownBatches, folder: Path) -> list[Path]:
    opened = {batch.id for batch in known.all()}
    return [one for one in arrived_batches(folder) if one.stem not in opened]


def _unforeseen(fault: Exception) -> str:
    """Return what is said of a fault that nobody expects: its kind, as its words may hold anything.

    Anybody can have a part in what is in a batch. One that ended the process would end it at every
    start, and with it everything else that the analyzer does.
    """
    said = fault.message if isinstance(fault, ChaffinchError) else f"{type(fault).__name__}."
    return f"It is kept, and tried again at the next start: {said}"


def _head_of(path: Path) -> BatchHead | None:
    try:
        with path.open("rb") as file:
            return BatchHead.read(file)
    except InvalidFile:
        return None
    except OSError as error:
        raise storage_fault(path.name, error, verb="read") from None


def _inode_changed_at(path: Path) -> int:
    try:
        return path.stat().st_ctime_ns
    except OSError as error:
        raise storage_fault(path.name, error, verb="read") from None


def _plan_of(path: Path) -> str:
    head = _head_of(path)
    return "" if head is None else head.plan_id
