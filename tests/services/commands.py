"""Services as their operators run them: by command, with a file of settings."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import urllib3

from chaffinch.plans.plan import Plan
from tests.forks import COMMAND, Forked
from tests.services.oracle import port_of


@dataclass
class Service:
    """A service that runs, and where it listens."""

    process: Forked
    addresses: list[str]

    def get(self, path: str) -> str:
        """Return what the listener for operators answers."""
        return urllib3.request("GET", self.addresses[-1] + path, timeout=10).data.decode()

    def stop(self) -> tuple[int, str]:
        """Ask it to end; return its exit code and what it has said."""
        self.process.send_signal(signal.SIGTERM)
        _, err = self.process.communicate(timeout=30)
        return self.process.wait(), err


@contextmanager
def serving(
    role: str,
    config: Path,
    environment: Mapping[str, str] | None = None,
    *,
    before: str = "",
    fresh: bool = False,
) -> Iterator[Service]:
    """Yield a service that runs by its command and settings; it is killed in the end.

    What is to be another way in its process is done before it starts.
    """
    words = ["serve", role, "--config", str(config), "--json"]
    process = Forked(before + COMMAND, *words, environment=environment, fresh=fresh)
    try:
        lines = []
        while (line := process.stdout.readline()) and line != "}\n":
            lines.append(line)
        assert lines, process.communicate()[1]
        yield Service(process, json.loads("".join([*lines, "}"]))["addresses"])
    finally:
        process.kill()
        process.communicate()


# ----------------------------------------------------------------------------
# The settings of one hop and an analyzer whose keys are below one folder.

ROLES = {"collector": "hop.toml", "shuffler": "hop.toml", "analyzer": "analyzer.toml"}
_HOP = """
plans = ["plan.json"]
keys = "hop1-keys"
data = "hop1"
[collector]
listen = "127.0.0.1:{port}"
admin = "127.0.0.1:0"
[collector.limits]
free_bytes = 1
segment_seconds = 0.1
[shuffler]
admin = "127.0.0.1:0"
[shuffler.limits]
interval_seconds = {interval}
openers = 1
key_pause_seconds = 0.001
"""
_ANALYZER = """
plans = ["plan.json"]
keys = "analyzer-keys"
data = "analyzer"
[analyzer]
listen = "127.0.0.1:{port}"
admin = "127.0.0.1:0"
[analyzer.budget]
ledger = "ledger"
mark = "mark"
[analyzer.limits]
free_bytes = 1
openers = 1
look_seconds = 0.1
"""


def write_settings(root: Path, plan: Plan, *, interval: float = 0.2) -> None:
    """Write the plan and the settings of its parties; the analyzer has a ledger there."""
    plan.save(root / "plan.json")
    for role, text in (("hop", _HOP), ("analyzer", _ANALYZER)):
        port = port_of(plan, "hop1" if role == "hop" else role)
        (root / f"{role}.toml").write_text(text.format(port=port, interval=interval))


def waited(look: Callable[[], object], seconds: float = 30) -> None:
    """Return when something is so; fail when that takes too long."""
    deadline = time.monotonic() + seconds
    while not look():
        assert time.monotonic() < deadline
        time.sleep(0.02)
