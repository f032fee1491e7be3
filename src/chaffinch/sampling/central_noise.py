"""The noise of a trusted centre, exactly: discrete Laplace and discrete Gaussian.

All chances are rationals of whole numbers of any size, and every coin compares random words with
one: no float stands between the words and the noise. The coins with the chance e^(−x), and both
laws, are algorithms 1 to 3 of Canonne, Kamath and Steinke 2020. A centre draws one number for each
count that it releases, so nothing here is vectorized.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from chaffinch.errors import InvalidInput, checks
from chaffinch.sampling.words import Words

_WORD = 64
_POOL = 256
"""Words are taken so many at a time; those that are left over are thrown away."""
_MOST_NUMBERS = 1 << 24


def discrete_laplace(words: Words, scale: Fraction, count: int) -> NDArray[np.int64]:
    """Return ``count`` independent numbers z, each with a chance proportional to e^(−|z|/scale).

    >>> from chaffinch.sampling.words import secure_words
    >>> discrete_laplace(secure_words(), Fraction(1, 1000), 3).tolist()
    [0, 0, 0]
    """
    coins, each = _Coins(words), _positive(scale)
    return _drawn(count, lambda: coins.laplace(each))


def discrete_gaussian(words: Words, scale: Fraction, count: int) -> NDArray[np.int64]:
    """Return ``count`` independent numbers z, each with a chance proportional to e^(−z²/2scale²).

    >>> from chaffinch.sampling.words import secure_words
    >>> discrete_gaussian(secure_words(), Fraction(1, 50), 3).tolist()
    [0, 0, 0]
    """
    coins, each = _Coins(words), _positive(scale)
    return _drawn(count, lambda: coins.gaussian(each))


def _positive(scale: Fraction) -> Fraction:
    given: object = scale
    if not isinstance(given, Fraction) or not given > 0:
        raise InvalidInput("scale", "a Fraction above 0", scale)
    return given


def _drawn(count: int, draw: Callable[[], int]) -> NDArray[np.int64]:
    count = checks.whole("count of numbers", count, most=_MOST_NUMBERS)
    return np.fromiter((draw() for _ in range(count)), np.int64, count)


class _Coins:
    """Coins and numbers of one source of words."""

    def __init__(self, words: Words) -> None:
        self._words: Iterator[int] = _each(words)

    def below(self, bound: int) -> int:
        """Return a uniform number below ``bound``, of any size."""
        bits = (bound - 1).bit_length()
        while True:
            found = 0
            for _ in range(-(-bits // _WORD)):
                found = found << _WORD | next(self._words)
            found &= (1 << bits) - 1
            if found < bound:
                return found

    def coin(self, numerator: int, denominator: int) -> bool:
        """Return True with the chance ``numerator``/``denominator``, at most 1."""
        # The chance in base 2⁶⁴, digit by digit: a word decides unless it equals its digit.
        while numerator:
            digit, numerator = divmod(numerator << _WORD, denominator)
            word = next(self._words)
            if word != digit:
                return word < digit
        return False

    def decay(self, numerator: int, denominator: int) -> bool:
        """Return True with the chance e^(−numerator/denominator)."""
        while numerator > denominator:
            if not self.decay(1, 1):
                return False
            numerator -= denominator
        # K coins with chances x, x/2, x/3, … come up one after the other: P[K even] = e^(−x).
        turns = 1
        while self.coin(numerator, denominator * turns):
            turns += 1
        return turns % 2 == 1

    def laplace(self, scale: Fraction) -> int:
        """Return z with a chance proportional to e^(−|z|/scale)."""
        whole, part = scale.numerator, scale.denominator
        while True:
            rest = self.below(whole)
            if not self.decay(rest, whole):
                continue
            turns = 0
            while self.decay(1, 1):
                turns += 1
            # P[rest + whole·turns = x] falls like e^(−x/whole), and part of them make one step.
            size = (rest + whole * turns) // part
            negative = self.below(2)
            # Nothing has two signs: it would come up twice as often.
            if size or not negative:
                return -size if negative else size

    def gaussian(self, scale: Fraction) -> int:
        """Return z with a chance proportional to e^(−z²/2scale²)."""
        square = scale**2
        wide = math.floor(scale) + 1
        while True:
            found = self.laplace(Fraction(wide))
            # (|z| − scale²/wide)²/2scale²: what the Gaussian falls short of the Laplace law.
            short = (abs(found) - square / wide) ** 2 / (2 * square)
            if self.decay(short.numerator, short.denominator):
                return found


def _each(words: Words) -> Iterator[int]:
    while True:
        yield from words.take(_POOL).tolist()
