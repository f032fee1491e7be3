"""Where the shuffler of a reach takes the sealed filters of publishers.

A filter is answered with a receipt when it is durable here: 201 when it came just now, 200 with
the same receipt whenever the same bytes come again. A publisher is named by its identity, and
nobody else can sign for it. Another filter of the same publisher is refused for ever.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Mapping
from pathlib import Path

from chaffinch.errors import Reason, StorageFault
from chaffinch.planning.audiences.plan import ReachPlan
from chaffinch.services.batches import USUAL_BATCHES, BatchLimits
from chaffinch.services.front import Front, Hosted
from chaffinch.services.http import Handler, Request, Response
from chaffinch.services.working import end_process
from chaffinch.shuffling.filter_inbox import FilterArrival, FilterInbox
from chaffinch.wire import media_types
from chaffinch.wire.problems import Kind, Problem
from chaffinch.wire.sealed_batches import sign_receipt

_FILTER = media_types.FILTER.encode()


class FilterDesk:
    """Takes filters into a folder."""

    def __init__(self, folder: Path, front: Front, limits: BatchLimits = USUAL_BATCHES) -> None:
        self._folder, self._front, self._limits = folder, front, limits
        self._inbox = FilterInbox(folder)
        self._arriving = 0

    @property
    def routes(self) -> dict[str, Mapping[str, Handler]]:
        """Return what is answered here."""
        return {"/v1/plans/{plan}/filters/{publisher}": {"PUT": self._take}}

    async def _take(self, request: Request) -> Response:
        hosted, publisher = self._front.find(request), request.parameters["publisher"]
        plan = hosted.plan
        if not isinstance(plan, ReachPlan) or hosted.place != 1:
            raise Problem(Kind.UNKNOWN_PLAN)
        if publisher not in dict(plan.named_parties.publishers).values():
            raise Problem(Kind.UNKNOWN_PATH)
        request.require_type(_FILTER)
        free = shutil.disk_usage(self._folder).free
        if self._arriving >= self._limits.at_once or free < self._limits.free_bytes:
            raise Problem(Kind.OVERLOADED, retry_after=5)
        self._arriving += 1
        try:
            digest, new = await self._store(request, hosted, plan, publisher)
        except StorageFault as fault:
            if fault.reason is not Reason.NO_SPACE:
                end_process("The folder of filters", fault)
            raise Problem(Kind.OVERLOADED, retry_after=30) from None
        finally:
            self._arriving -= 1
        receipt = sign_receipt(digest.hex(), self._front.keys.identity)
        return Response.of(201 if new else 200, receipt, media_types.RECEIPT)

    async def _store(
        self, request: Request, hosted: Hosted, plan: ReachPlan, publisher: str
    ) -> tuple[bytes, bool]:
        arrival = FilterArrival(self._inbox, plan.layout, publisher, lambda: hosted.heads)
        try:
            async for block in request.blocks(most=plan.layout.sealed_length):
                arrival.write(block)
        except BaseException:
            arrival.close()
            raise
        # From here on the thread closes it: whoever waits for the thread may be cancelled.
        return await asyncio.to_thread(_finish, arrival)


def _finish(arrival: FilterArrival) -> tuple[bytes, bool]:
    with arrival:
        return arrival.finish()
