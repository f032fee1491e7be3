"""The noise of a trusted centre: exact coins, and laws by chi-square, each with a plant."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from chaffinch.errors import InvalidInput
from chaffinch.sampling import Words, discrete_gaussian, discrete_laplace
from chaffinch.sampling.central_noise import _Coins
from tests.oracles import totals as referee
from tests.sampling.sources import SeededWords

FALSE_ALARM = 1e-6
DRAWS = 20_000
Sampler = Callable[[Words, Fraction, int], NDArray[np.int64]]


class Given:
    """Words from a list, and zeros behind it."""

    def __init__(self, words: Iterable[int]) -> None:
        self.words = [*words]

    def take(self, count: int) -> NDArray[np.uint64]:
        first, self.words = self.words[:count], self.words[count:]
        return np.array([*first, *[0] * (count - len(first))], dtype=np.uint64)


def worst(law: str, scale: Fraction, drawn: NDArray[np.int64]) -> float:
    """Return the chance that a chi-square of the right law is as large; rare places are pooled."""
    masses = {place: float(mass) for place, mass in referee.masses(law, scale).items()}
    often = Counter(drawn.tolist())
    kept = {place: mass for place, mass in masses.items() if mass * len(drawn) >= 5}
    seen = [often[place] for place in kept]
    expected = [mass * len(drawn) for mass in kept.values()]
    seen.append(len(drawn) - sum(seen))
    expected.append(max(len(drawn) - sum(expected), 1e-9))
    square = sum((s - e) ** 2 / e for s, e in zip(seen, expected, strict=True) if e > 1e-3)
    return float(stats.chi2.sf(square, len(kept)))


SETTINGS: list[tuple[str, Sampler, Fraction]] = [
    ("laplace", discrete_laplace, Fraction(1)),
    ("laplace", discrete_laplace, Fraction(1, 3)),
    ("laplace", discrete_laplace, Fraction(1048725, 1048576)),
    ("laplace", discrete_laplace, Fraction(27, 5)),
    ("gaussian", discrete_gaussian, Fraction(1, 2)),
    ("gaussian", discrete_gaussian, Fraction(1)),
    ("gaussian", discrete_gaussian, Fraction(11, 2)),
]


@pytest.mark.parametrize(("law", "draw", "scale"), SETTINGS)
def test_the_law_is_that_of_the_accountant(law: str, draw: Sampler, scale: Fraction) -> None:
    drawn = draw(SeededWords(7), scale, DRAWS)
    assert worst(law, scale, drawn) > FALSE_ALARM
    # A tenth more noise would be seen.
    assert worst(law, scale * Fraction(10, 11), drawn) < FALSE_ALARM


def test_zero_has_no_two_signs() -> None:
    """A sampler that takes a sign for 0 as well draws it twice as often, and is seen."""
    drawn = discrete_laplace(SeededWords(3), Fraction(1), DRAWS)
    zeros = drawn[drawn == 0]
    assert worst("laplace", Fraction(1), np.concatenate([drawn, zeros])) < FALSE_ALARM


def test_a_coin_is_exact_to_the_last_word() -> None:
    """Of 1/3 the digits in base 2⁶⁴ are all (2⁶⁴ − 1)/3: equal words leave it open."""
    digit = (1 << 64) // 3
    cases = {(digit - 1,): True, (digit + 1,): False, (digit, digit, digit - 1): True}
    for words, expected in cases.items():
        assert _Coins(Given(words)).coin(1, 3) is expected
    assert _Coins(Given([(1 << 64) - 1])).coin(1, 1)
    assert not _Coins(Given([0])).coin(0, 5)


def test_numbers_below_a_bound_are_drawn_again() -> None:
    coins = _Coins(Given([7, 6, 5, 4]))
    assert [coins.below(5)] == [4]
    assert _Coins(Given([])).below(1) == 0
    large = (1 << 64) + 1
    # Two words for 65 bits; of the first only the last bit counts.
    assert _Coins(Given([3, 5, 2, 9])).below(large) == 9


@pytest.mark.parametrize("scale", [Fraction(0), Fraction(-1), 1.5, "1"])
def test_other_scales_are_refused(scale: Any) -> None:
    for draw in (discrete_laplace, discrete_gaussian):
        with pytest.raises(InvalidInput):
            draw(SeededWords(1), scale, 1)


def test_no_noise_at_all_takes_no_words() -> None:
    assert len(discrete_gaussian(Given([]), Fraction(2), 0)) == 0
