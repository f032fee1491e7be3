"""Counting logos: the words that the bits of one column, row above row, make."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from chaffinch import checks
from chaffinch.errors import InvalidInput
from chaffinch.kernels import filters
from chaffinch.kernels.arrays import contiguous, writable
from chaffinch.kernels.columns import MOST_COLUMNS

MOST_ROWS = 20


def logo_counts(
    rows: Sequence[NDArray[np.uint64]], bits: int, out: NDArray[np.int64] | None = None
) -> NDArray[np.int64]:
    """Return how many of the first ``bits`` columns have each logo, added to ``out`` if given.

    Bit r of a logo is the column's bit in row r; column c is bit c % 64 of word c // 64.
    With R rows there are 2ᴿ logos.

    >>> rows = [np.array([word], dtype=np.uint64) for word in (0b0011, 0b0101)]
    >>> logo_counts(rows, 4).tolist()
    [1, 1, 1, 1]
    """
    bits = checks.whole("number of bits", bits, least=0, most=MOST_COLUMNS)
    checks.whole("number of rows", len(rows), least=1, most=MOST_ROWS)
    stacked = tuple(contiguous("row", row, np.uint64) for row in rows)
    words = -(-bits // 64)
    for row in stacked:
        if len(row) != words:
            raise InvalidInput("row", f"{words} words long", len(row))
    logos = 1 << len(stacked)
    counts = np.zeros(logos, np.int64) if out is None else writable("out", out, np.int64, logos)
    filters.LOOPS.count_logos(stacked, bits, counts)
    return counts
