"""People's reports in a hop: sealed segments at the first, batches of the hop before at others.

data/inbox/*.segment     what the collector has acknowledged
data/received/*.batch    what the hop before has handed over

At a later hop, a batch of the hop before becomes a batch of this hop (``Relay``). Every item is
opened, and duplicates of items that were here before are dropped; what is left is put into a new
uniform order. The tags, the new batch and the end of the old one are one transaction.

The head of a batch names the keys of all who open it from here on. An item whose device has sealed
it for other keys behind this hop does not open: all items of one batch look alike to those keys.

The crowd is that of the batch: the hop before says how many reports are in it. The honest users
alone have a known number of items at least. A batch with fewer that open and are new has
duplicates or junk in place of people, or nothing: it does not go on by itself.

Where every report has the same number of items, what is left of it waits in the pool, and leaves
with the next batch of its round and keys with which it is enough: a stranger's junk costs nobody a
place. Where the number follows the noise it is refused for good: two batches that were robbed of
their noise would pass for one.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

import numpy as np

from chaffinch.disk.files import put_aside
from chaffinch.disk.kill_points import kill_point
from chaffinch.disk.storage_errors import storage_fault
from chaffinch.errors import InvalidFile
from chaffinch.keys import KeyState
from chaffinch.plans.kinds import RunPlan
from chaffinch.plans.plan import SURVEY, Plan
from chaffinch.shuffling.batch_outbox import Items, Outbox, items_of
from chaffinch.shuffling.hop_work import Hop, HopWork
from chaffinch.shuffling.inbox import sealed_segments
from chaffinch.shuffling.open_envelopes import (
    HopKey,
    HopKeys,
    Opened,
    SegmentOpener,
    chunks_of,
    open_chunk,
    remove_file,
)
from chaffinch.shuffling.release_rule import Releaser
from chaffinch.shuffling.state import Change, Held, Partition, Sealed, State
from chaffinch.tables.parallel import Pool
from chaffinch.wire.arrivals import Expected
from chaffinch.wire.sealed_batches import BatchHead, blocks_of, check_batch

INBOX, RECEIVED = "inbox", "received"
"""Where reports arrive, and batches, in the data folder of a hop."""
_SEGMENTS_AT_ONCE = 256
"""Segments that are taken over before the next tick, or the next look whether to stop."""
_BLOCK = 4000
"""Items that are read together."""
_IN_MEMORY = 64 << 20
"""Bytes of opened items that are held before they go to a file without a name."""


class ReportWork(HopWork):
    """The reports of all surveys that a hop runs."""

    kind = SURVEY

    def __init__(self, hop: Hop, plans: Iterable[RunPlan]) -> None:
        self._hop = hop
        self._plans = SURVEY.among(plans)
        first = {name: plan for name, plan in self._plans.items() if hop.hops[name] == 1}
        layouts = {name: plan.layout for name, plan in first.items()}
        self._opener = SegmentOpener(hop.state, hop.folder / INBOX, layouts, hop.pool)
        self._relays = {
            name: Relay(hop.state, plan, hop.hops[name], hop.outbox, hop.pool)
            for name, plan in self._plans.items()
            if name not in first
        }
        self._releaser = Releaser(hop.state, first, hop.outbox, hop.words, hop.rule)
        self._taken_before: dict[str, set[str]] = {}
        """By the digest of a closed key, as another one may get its id: see ``needs_key``."""
        self._opening = HopKeys({})
        self._keys_are_due = True

    def keys_changed(self) -> None:
        """Note that keys have come or gone."""
        self._keys_are_due = True

    def follow_keys(self) -> None:
        """Take over keys that were noted to have changed, if there are any."""
        if self._keys_are_due:
            self._refresh()

    def take(self) -> None:
        """Take over some of the segments that are there, and all batches of the hop before."""
        self.follow_keys()
        segments = sealed_segments(self._hop.folder / INBOX)[:_SEGMENTS_AT_ONCE]
        self._opener.open_segments(segments, self._opening)
        for path in sorted((self._hop.folder / RECEIVED).glob("*.batch")):
            self._take_batch(path)

    def tick(self) -> None:
        """Release what has its crowd."""
        self._releaser.tick()

    @property
    def short(self) -> tuple[str, ...]:
        """Return what does not leave although enough reports have come."""
        first = (
            f"plan {name[:16]} has enough reports, but too few messages in them: some reports are "
            "nearly empty, so it waits for more"
            for name in sorted(self._releaser.short)
        )
        later = (
            f"{items:,} messages of plan {way.plan_id[:16]} wait here for others of their round "
            "and keys: some reports of their batch were invalid or duplicates"
            for way, items in self._hop.state.partitions().items()
            if way.plan_id in self._relays
        )
        return (*first, *later)

    def needs_key(self, key: int) -> bool:
        """Return whether a report or a batch that was acknowledged may need a key.

        Nothing is taken for the key any more. So what was taken for it stood in the inbox or
        among the received batches when this was asked first, finished or not, or waits.
        """
        (digest,) = (one.digest for one in self._hop.keys.entries if one.id == key)
        # Only names that were there at the first question, and are still there, may need the key:
        # the set shrinks as they are opened, and nothing new for this key can come.
        before = self._taken_before.setdefault(digest, self._arrived())
        before &= self._arrived()
        return bool(before) or any(key in self._keys_of(held) for held in self._hop.state.held())

    def _keys_of(self, held: Held) -> bytes:
        """Return the key ids of reports that wait; any byte may be one if the plan is unknown."""
        plan = self._plans.get(held.plan_id)
        return held.reports if plan is None else held.reports[:: plan.layout.report_length]

    def _take_batch(self, path: Path) -> None:
        try:
            with path.open("rb") as file:
                plan_id = BatchHead.read(file).plan_id
            relay = self._relays.get(plan_id)
            if relay is not None:
                relay.take(path, self._opening)
        except OSError as error:
            raise storage_fault(path.name, error, verb="read") from None
        except InvalidFile:
            # It was whole when its receipt was signed. Its maker has signed for all of it or none.
            put_aside(path)

    def _arrived(self) -> set[str]:
        places = (self._hop.folder / INBOX, self._hop.folder / RECEIVED)
        # What was put aside may come back, and is the same under each of its names; so is what is
        # on its way, whose name begins with a dot. Two looks: one alone may miss a file that gets
        # another name meanwhile.
        files = (path.name.removeprefix(".") for place in 2 * places for path in place.iterdir())
        return {name.partition(".")[0] for name in files}

    def _refresh(self) -> None:
        """Take note of keys that have come or gone; the tags of a key go with it.

        If there is no room for that, it stays due.
        """
        stored = self._hop.keys.opening_keys()
        opening = {number: HopKey.of(one) for number, one in stored.items()}
        gone = {one.id for one in self._hop.keys.entries if one.state is KeyState.DESTROYED}
        closed = {one.digest for one in self._hop.keys.entries if one.state is KeyState.CLOSED}
        known = self._taken_before.keys()
        self._taken_before = {one: self._taken_before[one] for one in closed & known}
        self._opening = HopKeys(opening, gone)
        # Only tags of keys that are destroyed: without its key no duplicate of an envelope opens.
        with self._hop.state.changing() as change:
            change.forget_tags(gone)
            kill_point("opening.forgotten")
        self._opener.open_held(self._opening)
        self._keys_are_due = False


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
                # So the transaction is long, and must not lock out readers (``spills``).
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
            # Tags are claimed in the same transaction as the new batch: a kill before its commit
            # gives them back, and the batch is opened again with all of its items fresh.
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
    file.seek(0)
    for block in blocks_of(file, items * length, _BLOCK * length):
        count = len(block) // length
        change.add_to_pool(way, count, np.ones(count, "<u4").tobytes(), block)


def _blocks(file: IO[bytes], items: int, length: int) -> Iterator[Items]:
    for block in blocks_of(file, items * length, _BLOCK * length):
        yield items_of(block, length)
