"""A later hop: a batch of the hop before becomes a batch of this hop.

Every item is opened, and copies of items that were here before are dropped; what is left is put
into a new uniform order. Tags, the new batch and that the old one is done are one transaction.

The head of a batch names the keys of all who open it from here on. An item whose device has sealed
it for other keys behind this hop does not open: all items of one batch look alike to those keys.

The crowd is that of the batch: the hop before says how many reports are in it. The honest users
alone have a known number of items, at the least. A batch with fewer that open and are new has
copies or junk in place of people, or nothing: none of it goes on by itself.

Where every report has the same number of items, what is left of it waits in the pool, and leaves
with the next batch of its round and way with which it is enough: a stranger's junk costs nobody a
place. Where the number follows the noise it is refused for good: two batches that were robbed of
their noise would pass for one.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import numpy as np

from chaffinch.disk.kill_points import kill_point
from chaffinch.disk.storage_errors import storage_fault
from chaffinch.errors import InvalidFile
from chaffinch.plans.plan import Plan
from chaffinch.shuffling.batch_outbox import Items, Outbox, items_of
from chaffinch.shuffling.open_envelopes import (
    HopKey,
    HopKeys,
    Opened,
    chunks_of,
    open_chunk,
    remove_file,
)
from chaffinch.shuffling.state import Change, Partition, Sealed, State
from chaffinch.tables.parallel import Pool
from chaffinch.wire.arrivals import Expected
from chaffinch.wire.sealed_batches import BatchHead, blocks_of, check_batch

_BLOCK = 4000
"""Items that are read together."""
_IN_MEMORY = 64 << 20
"""Bytes of opened items that are held before they go to a file without a name."""


class Relay:
    """Takes batches of the hop before; ``hop`` is the place of this one, from 2."""

    def __init__(self, state: State, plan: Plan, hop: int, outbox: Outbox, pool: Pool) -> None:
        self._state = state
        self._plan = plan
        self._hop = hop
        self._expected = Expected.of(plan, hop - 1)
        self._outbox = outbox
        self._pool = pool

    def take(self, path: Path, keys: HopKeys) -> None:
        """Take over a received batch, and remove it; one whose key is not known waits."""
        if not self._state.is_relayed(path.stem) and not self._open(path, keys):
            return
        remove_file(path)

    def _open(self, path: Path, keys: HopKeys) -> bool:
        try:
            with path.open("rb") as file:
                head, batch_id = check_batch(file, self._expected.maker)
                if not self._expected.fits(head):
                    # Whoever takes batches has refused it, so somebody has put it here by hand.
                    raise InvalidFile("batch", "one for this plan and hop", ["another"])
                if self._state.is_relayed(batch_id):
                    return True  # It has come under another name.
                key = keys.named(head.key_name)
                if key is None and head.key_id not in keys.destroyed:
                    return False
                # All items are opened inside of it. Meanwhile the hop before asks for receipts.
                with self._state.changing(spills=False) as change:
                    counted = Counter({"durable": head.items})
                    if key is None:
                        counted["destroyed_key"] = head.items
                    else:
                        self._relay(change, file, head, key, counted)
                    change.count(head.plan_id, counted)
                    change.finish_relay(batch_id)
                kill_point("relaying.committed")
        except OSError as error:
            raise storage_fault(path.name, error, verb="read") from None
        return True

    def _relay(
        self,
        change: Change,
        file: IO[bytes],
        head: BatchHead,
        key: HopKey,
        counted: Counter[str],
    ) -> None:
        """Make one batch of the items that open and are new here.

        Counts what became of every item. Nothing is made of too few of them.
        """
        length = self._plan.layout.item_length(self._hop)
        with tempfile.SpooledTemporaryFile(_IN_MEMORY, dir=str(self._outbox.folder)) as kept:
            for opened in self._opened(file, head, key):
                counted["undecryptable"] += opened.undecryptable
                for found in opened.contents.values():
                    new = found.claim(change, key.id, length)
                    kept.write(new.items)
                    counted["opened"] += new.envelopes
                    counted["duplicate"] += found.envelopes - new.envelopes
            kill_point("relaying.claimed")
            way = Partition(head.plan_id, head.round, head.behind)
            waiting = self._state.partitions().get(way, 0)
            items = counted["opened"] + waiting
            # As the analyzer checks it: with fewer fresh messages the crowd is not there, whatever
            # the head says.
            if items < max(1, self._plan.least_items):
                if self._plan.varying:
                    counted["refused"] = counted.pop("opened", 0)  # None may have opened at all.
                else:
                    _pool(change, way, kept, counted["opened"], length)
                return
            for pooled in self._state.pooled(way):
                kept.write(pooled.items)
            change.take_from_pool(way, waiting)
            kept.seek(0)
            reports = head.reports if self._plan.varying else self._reports_of(items)
            said = (head.plan_id, head.round, self._hop, head.behind, reports)
            made = BatchHead(*said, items, length)
            batch_id = self._outbox.write(made, _blocks(kept, items, length))
        kill_point("relaying.written")
        change.add_batch(Sealed(batch_id, head.plan_id, head.round, reports, items))
        counted["batched"] = items

    def _reports_of(self, items: int) -> int:
        """Return whose items these are at least, where every report has the same number of them."""
        return max(self._plan.reports, -(-items // self._plan.slots))

    def _opened(self, file: IO[bytes], head: BatchHead, key: HopKey) -> Iterator[Opened]:
        length, layout = head.item_length, self._plan.layout
        binding = layout.binding(self._hop, head.round, head.behind)
        chunks = (
            chunk
            for block in blocks_of(file, head.items * length, _BLOCK * length)
            for chunk in chunks_of(block, length, layout, self._hop, binding)
        )
        return self._pool.mapped(open_chunk, (key,), chunks)


def _pool(change: Change, way: Partition, file: IO[bytes], items: int, length: int) -> None:
    """Let items wait for others that go the same way; each is counted by itself."""
    file.seek(0)
    for block in blocks_of(file, items * length, _BLOCK * length):
        count = len(block) // length
        change.add_to_pool(way, count, np.ones(count, "<u4").tobytes(), block)


def _blocks(file: IO[bytes], items: int, length: int) -> Iterator[Items]:
    for block in blocks_of(file, items * length, _BLOCK * length):
        yield items_of(block, length)
