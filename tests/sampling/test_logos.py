"""Counts of logos, which loops count them, and what the C extension refuses to touch."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from chaffinch.errors import InvalidInput
from chaffinch.sampling import backend, backends, filters_plain, logo_counts
from tests.cases import each_case
from tests.sampling.filtering import available, built, with_each

ROWS = range(1, 21)


def random_rows(count: int, bits: int, seed: int) -> list[NDArray[np.uint64]]:
    """Return rows of every density; what is beyond the last column is full of ones."""
    generator = np.random.default_rng(seed)
    words = -(-bits // 64)
    rows = []
    for row in range(count):
        ones = generator.random(64 * words) < (row + 1) / (count + 1)
        ones[bits:] = True
        rows.append(np.packbits(ones, bitorder="little").view("<u8").astype(np.uint64))
    return rows


def by_hand(rows: list[NDArray[np.uint64]], bits: int) -> NDArray[np.int64]:
    counts = np.zeros(1 << len(rows), dtype=np.int64)
    for column in range(bits):
        logo = 0
        for place, row in enumerate(rows):
            logo |= (int(row[column // 64]) >> column % 64 & 1) << place
        counts[logo] += 1
    return counts


@each_case("count", ROWS)
@each_case("bits", [1, 63, 64, 65, 2047, 2048, 2049, 4999])
def test_every_column_is_counted_once_by_its_logo(count: int, bits: int) -> None:
    rows = random_rows(count, bits, seed=count)
    expected = by_hand(rows, bits)
    assert expected.sum() == bits
    for counts in with_each(lambda: logo_counts(rows, bits)):
        assert counts.dtype == np.int64
        assert np.array_equal(counts, expected)


@given(count=st.integers(1, 16), bits=st.integers(0, 9000), seed=st.integers(0, 99))
def test_both_forms_count_alike(count: int, bits: int, seed: int) -> None:
    rows = random_rows(count, bits, seed)
    results = with_each(lambda: logo_counts(rows, bits))
    assert all(np.array_equal(one, results[0]) for one in results)
    assert results[0].sum() == bits


@pytest.mark.parametrize("count", [3, 8, 10, 14, 20])
def test_more_columns_than_are_counted_at_once(count: int) -> None:
    bits = 2**21 + 12_345
    rows = random_rows(count, bits, seed=1)
    codes = np.zeros(bits, dtype=np.int64)
    for place, row in enumerate(rows):
        ones = np.unpackbits(row.astype("<u8").view(np.uint8), count=bits, bitorder="little")
        codes += ones.astype(np.int64) << place
    expected = np.bincount(codes, minlength=1 << count)
    for counts in with_each(lambda: logo_counts(rows, bits)):
        assert np.array_equal(counts, expected)


@each_case("count", ROWS)
def test_each_row_has_its_own_bit_of_the_logo(count: int) -> None:
    # Column c has a one in row c only; all full rows make the last logo.
    rows = [np.array([1 << place], dtype=np.uint64) for place in range(count)]
    expected = {1 << place: 1 for place in range(count)}
    full = [np.full(100, 2**64 - 1, dtype=np.uint64)] * count
    for counts in with_each(lambda: logo_counts(rows, count)):
        assert {int(logo): int(counts[logo]) for logo in np.flatnonzero(counts)} == expected
    for counts in with_each(lambda: logo_counts(full, 6399)):
        assert np.flatnonzero(counts).tolist() == [(1 << count) - 1]
        assert counts[-1] == 6399


@pytest.mark.parametrize("count", [2, 7, 11, 13, 18])
def test_counts_are_added_part_by_part(count: int) -> None:
    bits = 64 * 70 + 5
    rows = random_rows(count, bits, seed=3)

    def run() -> NDArray[np.int64]:
        out = np.zeros(1 << count, dtype=np.int64)
        out[-1] = 2**40
        assert logo_counts([row[:33] for row in rows], 64 * 33, out) is out
        logo_counts([row[33:] for row in rows], bits - 64 * 33, out)
        out[-1] -= 2**40
        return out

    expected = by_hand(rows, bits)
    assert all(np.array_equal(counts, expected) for counts in with_each(run))


def test_rows_may_be_slices_and_unaligned() -> None:
    rows = random_rows(4, 640, seed=4)
    expected = by_hand(rows, 640)
    spread = [np.repeat(row, 3)[::3] for row in rows]
    shifted = [
        np.frombuffer(b"-" + row.tobytes(), dtype=np.uint8)[1:].view(np.uint64) for row in rows
    ]
    for given_rows in (spread, shifted):
        assert np.array_equal(logo_counts(given_rows, 640), expected)


ROW = np.zeros(2, dtype=np.uint64)


@each_case(
    ("rows", "bits", "out"),
    [
        ([], 0, None),
        ([ROW] * 21, 128, None),
        ([ROW], 64, None),
        ([ROW], 129, None),
        ([ROW, ROW[:1]], 128, None),
        ([ROW], -1, None),
        ([ROW], 2**32 + 1, None),
        ([ROW], True, None),
        ([ROW.astype(np.int64)], 128, None),
        ([ROW.reshape(1, 2)], 128, None),
        ([[0, 0]], 128, None),
        ([ROW], 128, np.zeros(4, dtype=np.int64)),
        ([ROW], 128, np.zeros(2, dtype=np.int32)),
        ([ROW], 128, np.zeros(4, dtype=np.int64)[::2]),
        ([ROW], 128, np.frombuffer(bytes(16), dtype=np.int64)),
    ],
)
def test_what_are_no_stacked_rows_is_refused(rows: Any, bits: Any, out: Any) -> None:
    with pytest.raises(InvalidInput):
        logo_counts(rows, bits, out)


# ---------------------------------------------------------------- which loops


@pytest.mark.parametrize("name", available())
def test_each_table_is_complete(name: str) -> None:
    loops = backends.choose_filters(name)[1]
    members = {label for label in vars(backends.FilterLoops) if not label.startswith("_")}
    assert members
    assert all(callable(getattr(loops, label)) for label in members)


def test_the_loops_of_filters_are_of_the_same_kind_as_the_others() -> None:
    for wanted in ("", "numpy"):
        assert backends.choose_filters(wanted)[0] == backends.choose(wanted)[0]
    assert backends.FILTER_LOOPS is backends.choose_filters(backend())[1]
    with pytest.raises(InvalidInput, match="one of"):
        backends.choose_filters("fortran")


@built
def test_an_extension_that_is_missing_or_old_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "chaffinch.sampling._filters", None)
        assert backends.choose_filters("") == ("numpy", filters_plain)
        with pytest.raises(InvalidInput, match="not built"):
            backends.choose_filters("native")
    assert backends.choose_filters("")[0] == "native"
    monkeypatch.setattr(filters_plain, "EDITION", filters_plain.EDITION + 1)
    assert backends.choose_filters("") == ("numpy", filters_plain)
    with pytest.raises(InvalidInput, match="older sources"):
        backends.choose_filters("native")


# ---------------------------------------------------------------- what C refuses


def words(size: int) -> NDArray[np.uint64]:
    return np.zeros(size, dtype=np.uint64)


def signed(*values: int) -> NDArray[np.int64]:
    return np.array(values, dtype=np.int64)


KEY = bytes(16)
ODD = np.zeros(9, dtype=np.uint8)[1:]  # Eight bytes that start at an odd address.

WRONG: list[tuple[str, Callable[[Any], object]]] = [
    ("short key", lambda c: c.siphash(b"", signed(0, 0), KEY[:8], words(1))),
    ("few offsets", lambda c: c.siphash(b"", signed(0), KEY, words(1))),
    ("no offsets", lambda c: c.siphash(b"", signed(), KEY, words(0))),
    ("offset below", lambda c: c.siphash(b"abc", signed(-1, 2), KEY, words(1))),
    ("offset above", lambda c: c.siphash(b"abc", signed(0, 4), KEY, words(1))),
    ("first above", lambda c: c.siphash(b"abc", signed(4), KEY, words(0))),
    ("falling", lambda c: c.siphash(b"abc", signed(0, 3, 1, 3), KEY, words(3))),
    ("far away", lambda c: c.siphash(b"abc", signed(*[0] * 9, 2**63 - 1, 3), KEY, words(10))),
    ("odd digests", lambda c: c.siphash(b"", signed(0, 0), KEY, ODD)),
    ("digests", lambda c: c.siphash_words(words(2), KEY, words(1))),
    ("long key", lambda c: c.siphash_words(words(1), KEY + b"x", words(1))),
    ("narrow filter", lambda c: c.set_bits(words(1), words(1), 65)),
    ("wide filter", lambda c: c.set_bits(words(2), words(1), 64)),
    ("no columns", lambda c: c.set_bits(words(0), words(1), 0)),
    ("negative columns", lambda c: c.set_bits(words(0), words(1), -63)),
    ("odd filter", lambda c: c.set_bits(ODD, words(1), 64)),
    ("part of a digest", lambda c: c.set_bits(words(1), bytes(7), 64)),
    ("no rows", lambda c: c.count_logos((), 64, signed(0))),
    ("many rows", lambda c: c.count_logos((words(1),) * 21, 64, np.zeros(2**21, dtype=np.int64))),
    ("few counts", lambda c: c.count_logos((words(1),) * 2, 64, signed(0, 0, 0))),
    ("short row", lambda c: c.count_logos((words(2), words(1)), 65, signed(0, 0, 0, 0))),
    ("long row", lambda c: c.count_logos((words(2),), 64, signed(0, 0))),
    ("odd row", lambda c: c.count_logos((ODD,), 64, signed(0, 0))),
    ("less than none", lambda c: c.count_logos((words(0),), -1, signed(0, 0))),
]


@built
@each_case("call", [pytest.param(call, id=label) for label, call in WRONG])
def test_buffers_that_do_not_fit_are_refused(call: Callable[[Any], object]) -> None:
    with pytest.raises(ValueError, match="must fit"):
        call(backends.choose_filters("native")[1])


@built
def test_buffers_that_are_no_buffers_are_refused() -> None:
    loops: Any = backends.choose_filters("native")[1]
    row = bytearray(8)
    with pytest.raises(TypeError):
        loops.count_logos([row], 64, signed(0, 0))
    with pytest.raises(TypeError):
        loops.count_logos((row, 3), 64, signed(0, 0, 0, 0))
    with pytest.raises((TypeError, BufferError)):
        loops.set_bits(bytes(8), row, 64)  # Cannot be written to.
    with pytest.raises((TypeError, BufferError, ValueError)):
        loops.count_logos((words(4)[::2],), 128, signed(0, 0))
    row.append(0)  # Would be refused if somebody still held the buffer.


@built
def test_loops_run_side_by_side() -> None:
    # Same result from four threads at once; the loops hold no state.
    rows = random_rows(10, 64 * 5000, seed=6)
    expected = logo_counts(rows, 64 * 5000)
    results = [np.zeros(1024, dtype=np.int64) for _ in range(4)]
    threads = [
        threading.Thread(target=logo_counts, args=(rows, 64 * 5000, counts)) for counts in results
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(np.array_equal(counts, expected) for counts in results)
