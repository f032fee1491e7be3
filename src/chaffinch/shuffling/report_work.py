"""People's reports in a hop: sealed segments at the first, batches of the hop before at others.

data/inbox/*.segment     what the collector has acknowledged
data/received/*.batch    what the hop before has handed over
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from chaffinch.disk.damaged import put_aside
from chaffinch.disk.kill_points import kill_point
from chaffinch.disk.storage_errors import storage_fault
from chaffinch.errors import InvalidFile
from chaffinch.keys import KeyState
from chaffinch.plans.kinds import RunPlan
from chaffinch.plans.plan import SURVEY
from chaffinch.shuffling.hop_work import Hop, HopWork
from chaffinch.shuffling.inbox import sealed_segments
from chaffinch.shuffling.open_envelopes import HopKey, HopKeys, SegmentOpener
from chaffinch.shuffling.relaying import Relay
from chaffinch.shuffling.release_rule import Releaser
from chaffinch.shuffling.state import Held
from chaffinch.wire.sealed_batches import BatchHead

INBOX, RECEIVED = "inbox", "received"
"""Where reports arrive, and batches, in the data folder of a hop."""
_SEGMENTS_AT_ONCE = 256
"""Segments that are taken over before the next tick, or the next look whether to stop."""


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
            f"the crowd of plan {name[:16]} has come, and strangers with next to nothing in their "
            "reports are among it: it waits for more"
            for name in sorted(self._releaser.short)
        )
        later = (
            f"{items:,} messages of plan {way.plan_id[:16]} wait here for others of their round "
            "and keys: in their batch junk or copies stood for reports"
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
        before = self._taken_before.setdefault(digest, self._arrived())
        before &= self._arrived()
        return bool(before) or any(key in self._keys_of(held) for held in self._hop.state.held())

    def _keys_of(self, held: Held) -> bytes:
        """Return the key ids of reports that wait; any byte may be one if the plan is unknown."""
        plan = self._plans.get(held.plan_id)
        return held.reports if plan is None else held.reports[:: plan.layout.report_length]

    def _take_batch(self, path: Path) -> None:
        """Take over a batch of the hop before; one of a plan that is not known here waits."""
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
        files = (path.name.lstrip(".") for place in 2 * places for path in place.iterdir())
        return {name.partition(".")[0] for name in files}

    def _refresh(self) -> None:
        """Take note of keys that have come or gone; the tags of a key go with it.

        If there is no room for that, it is due again.
        """
        self._keys_are_due = True
        stored = self._hop.keys.opening_keys()
        opening = {number: HopKey.of(one) for number, one in stored.items()}
        gone = {one.id for one in self._hop.keys.entries if one.state is KeyState.DESTROYED}
        closed = {one.digest for one in self._hop.keys.entries if one.state is KeyState.CLOSED}
        known = self._taken_before.keys()
        self._taken_before = {one: self._taken_before[one] for one in closed & known}
        self._opening = HopKeys(opening, gone)
        with self._hop.state.changing() as change:
            change.forget_tags(gone)
            kill_point("opening.forgotten")
        self._opener.open_held(self._opening)
        self._keys_are_due = False
