"""From digests to the columns of a filter: a digest is a fraction of the whole width."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from chaffinch import checks
from chaffinch.kernels import filters, filters_plain
from chaffinch.kernels.arrays import contiguous, writable

MOST_COLUMNS = 1 << 32


def columns(digests: NDArray[np.uint64], bits: int) -> NDArray[np.int64]:
    """Return the column of each digest: ⌊digest·bits/2⁶⁴⌋, exactly.

    >>> columns(np.array([0, 2**63, 2**64 - 1], dtype=np.uint64), 5).tolist()
    [0, 2, 4]
    """
    bits = checks.whole("number of bits", bits, least=1, most=MOST_COLUMNS)
    return filters_plain.scaled(contiguous("digests", digests, np.uint64), bits)


def set_columns(packed: NDArray[np.uint64], digests: NDArray[np.uint64], bits: int) -> None:
    """Set the bit of each digest's column, in place; column c is bit c % 64 of word c // 64.

    >>> packed = np.zeros(1, dtype=np.uint64)
    >>> set_columns(packed, np.array([0, 2**63, 2**63], dtype=np.uint64), 5)
    >>> bin(packed[0])
    '0b101'
    """
    bits = checks.whole("number of bits", bits, least=1, most=MOST_COLUMNS)
    packed = writable("packed bits", packed, np.uint64, -(-bits // 64))
    filters.LOOPS.set_bits(packed, contiguous("digests", digests, np.uint64), bits)
