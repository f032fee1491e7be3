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
from pathlib import Path
from typing import Annotated, Self

from chaffinch.disk.files import make_folder
from chaffinch.errors import (
    RETRYABLE,
    ClusterFault,
    InvalidInput,
    Reason,
    StorageFault,
    Unquoted,
    checks,
)
from chaffinch.keys import KeyFolder
from chaffinch.keys.folder import GRACE
from chaffinch.plans.kinds import RunPlan, require_kind
from chaffinch.plans.parties import Party
from chaffinch.plans.plan import SURVEY
from chaffinch.reach.planning.reach_plan import REACH
from chaffinch.reach.shuffler.filter_work import FilterWork
from chaffinch.sampling import secure_words
from chaffinch.services.openers import Cluster, open_pool
from chaffinch.shuffling.batch_outbox import MEMORY, Outbox
from chaffinch.shuffling.forwarding import Forwarder, Patience
from chaffinch.shuffling.hop_work import Hop, HopWork
from chaffinch.shuffling.inbox import sealed_segments
from chaffinch.shuffling.later_keys import LaterKeys
from chaffinch.shuffling.release_rule import ReleaseRule
from chaffinch.shuffling.report_work import INBOX, RECEIVED, ReportWork
from chaffinch.shuffling.state import Counts, Overview, State
from chaffinch.tables.parallel import Stopped, cores

OUTBOX, STATE = "outbox", "state.sqlite"
_LONGEST_KEY_PAUSE = 86_400.0
_LONG_PAUSE = 5.0
"""Seconds before a full disk, or a cluster that is gone, is tried again."""


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


WORKS: dict[str, type[HopWork]] = {
    # First of all: they need no cluster, and a fault of one ends what comes behind them.
    REACH.name: FilterWork,
    SURVEY.name: ReportWork,
}
"""What a hop does for the plans of each kind, in this order."""


def hop_of(plan: RunPlan, identity: str) -> int:
    """Return which hop of a plan has this identity, from 1; refuse one that is none."""
    require_kind(plan)
    hops = () if plan.parties is None else plan.parties.hops
    for number, party in enumerate(hops, 1):
        if party.identity == identity:
            return number
    raise InvalidInput(
        f"plan {plan.id[:16]}",
        "one that names this party as a hop",
        Unquoted("a plan with other hops"),
        hint="`chaffinch keys show` prints the identity of a key folder",
    )


class Shuffler:
    """One hop at work on its data directory."""

    def __init__(
        self,
        folder: Path,
        keys: KeyFolder,
        plans: Iterable[RunPlan],
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
        for name in (INBOX, RECEIVED, OUTBOX):
            make_folder(folder / name)
        # Takes the lock of the one owner: from here on nobody else writes to the outbox, and files
        # in it that the state does not know are leftovers.
        self._state = State.open(folder / STATE)
        words = secure_words()
        self._outbox = Outbox(
            folder / OUTBOX, keys.identity, words, memory=self._settings.memory_bytes
        )
        self._orphans_are_due = True
        self._remove_orphans()
        chosen = self._settings
        self._pool = open_pool("shuffler", chosen.openers, chosen.cluster, self.stop)
        self.later_keys = self._later_keys()
        hop = Hop(
            folder,
            keys,
            self._hops,
            self._state,
            self._outbox,
            words,
            self._pool,
            chosen.rule,
            self.later_keys.first_key,
        )
        self._works = [work(hop, known.values()) for work in WORKS.values()]
        self._forwarder = Forwarder(
            self._state,
            self._outbox,
            self._receiver,
            patience=self._settings.patience,
            trusted=self._settings.trusted,
        )
        self.cluster_fault = ""
        """Why nothing can be opened, where a cluster is to do that."""
        self.status = self._current_status()
        """What was done, as of the last tick; another thread may read it."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop everything; what is not done is done by the next one."""
        # The state last: its lock keeps the next process out as long as anything here works.
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
            # Each step by itself: while one waits for room on the disk, handing over makes room.
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
        # The outbox writes a file before the state knows of it. A file of a change that was undone
        # is a batch that was shown to nobody, and what is in it is still where it came from.
        kept = (*self._state.batches("sealed"), *self._state.batches("acknowledged"))
        self._outbox.remove_orphans({batch.id for batch in kept})
        self._orphans_are_due = False

    def take(self) -> None:
        """Take over what has arrived since the last time."""
        if self._keys.refresh():
            self._note_keys()
        for work in self._works:
            work.take()
        self.cluster_fault = ""

    def _note_keys(self) -> None:
        for work in self._works:
            work.keys_changed()

    def tick(self) -> None:
        """Release what has its crowd, let keys go that nothing needs, and count."""
        for work in self._works:
            work.tick()
        # After the release, which may have been the last to need a key. The work is told of the
        # destroyed keys also if a fault comes in between: it deletes their tags.
        before = self._keys.entries
        try:
            self._keys.destroy_closed(self.needs_key, grace_seconds=self._key_grace_seconds)
        finally:
            if self._keys.entries != before:
                self._note_keys()
        for work in self._works:
            work.follow_keys()
        self.status = self._current_status()

    def forward(self) -> None:
        """Offer to the next party what is due, and keep the receipts and keys that have come."""
        self.later_keys.step()
        self._forwarder.step()

    @property
    def held(self) -> dict[str, str]:
        """Return why nothing can be made of what came for a plan, by its id."""
        return {name: why for work in self._works for name, why in work.held.items()}

    @property
    def short(self) -> tuple[str, ...]:
        """Return what does not leave although enough reports have come."""
        return tuple(said for work in self._works for said in work.short)

    def overview(self) -> Overview:
        """Return what became of everything."""
        return self._state.overview()

    def needs_key(self, key: int) -> bool:
        """Return whether something that was acknowledged may have to be opened with a key."""
        # No short cut (``any`` of a generator): from the first question on, each work remembers
        # what may be for the key.
        needed = [work.needs_key(key) for work in self._works]
        return any(needed)

    def _later_keys(self) -> LaterKeys:
        # Only a first hop gives keys out, so a later one follows none.
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

    def _receiver(self, plan_id: str) -> Party | None:
        """Return who comes after this hop; None for a plan that is not known here."""
        parties = self._parties.get(plan_id)
        if parties is None:
            return None
        return (*parties.hops, parties.analyzer)[self._hops[plan_id]]

    def _current_status(self) -> ShufflerStatus:
        states = ("sealed", "acknowledged", "purged")
        return ShufflerStatus(
            self._state.counts(),
            {name: len(self._state.batches(name)) for name in states},
            len(sealed_segments(self._folder / INBOX)),
            dict(self._forwarder.attempts),
        )
