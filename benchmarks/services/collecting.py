"""Durable acknowledgements: one report a request, and a hundred."""

from __future__ import annotations

import asyncio
import os
import statistics
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import uvloop

from benchmarks.findings import Finding, Goal, Line
from benchmarks.harness import tell
from benchmarks.services.reference import exchanges
from chaffinch.shuffling.inbox import sealed_segments
from chaffinch.wire import media_types
from tests.services.servers import Site, collecting, make_site

TURNS = 5
CONNECTIONS = 64
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Load:
    """So many reports in a request, and so many requests in a turn; the goal of the ratio."""

    reports: int
    requests: int
    goal: float


LOADS = (Load(1, 20_000, 0.50), Load(100, 4_000, 15.0))


def findings() -> Iterator[Finding]:
    """Yield what one collector acknowledges, by its own processor time."""
    with tempfile.TemporaryDirectory(prefix="chaffinch-bench-") as name:
        site = make_site(Path(name), slots=8)
        lines = [_line(site, load) for load in LOADS]
    columns = ("reports/s", "ratio", "least", "most")
    length = site.plan.layout.report_length
    notes = [f"{CONNECTIONS} connections that stay; a report has 8 messages, {length} bytes."]
    yield Finding("Durable acknowledgements of the collector", columns, lines, notes)


def _line(site: Site, load: Load) -> Line:
    ratios, rates = [], []
    with collecting(site, fresh=True) as service:
        inbox = site.folder / "hop1" / "data" / "inbox"
        send(service.port, site, load, inbox)  # warms up
        for turn in range(TURNS):
            tell(f"{load.reports} a request, turn {turn + 1}")
            before = processor(service.process.pid)
            send(service.port, site, load, inbox)
            spent = processor(service.process.pid) - before
            rates.append(load.reports * load.requests / spent)
            ratios.append(rates[-1] / exchanges())
        service.stop()
    tell("")
    middle = statistics.median(ratios)
    cells = (statistics.median(rates), middle, min(ratios), max(ratios))
    return Line(f"{load.reports} a request", cells, Goal(load.goal, middle))


def processor(process: int) -> float:
    """Return the processor time of another process, all threads together, in seconds."""
    words = Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / _TICKS


def send(port: int, site: Site, load: Load, inbox: Path) -> None:
    """Send all requests of a turn, and clear the inbox as a shuffler would."""
    body = site.reports(load.reports)
    head = (
        f"POST {site.path()} HTTP/1.1\r\nhost: localhost\r\n"
        f"content-type: {media_types.REPORTS}\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_send(port, head.encode() + body, load.requests, inbox))


async def _send(port: int, request: bytes, number: int, inbox: Path) -> None:
    loop = asyncio.get_running_loop()
    left = [number]
    ends: list[asyncio.Future[None]] = [loop.create_future() for _ in range(CONNECTIONS)]
    for done in ends:
        await loop.create_connection(partial(_Sender, request, left, done), "127.0.0.1", port)
    while not all(done.done() for done in ends):
        await asyncio.sleep(0.1)
        for path in sealed_segments(inbox):
            with suppress(FileNotFoundError):
                path.unlink()
    await asyncio.gather(*ends)


class _Sender(asyncio.Protocol):
    """Sends the same request as soon as the one before is answered, while some are left."""

    def __init__(self, request: bytes, left: list[int], done: asyncio.Future[None]) -> None:
        self._request = request
        self._left = left
        self.done = done

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._next()

    def _next(self) -> None:
        if self._left[0] > 0:
            self._left[0] -= 1
            self._transport.write(self._request)
        else:
            self.done.set_result(None)
            self._transport.close()

    def data_received(self, data: bytes) -> None:
        assert data.startswith(b"HTTP/1.1 201"), data
        self._next()

    def connection_lost(self, _fault: Exception | None) -> None:
        if not self.done.done():
            self.done.set_exception(AssertionError("the service has hung up"))
