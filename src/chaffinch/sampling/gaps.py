"""Rare successes among many trials: where they are, at a cost per success and not per trial.

From one success to the next a gap is drawn, by exact thresholds for uniform words.

The number of failures G before a success has P(G ≥ j) = (1 − q)ʲ. Written in base J, the
digits of G are independent (a geometric number has no memory): digit i is below J with
P(digit ≥ r) = (aʳ − aᴶ) / (1 − aᴶ) for a = (1 − q)^(Jⁱ), and what remains on top is again
geometric, P(top ≥ r) = aʳ. Each digit counts the thresholds above one uniform number.

Thresholds are enclosed between whole numbers, at as many binary digits as it takes to know
them; no float is involved.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chaffinch.errors import checks
from chaffinch.sampling import backends
from chaffinch.sampling.coins import check_chance
from chaffinch.sampling.words import Words

_WIDTH = 64
_LARGEST_BITS = 12
"""A digit of the gap has at most 2¹² values: its table stays in the closest cache."""

LONGEST = 1 << 50
"""Trials in one call. Weights stop here: a longer gap passes the end all the same."""

_GUIDE_BITS = 12

_SHORT_BITS = 16
"""Bits that decide most gaps of one digit: a table of them stays in the second cache."""

_UNDECIDED = 1 << 15
"""Added to the entry of a short word that does not decide a gap, or that escapes."""

_MOST_GAPS = 1 << 15
"""Gaps drawn together: so few that they stay in a close cache."""

PIECES = _WIDTH // _SHORT_BITS
"""Short words in a word."""

_SPARE = 96  # Extra binary digits of a first enclosure; the chance to need more is about 2⁻⁷⁰.

_Ball = tuple[int, int]
"""A number between the two, in units of 2 to the minus precision."""


@dataclass(frozen=True)
class _Level:
    """One digit of the gap: ``size`` falling thresholds built from powers of a number."""

    base: int  # a = (base / 2**width) ** exponent
    width: int
    exponent: int
    size: int
    truncated: bool  # A lower digit, conditioned on being at most ``size``.

    @property
    def chance(self) -> int:
        """The chance of a success, times 2**width, where the exponent is 1."""
        return (1 << self.width) - self.base

    def enclosures(self, precision: int) -> Iterator[_Ball]:
        # a¹ … a^(size+1), of which the last is aᴶ: a lower digit has J = size + 1 values.
        ratio = _power((self.base, self.base), self.width, self.exponent, precision)
        powers = [ratio]
        for _ in range(self.size):
            powers.append(_times(powers[-1], ratio, precision))
        last = powers.pop()
        return (self._threshold(power, last, precision) for power in powers)

    def floor(self, which: int, bits: int) -> int:
        """Return threshold number ``which`` (from 1) times 2**bits, rounded down, exactly."""
        precision = bits + _SPARE
        while True:
            ratio = _power((self.base, self.base), self.width, self.exponent, precision)
            power = _power(ratio, precision, which, precision)
            last = _power(ratio, precision, self.size + 1, precision)
            low, high = self._threshold(power, last, precision)
            # Both ends begin with the same digits, so these are the true ones.
            if low >> precision - bits == high >> precision - bits:
                return low >> precision - bits
            precision *= 2

    def floors(self) -> list[int]:
        """Return every threshold times 2**width, rounded down, exactly."""
        spare = _SPARE
        return [
            low >> spare if low >> spare == high >> spare else self.floor(which, self.width)
            for which, (low, high) in enumerate(self.enclosures(self.width + spare), 1)
        ]

    def _threshold(self, power: _Ball, last: _Ball, precision: int) -> _Ball:
        """Return aʳ itself, or (aʳ − aᴶ) / (1 − aᴶ), which rises in aʳ and falls in aᴶ."""
        if not self.truncated:
            return power
        one = 1 << precision
        low = ((power[0] - last[1]) << precision) // (one - last[1])
        high = -(-((power[1] - last[0]) << precision) // (one - last[0]))
        return max(low, 0), min(high, one)


@dataclass(frozen=True)
class Table:
    """The digits of the gap, lowest first, ready for the loops."""

    levels: tuple[_Level, ...]
    thresholds: tuple[NDArray[np.uint64], ...]  # Falling, then a 0 where every search stops.
    guides: tuple[NDArray[np.uint16], ...]
    weights: NDArray[np.int64]
    short: NDArray[np.uint16] | None  # Gaps by their first bits, where a gap is one digit.

    @property
    def escape(self) -> int:
        """The highest value of the top digit: the gap is at least that long."""
        return self.levels[-1].size


@functools.lru_cache(maxsize=64)
def gap_table(numerator: int, width: int = _WIDTH, largest_bits: int = _LARGEST_BITS) -> Table:
    """Return the table for success chance ``numerator`` / 2**width, above 0."""
    # The top digit escapes with chance about exp(−8), or less.
    # 2**total is at least eight times the mean gap.
    total = ((1 << width) // numerator).bit_length() + 3
    count = -(-total // largest_bits)
    bits = -(-total // count)
    levels = tuple(
        _Level(
            base=(1 << width) - numerator,
            width=width,
            exponent=1 << bits * place,
            size=(1 << bits) if place == count - 1 else (1 << bits) - 1,
            truncated=place < count - 1,
        )
        for place in range(count)
    )
    thresholds = tuple(np.array([*level.floors(), 0], dtype=np.uint64) for level in levels)
    guides = tuple(map(_search_guide, thresholds))
    weights = np.array([min(1 << bits * place, LONGEST) for place in range(count)], dtype=np.int64)
    short = _short_word_gaps(thresholds[0]) if count == 1 and width == _WIDTH else None
    shared: list[NDArray[Any]] = [*thresholds, *guides, weights]
    if short is not None:
        shared.append(short)
    for array in shared:
        array.flags.writeable = False  # The cached table is handed to every caller.
    return Table(levels, thresholds, guides, weights, short)


def _resolve_tie(level: _Level, word: int, draw: Callable[[], int]) -> int:
    """Return how many thresholds are above a uniform number that starts with ``word``.

    A threshold that starts with the same digits is neither above nor below yet: both get
    more digits, the number from ``draw``, until they differ.
    """
    bits = level.width
    floors = level.floors()
    low = sum(floor > word for floor in floors)
    high = sum(floor >= word for floor in floors)
    while low < high:
        word = word << level.width | draw()
        bits += level.width
        # Only those between: the others are decided, and more digits do not change that.
        floors = [level.floor(which, bits) for which in range(low + 1, high + 1)]
        low, high = (
            low + sum(floor > word for floor in floors),
            low + sum(floor >= word for floor in floors),
        )
    return low


def _search_guide(thresholds: NDArray[np.uint64]) -> NDArray[np.uint16]:
    # All words with the same highest digits start their search at one place: that of the largest.
    lowest = np.arange(1 << _GUIDE_BITS, dtype=np.uint64) << np.uint64(_WIDTH - _GUIDE_BITS)
    highest = lowest | np.uint64((1 << _WIDTH - _GUIDE_BITS) - 1)
    # Thresholds above the highest word of a group are above all of it.
    above = len(thresholds) - np.searchsorted(thresholds[::-1], highest, side="right")
    return above.astype(np.uint16)


def _short_word_gaps(thresholds: NDArray[np.uint64]) -> NDArray[np.uint16]:
    """Return the gap of each short word: how many thresholds are above every word it starts.

    It is undecided when a threshold starts with the same bits, or when no threshold is below.
    """
    starts = thresholds[:-1] >> np.uint64(_WIDTH - _SHORT_BITS)
    same, times = np.unique(starts.astype(np.int64), return_counts=True)
    above = len(starts) - np.append(0, np.cumsum(times))  # Before the first, from there on, ...
    edges = np.concatenate([[0], same, [1 << _SHORT_BITS]])
    entries = np.repeat(above.astype(np.uint16), np.diff(edges))
    # Below the smallest threshold the top digit escapes: the gap goes on.
    entries[: edges[1]] += np.uint16(_UNDECIDED)
    entries[same] += np.uint16(_UNDECIDED)
    return entries


def _times(left: _Ball, right: _Ball, precision: int) -> _Ball:
    """Return the product of two balls: the low end rounded down, the high end up."""
    return left[0] * right[0] >> precision, -(-left[1] * right[1] >> precision)


def _power(ball: _Ball, digits: int, exponent: int, precision: int) -> _Ball:
    """Return a power of a ball given at ``digits``, at ``precision`` binary digits."""
    square = ball[0] << precision - digits, ball[1] << precision - digits
    result = (1 << precision, 1 << precision)
    while exponent:
        if exponent & 1:
            result = _times(result, square, precision)
        square = _times(square, square, precision)
        exponent >>= 1
    return result


def positions(words: Words, numerator: int, length: int) -> NDArray[np.int64]:
    """Return, sorted, where ``length`` trials of chance ``numerator`` / 2⁶⁴ succeed.

    The same law as one exact coin per trial.

    >>> from chaffinch.sampling.words import secure_words
    >>> positions(secure_words(), 2**64, 4).tolist()
    [0, 1, 2, 3]
    """
    parts = list(position_chunks(words, numerator, length))
    return np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)


def position_chunks(
    words: Words, numerator: int, length: int, chunk: int = _MOST_GAPS
) -> Iterator[NDArray[np.int64]]:
    """Yield the same positions in sorted pieces of 1 to ``chunk``, for any length."""
    numerator = check_chance(numerator)
    length = checks.whole("number of trials", length, most=LONGEST)
    chunk = checks.whole("size of a chunk", chunk, least=1, most=1 << 40)
    if not (numerator and length):
        return iter(())
    return _walk(words, gap_table(numerator), length, min(chunk, _MOST_GAPS))


def _walk(words: Words, table: Table, length: int, rows: int) -> Iterator[NDArray[np.int64]]:
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
    # The mean, and some more: one batch is mostly enough, and few words are left over.
    return min(rows, expected + (expected >> 4) + 3 * math.isqrt(expected) + 2)


def short_words(words: Words, gaps: int) -> NDArray[np.uint16]:
    """Return pieces for at most ``gaps`` gaps: a quarter of a word each, more where needed.

    The loops read no piece unless the rest of a word follows, so whether the last pieces are
    left over never depends on what they are.
    """
    pieces = gaps + PIECES - 1
    return words.take(-(-pieces // PIECES)).view(np.uint16)[:pieces]


_Part = tuple[int, NDArray[np.int64]]
"""The place reached, and the positions on the way."""


def _digit_by_digit(
    words: Words, table: Table, rows: int, span: tuple[int, int]
) -> Iterator[_Part]:
    batch = batch_size(table, span, rows)
    found = np.empty(batch, dtype=np.int64)
    counts = _look_up(words, table, words.take(len(table.levels) * batch))
    kept, at = backends.LOOPS.walk(counts, table.weights, table.escape, span, found)
    yield at, found[:kept]


def _by_short_words(
    words: Words, table: Table, rows: int, span: tuple[int, int]
) -> Iterator[_Part]:
    at, end = span
    assert table.short is not None  # noqa: S101 - the caller has looked
    left = short_words(words, batch_size(table, span, rows))
    while len(left) >= PIECES and at < end:
        found = np.empty(len(left), dtype=np.int64)
        given = (left, table.short, table.thresholds[0])
        kept, at, taken = backends.LOOPS.leap(*given, (at, end), found)
        yield at, found[:kept]
        left = left[taken:]
        if len(left) >= PIECES and at < end:
            at, one = break_tie(words, table, left[:PIECES], (at, end))
            yield at, one
            left = left[PIECES:]


def break_tie(
    words: Words, table: Table, pieces: NDArray[np.uint16], span: tuple[int, int]
) -> _Part:
    """Walk one gap whose word equals a threshold; the chance of that is about 2⁻⁵⁰."""
    at, end = span
    word = 0
    for piece in pieces.tolist():
        word = word << _SHORT_BITS | piece
    gap = _resolve_tie(table.levels[0], word, lambda: int(words.take(1)[0]))
    # A gap beyond the end counts as the end: where it would land plays no part.
    at = min(at + gap, end)
    # An escape says only that the gap is at least so long: no success yet.
    if gap == table.escape or at == end:
        return at, np.empty(0, np.int64)
    return at + 1, np.array([at])


def _look_up(words: Words, table: Table, drawn: NDArray[np.uint64]) -> NDArray[np.int64]:
    batch = len(drawn) // len(table.levels)
    counts = np.empty(len(drawn), dtype=np.int64)
    for place, level in enumerate(table.levels):
        part = slice(place * batch, (place + 1) * batch)
        ties = backends.LOOPS.lookup(
            drawn[part], table.thresholds[place], table.guides[place], counts[part]
        )
        # A tie takes further words, in the order of rows, which every implementation keeps.
        if ties:
            for row in np.flatnonzero(counts[part] < 0):
                word = int(drawn[part][row])
                counts[part][row] = _resolve_tie(level, word, lambda: int(words.take(1)[0]))
    return counts
