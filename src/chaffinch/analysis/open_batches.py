"""Sealed batches opened by the analyzer: what is in them, and what of it counts.

A batch is a file that its maker has signed. Every item is opened on its own, by as many
processes as there are; whoever has the file, the plan and the key can do so, in any place.

Of each batch ``items = counted + dummies + replayed + rejected``:

* *replayed*: a copy of an item that was opened before. Only the copy is dropped, and the batch
  goes on. Without that, somebody on the way repeats one person's message a thousand times and
  reads it off the histogram; with it, a copy changes nothing. To refuse the whole batch would
  protect nobody more, and let one device that sends an item twice stop everybody's release.
* *rejected*: an item that does not open with the key of the batch, or holds no code of the plan;
* *dummies*: empty slots, where a plan has fixed ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chaffinch.disk.storage_errors import storage_fault
from chaffinch.errors import InvalidInput
from chaffinch.keys import StoredKey
from chaffinch.plans.plan import Plan
from chaffinch.tables.parallel import Pool, Processes
from chaffinch.wire.arrivals import Expected
from chaffinch.wire.batches import CodeCounts, Codes
from chaffinch.wire.envelopes import TAG, Binding, replay_tag
from chaffinch.wire.messages import EMPTY, Tally
from chaffinch.wire.problems import Problem
from chaffinch.wire.sealed_batches import BatchHead, blocks_of, check_batch

_CHUNK = 500
"""Items that a process opens before it hands them back."""


class _Needed(NamedTuple):
    stored: StoredKey
    binding: Binding
    length: int


class _Opened(NamedTuple):
    contents: bytes
    tags: bytes


@dataclass(frozen=True)
class Counted:
    """What became of the items of a batch."""

    counts: CodeCounts
    dummies: int
    replayed: int
    rejected: int

    @property
    def counted(self) -> int:
        """Return how many messages are in the counts."""
        return self.counts.total


@dataclass(frozen=True, eq=False)
class OpenedBatch:
    """A batch whose items are open; ``codes`` and ``tags`` are of those that did open."""

    id: str
    head: BatchHead
    plan: Plan = field(repr=False)
    codes: Codes = field(repr=False)
    tags: bytes = field(repr=False)
    """One behind the other."""

    @property
    def key_id(self) -> int:
        """Return which key opened it."""
        return self.head.key_id

    def in_order(self) -> NDArray[np.int64]:
        """Return the places of all tags in rising order; of equal ones the first comes first."""
        words = np.frombuffer(self.tags, ">u8").reshape(-1, TAG // 8).astype(np.uint64)
        # The last key of lexsort is the first to be compared, so the words stand in reverse.
        return np.lexsort(words.T[::-1])

    def tag(self, place: int) -> bytes:
        """Return one tag."""
        return self.tags[place * TAG : (place + 1) * TAG]

    def first_copies(self) -> NDArray[np.bool_]:
        """Return for each item that did open whether it is the first of its kind in the batch."""
        order = self.in_order()
        tags = np.frombuffer(self.tags, f"V{TAG}")[order]
        fresh = np.ones(len(order), np.bool_)
        fresh[order[1:][tags[1:] == tags[:-1]]] = False
        return fresh

    def count(self, fresh: NDArray[np.bool_]) -> Counted:
        """Return what became of all items; ``fresh`` says which were not opened before."""
        codes = self.codes[fresh]
        empty = codes == EMPTY
        # ``EMPTY`` is above every code, so no dummy is counted as an answer.
        good = codes < self.plan.codes
        counts = CodeCounts(self.plan.codes)
        counts.add(codes[good])
        # Where no slots are fixed nobody sends dummies: what looks like one is junk.
        dummies = int(empty.sum()) if self.plan.fixed_slots else 0
        # What did not open, and what opened to neither a code of the plan nor a dummy.
        rejected = self.head.items - len(self.codes) + len(codes) - counts.total - dummies
        return Counted(counts, dummies, len(self.codes) - len(codes), rejected)

    def tally(self) -> Tally:
        """Return the tally of this batch by itself, for whoever keeps no record of others."""
        found, head = self.count(self.first_copies()), self.head
        absent = absent_reports(self.plan, head.reports, found.counted + found.dummies)
        # It has the name of the batch: half of its id.
        facts = (head.plan_id, head.reports, found.counts.dense(), self.id[:32], head.round)
        return Tally(*facts, absent)


@dataclass(frozen=True)
class OpenedItem:
    """A batch of one item that is open: what it holds is kept as it is."""

    id: str
    head: BatchHead
    codes: int
    content: bytes | None = field(repr=False)
    """None if it did not open."""
    tag: bytes = field(repr=False)


def absent_reports(plan: Plan, reports: int, fresh: int) -> int:
    """Return of how many reports no message is there; ``reports`` is what their maker says.

    Where every report has the same number of messages, one whose messages are junk or copies is
    nobody's: the noise of somebody who is not there would be taken off the counts. Where the number
    varies, nobody can tell.
    """
    return 0 if plan.varying else max(0, reports - fresh // plan.slots)


def is_short(plan: Plan, fresh: int) -> bool:
    """Return whether a batch has fewer messages than the honest users send, dummies included.

    Where copies or junk have taken their place, the crowd that hides everybody is not there,
    whatever number of reports the batch claims.
    """
    return fresh < plan.least_items


def open_batch(
    path: Path, plan: Plan, keys: Mapping[int, StoredKey], pool: Pool | None = None
) -> OpenedBatch:
    """Open every item of a batch file; refuse a file that is not as its maker signed it."""
    expected = Expected.of(plan, plan.layout.hops)
    try:
        with path.open("rb") as file:
            head, found = check_batch(file, expected.maker)
            check_due(expected, head, keys)
            binding, length = plan.layout.binding(expected.hop + 1, head.round), head.item_length
            needed = _Needed(keys[head.key_id], binding, length)
            blocks = blocks_of(file, head.items * length, _CHUNK * length)
            opened = list((pool or Processes(1)).mapped(_open_block, needed, blocks))
    except OSError as error:
        raise storage_fault(path.name, error, verb="read") from None
    codes = np.frombuffer(b"".join(one.contents for one in opened), ">u4").astype(np.uint32)
    return OpenedBatch(found, head, plan, codes, b"".join(one.tags for one in opened))


def check_due(expected: Expected, head: BatchHead, keys: Mapping[int, StoredKey]) -> None:
    """Refuse a whole batch that is not one to be opened here, as its receiver does."""
    try:
        expected.check_head(head, {one.key.sealing.name for one in keys.values()})
    except Problem as problem:
        raise InvalidInput("batch", "one for this plan and its keys", problem.kind.word) from None


def _open_block(needed: _Needed, block: bytes) -> _Opened:
    key, secret, length = needed.stored.key, needed.stored.tag_secret, needed.length
    contents, tags = [], []
    for at in range(0, len(block), length):
        item = block[at : at + length]
        content = key.open(item, needed.binding)
        if content is not None:
            contents.append(content)
            tags.append(replay_tag(secret, item, key.kem))
    return _Opened(b"".join(contents), b"".join(tags))
