"""Words with a known value, for tests only."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import numpy as np
import pytest
from numpy.typing import NDArray

from chaffinch.errors import InvalidInput
from chaffinch.sampling import backends

Result = TypeVar("Result")

SIGMAS = 5.5
"""A normal number is further out with chance 3.8e-8: a test may look at some two dozen of them."""
ALARM = 1e-7
"""The p-value below which a law does not fit: one right law in so many fails."""


class Exhausted(Exception):
    """More words were asked for than are there."""


class ListedWords:
    """The words of a list, in order."""

    def __init__(self, values: Iterable[int]) -> None:
        self.values = np.array(list(values), dtype=np.uint64)
        self.used = 0

    def take(self, count: int) -> NDArray[np.uint64]:
        if self.used + count > len(self.values):
            raise Exhausted
        self.used += count
        return self.values[self.used - count : self.used].copy()


class SeededWords:
    """Endless repeatable words; ``planted`` ones are mixed in, to force rare cases."""

    def __init__(self, seed: int, *, planted: Iterable[int] = (), width: int = 64) -> None:
        self.generator = np.random.default_rng(seed)
        self.planted = np.array(list(planted), dtype=np.uint64)
        self.shift = np.uint64(64 - width)
        self.used = 0

    def take(self, count: int) -> NDArray[np.uint64]:
        self.used += count
        words = self.generator.integers(0, 2**64, count, dtype=np.uint64, endpoint=False)
        if len(self.planted):
            here = self.generator.random(count) < 0.1
            words[here] = self.generator.choice(self.planted, int(here.sum()))
        return words >> self.shift


Choose = Callable[[str], tuple[str, Any]]


@functools.cache
def available(choose: Choose = backends.choose) -> tuple[str, ...]:
    """Return the implementations that can run here."""
    try:
        choose("native")
    except InvalidInput:
        return ("numpy",)
    return ("native", "numpy")


def with_each(
    run: Callable[[], Result], *, loops: str = "LOOPS", choose: Choose = backends.choose
) -> list[Result]:
    """Return what ``run`` gives with every implementation that is there."""
    results = []
    for name in available(choose):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(backends, loops, choose(name)[1])
            results.append(run())
    return results


def chance(probability: float) -> int:
    """Return the numerator over 2⁶⁴ of a probability."""
    return int(probability * 2**64)


def pieces_of(word: int) -> list[int]:
    """The word in the order in which its pieces are read, the highest bits first."""
    return [word >> shift & 0xFFFF for shift in (48, 32, 16, 0)]


def twice(word: int) -> tuple[int, int]:
    """The word, and the word that is this one when it is read in pieces."""
    return word, int(np.array(pieces_of(word), dtype=np.uint16).view(np.uint64)[0])
