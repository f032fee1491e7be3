"""How long searches tell that they go on: one context, and every long loop tells it of its steps.

The loops stand many calls below whoever waits for them, and what they search is not known to be
long beforehand. So nobody passes a callback down to them: whoever waits opens a context.
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
        _WATCH.reset(before)
        if tell is None:
            _write_line("")


def count_step(what: str) -> None:
    """Tell whoever waits, if anybody does, that one more of these is done."""
    watch = _WATCH.get()
    if watch is not None:
        watch.step(what)


def _write_line(words: str) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\033[K{words}")
        sys.stderr.flush()
