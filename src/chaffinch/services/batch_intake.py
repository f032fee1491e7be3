"""Intake over HTTP: a later hop and the analyzer take batches of the hop before.

Few batches of a plan may be on their way at the same time. A sender has one of these places only
when it has shown the signature of the hop before for that batch: a stranger has none to show. What
it sends uses up no places of others.

A batch is answered with a receipt when it is durable here: 201 when it came just now, 200 with
the same receipt whenever it comes again. Whoever lost the answer asks for the receipt.
"""

from __future__ import annotations

import asyncio
import shutil
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeVar

from chaffinch.disk.files import make_folder, require_links
from chaffinch.disk.leftovers import remove_leftovers
from chaffinch.errors import Reason, StorageFault
from chaffinch.services.front import Front, Hosted
from chaffinch.services.http import Handler, Request, Response
from chaffinch.services.worker_thread import end_process
from chaffinch.wire import media_types
from chaffinch.wire.arrivals import Arrival, Arriving, Expected, has_arrived
from chaffinch.wire.problems import Kind, Problem
from chaffinch.wire.sealed_batches import START_LENGTH, sign_receipt

PATIENCE = 2.0
"""Seconds that whoever asks waits for a change of the state; then it is to come again."""
_BATCH = media_types.BATCH.encode()
_Known = TypeVar("_Known")


@dataclass(frozen=True)
class BatchLimits:
    """What the hop before may use."""

    batch_bytes: Annotated[int, "of one batch of the hop before"] = 4 << 30
    at_once: Annotated[int, "batches of a plan that may be on their way in"] = 4
    free_bytes: Annotated[int, "that must be free on the disk beside them"] = 512 << 20


USUAL_BATCHES = BatchLimits()


class Desk:
    """Takes into a folder what arrives: few of a sender, and none when the disk is nearly full."""

    def __init__(self, folder: Path, front: Front, limits: BatchLimits, *, what: str) -> None:
        make_folder(folder)
        # What a killed process was taking needs no key any more, and keeps none.
        remove_leftovers(folder)
        require_links(folder)
        self._folder, self._front, self._limits = folder, front, limits
        self._what = what
        self._arriving: Counter[str] = Counter()

    async def _receive(
        self,
        blocks: AsyncIterator[bytes],
        start: Callable[[], Arriving[_Known]],
        *,
        sender: str,
        at_once: int,
    ) -> _Known:
        """Store a body; return what is known of it then. A sender has so many places."""
        # Checked and counted without an ``await`` in between, so without a lock.
        free = shutil.disk_usage(self._folder).free
        if self._arriving[sender] >= at_once or free < self._limits.free_bytes:
            raise Problem(Kind.OVERLOADED, retry_after=5)
        self._arriving[sender] += 1
        try:
            return await _store(blocks, start())
        except StorageFault as fault:
            # What was there before, and cannot be read, is no reason to end.
            if fault.reason is Reason.UNCERTAIN:
                end_process(f"The folder of {self._what}", fault)
            raise Problem(Kind.OVERLOADED, retry_after=30) from None
        finally:
            self._arriving[sender] -= 1

    def _receipt(self, status: int, name: str) -> Response:
        receipt = sign_receipt(name, self._front.keys.identity)
        return Response.of(status, receipt, media_types.RECEIPT)


async def _store(blocks: AsyncIterator[bytes], arrival: Arriving[_Known]) -> _Known:
    try:
        async for block in blocks:
            arrival.write(block)
    except BaseException:
        arrival.close()
        raise
    # From here on the thread closes it: whoever waits for the thread may be cancelled.
    return await asyncio.to_thread(_finish, arrival)


def _finish(arrival: Arriving[_Known]) -> _Known:
    with arrival:
        return arrival.finish()


async def begun(blocks: AsyncIterator[bytes], length: int) -> bytes:
    """Return the first blocks of a body, with so many bytes or more; with fewer, all of it."""
    found = b""
    async for block in blocks:
        found += block
        if len(found) >= length:
            break
    return found


async def joined(first: bytes, blocks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield the first blocks of a body, and then the rest."""
    yield first
    async for block in blocks:
        yield block


class BatchDesk(Desk):
    """Takes batches into a folder.

    ``is_known`` tells, by the id of its plan and its own, of a batch that was taken before and may
    have left the folder.
    """

    def __init__(
        self,
        folder: Path,
        front: Front,
        is_known: Callable[[str, str], bool],
        limits: BatchLimits = USUAL_BATCHES,
    ) -> None:
        super().__init__(folder, front, limits, what="batches")
        self._is_known = is_known

    @property
    def routes(self) -> dict[str, Mapping[str, Handler]]:
        """Return what is answered here."""
        return {"/v1/plans/{plan}/batches/{batch}": {"PUT": self._take, "GET": self._show}}

    async def _show(self, request: Request) -> Response:
        hosted, batch_id = self._front.find(request), request.parameters["batch"]
        if not await self._has(hosted, batch_id):
            raise Problem(Kind.UNKNOWN_PATH)
        return self._receipt(200, batch_id)

    async def _take(self, request: Request) -> Response:
        hosted, batch_id = self._front.find(request), request.parameters["batch"]
        if hosted.place == 1:
            raise Problem(Kind.UNKNOWN_PATH)  # Nobody comes before the first hop.
        request.require_type(_BATCH)
        if await self._has(hosted, batch_id):
            # At once: anybody may know the id. Of the body the server takes a few megabytes more,
            # and a sender who is cut off before it has seen the answer asks for the receipt.
            return self._receipt(200, batch_id)
        expected = Expected.of(hosted.plan, hosted.place - 1)

        def start() -> Arrival:
            return Arrival(self._folder, batch_id, expected, lambda: hosted.key_names)

        blocks = request.blocks(most=self._limits.batch_bytes)
        first = await begun(blocks, START_LENGTH)
        # Before a place is taken: a stranger cannot sign the start, and takes no place of others.
        expected.read_start(first, batch_id, hosted.key_names)
        at_once = self._limits.at_once
        await self._receive(joined(first, blocks), start, sender=hosted.plan.id, at_once=at_once)
        return self._receipt(201, batch_id)

    async def _has(self, hosted: Hosted, batch_id: str) -> bool:
        def look() -> bool:
            known = self._is_known(hosted.plan.id, batch_id)
            return known or has_arrived(self._folder, batch_id)

        try:
            return await self._front.bounded_reads.run(look)
        except StorageFault as fault:
            end_process("The folder of batches", fault)
