"""Services that do as they are told, for tests of clients: the real bytes, with planned faults."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from chaffinch.plans.plan import Plan
from chaffinch.wire.envelopes import OpeningKey
from chaffinch.wire.problems import TYPE, Kind, Problem
from tests.encoding.operators import Operators


@dataclass
class Services:
    """All parties of a plan behind one address each; the first hop follows a script.

    A step of the script is ``take`` (201), ``lose`` (taken, and the reply is lost), ``drop`` (not
    taken, no reply), ``long`` (taken, with a reply without end), a status, or a kind of problem.
    When the script is at its end, everything is taken.
    """

    parties: Operators
    lists: list[bytes]
    script: list[str | int | Kind] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    """Every body that arrived, taken or not."""
    taken: list[bytes] = field(default_factory=list)
    """Every sealed report that is durable, once for each copy."""
    asked: list[str] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)

    @property
    def plan(self) -> Plan:
        return self.parties.plan

    def rotate(self, place: int, serial: int = 2) -> None:
        """Give a party a new key, and forget the old one."""
        keys = list(self.parties.keys)
        keys[place] = OpeningKey.new(keys[place].id + 10, keys[place].kem)
        self.parties = replace(self.parties, keys=tuple(keys))
        made = replace(self.parties.key_lists[place], serial=serial)
        self.lists[place] = made.signed(self.parties.identities[place])

    def counted(self) -> list[list[int]]:
        """Return the codes of every distinct report that was taken, as its parties open it."""
        return [self.parties.open(one) for one in dict.fromkeys(self.taken)]

    def take(self, body: bytes) -> None:
        length = self.plan.layout.report_length
        assert body
        assert len(body) % length == 0
        self.taken += [body[at : at + length] for at in range(0, len(body), length)]


@contextmanager
def running(plan: Plan, hops: int = 1) -> Iterator[Services]:
    """Yield services on loopback, which end with the block."""
    servers = [ThreadingHTTPServer(("127.0.0.1", 0), _Handler) for _ in range(hops + 1)]
    addresses = tuple(f"http://127.0.0.1:{server.server_port}" for server in servers)
    parties = Operators.of(plan, hops, addresses=addresses)
    services = Services(parties, [parties.signed(place) for place in range(hops + 1)])
    threads = []
    for place, server in enumerate(servers):
        server.services, server.place = services, place  # type: ignore[attr-defined]
        server.daemon_threads = True
        threads.append(threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True))
        threads[-1].start()
    try:
        yield services
    finally:
        for server in servers:
            server.shutdown()
            server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_words: Any) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        services, place = self._services
        services.asked.append(f"{place}:{self.path}")
        if place == 0 and self.path == f"/v1/plans/{services.plan.id}/key-lists":
            self._reply(200, b"".join(services.lists))
        else:
            self._reply(404, b"")

    def do_POST(self) -> None:
        services, place = self._services
        body = self.rfile.read(int(self.headers["content-length"]))
        services.bodies.append(body)
        services.headers.append(dict(self.headers.items()))
        services.asked.append(f"{place}:{self.path}")
        step = services.script.pop(0) if services.script else "take"
        if step in ("take", "lose", "long"):
            services.take(body)
        if step in ("lose", "drop"):
            self.close_connection = True
        elif isinstance(step, Kind):
            self._reply(step.status, Problem(step).body(), TYPE)
        elif step == "long":
            self._reply(201, bytes(1 << 20))
        else:
            self._reply(201 if step == "take" else int(step), b"")

    @property
    def _services(self) -> tuple[Services, int]:
        server: Any = self.server
        return server.services, server.place

    def _reply(self, status: int, body: bytes, kind: str = "application/octet-stream") -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
