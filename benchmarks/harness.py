"""Timing: medians of repeats taken in turn."""

from __future__ import annotations

import signal
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

Job = Callable[[], float]


class OutOfTime(Exception):
    """A job was stopped because it took longer than it may."""


@dataclass(frozen=True, slots=True)
class Timed:
    """What a job answered and how long it took: the median of its runs."""

    value: float | None
    seconds: float
    runs: int

    @property
    def finished(self) -> bool:
        """Return whether the job ended within its cap."""
        return self.value is not None


@contextmanager
def capped(seconds: float) -> Iterator[None]:
    """Raise OutOfTime inside the block when it has run for ``seconds``."""

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise OutOfTime

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def once(job: Job, *, cap: float = 60.0) -> Timed:
    """Run a job one time; without a value when it was stopped."""
    start = time.perf_counter()
    try:
        with capped(cap):
            value: float | None = job()
    except OutOfTime:
        value = None
    return Timed(value, time.perf_counter() - start, 1)


def in_turn(
    jobs: Mapping[str, Job], *, repeats: int = 5, cap: float = 60.0, enough: float = 3.0
) -> dict[str, Timed]:
    """Run the jobs one after the other, ``repeats`` times over, and return the medians.

    Taking turns spreads a slow moment of the machine over all of them. A job that has used
    ``enough`` seconds in all is not repeated, and one that exceeds ``cap`` is stopped.
    """
    runs: dict[str, list[Timed]] = {name: [] for name in jobs}
    for _ in range(repeats):
        for name, job in jobs.items():
            used = sum(run.seconds for run in runs[name])
            if used < enough and all(run.finished for run in runs[name]):
                tell(name)
                runs[name].append(once(job, cap=cap))
    return {
        name: Timed(done[-1].value, statistics.median(run.seconds for run in done), len(done))
        for name, done in runs.items()
    }


def tell(words: str) -> None:
    """Say on a terminal what is being done; say nothing into a file."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\033[K{words}" if words else "\r\033[K")
        sys.stderr.flush()
