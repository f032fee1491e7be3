"""How a run reports notes and progress: to callbacks, or to the listener of the command line."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from chaffinch.errors import InvalidInput

if TYPE_CHECKING:
    from chaffinch.tables.parallel import Progress

_PAUSE = 0.2
"""Seconds between two reports of one count; the last one is always reported."""


class Listener(Protocol):
    """Receives notes and progress, which are never part of a result."""

    def say(self, text: str) -> None:
        """Report a note or a warning."""
        ...

    def advise(self, text: str) -> None:
        """Report a note that repeats what the result says; a listener may drop it."""
        ...

    def thinking(self, words: str) -> AbstractContextManager[Callable[[str], None]]:
        """Report that a step has begun; yield a function that reports its parts."""
        ...

    def counting(self, words: str, unit: str) -> AbstractContextManager[Progress]:
        """Report that a step has begun; yield a function that reports how much of it is done."""
        ...


@dataclass(frozen=True)
class Callbacks:
    """Passes notes to one function and progress to another, if they are given."""

    tell: Callable[[str], object] | None = None
    progress: Callable[[str], object] | None = None

    def __post_init__(self) -> None:
        for name in ("tell", "progress"):
            found = getattr(self, name)
            if not (found is None or callable(found)):
                raise InvalidInput(name, "a function that takes a text", found)

    def say(self, text: str) -> None:
        """Report a note or a warning."""
        if self.tell is not None:
            self.tell(text)

    def advise(self, text: str) -> None:
        """Report a note that repeats what the result says; a listener may drop it."""
        self.say(text)

    def _step(self, text: str) -> None:
        if self.progress is not None:
            self.progress(text)

    @contextmanager
    def thinking(self, words: str) -> Iterator[Callable[[str], None]]:
        """Report that a step has begun; yield a function that reports its parts."""
        self._step(words)
        yield lambda part: self._step(f"{words}: {part}")

    @contextmanager
    def counting(self, words: str, unit: str) -> Iterator[Progress]:
        """Report that a step has begun; yield a function that reports how much of it is done."""
        self._step(words)
        last = time.monotonic()

        def count(done: int, total: int | None) -> None:
            nonlocal last
            now = time.monotonic()
            if now - last >= _PAUSE or done == total:
                last = now
                of = "" if total is None else f" of {total:,}"
                self._step(f"{words}: {done:,}{of} {unit}")

        yield count
