from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaffinch.errors import InvalidInput
from chaffinch.sampling import histogram, positional_popcount
from tests.cases import each_case
from tests.sampling.sources import with_each


@given(
    size=st.one_of(st.integers(1, 40), st.integers(2000, 2100), st.just(100_000)),
    count=st.integers(0, 30_000),
    seed=st.integers(0, 99),
)
def test_histogram_counts_every_code(size: int, count: int, seed: int) -> None:
    codes = np.random.default_rng(seed).integers(0, size, count, dtype=np.uint32)
    places, numbers = np.unique(codes, return_counts=True)
    for counts in with_each(lambda: histogram(codes, size)):
        assert counts.dtype == np.int64
        assert counts.sum() == count
        assert np.array_equal(np.flatnonzero(counts), places)
        assert np.array_equal(counts[places], numbers)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 300)), max_size=12))
def test_histogram_counts_runs(runs: list[tuple[int, int]]) -> None:
    codes = np.repeat(*np.array(runs, np.uint32).reshape(-1, 2).T).astype(np.uint32)
    expected = np.bincount(codes, minlength=6).tolist()
    for counts in with_each(lambda: histogram(codes, 6).tolist()):
        assert counts == expected


@pytest.mark.usefixtures("loops")
@each_case("place", [0, 64, 500])
def test_a_run_of_codes_out_of_range_adds_nothing(place: int) -> None:
    codes = np.full(1000, 3, dtype=np.uint32)
    codes[place:] = 7
    out = np.arange(7, dtype=np.int64)
    with pytest.raises(InvalidInput, match="codes"):
        histogram(codes, 7, out)
    assert np.array_equal(out, np.arange(7))


@pytest.mark.usefixtures("loops")
def test_histogram_adds_to_what_is_there() -> None:
    out = np.array([2**40, 0, 5], dtype=np.int64)
    assert histogram(np.array([0, 2, 2], dtype=np.uint32), 3, out) is out
    assert out.tolist() == [2**40 + 1, 0, 7]


@pytest.mark.usefixtures("loops")
@each_case("size", [10, 5000])
@each_case("place", [0, 8191, 8192, 29_999])
@each_case("bad", [0, 2**31])
def test_a_code_out_of_range_adds_nothing(size: int, place: int, bad: int) -> None:
    codes = np.arange(30_000, dtype=np.uint32) % np.uint32(size)
    codes[place] = size + bad
    out = np.arange(size, dtype=np.int64)
    with pytest.raises(InvalidInput, match="codes"):
        histogram(codes, size, out)
    assert np.array_equal(out, np.arange(size))


@pytest.mark.usefixtures("loops")
def test_histogram_reads_slices_and_unaligned_columns() -> None:
    codes = np.arange(20, dtype=np.uint32)
    assert histogram(codes[::2], 20).tolist() == [1, 0] * 10
    shifted = np.frombuffer(b"x" + codes.tobytes(), dtype=np.uint8)[1:].view(np.uint32)
    assert histogram(shifted, 20).tolist() == [1] * 20


@each_case(
    ("codes", "size", "out"),
    [
        (np.zeros(3, dtype=np.int64), 1, None),
        (np.zeros((1, 3), dtype=np.uint32), 1, None),
        ([0, 1], 2, None),
        (np.zeros(3, dtype=np.uint32), 0, None),
        (np.zeros(3, dtype=np.uint32), 2, np.zeros(3, dtype=np.int64)),
        (np.zeros(3, dtype=np.uint32), 2, np.zeros(2, dtype=np.int32)),
        (np.zeros(3, dtype=np.uint32), 2, np.zeros(4, dtype=np.int64)[::2]),
    ],
)
def test_histogram_refuses_what_it_cannot_count(codes: object, size: int, out: object) -> None:
    with pytest.raises(InvalidInput):
        histogram(codes, size, out)  # type: ignore[arg-type]


@given(
    bits=st.one_of(st.integers(1, 600), st.sampled_from([1024, 8192, 8200, 9000, 20_001])),
    rows=st.one_of(st.integers(0, 600), st.sampled_from([4079, 4080, 5000])),
    seed=st.integers(0, 99),
)
def test_popcount_is_the_sum_of_the_unpacked_bits(bits: int, rows: int, seed: int) -> None:
    rows = min(rows, 3_000_000 // bits)
    generator = np.random.default_rng(seed)
    packed = generator.integers(0, 256, (rows, -(-bits // 8)), dtype=np.uint8)
    unpacked = np.unpackbits(packed, axis=1, bitorder="little")[:, :bits]
    expected = unpacked.sum(axis=0, dtype=np.int64)
    for counts in with_each(lambda: positional_popcount(packed, bits)):
        assert counts.dtype == np.int64
        assert np.array_equal(counts, expected)


@pytest.mark.usefixtures("loops")
@each_case("rows", [4_080, 4_095, 4_096, 65_280, 65_536, 140_001])
def test_counters_hold_more_rows_than_their_planes(rows: int) -> None:
    # All ones: every plane is full, every carry runs through.
    packed = np.full((rows, 128), 255, dtype=np.uint8)
    assert np.all(positional_popcount(packed, 1024) == rows)


@pytest.mark.usefixtures("loops")
def test_each_bit_has_its_own_place() -> None:
    for bits in (8, 104, 1024, 8200):
        packed = np.zeros((bits, bits // 8), dtype=np.uint8)
        for bit in range(bits):
            packed[:bit, bit // 8] |= np.uint8(1 << bit % 8)
        assert positional_popcount(packed, bits).tolist() == list(range(bits))


@pytest.mark.usefixtures("loops")
def test_popcount_reads_rows_that_start_anywhere() -> None:
    data = np.frombuffer(np.random.default_rng(3).bytes(128 * 300 + 3), dtype=np.uint8)
    shifted = data[3:].reshape(300, 128)
    expected = np.unpackbits(shifted, axis=1, bitorder="little").sum(axis=0)
    assert np.array_equal(positional_popcount(shifted, 1024), expected)
    every_second = np.unpackbits(shifted[::2], axis=1, bitorder="little").sum(axis=0)
    assert np.array_equal(positional_popcount(shifted[::2], 1024), every_second)


@each_case(
    ("rows", "bits"),
    [
        (np.zeros((2, 2), dtype=np.uint8), 8),
        (np.zeros((2, 2), dtype=np.uint8), 17),
        (np.zeros((2, 2), dtype=np.int8), 16),
        (np.zeros(2, dtype=np.uint8), 16),
        (np.zeros((2, 2), dtype=np.uint8), 0),
        ([[1]], 8),
    ],
)
def test_popcount_refuses_what_it_cannot_count(rows: object, bits: int) -> None:
    with pytest.raises(InvalidInput):
        positional_popcount(rows, bits)  # type: ignore[arg-type]
