"""The exact view of two values when decoys fall on them at random: a lower end for delta.

A decoy is on the first value, on the second, or on neither, so the two sums are no longer
independent and the likelihood ratio is no product. But the records are, so the Fourier
transform of the joint law is a product of powers, and the hockey-stick is a sum over a grid.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from chaffinch.privacy.laws import half_width

_ROUNDOFF = 2.0**-53
_TAIL = 1e-22
_MOST_CELLS = 4_000_000

Complex = NDArray[np.complex128]


def mixture_delta(
    *, first: int, second: int, users: int, decoys: int, values: int, flip: Fraction, epsilon: float
) -> float:
    """Return a lower end of delta for one crowd among ``decoys`` random decoys.

    ``first`` and ``second`` of the ``users`` − 1 others hold the two values. Returns 0 where
    the grid would be too large: a valid, if idle, lower end.
    """
    wrong, right = float(flip), float(1 - flip)
    records = users + decoys
    size = _size(records * wrong * right + 2 * decoys / values)
    if size * size > _MOST_CELLS:
        return 0.0
    step = np.exp(-2j * np.pi * np.fft.fftfreq(size))
    zero, one = right + wrong * step, wrong + right * step
    others = users - 1
    share = 1.0 / values
    none = (zero[:, None], zero[None, :])
    parts = [
        (_outer(one, zero), first),
        (_outer(zero, one), second),
        (none[0] * none[1], others - first - second),
        (
            share * (_outer(one, zero) + _outer(zero, one)) + (1 - 2 * share) * none[0] * none[1],
            decoys,
        ),
    ]
    log, size_of_log = _log_power(parts)
    stay = np.exp(log) * _outer(one, zero)
    move = np.exp(log) * _outer(zero, one)
    # The exponent is off by a few roundoffs of its terms; Parseval turns that into the grid's.
    doubt = np.abs(stay) * np.minimum((8 * _ROUNDOFF) * (8 + size_of_log), 1.0)
    transform = 16 * _ROUNDOFF * math.log2(size * size) * float(np.sqrt((np.abs(stay) ** 2).mean()))
    error = size * (float(np.sqrt((doubt**2).mean())) + transform)
    growth = math.exp(epsilon)
    here, there = np.fft.ifft2(stay).real, np.fft.ifft2(move).real
    total = float(np.maximum(here - growth * there, 0.0).sum())
    # Mass outside the grid wraps around: at most 4·tail of either law.
    slack = (1 + growth) * (error + 8 * _TAIL + 4 * _ROUNDOFF)
    return max(0.0, total * (1 - 1e-13 - 64 * _ROUNDOFF * records) - slack)


def _size(variance: float) -> int:
    return 1 << (2 * half_width(variance, _TAIL) + 4).bit_length()


def _outer(rows: Complex, columns: Complex) -> Complex:
    return np.asarray(rows[:, None] * columns[None, :])


def _log_power(parts: list[tuple[Complex, int]]) -> tuple[Complex, NDArray[np.float64]]:
    """Return Σ count·log(part) and Σ count·|log(part)|."""
    total = np.zeros(parts[0][0].shape, dtype=np.complex128)
    size = np.zeros(parts[0][0].shape)
    for part, count in parts:
        if count:
            with np.errstate(divide="ignore"):
                log = np.log(part)
            log = np.where(np.isfinite(log), log, -1e6)
            total += count * log
            # A part is off by a few roundoffs of 1, whatever its logarithm is.
            size += count * (np.abs(log) + 4.0 / np.maximum(np.abs(part), 1e-300))
    # Where the product is below e^−700 it is nothing, and its phase does not matter.
    return np.where(total.real < -700, -700 + 0j, total), size
