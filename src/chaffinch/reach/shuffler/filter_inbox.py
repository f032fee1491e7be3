"""Sealed filters of publishers: one from each under a plan, and never another one.

A filter is a file under the names of its plan and its publisher, who has signed it. When it has
been shuffled, its SHA-256 takes its place in one step and for good: the same filter is known when
it comes again, and there is no moment at which another one could take the name. A second filter
of the same ids would have fresh flips, and show more than was promised.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Container
from pathlib import Path

from chaffinch.disk.files import atomic, make_folder, sync_folder
from chaffinch.disk.storage_errors import storage_fault
from chaffinch.wire.arrivals import Arriving, unfinished
from chaffinch.wire.envelopes import HEAD
from chaffinch.wire.problems import Kind, Problem
from chaffinch.wire.sealed_filters import START_LENGTH, FilterLayout, is_from, is_whole

_SUFFIX = ".filter"
_DIGEST = 32


class FilterInbox:
    """The folder of sealed filters of a shuffler."""

    def __init__(self, folder: Path) -> None:
        make_folder(folder)
        self._folder = folder

    def path(self, plan_id: str, publisher: str) -> Path:
        """Return where the filter of a publisher is, or its digest; by its identity in hex."""
        return _path(self._folder, plan_id, publisher)

    def digest(self, plan_id: str, publisher: str) -> bytes | None:
        """Return the SHA-256 of the sealed filter that was taken; None if none was."""
        try:
            with self.path(plan_id, publisher).open("rb") as file:
                # A process may have died between the name of the file and the sync of its folder.
                sync_folder(self._folder)
                # So short is no sealed filter: it is the digest of one that was shuffled.
                if os.fstat(file.fileno()).st_size == _DIGEST:
                    return file.read()
                return hashlib.file_digest(file, "sha256").digest()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise storage_fault("filter", error, verb="read") from None

    def read(self, plan_id: str, publisher: str) -> bytes | None:
        """Return a sealed filter; None if there is none, or its digest is all that is left."""
        try:
            content = self.path(plan_id, publisher).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise storage_fault("filter", error, verb="read") from None
        return None if len(content) == _DIGEST else content

    def is_there(self, plan_id: str, publisher: str) -> bool:
        """Return whether there is a sealed filter that has not been shuffled."""
        try:
            return self.path(plan_id, publisher).stat().st_size != _DIGEST
        except FileNotFoundError:
            return False
        except OSError as error:
            raise storage_fault("filter", error, verb="read") from None

    def purge(self, plan_id: str, publisher: str) -> None:
        """Let the digest take the place of a filter that has been shuffled."""
        if self.is_there(plan_id, publisher):
            found = self.digest(plan_id, publisher)
            assert found is not None  # noqa: S101 - nobody else removes one
            with atomic(self.path(plan_id, publisher), permissions=0o600) as file:
                file.write(found)

    def key_ids(self) -> set[int]:
        """Return which keys the filters are sealed for that wait here or are on their way."""
        found = {start[START_LENGTH] for start in unfinished(self._folder, START_LENGTH + 1)}
        for path in self._folder.glob(f"*{_SUFFIX}"):
            try:
                with path.open("rb") as file:
                    if os.fstat(file.fileno()).st_size == _DIGEST:
                        continue  # It is all that is left of one that was shuffled.
                    file.seek(START_LENGTH)
                    key = file.read(1)
            except OSError:
                key = b""
            if not key:
                # One that is cut short, or that the disk does not give, may be restored, and may
                # be for any of them.
                return set(range(256))
            found.update(key)
        return found


def has_come(folder: Path, plan_id: str, publisher: str) -> bool:
    """Return whether a publisher has sent its filter, for somebody who is not the owner."""
    return _path(folder, plan_id, publisher).exists()


def _path(folder: Path, plan_id: str, publisher: str) -> Path:
    return folder / f"{plan_id}-{publisher}{_SUFFIX}"


class FilterArrival(Arriving[tuple[bytes, bool]]):
    """One sealed filter on its way in.

    ``heads`` tells how the envelopes start that are taken, as of now.
    """

    def __init__(
        self,
        inbox: FilterInbox,
        layout: FilterLayout,
        publisher: str,
        heads: Callable[[], Container[bytes]],
    ) -> None:
        super().__init__(inbox.path(layout.plan_id, publisher))
        self._inbox, self._layout, self._publisher = inbox, layout, publisher
        self._heads = heads
        self._envelope, self._whole = hashlib.sha256(), hashlib.sha256()
        self._start, self._length = b"", 0

    def write(self, block: bytes) -> None:
        """Take the next bytes; Problem as soon as they are too many."""
        self._append(block)
        self._whole.update(block)
        self._start += block[: START_LENGTH + HEAD - len(self._start)]
        # The envelope begins behind the start, wherever the blocks were cut.
        self._envelope.update(memoryview(block)[max(0, START_LENGTH - self._length) :])
        self._length += len(block)
        if self._length > self._layout.sealed_length:
            raise _wrong_length(self._layout)

    def finish(self) -> tuple[bytes, bool]:
        """Check all of it and put it in its place; return its SHA-256, and whether it is new."""
        if self._length != self._layout.sealed_length:
            raise _wrong_length(self._layout)
        start, head = self._start[:START_LENGTH], self._start[START_LENGTH:]
        identity, envelope = bytes.fromhex(self._publisher), self._envelope.digest()
        if not is_whole(identity, self._layout, start, envelope):
            raise Problem(Kind.DAMAGED_FILTER)
        digest = self._whole.digest()
        # What was taken before is known, also if its key is out of use by now.
        if self._is_known(digest):
            return digest, False
        # Whoever came first has the place: the same filter is fine, and another one a Problem.
        new = self._put_down(lambda: self._check_key(head))
        return digest, new or not self._is_known(digest)

    def _check_key(self, head: bytes) -> None:
        if head not in self._heads():
            raise Problem(Kind.OUTDATED_KEYS)

    def _is_known(self, digest: bytes) -> bool:
        """Return whether this filter was taken; Problem if another one of the publisher was."""
        known = self._inbox.digest(self._layout.plan_id, self._publisher)
        if known not in (None, digest):
            raise Problem(Kind.ANOTHER_FILTER)
        return known is not None


def check_start(publisher: str, layout: FilterLayout, start: bytes) -> None:
    """Refuse a filter that its publisher has not signed, by what stands before its envelope."""
    if len(start) < START_LENGTH:
        raise _wrong_length(layout)
    if not is_from(bytes.fromhex(publisher), layout, start[:START_LENGTH]):
        raise Problem(Kind.DAMAGED_FILTER)


def _wrong_length(layout: FilterLayout) -> Problem:
    words = f"A sealed filter of this plan has {layout.sealed_length} bytes."
    return Problem(Kind.INVALID_MESSAGE, words)
