"""The filters of publishers in a hop: those of a reach become one batch when all of them are here.

data/filters/*.filter    what publishers have sent
data/handed-over/        what was made of filters, kept for good
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from chaffinch.plans.kinds import RunPlan
from chaffinch.reach.planning.reach_plan import REACH, ReachPlan, require_plan
from chaffinch.reach.shuffler.filter_inbox import FilterInbox, has_come
from chaffinch.shuffling.hop_work import Hop, HopWork

if TYPE_CHECKING:
    from chaffinch.reach.shuffler.filter_relay import FilterRelay

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
        # A hop of surveys alone does without it, and so does a collector.
        from chaffinch.reach.shuffler.filter_relay import FilterRelay

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
