"""The loops of filters in NumPy: always there, and the reference for the C extension.

Same names, arguments and results as the extension: buffers are written in place, and
callers have checked shapes and types.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_IDS_AT_ONCE = 1 << 14
_COLUMNS_AT_ONCE = 1 << 18
_LITTLE = np.dtype("<u8")
_BYTES = np.arange(8)
_HALF = np.uint64(32)
_LOW = np.uint64(2**32 - 1)

EDITION = 1
"""The edition of the loops; a C extension of another one was built from older sources."""

_Words = NDArray[np.uint64]
_State = tuple[_Words, _Words, _Words, _Words]
_START = (0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573)


def siphash(
    data: NDArray[np.uint8], offsets: NDArray[np.int64], key: bytes, out: NDArray[np.uint64]
) -> None:
    """Hash the bytes between neighbouring offsets with SipHash-2-4."""
    if offsets[0] < 0 or offsets[-1] > len(data) or np.any(offsets[1:] < offsets[:-1]):
        raise ValueError("The buffers must fit one another.")  # As the extension says it.
    for start in range(0, len(out), _IDS_AT_ONCE):
        edges = offsets[start : start + _IDS_AT_ONCE + 1]
        _hash_ids(data, edges, key, out[start : start + _IDS_AT_ONCE])


def _hash_ids(
    data: NDArray[np.uint8], edges: NDArray[np.int64], key: bytes, out: NDArray[np.uint64]
) -> None:
    # The longest first: those that have one more whole word are then always a front part.
    order = np.argsort(edges[:-1] - edges[1:], kind="stable")
    starts = edges[:-1][order]
    sizes = edges[1:][order] - starts
    state = _start(key, len(out))
    whole = sizes >> 3
    for word in range(int(whole[0])):
        # The ids with more than ``word`` whole words: lengths fall, so they are a front part.
        going = int(np.searchsorted(-whole, -word))
        places = starts[:going, None] + (8 * word + _BYTES)
        words = data[places].view(_LITTLE)[:, 0].astype(np.uint64, copy=False)
        _absorb((state[0][:going], state[1][:going], state[2][:going], state[3][:going]), words)
    # Which of the last eight bytes an id still has behind its whole words.
    rest = (sizes & 7)[:, None] > _BYTES
    last = np.zeros((len(out), 8), np.uint8)
    last[rest] = data[((starts + (whole << 3))[:, None] + _BYTES)[rest]]
    last[:, 7] = sizes & 255  # There are at most seven bytes left: this one is free.
    _absorb(state, last.view(_LITTLE)[:, 0].astype(np.uint64, copy=False))
    out[order] = _finish(state)


def siphash_words(digests: NDArray[np.uint64], key: bytes, out: NDArray[np.uint64]) -> None:
    """Hash the eight bytes of each digest, the lowest first, with SipHash-2-4."""
    for start in range(0, len(out), _IDS_AT_ONCE):
        part = digests[start : start + _IDS_AT_ONCE]
        state = _start(key, len(part))
        _absorb(state, part)
        # Eight bytes leave no rest: the last word is their number, in its highest byte.
        _absorb(state, np.full(len(part), 8 << 56, np.uint64))
        out[start : start + _IDS_AT_ONCE] = _finish(state)


def set_bits(packed: NDArray[np.uint64], digests: NDArray[np.uint64], bits: int) -> None:
    """Set the bit of each digest's column."""
    for start in range(0, len(digests), _COLUMNS_AT_ONCE):
        places = scale_digests(digests[start : start + _COLUMNS_AT_ONCE], bits)
        ones = np.left_shift(np.uint64(1), (places & 63).astype(np.uint64))
        np.bitwise_or.at(packed, places >> 6, ones)


def scale_digests(digests: NDArray[np.uint64], bits: int) -> NDArray[np.int64]:
    """Return ⌊digest·bits/2⁶⁴⌋ exactly, for at most 2³² bits: no product overflows."""
    width = np.uint64(bits)
    # ⌊(high·bits + ⌊low·bits/2³²⌋)/2³²⌋, with both halves of the digest below 2³².
    column = (digests & _LOW) * width
    column >>= _HALF
    column += (digests >> _HALF) * width
    column >>= _HALF
    return column.view(np.int64)


def count_logos(rows: tuple[NDArray[np.uint64], ...], bits: int, counts: NDArray[np.int64]) -> None:
    """Add how many of the first ``bits`` columns have each logo; bit r of a logo is row r."""
    # As many columns at once as there are logos: making a table costs no more than filling it.
    step = max(_COLUMNS_AT_ONCE, len(counts))
    for start in range(0, bits, step):
        size = min(step, bits - start)
        codes = np.zeros(size, np.uint32)
        for place, row in enumerate(rows):
            words = row[start // 64 : -(-(start + size) // 64)].astype(_LITTLE, copy=False)
            column = np.unpackbits(words.view(np.uint8), count=size, bitorder="little")
            codes |= column.astype(np.uint32) << np.uint32(place)
        counts += np.bincount(codes, minlength=len(counts))


def _start(key: bytes, size: int) -> _State:
    """Return the state before the first word (Aumasson and Bernstein 2012, section 2.1)."""
    # The two halves of the key, twice: one for each of the four words.
    halves = np.frombuffer(key, _LITTLE).tolist() * 2
    a, b, c, d = (
        np.full(size, constant ^ half, np.uint64)
        for constant, half in zip(_START, halves, strict=True)
    )
    return a, b, c, d


def _absorb(state: _State, words: NDArray[np.uint64]) -> None:
    # The 2 of SipHash-2-4: two rounds for every word.
    state[3][:] ^= words
    _round(state)
    _round(state)
    state[0][:] ^= words


def _finish(state: _State) -> NDArray[np.uint64]:
    a, b, c, d = state
    # The 4 of SipHash-2-4: four rounds at the end.
    c ^= np.uint64(0xFF)
    for _ in range(4):
        _round(state)
    return a ^ b ^ c ^ d


def _round(state: _State) -> None:
    a, b, c, d = state
    a += b
    c += d
    rotate(b, 13)
    rotate(d, 16)
    b ^= a
    d ^= c
    rotate(a, 32)
    c += b
    a += d
    rotate(b, 17)
    rotate(d, 21)
    b ^= c
    d ^= a
    rotate(c, 32)


def rotate(words: NDArray[np.uint64], by: int) -> None:
    """Rotate to the left, in place."""
    high = words >> np.uint64(64 - by)
    words <<= np.uint64(by)
    words |= high
