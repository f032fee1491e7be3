"""Tasks that wait at a gate, and executors that are killed while they do."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from chaffinch.engines.spark.job import Job
from tests.engines.spark.work import PATIENCE_SECONDS, PAUSE_SECONDS, WORKERS, Held

if TYPE_CHECKING:
    from pyspark import SparkContext


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
