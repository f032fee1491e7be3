"""What each thing takes, from two loads of different size."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

TURNS = 5


class Shares(NamedTuple):
    """What is spent once, and what each further thing takes."""

    once: float
    each: float


def share_out(few: tuple[float, float], many: tuple[float, float]) -> Shares:
    """Return the line through two (number of things, seconds); neither share is below nothing.

    Where it would start below nothing, everything goes by the number of things.

    >>> share_out((1, 3.0), (5, 11.0))
    Shares(once=1.0, each=2.0)
    """
    each = max(0.0, (many[1] - few[1]) / (many[0] - few[0]))
    once = few[1] - each * few[0]
    return Shares(once, each) if once >= 0 else Shares(0.0, many[1] / many[0])


def spent(job: Callable[[], object], *, turns: int = TURNS) -> float:
    """Return the processor time of a job, all threads together: the least of some turns.

    What else runs on the machine slows a turn down, and never speeds one up.
    """
    found = []
    for _ in range(turns):
        start = time.process_time()
        job()
        found.append(time.process_time() - start)
    return min(found)
