"""Progress of long searches: the loops report their steps to a context that the caller opens.

The loops are many calls below the caller, and nobody knows beforehand which search is long. A
context variable reaches all of them; a callback would have to be passed through every function.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from chaffinch.errors import checks


class _Watch:
    def __init__(self, tell: Callable[[str], None], pause: float) -> None:
        self.tell, self.pause = tell, pause
        self.steps: Counter[str] = Counter()
        self.last = time.monotonic()

    def step(self, what: str) -> None:
        self.steps[what] += 1
        now = time.monotonic()
        # A step may be much cheaper than to tell of it.
        if now - self.last >= self.pause:
            self.last = now
            self.tell(f"{what}: {self.steps[what]:,}")


_WATCH: ContextVar[_Watch | None] = ContextVar("watch", default=None)


@contextmanager
def show_progress(
    tell: Callable[[str], None] | None = None, *, pause_seconds: float = 0.2
) -> Iterator[None]:
    """Have ``tell`` called, inside the block, with what a long search has done so far.

    Everything that searches reports here: plans and their verification, certificates, epsilons,
    profiles, trade-off curves. ``tell`` gets a few words, such as "crowds: 1,200", at most once in
    ``pause_seconds``; without ``tell`` they stand on one line of standard error, if that is a
    terminal. Work that others do in threads of their own is not told.

    >>> from chaffinch.privacy import FlippedVectors
    >>> told = []
    >>> with show_progress(told.append, pause_seconds=0):
    ...     _ = FlippedVectors(users=100, bits=2, flip_probability=0.2).epsilon(1e-6)
    >>> told[0]
    'points of a curve: 1'
    """
    pause = checks.real("pause in seconds", pause_seconds, least=0.0)
    before = _WATCH.set(_Watch(tell or _write_line, pause))
    try:
        yield
    finally:
        # Also after an error: a context around this one, if there is any, is told again.
        _WATCH.reset(before)
        if tell is None:
            _write_line("")


def count_step(what: str) -> None:
    """Report that one more of these is done; without an open context nothing happens."""
    watch = _WATCH.get()
    if watch is not None:
        watch.step(what)


def _write_line(words: str) -> None:
    if sys.stderr.isatty():
        # Back to the start of the line, and clear it: the new words may be shorter.
        sys.stderr.write(f"\r\033[K{words}")
        sys.stderr.flush()
