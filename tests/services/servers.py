"""Parties with keys, a plan that names them, and their services as real processes on loopback."""

from __future__ import annotations

import http.client
import json
import signal
import socket
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from chaffinch.keys.folder import KeyFolder
from chaffinch.plans.parties import Parties, Party
from chaffinch.plans.plan import Plan
from chaffinch.protocols import Flips
from chaffinch.questions import Choice
from chaffinch.services.http import Application, Request, Response
from chaffinch.shuffling.inbox import Upload, read_segment, recover, sealed_segments
from chaffinch.wire import media_types
from tests.engines import plans
from tests.forks import Forked

ANYWHERE = "http://127.0.0.1:9"


@dataclass(frozen=True)
class Site:
    """The folders of all parties of one plan: ``hop1``, ``hop2`` …, ``analyzer``."""

    folder: Path
    plan: Plan
    keys: Mapping[str, KeyFolder]

    def reports(self, count: int, *, first: int = 0, party: str = "hop1") -> bytes:
        """Return so many reports of the right form, each with a number in it; none opens."""
        (head, *_) = (stored.key.head for stored in self.keys[party].opening_keys().values())
        length = self.plan.layout.report_length
        return b"".join(
            (head + number.to_bytes(8, "big")).ljust(length, b"r")
            for number in range(first, first + count)
        )

    def path(self, *, number: int = 1) -> str:
        """Return where reports of a round are sent to."""
        return f"/v1/plans/{self.plan.id}/rounds/{number}/reports"

    def kept(self, *, runs: bool = False) -> list[Upload]:
        """Return what the first hop has in its inbox; what is sealed while its collector runs."""
        inbox = self.folder / "hop1" / "data" / "inbox"
        if not runs:
            recover(inbox)
        return [upload for path in sealed_segments(inbox) for upload in read_segment(path)]

    def numbers(self, *, runs: bool = False) -> list[int]:
        """Return the numbers of all reports that are kept."""
        length = self.plan.layout.report_length
        return [
            int.from_bytes(upload.reports[start + 7 : start + 15], "big")
            for upload in self.kept(runs=runs)
            for start in range(0, len(upload.reports), length)
        ]


def make_site(folder: Path, *, hops: int = 1, users: int = 3, slots: int = 3) -> Site:
    """Return new parties and a plan that names them."""
    names = [f"hop{number}" for number in range(1, hops + 1)] + ["analyzer"]
    keys = {}
    for name in names:
        (folder / name / "data").mkdir(parents=True)
        keys[name] = KeyFolder.create(folder / name / "keys")
    parties = [Party(name, keys[name].identity_hex, ANYWHERE) for name in names]
    values = [f"value {place}" for place in range(slots)]
    question = ("value", Choice(values), Flips(Fraction(1, 4), 1, slots))
    plan = plans.plan_of(question, users=users).run_by(Parties(tuple(parties[:-1]), parties[-1]))
    plan.save(folder / "plan.json")
    return Site(folder, plan, keys)


async def asked(
    application: Application, method: str, path: str, body: bytes = b"", media_type: str = ""
) -> Response:
    """Return what an application answers, asked as a connection would."""

    async def blocks() -> AsyncIterator[bytes]:
        yield body

    headers = [(b"content-type", media_type.encode()), (b"content-length", b"%d" % len(body))]
    return await application(Request(method, path.encode(), headers, blocks()))


# ----------------------------------------------------------------------------
# Processes.

COLLECTOR = """
import json, sys
from pathlib import Path
from chaffinch.keys.folder import KeyFolder
from chaffinch.plans.plan import load_plan
from chaffinch.services.batch_intake import BatchLimits
from chaffinch.services.collector import Collector, CollectorLimits
from chaffinch.services.group_commit import InboxLimits
from chaffinch.services.connections import Limits
from chaffinch.services.server import Listener, run

folder, place = Path(sys.argv[1]), Path(sys.argv[2])
chosen = json.loads(sys.argv[3])
inbox = InboxLimits(**chosen.get("inbox", {}))
batches = BatchLimits(**chosen.get("batches", {}))
limits = CollectorLimits(**chosen.get("collector", {}), inbox=inbox, batches=batches)
plans, keys = [load_plan(folder / "plan.json")], KeyFolder.open(place / "keys")
collector = Collector(place / "data", plans, keys, limits=limits)
tls = {name: Path(path) for name, path in chosen.get("tls", {}).items()}
run(
    [Listener(collector.application, **tls)],
    background=[collector.running()],
    announce=lambda addresses: print(*addresses, flush=True),
    limits=Limits(**chosen.get("server", {})),
)
"""


@dataclass(frozen=True)
class Reply:
    """What was answered."""

    status: int
    headers: Mapping[str, str]
    content: bytes


@dataclass
class Running:
    """A service that runs."""

    process: Forked
    port: int

    def connect(self, *, timeout: float = 20.0) -> http.client.HTTPConnection:
        """Return a new connection."""
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)

    def ask(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        """Return the reply to one request."""
        connection = self.connect()
        connection.request(method, path, body, dict(headers or {}))
        found = connection.getresponse()
        reply = Reply(found.status, dict(found.getheaders()), found.read())
        connection.close()
        return reply

    def post(self, path: str, body: bytes) -> int:
        """Return the status of a reply to reports."""
        return self.ask("POST", path, body, {"content-type": media_types.REPORTS}).status

    def raw(self, content: bytes, *, timeout: float = 20.0) -> bytes:
        """Return all that is answered to some bytes."""
        with socket.create_connection(("127.0.0.1", self.port), timeout) as connection:
            connection.sendall(content)
            return read_all(connection)

    def memory(self) -> int:
        """Return how many bytes of memory it holds."""
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        (held,) = (line.split()[1] for line in lines if line.startswith("VmRSS"))
        return int(held) << 10

    def stop(self, number: int = signal.SIGTERM) -> tuple[int, str, str]:
        """End it; return its exit code and all it has said."""
        self.process.send_signal(number)
        out, err = self.process.communicate(timeout=30)
        return self.process.wait(), out, err


def read_all(connection: socket.socket) -> bytes:
    """Return what comes until the other end hangs up."""
    parts = []
    try:
        while block := connection.recv(1 << 16):
            parts.append(block)
    except ConnectionResetError:
        pass
    return b"".join(parts)


@contextmanager
def collecting(
    site: Site,
    chosen: Mapping[str, Any] | None = None,
    *,
    party: str = "hop1",
    environment: Mapping[str, str] | None = None,
    program: str = COLLECTOR,
    fresh: bool = False,
) -> Iterator[Running]:
    """Yield the collector of a party."""
    settings = {"inbox": {"free_bytes": 0, "segment_seconds": 0.3}, **(chosen or {})}
    words = [site.folder, site.folder / party, json.dumps(settings)]
    process = Forked(program, *words, environment=environment, fresh=fresh)
    try:
        address = process.stdout.readline()
        assert address, process.stderr.read()
        yield Running(process, int(address.rpartition(":")[2]))
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()
