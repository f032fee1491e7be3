"""One-hot records, flipped: how often each code is sent, when a record has few slots.

Which record is which plays no part, so they are taken in the order of their values. Then the
records that hold code c are one run, and the zeros of column c are two. All zeros, column by
column, are one long row of trials; what flips is placed in its record, whose ones arrive in
the order of the codes, so that the slots can be given out as they come.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from chaffinch.errors import InvalidInput, checks
from chaffinch.sampling import backends, plain
from chaffinch.sampling.flips import flip
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
from chaffinch.sampling.words import Words

_WORD = 64
_MOST_IN_A_BYTE = 255
_FLIPS_AT_ONCE = 1 << 16  # Their words stay in the second cache.


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
    """Place flips as they are drawn, by short words; return the column reached."""
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
    width = -(-bits // _WORD)
    flat = np.zeros(len(held) * width, np.uint64)
    backends.LOOPS.xor_positions(flat, np.arange(len(held)) * (_WORD * width) + held)
    flip(words, flat, numerator, len(flat) * _WORD)
    rows = flat.reshape(-1, width)
    # The bits behind the last code were flipped like all others.
    if bits % _WORD:
        rows[:, -1] &= np.uint64((1 << (bits % _WORD)) - 1)
    if slots < bits:
        _cut(flat, rows, slots)
    return rows.view(np.uint8)[:, : -(-bits // 8)]


def _cut(flat: NDArray[np.uint64], rows: NDArray[np.uint64], slots: int) -> None:
    """Clear the last ones of rows with too many: next to never there, as slots are chosen."""
    counts = np.empty(len(rows), np.int64)
    backends.LOOPS.row_ones(flat, counts)
    for place in np.flatnonzero(counts > slots):
        loose = np.unpackbits(rows[place].view(np.uint8), bitorder="little")
        loose[np.flatnonzero(loose)[slots:]] = 0
        rows[place] = np.packbits(loose, bitorder="little").view(np.uint64)
