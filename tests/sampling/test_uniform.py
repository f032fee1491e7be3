from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special

from chaffinch.errors import InvalidInput
from chaffinch.sampling import below, permutation, secure_words, shuffled
from tests.sampling.sources import ALARM, ListedWords, SeededWords
from tests.tiers import nightly

ALL = 2**64


@given(bound=st.integers(1, ALL))
def test_words_of_the_last_incomplete_run_are_thrown_away(bound: int) -> None:
    limit = ALL - ALL % bound  # A multiple of the bound: every remainder has as many words.
    kept = [0, bound - 1, limit - bound, limit - 1]
    thrown = [limit, ALL - 1] if limit < ALL else []
    words = ListedWords([*thrown, *kept])
    assert below(words, bound, 4).tolist() == [0, bound - 1, 0, bound - 1]
    assert words.used == len(thrown) + 4


def test_every_remainder_has_its_share_of_a_whole_run() -> None:
    for bound in (1, 2, 3, 7, 100, 256):
        counts = np.bincount(below(ListedWords(range(bound * 5)), bound, bound * 5).astype(int))
        assert counts.tolist() == [5] * bound


@pytest.mark.parametrize("bound", [3, 10, 1000])
def test_numbers_are_uniform_and_a_tilted_law_fails(bound: int) -> None:
    # Chi-square; the smallest noncentrality of the tilted laws is 213, for a bound of 3.
    count = 800_000
    drawn = below(secure_words(), bound, count).astype(np.int64)

    def misfit(numbers: np.ndarray[tuple[int], np.dtype[np.int64]]) -> float:
        seen = np.bincount(numbers, minlength=bound)
        statistic = ((seen - len(numbers) / bound) ** 2).sum() * bound / len(numbers)
        return float(special.chdtrc(bound - 1, statistic))

    assert misfit(drawn) > ALARM
    tilted = np.where(np.arange(count) % 50 == 0, np.minimum(drawn, bound // 2), drawn)
    assert misfit(tilted) < ALARM


def test_a_bound_above_half_draws_again_until_it_has_enough() -> None:
    drawn = below(SeededWords(1), 2**63 + 1, 50_000)
    assert int(drawn.max()) <= 2**63
    assert len(drawn) == 50_000


@pytest.mark.parametrize(("bound", "count"), [(0, 1), (-1, 1), (ALL + 1, 1), (2, -1), (1.5, 1)])
def test_bad_bounds_are_refused(bound: int, count: int) -> None:
    with pytest.raises(InvalidInput):
        below(SeededWords(1), bound, count)


def test_orders_of_five_are_uniform_and_a_lazy_shuffle_fails() -> None:
    # Chi-square over 120 orders; the noncentrality of the lazy shuffle is 714.
    orders = {order: place for place, order in enumerate(itertools.permutations(range(5)))}
    trials = 15_000
    words = secure_words()

    def misfit(*, lazy: bool) -> float:
        seen = np.zeros(120, dtype=np.int64)
        for trial in range(trials):
            order = permutation(words, 5)
            if lazy and trial % 50 == 0:
                order = np.arange(5)
            seen[orders[tuple(order.tolist())]] += 1
        return float(special.chdtrc(119, ((seen - trials / 120) ** 2).sum() * 120 / trials))

    assert misfit(lazy=False) > ALARM
    assert misfit(lazy=True) < ALARM


def test_equal_keys_are_all_drawn_again() -> None:
    words = ListedWords([5, 9, 5, 30, 10, 20])
    assert permutation(words, 3).tolist() == [1, 2, 0]
    assert words.used == 6


@given(keys=st.permutations(range(6)))
def test_the_order_is_the_order_of_the_keys(keys: list[int]) -> None:
    assert [keys[place] for place in permutation(ListedWords(keys), 6)] == list(range(6))


def test_every_order_comes_from_as_many_keys() -> None:
    results = [
        tuple(permutation(ListedWords(keys), 4).tolist())
        for keys in itertools.permutations(range(4))
    ]
    assert len(set(results)) == math.factorial(4)


@pytest.mark.parametrize("count", [0, 1])
def test_small_permutations(count: int) -> None:
    assert permutation(SeededWords(1), count).tolist() == list(range(count))


@pytest.mark.parametrize("count", [-1, True, 2.0, None])
def test_bad_counts_are_refused(count: object) -> None:
    with pytest.raises(InvalidInput):
        permutation(SeededWords(1), count)  # type: ignore[arg-type]


def test_codes_with_equal_keys_have_every_order_once() -> None:
    codes = np.array([7, 5, 9], np.uint32)
    seen = []
    for fresh in itertools.permutations((1, 2, 3)):
        words = ListedWords([(8 << 32) + 3, (8 << 32) + 2, (8 << 32) + 1, *fresh])
        seen.append(tuple(shuffled(words, codes).tolist()))
    assert sorted(seen) == sorted(itertools.permutations((5, 7, 9)))


def test_codes_with_other_keys_stay_where_these_put_them() -> None:
    codes = np.array([1, 0, 3, 2], np.uint8)
    keys = [key << 32 for key in (4, 9, 4, 1)]
    for fresh, order in (((1, 2), [2, 1, 3, 0]), ((2, 1), [2, 3, 1, 0])):
        assert shuffled(ListedWords([*keys, *fresh]), codes).tolist() == order


@pytest.mark.parametrize("kind", [nightly(np.uint8), np.uint16, nightly(np.uint32)])
def test_orders_of_codes_are_uniform_and_a_lazy_shuffle_fails(kind: type[np.uint32]) -> None:
    # Chi-square over the 60 orders of a multiset; the noncentrality of the lazy shuffle is 354.
    codes = np.array([0, 1, 1, np.iinfo(kind).max, 3], kind)
    orders = {order: at for at, order in enumerate(set(itertools.permutations(codes.tolist())))}
    trials = 15_000
    words = secure_words()

    def misfit(*, lazy: bool) -> float:
        seen = np.zeros(60, dtype=np.int64)
        for trial in range(trials):
            made = codes if lazy and trial % 50 == 0 else shuffled(words, codes)
            seen[orders[tuple(made.tolist())]] += 1
        return float(special.chdtrc(59, ((seen - trials / 60) ** 2).sum() * 60 / trials))

    assert misfit(lazy=False) > ALARM
    assert misfit(lazy=True) < ALARM


def test_equal_codes_and_no_codes_have_one_order() -> None:
    for codes in (np.zeros(0, np.uint32), np.full(9, 6, np.uint32)):
        made = shuffled(ListedWords([]), codes)
        assert made.tolist() == codes.tolist()
        assert made is not codes
