"""Keyed digests of ids, and the columns of a filter that they stand for.

SipHash-2-4 [Aumasson and Bernstein 2012], which nobody can predict without the key. A digest
is a fraction of 2⁶⁴, and its column the same fraction of the width of a filter.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from chaffinch.errors import InvalidInput, checks
from chaffinch.sampling import backends, filters_plain
from chaffinch.sampling.backends import contiguous, writable

_KEY_BYTES = 16
MOST_COLUMNS = 1 << 32


def digest_ids(
    data: NDArray[np.uint8], offsets: NDArray[np.int64] | NDArray[np.int32], key: bytes
) -> NDArray[np.uint64]:
    """Return SipHash-2-4 of each id; id i is ``data[offsets[i]:offsets[i + 1]]``.

    This is how columns of texts lie in memory; the first offset need not be 0.

    >>> ids = np.frombuffer(b"annbob", dtype=np.uint8)
    >>> [hex(one) for one in digest_ids(ids, np.array([0, 3, 6]), bytes(range(16))).tolist()]
    ['0x373c1692840bbb8d', '0xa2302a3400e8474']
    """
    data = contiguous("data", data, np.uint8)
    offsets = contiguous("offsets", offsets, np.int64, np.int32).astype(np.int64, copy=False)
    if len(offsets) < 1:
        raise InvalidInput("offsets", "one more than there are ids", "none")
    out = np.empty(len(offsets) - 1, dtype=np.uint64)
    # The loops check the offsets themselves, against the bytes that are there.
    try:
        backends.FILTER_LOOPS.siphash(data, offsets, _key(key), out)
    except ValueError:
        rule = f"rising, and from 0 to {len(data)}, the number of bytes"
        raise InvalidInput("offsets", rule, "others") from None
    return out


def digest_again(digests: NDArray[np.uint64], key: bytes) -> NDArray[np.uint64]:
    """Return SipHash-2-4 of each digest's eight bytes, the lowest first.

    >>> first = np.frombuffer(bytes(range(8)), dtype="<u8").astype(np.uint64)
    >>> hex(digest_again(first, bytes(range(16)))[0])
    '0x93f5f5799a932462'
    """
    digests = contiguous("digests", digests, np.uint64)
    out = np.empty(len(digests), dtype=np.uint64)
    backends.FILTER_LOOPS.siphash_words(digests, _key(key), out)
    return out


def digest_columns(digests: NDArray[np.uint64], bits: int) -> NDArray[np.int64]:
    """Return the column of each digest: ⌊digest·bits/2⁶⁴⌋, exactly.

    >>> digest_columns(np.array([0, 2**63, 2**64 - 1], dtype=np.uint64), 5).tolist()
    [0, 2, 4]
    """
    bits = checks.whole("number of bits", bits, least=1, most=MOST_COLUMNS)
    return filters_plain.scale_digests(contiguous("digests", digests, np.uint64), bits)


def set_columns(packed: NDArray[np.uint64], digests: NDArray[np.uint64], bits: int) -> None:
    """Set the bit of each digest's column, in place; column c is bit c % 64 of word c // 64.

    >>> packed = np.zeros(1, dtype=np.uint64)
    >>> set_columns(packed, np.array([0, 2**63, 2**63], dtype=np.uint64), 5)
    >>> bin(packed[0])
    '0b101'
    """
    bits = checks.whole("number of bits", bits, least=1, most=MOST_COLUMNS)
    packed = writable("packed bits", packed, np.uint64, -(-bits // 64))
    backends.FILTER_LOOPS.set_bits(packed, contiguous("digests", digests, np.uint64), bits)


def _key(key: object) -> bytes:
    if not isinstance(key, bytes) or len(key) != _KEY_BYTES:
        # The key is never shown, not even a wrong one.
        raise InvalidInput("key", f"{_KEY_BYTES} bytes", "something else, not shown")
    return key
