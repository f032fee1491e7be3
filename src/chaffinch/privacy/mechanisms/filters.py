"""Bloom filters of several publishers, flipped, with their columns shuffled together (S4).

``filters`` publishers insert their audiences into filters of ``bits`` bits with the same hash
functions, flip every bit, and permute the columns with one secret permutation. The analyzer
sees how often each column (a word of as many bits as there are filters) occurs. S4 protects one
column (``FlippedFilters``); what people are promised is one id (``FlippedAudiences``).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np

from chaffinch.errors import NoParameterFound, checks
from chaffinch.privacy.guarantee import Bracket, Method
from chaffinch.privacy.mechanism import Mechanism, solve_epsilon
from chaffinch.privacy.mechanisms.records import WordMechanism, check_word_flip, least_word_flip
from chaffinch.privacy.mechanisms.signal_to_noise import SignalToNoise, check_logo_counts
from chaffinch.privacy.numerics.precision import GRAIN, Floats, log_of_power, up
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
    document_name = "flipped-filters"
    document_fields = ("filters", "bits", "flip_probability")
    document_fractions = ("flip_probability",)

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


# ----------------------------------------------------------------------------
# One user id in these filters, counted per id.
#
# S4 protects one column. An id sets a bit in up to ``hashes`` columns, at every publisher that
# has it, so two neighbours differ in up to that many columns, and what protects one column
# protects a group of them: with δ₁ the profile of one replaced column and h columns,
#
#     δ(ε) ≤ δ₁(ε/h) · (1 + e^(ε/h) + … + e^((h−1)ε/h)),
#
# one replacement after the other. That is group privacy, not composition: the columns of one
# view are not released one by one.

_MOST_HASHES = 64
_TOLERANCE, _ROUGH = 1e-7, 1e-4
_LARGEST = 600.0


@dataclass(frozen=True, init=False)
class FlippedAudiences(Mechanism):
    """``filters`` aligned filters of ``bits`` columns in which an id has ``hashes`` columns.

    Neighbours: one id more or less, at all publishers at once. ``bits`` counts the columns
    that are really flipped.

    >>> reach = FlippedAudiences(filters=3, bits=10**6, hashes=2, flip_probability="0.1")
    >>> reach.epsilon(1e-9).upper < 2 * reach.columns.epsilon(1e-10).upper
    True
    """

    filters: int
    bits: int
    hashes: int
    flip_probability: Fraction

    view = "columns"
    neighbours: ClassVar[str] = "add-remove-one-id"
    document_name = "flipped-audiences"
    document_fields = ("filters", "bits", "hashes", "flip_probability")
    document_fractions = ("flip_probability",)

    def __init__(
        self, *, filters: int, bits: int, hashes: int, flip_probability: float | str | Fraction
    ) -> None:
        columns = FlippedFilters(filters=filters, bits=bits, flip_probability=flip_probability)
        count = checks.whole("number of hashes", hashes, least=1, most=_MOST_HASHES)
        object.__setattr__(self, "filters", columns.filters)
        object.__setattr__(self, "bits", columns.bits)
        object.__setattr__(self, "hashes", count)
        object.__setattr__(self, "flip_probability", columns.flip_probability)

    @cached_property
    def columns(self) -> FlippedFilters:
        """Return the mechanism of one replaced column: S4's own guarantee."""
        return FlippedFilters(
            filters=self.filters, bits=self.bits, flip_probability=self.flip_probability
        )

    @property
    def method(self) -> Method:  # type: ignore[override]
        """Return how the numbers are found: a bound, whatever is known of one column."""
        return "upper-bound"

    @property
    def crowd_words(self) -> str:
        """Return the crowd the guarantee counts on, in words."""
        each = "one column" if self.hashes == 1 else f"up to {self.hashes} columns"
        return f"{self.bits} columns of {self.filters} flipped bits, of which an id has {each}"

    @property
    def local_epsilon(self) -> float:
        """Return hashes · filters · ln(p/q), rounded up: all that is left without the order."""
        odds = (1 - self.flip_probability) / self.flip_probability
        return log_of_power(odds, self.filters * self.hashes)

    def delta(self, epsilon: float) -> Bracket:
        """Return (one id against none at all, proven bound over everything) at ``epsilon``.

        The lower end is S4's pair, the one id's columns falling together, as they may.
        """
        wanted = checks.epsilon(epsilon)
        upper = self.delta_bound(wanted)
        # An id whose columns all fall together is one column: S4's pair is a real pair of ids.
        lower = self.columns.assumed_pair().delta(wanted, relative_width=_ROUGH).lower
        return Bracket(min(lower, upper), upper)

    def delta_bound(self, epsilon: float) -> float:
        """Return the proven bound alone."""
        wanted = checks.epsilon(epsilon)
        if wanted >= self.local_epsilon:
            return 0.0
        step = column_epsilon(wanted, self.hashes)
        return _group_delta(self.columns.proven_delta(step), step, self.hashes)

    def profile(self, epsilons: Floats) -> tuple[Floats, Floats]:
        """Return lower and upper ends of delta at many epsilons."""
        ends = [self.delta(float(epsilon)) for epsilon in np.atleast_1d(epsilons)]
        return np.array([b.lower for b in ends]), np.array([b.upper for b in ends])

    def profile_bound(self, epsilons: Floats) -> Floats:
        """Return the proven bound at many epsilons."""
        return np.array([self.delta_bound(float(epsilon)) for epsilon in np.atleast_1d(epsilons)])

    def epsilon(self, delta: float) -> Bracket:
        """Return the bracket of the smallest epsilon that holds with ``delta``."""
        wanted = checks.delta(delta)
        upper = self._upper_epsilon(self.delta_bound, wanted)
        return Bracket(min(self.columns.assumed_pair().epsilon(wanted).lower, upper), upper)

    def assumed_epsilon(self, delta: float) -> float:
        """Return the epsilon of S4's pair, counted per id: ``worst-pair-assumed``, no guarantee.

        The certified upper end for that pair of columns, in a group of ``hashes``.
        """
        pair = self.columns.assumed_pair()

        def assumed(epsilon: float) -> float:
            step = column_epsilon(epsilon, self.hashes)
            return _group_delta(pair.delta(step, relative_width=_ROUGH).upper, step, self.hashes)

        return self._upper_epsilon(assumed, checks.delta(delta))

    def _upper_epsilon(self, curve: Callable[[float], float], delta: float) -> float:
        return solve_epsilon(
            lambda epsilon: Bracket(0.0, curve(epsilon)),
            delta,
            most=self.local_epsilon,
            tolerance=_TOLERANCE,
        ).upper


def column_epsilon(epsilon: float, hashes: int) -> float:
    """Return a float at or below epsilon / hashes: the step of one column."""
    # Rounded down: a smaller step only makes the bound larger.
    return max(0.0, math.nextafter(epsilon / hashes, 0.0)) if hashes > 1 else epsilon


def group_weight(step: float, hashes: int) -> float:
    """Return 1 + e^step + … + e^((hashes − 1)·step), rounded up.

    >>> group_weight(0.5, 1), round(group_weight(0.5, 2), 6)
    (1.0, 2.648721)
    """
    if hashes == 1:
        return 1.0
    # An infinite weight makes the bound 1, which is always right.
    if step * hashes > _LARGEST:
        return math.inf
    # Each exponential is off by a few roundings; 1e-13 of the sum is room for all of them.
    return up(math.fsum(math.exp(place * step) for place in range(hashes)) * (1 + 1e-13))


def _group_delta(delta: float, step: float, hashes: int) -> float:
    return min(1.0, up(delta * group_weight(step, hashes))) if hashes > 1 and delta else delta


def audience_flip_probability(
    *, epsilon: float, delta: float, filters: int, bits: int, hashes: int
) -> Fraction:
    """Return the smallest flip probability k/2⁶⁴ proven to protect an id, up to 1e-7 of itself.

    S4's ``estimate_flip_prob`` is the case of one hash, and of the assumed pair.

    >>> flip = audience_flip_probability(epsilon=1, delta=1e-9, filters=3, bits=10**6, hashes=2)
    >>> ids = FlippedAudiences(filters=3, bits=10**6, hashes=2, flip_probability=flip)
    >>> ids.delta_bound(1) <= 1e-9
    True
    """
    wanted = checks.real("epsilon", epsilon, least=1e-9, most=_LARGEST)
    level = checks.delta(delta)
    count = checks.whole("number of hashes", hashes, least=1, most=_MOST_HASHES)
    step = column_epsilon(wanted, count)
    # Lower by more than this division and the product back may round up.
    room = level if count == 1 else level / group_weight(step, count) * (1 - 1e-12)
    return flip_probability_for(epsilon=step, delta=room, filters=filters, bits=bits)
