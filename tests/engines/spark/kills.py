"""Tasks that wait at a gate, and executors that are killed while they do."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from chaffinch.engines.spark.job import Job
from tests.engines.spark.cluster import WORKERS

if TYPE_CHECKING:
    from pyspark import SparkContext

PAUSE_SECONDS = 0.02
PATIENCE_SECONDS = 60.0


@dataclass(frozen=True)
class Held:
    """Does what a function does, but waits first where it is called for the number-th time.

    Who waits is told by a file. Calls after that go through: a task that is run again, too.
    """

    function: Callable[..., Any]
    gate: Path
    number: int

    def __call__(self, *arguments: Any) -> Any:
        calls = len(list(self.gate.glob("call-*")))
        (self.gate / f"call-{calls}-{os.getpid()}-{time.monotonic_ns()}").touch()
        if calls >= self.number and self._first():
            self._wait()
        return self.function(*arguments)

    def _first(self) -> bool:
        try:
            os.close(os.open(self.gate / "held", os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return False
        (self.gate / "waiting").write_text(str(executor_of_this_task()), encoding="utf-8")
        return True

    def _wait(self) -> None:
        end = time.monotonic() + PATIENCE_SECONDS
        while not (self.gate / "open").exists() and time.monotonic() < end:
            time.sleep(PAUSE_SECONDS)


def holding(
    monkeypatch: pytest.MonkeyPatch, step: str, place: int, gate: Path, number: int
) -> None:
    """Have one function of a step of jobs wait at a gate: the place-th that the step is given."""
    true: Callable[..., Any] = getattr(Job, step)

    def held(job: Job, *arguments: Any, **options: Any) -> Any:
        given = list(arguments)
        given[place] = Held(given[place], gate, number)
        return true(job, *given, **options)

    monkeypatch.setattr(Job, step, held)


def executor_of_this_task() -> int:
    """Return the Java process above this Python, which the task's executor is."""
    number = os.getpid()
    while number > 1:
        status = Path(f"/proc/{number}/status").read_text(encoding="utf-8")
        number = int(next(line.split()[1] for line in status.splitlines() if "PPid" in line))
        if b"CoarseGrainedExecutorBackend" in Path(f"/proc/{number}/cmdline").read_bytes():
            return number
    raise AssertionError


def meet(folder: Path, count: int) -> None:
    """Wait, in a task, until so many executors have come here, or long enough."""
    (folder / f"executor-{executor_of_this_task()}").touch()
    end = time.monotonic() + PATIENCE_SECONDS
    while len(list(folder.glob("executor-*"))) < count and time.monotonic() < end:
        time.sleep(PAUSE_SECONDS)


def wait_for_executors(context: SparkContext) -> None:
    """Wait until every worker has its executor again."""
    end = time.monotonic() + PATIENCE_SECONDS
    while context._jsc.sc().getExecutorMemoryStatus().size() < WORKERS + 1:  # noqa: SLF001
        assert time.monotonic() < end, "an executor is missing"
        time.sleep(PAUSE_SECONDS)


@contextmanager
def killing(gate: Path) -> Iterator[list[int]]:
    """Kill the executor of the task that waits at a gate, then open it; yield whom it took."""
    gate.mkdir()
    killed: list[int] = []
    ended = threading.Event()

    def kill() -> None:
        while not ended.is_set():
            if (gate / "waiting").exists() and (text := (gate / "waiting").read_text("utf-8")):
                os.kill(int(text), signal.SIGKILL)
                killed.append(int(text))
                # Its Python may outlive it: then what it does is done twice.
                (gate / "open").touch()
                return
            time.sleep(PAUSE_SECONDS)

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        yield killed
    finally:
        ended.set()
        thread.join()
