"""What a promise would cost elsewhere: without any shuffler, or with a trusted centre.

Nothing here is run: these are the errors of what others would do, to compare with.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from chaffinch.protocols.tuning import gaussian_mu
from chaffinch.questions import Question


class LocalResponse(NamedTuple):
    """A way to answer that trusts nobody, and what it costs."""

    name: str
    variance: float
    """Of a count, for each person asked; on average over the values, whoever holds which."""
    influence: float
    """The most that one report can move a count, in people."""


def local_choice(values: int, epsilon: float) -> LocalResponse:
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
        found.append(LocalResponse(name, variance, 1.0 / gain))
    return min(found, key=lambda one: one.variance)


def central_error(question: Question, epsilon: float, delta: float) -> float:
    """Return the standard error that a trusted centre needs: of a count, or of a sum in ranges.

    The smaller of (discrete) Laplace and Gaussian noise, calibrated exactly. One person who is
    replaced moves one count of a bit, two of a choice, all of flags, and a sum by its range.

    >>> from chaffinch.questions import Bit, Choice
    >>> [round(central_error(one, 1.0, 1e-6), 3) for one in (Bit(), Choice(["a", "b"]))]
    [1.357, 2.799]
    """
    moved = {"choice": 2, "flags": len(getattr(question, "labels", ()))}.get(question.shape, 1)
    gaussian = math.sqrt(moved) / gaussian_mu(epsilon, delta)
    if question.shape == "number":
        return min(math.sqrt(2.0) / epsilon, gaussian)
    ratio = math.exp(-epsilon / moved)
    return min(math.sqrt(2.0 * ratio) / (1.0 - ratio), gaussian)
