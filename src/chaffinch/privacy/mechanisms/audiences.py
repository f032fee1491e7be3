"""One user id in the flipped, shuffled filters of several publishers (S4, counted per id).

S4 protects one column. An id sets a bit in up to ``hashes`` columns, at every publisher that
has it, so two neighbours differ in up to that many columns, and what protects one column
protects a group of them: with δ₁ the profile of one replaced column and h columns,

    δ(ε) ≤ δ₁(ε/h) · (1 + e^(ε/h) + … + e^((h−1)ε/h)),

one replacement after the other. That is group privacy, not composition: the columns of one
view are not released one by one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np

from chaffinch.errors import checks
from chaffinch.privacy.guarantee import Bracket, Method
from chaffinch.privacy.mechanism import Mechanism, solve_epsilon
from chaffinch.privacy.mechanisms.filters import FlippedFilters, flip_probability_for
from chaffinch.privacy.numerics.precision import Floats, log_of_power, up

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
        upper = self._solve(self.delta_bound, wanted)
        return Bracket(min(self.columns.assumed_pair().epsilon(wanted).lower, upper), upper)

    def assumed_epsilon(self, delta: float) -> float:
        """Return the epsilon of S4's pair, counted per id: ``worst-pair-assumed``, no guarantee.

        The certified upper end for that pair of columns, in a group of ``hashes``.
        """
        pair = self.columns.assumed_pair()

        def assumed(epsilon: float) -> float:
            step = column_epsilon(epsilon, self.hashes)
            return _group_delta(pair.delta(step, relative_width=_ROUGH).upper, step, self.hashes)

        return self._solve(assumed, checks.delta(delta))

    def _solve(self, curve: Callable[[float], float], delta: float) -> float:
        """Return an epsilon, rounded up, at which a curve of upper ends is within delta."""
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
    """Return the delta of an id whose columns move one after the other (group privacy)."""
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
