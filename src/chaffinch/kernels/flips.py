"""Flip packed bits in place, by whichever exact sampler is faster at this chance."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from chaffinch import checks
from chaffinch.errors import InvalidInput
from chaffinch.kernels import native
from chaffinch.kernels.bernoulli import chance
from chaffinch.kernels.bitslice import BLOCK, DIGITS, flip_mask
from chaffinch.kernels.gaps import position_chunks
from chaffinch.kernels.words import MOST_WORDS, Words

SPARSE_BELOW = 2**64 // 25
"""Below this numerator (chance 0.04) one draw per flip is cheaper than nine words per 64 bits."""


def flip(words: Words, packed: NDArray[np.uint64], numerator: int, count: int) -> None:
    """Flip each of the first ``count`` bits with chance exactly ``numerator`` / 2⁶⁴, in place.

    Bit i is bit i % 64 of word i // 64.

    >>> from chaffinch.kernels.words import secure_words
    >>> packed = np.array([0b0101], dtype=np.uint64)
    >>> flip(secure_words(), packed, 2**64, 4)
    >>> packed.tolist() == [0b1010]
    True
    """
    numerator = chance(numerator)
    count = checks.whole("count of bits", count, most=MOST_WORDS)
    if packed.dtype != np.uint64 or packed.ndim != 1 or not packed.flags.carray:
        raise InvalidInput("packed bits", "a writable, contiguous row of uint64", packed.dtype.name)
    if len(packed) * DIGITS < count:
        raise InvalidInput("packed bits", f"at least {count} bits", len(packed) * DIGITS)
    if numerator < SPARSE_BELOW:
        for positions in position_chunks(words, numerator, count):
            native.LOOPS.xor_positions(packed, positions)
        return
    for start in range(0, count, BLOCK * DIGITS):
        mask = flip_mask(words, numerator, min(BLOCK * DIGITS, count - start))
        place = start // DIGITS
        packed[place : place + len(mask)] ^= mask
