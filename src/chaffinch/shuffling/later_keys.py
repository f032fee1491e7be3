"""The keys of the parties behind the first hop: it asks for them itself, and gives them out.

A party that shows keys of its own to one device alone would know the messages of that device
again. So devices take all lists from the first hop, which gives everybody the same ones, and
which takes only reports that name keys it had given out before it opened them (``opening``).
Whatever else a device was handed, by whomever, its reports are rejected.

A list is taken if its party has signed it for the plan and its serial is higher than that of the
list before. The first key of each list, taken together, are the *route* that is given out from
then on; earlier ones stay good, as their reports may be on the way. Another first key cuts the
crowd into those before and those after. A party can do that once in ``pause_seconds``, however
often it signs a list: there are no more routes than parties behind this hop in that time. The first
route of all lasts for a whole pause, too: whoever fetched it in its first minute would be alone
with a party that changes its key in the second. The pause outlives the process. Inside of a life it
goes by the monotonic clock; what has passed of it at a start, the wall clock says. If that was put
back meanwhile, the whole pause starts again: a key may come up later than it could, never earlier.

The state has a list before any device has it. One thread per party talks to the network; the
state belongs to whoever asks for the results.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path

from chaffinch.errors import InvalidFile
from chaffinch.parallel import Errands
from chaffinch.planning.parties import Party
from chaffinch.shuffling.forwarding import Patience
from chaffinch.shuffling.state import Change, KeptList, State
from chaffinch.storage.failpoints import reach
from chaffinch.wire.envelopes import X25519, SealingKey
from chaffinch.wire.exchange import Exchange, NoReply
from chaffinch.wire.key_lists import LONGEST_LIST, KeyList
from chaffinch.wire.sealed_reports import route_of

_OK = 200
_AT_ONCE = 4
_AGAIN = 60.0
"""Seconds after which a party that has answered is asked again."""


@dataclass
class _Source:
    """A party behind this hop in a plan, and what is known of its keys."""

    plan_id: str
    party: Party
    content: bytes = b""
    taken: KeyList | None = None
    """What is in it: the list that is given out."""
    changed: float | None = None
    """When the pause before it may have another first key began, by the monotonic clock."""
    due: float = 0.0
    failures: int = 0
    under_way: Future[bytes] | None = None
    fault: str = ""

    def restore(self, kept: KeptList) -> None:
        """Go on with what an earlier life has kept."""
        self.content, self.taken = kept.content, self.read(kept.content)
        if kept.changed is not None:
            # A moment to come is one of before the clock was put back: the pause starts again.
            self.changed = time.monotonic() - max(0.0, time.time() - kept.changed)

    def read(self, content: bytes) -> KeyList:
        """Return a list that the party has signed for the plan, with a key to seal for first."""
        found = KeyList.read(content, plan_id=self.plan_id, identity=self.party.key)
        if found.keys[0].kem != X25519:
            raise self.refusal("with an X25519 key first", "another kind of key")
        return found

    def refusal(self, rule: str, got: str) -> InvalidFile:
        """Return the error of a list that is not taken."""
        hint = "a party gives everybody the same keys; was its key folder restored from a copy?"
        return InvalidFile(f"key list of {self.party.name}", rule, [got], hint=hint)


class LaterKeys:
    """Follows the key lists of the parties behind this hop; ``behind`` has them for each plan."""

    def __init__(
        self,
        state: State,
        behind: Mapping[str, Sequence[Party]],
        *,
        patience: Patience,
        trusted: Path | None = None,
        pause_seconds: float = 0.0,
    ) -> None:
        self._state, self._patience, self._pause = state, patience, pause_seconds
        self._sources = {
            plan_id: [_Source(plan_id, party) for party in parties]
            for plan_id, parties in behind.items()
        }
        kept = state.key_lists()
        for one in self._each():
            found = kept.get((one.plan_id, one.party.identity))
            if found is not None:
                one.restore(found)
        with state.changing() as change:
            for plan_id in self._sources:
                self._give_out(change, plan_id)
        self._exchange = Exchange(
            connect_seconds=patience.connect, reply_seconds=patience.reply, trusted=trusted
        )
        self._errands = Errands(_AT_ONCE)

    def close(self) -> None:
        """Ask nothing more."""
        self._errands.close()
        self._exchange.close()

    def step(self) -> None:
        """Take the lists that have come, and ask for those that are due."""
        for one in self._each():
            if one.under_way is not None and one.under_way.done():
                self._settle(one, one.under_way)
            elif one.under_way is None and one.due <= time.monotonic():
                one.under_way = self._errands.submit(self._ask, one.plan_id, one.party)

    def take(self, plan_id: str, party: Party, content: bytes) -> None:
        """Keep the list of a party; refuse an older one, or another one of the same serial.

        A list that comes too soon after another first key is left: it will be asked for again.
        """
        (one,) = (one for one in self._sources[plan_id] if one.party == party)
        found, before = one.read(content), one.taken
        if content == one.content:
            return
        if before is not None and found.serial <= before.serial:
            rule = f"newer than number {before.serial}, which was seen before"
            raise one.refusal(rule, f"another list with the number {found.serial}")
        is_other = before is not None and found.keys[0] != before.keys[0]
        changed = one.changed
        if is_other and changed is not None and time.monotonic() < changed + self._pause:
            return
        self._keep(one, content, found, is_other=is_other)

    def first_key(self, plan_id: str) -> SealingKey | None:
        """Return the key that everybody seals for the analyzer of a plan with, once it is known."""
        taken = self._sources[plan_id][-1].taken
        return None if taken is None else taken.keys[0]

    @property
    def faults(self) -> tuple[str, ...]:
        """Return why lists are missing or not taken, in words that can be shown."""
        return tuple(
            f"{one.party.name} has shown no keys for plan {one.plan_id[:16]} ({one.fault})"
            if not one.content
            else one.fault
            for one in self._each()
            if one.fault and (not one.content or one.failures == 0)
        )

    def _each(self) -> Iterator[_Source]:
        return (one for sources in self._sources.values() for one in sources)

    def _settle(self, one: _Source, asked: Future[bytes]) -> None:
        one.under_way = None
        try:
            content = asked.result()
        except NoReply as fault:
            one.failures += 1
            one.due = time.monotonic() + self._patience.pause(one.failures)
            one.fault = str(fault)
            return
        one.failures, one.fault, one.due = 0, "", time.monotonic() + _AGAIN
        try:
            self.take(one.plan_id, one.party, content)
        except InvalidFile as fault:
            one.fault = fault.message

    def _keep(self, one: _Source, content: bytes, found: KeyList, *, is_other: bool) -> None:
        """Keep a list, and give out the route that it is on, in one transaction."""
        is_first = one.taken is None
        with self._state.changing() as change:
            changed = time.time() if is_other else None
            change.keep_key_list(one.plan_id, one.party.identity, content, changed=changed)
            if is_first:
                change.begin_pauses(one.plan_id, time.time())
            self._give_out(change, one.plan_id, {one.party: found})
            reach("later-keys.written")
        reach("later-keys.kept")
        one.content, one.taken = content, found
        # Of the list that was missing, the keys of all others are given out from now on.
        begun = self._sources[one.plan_id] if is_first else [one] if is_other else []
        for source in begun:
            source.changed = time.monotonic()

    def _give_out(
        self, change: Change, plan_id: str, newer: Mapping[Party, KeyList] | None = None
    ) -> None:
        """Give out the route through the first keys of all parties, once there is one of each."""
        known = {one.party: one.taken for one in self._sources[plan_id]} | dict(newer or {})
        lists = [found for found in known.values() if found is not None]
        if len(lists) == len(known):
            change.give_out(plan_id, route_of([found.keys[0] for found in lists]))

    def _ask(self, plan_id: str, party: Party) -> bytes:
        """Return what a party answers. Runs in a thread, and leaves the state alone."""
        url = party.url("v1", "plans", plan_id, "keys")
        reply = self._exchange.ask("GET", url, most=LONGEST_LIST)
        if reply.status != _OK:
            # A stranger's own words are not shown.
            raise NoReply(f"the status {reply.status}", arrived=True)
        return reply.body
