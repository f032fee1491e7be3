"""Draws from a table of chances that are whole numbers of 2⁻¹²⁸.

Two words make one uniform number of 128 bits. Nearly always the first word alone decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from chaffinch.errors import InvalidInput
from chaffinch.sampling.words import Words

SCALE = 1 << 128
_WORD = 64


@dataclass(frozen=True)
class ChanceTable:
    """Outcomes 0, 1, 2, … with the chances ``weights`` / 2¹²⁸; what is left has the next number.

    >>> from chaffinch.sampling.words import secure_words
    >>> ChanceTable((0, 1 << 128)).draw(secure_words(), 3).tolist()
    [1, 1, 1]
    """

    weights: tuple[int, ...]

    def __post_init__(self) -> None:
        if not (all(weight >= 0 for weight in self.weights) and sum(self.weights) <= SCALE):
            raise InvalidInput("weights", "at least 0 and at most 2**128 in all", "others")

    @cached_property
    def _edges(self) -> tuple[list[int], NDArray[np.uint64]]:
        """Return the sums of the weights, and their upper words (those below 2¹²⁸ only)."""
        edges, total = [], 0
        for weight in self.weights:
            total += weight
            edges.append(total)
        upper = [min(edge >> _WORD, (1 << _WORD) - 1) for edge in edges]
        return edges, np.array(upper, dtype=np.uint64)

    def draw(self, words: Words, count: int) -> NDArray[np.int64]:
        """Return ``count`` independent outcomes; two words each."""
        edges, upper = self._edges
        drawn = words.take(2 * count)
        if not edges:
            return np.zeros(count, np.int64)
        first, second = drawn[:count], drawn[count:]
        found = np.searchsorted(upper, first, side="right").astype(np.int64)
        # Where the first word equals that of an edge the second one decides. A word below all
        # edges is compared with the last of them, which it cannot equal.
        for row in np.flatnonzero(upper[found - 1] == first):
            number = int(first[row]) << _WORD | int(second[row])
            found[row] = _place(edges, number)
        return found


def _place(edges: Sequence[int], number: int) -> int:
    """Return how many edges are at or below a number: its outcome."""
    return sum(edge <= number for edge in edges)
