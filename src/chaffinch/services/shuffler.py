"""The shuffler of a hop: one process that owns the state, and others that open envelopes.

It takes sealed segments from the inbox, or batches of the hop before; at every tick it releases
what has its crowd; it hands over what is in the outbox. A stop leaves everything where it is:
nothing is released because somebody stops it.

    data/inbox/*.segment     what the collector has acknowledged
    data/received/*.batch    what the hop before has handed over
    data/filters/*.filter    what publishers have sent, under plans of a reach
    data/handed-over/        what was made of filters, kept for good
    data/state.sqlite        which of it is where
    data/outbox/*.batch      what is to be handed over

Ticks follow the monotonic clock. The wall clock decides nothing but how much is left, at a start,
of the pause before another key of a later party is given out.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Self

from chaffinch.disk.damaged import put_aside
from chaffinch.disk.faults import storage_fault
from chaffinch.disk.files import make_folder
from chaffinch.disk.kill_points import kill_point
from chaffinch.errors import (
    RETRYABLE,
    ClusterFault,
    InvalidFile,
    InvalidInput,
    Reason,
    StorageFault,
    checks,
)
from chaffinch.keys import KeyFolder, KeyState
from chaffinch.keys.folder import GRACE
from chaffinch.plans.parties import Party
from chaffinch.plans.plan import Plan
from chaffinch.reach.planning.reach_plan import AnyPlan, ReachPlan
from chaffinch.reach.shuffler.filter_inbox import FilterInbox
from chaffinch.reach.shuffler.filter_relay import FilterRelay
from chaffinch.sampling import secure_words
from chaffinch.services.openers import Cluster, open_pool
from chaffinch.shuffling.forwarding import Forwarder, Patience
from chaffinch.shuffling.inbox import sealed_segments
from chaffinch.shuffling.later_keys import LaterKeys
from chaffinch.shuffling.opening import HopKey, HopKeys, SegmentOpener
from chaffinch.shuffling.outbox import MEMORY, Outbox
from chaffinch.shuffling.relaying import Relay
from chaffinch.shuffling.releasing import Releaser, ReleaseRule
from chaffinch.shuffling.state import Counts, Held, Overview, State
from chaffinch.tables.parallel import Stopped, cores
from chaffinch.wire.sealed_batches import BatchHead

INBOX, RECEIVED, OUTBOX, STATE = "inbox", "received", "outbox", "state.sqlite"
FILTERS, _HANDED_OVER = "filters", "handed-over"
_LONGEST_KEY_PAUSE = 86_400.0
_LONG_PAUSE = 5.0
"""Seconds before a full disk, or a cluster that is gone, is tried again."""
_SEGMENTS_AT_ONCE = 256
"""Segments that are taken over before the next tick, or the next look whether to stop."""


@dataclass(frozen=True)
class ShufflerSettings:
    """How a hop works, whatever the plan."""

    interval_seconds: Annotated[float, "between two ticks: what has its crowd by then leaves"] = (
        300.0
    )
    rule: ReleaseRule = field(default_factory=ReleaseRule)
    openers: Annotated[int, "processes that open envelopes; without this one for each core", 8] = (
        field(default_factory=cores)
    )
    cluster: Cluster | None = None
    """Opens envelopes in place of processes here, where there is one."""
    memory_bytes: Annotated[int, "for a batch that is made"] = MEMORY
    look_seconds: Annotated[float, "between two looks at the inbox"] = 0.2
    key_pause_seconds: Annotated[
        float, "that keys of later parties are given out before others are"
    ] = 3600.0
    patience: Patience = field(default_factory=Patience)
    trusted: Path | None = None
    """A file of TLS roots for the next party; those of the system where there is none."""

    def __post_init__(self) -> None:
        # A key of a later party that is not the newest is taken for two days, unless it is told
        # otherwise, and reports for it need time to get there.
        checks.real("pause between keys", self.key_pause_seconds, least=0, most=_LONGEST_KEY_PAUSE)


@dataclass(frozen=True)
class ShufflerStatus:
    """What a hop has done, as of the last tick: nothing here tells of a moment."""

    plans: dict[str, Counts]
    batches: dict[str, int]
    """How many there are, by state."""
    segments: int
    """Acknowledged and not opened."""
    attempts: dict[str, int]
    """How often batches were offered to the next party, by what came of it."""

    @property
    def adds_up(self) -> bool:
        """Return whether everything that was taken is somewhere, once."""
        return all(counts.adds_up for counts in self.plans.values())


def hop_of(plan: AnyPlan, identity: str) -> int:
    """Return which hop of a plan has this identity, from 1; refuse one that is none."""
    hops = () if plan.parties is None else plan.parties.hops
    for number, party in enumerate(hops, 1):
        if party.identity == identity:
            return number
    raise InvalidInput(
        f"plan {plan.id[:16]}",
        "one that names this party as a hop",
        "one that does not",
        hint="`chaffinch keys show` prints the identity of a key folder",
    )


class Shuffler:
    """One hop at work on its data directory."""

    def __init__(
        self,
        folder: Path,
        keys: KeyFolder,
        plans: Iterable[AnyPlan],
        settings: ShufflerSettings | None = None,
        *,
        stop: threading.Event | None = None,
        key_grace_seconds: float = GRACE,
    ) -> None:
        """Start on a folder.

        ``key_grace_seconds`` is no setting: with a shorter one, a report could be acknowledged
        for a key that is destroyed already.
        """
        self.stop = stop or threading.Event()
        """Ends the work when it is set."""
        self._settings = settings or ShufflerSettings()
        self._key_grace_seconds = key_grace_seconds
        self._folder, self._keys = folder, keys
        known = {plan.id: plan for plan in plans}
        self._parties = {name: plan.parties for name, plan in known.items()}
        self._hops = {name: hop_of(plan, keys.identity_hex) for name, plan in known.items()}
        self._plans = {name: plan for name, plan in known.items() if isinstance(plan, Plan)}
        reaches = [plan for plan in known.values() if isinstance(plan, ReachPlan)]
        for name in (INBOX, RECEIVED, OUTBOX):
            make_folder(folder / name)
        self._state = State.open(folder / STATE)
        words = secure_words()
        self._outbox = Outbox(
            folder / OUTBOX, keys.identity, words, memory=self._settings.memory_bytes
        )
        self._orphans_are_due = True
        self._remove_orphans()
        chosen = self._settings
        self._pool = open_pool("shuffler", chosen.openers, chosen.cluster, self.stop)
        first = {name: plan for name, plan in self._plans.items() if self._hops[name] == 1}
        layouts = {name: plan.layout for name, plan in first.items()}
        self._opener = SegmentOpener(self._state, folder / INBOX, layouts, self._pool)
        self._relays = {
            name: Relay(self._state, self._plans[name], hop, self._outbox, self._pool)
            for name, hop in self._hops.items()
            if hop > 1
        }
        self.later_keys = self._follow_keys()
        self._filters = FilterInbox(folder / FILTERS)
        self._reaches = {plan.id: self._filter_relay(plan) for plan in reaches}
        self._releaser = Releaser(self._state, first, self._outbox, words, self._settings.rule)
        self._forwarder = Forwarder(
            self._state,
            self._outbox,
            self._receiver,
            patience=self._settings.patience,
            trusted=self._settings.trusted,
        )
        self._taken_before: dict[str, set[str]] = {}
        """By the digest of a closed key, as another one may get its id: see ``needs_key``."""
        self.cluster_fault = ""
        """Why nothing can be opened, where a cluster is to do that."""
        self._keys_are_due = True
        self.status = self._look()
        """What was done, as of the last tick; another thread may read it."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop everything; what is not done is done by the next one."""
        self._forwarder.close()
        self.later_keys.close()
        self._pool.close()
        self._state.close()

    def run(self, ticked: Callable[[], object] = lambda: None) -> None:
        """Work until told to stop; ``ticked`` is called after every tick.

        What is being opened then is left as it was, however large it is: the next start opens it.
        A full disk is waited for, somebody who reads the state for long, and a cluster that is
        gone: everything was undone, and nothing is lost. What needs none of them goes on meanwhile;
        what is handed over makes room. After any other fault of the disk nobody knows what is on
        it, and the process must end.
        """
        due = time.monotonic() + self._settings.interval_seconds
        while not self.stop.is_set():
            goes_on = self._goes_on(self.take)
            if time.monotonic() >= due:
                due = time.monotonic() + self._settings.interval_seconds
                goes_on &= self._goes_on(self.tick) and self._goes_on(ticked)
            goes_on &= self._goes_on(self.forward)
            self.stop.wait(self._settings.look_seconds if goes_on else _LONG_PAUSE)

    def _goes_on(self, step: Callable[[], object]) -> bool:
        """Take a step; return False if it waits for the disk, the cluster or the next start."""
        try:
            step()
            if self._orphans_are_due:
                self._remove_orphans()
        except Stopped:
            return False
        except ClusterFault as fault:
            self.cluster_fault = fault.message
            return False
        except StorageFault as fault:
            if fault.reason not in RETRYABLE:
                raise
            # To look for them here would wait for the same reader; a full disk needs the room.
            self._orphans_are_due = fault.reason is Reason.BUSY
            if not self._orphans_are_due:
                self._remove_orphans()
            return False
        return True

    def _remove_orphans(self) -> None:
        """Remove batches that were written for a change that was undone."""
        kept = (*self._state.batches("sealed"), *self._state.batches("acknowledged"))
        self._outbox.remove_orphans({batch.id for batch in kept})
        self._orphans_are_due = False

    def take(self) -> None:
        """Take over what has arrived since the last time."""
        self._keys_are_due |= self._keys.refresh()
        # First of all: they need no cluster, and a fault of one ends what comes here.
        for reach_relay in self._reaches.values():
            reach_relay.step(self._keys.opening_keys())
        if self._keys_are_due:
            self._refresh()
        segments = sealed_segments(self._folder / INBOX)[:_SEGMENTS_AT_ONCE]
        self._opener.open_segments(segments, self._opening)
        for path in sorted((self._folder / RECEIVED).glob("*.batch")):
            self._take_batch(path)
        self.cluster_fault = ""

    def tick(self) -> None:
        """Release what has its crowd, let keys go that nothing needs, and count."""
        self._releaser.tick()
        before = self._keys.entries
        try:
            self._keys.destroy_closed(self.needs_key, grace_seconds=self._key_grace_seconds)
        finally:
            self._keys_are_due |= self._keys.entries != before
        if self._keys_are_due:
            self._refresh()
        self.status = self._look()

    def forward(self) -> None:
        """Offer to the next party what is due, and keep the receipts and keys that have come."""
        self.later_keys.step()
        self._forwarder.step()

    @property
    def held(self) -> dict[str, str]:
        """Return why nothing can be made of the filters of a plan, by its id."""
        return {name: relay.held for name, relay in self._reaches.items() if relay.held}

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
            for way, items in self._state.partitions().items()
            if way.plan_id in self._relays
        )
        return (*first, *later)

    def overview(self) -> Overview:
        """Return what became of everything."""
        return self._state.overview()

    def needs_key(self, key: int) -> bool:
        """Return whether something that was acknowledged may have to be opened with a key.

        Nothing is taken for the key any more. So what was taken for it stood in the inbox or
        among the received batches when this was asked first, finished or not, or waits.
        """
        (digest,) = (one.digest for one in self._keys.entries if one.id == key)
        before = self._taken_before.setdefault(digest, self._arrived())
        before &= self._arrived()
        filters = self._filters.key_ids()
        if key in filters or not filters <= self._keys.opening_keys().keys():
            return True  # One that names no key of ours is damaged, and may be for any of them.
        return bool(before) or any(key in self._keys_of(held) for held in self._state.held())

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

    def _follow_keys(self) -> LaterKeys:
        """Return what follows the keys behind this hop, where it is the first."""
        behind = {
            name: (*parties.hops[1:], parties.analyzer)
            for name, parties in self._parties.items()
            if parties is not None and self._hops[name] == 1
        }
        return LaterKeys(
            self._state,
            behind,
            patience=self._settings.patience,
            trusted=self._settings.trusted,
            pause_seconds=self._settings.key_pause_seconds,
        )

    def _filter_relay(self, plan: ReachPlan) -> FilterRelay:
        record, keys = self._folder / _HANDED_OVER, partial(self.later_keys.first_key, plan.id)
        return FilterRelay(self._state, plan, self._filters, self._outbox, record=record, key=keys)

    def _arrived(self) -> set[str]:
        places = (self._folder / INBOX, self._folder / RECEIVED)
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
        stored = self._keys.opening_keys()
        opening = {number: HopKey.of(one) for number, one in stored.items()}
        gone = {one.id for one in self._keys.entries if one.state is KeyState.DESTROYED}
        closed = {one.digest for one in self._keys.entries if one.state is KeyState.CLOSED}
        known = self._taken_before.keys()
        self._taken_before = {one: self._taken_before[one] for one in closed & known}
        self._opening = HopKeys(opening, gone)
        with self._state.changing() as change:
            change.forget_tags(gone)
            kill_point("opening.forgotten")
        self._opener.open_held(self._opening)
        self._keys_are_due = False

    def _receiver(self, plan_id: str) -> Party | None:
        """Return who comes after this hop; None for a plan that is not known here."""
        parties = self._parties.get(plan_id)
        if parties is None:
            return None
        return (*parties.hops, parties.analyzer)[self._hops[plan_id]]

    def _look(self) -> ShufflerStatus:
        states = ("sealed", "acknowledged", "purged")
        return ShufflerStatus(
            self._state.counts(),
            {name: len(self._state.batches(name)) for name in states},
            len(sealed_segments(self._folder / INBOX)),
            dict(self._forwarder.attempts),
        )
