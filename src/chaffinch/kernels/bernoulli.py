"""Coins with an exact chance: one secure word each, compared with a whole number.

A draw takes one word whatever its result, so nothing about it shows in the amount of
randomness used. This is the path of the device.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from chaffinch import checks
from chaffinch.kernels.words import MOST_WORDS, Words

CERTAIN = 1 << 64
"""The numerator of chance 1: a chance is ``numerator`` / 2⁶⁴."""

_CHUNK = 1 << 15


def bernoulli(words: Words, numerator: int, count: int) -> NDArray[np.bool_]:
    """Return ``count`` independent coins, each True with chance exactly ``numerator`` / 2⁶⁴.

    >>> from chaffinch.kernels.words import secure_words
    >>> bernoulli(secure_words(), 2**64, 3).tolist()
    [True, True, True]
    """
    numerator = chance(numerator)
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


def chance(numerator: object) -> int:
    """Return the numerator of a chance over 2⁶⁴: a whole number from 0 to 2⁶⁴."""
    return checks.whole("numerator", numerator, most=CERTAIN)
