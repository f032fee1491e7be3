"""The hot loops in NumPy: always there, and the reference for the C extension.

Same names, arguments and results as the extension: buffers are written in place, and
callers have checked shapes and types.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

_ONES = np.uint64(2**64 - 1)
_TIE = -1
_GUIDE_SHIFT = np.uint64(52)
_UNDECIDED = 1 << 15
_CODES_AT_ONCE = 1 << 18
_ROWS_AT_ONCE = 255  # As many as a byte can count.

State = tuple[NDArray[np.bool_], NDArray[Any], NDArray[np.int64]]
"""Which records lost their own one, and what each record (uint8 or uint32) and column sent."""

EDITION = 3
"""The edition of the loops; a C extension of another one was built from older sources."""


def compare_planes(
    planes: NDArray[np.uint64],
    digits: NDArray[np.uint8],
    below: NDArray[np.uint64],
    undecided: NDArray[np.uint64],
) -> None:
    """Compare 64 numbers per word with ``digits``; say which lanes are below, and which open."""
    below[:] = 0
    undecided[:] = _ONES
    # A lane is open while its number agrees with the digits; the first difference decides.
    for plane, digit in zip(planes.reshape(len(digits), len(below)), digits, strict=True):
        if digit:
            below |= undecided & ~plane
            undecided &= plane
        else:
            undecided &= ~plane


def collect_open(undecided: NDArray[np.uint64], lanes: NDArray[np.int64]) -> int:
    """Write where a lane is open to the start of ``lanes``; return how many words that is."""
    found = np.flatnonzero(undecided)
    lanes[: len(found)] = found
    return len(found)


def refine(
    plane: NDArray[np.uint64],
    digit: int,
    below: NDArray[np.uint64],
    undecided: NDArray[np.uint64],
    lanes: NDArray[np.int64],
) -> int:
    """Compare one more digit of the open words; keep those still open in ``lanes``."""
    where = lanes[: len(plane)]
    still = undecided[where]
    if digit:
        below[where] |= still & ~plane
        still &= plane
    else:
        still &= ~plane
    undecided[where] = still
    kept = where[still != 0]
    lanes[: len(kept)] = kept
    return len(kept)


def lookup(
    drawn: NDArray[np.uint64],
    thresholds: NDArray[np.uint64],
    guide: NDArray[np.uint16],
    counts: NDArray[np.int64],
) -> int:
    """Count the thresholds above each word; −1 for a word that equals one. Return the ties.

    ``thresholds`` fall and end with a 0 that is not one of them. ``guide`` says how many are
    above every word with the same highest 12 bits: the search starts there.
    """
    place = guide[drawn >> _GUIDE_SHIFT].astype(np.intp)
    for _ in range(2):  # Enough for nearly all; a binary search is slow on random words.
        place += drawn < thresholds[place]
    rest = np.flatnonzero(drawn < thresholds[place])
    place[rest] = len(thresholds) - np.searchsorted(thresholds[::-1], drawn[rest], side="right")
    tied = thresholds[place] == drawn
    counts[:] = place
    counts[tied] = _TIE
    return int(np.count_nonzero(tied))


def walk(
    counts: NDArray[np.int64],
    weights: NDArray[np.int64],
    escape: int,
    span: tuple[int, int],
    found: NDArray[np.int64],
) -> tuple[int, int]:
    """Add up gaps from the start of ``span``; return how many ended before its end, and where.

    Row i of ``counts`` is digit i of the gaps, worth ``weights[i]``. A last digit of
    ``escape`` says only that the gap is at least that long: no success, draw again.
    """
    start, end = span
    table = counts.reshape(len(weights), -1)
    top = table[-1]
    # An escape is no success: the rest of the gap is drawn anew, for it has no memory.
    done = top < escape
    steps = np.minimum(top * weights[-1], end)
    lower = np.zeros_like(steps)
    for row, weight in zip(table[:-1], weights[:-1], strict=True):
        # Each term stays below 2⁶³; what reaches the end need not be told apart.
        np.minimum(lower + row * weight, end, out=lower)
    # The success itself takes one place.
    steps += np.where(done, lower + 1, 0)
    np.minimum(steps, end + 1, out=steps)
    after = np.cumsum(steps) + start
    # A success stands on the last place of its step.
    hits = after[done] - 1
    kept = hits[hits < end]
    found[: len(kept)] = kept
    return len(kept), min(int(after[-1]), end + 1) if len(after) else start


def leap(
    pieces: NDArray[np.uint16],
    short: NDArray[np.uint16],
    thresholds: NDArray[np.uint64],
    span: tuple[int, int],
    found: NDArray[np.int64],
) -> tuple[int, int, int]:
    """Turn short words into positions; return how many, the place and the piece reached.

    ``short`` says what gap a piece is, or 2¹⁵ and more: then with the next three it is a word
    to look up, as above. Stops at the end of the span, where all pieces count as taken, where
    fewer than four are left, and before a word that equals a threshold.
    """
    start, end = span
    escape = len(thresholds) - 1
    gaps = short[pieces].astype(np.int64)
    # Whether a gap starts at a piece. None starts at the last three: a word would take four.
    first = np.arange(len(pieces)) < len(pieces) - 3
    alone = gaps < _UNDECIDED
    open_ = _apart(np.flatnonzero(first & ~alone))
    for place in (1, 2, 3):
        first[open_ + place] = False
    long = np.zeros(len(open_), np.uint64)
    for place in range(4):
        long = long << np.uint64(16) | pieces[open_ + place]
    counts = len(thresholds) - np.searchsorted(thresholds[::-1], long, side="right")
    gaps[open_] = counts
    tied = open_[thresholds[counts] == long]
    # From the first tie on the caller decides: more bits are needed.
    first[tied[0] if len(tied) else len(first) :] = False
    where = np.flatnonzero(first)
    # A piece that decides a gap by itself never escapes.
    success = alone[where] | (gaps[where] < escape)
    after = np.cumsum(gaps[where] + success) + start
    # The first gap that reaches the end is the last one that is looked at.
    size = min(int(np.searchsorted(after, end)) + 1, len(after)) if start < end else 0
    if not size:
        return 0, start, 0 if start < end else len(pieces)
    hits = after[:size][success[:size]] - 1
    kept = int(np.searchsorted(hits, end))
    found[:kept] = hits[:kept]
    last = int(where[size - 1])
    at = min(int(after[size - 1]), end)
    return kept, at, len(pieces) if at == end else last + (1 if alone[last] else 4)


def _apart(places: NDArray[np.intp]) -> NDArray[np.intp]:
    """Leave out places that belong to the word of four pieces that starts at one before."""
    kept, free = [], 0
    for place in places.tolist():
        if place >= free:
            kept.append(place)
            free = place + 4
    return np.array(kept, np.intp)


def xor_positions(bits: NDArray[np.uint64], positions: NDArray[np.int64]) -> None:
    """Flip the packed bits at ``positions``."""
    ones = np.left_shift(np.uint64(1), (positions & 63).astype(np.uint64))
    # Unbuffered: two positions in one word are both flipped, where `^=` would take one of them.
    np.bitwise_xor.at(bits, positions >> 6, ones)


def place(
    positions: NDArray[np.int64],
    bounds: NDArray[np.int64],
    state: State,
    column: int,
    slots: int,
) -> int:
    """Give flipped zeros of one-hot records their slots; return the column reached.

    Records are sorted by value; the zeros of column c are numbered from ``bounds[c]`` on. A
    record sends the first ``slots`` of its ones. The state says which records have lost
    their own one, and counts what each record and each column has sent so far.
    """
    hidden, used, sent = state
    if not len(positions):
        return column
    last = int(np.searchsorted(bounds, positions[-1], side="right")) - 1
    edges = np.searchsorted(positions, bounds[column : last + 2])
    tops = bounds[column : last + 2]
    # bounds[c] = records·c − (records that hold a code below c): the first owner of each code.
    owners = len(hidden) * np.arange(column, column + len(tops)) - tops
    which = np.repeat(np.arange(len(tops) - 1), np.diff(edges))
    records = positions[: len(which)] - tops[which]
    # The zeros of a column pass over the records that hold it.
    records += np.where(records >= owners[which], np.diff(owners)[which], 0)
    own = slice(int(owners[0]), int(owners[last - column]))
    shown = ~hidden[own]
    room = slots + len(tops) <= np.iinfo(used.dtype).max  # One too many each, and none wraps.
    one = used.dtype.type(1)
    if room:
        np.add.at(used, records, one)
        used[own] += shown
    # Nobody runs out of slots: whose ones come first plays no part, and all are added at once.
    if room and max(int(used[records].max(initial=0)), int(used[own].max(initial=0))) <= slots:
        ones = np.append(0, np.cumsum(shown))
        sent[column:last] += np.diff(ones[owners[: last - column + 1] - owners[0]])
        sent[column : column + len(edges) - 1] += np.diff(edges)
        return last
    if room:  # Someone runs out: go column by column.
        np.subtract.at(used, records, one)
        used[own] -= shown
    for place in range(len(tops) - 1):
        part = records[edges[place] : edges[place + 1]]
        if column + place < last:
            ones = np.arange(owners[place], owners[place + 1])
            part = np.append(part, ones[~hidden[ones]])
        part = part[used[part] < slots]
        used[part] += one
        sent[column + place] += len(part)
    return last


def scatter(
    source: tuple[NDArray[np.uint16], NDArray[np.uint16], NDArray[np.uint64]],
    bounds: NDArray[np.int64],
    state: State,
    reached: tuple[int, int],
    slots: int,
) -> tuple[int, int, int]:
    """Leap from the zero and the column reached, and place; return those and the piece reached.

    The source is what leaping reads. At the last zero all columns are closed.
    """
    start, column = reached
    end = int(bounds[-1])
    found = np.empty(len(source[0]), np.int64)
    kept, at, taken = leap(*source, (start, end), found)
    column = place(found[:kept], bounds, state, column, slots)
    if at >= end:
        column = place(bounds[-1:], bounds, state, column, slots)
    return at, column, taken


def row_ones(rows: NDArray[np.uint64], counts: NDArray[np.int64]) -> None:
    """Count the ones in each of as many rows of whole words as there are counts."""
    table = np.bitwise_count(rows.reshape(len(counts), len(rows) // max(len(counts), 1)))
    counts[:] = 0
    for column in table.T:  # Few columns, many rows: adding columns is faster than rows.
        counts += column


def histogram(codes: NDArray[np.uint32], counts: NDArray[np.int64]) -> int:
    """Add how often each code occurs; return 0, or 1 and nothing added if one is too large."""
    size = len(counts)
    if len(codes) and int(codes.max()) >= size:
        return 1
    # bincount fills a table of all codes every time: so many codes at once are worth it.
    step = max(_CODES_AT_ONCE, size)
    for start in range(0, len(codes), step):
        counts += np.bincount(codes[start : start + step], minlength=size)
    return 0


def popcount(rows: NDArray[np.uint8], stride: int, counts: NDArray[np.int64]) -> None:
    """Add the number of ones in each bit position of rows that start ``stride`` bytes apart."""
    table = rows.reshape(-1, stride)[:, : len(counts) // 8]
    for start in range(0, len(table), _ROWS_AT_ONCE):
        bits = np.unpackbits(table[start : start + _ROWS_AT_ONCE], axis=1, bitorder="little")
        counts += bits.sum(axis=0, dtype=np.uint8)


def index_texts(
    texts: list[object], places: dict[str, int], most: int, found: NDArray[np.int32]
) -> int:
    """Write the place of each text in ``places``, where new ones are put last.

    Stops before what is no text of Python's own type, and before a new text where there are
    ``most`` of them (it may be put last all the same); returns how many were written.
    """
    for row, text in enumerate(texts):
        if type(text) is not str:
            return row
        place = places.setdefault(text, len(places))
        if place >= most:
            return row
        found[row] = place
    return len(texts)
