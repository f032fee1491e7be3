"""Ten minutes of all parties under a steady load: their memory must not grow."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import urllib3

from benchmarks.findings import Finding, Goal, Line
from benchmarks.harness import tell
from chaffinch.analysis.received import KnownBatches
from chaffinch.wire import media_types
from tests.services.commands import ROLES, Service, serving, waited, write_settings
from tests.services.faults.world import make_ledger
from tests.services.oracle import Collection

SECONDS = 600
CROWD = 100
AT_ONCE = 50
"""Reports in a request, one of which is sent a second, and every tenth of them twice."""
GROWTH = 1.1
"""What memory may be at the end, over what it was when a tenth of the time was over."""
_MOMENTS = (0.1, 0.5, 1.0)


def findings() -> Iterator[Finding]:
    """Yield the memory of every service near the start, in the middle and at the end."""
    with tempfile.TemporaryDirectory(prefix="chaffinch-soak-") as name:
        yield _soaked(Path(name))


def _soaked(root: Path) -> Finding:
    collection = Collection.make(root, crowd=CROWD, numbers=16)
    make_ledger(root)
    write_settings(root, collection.plan, interval=5.0)
    with ExitStack() as stack:
        services = {
            role: stack.enter_context(serving(role, root / name, fresh=True))
            for role, name in ROLES.items()
        }
        # What is sealed for keys that the first hop has not given out yet is in no batch.
        waited(lambda: services["collector"].get("/readyz") == "ready\n")
        start, sent = time.monotonic(), 0
        seen: dict[str, list[float]] = {role: [] for role in services}
        for moment in _MOMENTS:
            while (left := start + moment * SECONDS - time.monotonic()) > 0:
                tell(f"{left:.0f} s to {moment:.0%}, {sent:,} reports")
                sent += _send(collection, services["collector"], sent)
            for role, service in services.items():
                seen[role].append(_megabytes(service.process.pid))
        tell("")
        waited(lambda: _released(root) > sent - CROWD)
    lines = [
        Line(
            role, (*found, found[-1] / found[0]), Goal(GROWTH, found[-1] / found[0], at_least=False)
        )
        for role, found in seen.items()
    ]
    notes = [f"{sent:,} reports in {SECONDS} s, every tenth upload twice; batches of {CROWD} on."]
    columns = (*(f"MB at {moment:.0%}" for moment in _MOMENTS), "growth")
    return Finding("Memory of the services under a steady load", columns, lines, notes)


def _send(collection: Collection, collector: Service, sent: int) -> int:
    """Send one upload, within a second; return how many new reports were in it."""
    due = time.monotonic() + 1.0
    url = f"{collector.addresses[0]}/v1/plans/{collection.plan.id}/rounds/1/reports"
    body = b"".join(collection.seal(number % 16 for number in range(AT_ONCE)))
    for _ in range(2 if sent % (10 * AT_ONCE) == 0 else 1):
        reply = urllib3.request(
            "POST", url, body=body, headers={"content-type": media_types.REPORTS}
        )
        assert reply.status == 201, reply.data
    time.sleep(max(0.0, due - time.monotonic()))
    return AT_ONCE


def _megabytes(process: int) -> float:
    """Return the memory of a process that is in use, and no other one's."""
    text = Path(f"/proc/{process}/smaps_rollup").read_text(encoding="ascii")
    fields = dict(line.split(":") for line in text.splitlines()[1:])
    return sum(int(fields[name].split()[0]) for name in ("Private_Clean", "Private_Dirty")) / 1024


def _released(root: Path) -> int:
    """Return how many reports are in releases; all of them must be paid for, and none twice."""
    batches = KnownBatches(root / "analyzer" / "state.sqlite").all()
    assert all((one.replayed, one.rejected) == (0, 0) for one in batches)
    return sum(one.reports for one in batches if one.state == "released")
