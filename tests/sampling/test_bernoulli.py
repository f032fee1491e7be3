from __future__ import annotations

import numpy as np
import pytest

from chaffinch.errors import InvalidInput
from chaffinch.sampling import bernoulli, secure_words
from tests.cases import each_case
from tests.sampling.sources import SIGMAS, ListedWords, SeededWords

EVERY = range(256)


@pytest.mark.parametrize("shift", [0, 20, 56])
def test_each_threshold_is_met_by_exactly_its_share_of_all_words(shift: int) -> None:
    values = [value << shift for value in EVERY]
    for numerator in range(257):
        coins = bernoulli(ListedWords(values), numerator << shift, 256)
        assert int(coins.sum()) == numerator
        assert coins.tolist() == [value < numerator for value in EVERY]


def test_the_last_words_are_told_apart() -> None:
    top = 2**64
    coins = bernoulli(ListedWords([top - 2, top - 1]), top - 1, 2)
    assert coins.tolist() == [True, False]
    assert bernoulli(ListedWords([top - 2, top - 1]), top, 2).all()
    assert not bernoulli(ListedWords([0, 1]), 0, 2).any()


@each_case("numerator", [0, 1, 2**63, 2**64])
@each_case("count", [0, 1, 100_000])
def test_a_coin_uses_one_word_whatever_its_chance(numerator: int, count: int) -> None:
    words = SeededWords(1)
    assert len(bernoulli(words, numerator, count)) == count
    assert words.used == count


@pytest.mark.parametrize("probability", [0.5, 0.25, 0.003])
def test_rate_with_secure_words(probability: float) -> None:
    # A chance 4 % off fails the same test: it is 17 standard deviations away or more.
    numerator, count = int(probability * 2**64), int(200_000 / probability)
    heads = sum(int(bernoulli(secure_words(), numerator, count // 4).sum()) for _ in range(4))
    wrong = int(bernoulli(secure_words(), numerator * 26 // 25, count).sum())
    sigma = np.sqrt(count * probability * (1 - probability))
    assert abs(heads - count * probability) < SIGMAS * sigma
    assert abs(wrong - count * probability) > SIGMAS * sigma


@each_case("numerator", [-1, 2**64 + 1, 0.5, True, None, "1"])
def test_bad_chances_are_refused(numerator: object) -> None:
    with pytest.raises(InvalidInput):
        bernoulli(SeededWords(1), numerator, 1)  # type: ignore[arg-type]


@pytest.mark.parametrize("count", [-1, 1.0, True, None])
def test_bad_counts_are_refused(count: object) -> None:
    with pytest.raises(InvalidInput):
        bernoulli(SeededWords(1), 1, count)  # type: ignore[arg-type]
