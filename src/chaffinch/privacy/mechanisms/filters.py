"""Bloom filters of several publishers, flipped, with their columns shuffled together (S4).

``filters`` publishers insert their audiences into filters of ``bits`` bits with the same hash
functions, flip every bit, and permute the columns with one secret permutation. The analyzer
sees how often each column (a word of as many bits as there are filters) occurs.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from chaffinch import checks
from chaffinch.errors import NoParameterFound
from chaffinch.privacy.mechanisms.records import WordMechanism, checked_flip, least_flip
from chaffinch.privacy.mechanisms.signal_to_noise import SignalToNoise, checked_counts
from chaffinch.privacy.numerics.precision import GRAIN, Floats
from chaffinch.privacy.numerics.roots import find_crossing

MOST_FILTERS = 20
_FLIP_TOLERANCE = 1e-7


@dataclass(frozen=True, init=False)
class FlippedFilters(WordMechanism):
    """``filters`` aligned filters of ``bits`` columns, every bit flipped, columns shuffled.

    Neighbours replace one **column**. A user id sets up to as many columns as there are hash
    functions, and twice that when one id replaces another: the guarantee is per column.
    ``bits`` counts the columns that the publishers really flip, the target's among them.

    >>> reach = FlippedFilters(filters=3, bits=10_000, flip_probability="0.2")
    >>> reach.view, reach.epsilon(1e-6).upper < 0.42
    ('columns', True)
    """

    filters: int
    bits: int
    flip_probability: Fraction

    view = "columns"
    neighbours: ClassVar[str] = "replace-one-column"

    def __init__(
        self, *, filters: int, bits: int, flip_probability: float | str | Fraction
    ) -> None:
        length = checks.whole("number of filters", filters, least=1, most=MOST_FILTERS)
        object.__setattr__(self, "filters", length)
        object.__setattr__(self, "bits", checks.whole("number of bits", bits, least=1))
        object.__setattr__(self, "flip_probability", checked_flip(flip_probability, length))

    @property
    def records(self) -> int:
        """Return the number of columns released."""
        return self.bits

    @property
    def length(self) -> int:
        """Return the number of bits of a column."""
        return self.filters

    @property
    def crowd_words(self) -> str:
        """Return the crowd the guarantee counts on, in words."""
        return (
            f"{self.bits} columns of {self.filters} flipped bits, per column "
            "(a user id touches as many columns as there are hash functions)"
        )

    def signal_to_noise(self, logo_counts: object = None) -> SignalToNoise:
        """Return S4's signal to noise of moving one column, for given true logo counts.

        Without counts all columns are on logo 0, where the ratio is largest: between logos 0
        and 2^k − 1 it is then (t^k − 1)/bits with t = p²/q + q²/p. It ranks moves; it is no
        guarantee.

        >>> FlippedFilters(filters=3, bits=141, flip_probability="0.2").signal_to_noise(
        ...     [10, 100, 10, 5, 5, 5, 5, 1]
        ... ).largest()[0]
        (1, 6)
        """
        counts = checked_counts(logo_counts, self.filters, self.bits)
        return SignalToNoise(counts, float(self.flip_probability))


def flip_probability_for(
    *, epsilon: float, delta: float, filters: int, bits: int, method: str = "proven"
) -> Fraction:
    """Return the smallest flip probability k/2⁶⁴ that meets a target, up to 1e-7 of itself.

    ``method`` is "proven" (the bound over all crowds and columns) or "assumed" (the sources'
    pair, S4 III.2: no guarantee). What is returned was checked to meet the target.

    >>> flip = flip_probability_for(epsilon=1, delta=1e-6, filters=2, bits=10_000)
    >>> FlippedFilters(filters=2, bits=10_000, flip_probability=flip).delta(1).upper <= 1e-6
    True
    """
    wanted, level = checks.epsilon(epsilon), checks.delta(delta)
    proven = checks.choice("method", method, ("proven", "assumed")) == "proven"
    length = checks.whole("number of filters", filters, least=1, most=MOST_FILTERS)
    checks.whole("number of bits", bits, least=1)

    def reached(numerator: int) -> float:
        flip = Fraction(numerator, GRAIN)
        mechanism = FlippedFilters(filters=length, bits=bits, flip_probability=flip)
        if proven:
            return mechanism.proven_delta(wanted)
        return mechanism.assumed_pair().delta(wanted, relative_width=1e-4).upper

    least, most = -(-least_flip(length) * GRAIN // 1), GRAIN // 2 - 1
    if reached(most) > level:
        raise NoParameterFound(
            f"The target must be within reach. Got epsilon {wanted:g} and delta {level:g}, "
            "which no flip probability below one half meets.",
            hint="a delta this small needs a larger epsilon",
        )
    span = most - least
    place = find_crossing(
        lambda share: reached(least + int(share * span)),
        level,
        top=1.0,
        tolerance=_FLIP_TOLERANCE,
        guess=0.1,
    )[1]
    return Fraction(least + int(place * span), GRAIN)


# ----------------------------------------------------------------------------
# One filter: the ratio of two chances of a number of set bits (S4 part II, corrected).
#
# A filter of m bits with y_d set, or y_d + 1 set, is flipped with q and y_x set bits are seen.
# With ξ₁ ~ Hypergeometric(m, y_d+1, y_x), ξ₂ ~ Hypergeometric(m, y_d, y_x) and z = (p/q)²,
#
#     R(y_x | y_d) = (q/p) · E[z^ξ₁] / E[z^ξ₂].
#
# Two ways: the expectations themselves, which hold everywhere, and Gauss's continued fraction
# for the quotient of two ₂F₁, which needs y_d + y_x < m. Beyond it the mirror image
# R(y_x | y_d) = 1/R(m − y_x | m − 1 − y_d) serves.

MOST_BITS = 10**7
_NEGLIGIBLE = 1e-30


def one_filter_ratio(
    *,
    bits: int,
    input_ones: int,
    output_ones: int,
    flip_probability: float | str | Fraction,
    by: str = "expectations",
) -> float:
    """Return P[output_ones | input_ones + 1] / P[output_ones | input_ones].

    ``by`` is "expectations" or "continued-fraction"; they agree to about 1e-14.

    >>> one_filter_ratio(bits=1, input_ones=0, output_ones=1, flip_probability="0.25")
    3.0
    """
    size = checks.whole("number of bits", bits, least=1, most=MOST_BITS)
    ones = checks.whole("number of input ones", input_ones, most=size - 1)
    shown = checks.whole("number of output ones", output_ones, most=size)
    flip = checks.flip_probability(flip_probability)
    way = checks.choice("way", by, ("expectations", "continued-fraction"))
    odds = float((1 - flip) / flip)
    if way == "expectations":
        return _by_expectations(size, ones, shown, odds)
    if ones + shown >= size:
        return 1.0 / _by_fraction(size, size - 1 - ones, size - shown, odds)
    return _by_fraction(size, ones, shown, odds)


def _by_expectations(bits: int, ones: int, shown: int, odds: float) -> float:
    """Return (1/odds)·E[z^ξ₁]/E[z^ξ₂] as one mean over the terms of the second expectation.

    Term i of the first is term i of the second times
    (K+1)(m−K−n+i) / ((K+1−i)(m−K)); besides, the first has a term i = K + 1 when n > K. All
    terms are positive, and errors of the common weights cancel.
    """
    first, last = max(0, ones + shown - bits), min(ones, shown)
    i = np.arange(first, last + 1, dtype=np.float64)
    weights = _tilted(bits, ones, shown, odds * odds, i)
    links = (ones + 1) * (bits - ones - shown + i) / ((ones + 1 - i) * (bits - ones))
    total = float(weights @ links)
    if shown > ones:
        total += float(weights[-1]) * odds * odds * (shown - ones) / (bits - ones)
    return total / float(weights.sum()) / odds


def _tilted(bits: int, ones: int, shown: int, z: float, i: Floats) -> Floats:
    """Return C(K, i)·C(m−K, n−i)·zⁱ over its largest value, by ratios of neighbours."""
    ratios = (ones - i[:-1]) * (shown - i[:-1]) * z
    ratios = ratios / ((i[:-1] + 1) * (bits - ones - shown + i[:-1] + 1))
    # The ratios fall, so the mode is where they pass one.
    mode = int(np.searchsorted(-ratios, -1.0))
    weights = np.ones(len(i))
    weights[mode + 1 :] = np.cumprod(ratios[mode:])
    weights[:mode] = np.cumprod(1.0 / ratios[:mode][::-1])[::-1]
    weights[weights < _NEGLIGIBLE] = 0.0
    return weights


def _by_fraction(bits: int, ones: int, shown: int, odds: float) -> float:
    """Return the ratio by Gauss's continued fraction, for ones + shown < bits.

    a = −y_d − 1, b = −y_x, c = m − y_x − y_d; the fraction ends by itself after
    min(2·y_d + 1, 2·y_x) terms, all of them positive, so the backward recursion is stable.
    """
    a, b, c, z = -ones - 1, -shown, bits - shown - ones, odds * odds
    i = np.arange(min(2 * ones + 2, 2 * shown + 1), dtype=np.float64)
    half = np.ceil(i / 2)
    odd = (b - c - half) * (a + half)
    even = (a - c - half) * (b + half)
    terms = np.where(i % 2 == 1, odd, even) / ((c + i) * (c + i + 1)) * z
    value = 1.0
    for term in terms[::-1].tolist():
        value = 1.0 + term / value
    return (bits - ones - shown) / (bits - ones) * value / odds
