"""Trade-off curves: the type II error that no test can beat at each type I error (S3, corrected)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from chaffinch.errors import InvalidInput

Floats = NDArray[np.float64]
_DOUBT = 1e-15
"""Room for the handful of roundings between a proven delta and a point of the curve."""


@dataclass(frozen=True, slots=True, eq=False)
class TradeOff:
    """Both ends of a trade-off curve f at given levels: type II error no test can beat."""

    alphas: Floats
    lower: Floats
    upper: Floats

    @classmethod
    def from_profile(
        cls, alphas: Floats, epsilons: Floats, deltas: Floats, *, upper: Floats
    ) -> TradeOff:
        """Return the envelope of the lines that (epsilon, delta) pairs prove.

        Source     [Dong, Roth, Su 2022, proposition 6]: f(a) = max over epsilon of
                   0, 1 − delta − e^epsilon·a and e^−epsilon·(1 − delta − a).
        """
        growth = np.exp(epsilons)[:, None] * (1 + _DOUBT)
        steep = 1 - deltas[:, None] - growth * alphas
        flat = (1 - deltas[:, None] - alphas) / growth
        flat = np.where(flat > 0, flat, 0.0)
        lower = np.maximum(np.maximum(steep, flat).max(axis=0) - _DOUBT, 0.0)
        upper = np.minimum(upper, 1 - alphas)
        return cls(alphas, np.minimum(lower, upper), upper)


def levels_of(alphas: object) -> Floats:
    """Return type I errors as floats from 0 to 1, or refuse."""
    try:
        levels = np.atleast_1d(np.asarray(alphas, dtype=np.float64))
    except (TypeError, ValueError):
        raise InvalidInput("alphas", "a list of numbers from 0 to 1", alphas) from None
    if levels.ndim != 1 or not np.all((levels >= 0) & (levels <= 1)):
        raise InvalidInput("alphas", "a list of numbers from 0 to 1", alphas)
    return levels


def lower_hull(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Return the corners of the lower convex hull of points from (0, 1) to (1, 0).

    A convex curve that lies below some points lies below every chord between them.
    """
    order = np.lexsort((y, x))
    xs = np.concatenate([[0.0], x[order], [1.0]])
    ys = np.concatenate([[1.0], y[order], [0.0]])
    corners: list[int] = []
    for index in range(len(xs)):
        while len(corners) >= 2:
            a, b = corners[-2], corners[-1]
            turn = (xs[b] - xs[a]) * (ys[index] - ys[a]) - (ys[b] - ys[a]) * (xs[index] - xs[a])
            if turn > 0:
                break
            corners.pop()
        corners.append(index)
    return xs[corners], ys[corners]
