from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from chaffinch.errors import InvalidInput
from chaffinch.sampling import backends, flip, flip_one_hot, flip_packed, positions
from chaffinch.sampling.gaps import gap_table
from tests.sampling.sources import SIGMAS, SeededWords, with_each

CHANCES = st.sampled_from([0, 2**56, 2**61, 2**63, 2**64 - 2**60, 2**64])
CROWDS = st.lists(st.integers(0, 8), min_size=1, max_size=12)


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
