"""Work on a stream of items with several threads or processes and a short look-ahead."""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from multiprocessing import get_context, parent_process
from multiprocessing.connection import wait
from typing import Protocol, TypeVar

MOST_WORKERS = 8
"""One thread reads and writes for all of them; more would only wait for it."""

Progress = Callable[[int, int | None], None]
"""Told how many rows or messages are done, and of how many where that is known.

A shuffle counts twice: what it has read, of an unknown number, then what it has written.
"""

_Item = TypeVar("_Item")
_Shared = TypeVar("_Shared")
_Result = TypeVar("_Result")


def cores() -> int:
    """Return how many threads can run at once here, up to ``MOST_WORKERS``."""
    usable = getattr(os, "sched_getaffinity", None)
    found = len(usable(0)) if usable is not None else os.cpu_count() or 1
    return min(found, MOST_WORKERS)


@contextmanager
def mapped(
    function: Callable[[_Item], _Result], items: Iterable[_Item], workers: int
) -> Iterator[Iterator[_Result]]:
    """Give the results of a function in the order of its items, worked out by threads.

    At most ``workers`` + 2 items are taken ahead. The items are read in the caller's thread;
    where one worker is asked for, it does the work too. Of several errors the one of the first
    item is raised. When the block ends no thread is left, and a generator of items is closed.

    >>> with mapped(abs, [-1, 2, -3], workers=2) as results:
    ...     list(results)
    [1, 2, 3]
    """
    pool = ThreadPoolExecutor(workers, thread_name_prefix="chaffinch") if workers > 1 else None
    try:
        yield _results(pool, function, items, workers + 2) if pool else map(function, items)
    finally:
        if pool:
            pool.shutdown(wait=True, cancel_futures=True)
        if isinstance(items, Generator):
            items.close()


class Stopped(Exception):
    """The work is to end; what is not finished is undone, and done by the next process."""


class Pool(Protocol):
    """Who works on streams of items for a service: processes here, or a cluster.

    It is made with an event that stops it: soon after that is set, its work ends with ``Stopped``.
    """

    def mapped(
        self,
        function: Callable[[_Shared, _Item], _Result],
        shared: _Shared,
        items: Iterable[_Item],
    ) -> Iterator[_Result]:
        """Give ``function(shared, item)`` in the order of the items; few are taken ahead.

        What all items need is ``shared``: it may hold keys, and is kept where no other can read.
        """
        ...

    def close(self) -> None:
        """End whoever works; what they have not begun is left."""
        ...


class Processes:
    """Processes for work that holds the interpreter: started once, used for many streams.

    With one worker there is none, and whoever asks does the work. They are fresh processes: a
    copy of this one would have the locks of its threads. What they work on reaches them
    through a pipe, never by their command line or environment.
    """

    def __init__(self, workers: int, stop: threading.Event | None = None) -> None:
        self._stop = stop or threading.Event()
        # Enough to go on with while whoever asks waits for the disk.
        self._ahead = 4 * workers
        self._pool = (
            ProcessPoolExecutor(
                workers, mp_context=get_context("spawn"), initializer=_live_with_parent
            )
            if workers > 1
            else None
        )

    def mapped(
        self,
        function: Callable[[_Shared, _Item], _Result],
        shared: _Shared,
        items: Iterable[_Item],
    ) -> Iterator[_Result]:
        """Give ``function(shared, item)`` in the order of the items; few are taken ahead."""
        work = partial(function, shared)
        pool = self._pool
        found = map(work, items) if pool is None else _results(pool, work, items, self._ahead)
        for result in found:
            if self._stop.is_set():
                raise Stopped
            yield result

    def close(self) -> None:
        """End the processes; what they have not begun is left."""
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)


class Errands:
    """Threads for what nobody waits for at the end, such as a reply that may never come.

    So many work at once for each party: with places for all of them together, one that lets others
    wait would have them all. A process that ends leaves them: what they do must bear that.
    """

    def __init__(self, at_once: int) -> None:
        self._at_once = at_once
        self._waiting = defaultdict[str, deque[Callable[[], None]]](deque)
        self._threads = Counter[str]()
        self._lock = threading.Lock()
        self._closed = False

    def submit(
        self, party: str, function: Callable[..., _Result], *given: object
    ) -> Future[_Result]:
        """Have a thread call a function, which talks to a party, when there is a place for it."""
        found: Future[_Result] = Future()

        def errand() -> None:
            if self._closed:
                found.cancel()
                return
            try:
                found.set_result(function(*given))
            except BaseException as fault:  # noqa: BLE001 - for whoever asks for the result
                found.set_exception(fault)

        # One lock for the queue and the count of threads: a thread that finds its queue empty is
        # counted out before another errand can be put into it, so none is left behind.
        with self._lock:
            self._waiting[party].append(errand)
            # One thread each, waiting for its turn, would be too many where a party is away long.
            if self._threads[party] < self._at_once:
                threading.Thread(
                    target=self._work, args=[party], name="errand", daemon=True
                ).start()
                self._threads[party] += 1
        return found

    def _work(self, party: str) -> None:
        while True:
            with self._lock:
                if not self._waiting[party]:
                    self._threads[party] -= 1
                    return
                errand = self._waiting[party].popleft()
            errand()

    def close(self) -> None:
        """Begin nothing more."""
        self._closed = True


def _live_with_parent() -> None:
    # Ctrl-C reaches the whole group; the parent ends its processes itself, in its own order.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # A killed parent cannot tell its processes to end, and they hold what it gave them.
    parent = parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent.sentinel,), daemon=True).start()


def _end_with(sentinel: int) -> None:
    wait([sentinel])
    os._exit(1)


def _results(
    pool: Executor,
    function: Callable[[_Item], _Result],
    items: Iterable[_Item],
    ahead: int,
) -> Iterator[_Result]:
    waiting: deque[Future[_Result]] = deque()
    source = iter(items)
    while True:
        try:
            item = next(source)
        except StopIteration:
            break
        except Exception:
            # What came before this fault may hold a fault of its own, which is then the first.
            while waiting:
                waiting.popleft().result()
            raise
        waiting.append(pool.submit(function, item))
        if len(waiting) >= ahead:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()
