"""Randomness that can be repeated: for simulations, never for people's answers.

A seed is the root of a tree. Every component draws from a branch of its own, so no two of
them ever share noise, and adding one does not change what the others draw.
"""

from __future__ import annotations

import secrets

import numpy as np
from numpy.typing import NDArray

from chaffinch.errors import checks

_BRANCHES = (
    "population",
    "tallies",
    "encode",
    "shuffle",
    "one device",
    "other world",
    "crowd",
    "columns",
    "shown people",
    "guesses",
)
"""The components that draw; the place in this list is the key of a branch."""
_MOST_SEED = (1 << 128) - 1
_POOL = 1 << 13


class SeededWords:
    """Words that a seed decides: the interface of secure words, and none of their promise.

    The verbs that handle real answers take no source of words, so this one cannot reach them.

    >>> SeededWords(1).take(3).tolist() == SeededWords(1).take(3).tolist()
    True
    """

    def __init__(self, seed: int | np.random.SeedSequence) -> None:
        self._generator = np.random.Generator(np.random.PCG64DXSM(seed))
        self._pool = np.empty(0, np.uint64)
        self._next = 0

    def take(self, count: int) -> NDArray[np.uint64]:
        """Return the next ``count`` words in an array that the caller owns."""
        if count >= _POOL:
            return self._drawn(count)
        if self._next + count > len(self._pool):
            self._pool, self._next = self._drawn(_POOL), 0
        start = self._next
        self._next = start + count
        return self._pool[start : self._next].copy()

    def _drawn(self, count: int) -> NDArray[np.uint64]:
        return self._generator.integers(0, (1 << 64) - 1, count, np.uint64, endpoint=True)


def chosen(seed: int | None) -> int:
    """Return the seed that was asked for, or a fresh one, to be written into the result."""
    if seed is None:
        return secrets.randbits(64)
    return checks.whole("seed", seed, most=_MOST_SEED)


def branch(seed: int, name: str, *path: int) -> np.random.SeedSequence:
    """Return the part of a seed's tree that belongs to one component.

    >>> a, b = branch(7, "encode"), branch(7, "shuffle")
    >>> a.generate_state(2).tolist() == b.generate_state(2).tolist()
    False
    """
    return np.random.SeedSequence(seed, spawn_key=(_BRANCHES.index(name), *path))


def generator(seed: int, name: str, *path: int) -> np.random.Generator:
    """Return NumPy's distributions over one branch of a seed's tree."""
    return np.random.Generator(np.random.PCG64DXSM(branch(seed, name, *path)))
