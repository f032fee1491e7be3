"""Flip packed bits in place, by whichever exact sampler is faster at this chance.

Rare flips are drawn one by one (`gaps`). Others are drawn 64 coins at once, by comparing binary
digits: digit plane i holds the i-th binary digit of 64 uniform numbers, one per bit lane. A
coin is heads when its number is below ``numerator``: at the first digit where the two differ,
the number has the 0. Nine digits decide most words; only those with an open lane draw more.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from chaffinch.errors import InvalidInput, checks
from chaffinch.sampling import backends
from chaffinch.sampling.coins import CERTAIN, check_chance
from chaffinch.sampling.gaps import position_chunks
from chaffinch.sampling.words import MOST_WORDS, Words

_SPARSE_BELOW = 2**64 // 25
"""Below this numerator (chance 0.04) one draw per flip is cheaper than nine words per 64 bits."""

_DIGITS = 64
_FIRST = 9
"""Digits drawn for every word. Part of the order of words, as TILE and BLOCK are."""

_TILE = 1 << 11
"""Words whose first digits are drawn together: nine planes of them fit a close cache."""

_BLOCK = 16 * _TILE
"""Words whose open lanes are settled together."""


def flip(words: Words, packed: NDArray[np.uint64], numerator: int, count: int) -> None:
    """Flip each of the first ``count`` bits with chance exactly ``numerator`` / 2⁶⁴, in place.

    Bit i is bit i % 64 of word i // 64.

    >>> from chaffinch.sampling.words import secure_words
    >>> packed = np.array([0b0101], dtype=np.uint64)
    >>> flip(secure_words(), packed, 2**64, 4)
    >>> packed.tolist() == [0b1010]
    True
    """
    numerator = check_chance(numerator)
    count = checks.whole("count of bits", count, most=MOST_WORDS)
    if packed.dtype != np.uint64 or packed.ndim != 1 or not packed.flags.carray:
        raise InvalidInput("packed bits", "a writable, contiguous row of uint64", packed.dtype.name)
    if len(packed) * _DIGITS < count:
        raise InvalidInput("packed bits", f"at least {count} bits", len(packed) * _DIGITS)
    if numerator < _SPARSE_BELOW:
        for positions in position_chunks(words, numerator, count):
            backends.LOOPS.xor_positions(packed, positions)
        return
    # A block at a time: its mask stays in a close cache.
    for start in range(0, count, _BLOCK * _DIGITS):
        mask = flip_mask(words, numerator, min(_BLOCK * _DIGITS, count - start))
        place = start // _DIGITS
        packed[place : place + len(mask)] ^= mask


def flip_mask(words: Words, numerator: int, count: int) -> NDArray[np.uint64]:
    """Return ``count`` coins as packed bits, each 1 with chance exactly ``numerator`` / 2⁶⁴.

    Coin i is bit i % 64 of word i // 64. The bits after the last coin are 0.

    >>> from chaffinch.sampling.words import secure_words
    >>> flip_mask(secure_words(), 2**64, 70).tolist() == [2**64 - 1, 2**6 - 1]
    True
    """
    numerator = check_chance(numerator)
    count = checks.whole("count of coins", count, most=MOST_WORDS)
    size = -(-count // _DIGITS)
    # 2⁶⁴ has 65 binary digits, and a certain coin needs no word.
    if numerator == CERTAIN:
        mask = np.full(size, CERTAIN - 1, dtype=np.uint64)
    else:
        mask = np.empty(size, dtype=np.uint64)
        _fill(words, _binary(numerator), mask)
    if count % _DIGITS:
        mask[-1] &= np.uint64((1 << count % _DIGITS) - 1)
    return mask


def _binary(numerator: int, width: int = _DIGITS) -> NDArray[np.uint8]:
    """Return the binary digits of ``numerator``, highest first, without the zeros at the end.

    After the last 1 an open lane can only be equal or above: it is tails already.
    """
    text = format(numerator, f"0{width}b").rstrip("0")
    return np.frombuffer(text.encode("ascii"), dtype=np.uint8) - np.uint8(ord("0"))


def _fill(words: Words, digits: NDArray[np.uint8], mask: NDArray[np.uint64]) -> None:
    """Write coins into ``mask``, block by block."""
    size = min(len(mask), _BLOCK)
    undecided = np.empty(size, dtype=np.uint64)
    lanes = np.empty(size, dtype=np.int64)
    for start in range(0, len(mask), _BLOCK):
        block = mask[start : start + _BLOCK]
        _fill_block(words, digits, block, undecided[: len(block)], lanes)


def _fill_block(
    words: Words,
    digits: NDArray[np.uint8],
    mask: NDArray[np.uint64],
    undecided: NDArray[np.uint64],
    lanes: NDArray[np.int64],
) -> None:
    """Draw the first digits of all lanes at once, further ones where a lane is still open."""
    loops = backends.LOOPS
    first = digits[:_FIRST].copy()
    for start in range(0, len(mask), _TILE):
        below, still = mask[start : start + _TILE], undecided[start : start + _TILE]
        loops.compare_planes(words.take(len(first) * len(below)), first, below, still)
    # Nine digits have decided most lanes; the open words draw one word for each digit more.
    left = loops.collect_open(undecided, lanes) if len(digits) > _FIRST else 0
    for digit in digits[_FIRST:]:
        if not left:
            break
        left = loops.refine(words.take(left), int(digit), mask, undecided, lanes)
