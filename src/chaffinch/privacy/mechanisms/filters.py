"""Bloom filters of several publishers, flipped, with their columns shuffled together (S4).

``filters`` publishers insert their audiences into filters of ``bits`` bits with the same hash
functions, flip every bit, and permute the columns with one secret permutation. The analyzer
sees how often each column (a word of as many bits as there are filters) occurs.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from chaffinch.errors import NoParameterFound, checks
from chaffinch.privacy.mechanisms.records import WordMechanism, check_word_flip, least_word_flip
from chaffinch.privacy.mechanisms.signal_to_noise import SignalToNoise, check_logo_counts
from chaffinch.privacy.numerics.precision import GRAIN
from chaffinch.privacy.numerics.roots import find_crossing

_MOST_FILTERS = 20
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
        length = checks.whole("number of filters", filters, least=1, most=_MOST_FILTERS)
        object.__setattr__(self, "filters", length)
        object.__setattr__(self, "bits", checks.whole("number of bits", bits, least=1))
        object.__setattr__(self, "flip_probability", check_word_flip(flip_probability, length))

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
        counts = check_logo_counts(logo_counts, self.filters, self.bits)
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
    length = checks.whole("number of filters", filters, least=1, most=_MOST_FILTERS)
    checks.whole("number of bits", bits, least=1)

    def reached(numerator: int) -> float:
        """Return the delta of a flip probability, by the method that was asked for."""
        flip = Fraction(numerator, GRAIN)
        mechanism = FlippedFilters(filters=length, bits=bits, flip_probability=flip)
        if proven:
            return mechanism.proven_delta(wanted)
        return mechanism.assumed_pair().delta(wanted, relative_width=1e-4).upper

    least, most = -(-least_word_flip(length) * GRAIN // 1), GRAIN // 2 - 1
    if reached(most) > level:
        raise NoParameterFound(
            f"The target must be within reach. Got epsilon {wanted:g} and delta {level:g}, "
            "which no flip probability below one half meets.",
            hint="a delta this small needs a larger epsilon",
        )
    # Below the least probability a word has too small a chance to be counted with.
    span = most - least
    # The search runs over the share of the way from the least to the most.
    place = find_crossing(
        lambda share: reached(least + int(share * span)),
        level,
        top=1.0,
        tolerance=_FLIP_TOLERANCE,
        guess=0.1,
    )[1]
    return Fraction(least + int(place * span), GRAIN)
