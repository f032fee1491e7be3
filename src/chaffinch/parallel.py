"""Work on a stream of items with several threads and a short look-ahead."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

MOST_WORKERS = 8
"""One thread reads and writes for all of them; more would only wait for it."""

Progress = Callable[[int, int | None], None]
"""Told how many rows or messages are done, and of how many where that is known.

A shuffle counts twice: what it has read, of an unknown number, then what it has written.
"""

_Item = TypeVar("_Item")
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


def _results(
    pool: ThreadPoolExecutor,
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
