"""The error that a promise would cost without a shuffler, or with a trusted centre.

Nothing here is run: these are the errors of what others would do, to compare with.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from chaffinch.privacy import NoisyTotals
from chaffinch.privacy.numerics.roots import find_largest
from chaffinch.protocols.noise import TotalsNoise
from chaffinch.protocols.tuning import gaussian_mu, gaussian_slope
from chaffinch.questions import Question

_LARGEST_EPSILON = 300.0
"""Beyond it a centre adds no noise to speak of, and masses leave the range of floats."""
_LAPLACE = "discrete Laplace"
_STEPS = 64


class _LocalResponse(NamedTuple):
    """A way to answer that trusts nobody, and what it costs."""

    name: str
    variance: float
    """Of a count, for each person asked; on average over the values, whoever holds which."""
    influence: float
    """The most that one report can move a count, in people."""


def local_choice(values: int, epsilon: float) -> _LocalResponse:
    """Return the better of two ways to send one of ``values`` values without a shuffler.

    k-ary randomized response keeps the value with chance p and sends any other with q each.
    Hashing sends one of g = e^ε + 1 buckets of a random hash function, k-ary again: p = 1/2,
    and another value falls into the bucket that is sent with q = 1/g (Wang et al. 2017).
    Optimized unary encoding has the error of hashing, and many messages. A real hash function
    has a whole number of buckets, and then a slightly larger error than this.

    >>> local_choice(2, 1.0).name, local_choice(100, 1.0).name
    ('k-ary response', 'hashing')
    """
    power = math.exp(epsilon)
    ways = {
        "k-ary response": (power / (power + values - 1), 1.0 / (power + values - 1)),
        "hashing": (0.5, 1.0 / (power + 1.0)),
    }
    found = []
    for name, (kept, other) in ways.items():
        gain = kept - other
        # Of a value that nobody holds, and what its holders add: on average 1 of ``values``.
        empty = other * (1.0 - other) / gain**2
        variance = empty + (1.0 - kept - other) / gain / values
        found.append(_LocalResponse(name, variance, 1.0 / gain))
    return min(found, key=lambda one: one.variance)


class _CentralNoise(NamedTuple):
    """Noise that a trusted centre would add to every count, or to a sum, for a promise."""

    name: str
    parameter: float
    """The ratio of neighbouring masses (Laplace), or sigma (Gaussian), in people or ranges."""
    standard_error: float
    """In people, or in ranges of a number."""
    delta: float
    """What was proven of it at the promised epsilon."""
    steps: int = 1
    """In how many whole steps of the noise one person or range is counted."""

    def margin(self, alpha: float) -> float:
        """Return what the noise exceeds with a chance of at most ``alpha``, in people or ranges.

        >>> _CentralNoise("discrete Laplace", 0.5, 2.0, 0.0).margin(0.05)
        4.0
        """
        if self.name == _LAPLACE:
            # P[|X| > k] = 2·a^(k + 1)/(1 + a) of masses like a^|k|.
            tail = math.log(alpha * (1.0 + self.parameter) / 2.0) / math.log(self.parameter)
            return max(0, math.ceil(tail * (1 - 1e-12)) - 1) / self.steps
        sigma = self.parameter * self.steps
        reach = np.arange(math.ceil(sigma * math.sqrt(-2.0 * math.log(alpha / 1e6))) + 2)
        heights = np.exp(-0.5 * (reach / sigma) ** 2) * np.where(reach > 0, 2.0, 1.0)
        within = np.cumsum(heights) / heights.sum()
        return int(np.searchsorted(within, 1.0 - alpha)) / self.steps


def central_noises(question: Question, epsilon: float, delta: float) -> list[_CentralNoise]:
    """Return the least discrete Laplace and discrete Gaussian noise that keeps a promise.

    One person who is replaced moves one count of a bit by 1, two of a choice, all of flags, and
    a sum by its range. Delta is that of the noise on whole numbers itself (``NoisyTotals``),
    not of its continuous limit.

    >>> from chaffinch.questions import Bit, Choice
    >>> for one in central_noises(Choice(["a", "b"]), 1.0, 1e-6):
    ...     print(one.name, round(one.standard_error, 3))
    discrete Laplace 2.799
    discrete Gaussian 5.978
    """
    wish = min(epsilon, _LARGEST_EPSILON), delta
    moved = {"choice": 2, "flags": len(getattr(question, "labels", ()))}.get(question.shape, 1)
    # A sum is rounded to so many steps of its range, to a small part of the noise.
    steps = max(1, min(_STEPS, round(_STEPS * epsilon))) if question.shape == "number" else 1
    found = (_least_laplace(moved, steps, *wish), _least_gaussian(moved, steps, *wish))
    return [one for one in found if one is not None]


def central_error(question: Question, epsilon: float, delta: float) -> float:
    """Return the standard error that a trusted centre needs: of a count, or of a sum in ranges.

    >>> from chaffinch.questions import Bit
    >>> round(central_error(Bit(), 1.0, 1e-6), 3)
    1.357
    """
    return min(one.standard_error for one in central_noises(question, epsilon, delta))


def central_margin(question: Question, epsilon: float, delta: float, alpha: float) -> float:
    """Return how far the intervals of a trusted centre reach: in people, or ranges of a sum.

    >>> from chaffinch.questions import Bit
    >>> central_margin(Bit(), 1.0, 1e-6, 0.05)
    3.0
    """
    return min(one.margin(alpha) for one in central_noises(question, epsilon, delta))


def people_with_centre(error: float, people: int, central: float) -> int:
    """Return how many people a centre needs for an error that is the same share of them.

    >>> people_with_centre(5.8, 10_000, 1.36)
    2345
    """
    return max(1, math.ceil(people * min(central / error, 1.0)))


def _least_laplace(moved: int, steps: int, epsilon: float, delta: float) -> _CentralNoise:
    # With so small a loss no delta is needed at all; rounded down, so that this holds in floats.
    pure = epsilon / moved / steps * (1 - 1e-12)

    def reached(loss: float) -> float:
        return _proven("laplace", loss, moved, steps).delta_bound(epsilon)

    loss = find_largest(_log_excess(reached, delta), pure, least=pure, most=2.0 * epsilon) or pure
    error = _error("laplace", loss, steps)
    return _CentralNoise(_LAPLACE, math.exp(-loss), error, reached(loss), steps)


def _least_gaussian(moved: int, steps: int, epsilon: float, delta: float) -> _CentralNoise | None:
    def reached(inverse: float) -> float:
        return _proven("gaussian", inverse, moved, steps).delta_bound(epsilon)

    mu = gaussian_mu(epsilon, delta)
    guess = mu / math.sqrt(moved) / steps
    inverse = find_largest(
        _log_excess(reached, delta),
        guess,
        least=guess / 8,
        most=8 * guess,
        slope=gaussian_slope(epsilon, mu),
    )
    if inverse is None:
        return None
    error, sigma = _error("gaussian", inverse, steps), 1.0 / inverse / steps
    return _CentralNoise("discrete Gaussian", sigma, error, reached(inverse), steps)


def _proven(law: str, inverse: float, moved: int, steps: int) -> NoisyTotals:
    return NoisyTotals(law=law, scale=1 / Fraction(inverse), counts=moved, steps=steps)


def _error(law: str, inverse: float, steps: int) -> float:
    return math.sqrt(TotalsNoise(law, 1 / Fraction(inverse)).one) / steps


def _log_excess(reached: Callable[[float], float], delta: float) -> Callable[[float], float]:
    def excess(strength: float) -> float:
        found = reached(strength)
        return math.log(found / delta) if found > 0 else -800.0

    return excess
