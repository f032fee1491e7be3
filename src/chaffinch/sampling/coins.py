"""Exact draws: coins, uniform numbers, uniform orders, and outcomes of a table of chances.

A coin compares its word with a whole number; it takes one word whatever its result, so nothing
about it shows in the amount of randomness used. This is the path of the device. Numbers below
a bound, and orders, are exact by drawing again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from chaffinch.errors import InvalidInput, checks
from chaffinch.sampling.words import MOST_WORDS, Words

CERTAIN = 1 << 64
"""The numerator of chance 1: a chance is ``numerator`` / 2⁶⁴."""

_CHUNK = 1 << 15
_CODE_BITS = np.uint64(32)
_MOST_ITEMS = 1 << 31
_Code = TypeVar("_Code", np.uint8, np.uint16, np.uint32)


def bernoulli(words: Words, numerator: int, count: int) -> NDArray[np.bool_]:
    """Return ``count`` independent coins, each True with chance exactly ``numerator`` / 2⁶⁴.

    >>> from chaffinch.sampling.words import secure_words
    >>> bernoulli(secure_words(), 2**64, 3).tolist()
    [True, True, True]
    """
    numerator = check_chance(numerator)
    count = checks.whole("count of coins", count, most=MOST_WORDS)
    coins = np.empty(count, dtype=np.bool_)
    for start in range(0, count, _CHUNK):
        part = coins[start : start + _CHUNK]
        drawn = words.take(len(part))
        if numerator == CERTAIN:  # 2⁶⁴ is no 64-bit number; the words are used up all the same.
            part[:] = True
        else:
            np.less(drawn, np.uint64(numerator), out=part)
    return coins


def below(words: Words, bound: int, count: int) -> NDArray[np.uint64]:
    """Return ``count`` independent numbers, each exactly uniform on 0 … ``bound`` − 1.

    Words from the last, incomplete run of ``bound`` values are thrown away, so the rest
    divide evenly over the remainders.

    >>> from chaffinch.sampling.words import secure_words
    >>> below(secure_words(), 1, 3).tolist()
    [0, 0, 0]
    """
    bound = checks.whole("bound", bound, least=1, most=CERTAIN)
    count = checks.whole("count of numbers", count, most=MOST_WORDS)
    numbers = np.empty(count, dtype=np.uint64)
    # The largest word of a complete run: ⌊2⁶⁴/bound⌋·bound − 1.
    last = np.uint64(CERTAIN - CERTAIN % bound - 1)
    have = 0
    while have < count:
        drawn = words.take(min(count - have, _CHUNK))
        kept = drawn[drawn <= last]
        if bound < CERTAIN:
            kept %= np.uint64(bound)
        numbers[have : have + len(kept)] = kept
        have += len(kept)
    return numbers


def permutation(words: Words, count: int) -> NDArray[np.int64]:
    """Return 0 … ``count`` − 1 in an exactly uniform order.

    The order of independent 64-bit keys is uniform when no two are equal; otherwise all
    are drawn again.

    >>> from chaffinch.sampling.words import secure_words
    >>> sorted(permutation(secure_words(), 4).tolist())
    [0, 1, 2, 3]
    """
    count = checks.whole("count of items", count, most=_MOST_ITEMS)
    while True:
        keys = words.take(count)
        # Any sort will do: where two keys are equal, and its order would show, all are drawn again.
        order = np.argsort(keys)
        ordered = keys[order]
        if not np.any(ordered[1:] == ordered[:-1]):
            return order.astype(np.int64, copy=False)


def shuffled(words: Words, codes: NDArray[_Code]) -> NDArray[_Code]:
    """Return codes of at most 32 bits in an exactly uniform order: that of random keys.

    A key of 32 bits stands above its code in one word, and sorting these words is several times
    faster than sorting places by their keys. The few codes with equal keys are put in a uniform
    order of their own, as if their keys had more bits.

    >>> from chaffinch.sampling.words import secure_words
    >>> sorted(shuffled(secure_words(), np.array([3, 1, 3], np.uint32)).tolist())
    [1, 3, 3]
    """
    if not len(codes) or (codes == codes[0]).all():
        return codes.copy()  # There is one order only.
    keyed = words.take(len(codes))
    keyed >>= _CODE_BITS
    keyed <<= _CODE_BITS
    keyed |= codes
    keyed.sort()
    ordered = keyed.astype(codes.dtype)
    keyed >>= _CODE_BITS
    equal = keyed[1:] == keyed[:-1]
    tied = np.flatnonzero(np.append(equal, False) | np.append(False, equal))
    # By their keys, then by fresh ones: codes change places only with those of the same key.
    fresh = np.lexsort((permutation(words, len(tied)), keyed[tied]))
    ordered[tied] = ordered[tied[fresh]]
    return ordered


def check_chance(numerator: object) -> int:
    """Return the numerator of a chance over 2⁶⁴: a whole number from 0 to 2⁶⁴."""
    return checks.whole("numerator", numerator, most=CERTAIN)


# ----------------------------------------------------------------------------
# Draws from a table of chances that are whole numbers of 2⁻¹²⁸.
#
# Two words make one uniform number of 128 bits. Nearly always the first word alone decides.

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
        # 2¹²⁸ has no upper word: words equal to the largest one are then compared in full below.
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
            found[row] = _outcome(edges, number)
        return found


def _outcome(edges: Sequence[int], number: int) -> int:
    return sum(edge <= number for edge in edges)
