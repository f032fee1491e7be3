"""What it costs that reports are cut to their slots, and that too few people may be honest.

Reports have a fixed number of slots, and messages that do not fit are dropped. So the view differs
from the one that was proven with a chance of at most ``distance`` over all honest people. Two
views that were (ε, δ)-close then stay (ε, δ + (1 + e^ε)·distance)-close.

There may also be fewer honest people than were counted on. Who is honest does not depend on the
answers, so this costs its chance, the ``shortfall``, once: the hockey-stick of a mixture is at
most the mean of the hockey-sticks of its parts, and no hockey-stick is above 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from chaffinch.errors import InvalidInput, checks
from chaffinch.privacy import forms
from chaffinch.privacy.guarantee import Bracket, Method
from chaffinch.privacy.mechanism import Mechanism, solve_epsilon
from chaffinch.privacy.numerics.precision import Floats, down, up


@dataclass(frozen=True)
class Shortened(Mechanism):
    """``inner`` with a chance of at most ``distance`` that anybody's messages were cut.

    Cutting is done by each sender to their own report, so the local guarantee stays. With a
    chance of at most ``shortfall`` nothing but the local guarantee is left.

    >>> from chaffinch.privacy import FlippedBits
    >>> whole = FlippedBits(users=1000, flip_probability="0.05")
    >>> cut = Shortened(whole, Fraction(1, 10**9))
    >>> cut.delta(1.0).upper > whole.delta(1.0).upper
    True
    """

    inner: Mechanism
    distance: Fraction
    shortfall: Fraction = Fraction(0)
    document_name = "shortened"

    def __post_init__(self) -> None:
        inner: object = self.inner
        if not isinstance(inner, Mechanism) or isinstance(inner, Shortened):
            raise InvalidInput("inner mechanism", "a mechanism that is not cut yet", inner)
        distance: object = self.distance
        if not isinstance(distance, Fraction) or not 0 <= distance <= 1:
            raise InvalidInput("distance", "a Fraction from 0 to 1", distance)
        shortfall: object = self.shortfall
        if not isinstance(shortfall, Fraction) or not 0 <= shortfall <= 1:
            raise InvalidInput("shortfall", "a Fraction from 0 to 1", shortfall)

    def written(self, document_of: Callable[[Mechanism], dict[str, Any]]) -> dict[str, Any]:
        """Return what is cut, and the document of what is cut from."""
        short = self.shortfall
        # Mechanisms without one are written as they were before there was any.
        some = {"shortfall": forms.fraction_text("shortfall", short)} if short else {}
        distance = forms.fraction_text("distance", self.distance)
        return {"distance": distance, "inner": document_of(self.inner)} | some

    @classmethod
    def from_written(
        cls, fields: dict[str, Any], mechanism_of: Callable[[object], Mechanism]
    ) -> Shortened:
        """Return the mechanism with these parameters."""
        short = forms.fraction_from("shortfall", fields.pop("shortfall", "0/2^64"))
        forms.check_fields(cls.__name__, fields, ("distance", "inner"))
        distance = forms.fraction_from("distance", fields["distance"])
        return cls(mechanism_of(fields["inner"]), distance, short)

    @property
    def neighbours(self) -> str:  # type: ignore[override]
        """Return the neighbours of the inner mechanism."""
        return self.inner.neighbours

    @property
    def takes_minutes(self) -> bool:
        """Return whether the inner mechanism has no quick way."""
        return self.inner.takes_minutes

    @property
    def view(self) -> str:  # type: ignore[override]
        """Return the view of the inner mechanism."""
        return self.inner.view

    @property
    def method(self) -> Method:  # type: ignore[override]
        """Return the method of the inner mechanism: cutting is added on both sides.

        At the worst there is no shortfall: it is added to the upper end alone.
        """
        return self.inner.method

    @property
    def crowd_words(self) -> str:
        """Return the crowd of the inner mechanism."""
        return self.inner.crowd_words

    @property
    def local_epsilon(self) -> float:
        """Return the local guarantee, which cutting does not touch."""
        return self.inner.local_epsilon

    def delta(self, epsilon: float) -> Bracket:
        """Return the bracket of delta with what cutting may change."""
        epsilon = checks.epsilon(epsilon)
        if epsilon >= self.local_epsilon:
            return Bracket(0.0, 0.0)
        whole, cut = self.inner.delta(epsilon), cutting_cost(self.distance, epsilon)
        upper = min(up(whole.upper + self._cost(epsilon)), 1.0)
        # Cutting moves delta either way by its cost at most. A shortfall has a chance of at most so
        # much, which may be 0: it raises the upper end alone.
        return Bracket(down(whole.lower - cut), upper)

    def cutting(self, epsilon: float) -> float:
        """Return what cutting, and too few honest people, cost of delta."""
        return 0.0 if epsilon >= self.local_epsilon else self._cost(epsilon)

    def delta_bound(self, epsilon: float) -> float:
        """Return an upper end of delta, quickly."""
        if epsilon >= self.local_epsilon:
            return 0.0
        cut = self._cost(epsilon)
        # Where nearly everything is cut, nothing is left to be said of the rest.
        return 1.0 if cut >= 1 else min(up(self.inner.delta_bound(epsilon) + cut), 1.0)

    def nodes(self) -> Floats:
        """Return the epsilons that describe the inner profile: cutting bends it nowhere else."""
        return self.inner.nodes()

    def quick_nodes(self) -> Floats:
        """Return the quick nodes of the inner profile."""
        return self.inner.quick_nodes()

    def profile(self, epsilons: Floats) -> tuple[Floats, Floats]:
        """Return both ends of delta at many epsilons."""
        ends = [self.delta(float(epsilon)) for epsilon in epsilons]
        return np.array([e.lower for e in ends]), np.array([e.upper for e in ends])

    def profile_bound(self, epsilons: Floats) -> Floats:
        """Return upper ends of delta at many epsilons, quickly."""
        costs = [self._cost(float(epsilon)) for epsilon in epsilons]
        # A sum is rounded to the nearest float: the next one above it is not too small.
        upper = np.nextafter(self.inner.profile_bound(epsilons) + np.array(costs), np.inf)
        return np.where(epsilons >= self.local_epsilon, 0.0, np.minimum(upper, 1.0))

    def epsilon(self, delta: float) -> Bracket:
        """Return the bracket of the smallest epsilon that holds with ``delta``."""
        target = checks.delta(delta)
        upper = min(self._upper_epsilon(target), self.local_epsilon)
        lower = self.inner.epsilon(target).lower
        # Cutting may also help; walk down until delta is proven to be too large still.
        for _ in range(200):
            if lower < 1e-9 or self.delta(lower).lower > target:
                return Bracket(min(lower, upper), upper)
            lower *= 0.999
        return Bracket(0.0, upper)

    def _cost(self, epsilon: float) -> float:
        return cutting_cost(self.distance, epsilon, shortfall=self.shortfall)

    def _upper_epsilon(self, target: float) -> float:
        # What cutting costs grows with e^ε, which is not known before. So the inner epsilon is
        # asked at a little less than the target, and each answer is checked with the whole cost.
        for room in (1.0, 0.999, 0.99, 0.9, 0.5):
            upper = self.inner.epsilon(room * target).upper
            if math.isinf(upper):
                break
            if self.delta(upper).upper <= target:
                return upper
        return solve_epsilon(self.delta, target, most=self.local_epsilon).upper


def cutting_cost(distance: Fraction, epsilon: float, *, shortfall: Fraction = Fraction(0)) -> float:
    """Return (1 + e^ε)·distance + shortfall, rounded up: what they cost of delta."""
    if shortfall:
        lost = max(float(shortfall), 1e-300) * (1 + 1e-14)
        return min(up(cutting_cost(distance, epsilon) + lost), 1.0)
    if distance == 0:
        return 0.0
    # P ≤ P̃ + τ and Q̃ ≤ Q + τ turn P̃ ≤ e^ε·Q̃ + δ into P ≤ e^ε·Q + δ + (1 + e^ε)·τ.
    # A smaller chance is no longer right to the digits of a float. From ε = 700 on all is lost.
    chance = max(float(distance), 1e-300)
    return min(up((1 + math.exp(min(epsilon, 700.0))) * chance * (1 + 1e-14)), 1.0)
