"""Flips of packed bits by digit planes, and of one-hot records by the gaps between flips."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from chaffinch.errors import InvalidInput
from chaffinch.sampling import (
    backends,
    flip,
    flip_mask,
    flip_one_hot,
    flip_packed,
    positions,
    secure_words,
)
from chaffinch.sampling.flips import _BLOCK, _TILE, _binary
from chaffinch.sampling.gaps import gap_table
from tests.cases import each_case
from tests.sampling.sources import SIGMAS, ListedWords, SeededWords, chance, with_each
from tests.tiers import chequered

ALL = 2**64 - 1
CHANCES = st.sampled_from([0, 2**56, 2**61, 2**63, 2**64 - 2**60, 2**64])
CROWDS = st.lists(st.integers(0, 8), min_size=1, max_size=12)


def planes_of(values: list[int], width: int) -> list[int]:
    """Return digit planes, highest digit first, in which lane i spells ``values[i]``."""
    return [
        sum((value >> width - 1 - digit & 1) << lane for lane, value in enumerate(values))
        for digit in range(width)
    ]


@pytest.mark.usefixtures("loops")
def test_each_threshold_is_met_by_exactly_its_share_of_all_numbers() -> None:
    planes = planes_of(list(range(64)), 6)
    for numerator in range(1, 64):
        depth = len(_binary(numerator, 6))
        mask = flip_mask(ListedWords(planes[:depth]), numerator << 58, 64)
        assert int(mask[0]) == (1 << numerator) - 1  # Lanes 0 to numerator − 1.


@pytest.mark.usefixtures("loops")
@each_case("numerator", [1, 3, 2**63 + 1, ALL, 0x0123456789ABCDEF])
@each_case("depth", [1, 8, 9, 10, 33, 63, 64])
def test_lanes_that_agree_for_long_are_told_apart_by_the_last_digit(
    numerator: int, depth: int
) -> None:
    # Every lane copies the digits of the numerator but one, which flips in half of the lanes.
    half = 0x5555555555555555
    digits = [numerator >> 63 - place & 1 for place in range(64)]
    planes = [ALL if digit else 0 for digit in digits]
    planes[depth - 1] ^= half
    mask = flip_mask(ListedWords(planes), numerator, 64)
    assert int(mask[0]) == (half if digits[depth - 1] else 0)


@pytest.mark.usefixtures("loops")
def test_a_number_equal_to_the_numerator_is_not_below_it() -> None:
    numerator = 0xFEDCBA9876543211
    planes = [ALL if numerator >> 63 - place & 1 else 0 for place in range(64)]
    assert int(flip_mask(ListedWords(planes), numerator, 64)[0]) == 0


@pytest.mark.usefixtures("loops")
def test_a_short_expansion_uses_only_its_digits() -> None:
    words = SeededWords(1)
    flip_mask(words, 3 << 61, 64 * 100)
    assert words.used == 300


def reference(words: SeededWords, numerator: int, count: int) -> list[int]:
    """Compare lane by lane, taking the words in the order that is promised."""
    digits = [int(digit) for digit in _binary(numerator)]
    size = -(-count // 64)
    result: list[int] = []
    for start in range(0, size, _BLOCK):
        block = min(_BLOCK, size - start)
        numbers: list[list[int]] = []  # The planes of each word.
        for tile in range(0, block, _TILE):
            width = min(_TILE, block - tile)
            drawn = words.take(width * len(digits[:9])).reshape(-1, width)
            numbers.extend([int(word) for word in drawn[:, place]] for place in range(width))
        for digit in range(9, len(digits)):
            is_open = [word for word in numbers if len(word) == digit and open_lanes(word, digits)]
            for word, plane in zip(is_open, words.take(len(is_open)), strict=True):
                word.append(int(plane))
        result.extend(below(word, digits) for word in numbers)
    return result


def open_lanes(planes: list[int], digits: list[int]) -> int:
    lanes = ALL
    for plane, digit in zip(planes, digits, strict=False):
        lanes &= plane if digit else ~plane
    return lanes


def below(planes: list[int], digits: list[int]) -> int:
    found, lanes = 0, ALL
    for plane, digit in zip(planes, digits, strict=False):
        found |= lanes & ~plane if digit else 0
        lanes &= plane if digit else ~plane
    return found


@pytest.mark.usefixtures("loops")
@each_case("numerator", [chance(0.3), chance(0.0005), 2**64 - 1, 1])
def test_matches_the_comparison_of_one_lane_at_a_time(numerator: int) -> None:
    count = 64 * (_TILE + 77)
    mask = flip_mask(SeededWords(5), numerator, count)
    assert mask.tolist() == reference(SeededWords(5), numerator, count)


@given(numerator=st.integers(0, 2**64), count=st.integers(0, 300_000), seed=st.integers(0, 99))
def test_both_implementations_agree_on_masks(numerator: int, count: int, seed: int) -> None:
    def run() -> tuple[bytes, int]:
        words = SeededWords(seed)
        return flip_mask(words, numerator, count).tobytes(), words.used

    assert len(set(with_each(run))) == 1


@pytest.mark.usefixtures("loops")
@each_case("count", [0, 1, 63, 64, 65, 64 * _BLOCK + 1])
def test_bits_after_the_last_coin_are_zero(count: int) -> None:
    for numerator in (chance(0.5), chance(0.9), 2**64):
        mask = flip_mask(SeededWords(3), numerator, count)
        assert len(mask) == -(-count // 64)
        bits = np.unpackbits(mask.view(np.uint8), bitorder="little")
        assert not bits[count:].any()
    assert int(np.bitwise_count(mask).sum()) == count


def pair_statistics(mask: NDArray[Any], probability: float, lag: int) -> tuple[float, float]:
    """Return how far the rate and the rate of pairs ``lag`` apart are off, in sigmas."""
    bits = np.unpackbits(mask.view(np.uint8), bitorder="little")
    centred = bits - probability
    spread = probability * (1 - probability)
    rate = centred.sum() / np.sqrt(len(bits) * spread)
    pairs = (centred[lag:] * centred[:-lag]).sum() / (np.sqrt(len(bits) - lag) * spread)
    return float(rate), float(pairs)


@pytest.mark.usefixtures("loops")
@each_case(("probability", "lag"), chequered([(0.25,), (0.2501,), (0.04,)], [1, 64]))
def test_rate_and_independence_with_secure_words(probability: float, lag: int) -> None:
    # The plants fail the same tests: 13 standard deviations away, and 128 for the pairs.
    numerator, count = chance(probability), 64 * 160_000
    mask = flip_mask(secure_words(), numerator, count)
    rate, pairs = pair_statistics(mask, numerator / 2**64, lag)
    assert abs(rate) < SIGMAS
    assert abs(pairs) < SIGMAS
    wrong = flip_mask(secure_words(), numerator * 51 // 50, count)
    assert abs(pair_statistics(wrong, numerator / 2**64, lag)[0]) > SIGMAS
    bits = np.unpackbits(mask.view(np.uint8), bitorder="little")
    bits[lag::25] = bits[:-lag:25]  # One bit in 25 copies another.
    copied = np.packbits(bits, bitorder="little")
    assert abs(pair_statistics(copied, numerator / 2**64, lag)[1]) > SIGMAS


@pytest.mark.parametrize(("numerator", "count"), [(-1, 1), (2**64 + 1, 1), (0.5, 1), (1, -1)])
def test_bad_inputs_are_refused(numerator: int, count: int) -> None:
    with pytest.raises(InvalidInput):
        flip_mask(SeededWords(1), numerator, count)


def test_loops_agree_on_open_lanes() -> None:
    def run() -> tuple[int, list[int]]:
        lanes = np.zeros(6, dtype=np.int64)
        undecided = np.array([0, 1, 0, 2**63, 5, 0], dtype=np.uint64)
        found = backends.LOOPS.collect_open(undecided, lanes)
        return found, lanes[:found].tolist()

    assert all(result == (3, [1, 3, 4]) for result in with_each(run))


def bit_by_bit(numerator: int, held: list[int], slots: int, seed: int) -> NDArray[np.int64]:
    """The same words, the same zeros in the same order, but a whole table of bits."""
    words = SeededWords(seed)
    own = np.repeat(np.arange(len(held)), held)
    bits = np.zeros((len(own), len(held)), np.bool_)
    bits[np.arange(len(own)), own] = True
    hidden = positions(words, numerator, len(own))
    bits[hidden, own[hidden]] = False
    zeros = [(r, c) for c in range(len(held)) for r in range(len(own)) if own[r] != c]
    for place in positions(words, numerator, len(zeros)).tolist():
        bits[zeros[place]] = True
    for record in bits:
        record[np.flatnonzero(record)[slots:]] = False
    return np.asarray(bits.sum(axis=0), dtype=np.int64)


@given(CHANCES, CROWDS, st.integers(1, 14), st.integers(0, 2**32))
def test_counts_are_those_of_a_table_of_bits(
    numerator: int, held: list[int], slots: int, seed: int
) -> None:
    expected = bit_by_bit(numerator, held, slots, seed).tolist()
    for found in with_each(
        lambda: flip_one_hot(SeededWords(seed), numerator, np.array(held), slots)
    ):
        assert found.tolist() == expected


def test_both_implementations_agree_over_many_chunks() -> None:
    held = np.arange(300) % 7 * 40
    for slots in (2, 5, 300):
        found = with_each(
            lambda slots=slots: (  # type: ignore[misc]
                (words := SeededWords(3)),
                flip_one_hot(words, 2**64 // 100, held, slots).tolist(),
                words.used,
            )[1:]
        )
        assert all(one == found[0] for one in found)


@given(st.data(), CROWDS, st.integers(1, 300), st.integers(0, 400), st.integers(0, 2**32))
def test_scattering_is_leaping_and_placing(
    data: st.DataObject, held: list[int], slots: int, size: int, seed: int
) -> None:
    table = gap_table(data.draw(st.sampled_from([2**57, 2**61, 2**63, 2**64])))
    assert table.short is not None
    tables = (table.short, table.thresholds[0])
    records, values = sum(held), len(held)
    bounds = records * np.arange(values + 1) - np.append(0, np.cumsum(held))
    generator = np.random.default_rng(seed)
    pieces = generator.integers(0, 2**16, size, dtype=np.uint16)
    pieces[size // 2 :][:4] = 0  # A tie, in some.
    hidden = generator.random(records) < 0.2
    narrow = slots <= 255 and seed % 2 == 0

    def state() -> backends.State:
        used: NDArray[Any] = np.zeros(records, np.uint8 if narrow else np.uint32)
        return hidden, used, np.zeros(values, np.int64)

    def outcome(
        reached: tuple[int, int, int], after: backends.State
    ) -> tuple[tuple[int, int, int], list[int], list[int]]:
        return reached, after[1].tolist(), after[2].tolist()

    def scattered() -> object:
        after = state()
        return outcome(
            backends.LOOPS.scatter((pieces, *tables), bounds, after, (0, 0), slots), after
        )

    def apart() -> object:
        after, found = state(), np.empty(size, np.int64)
        end = int(bounds[-1])
        kept, at, taken = backends.LOOPS.leap(pieces, *tables, (0, end), found)
        column = backends.LOOPS.place(found[:kept], bounds, after, 0, slots)
        if at == end:
            column = backends.LOOPS.place(bounds[-1:], bounds, after, column, slots)
        return outcome((at, column, taken), after)

    results = [*with_each(scattered), *with_each(apart)]
    assert all(result == results[0] for result in results)


@pytest.mark.parametrize("slots", [254, 255, 256])
def test_counts_of_slots_do_not_wrap(slots: int) -> None:
    # One record, every bit flipped: all codes but its own, as far as there are slots.
    held = np.eye(1, 600, 7, dtype=np.int64)[0]
    for found in with_each(lambda: flip_one_hot(SeededWords(1), 2**64, held, slots)):
        assert int(found.sum()) == slots
        assert np.flatnonzero(found).tolist() == [c for c in range(slots + 1) if c != 7]


@pytest.mark.parametrize("wrong", [False, True])
def test_the_rate_of_messages_is_that_of_the_chance(loops: backends.Loops, *, wrong: bool) -> None:
    """One false alarm in a million; a chance 10 % off is seen."""
    assert loops is backends.LOOPS
    held, chance = np.array([50_000, 0, 30_000, 20_000]), 0.02
    sent = flip_one_hot(
        SeededWords(11), round((1.1 if wrong else 1.0) * chance * 2**64), held, len(held)
    )
    mean = held * (1 - chance) + (held.sum() - held) * chance
    far = np.abs(sent - mean) / np.sqrt(held.sum() * chance * (1 - chance))
    assert bool((far > SIGMAS).any()) == wrong


def test_an_own_bit_takes_its_slot_in_the_order_of_the_codes(loops: backends.Loops) -> None:
    assert loops is backends.LOOPS
    every = 2**64  # Every bit is flipped: a record sends all codes but its own.
    assert flip_one_hot(SeededWords(0), every, np.array([1, 0, 1]), 1).tolist() == [1, 1, 0]
    assert flip_one_hot(SeededWords(0), 0, np.array([1, 0, 2]), 1).tolist() == [1, 0, 2]


@pytest.mark.parametrize(
    ("held", "slots"), [([], 1), ([1, -1], 1), ([1, 1], 0), ([2**50, 2**50], 1)]
)
def test_what_cannot_be_is_refused(held: list[int], slots: int) -> None:
    with pytest.raises(InvalidInput):
        flip_one_hot(SeededWords(0), 2**60, np.array(held, dtype=np.int64), slots)


@given(st.integers(1, 200), st.integers(1, 200), st.integers(0, 2**32), st.data())
def test_packed_rows_are_flipped_and_cut(
    bits: int, slots: int, seed: int, data: st.DataObject
) -> None:
    held = np.array(data.draw(st.lists(st.integers(0, bits - 1), max_size=9)), dtype=np.int64)
    width = -(-bits // 64) * 64
    table = np.zeros((len(held), width), np.uint8)
    table[np.arange(len(held)), held] = 1
    flat = np.packbits(table, axis=1, bitorder="little").view(np.uint64).reshape(-1)
    flip(SeededWords(seed), flat, 2**62 + 1, len(flat) * 64)
    loose = np.unpackbits(flat.view(np.uint8), bitorder="little").reshape(-1, width)[:, :bits]
    for row in loose:
        row[np.flatnonzero(row)[slots:]] = 0
    expected = np.packbits(loose, axis=1, bitorder="little")
    for found in with_each(lambda: flip_packed(SeededWords(seed), 2**62 + 1, held, bits, slots)):
        assert np.array_equal(found, expected)


def test_the_extension_refuses_buffers_that_do_not_fit() -> None:
    try:
        loops = backends.choose("native")[1]
    except InvalidInput:
        pytest.skip("the C extension is not built here")

    def state(records: int, values: int) -> tuple[NDArray[np.bool_], NDArray[np.uint32], NDArray]:  # type: ignore[type-arg]
        return (
            np.zeros(records, np.bool_),
            np.zeros(records, np.uint32),
            np.zeros(values, np.int64),
        )

    bounds = np.array([0, 1, 2])  # Two records, one of each value.
    assert loops.place(np.array([0, 2]), bounds, state(2, 2), 0, 1) == 2
    bad = [
        (np.array([1, 0]), bounds, state(2, 2), 0),  # backwards
        (np.array([-1]), bounds, state(2, 2), 0),
        (np.array([0]), bounds, state(2, 2), 1),  # before the column
        (np.array([0]), bounds, state(2, 2), 3),
        (np.array([0]), bounds, state(2, 2), -1),
        (np.array([0]), bounds, state(2, 1), 0),
        (np.array([9]), np.array([0, 5, 9]), state(2, 2), 0),  # more zeros than records
        (np.array([3]), np.array([0, 5, 9]), state(2, 2), 0),
        (np.array([0]), np.array([-3, 2, 2]), state(2, 2), 0),
        (np.array([0]), bounds, (*state(2, 2)[:1], *state(3, 2)[1:]), 0),
    ]
    for positions_, bounds_, state_, column in bad:
        with pytest.raises(ValueError, match="must fit"):
            loops.place(positions_, bounds_, state_, column, 1)
    narrow = (np.zeros(2, np.bool_), np.zeros(2, np.uint8), np.zeros(2, np.int64))
    with pytest.raises(ValueError, match="must fit"):  # A byte cannot count so many.
        loops.place(np.array([0]), bounds, narrow, 0, 256)
    table = gap_table(2**60)
    assert table.short is not None
    tables = (table.short, table.thresholds[0])
    pieces = np.full(9, 2**15, np.uint16)
    assert loops.scatter((pieces, *tables), bounds, state(2, 2), (0, 0), 1)[:2] == (2, 2)
    for bounds_, state_, reached in (
        (bounds, state(2, 2), (3, 0)),  # past the end
        (bounds, state(2, 2), (-1, 0)),
        (bounds, state(2, 2), (0, 3)),
        (bounds, state(2, 1), (0, 0)),
        (np.array([0, 5, 90]), state(2, 2), (0, 0)),  # more zeros than records
    ):
        with pytest.raises(ValueError, match="must fit"):
            loops.scatter((pieces, *tables), bounds_, state_, reached, 1)
    for rows, counts in ((3, 2), (1, 0)):
        with pytest.raises(ValueError, match="must fit"):
            loops.row_ones(np.zeros(rows, np.uint64), np.zeros(counts, np.int64))
