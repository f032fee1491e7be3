from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from chaffinch.errors import InvalidInput
from chaffinch.sampling import backends, flip_mask, secure_words
from chaffinch.sampling.flips import _BLOCK, _TILE, _binary
from tests.cases import each_case
from tests.sampling.sources import SIGMAS, ListedWords, SeededWords, chance, with_each
from tests.tiers import chequered

ALL = 2**64 - 1


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
def test_both_implementations_agree(numerator: int, count: int, seed: int) -> None:
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
