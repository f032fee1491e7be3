"""The tail of a sum from its cumulant function, by the formula of Lugannani and Rice (1980)."""

from __future__ import annotations

import math
from collections.abc import Callable

from chaffinch.privacy.numerics import special

Cumulants = tuple[float, float, float]
"""ln E[e^(uS)] at some u, its slope and its second derivative."""

_STEPS = 80
_EXACT = 1e-6
"""The slope is found to so many standard deviations."""
_MIDDLE = 0.1
"""Nearer to the mean, in standard deviations, the two terms of the formula cancel. Nobody asks
there for more than that the chance is not small."""


def tail_chance(cumulants: Callable[[float], Cumulants], place: float, most: float) -> float:
    """Return about P[S ≥ place] for a sum S of mean 0; ``most`` bounds the tilt u.

    Near the mean it is one half, and at most one half above it.

    >>> normal = lambda u: (u * u / 2, u, 1.0)
    >>> round(tail_chance(normal, 1.959964, 100.0), 6)
    0.025
    """
    tilt = _tilt(cumulants, place, most)
    value, _, curve = cumulants(tilt)
    if curve <= 0.0:
        # Tilted so far the sum has one value alone: what is left is Chernoff's bound, which
        # bounds this tail for a positive tilt and says nothing of it for a negative one.
        return math.exp(min(value - tilt * place, 0.0)) if tilt > 0.0 else 1.0
    root = math.copysign(math.sqrt(max(2.0 * (tilt * place - value), 0.0)), tilt)
    if abs(root) < _MIDDLE:
        return float(special.ndtr(-root))
    normal = float(special.ndtr(-root))
    density = math.exp(-0.5 * root * root) / math.sqrt(2.0 * math.pi)
    found = normal + density * (1.0 / (tilt * math.sqrt(curve)) - 1.0 / root)
    return min(max(found, 0.0), 1.0)


def _tilt(cumulants: Callable[[float], Cumulants], place: float, most: float) -> float:
    """Return the u at which the slope is ``place``, by Newton's steps between two bounds."""
    deviation = math.sqrt(max(cumulants(0.0)[2], 1e-100))
    left, right = -most, most
    tilt = min(max(place / deviation**2, left / 2), right / 2)
    for _ in range(_STEPS):
        _, slope, curve = cumulants(tilt)
        if abs(slope - place) < _EXACT * deviation:
            break
        left, right = (left, tilt) if slope > place else (tilt, right)
        further = max(2.0 * abs(tilt), 2.0 / deviation)
        step = (place - slope) / curve if curve > 0.0 else math.copysign(further, place - slope)
        tilt += min(max(step, -further), further)
        if not left < tilt < right:
            tilt = 0.5 * (left + right)
    return tilt
