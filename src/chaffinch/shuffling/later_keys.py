"""The keys of the parties behind the first hop: it asks for them itself, and gives them out.

A party that shows keys of its own to one device alone would know the messages of that device
again. So devices take all lists from the first hop, which gives everybody the same ones, and
which takes only reports that name keys it had given out before it opened them (``open_envelopes``).
Whatever else a device was handed, by whomever, its reports are rejected.

A list is taken if its party has signed it for the plan and its serial is higher than that of the
list before. The first key of each list, taken together, are the *route* that is given out from
then on; earlier ones stay good, as their reports may be on the way. Another first key cuts the
crowd into those before and those after. So a route is given out for ``pause_seconds`` at least,
however often parties sign lists, and whoever of them: if each had a pause of its own, two that work
together would have those to themselves who ask between their changes. All parties are asked at
once, and what has changed meanwhile is one other route. The pause outlives the process. Inside of a
life it goes by the monotonic clock; what has passed of it at a start, the wall clock says. If that
was put back meanwhile, the whole pause starts again: a key may come up later than it could, never
earlier.

The state has a list before any device has it. One thread per party talks to the network; the
state belongs to whoever asks for the results.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path

from chaffinch.disk.kill_points import kill_point
from chaffinch.errors import InvalidFile
from chaffinch.plans.parties import Party
from chaffinch.shuffling.forwarding import Patience
from chaffinch.shuffling.state import KeptList, State
from chaffinch.tables.parallel import Errands
from chaffinch.wire.envelopes import X25519, SealingKey
from chaffinch.wire.exchange import Exchange, NoReply
from chaffinch.wire.key_lists import LONGEST_LIST, KeyList
from chaffinch.wire.sealed_reports import route_of

_OK = 200
_AT_ONCE = 4
"""Plans for which a party is asked together."""
_AGAIN = 60.0
"""Seconds after which a party that has answered is asked again."""


@dataclass
class _Source:
    plan_id: str
    party: Party
    content: bytes = b""
    taken: KeyList | None = None
    """What is in it: the list that is given out."""
    failures: int = 0
    under_way: Future[bytes] | None = None
    fault: str = ""

    def read(self, content: bytes) -> KeyList:
        """Return a list that the party has signed for the plan, with a key to seal for first."""
        found = KeyList.read(content, plan_id=self.plan_id, identity=self.party.key)
        if found.keys[0].kem != X25519:
            raise self.refusal("with an X25519 key first", "another kind of key")
        return found

    def refusal(self, rule: str, got: str) -> InvalidFile:
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
        self._due = dict.fromkeys(self._sources, 0.0)
        self._begun = dict.fromkeys(self._sources, -math.inf)
        """Since when a route is given out, by the monotonic clock."""
        self._restore(state.key_lists())
        with state.changing() as change:
            for plan_id in self._sources:
                if (route := self._route(plan_id)) is None:
                    continue
                # Of one that a version before has given out nobody knows since when: from now on.
                is_new = self._begun[plan_id] == -math.inf
                change.give_out(plan_id, route, time.time() if is_new else None)
                if is_new:
                    self._begun[plan_id] = time.monotonic()
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
        for plan_id, sources in self._sources.items():
            asked = [one.under_way for one in sources if one.under_way is not None]
            if asked and all(one.done() for one in asked):
                self._settle(plan_id)
            elif not asked and self._due[plan_id] <= time.monotonic():
                for one in sources:
                    who = one.party.identity
                    one.under_way = self._errands.submit(who, self._ask, plan_id, one.party)

    def take(self, plan_id: str, party: Party, content: bytes) -> None:
        """Keep the list of a party; refuse an older one, or another one of the same serial.

        A list that makes another route too soon is left: it will be asked for again.
        """
        (one,) = (one for one in self._sources[plan_id] if one.party == party)
        found = self._newer(one, content)
        if found is not None:
            self._keep(plan_id, {party: (content, found)})

    def first_key(self, plan_id: str) -> SealingKey | None:
        """Return the key that everybody seals for the analyzer of a plan with, once it is known."""
        # The analyzer is the last of the parties behind this hop.
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

    def _restore(self, kept: Mapping[tuple[str, str], KeptList]) -> None:
        for one in self._each():
            found = kept.get((one.plan_id, one.party.identity))
            if found is None:
                continue
            one.content, one.taken = found.content, one.read(found.content)
            if found.begun is not None:
                # A moment to come is one of before the clock was put back: the pause starts again.
                begun = time.monotonic() - max(0.0, time.time() - found.begun)
                self._begun[one.plan_id] = max(begun, self._begun[one.plan_id])

    def _settle(self, plan_id: str) -> None:
        newer: dict[Party, tuple[bytes, KeyList]] = {}
        pause = _AGAIN
        for one in self._sources[plan_id]:
            asked, one.under_way = one.under_way, None
            try:
                content = b"" if asked is None else asked.result()
            except NoReply as fault:
                one.failures, one.fault = one.failures + 1, str(fault)
                pause = min(pause, self._patience.pause(one.failures))
                continue
            one.failures, one.fault = 0, ""
            try:
                found = self._newer(one, content)
            except InvalidFile as fault:
                one.fault = fault.message
            else:
                newer |= {} if found is None else {one.party: (content, found)}
        self._due[plan_id] = time.monotonic() + pause
        self._keep(plan_id, newer)

    @staticmethod
    def _newer(one: _Source, content: bytes) -> KeyList | None:
        """Return the list of a party if it is another one than before, and newer."""
        found, before = one.read(content), one.taken
        if content == one.content:
            return None
        if before is not None and found.serial <= before.serial:
            rule = f"newer than number {before.serial}, which was seen before"
            raise one.refusal(rule, f"another list with the number {found.serial}")
        return found

    def _keep(self, plan_id: str, newer: Mapping[Party, tuple[bytes, KeyList]]) -> None:
        """Keep lists, and give out the route that they are on, in one transaction.

        While the route before must be given out, those that are on another one are left.
        """
        sources, route = self._sources[plan_id], self._route(plan_id)
        if route is not None and time.monotonic() < self._begun[plan_id] + self._pause:
            # Lists with the same first key change no route, and are taken at any time.
            same = {one.party: one.taken.keys[0] for one in sources if one.taken is not None}
            for one in sources:
                if one.party in newer and same[one.party] not in newer[one.party][1].keys:
                    one.fault = (
                        f"{one.party.name} takes nothing more for the key that devices have for "
                        f"plan {plan_id[:16]}; its new one is given out when the pause has ended"
                    )
            newer = {one: kept for one, kept in newer.items() if kept[1].keys[0] == same[one]}
        if not newer:
            return
        other = self._route(plan_id, {one: found for one, (_, found) in newer.items()})
        with self._state.changing() as change:
            for party, (content, _) in newer.items():
                change.keep_key_list(plan_id, party.identity, content)
            if other is not None and other != route:
                change.give_out(plan_id, other, time.time())
            kill_point("later-keys.written")
        kill_point("later-keys.kept")
        # Only after the commit. If the disk undoes the change, the list must look new when it comes
        # again; in memory it would pass for known, and would never be kept.
        for one in sources:
            if one.party in newer:
                one.content, one.taken = newer[one.party]
        if other != route:
            self._begun[plan_id] = time.monotonic()

    def _route(self, plan_id: str, newer: Mapping[Party, KeyList] | None = None) -> bytes | None:
        """Return the route through the first keys of all parties, once there is one of each."""
        known = {one.party: one.taken for one in self._sources[plan_id]} | dict(newer or {})
        lists = [found for found in known.values() if found is not None]
        return route_of([one.keys[0] for one in lists]) if len(lists) == len(known) else None

    def _ask(self, plan_id: str, party: Party) -> bytes:
        """Return what a party answers. Runs in a thread, and leaves the state alone."""
        url = party.url("v1", "plans", plan_id, "keys")
        reply = self._exchange.ask("GET", url, most=LONGEST_LIST)
        if reply.status != _OK:
            # A stranger's own words are not shown.
            raise NoReply(f"the status {reply.status}", arrived=True)
        return reply.body
