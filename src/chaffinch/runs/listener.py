"""Who is told how a run goes on: callbacks, or nobody. A command has a listener of its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from chaffinch.tables.parallel import Progress

_PAUSE = 0.2
"""Seconds between two counts that a callback is told, but for the last one."""


class Listener(Protocol):
    """Is told notes and steps; nothing of it is a result."""

    def say(self, text: str) -> None:
        """Tell a note or a warning."""
        ...

    def advise(self, text: str) -> None:
        """Tell what the result says in its own way, too."""
        ...

    def thinking(self, words: str) -> AbstractContextManager[Callable[[str], None]]:
        """Tell that a step has begun; yield what is told of its parts."""
        ...

    def counting(self, words: str, unit: str) -> AbstractContextManager[Progress]:
        """Tell that a step has begun; yield what is told how much of it is done."""
        ...


@dataclass(frozen=True)
class Callbacks:
    """Passes notes to one function and steps to another, where there are such."""

    tell: Callable[[str], object] | None = None
    progress: Callable[[str], object] | None = None

    def say(self, text: str) -> None:
        """Tell a note or a warning."""
        if self.tell is not None:
            self.tell(text)

    def advise(self, text: str) -> None:
        """Tell what the result says in its own way, too."""
        self.say(text)

    def _step(self, text: str) -> None:
        if self.progress is not None:
            self.progress(text)

    @contextmanager
    def thinking(self, words: str) -> Iterator[Callable[[str], None]]:
        """Tell that a step has begun; yield what is told of its parts."""
        self._step(words)
        yield lambda part: self._step(f"{words}: {part}")

    @contextmanager
    def counting(self, words: str, unit: str) -> Iterator[Progress]:
        """Tell that a step has begun; yield what is told how much of it is done."""
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
