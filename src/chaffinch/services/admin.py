"""The listener for operators: health, readiness, metrics and status.

It belongs on a loopback address. What it shows is as of the last tick of the service, so that
counters never tell when one person sent something.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace

import chaffinch
from chaffinch.errors import ChaffinchError, MissingExtra
from chaffinch.services.http import Application, Request, Response
from chaffinch.services.status import Status

try:
    from prometheus_client import CollectorRegistry, generate_latest
    from prometheus_client.core import (
        CounterMetricFamily,
        GaugeMetricFamily,
        InfoMetricFamily,
        Metric,
    )
    from prometheus_client.registry import Collector
except ImportError:
    raise MissingExtra("services", "services") from None

_TEXT = "text/plain; version=0.0.4; charset=utf-8"
_JSON = "application/json"
_READY_SECONDS = 1.0
"""Seconds between two looks whether a service is ready."""


class Board:
    """Where a service puts its status at every tick, and its operator reads it."""

    def __init__(self, service: str, *, patience_seconds: float) -> None:
        """Without news for longer than ``patience_seconds``, the service is taken for stuck."""
        self.status = Status(service, problems=("it has just started",))
        """As of the last tick."""
        self._patience = patience_seconds
        self._posted = time.monotonic()

    def post(self, status: Status) -> None:
        """Show another status from now on."""
        self.status, self._posted = status, time.monotonic()

    @property
    def application(self) -> Application:
        """Return what answers operators."""
        return Application(
            {
                "/healthz": {"GET": self._health},
                "/readyz": {"GET": self._readiness},
                "/metrics": {"GET": self._metrics},
                "/status": {"GET": self._show},
            }
        )

    async def _health(self, _request: Request) -> Response:
        stuck = time.monotonic() - self._posted > self._patience
        body = b"no tick for too long\n" if stuck else b"ok\n"
        return Response.of(503 if stuck else 200, body, _TEXT)

    async def _readiness(self, _request: Request) -> Response:
        problems = self.status.problems
        body = "".join(f"{one}\n" for one in problems) or "ready\n"
        return Response.of(503 if problems else 200, body.encode(), _TEXT)

    async def _metrics(self, _request: Request) -> Response:
        registry = CollectorRegistry(auto_describe=False)
        registry.register(_PrometheusMetrics(self.status))
        return Response.of(200, generate_latest(registry), _TEXT)

    async def _show(self, _request: Request) -> Response:
        content = json.dumps(self.status.document(), indent=2, ensure_ascii=False)
        return Response.of(200, content.encode() + b"\n", _JSON)


@asynccontextmanager
async def publish_status(
    board: Board,
    look: Callable[[], Status],
    seconds: float,
    problems: Callable[[], tuple[str, ...]] | None = None,
) -> AsyncIterator[None]:
    """Post what is seen now, and again at every tick; problems as soon as they come or go.

    To look for ``problems`` may take long: a store that its owner changes just now is waited for.
    So a thread does that, and nobody else waits.
    """

    async def post(make: Callable[[], Status]) -> None:
        try:
            found = await asyncio.to_thread(problems) if problems is not None else None
            board.post(make() if found is None else replace(make(), problems=found))
        except (ChaffinchError, OSError) as fault:
            # Whoever looks is told; whatever works goes on working.
            said = fault.message if isinstance(fault, ChaffinchError) else type(fault).__name__
            board.post(replace(board.status, problems=(said,)))

    async def follow() -> None:
        while True:
            due = time.monotonic() + seconds
            await post(look)
            while problems is not None and time.monotonic() + _READY_SECONDS < due:
                await asyncio.sleep(_READY_SECONDS)
                await post(lambda: board.status)
            await asyncio.sleep(max(0.0, due - time.monotonic()))

    task = asyncio.create_task(follow())
    try:
        yield
    finally:
        task.cancel()


class _PrometheusMetrics(Collector):
    def __init__(self, status: Status) -> None:
        self._status = status

    def collect(self) -> Iterator[Metric]:
        status = self._status
        yield InfoMetricFamily(
            "chaffinch_build",
            "What runs.",
            {"version": chaffinch.__version__, "service": status.service},
        )
        yield GaugeMetricFamily("chaffinch_ready", "1 if ready.", float(not status.problems))
        # What waits becomes less again, so these are no counters.
        outcomes = GaugeMetricFamily(
            "chaffinch_counts", "What became of everything.", labels=["plan", "outcome"]
        )
        batches = GaugeMetricFamily(
            "chaffinch_batches", "Batches in each state.", labels=["plan", "state"]
        )
        stuck = GaugeMetricFamily(
            "chaffinch_stuck_batches", "Batches that do not get on.", labels=["plan", "reason"]
        )
        laws = GaugeMetricFamily(
            "chaffinch_adds_up", "1 if the conservation laws hold.", labels=["plan"]
        )
        for plan in status.plans:
            name = plan.plan_id[:16]
            laws.add_metric([name], float(plan.adds_up))
            for outcome, value in plan.counts.items():
                outcomes.add_metric([name, outcome], value)
            for state, value in plan.batches.items():
                batches.add_metric([name, state], value)
            # A label has few values: numbers of the case stand in the status.
            whys = (one.why.partition(".")[0] for one in plan.stuck)
            for why, number in Counter(whys).items():
                stuck.add_metric([name, why or "not tried yet"], number)
        yield from (outcomes, batches, stuck, laws)
        keys = GaugeMetricFamily(
            "chaffinch_key", "1 for the state of a key.", labels=["id", "state"]
        )
        for number, state in status.keys.items():
            keys.add_metric([str(number), state], 1.0)
        yield keys
        offers = CounterMetricFamily(
            "chaffinch_offers", "Batches offered to the next party.", labels=["outcome"]
        )
        for outcome, times in status.offers.items():
            offers.add_metric([outcome], times)
        yield offers
        for gauge, figure in status.gauges.items():
            yield GaugeMetricFamily(f"chaffinch_{gauge}", gauge.replace("_", " "), figure)
