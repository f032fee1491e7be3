"""Receiving a file: it is durable under its name before its sender is told, or it is removed.

What the head of a batch says, and that its maker has signed it, is checked before any item is
taken; that the items are those of its id, when all of them are there. The file is synced before it
has its name, and the name before anybody is told. A batch that is there already is not written
again: its id is the digest of its content.
"""

from __future__ import annotations

import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Protocol, Self, TypeVar

from chaffinch.disk.files import Draft, sync_folder
from chaffinch.disk.kill_points import kill_point
from chaffinch.disk.storage_errors import write_fault
from chaffinch.errors import InvalidFile, Reason
from chaffinch.wire.envelopes import NAME
from chaffinch.wire.problems import Kind, Problem
from chaffinch.wire.sealed_batches import (
    HEAD_LENGTH,
    START_LENGTH,
    BatchHead,
    check_batch,
    is_made_by,
)

_SUFFIX = ".batch"
_Known = TypeVar("_Known")


class Lengths(Protocol):
    """How long everything is that travels for a plan."""

    @property
    def plan_id(self) -> str:
        """Return the id of the plan."""
        ...

    @property
    def hops(self) -> int:
        """Return how many hops there are."""
        ...

    def item_length(self, hop: int) -> int:
        """Return the length of what leaves a hop."""
        ...

    def most_items(self, reports: int) -> int:
        """Return how many items so many reports have at most."""
        ...


class Run(Protocol):
    """What a receiver must know of a plan that names its parties."""

    @property
    def layout(self) -> Lengths:
        """Return how long everything is."""
        ...

    @property
    def parties(self) -> Any:
        """Return who runs it."""
        ...

    @property
    def reports(self) -> int:
        """Return how many reports a batch must have."""
        ...

    @property
    def least_items(self) -> int:
        """Return how many items those of the honest users are at least."""
        ...

    @property
    def rounds(self) -> int:
        """Return how often the same people are asked."""
        ...


@dataclass(frozen=True)
class Expected:
    """What a receiver knows, from the plan, of the batches that come to it."""

    layout: Lengths
    hop: int
    """Who makes them; hops count from 1."""
    maker: bytes
    """The identity key of that hop."""
    least_reports: int
    least_items: int
    rounds: int

    @classmethod
    def of(cls, plan: Run, hop: int) -> Expected:
        """Return what is known of the batches that a hop makes."""
        maker: bytes = plan.parties.hops[hop - 1].key
        return cls(plan.layout, hop, maker, plan.reports, plan.least_items, plan.rounds)

    def read_start(self, start: bytes, batch_id: str, keys: Container[bytes]) -> BatchHead:
        """Return the head of a batch; refuse one that is not due, or not its maker's."""
        if len(start) < START_LENGTH:
            raise Problem(Kind.DAMAGED_BATCH)
        try:
            head = BatchHead.unpack(start[:HEAD_LENGTH])
        except InvalidFile:
            raise Problem(Kind.INVALID_MESSAGE) from None
        self.check_head(head, keys)
        if not is_made_by(self.maker, batch_id, start[:START_LENGTH]):
            raise Problem(Kind.DAMAGED_BATCH)
        return head

    def fits(self, head: BatchHead) -> bool:
        """Return whether a batch is of this plan, by that hop, and has the lengths it must have."""
        layout = self.layout
        route_length = (layout.hops + 1 - self.hop) * NAME
        said = (head.plan_id, head.hop, head.item_length, len(head.route))
        due = (layout.plan_id, self.hop, layout.item_length(self.hop), route_length)
        return said == due and 1 <= head.round <= self.rounds

    def check_head(self, head: BatchHead, keys: Container[bytes]) -> None:
        """Refuse a batch of another plan, round or hop, of too few reports, or for another key.

        ``keys`` are the names of those that batches are taken for.
        """
        if not self.fits(head):
            raise Problem(Kind.INVALID_MESSAGE, "It is for another plan, round or receiver.")
        if head.reports < self.least_reports or head.items < self.least_items:
            raise Problem(Kind.BATCH_TOO_SMALL)
        if head.items > self.layout.most_items(head.reports):
            raise Problem(Kind.INVALID_MESSAGE, "It has more messages than its reports can hold.")
        if head.key_name not in keys:
            raise Problem(Kind.OUTDATED_KEYS)


def _batch_path(folder: Path, batch_id: str) -> Path:
    if not re.fullmatch(r"[0-9a-f]{64}", batch_id):
        raise Problem(Kind.UNKNOWN_PATH)
    return folder / f"{batch_id}{_SUFFIX}"


def has_arrived(folder: Path, batch_id: str) -> bool:
    """Return whether a batch is in its place, durably.

    A process may have died, or be about to, between the name of a file and the sync of its folder.
    """
    there = _batch_path(folder, batch_id).exists()
    if there:
        try:
            sync_folder(folder)
        except OSError as error:
            raise write_fault(folder.name, error, Reason.UNCERTAIN) from None
    return there


def arrived_batches(folder: Path) -> list[Path]:
    """Return all batches in a folder, by their ids: the order says nothing of when they came."""
    return sorted(folder.glob(f"*{_SUFFIX}"))


def unfinished(folder: Path, length: int) -> Iterator[bytes]:
    """Yield how those files start that are on their way into a folder; short ones are left out.

    A closed key stays for a minute (``keys.folder.GRACE``) before anybody asks what needs it, and
    what is taken then was checked long before, with all of it here. Whoever asks looks at these
    first, and at what has its name afterwards: so nothing is missed that gets its name meanwhile.
    """
    for path in folder.glob(".*.part"):
        with suppress(OSError), path.open("rb") as file:  # It may have its name by now.
            start = file.read(length)
            if len(start) == length:
                yield start


class Arriving(ABC, Generic[_Known]):
    """A file on its way into a folder. Leaving the block before ``finish`` removes it."""

    def __init__(self, target: Path) -> None:
        self._target = target
        try:
            self._draft = Draft(target, 0o600)
        except OSError as error:
            raise write_fault(target.name, error) from None

    @abstractmethod
    def write(self, block: bytes) -> None:
        """Take the next bytes; Problem as soon as they cannot become what is due."""

    @abstractmethod
    def finish(self) -> _Known:
        """Check all of it and put it in its place; durable when this returns.

        After a StorageFault of the reason NO_SPACE the same bytes may be sent again. After one
        of the reason UNCERTAIN nobody knows what is on the disk, and the process must end.
        """

    def _append(self, block: bytes) -> None:
        rest = memoryview(block)
        try:
            while rest:
                rest = rest[os.write(self._draft.number, rest) :]
        except OSError as error:
            raise write_fault(self._target.name, error) from None

    def _put_down(self, check: Callable[[], object]) -> bool:
        """Give the complete file its name, durably; False where another file has that name.

        ``check`` raises if it is not due any more. To sync gigabytes can take longer than a closed
        key stays, so this is asked then, and not before. From then on the file needs its key, under
        its name or not (``unfinished``), however long the disk takes to give it one. It is never
        removed again: somebody may have got a receipt for it.
        """
        kill_point("arrival.written")
        first = True
        try:
            # Content, then name, then folder: a file under its name is whole after any power cut,
            # and the sender is told only when the name is on the disk, too.
            os.fsync(self._draft.number)
            kill_point("arrival.synced")
            check()
            try:
                self._draft.put_in_place(overwrite=False)
            except FileExistsError:
                first = False
            kill_point("arrival.named")
            sync_folder(self._target.parent)
        except OSError as error:
            raise write_fault(self._target.name, error, Reason.UNCERTAIN) from None
        kill_point("arrival.stored")
        return first

    def close(self) -> None:
        """Remove what is not in its place."""
        os.close(self._draft.number)
        self._draft.__exit__(None, None, None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Arrival(Arriving[BatchHead]):
    """One batch on its way into a folder.

    ``keys`` tells the names of the keys for which batches are taken, as of now: a batch can be on
    its way for so long that its key is closed meanwhile.
    """

    def __init__(
        self,
        folder: Path,
        batch_id: str,
        expected: Expected,
        keys: Callable[[], Container[bytes]],
    ) -> None:
        super().__init__(_batch_path(folder, batch_id))
        self._id = batch_id
        self._expected, self._keys = expected, keys
        self._start = b""
        self._head: BatchHead | None = None
        self._left = 0

    def write(self, block: bytes) -> None:
        """Take the next bytes; Problem as soon as they cannot become a batch that is due."""
        if self._head is None:
            self._start += block
            if len(self._start) < START_LENGTH:
                return
            block = self._start
            self._head = self._expected.read_start(block, self._id, self._keys())
            self._left = self._head.file_length
        self._left -= len(block)
        if self._left < 0:
            raise Problem(Kind.DAMAGED_BATCH)
        self._append(block)

    def finish(self) -> BatchHead:
        """Check all of it and put it in its place; durable when this returns."""
        if self._head is None or self._left:
            raise Problem(Kind.DAMAGED_BATCH)
        try:
            with self._draft.path.open("rb") as file:
                _, found = check_batch(file, self._expected.maker)
        except InvalidFile:
            raise Problem(Kind.DAMAGED_BATCH) from None
        if found != self._id:
            raise Problem(Kind.DAMAGED_BATCH, "Its id is not the digest of its content.")
        head = self._head
        # If there is one, another sender was first with the same content.
        self._put_down(lambda: self._expected.check_head(head, self._keys()))
        return head
