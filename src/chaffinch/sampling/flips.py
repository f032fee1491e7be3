"""Exact flips of packed bits and of one-hot records, by the sampler that is faster.

Rare flips are drawn one by one (`gaps`). Others are drawn 64 coins at once, by comparing binary
digits: digit plane i holds the i-th binary digit of 64 uniform numbers, one per bit lane. A
coin is heads when its number is below ``numerator``: at the first digit where the two differ,
the number has the 0. Nine digits decide most words; only those with an open lane draw more.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from chaffinch.errors import InvalidInput, checks
from chaffinch.sampling import backends, plain
from chaffinch.sampling.coins import CERTAIN, check_chance
from chaffinch.sampling.gaps import (
    LONGEST,
    PIECES,
    Table,
    batch_size,
    break_tie,
    gap_table,
    position_chunks,
    positions,
    short_words,
)
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

_MOST_IN_A_BYTE = 255
_FLIPS_AT_ONCE = 1 << 16  # Their words stay in the second cache.


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


# ----------------------------------------------------------------------------
# One-hot records, flipped: how often each code is sent, when a record has few slots.
#
# Which record is which plays no part, so they are taken in the order of their values. Then the
# records that hold code c are one run, and the zeros of column c are two. All zeros, column by
# column, are one long row of trials; what flips is placed in its record, whose ones arrive in
# the order of the codes, so that the slots can be given out as they come.


def flip_one_hot(
    words: Words, numerator: int, held: NDArray[np.int64], slots: int
) -> NDArray[np.int64]:
    """Return how many messages there are of each code, after every bit was flipped.

    ``held`` says how many records hold each code; a bit is flipped with chance
    ``numerator`` / 2⁶⁴, and of a record with more ones than ``slots`` the first are sent.

    >>> from chaffinch.sampling.words import secure_words
    >>> flip_one_hot(secure_words(), 2**64, np.array([2, 1]), 1).tolist()
    [1, 2]
    """
    slots = checks.whole("number of slots", slots, least=1, most=(1 << 32) - 2)
    held = np.asarray(held, dtype=np.int64)
    values, records = len(held), int(held.sum())
    if not values or int(held.min()) < 0 or records * (values + 1) > LONGEST:
        rule = f"at least one, none below 0, with at most {LONGEST} bits in all"
        raise InvalidInput("records of each code", rule, "others")
    # In the order of their values, the records that hold code c stand from owners[c] on.
    owners = np.concatenate([np.zeros(1, np.int64), np.cumsum(held)])
    # Gaps walk over the zeros alone, column by column: how many of them stand before each column.
    bounds = records * np.arange(values + 1) - owners
    # The one of each record is flipped by a coin of its own.
    hidden = np.zeros(records, np.bool_)
    hidden[positions(words, numerator, records)] = True
    sent = np.zeros(values, np.int64)
    # Bytes stay in a close cache; NumPy adds before it cuts off, and a byte might wrap.
    narrow = slots <= _MOST_IN_A_BYTE and backends.LOOPS is not plain
    used: NDArray[Any] = np.zeros(records, np.uint8 if narrow else np.uint32)
    state = (hidden, used, sent)
    table = gap_table(numerator) if numerator else None
    if table is not None and table.short is not None:
        column = _scatter_flips(words, table, bounds, state, slots)
    else:
        column = 0
        for flipped in position_chunks(words, numerator, int(bounds[-1])):
            column = backends.LOOPS.place(flipped, bounds, state, column, slots)
    # Past the last zero: the records of the columns that are left show their own ones.
    backends.LOOPS.place(bounds[-1:], bounds, state, column, slots)
    return sent


def _scatter_flips(
    words: Words, table: Table, bounds: NDArray[np.int64], state: backends.State, slots: int
) -> int:
    at, column, end = 0, 0, int(bounds[-1])
    assert table.short is not None  # noqa: S101 - the caller has looked
    tables = (table.short, table.thresholds[0])
    while at < end:
        left = short_words(words, batch_size(table, (at, end), _FLIPS_AT_ONCE))
        while len(left) >= PIECES and at < end:
            source = (left, *tables)
            at, column, taken = backends.LOOPS.scatter(source, bounds, state, (at, column), slots)
            left = left[taken:]
            if len(left) >= PIECES and at < end:
                at, found = break_tie(words, table, left[:PIECES], (at, end))
                column = backends.LOOPS.place(found, bounds, state, column, slots)
                left = left[PIECES:]
    return column


def flip_packed(
    words: Words, numerator: int, held: NDArray[np.int64], bits: int, slots: int
) -> NDArray[np.uint8]:
    """Return the records as packed rows, after every bit was flipped and the rest cut off.

    ``held`` says which code each record holds. Bit j of a row is bit j % 8 of byte j // 8.

    >>> from chaffinch.sampling.words import secure_words
    >>> flip_packed(secure_words(), 0, np.array([1, 8]), 9, 9).tolist()
    [[2, 0], [0, 1]]
    """
    width = -(-bits // _DIGITS)
    flat = np.zeros(len(held) * width, np.uint64)
    backends.LOOPS.xor_positions(flat, np.arange(len(held)) * (_DIGITS * width) + held)
    flip(words, flat, numerator, len(flat) * _DIGITS)
    rows = flat.reshape(-1, width)
    # The bits behind the last code were flipped like all others.
    if bits % _DIGITS:
        rows[:, -1] &= np.uint64((1 << (bits % _DIGITS)) - 1)
    if slots < bits:
        _cut(flat, rows, slots)
    return rows.view(np.uint8)[:, : -(-bits // 8)]


def _cut(flat: NDArray[np.uint64], rows: NDArray[np.uint64], slots: int) -> None:
    # Next to never there is a row to cut: slots are chosen so that few records need more.
    counts = np.empty(len(rows), np.int64)
    backends.LOOPS.row_ones(flat, counts)
    for place in np.flatnonzero(counts > slots):
        loose = np.unpackbits(rows[place].view(np.uint8), bitorder="little")
        loose[np.flatnonzero(loose)[slots:]] = 0
        rows[place] = np.packbits(loose, bitorder="little").view(np.uint64)
