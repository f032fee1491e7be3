"""Sparse flips: the positions of the successes, at a cost per success and not per trial."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from chaffinch import checks
from chaffinch.kernels import native
from chaffinch.kernels.bernoulli import chance
from chaffinch.kernels.gap_table import LONGEST, SHORT_BITS, WIDTH, Table, gap_table, resolve
from chaffinch.kernels.words import Words

MOST_ROWS = 1 << 15
"""Gaps drawn together: so few that they stay in a close cache."""

PIECES = WIDTH // SHORT_BITS
"""Short words in a word."""


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

    The number of words in a batch depends on the place reached alone, so their order is the
    same for every implementation of the loops.
    """
    at = 0
    # No sum of a batch's gaps, each cut off at the end, may pass 2⁶³.
    rows = min(rows, (1 << 62) // (length + 2))
    draw = _digit_by_digit if table.short is None else _by_short_words
    while at < length:
        for reached, found in draw(words, table, rows, (at, length)):
            at = reached
            if len(found):
                yield found


def batch_size(table: Table, span: tuple[int, int], rows: int) -> int:
    """Return how many gaps to draw: enough for the rest of the span, if that is not too many."""
    at, end = span
    expected = (end - at) * table.levels[0].chance >> table.levels[0].width
    return min(rows, expected + (expected >> 4) + 3 * math.isqrt(expected) + 2)


def short_words(words: Words, gaps: int) -> NDArray[np.uint16]:
    """Return pieces for at most ``gaps`` gaps: a quarter of a word each, more where needed.

    The loops read no piece unless the rest of a word follows, so whether the last pieces are
    left over never depends on what they are.
    """
    pieces = gaps + PIECES - 1
    return words.take(-(-pieces // PIECES)).view(np.uint16)[:pieces]


Part = tuple[int, NDArray[np.int64]]
"""The place reached, and the positions on the way."""


def _digit_by_digit(words: Words, table: Table, rows: int, span: tuple[int, int]) -> Iterator[Part]:
    """Draw a batch of gaps, a word for each of their digits."""
    batch = batch_size(table, span, rows)
    found = np.empty(batch, dtype=np.int64)
    counts = _looked_up(words, table, words.take(len(table.levels) * batch))
    kept, at = native.LOOPS.walk(counts, table.weights, table.escape, span, found)
    yield at, found[:kept]


def _by_short_words(words: Words, table: Table, rows: int, span: tuple[int, int]) -> Iterator[Part]:
    """Draw a batch of gaps of one digit."""
    at, end = span
    assert table.short is not None  # noqa: S101 - the caller has looked
    left = short_words(words, batch_size(table, span, rows))
    while len(left) >= PIECES and at < end:
        found = np.empty(len(left), dtype=np.int64)
        given = (left, table.short, table.thresholds[0])
        kept, at, taken = native.LOOPS.leap(*given, (at, end), found)
        yield at, found[:kept]
        left = left[taken:]
        if len(left) >= PIECES and at < end:
            at, one = broken_tie(words, table, left[:PIECES], (at, end))
            yield at, one
            left = left[PIECES:]


def broken_tie(
    words: Words, table: Table, pieces: NDArray[np.uint16], span: tuple[int, int]
) -> Part:
    """Walk one gap whose word equals a threshold; the chance of that is about 2⁻⁵⁰."""
    at, end = span
    word = 0
    for piece in pieces.tolist():
        word = word << SHORT_BITS | piece
    gap = resolve(table.levels[0], word, lambda: int(words.take(1)[0]))
    at = min(at + gap, end)
    if gap == table.escape or at == end:
        return at, np.empty(0, np.int64)
    return at + 1, np.array([at])


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
