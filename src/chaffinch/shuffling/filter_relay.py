"""The shuffler's step of a reach: from the sealed filters of all publishers to one batch.

Nothing leaves before the filters of all publishers are here. Then they are opened, flipped and
counted, once: what was counted is kept on the disk before anything is made of it, and whoever is
killed afterwards finds it there. The columns are sealed for the analyzer as the one item of a
batch, the state learns of the batch, and the filters go.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from chaffinch.errors import ChaffinchError, InvalidInput, StorageFault
from chaffinch.keys import StoredKey
from chaffinch.planning.audiences.plan import ReachPlan
from chaffinch.shuffling.filter_inbox import FilterInbox
from chaffinch.shuffling.filters import shuffle
from chaffinch.shuffling.forwarding import Patience
from chaffinch.shuffling.outbox import Outbox, items_of
from chaffinch.shuffling.state import Sealed, State
from chaffinch.storage.failpoints import reach
from chaffinch.wire.column_files import ShuffledColumns
from chaffinch.wire.envelopes import X25519, SealingKey
from chaffinch.wire.exchange import Exchange, NoReply
from chaffinch.wire.filter_files import Filter, filter_from
from chaffinch.wire.key_lists import LONGEST_LIST, KeyList
from chaffinch.wire.sealed_batches import BatchHead
from chaffinch.wire.sealed_filters import pad, unpad
from chaffinch.wire.signatures import SIGNATURE

_OK = 200
_STATES = ("sealed", "acknowledged", "purged")


class AnalyzerKeys:
    """Asks the analyzer of a plan for the key to seal for, beside whoever waits for it."""

    def __init__(self, plan: ReachPlan, patience: Patience, trusted: Path | None) -> None:
        self._plan, self._patience = plan, patience
        self._exchange = Exchange(
            connect_seconds=patience.connect, reply_seconds=patience.reply, trusted=trusted
        )
        self._threads = ThreadPoolExecutor(1, thread_name_prefix="keys")
        self._asked: Future[SealingKey] | None = None
        self._due, self._failures = 0.0, 0

    def close(self) -> None:
        """Ask nothing more."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._exchange.close()

    def find(self) -> SealingKey | None:
        """Return the key if the analyzer has told it since the last time; else it is asked."""
        if self._asked is None:
            if self._due <= time.monotonic():
                self._asked = self._threads.submit(self._fetch)
            return None
        if not self._asked.done():
            return None
        asked, self._asked = self._asked, None
        try:
            return asked.result()
        except (NoReply, ChaffinchError):
            self._failures += 1
            self._due = time.monotonic() + self._patience.pause(self._failures)
            return None

    def _fetch(self) -> SealingKey:
        party = self._plan.named_parties.analyzer
        url = party.url("v1", "plans", self._plan.id, "keys")
        reply = self._exchange.ask("GET", url, most=LONGEST_LIST)
        if reply.status != _OK:
            raise NoReply(reply.problem or f"status {reply.status}", arrived=True)
        listed = KeyList.read(reply.body, plan_id=self._plan.id, identity=party.key)
        usable = [key for key in listed.keys if key.kem == X25519]
        if not usable:
            raise NoReply("no key of the right kind", arrived=True)
        return usable[0]


class FilterRelay:
    """The filters of one plan, from the inbox to the outbox."""

    def __init__(
        self,
        state: State,
        plan: ReachPlan,
        inbox: FilterInbox,
        outbox: Outbox,
        *,
        record: Path,
        keys: AnalyzerKeys,
    ) -> None:
        self._state, self._plan, self._inbox, self._outbox = state, plan, inbox, outbox
        self._record, self._keys = record, keys
        self._publishers = plan.named_parties.publishers
        self._done = False
        self.held = ""
        """Why nothing can be made of the filters, if so: only another plan helps."""

    def close(self) -> None:
        """Ask nothing more."""
        self._keys.close()

    def step(self, opening: Mapping[int, StoredKey]) -> None:
        """Shuffle the filters if all are here and the analyzer has said its key."""
        self._done = self._done or self._is_known()
        if self._done:
            self._purge()
        elif not self.held and self._is_complete():
            key = self._keys.find()
            if key is not None:
                self._shuffle(opening, key)

    def _is_known(self) -> bool:
        batches = (one for state in _STATES for one in self._state.batches(state))
        return any(one.plan_id == self._plan.id for one in batches)

    def _is_complete(self) -> bool:
        return all(self._inbox.is_there(self._plan.id, one) for _, one in self._publishers)

    def _shuffle(self, opening: Mapping[int, StoredKey], key: SealingKey) -> None:
        try:
            filters = [self._open(name, one, opening) for name, one in self._publishers]
            columns = shuffle(filters, self._plan, record=self._record)
        except StorageFault:
            raise
        except ChaffinchError as fault:
            self.held = fault.message
            return
        reach("filters.shuffled")
        self._hand_over(columns, key)
        self._done = True
        self._purge()

    def _open(self, name: str, publisher: str, opening: Mapping[int, StoredKey]) -> Filter:
        """Return the filter of a publisher; refuse one that it has not made for this plan."""
        layout = self._plan.layout
        content = self._inbox.read(layout.plan_id, publisher) or b"\0"
        stored = opening.get(content[0])
        padded = stored and stored.key.open(content[:-SIGNATURE], layout.binding(1, 1))
        packed = unpad(padded, layout.filter_length) if padded else None
        if packed is None:
            raise InvalidInput(f"filter of {name}", "one that opens here", "another")
        found = filter_from(packed)
        if found.publisher != name:
            # Whoever signs the envelope of another publisher has not made what is in it.
            raise InvalidInput(f"filter of {name}", "its own", "that of another publisher")
        return found

    def _hand_over(self, columns: ShuffledColumns, key: SealingKey) -> None:
        layout, count = self._plan.layout, len(self._publishers)
        content = pad(columns.content(), layout.columns_length)
        item = key.seal(content, layout.binding(2, 1))
        head = BatchHead(layout.plan_id, 1, 1, bytes([key.id]), count, 1, len(item))
        batch_id = self._outbox.write(head, [items_of(item, len(item))])
        reach("filters.written")
        with self._state.changing() as change:
            change.add_batch(Sealed(batch_id, layout.plan_id, 1, count, 1))
            change.count(layout.plan_id, dict.fromkeys(("durable", "opened", "batched"), count))
        reach("filters.committed")

    def _purge(self) -> None:
        for _, publisher in self._publishers:
            if self._inbox.is_there(self._plan.id, publisher):
                self._inbox.purge(self._plan.id, publisher)
                reach("filters.purged")
