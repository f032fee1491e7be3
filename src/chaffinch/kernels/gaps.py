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

MOST_ROWS = 1 << 14
"""Gaps drawn together: so few that they stay in a close cache."""


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
    # No sum of a batch's gaps, each cut off at the end, may pass 2⁶³.
    rows = min(rows, (1 << 62) // (length + 2))
    while at < length:
        expected = (length - at) * ((1 << width) - failure) >> width
        batch = min(rows, expected + 3 * math.isqrt(expected) + 2)
        kept, at, found = _positions(words, table, batch, (at, length))
        if kept:
            yield found[:kept]


def _positions(
    words: Words, table: Table, batch: int, span: tuple[int, int]
) -> tuple[int, int, NDArray[np.int64]]:
    """Draw ``batch`` gaps; return how many positions there are, where they end, and they."""
    loops = native.LOOPS
    found = np.empty(batch, dtype=np.int64)
    drawn = words.take(len(table.levels) * batch)
    kept = -1
    if len(table.levels) == 1:
        kept, at = loops.leap(drawn, table.thresholds[0], table.guides[0], span, found)
    if kept < 0:  # Ties, several digits, or the end is near.
        counts = _looked_up(words, table, drawn)
        kept, at = loops.walk(counts, table.weights, table.escape, span, found)
    return kept, at, found


def _looked_up(words: Words, table: Table, drawn: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return the values of every digit of the gaps, one digit after the other."""
    batch = len(drawn) // len(table.levels)
    counts = np.empty(len(drawn), dtype=np.int64)
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
