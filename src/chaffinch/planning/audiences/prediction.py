"""How exact a reach will be, before anything is collected.

Expected sizes say nothing about overlaps. Publishers without a common id make the largest
reach, and the fullest and noisiest columns, so that case is what a plan predicts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from chaffinch.planning.audiences.audience import Audience
from chaffinch.planning.audiences.estimator import Columns, seen_law

Crowd = Mapping[tuple[int, ...], int]
"""How many ids were seen so often at each publisher."""


def expected(audience: Audience, crowd: Crowd, *, bits: int, hashes: int, flip: float) -> Columns:
    """Return what all columns will look like, for a crowd that is known (as in a simulation).

    A column is empty of those seen more than v with chance e^(−h·N/m), N being their number.
    """
    held = np.zeros(audience.grid)
    for seen, ids in crowd.items():
        held[seen] += ids
    at_most = held
    for axis in range(held.ndim):
        at_most = np.cumsum(at_most, axis=axis)
    empty = np.exp(-(hashes / bits) * (held.sum() - at_most))
    shares = seen_law(empty, audience, flip)
    return Columns(audience, bits, hashes, flip, shares)


def apart(sizes: Sequence[int], *, bits: int, hashes: int, flip: float) -> float:
    """Return the standard error of the reach of publishers without a common id, each seen once.

    The same as ``expected`` gives, in closed form: the rows of independent publishers are
    independent, so the moments of a column's weight are products.

    >>> round(apart([1000, 1000], bits=100_000, hashes=1, flip=0.01))
    46
    """
    right = 1.0 - flip
    loads = (hashes / bits) * np.asarray(sizes, dtype=np.float64)
    if loads.max() > 300:
        return math.inf
    empty = np.exp(-loads)
    square = (right**3 + flip**3) * empty + right * flip * (1.0 - empty)
    logarithms = np.log(square) - 2.0 * math.log(right - flip) + 2.0 * loads
    if logarithms.sum() > 600:
        return math.inf
    ratio = math.expm1(float(logarithms.sum()))
    return math.sqrt(max(bits * ratio / hashes**2 - sum(sizes) / hashes, 0.0))


def without_noise(sizes: Sequence[int], *, bits: int, hashes: int) -> float:
    """Return the part of the error that the hash makes: the limit of filters of this size."""
    return apart(sizes, bits=bits, hashes=hashes, flip=0.0)


def disjoint(audience: Audience, sizes: Sequence[int]) -> Crowd:
    """Return publishers without a common id, everybody seen once."""
    count = len(audience.publishers)
    return {
        tuple(int(place == own) for place in range(count)): size for own, size in enumerate(sizes)
    }
