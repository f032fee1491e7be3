"""How much further bits of unknown kind must lower a delta, whatever they hold."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from chaffinch.privacy.precision import WideArray


def lowered(values: WideArray, spread: float, outside: Any) -> Any:
    """Return an upper end of max over k of E[values at k − J] for any J that is spread enough.

    J is a sum of independent bits whose variances add up to V = ``spread`` (their means are
    not known). Say v(j) ≤ roof − c·min((j − m)², R²) for all j, with R² = rho·V. Because
    min(y², R²) ≥ y² − y⁴/(4R²), and E[X⁴] ≤ 3V² + V, |E[X³]| ≤ V for the centred sum X,
    E[min((X + s)², R²)] ≥ V(1 − 1/rho − 1/(2 rho²)) for every shift s when V ≥ 1 and
    rho ≥ 12 (for s² ≥ 16 V by Chebyshev, else by those moments). So the expectation stays
    below roof − c·V·(1 − 1/rho − 1/(2 rho²)), whatever k is. ``outside`` bounds v where the
    window does not reach.
    """
    return lowered_rows(np.asarray(values)[None, :], spread, outside)[0]


def lowered_rows(values: WideArray, spread: float, outside: Any) -> WideArray:
    """Return ``lowered`` for every row."""
    top: WideArray = values.max(axis=1)
    best: WideArray = np.maximum(top, outside)
    if spread < 1.0:
        return best
    for rho in (12.0, 60.0):
        radius_squared = rho * spread
        reach = math.ceil(math.sqrt(radius_squared))
        if 4 * reach > values.shape[1]:
            break
        curvature, middle = _parabola(values, top, reach)
        places = np.arange(values.shape[1], dtype=values.dtype)
        distance = np.minimum((places - middle[:, None]) ** 2, radius_squared)
        roof = (values + curvature[:, None] * distance).max(axis=1)
        roof = np.maximum(roof, outside + curvature * radius_squared)
        kept = spread * (1.0 - 1.0 / rho - 0.5 / rho**2)
        # Roof and fall are rounded a few times each, in double precision at worst.
        bound = roof * (1 + 2.0**-48) - curvature * (kept * (1 - 2.0**-40))
        best = np.minimum(best, bound)
    return best


def _parabola(values: WideArray, top: WideArray, reach: int) -> tuple[WideArray, WideArray]:
    """Return curvature and vertex of the parabola through the top and two points ``reach`` away.

    Only a guess: any curvature from 0 up and any vertex give a valid bound.
    """
    rows = np.arange(len(values))
    size = values.shape[1]
    centre = values.argmax(axis=1)
    left = values[rows, np.maximum(centre - reach, 0)]
    right = values[rows, np.minimum(centre + reach, size - 1)]
    bend = np.maximum(2 * top - left - right, np.finfo(values.dtype).tiny)
    return 0.5 * bend / reach**2, centre + 0.5 * reach * (right - left) / bend
