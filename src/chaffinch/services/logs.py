"""The log of a service: one JSON object a line, on standard error.

A line tells of the service, its plans, batches and keys. No function here takes a request: what
came from a sender cannot be logged by mistake. The time is cut to the minute.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import TextIO

from chaffinch.services.status import Status

_Fact = str | int | float | bool | None


class Log:
    """Writes lines; threads may share one."""

    def __init__(self, service: str, stream: TextIO | None = None) -> None:
        self._service = service
        self._stream = stream
        self._lock = threading.Lock()
        self._seen: dict[str, dict[str, int]] = {}
        self._outcomes: set[str] = set()
        self._complaints: set[str] = set()

    def __call__(self, event: str, **facts: _Fact) -> None:
        """Say that something has happened."""
        at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%MZ")
        line = json.dumps({"at": at, "service": self._service, "event": event, **facts})
        stream = sys.stderr if self._stream is None else self._stream
        # A log that nobody reads any more stops no service.
        with self._lock, suppress(OSError, ValueError):
            stream.write(line + "\n")
            stream.flush()

    def starting(self, announce: Callable[[list[str]], object]) -> Callable[[list[str]], None]:
        """Return what is told the addresses of a service, and says that it has started."""

        def tell(addresses: list[str]) -> None:
            self("started", addresses=" ".join(addresses))
            announce(addresses)

        return tell

    def changes(self, status: Status) -> None:
        """Say what is different from the last status, plan by plan; nothing if nothing is.

        What came of offering batches to the next party, and what somebody must see to, is said
        when it comes for the first time.
        """
        for plan in status.plans:
            seen = {**plan.counts, **{f"batches_{name}": n for name, n in plan.batches.items()}}
            if self._seen.get(plan.plan_id, {}) != seen and any(seen.values()):
                self("tick", plan=plan.plan_id, adds_up=plan.adds_up, **seen)
            self._seen[plan.plan_id] = seen
        for outcome in status.offers.keys() - self._outcomes:
            self._outcomes.add(outcome)
            self("offered", outcome=outcome)
        for said in (*status.problems, *status.held):
            if said not in self._complaints:
                self._complaints.add(said)
                self("held", said=said)
