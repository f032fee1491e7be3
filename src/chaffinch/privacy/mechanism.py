"""The face every mechanism shows: the questions that can be asked of it.

A mechanism answers ``delta(epsilon)`` with a proven bracket; everything else has a
default that follows from it, and a family with a sharper way overrides the default.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from chaffinch import checks
from chaffinch.errors import GuaranteeNotProven
from chaffinch.privacy.guarantee import Bracket, Guarantee, Method

Floats = NDArray[np.float64]


class Mechanism(ABC):
    """Something that randomizes, shuffles, and shows one view of the result."""

    neighbours: ClassVar[str] = "replace-one"
    view: str
    method: Method

    @property
    @abstractmethod
    def crowd_words(self) -> str:
        """Return the crowd the guarantee counts on, in words."""

    @property
    @abstractmethod
    def local_epsilon(self) -> float:
        """Return what is left when shuffler and analyzer collude (rounded up; may be inf)."""

    @abstractmethod
    def delta(self, epsilon: float) -> Bracket:
        """Return the bracket of the hockey-stick delta, worst crowd and both directions."""

    @abstractmethod
    def profile(self, epsilons: Floats) -> tuple[Floats, Floats]:
        """Return lower and upper ends of delta at many epsilons (all ≥ 0) at once."""

    def epsilon(self, delta: float) -> Bracket:
        """Return the bracket of the smallest epsilon that holds with ``delta``.

        By bisection on the certified delta: the upper end is an epsilon at which the
        upper end of delta was seen to be small enough.
        """
        target = checks.delta(delta)
        return epsilon_by_bisection(self, target)

    def guarantee(self, *, delta: float) -> Guarantee:
        """Return the promise at ``delta`` with everything it depends on."""
        return Guarantee(
            epsilon=self.epsilon(delta).upper,
            delta=delta,
            neighbours=self.neighbours,
            view=self.view,
            crowd=self.crowd_words,
            local_epsilon=self.local_epsilon,
            method=self.method,
        )


def epsilon_by_bisection(mechanism: Mechanism, delta: float, *, steps: int = 60) -> Bracket:
    """Return epsilon brackets from a mechanism that only knows its delta."""
    if mechanism.delta(0.0).upper <= delta:
        return Bracket(0.0, 0.0)
    top = 1.0
    while mechanism.delta(top).upper > delta:
        if top >= mechanism.local_epsilon or top > 2.0**20:
            low = 0.0
            raise GuaranteeNotProven("epsilon", asked=1.0, lower=low, upper=math.inf)
        top = min(2.0 * top, mechanism.local_epsilon)
    safe = _last_true(lambda e: mechanism.delta(e).upper <= delta, 0.0, top, steps)
    sure = _last_true(lambda e: mechanism.delta(e).lower <= delta, 0.0, safe[1], steps)
    return Bracket(sure[0], safe[1])


def _last_true(holds: object, low: float, high: float, steps: int) -> tuple[float, float]:
    """Bisect between a ``low`` where ``holds`` fails and a ``high`` where it is true."""
    assert callable(holds)
    for _ in range(steps):
        middle = 0.5 * (low + high)
        if middle in (low, high):
            break
        if holds(middle):
            high = middle
        else:
            low = middle
    return low, high
