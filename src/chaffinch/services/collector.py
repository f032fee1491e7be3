"""The front of a hop: takes sealed reports, and answers 201 when they are on the disk.

A first hop takes reports of people, a later one batches of the hop before, and the shuffler of a
reach the filters of publishers.

Everything is refused that can be refused without opening it: a plan or round that is not run
here, another length, a key that is not in use. Nothing about the sender is stored or logged.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Container, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from chaffinch.disk.kill_points import kill_point
from chaffinch.keys.folder import GRACE, KeyFolder
from chaffinch.plans.kinds import RunPlan
from chaffinch.plans.parties import Parties
from chaffinch.plans.plan import SURVEY, Plan
from chaffinch.reach.planning.reach_plan import REACH
from chaffinch.reach.shuffler.filter_inbox import FilterArrival, FilterInbox, check_start
from chaffinch.services.batch_intake import (
    PATIENCE,
    USUAL_BATCHES,
    BatchDesk,
    BatchLimits,
    Desk,
    begun,
    joined,
)
from chaffinch.services.cross_origin import open_to_pages
from chaffinch.services.front import Front, Hosted, keys_response
from chaffinch.services.group_commit import USUAL_INBOX, GroupCommit, InboxLimits
from chaffinch.services.http import Application, Handler, Request, Response, Room
from chaffinch.shuffling.inbox import Upload
from chaffinch.shuffling.state import is_relayed, seen_key_lists
from chaffinch.wire import media_types
from chaffinch.wire.envelopes import HEAD
from chaffinch.wire.problems import Kind, Problem
from chaffinch.wire.sealed_filters import START_LENGTH

_REPORTS, _FILTER = media_types.REPORTS.encode(), media_types.FILTER.encode()
_FOR_PAGES = (
    "/v1/plans/{plan}",
    "/v1/plans/{plan}/key-lists",
    "/v1/plans/{plan}/rounds/{round}/reports",
)
"""What the client of a web page asks for."""
_CREATED, _UNKNOWN = Response(201), Response(503)
_FRESH = 0.2
"""Seconds for which a look at the lists of later parties is good."""
_LONGEST_WAY = GRACE / 2
"""Seconds from the check of a report's key to the disk, after which it is not acknowledged."""


@dataclass(frozen=True)
class CollectorLimits:
    """What one request may bring, and all of them."""

    body_bytes: Annotated[int, "of one upload"] = 4 << 20
    reports: Annotated[int, "in one upload"] = 4096
    pending_bytes: Annotated[int, "in memory, on their way to the disk"] = 32 << 20
    """Of all requests together."""
    inbox: InboxLimits = USUAL_INBOX
    batches: BatchLimits = USUAL_BATCHES


_USUAL_COLLECTOR = CollectorLimits()


class Collector:
    """The collector of a hop, over its data folder."""

    def __init__(
        self,
        folder: Path,
        plans: Sequence[RunPlan],
        keys: KeyFolder,
        *,
        limits: CollectorLimits = _USUAL_COLLECTOR,
    ) -> None:
        self.front = Front(plans, keys)
        self._surveys = SURVEY.among(self.front.first_hop_of)
        self._limits = limits
        self._room = Room(limits.pending_bytes)
        self._inbox = GroupCommit(folder / "inbox", limits.inbox)
        self._state = state = folder / "state.sqlite"
        self._desk = BatchDesk(
            folder / "received",
            self.front,
            lambda _, batch_id: is_relayed(state, batch_id, patience=PATIENCE),
            limits.batches,
        )
        self._filters = FilterDesk(folder / "filters", self.front, limits.batches)
        self._seen: dict[str, tuple[asyncio.Future[Mapping[str, bytes]], float]] = {}
        self.counts: Counter[str] = Counter()
        self.application = Application(self._routes)

    @property
    def _routes(self) -> dict[str, Mapping[str, Handler]]:
        routes: dict[str, Mapping[str, Handler]] = {
            "/v1/plans/{plan}/rounds/{round}/reports": {"POST": self._take_reports},
            "/v1/plans/{plan}/key-lists": {"GET": self._show_key_lists},
            **self._filters.routes,
            **self._desk.routes,
            **self.front.routes,
        }
        for path in _FOR_PAGES:
            routes[path] = open_to_pages(self.front, routes[path])
        return routes

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Do what is done beside answering."""
        async with self._inbox, self.front.following_keys():
            yield

    async def _take_reports(self, request: Request) -> Response:
        hosted = self.front.find(request)
        number = int(request.parameters["round"])
        plan = self._surveys.get(hosted.plan.id)
        if plan is None or number > plan.rounds:
            raise Problem(Kind.UNKNOWN_PLAN)
        request.require_type(_REPORTS)
        body = await request.body(self._room, most=self._limits.body_bytes)
        try:
            kill_point("collector.read")
            # Before the check: from this moment on the keys that it goes by may be closed.
            checked = time.monotonic()
            count = self._count_reports(plan, hosted, body)
            await self._inbox.put(Upload(plan.id, number, body))
            if time.monotonic() - checked > _LONGEST_WAY:
                # Its key may have been closed, and destroyed before the report was in the inbox. It
                # may count all the same, so it is not refused: no problem leaves that open.
                return _UNKNOWN
        finally:
            self._room.give(len(body))
        self.counts["durable"] += count
        return _CREATED

    async def _show_key_lists(self, request: Request) -> Response:
        """Answer with the lists of all parties, as the shuffler of this first hop has seen them."""
        hosted = self.front.find(request)
        parties = hosted.plan.parties
        if parties is None or hosted.place != 1:
            raise Problem(Kind.UNKNOWN_PATH)
        seen = await self._seen_lists(hosted.plan.id)
        if missing := _parties_without_keys(parties, seen):
            self._seen.pop(hosted.plan.id, None)  # They may be here any moment.
            raise Problem(Kind.UNSEEN_KEYS, retry_after=5, parties=missing)
        behind = (*parties.hops[1:], parties.analyzer)
        lists = [hosted.key_list, *(seen[party.identity] for party in behind)]
        return keys_response(request, b"".join(lists))

    async def _seen_lists(self, plan_id: str) -> Mapping[str, bytes]:
        """Return the lists of later parties, as of a moment ago: all who ask share one look."""
        # One query serves all who ask at once: thousands of devices ask after a restart.
        look, moment = self._seen.get(plan_id, (None, 0.0))
        if look is None or (look.done() and time.monotonic() - moment > _FRESH):

            def seen() -> Mapping[str, bytes]:
                return seen_key_lists(self._state, plan_id, patience=PATIENCE)

            look = asyncio.ensure_future(self.front.bounded_reads.run(seen))
            self._seen[plan_id] = look, time.monotonic()
        # Shielded: a sender that goes away must not cancel what others wait for.
        return await asyncio.shield(look)

    def problems(self) -> tuple[str, ...]:
        """Return for which plans nobody can send a report, because keys are missing."""
        found = list(self.front.problems())
        for plan_id, plan in self._surveys.items():
            if plan.parties is None:
                continue
            found += [
                f"nobody can send for plan {plan_id[:16]}: {name} has shown no keys here"
                for name in _parties_without_keys(
                    plan.parties, seen_key_lists(self._state, plan_id)
                )
            ]
        return tuple(found)

    def _count_reports(self, plan: Plan, hosted: Hosted, body: bytes) -> int:
        length = plan.layout.report_length
        count, rest = divmod(len(body), length)
        if rest or not count:
            raise Problem(Kind.INVALID_MESSAGE, f"A report of this plan has {length} bytes.")
        if count > self._limits.reports:
            raise Problem(Kind.TOO_LARGE, f"It must be at most {self._limits.reports} reports.")
        heads = hosted.heads
        starts = range(0, len(body), length)
        if not all(body[start : start + HEAD] in heads for start in starts):
            places = [
                place
                for place, start in enumerate(starts)
                if body[start : start + HEAD] not in heads
            ]
            raise Problem(Kind.OUTDATED_KEYS, places=tuple(places))
        return count


def _parties_without_keys(parties: Parties, seen: Container[str]) -> tuple[str, ...]:
    behind = (*parties.hops[1:], parties.analyzer)
    return tuple(party.name for party in behind if party.identity not in seen)


# ----------------------------------------------------------------------------
# Sealed filters of publishers, for the shuffler of a reach.


class FilterDesk(Desk):
    """Takes filters into a folder.

    A filter is answered with a receipt when it is durable here: 201 when it came just now, 200
    with the same receipt whenever the same bytes come again. Another filter of the same publisher
    is refused for ever. A publisher is named by its identity, and nobody else can sign for it:
    whoever has not shown its signature gets no place, and each publisher has one place of its own.
    """

    def __init__(self, folder: Path, front: Front, limits: BatchLimits = USUAL_BATCHES) -> None:
        super().__init__(folder, front, limits, what="filters")
        self._inbox = FilterInbox(folder)
        self._plans = REACH.among(front.first_hop_of)

    @property
    def routes(self) -> dict[str, Mapping[str, Handler]]:
        """Return what is answered here."""
        return {"/v1/plans/{plan}/filters/{publisher}": {"PUT": self._take}}

    async def _take(self, request: Request) -> Response:
        hosted, publisher = self._front.find(request), request.parameters["publisher"]
        plan = self._plans.get(hosted.plan.id)
        if plan is None:
            raise Problem(Kind.UNKNOWN_PLAN)
        if publisher not in dict(plan.named_parties.publishers).values():
            raise Problem(Kind.UNKNOWN_PATH)
        request.require_type(_FILTER)

        def start() -> FilterArrival:
            return FilterArrival(self._inbox, plan.layout, publisher, lambda: hosted.heads)

        blocks = request.blocks(most=plan.layout.sealed_length)
        first = await begun(blocks, START_LENGTH)
        check_start(publisher, plan.layout, first)
        sender = f"{plan.id}-{publisher}"
        body = joined(first, blocks)
        # One at a time: a publisher has only one filter to send.
        digest, new = await self._receive(body, start, sender=sender, at_once=1)
        return self._receipt(201 if new else 200, digest.hex())
