"""What a command and all processes behind it take: clock, processor time, memory.

A step on a cluster runs in many processes, and most of them are no children of the command. All
of them carry a mark in their environment; they are looked at while the step goes on, and what
was seen last of each is counted. So up to a fifth of a second of each process is missing.
"""

from __future__ import annotations

import os
import re
import secrets
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_PAUSE = 0.2
_VARIABLE = "CHAFFINCH_BENCHMARK"


@dataclass(frozen=True)
class Taken:
    """What one step took."""

    clock: float
    processor: float
    memory: float
    """The most bytes of all processes together; what several share is counted once."""
    largest_worker: float
    """The most bytes of one Python process of an executor; none on one machine."""


@dataclass
class Watch:
    """BoundedReads at all processes that carry its mark."""

    mark: str = field(default_factory=lambda: secrets.token_hex(8))
    _known: dict[int, bool] = field(default_factory=dict)
    _seconds: dict[int, float] = field(default_factory=dict)
    _most: float = 0.0
    _largest: float = 0.0

    @property
    def environment(self) -> dict[str, str]:
        """Return what a process must have in its environment to be looked at."""
        return {_VARIABLE: self.mark}

    def run(self, words: Sequence[str], environment: Mapping[str, str]) -> Taken:
        """Run a module of ours, and return what it and all behind it took."""
        self._look()
        before = sum(self._seconds.values())
        self._most = self._largest = 0.0
        start = time.perf_counter()
        process = subprocess.Popen(  # noqa: S603 - ours
            [sys.executable, "-m", *words], env={**os.environ, **environment, **self.environment}
        )
        done = threading.Event()
        looking = threading.Thread(target=self._keep_looking, args=(done,), daemon=True)
        looking.start()
        code = process.wait()
        clock = time.perf_counter() - start
        done.set()
        looking.join()
        assert code == 0, words
        spent = sum(self._seconds.values()) - before
        return Taken(clock, spent, self._most, self._largest)

    def _keep_looking(self, done: threading.Event) -> None:
        while not done.wait(_PAUSE):
            self._look()
        self._look()

    def _look(self) -> None:
        memory = 0.0
        for place in Path("/proc").iterdir():
            if place.name.isdigit() and self._is_marked(place):
                with suppress(OSError):  # it has ended meanwhile
                    self._seconds[int(place.name)] = _processor(place)
                    held = _memory(place)
                    memory += held
                    if b"pyspark.daemon" in (place / "cmdline").read_bytes():
                        self._largest = max(self._largest, held)
        self._most = max(self._most, memory)

    def _is_marked(self, place: Path) -> bool:
        number = int(place.name)
        if number not in self._known:
            try:
                words = (place / "environ").read_bytes()
            except OSError:
                return False
            if not words:  # it has not started its program yet
                return False
            self._known[number] = f"{_VARIABLE}={self.mark}".encode() in words
        return self._known[number]


def _processor(place: Path) -> float:
    words = (place / "stat").read_text("ascii", errors="replace").rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / _TICKS


def _memory(place: Path) -> float:
    found = re.search(r"^Pss:\s+(\d+) kB", (place / "smaps_rollup").read_text(), re.MULTILINE)
    return float(found[1]) * 1024 if found else 0.0
