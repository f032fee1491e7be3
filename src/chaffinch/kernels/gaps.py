"""Sparse flips: the positions of the successes, at a cost per success and not per trial."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from chaffinch import checks
from chaffinch.kernels import native
from chaffinch.kernels.bernoulli import chance
from chaffinch.kernels.gap_table import LONGEST, Table, gap_table, resolve
from chaffinch.kernels.words import Words

MOST_ROWS = 8000
"""Gaps drawn together; so few that their sum, each up to 2⁵⁰ + 1, stays below 2⁶³."""


def positions(words: Words, numerator: int, length: int) -> NDArray[np.int64]:
    """Return, sorted, where ``length`` trials of chance ``numerator`` / 2⁶⁴ succeed.

    The same law as one exact coin per trial.

    >>> from chaffinch.kernels.words import secure_words
    >>> positions(secure_words(), 2**64, 4).tolist()
    [0, 1, 2, 3]
    """
    parts = list(position_chunks(words, numerator, length))
    return np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)


def position_chunks(
    words: Words, numerator: int, length: int, chunk: int = MOST_ROWS
) -> Iterator[NDArray[np.int64]]:
    """Yield the same positions in sorted pieces of 1 to ``chunk``, for any length."""
    numerator = chance(numerator)
    length = checks.whole("number of trials", length, most=LONGEST)
    chunk = checks.whole("size of a chunk", chunk, least=1, most=1 << 40)
    if not (numerator and length):
        return iter(())
    return walk(words, gap_table(numerator), length, min(chunk, MOST_ROWS))


def walk(words: Words, table: Table, length: int, rows: int) -> Iterator[NDArray[np.int64]]:
    """Yield positions, drawing at most ``rows`` gaps at a time.

    The number of gaps in a batch depends on the place reached alone, so the order of words
    is the same for every implementation of the loops.
    """
    at = 0
    failure, width = table.levels[0].base, table.levels[0].width
    while at < length:
        expected = (length - at) * ((1 << width) - failure) >> width
        batch = min(rows, expected + 3 * math.isqrt(expected) + 2)
        counts = _draw(words, table, batch)
        found = np.empty(batch, dtype=np.int64)
        kept, at = native.LOOPS.walk(counts, table.weights, table.escape, (at, length), found)
        if kept:
            yield found[:kept]


def _draw(words: Words, table: Table, batch: int) -> NDArray[np.int64]:
    """Return ``batch`` values of every digit of the gap, one digit after the other."""
    counts = np.empty(len(table.levels) * batch, dtype=np.int64)
    drawn = words.take(len(counts))
    for place, level in enumerate(table.levels):
        part = slice(place * batch, (place + 1) * batch)
        ties = native.LOOPS.lookup(
            drawn[part], table.thresholds[place], table.guides[place], counts[part]
        )
        if ties:
            for row in np.flatnonzero(counts[part] < 0):
                word = int(drawn[part][row])
                counts[part][row] = resolve(level, word, lambda: int(words.take(1)[0]))
    return counts
