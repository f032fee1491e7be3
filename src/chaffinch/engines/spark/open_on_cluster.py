"""Open envelopes on a cluster, for a service that keeps its state on its own machine.

Most of the work of a shuffler, and of an analyzer that has sealed batches, is to open envelopes.
Here executors do that, with the same functions as processes do, and what was inside comes back to
the service. It claims replay tags, makes batches and keeps receipts as ever, in one transaction on
its own disk: so what holds of a service holds of this one, whatever a cluster loses or does twice.

What travels to the executors is sealed. The keys that open it are in the broadcast of a job. The
two services are two applications: each has its own keys, and never those of the other.
"""

from __future__ import annotations

import itertools
import math
import pickle
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from chaffinch.engines import PATIENCE
from chaffinch.engines.spark.job import Job
from chaffinch.engines.spark.session import running, take_part
from chaffinch.engines.spark.tasks import Keyring
from chaffinch.errors import ClusterFault
from chaffinch.tables.parallel import Stopped, mapped

if TYPE_CHECKING:
    from pyspark import SparkContext

_SHARED = "shared"
_ITEMS_FOR_EACH = 2
"""Items for each task that runs at once; a job is made of so many."""
_JOBS = 2
"""One job works while another is handed out."""

_Item = TypeVar("_Item")
_Shared = TypeVar("_Shared")
_Result = TypeVar("_Result")


class SparkPool:
    """A ``parallel.Pool`` of executors, in an application that works for one party alone.

    The cluster is reached when there is work, and reached anew after a fault of its own.
    """

    def __init__(
        self,
        party: str,
        master: str | None = None,
        patience: float = PATIENCE,
        job_seconds: float = math.inf,
        stop: threading.Event | None = None,
    ) -> None:
        """Remember where to work; a job that takes longer than ``job_seconds`` is cancelled."""
        self._party, self._master, self._patience = party, master, patience
        self._job_seconds = job_seconds
        self._stop = stop or threading.Event()
        self._context: SparkContext | None = None
        self._opened = ExitStack()

    def mapped(
        self,
        function: Callable[[_Shared, _Item], _Result],
        shared: _Shared,
        items: Iterable[_Item],
    ) -> Iterator[_Result]:
        """Give ``function(shared, item)`` in the order of the items; few are taken ahead.

        A service looks for work many times a minute: where there is none, there is no job.
        """
        source = iter(items)
        for first in source:
            try:
                context = self._context = self._context or self._running_context()
                with Job(context, {_SHARED: pickle.dumps(shared)}) as job:
                    size = _ITEMS_FOR_EACH * job.width
                    groups = _in_groups(itertools.chain([first], source), size)
                    with mapped(partial(self._map, job, _Work(function)), groups, _JOBS) as found:
                        yield from itertools.chain.from_iterable(found)
            except ClusterFault:
                self.close()
                raise

    def _running_context(self) -> SparkContext:
        with ExitStack() as opened:
            reached = running(self._master, patience=self._patience, tell=self._raise_if_stopped)
            context = opened.enter_context(reached)
            take_part(context, self._party)
            self._opened = opened.pop_all()
        return context

    def _raise_if_stopped(self, *_: object) -> None:
        if self._stop.is_set():
            raise Stopped

    def _map(self, job: Job, work: _Work[_Item, _Result], items: Sequence[_Item]) -> list[_Result]:
        # A job that hangs would hold up the service for ever.
        last = time.monotonic() + self._job_seconds

        def look(_done: int, _total: int | None) -> None:
            self._raise_if_stopped()
            if time.monotonic() > last:
                raise ClusterFault(
                    f"A job on the cluster must end within {self._job_seconds:,g} seconds. "
                    "Got no end.",
                    hint="it was cancelled, and is tried again; look for tasks that hang, or give "
                    "jobs more time (job_seconds)",
                )

        return job.map(work, items, progress=look)

    def close(self) -> None:
        """End the application, unless there is none or somebody else has started it."""
        self._context = None
        self._opened.close()


@dataclass(frozen=True)
class _Work(Generic[_Item, _Result]):
    """Calls a function with what all items share; that is not here, as this is no secret."""

    function: Callable[[Any, _Item], _Result]

    def __call__(self, ring: Keyring, item: _Item) -> _Result:
        shared = pickle.loads(ring.keys[_SHARED])  # noqa: S301 - our own
        return self.function(shared, item)


def _in_groups(items: Iterable[_Item], size: int) -> Iterator[list[_Item]]:
    source = iter(items)
    while group := list(itertools.islice(source, size)):
        yield group
