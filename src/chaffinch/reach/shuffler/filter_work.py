"""The filters of publishers in a hop: those of a reach become one batch when all of them are here.

data/filters/*.filter    what publishers have sent
data/handed-over/        what was made of filters, kept for good

Nothing leaves before the filters of all publishers are here. Then they are opened, flipped and
counted, once: what was counted is kept on the disk before anything is made of it, and a process
that was killed afterwards finds it there. The columns are sealed for the analyzer as the one item
of a batch, the state learns of the batch, and the filters go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path

from chaffinch.disk.kill_points import kill_point
from chaffinch.errors import (
    RETRYABLE,
    ChaffinchError,
    InvalidInput,
    Reason,
    StorageFault,
    Unquoted,
)
from chaffinch.keys import StoredKey
from chaffinch.plans.kinds import RunPlan
from chaffinch.reach.planning.reach_plan import REACH, ReachPlan, require_plan
from chaffinch.reach.shuffler.filter_inbox import FilterInbox, has_come
from chaffinch.reach.shuffler.hand_over import shuffle
from chaffinch.shuffling.batch_outbox import Outbox, items_of
from chaffinch.shuffling.hop_work import Hop, HopWork
from chaffinch.shuffling.state import Sealed, State
from chaffinch.wire.envelopes import SealingKey
from chaffinch.wire.filter_files import Filter, ShuffledColumns, filter_from
from chaffinch.wire.sealed_batches import BatchHead
from chaffinch.wire.sealed_filters import START_LENGTH, pad, unpad

FILTERS, _HANDED_OVER = "filters", "handed-over"


class FilterWork(HopWork):
    """The filters of every reach that a hop runs."""

    kind = REACH

    def __init__(self, hop: Hop, plans: Iterable[RunPlan]) -> None:
        self._keys = hop.keys
        # Also without such plans: filters of one that was run before may wait, and need a key.
        self._inbox = FilterInbox(hop.folder / FILTERS)
        self.relays = {name: self._relay(hop, one) for name, one in REACH.among(plans).items()}

    def _relay(self, hop: Hop, plan: ReachPlan) -> FilterRelay:
        key, record = partial(hop.next_key, plan.id), hop.folder / _HANDED_OVER
        return FilterRelay(hop.state, plan, self._inbox, hop.outbox, record=record, key=key)

    def take(self) -> None:
        """Hand over what is complete."""
        for relay in self.relays.values():
            relay.step(self._keys.opening_keys())

    def needs_key(self, key: int) -> bool:
        """Return whether a filter that was acknowledged may need a key."""
        found = self._inbox.key_ids()
        # One that names no key of ours is damaged, and may be for any of them.
        return key in found or not found <= self._keys.opening_keys().keys()

    @property
    def held(self) -> Mapping[str, str]:
        """Return why nothing can be made of the filters of a plan, by its id."""
        return {name: relay.held for name, relay in self.relays.items() if relay.held}

    @classmethod
    def senders(cls, folder: Path, plan: RunPlan) -> Mapping[str, bool]:
        """Return of each publisher whether its filter has come."""
        publishers = require_plan(plan).named_parties.publishers
        return {name: has_come(folder / FILTERS, plan.id, who) for name, who in publishers}


_STATES = ("sealed", "acknowledged", "purged")


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
        key: Callable[[], SealingKey | None],
    ) -> None:
        """``key`` knows the one to seal for the analyzer with, if it has shown any."""
        self._state, self._plan, self._inbox, self._outbox = state, plan, inbox, outbox
        self._record, self._key = record, key
        self._publishers = plan.named_parties.publishers
        self._done = False
        self.held = ""
        """Why nothing can be made of the filters, if so: only another plan helps."""

    def step(self, opening: Mapping[int, StoredKey]) -> None:
        """Shuffle the filters if all are here and the analyzer has said its key."""
        self._done = self._done or self._is_known()
        try:
            if self._done:
                self._purge()
            elif not self.held and self._is_complete():
                key = self._key()
                if key is not None:
                    self._shuffle(opening, key)
        except StorageFault as fault:
            # A filter that the disk does not give is the matter of this plan alone.
            if fault.reason is not None:
                raise

    def _is_known(self) -> bool:
        batches = (one for state in _STATES for one in self._state.batches(state))
        return any(one.plan_id == self._plan.id for one in batches)

    def _is_complete(self) -> bool:
        return all(self._inbox.is_there(self._plan.id, one) for _, one in self._publishers)

    def _shuffle(self, opening: Mapping[int, StoredKey], key: SealingKey) -> None:
        try:
            filters = [self._open(name, one, opening) for name, one in self._publishers]
            columns = shuffle(filters, self._plan, record=self._record)
        except ChaffinchError as fault:
            if fault.reason in (Reason.UNCERTAIN, *RETRYABLE):
                raise
            # So is one that is damaged, and a record that is.
            self.held = fault.message
            with self._state.changing() as change:
                change.note_refusal(self._plan.id, self.held)
            return
        # From here on the flips are fixed: ``shuffle`` has kept what it counted, and gives the same
        # columns after a kill. A second draw of flips would show more than was promised.
        kill_point("filters.shuffled")
        self._hand_over(columns, key)
        self._done = True
        self._purge()

    def _open(self, name: str, publisher: str, opening: Mapping[int, StoredKey]) -> Filter:
        """Return the filter of a publisher; refuse one that it has not made for this plan."""
        layout = self._plan.layout
        content = self._inbox.read(layout.plan_id, publisher) or b""
        envelope = content[START_LENGTH:] or b"\0"
        stored = opening.get(envelope[0])
        padded = stored and stored.key.open(envelope, layout.binding(1, 1))
        packed = unpad(padded, layout.filter_length) if padded else None
        if packed is None:
            raise InvalidInput(f"filter of {name}", "one that opens here", Unquoted("another"))
        found = filter_from(packed)
        if found.publisher != name:
            # Whoever signs the envelope of another publisher has not made what is in it.
            raise InvalidInput(
                f"filter of {name}", "its own", Unquoted("that of another publisher")
            )
        return found

    def _hand_over(self, columns: ShuffledColumns, key: SealingKey) -> None:
        layout, count = self._plan.layout, len(self._publishers)
        content = pad(columns.content(), layout.columns_length)
        item = key.seal(content, layout.binding(2, 1))
        # One item in the name of all publishers, who are its reports.
        head = BatchHead(layout.plan_id, 1, 1, key.name, count, 1, len(item))
        batch_id = self._outbox.write(head, [items_of(item, len(item))])
        kill_point("filters.written")
        with self._state.changing() as change:
            change.forget_refusal(layout.plan_id)
            change.add_batch(Sealed(batch_id, layout.plan_id, 1, count, 1))
            change.count(layout.plan_id, dict.fromkeys(("durable", "opened", "batched"), count))
        # The filters are purged only after this commit: until then they are needed for another try.
        kill_point("filters.committed")

    def _purge(self) -> None:
        for _, publisher in self._publishers:
            if self._inbox.is_there(self._plan.id, publisher):
                self._inbox.purge(self._plan.id, publisher)
                kill_point("filters.purged")
