"""Composition of one fixed pair over many rounds, in floats: good to about eight digits.

Losses are put on a fine grid so that each keeps its mean (the mass is shared between the two
nearest points), which leaves an error of second order in the step. Not certified: it judges
printed digits, and ``mpm.composed_deltas`` judges brackets where enumeration is possible.
"""

from __future__ import annotations

import math

import numpy as np
from flint import arb
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def losses_of(first: list[arb], second: list[arb]) -> tuple[Floats, Floats]:
    """Return ln(first/second) and the first law's weights, dropping weights below 1e-200."""
    kept = [(a, b) for a, b in zip(first, second, strict=True) if a > 1e-200]
    return (
        np.array([float((a / b).log()) for a, b in kept]),
        np.array([float(a) for a, _ in kept]),
    )


def composed_epsilon(
    losses: Floats, weights: Floats, rounds: int, delta: float, step: float
) -> float:
    """Return epsilon at ``delta`` for ``rounds`` independent rounds of one pair."""
    grid, law = _composed(losses, weights, rounds, step)
    low, high = 0.0, float(rounds * losses.max())
    for _ in range(60):
        middle = 0.5 * (low + high)
        over = grid > middle
        found = float(np.sum(law[over] * -np.expm1(middle - grid[over])))
        low, high = (middle, high) if found > delta else (low, middle)
    return high


def _composed(losses: Floats, weights: Floats, rounds: int, step: float) -> tuple[Floats, Floats]:
    """Return the grid and the law of the summed loss on it."""
    low = math.floor(losses.min() / step)
    place = losses / step - low
    left = np.floor(place).astype(np.int64)
    share = place - left
    one = np.bincount(left, weights * (1 - share), minlength=int(left.max()) + 2)
    one += np.bincount(left + 1, weights * share, minlength=int(left.max()) + 2)
    size = rounds * (len(one) - 1) + 1
    power = np.fft.irfft(np.fft.rfft(one, 1 << size.bit_length()) ** rounds)[:size]
    grid = (np.arange(size) + rounds * low) * step
    return grid.astype(np.float64), np.maximum(power, 0.0)
