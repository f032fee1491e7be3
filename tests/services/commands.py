"""Services as their operators run them: by command, with a file of settings."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import urllib3

import chaffinch as cf


@dataclass
class Service:
    """A service that runs, and where it listens."""

    process: subprocess.Popen[str]
    addresses: list[str]

    def get(self, path: str) -> str:
        """Return what the listener for operators answers."""
        return urllib3.request("GET", self.addresses[-1] + path, timeout=10).data.decode()

    def stop(self) -> tuple[int, str]:
        """Ask it to end; return its exit code and what it has said."""
        self.process.send_signal(signal.SIGTERM)
        _, err = self.process.communicate(timeout=30)
        return self.process.returncode, err


@contextmanager
def serving(
    role: str, config: Path, environment: Mapping[str, str] | None = None
) -> Iterator[Service]:
    """Yield a service that runs by its command and settings; it is killed in the end."""
    command = [sys.executable, "-m", "chaffinch", "serve", role, "--config", str(config), "--json"]
    source = str(Path(cf.__file__).parents[1])
    process = subprocess.Popen(
        command,
        env={**os.environ, "PYTHONPATH": source, **(environment or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        lines = []
        while (line := process.stdout.readline()) and line != "}\n":
            lines.append(line)
        assert lines, process.communicate()[1]
        yield Service(process, json.loads("".join([*lines, "}"]))["addresses"])
    finally:
        process.kill()
        process.communicate()


def waited(look: Callable[[], object], seconds: float = 30) -> None:
    """Return when something is so; fail when that takes too long."""
    deadline = time.monotonic() + seconds
    while not look():
        assert time.monotonic() < deadline
        time.sleep(0.05)
