"""A later hop: a batch of the hop before becomes a batch of this hop.

Every item is opened, and copies of items that were here before are dropped; what is left is put
into a new uniform order. Tags, the new batch and that the old one is done are one transaction.

The head of a batch names the keys of all who open it from here on. An item whose device has sealed
it for other keys behind this hop does not open: all items of one batch look alike to those keys.

The crowd is that of the batch: the hop before says how many reports are in it. The honest users
alone have a known number of items, at the least. A batch with fewer that open and are new has
copies or junk in place of people, or nothing: none of it goes on by itself.

Where every report has the same number of items, it waits where it is for others of its round and
way, and they go on as one when they have enough together: a stranger's junk costs nobody a place.
It waits as long as its key is good. Where the number follows the noise it is refused for good: two
batches that were robbed of their noise would pass for one.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, NamedTuple

from chaffinch.errors import InvalidFile
from chaffinch.parallel import Pool
from chaffinch.planning.plan import Plan
from chaffinch.shuffling.opening import (
    HopKey,
    HopKeys,
    Opened,
    chunks_of,
    open_chunk,
    remove_file,
)
from chaffinch.shuffling.outbox import Items, Outbox, items_of
from chaffinch.shuffling.state import Change, Sealed, State
from chaffinch.storage.failpoints import reach
from chaffinch.storage.faults import storage_fault
from chaffinch.wire.arrivals import Expected
from chaffinch.wire.sealed_batches import BatchHead, blocks_of, check_batch

_BLOCK = 4000
"""Items that are read together."""
_IN_MEMORY = 64 << 20
"""Bytes of opened items that are held before they go to a file without a name."""


class _TooFew(Exception):
    """So few items open and are new that nothing may go on."""

    def __init__(self, items: int) -> None:
        super().__init__(items)
        self.items = items


class _Received(NamedTuple):
    """A batch that was received, and the key that opens it."""

    file: IO[bytes]
    head: BatchHead
    key: HopKey


class Relay:
    """Takes batches of the hop before; ``hop`` is the place of this one, from 2."""

    def __init__(self, state: State, plan: Plan, hop: int, outbox: Outbox, pool: Pool) -> None:
        self._state = state
        self._plan = plan
        self._hop = hop
        self._expected = Expected.of(plan, hop - 1)
        self._outbox = outbox
        self._pool = pool
        self.short: dict[Path, tuple[BatchHead, int]] = {}
        """Batches that wait for others, and how many items of each open and are new."""

    def take(self, path: Path, keys: HopKeys) -> None:
        """Take over a received batch, and remove it; one whose key is not known waits."""
        if self._state.is_relayed(path.stem):
            self._forget([path])
            return
        if path in self.short:
            # Nobody sends another one for a closed key, which is to go.
            if self.short[path][0].key_id in keys.closed:
                self._open([path], keys, anyway=True)
            return
        try:
            self._open([path], keys, anyway=bool(self._plan.varying))
        except _TooFew as found:
            with path.open("rb") as file:
                self.short[path] = BatchHead.read(file), found.items
            self._join(path, keys)

    def _join(self, path: Path, keys: HopKeys) -> None:
        """Make one batch of all that wait for the same as this one, if they have enough."""
        ours, _ = self.short[path]
        found = {
            one: items
            for one, (head, items) in self.short.items()
            if (head.round, head.behind) == (ours.round, ours.behind) and one.exists()
        }
        if sum(found.values()) < self._plan.least_items:
            return
        try:
            self._open(list(found), keys)
        except _TooFew:
            pass  # Some of them have copies of the same items.
        except InvalidFile:
            self.short.clear()  # One is damaged since. Each is looked at by itself again.

    def _forget(self, paths: Iterable[Path]) -> None:
        for path in paths:
            self.short.pop(path, None)
            remove_file(path)

    def _open(self, paths: Sequence[Path], keys: HopKeys, *, anyway: bool = False) -> None:
        """Take batches over together, and remove them; TooFew if nothing can go on, unless anyway.

        One whose key is not known waits. Then its file stays.
        """
        try:
            with ExitStack() as stack:
                files = [stack.enter_context(path.open("rb")) for path in paths]
                checked = [self._checked(file) for file in files]
                heads = [head for head, _ in checked]
                found = [keys.named(head.key_name) for head in heads]
                if any(
                    key is None and head.key_id not in keys.destroyed
                    for key, head in zip(found, heads, strict=True)
                ):
                    return
                received = [
                    _Received(file, head, key)
                    for file, head, key in zip(files, heads, found, strict=True)
                    if key is not None
                ]
                # All items are opened inside of it. Meanwhile the hop before asks for receipts.
                with self._state.changing(spills=False) as change:
                    items = sum(head.items for head in heads)
                    left = items - sum(one.head.items for one in received)
                    counted = Counter({"durable": items, "destroyed_key": left})
                    if received:
                        self._relay(change, received, counted, anyway=anyway)
                    change.count(self._plan.id, counted)
                    for _, batch_id in checked:
                        change.finish_relay(batch_id)
                reach("relaying.committed")
        except OSError as error:
            raise storage_fault(paths[0].name, error, verb="read") from None
        self._forget(paths)

    def _checked(self, file: IO[bytes]) -> tuple[BatchHead, str]:
        """Return the head of a batch and its id; refuse one that is not for this hop."""
        head, batch_id = check_batch(file, self._expected.maker)
        if not self._expected.fits(head):
            # Whoever takes batches has refused it, so somebody has put it here by hand.
            raise InvalidFile("batch", "one for this plan and hop", ["another"])
        return head, batch_id

    def _relay(
        self, change: Change, batches: Sequence[_Received], counted: Counter[str], *, anyway: bool
    ) -> None:
        """Make one batch of the items that open and are new here.

        Counts what became of every item. Nothing is made of too few of them.
        """
        length = self._plan.layout.item_length(self._hop)
        with tempfile.SpooledTemporaryFile(_IN_MEMORY, dir=str(self._outbox.folder)) as kept:
            for one in batches:
                for opened in self._opened(*one):
                    counted["undecryptable"] += opened.undecryptable
                    for found in opened.contents.values():
                        new = found.claim(change, one.key.id, length)
                        kept.write(new.items)
                        counted["opened"] += new.envelopes
                        counted["duplicate"] += found.envelopes - new.envelopes
            reach("relaying.claimed")
            items = counted["opened"]
            # As the analyzer checks it: with fewer fresh messages the crowd is not there, whatever
            # the head says.
            if items < max(1, self._plan.least_items):
                if not anyway:
                    raise _TooFew(items)
                counted["refused"] = counted.pop("opened", 0)  # None may have opened at all.
                return
            kept.seek(0)
            head, reports = batches[0].head, sum(one.head.reports for one in batches)
            said = (head.plan_id, head.round, self._hop, head.behind, reports)
            made = BatchHead(*said, items, length)
            batch_id = self._outbox.write(made, _blocks(kept, items, length))
        reach("relaying.written")
        change.add_batch(Sealed(batch_id, head.plan_id, head.round, reports, items))
        counted["batched"] = items

    def _opened(self, file: IO[bytes], head: BatchHead, key: HopKey) -> Iterator[Opened]:
        length, layout = head.item_length, self._plan.layout
        binding = layout.binding(self._hop, head.round, head.behind)
        chunks = (
            chunk
            for block in blocks_of(file, head.items * length, _BLOCK * length)
            for chunk in chunks_of(block, length, layout, self._hop, binding)
        )
        return self._pool.mapped(open_chunk, (key,), chunks)


def _blocks(file: IO[bytes], items: int, length: int) -> Iterator[Items]:
    for block in blocks_of(file, items * length, _BLOCK * length):
        yield items_of(block, length)
