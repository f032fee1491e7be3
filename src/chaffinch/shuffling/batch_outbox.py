"""The outbox: batches in a uniform order, written once, each under the digest of its content.

A batch is complete and on the disk before the state knows of it. What the state does not know
after a crash was shown to nobody, and is removed.
"""

from __future__ import annotations

import os
from collections.abc import Container, Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from numpy.typing import NDArray

from chaffinch.disk.files import sync_folder
from chaffinch.disk.kill_points import kill_point
from chaffinch.disk.leftovers import new_part, remove_leftovers
from chaffinch.disk.storage_errors import storage_fault
from chaffinch.sampling import Words, permutation
from chaffinch.shuffling.on_disk import Buckets
from chaffinch.wire.sealed_batches import BatchHead, write_batch

MEMORY = 256 << 20
"""Bytes that putting a batch into order may take; a larger batch is ordered on the disk."""
_BYTES_PER_ORDER = 24
"""What an item takes besides itself: a key, its place, a sorted key."""
_SUFFIX = ".batch"

Items = NDArray[Any]
"""Items of one length, as one array of ``V<length>``."""


def items_of(content: bytes, length: int) -> Items:
    """Return items that stand one behind the other as an array."""
    return np.frombuffer(content, np.dtype(f"V{length}"))


class Outbox:
    """The folder of batches that were made here and are not purged."""

    def __init__(
        self, folder: Path, identity: Ed25519PrivateKey, words: Words, *, memory: int = MEMORY
    ) -> None:
        self.folder = folder
        self._identity = identity
        self._words = words
        self._memory = memory

    def path(self, batch_id: str) -> Path:
        """Return where a batch is."""
        return self.folder / f"{batch_id}{_SUFFIX}"

    def write(self, head: BatchHead, blocks: Iterable[Items]) -> str:
        """Write items in a uniform order as a batch; return its id. It is on the disk then."""
        try:
            part, number = new_part(self.folder / "new", 0o600)
            try:
                # The handle keeps the lock on the file until it has its name.
                with open(number, "wb", closefd=False) as file:
                    ordered = self._ordered(head, blocks)
                    batch_id = write_batch(file, head, ordered, self._identity)
                    file.flush()
                    kill_point("outbox.written")
                    # Content, then name, then folder: a file under its name is always whole.
                    os.fsync(number)
                # The name is the digest of the content, so a file that has it already is this very
                # one.
                part.rename(self.path(batch_id))
                kill_point("outbox.named")
                sync_folder(self.folder)
            except BaseException:
                part.unlink(missing_ok=True)
                raise
            finally:
                os.close(number)
        except OSError as error:
            raise storage_fault("batch", error, verb="write") from None
        return batch_id

    def remove_orphans(self, known: Container[str]) -> None:
        """Remove files of which the state does not know: they were shown to nobody."""
        remove_leftovers(self.folder)
        for path in self.folder.glob(f"*{_SUFFIX}"):
            if path.stem not in known:
                path.unlink()
        sync_folder(self.folder)

    def _ordered(self, head: BatchHead, blocks: Iterable[Items]) -> Iterator[memoryview]:
        kind = np.dtype(f"V{head.item_length}")
        # One uniform permutation in memory where it fits; else uniform buckets, each permuted.
        if head.items * (_BYTES_PER_ORDER + 2 * kind.itemsize) <= self._memory:
            items = np.concatenate([np.empty(0, kind), *blocks])
            kill_point("outbox.ordering")
            yield items[permutation(self._words, len(items))].view(np.uint8).data
            return
        # Half of the memory holds items, and about as much again puts them into order.
        with Buckets(
            kind, self._words, folder=self.folder, memory=self._memory // 2, workers=1
        ) as buckets:
            buckets.fill(blocks)
            with closing(buckets.ordered()) as pieces:
                for piece in pieces:
                    yield piece.view(np.uint8).data
