"""Where the shuffler of a reach takes the sealed filters of publishers.

A filter is answered with a receipt when it is durable here: 201 when it came just now, 200 with
the same receipt whenever the same bytes come again. A publisher is named by its identity, and
nobody else can sign for it: who has not shown its signature gets no place for what is on its way,
and each publisher has one of its own. Another filter of the same publisher is refused for ever.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from chaffinch.reach.planning.reach_plan import REACH
from chaffinch.reach.shuffler.filter_inbox import FilterArrival, FilterInbox, check_start
from chaffinch.services.batch_intake import USUAL_BATCHES, BatchLimits, Desk, begun, joined
from chaffinch.services.front import Front
from chaffinch.services.http import Handler, Request, Response
from chaffinch.wire import media_types
from chaffinch.wire.problems import Kind, Problem
from chaffinch.wire.sealed_filters import START_LENGTH

_FILTER = media_types.FILTER.encode()


class FilterDesk(Desk):
    """Takes filters into a folder."""

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
        digest, new = await self._receive(body, start, sender=sender, at_once=1)
        return self._receipt(201 if new else 200, digest.hex())
