"""The routes that every party answers: the plans it runs, and its keys for each.

A party finds its place in a plan by its identity: a hop of the shuffler, or the analyzer.
"""

from __future__ import annotations

import asyncio
import hashlib
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import TypeVar

from chaffinch.errors import InvalidInput, Reason, StorageFault, Unquoted
from chaffinch.keys.folder import GRACE, KeyFolder
from chaffinch.plans.kinds import RunPlan, require_kind
from chaffinch.services.http import Handler, Request, Response
from chaffinch.wire import media_types
from chaffinch.wire.documents import document_bytes
from chaffinch.wire.envelopes import X25519
from chaffinch.wire.problems import Kind, Problem

_FOREVER = ("cache-control", "public, max-age=31536000, immutable")
_AN_HOUR = ("cache-control", "public, max-age=3600")
"""As long as a new key waits before it is used: nobody who holds the list before has it not."""

_Seen = TypeVar("_Seen")
_PAUSE = 1.0
_HELD = 0.1
"""Seconds for which a store is taken to be held after a look that found nothing."""
_LONGEST_UNSEEN = GRACE / 4
"""Seconds since the keys were last read, after which nothing is taken for them.

A closed key stays for ``GRACE`` after its service has seen it closed. With this, and the half of it
that a report may take from here to the disk, nothing is acknowledged that comes when it is gone.
"""


class BoundedReads:
    """Looks at what another process or thread may be changing, each in a thread.

    While a store is held, a look takes seconds. After one that found nothing, those who wait behind
    it are told at once to come again; and nobody fills the memory with those who wait.
    """

    def __init__(self, most: int = 1024) -> None:
        self._most, self._waiting = most, 0
        self._held_until = 0.0

    async def run(self, look: Callable[[], _Seen]) -> _Seen:
        """Return what a look finds; Problem where it finds nothing in time."""
        # Counted in the thread of the event loop, so without a lock.
        if self._waiting >= self._most:
            raise Problem(Kind.OVERLOADED, retry_after=5)
        self._waiting += 1
        try:
            return await asyncio.to_thread(self._look, look)
        finally:
            self._waiting -= 1

    def _look(self, look: Callable[[], _Seen]) -> _Seen:
        if time.monotonic() >= self._held_until:
            try:
                return look()
            except StorageFault as fault:
                if fault.reason is Reason.UNCERTAIN:
                    raise
                # Several threads may write this at once: any of their moments is good.
                self._held_until = time.monotonic() + _HELD
        raise Problem(Kind.OVERLOADED, retry_after=5)


@dataclass
class Hosted:
    """A plan that this party runs, with its keys for it."""

    plan: RunPlan
    place: int
    """The number of the hop that this party is; one more than the hops for the analyzer."""
    document: bytes = field(init=False, repr=False)
    """The plan as it is shown."""
    key_list: bytes = field(default=b"", repr=False)
    _heads: frozenset[bytes] = frozenset()
    _key_names: frozenset[bytes] = frozenset()
    _read: float = 0.0
    """When the keys were last read, by the monotonic clock."""

    def __post_init__(self) -> None:
        self.document = document_bytes(self.plan.document())

    @property
    def kem(self) -> int:
        """Return the KEM of the envelopes that come to this party."""
        return self.plan.layout.outer_kem if self.place == 1 else X25519

    @property
    def heads(self) -> frozenset[bytes]:
        """Return how the envelopes start that this party takes now."""
        self._require_keys()
        return self._heads

    @property
    def key_names(self) -> frozenset[bytes]:
        """Return the names of the keys that this party takes envelopes for now."""
        self._require_keys()
        return self._key_names

    @property
    def is_current(self) -> bool:
        """Return whether the keys were read a short while ago."""
        return time.monotonic() - self._read <= _LONGEST_UNSEEN

    def _require_keys(self) -> None:
        if not self.is_current:
            raise Problem(Kind.OVERLOADED, retry_after=5)

    def use(self, keys: KeyFolder) -> None:
        """Take over the keys for which envelopes are taken now."""
        taken = [one.key for one in keys.accepted_keys().values() if one.key.kem == self.kem]
        if not taken:
            raise InvalidInput(
                "keys for a plan",
                "of the kind that its envelopes are sealed for",
                Unquoted("others"),
            )
        self._heads = frozenset(key.head for key in taken)
        self._key_names = frozenset(key.sealing.name for key in taken)
        self.key_list = keys.key_list(self.plan.id)

    def note_reading(self, moment: float) -> None:
        """Note that the keys are as they were at a moment of the monotonic clock."""
        self._read = moment


class Front:
    """The plans of one party."""

    def __init__(self, plans: Iterable[RunPlan], keys: KeyFolder) -> None:
        self.keys = keys
        self.bounded_reads = BoundedReads()
        self.hosted = {
            plan.id: Hosted(plan, _party_number(plan, keys.identity_hex)) for plan in plans
        }
        self._changed = True
        self.refresh()  # They may have been read long ago.

    @property
    def first_hop_of(self) -> list[RunPlan]:
        """Return the plans of which this is the first hop: people or publishers send to it."""
        return [one.plan for one in self.hosted.values() if one.place == 1]

    @asynccontextmanager
    async def following_keys(self) -> AsyncIterator[None]:
        """Take over keys that change on the disk meanwhile."""
        task = asyncio.create_task(self._follow_keys())
        try:
            yield
        finally:
            task.cancel()

    async def _follow_keys(self) -> None:
        told = ""
        while True:
            try:
                self.refresh()
            except Exception as fault:  # noqa: BLE001 - whatever it is, it may pass
                # Those from before are good for a few seconds more; people are told once.
                if str(fault) != told:
                    with suppress(OSError):
                        sys.stderr.write(f"The keys cannot be read, so nothing is taken. {fault}\n")
                told = str(fault)
            else:
                told = ""
            await asyncio.sleep(_PAUSE)

    def refresh(self) -> None:
        """Take over keys that have changed on the disk."""
        # The moment before the reading: a key that is closed during it must not pass for one that
        # was seen open afterwards.
        moment = time.monotonic()
        self._changed |= self.keys.refresh()
        self._use_keys(moment)

    def _use_keys(self, moment: float) -> None:
        for one in self.hosted.values():
            if self._changed:
                one.use(self.keys)
            one.note_reading(moment)
        self._changed = False

    def problems(self) -> tuple[str, ...]:
        """Return why nothing is taken, if the keys have not been read for a while."""
        if all(one.is_current for one in self.hosted.values()):
            return ()
        return ("nothing is taken: the keys cannot be read",)

    def find(self, request: Request) -> Hosted:
        """Return the plan that an address names; refuse one that is not run here."""
        found = self.hosted.get(request.parameters["plan"])
        if found is None:
            raise Problem(Kind.UNKNOWN_PLAN)
        return found

    @property
    def routes(self) -> dict[str, Mapping[str, Handler]]:
        """Return what every party answers."""
        return {
            "/v1/plans/{plan}": {"GET": self._show_plan},
            "/v1/plans/{plan}/keys": {"GET": self._show_keys},
        }

    async def _show_plan(self, request: Request) -> Response:
        found = self.find(request)
        return _unless_cached(request, found.document, "application/json", found.plan.id, _FOREVER)

    async def _show_keys(self, request: Request) -> Response:
        return keys_response(request, self.find(request).key_list)


def keys_response(request: Request, content: bytes) -> Response:
    """Return key lists, or that the asker has them already."""
    tag = hashlib.sha256(content).hexdigest()
    return _unless_cached(request, content, media_types.KEYS, tag, _AN_HOUR)


def _unless_cached(
    request: Request, content: bytes, media_type: str, tag: str, cached: tuple[str, str]
) -> Response:
    # The asker names the tags of what it has already.
    headers = (("etag", f'"{tag}"'), cached)
    if f'"{tag}"'.encode() in request.header(b"if-none-match"):
        return Response.of(304, b"", media_type, *headers)
    return Response.of(200, content, media_type, *headers)


def _party_number(plan: RunPlan, identity: str) -> int:
    require_kind(plan)
    if plan.parties is None:
        _ = plan.layout  # says that the plan names no parties
    else:
        everyone = (*plan.parties.hops, plan.parties.analyzer)
        for number, party in enumerate(everyone, start=1):
            if party.identity == identity:
                return number
    raise InvalidInput(
        "plan to run",
        "one that names this party",
        Unquoted(f"plan {plan.id[:16]}, which does not"),
        hint="`chaffinch keys show` prints the identity that the plan must name",
    )
