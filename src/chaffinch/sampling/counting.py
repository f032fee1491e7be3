"""Counting what arrived: codes in a column, ones in packed rows, logos of stacked rows.

A logo is the word that the bits of one column make, row above row.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from chaffinch.errors import InvalidInput, checks
from chaffinch.sampling import backends, plain
from chaffinch.sampling.backends import contiguous, writable
from chaffinch.sampling.digests import MOST_COLUMNS

_MOST_BITS = 1 << 31
_MOST_ROWS = 20
_MOST_TEXTS = 1 << 14
"""With more different texts than this, numbering them saves nothing."""
_Number = TypeVar("_Number", np.uint8, np.uint32, np.int64)
_UNIT = 128  # Bytes of a row that the C loop reads at once.
_WIDE = 8 * _UNIT


def histogram(
    codes: NDArray[np.uint32], size: int, out: NDArray[np.int64] | None = None
) -> NDArray[np.int64]:
    """Return how often each code from 0 to ``size`` − 1 occurs, added to ``out`` if given.

    Nothing is added when a code is out of range.

    >>> histogram(np.array([2, 0, 2], dtype=np.uint32), 4).tolist()
    [1, 0, 2, 0]
    """
    size = checks.whole("number of codes", size, least=1, most=1 << 32)
    codes = np.require(_check_array("codes", codes, np.uint32, 1), requirements=["C", "A"])
    counts = np.zeros(size, dtype=np.int64) if out is None else _check_counts(out, size)
    if backends.LOOPS.histogram(codes, counts):
        raise InvalidInput("codes", f"below {size}", "a larger one")
    return counts


def number_texts(texts: list[object]) -> tuple[NDArray[np.int32], list[str]] | None:
    """Return the different texts of a list and where each item stands among them.

    None if anything else than a text is in the list, or too many different ones.

    >>> number_texts(["tea", "milk", "tea"])
    (array([0, 1, 0], dtype=int32), ['tea', 'milk'])
    """
    places: dict[str, int] = {}
    found = np.empty(len(texts), np.int32)
    if backends.LOOPS.index_texts(texts, places, _MOST_TEXTS, found) < len(texts):
        return None
    return found, list(places)


def positional_popcount(rows: NDArray[np.uint8], bits: int) -> NDArray[np.int64]:
    """Return how many rows have a 1 at each bit; bit j of a row is bit j % 8 of byte j // 8.

    >>> positional_popcount(np.array([[0b101], [0b001]], dtype=np.uint8), 3).tolist()
    [2, 0, 1]
    """
    bits = checks.whole("number of bits", bits, least=1, most=_MOST_BITS)
    rows = np.ascontiguousarray(_check_array("rows", rows, np.uint8, 2))
    width = rows.shape[1]
    if width != -(-bits // 8):
        raise InvalidInput("rows", f"{-(-bits // 8)} bytes wide", width)
    return (_count_wide if width >= _WIDE else _count_narrow)(rows)[:bits]


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
    checks.whole("number of rows", len(rows), least=1, most=_MOST_ROWS)
    stacked = tuple(contiguous("row", row, np.uint64) for row in rows)
    words = -(-bits // 64)
    for row in stacked:
        if len(row) != words:
            raise InvalidInput("row", f"{words} words long", len(row))
    logos = 1 << len(stacked)
    counts = np.zeros(logos, np.int64) if out is None else writable("out", out, np.int64, logos)
    backends.FILTER_LOOPS.count_logos(stacked, bits, counts)
    return counts


def _count_wide(rows: NDArray[np.uint8]) -> NDArray[np.int64]:
    width = rows.shape[1]
    # The fast loop reads whole units only.
    whole = width - width % _UNIT
    counts = np.zeros(width * 8, dtype=np.int64)
    backends.LOOPS.popcount(rows, width, counts[: whole * 8])
    if whole < width:
        plain.popcount(np.ascontiguousarray(rows[:, whole:]), width - whole, counts[whole * 8 :])
    return counts


def _count_narrow(rows: NDArray[np.uint8]) -> NDArray[np.int64]:
    size, width = rows.shape
    # Rows lie end to end, so ``fold`` of them are one row of whole units.
    fold = _UNIT // math.gcd(_UNIT, width)
    whole = size - size % fold
    wide = np.zeros(fold * width * 8, dtype=np.int64)
    backends.LOOPS.popcount(rows[:whole], fold * width, wide)
    # Each folded row has a stretch of the long row to itself: the counts of all of them add up.
    counts: NDArray[np.int64] = wide.reshape(fold, width * 8).sum(axis=0)
    plain.popcount(rows[whole:], width, counts)
    return counts


def _check_array(
    name: str, array: NDArray[_Number], dtype: type[_Number], dimensions: int
) -> NDArray[_Number]:
    rule = f"{dimensions}-dimensional array of {np.dtype(dtype).name}"
    if not isinstance(array, np.ndarray):
        raise InvalidInput(name, rule, type(array).__name__)
    if array.dtype != dtype or array.ndim != dimensions:
        raise InvalidInput(name, rule, f"{array.ndim}-dimensional array of {array.dtype.name}")
    return array


def _check_counts(out: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    out = _check_array("out", out, np.int64, 1)
    if len(out) != size or not out.flags.carray:
        raise InvalidInput("out", f"a writable, contiguous array of {size} counts", len(out))
    return out
