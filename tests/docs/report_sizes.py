"""What sizes of reports would tell about signed decoys, if the analyzer saw them.

In a large crowd a report holds one burst at most: k pluses or k minuses at the rate a^k/k, or k
pairs at the rate λ_k. Who sees which sizes were sent knows a good deal of the noise. Given how
many bursts of each group were sent, plus − minus is a sum of independent bursts, whose law is a
product of transforms; delta is the mean of its hockey-stick over what may have been sent.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

RATIO, GROWTH, PAIRS, LAST = math.exp(-0.4), math.exp(0.2), 16, 1.17650116949259026
"""The flat flood of a bit for epsilon 1 and delta 1e-6, .8 of epsilon for the count."""
LONGEST, WIDTH, TOTAL = 60, 128, 1024
Bursts = list[tuple[int, int, float]]
Shape = NDArray[np.complex128]


def bursts() -> Bursts:
    """Return (plus − minus, messages, rate) of every kind of burst."""
    single = [(sign * k, k, RATIO**k / k) for k in range(1, LONGEST) for sign in (1, -1)]
    flat = [(GROWTH**k - RATIO ** (2 * k)) / k for k in range(1, PAIRS)] + [LAST]
    return single + [(0, 2 * k, rate) for k, rate in enumerate(flat, start=1)]


def transform(kinds: Bursts, total: int = TOTAL) -> Shape:
    """Return the transform of the rates over (plus − minus, messages), both round a circle."""
    grid = np.zeros((WIDTH, total))
    for difference, messages, rate in kinds:
        grid[difference % WIDTH, messages % total] += rate
    return np.fft.fft2(grid)


def hockey_stick(law: NDArray[np.float64], epsilon: float) -> float:
    """Return delta of a yes, which moves plus − minus up by one, against a no."""
    yes, no = np.roll(law, 1, axis=0), np.roll(law, -1, axis=0)
    return float(np.maximum(yes - math.exp(epsilon) * no, 0.0).sum())


def delta_alone() -> float:
    """Return delta at epsilon 1 of what the analyzer is meant to see."""
    rates = transform(bursts())
    return hockey_stick(np.fft.ifft2(np.exp(rates - rates[0, 0])).real, 1.0)


def delta_with(group: Callable[[int], int], samples: int, seed: int) -> tuple[float, float]:
    """Return delta at epsilon 1 for who sees the group of each size too, and its error."""
    # Who sees the sizes knows how many messages there are.
    total = 1 if group is exact_size else TOTAL
    groups: dict[int, Bursts] = {}
    for burst in bursts():
        groups.setdefault(group(burst[1]), []).append(burst)
    shapes = [transform(kinds, total) for kinds in groups.values()]
    rates = [sum(rate for _, _, rate in kinds) for kinds in groups.values()]
    draws, found = np.random.default_rng(seed), []
    for _ in range(samples):
        product = np.ones((WIDTH, total), np.complex128)
        for shape, rate in zip(shapes, rates, strict=True):
            if count := int(draws.poisson(rate)):
                product *= (shape / rate) ** count
        found.append(hockey_stick(np.fft.ifft2(product).real, 1.0))
    return float(np.mean(found)), float(np.std(found)) / math.sqrt(samples)


def exact_size(messages: int) -> int:
    """Return the size itself."""
    return messages


def doubled_size(messages: int) -> int:
    """Return the class of a size when lengths are rounded up to a power of two."""
    return (messages - 1).bit_length()


def size_in_fours(messages: int) -> int:
    """Return the class of a size when lengths are rounded up to a multiple of four."""
    return -(-messages // 4)


def any_size(messages: int) -> int:
    """Return one class for every report with noise: who sent any shows, and nothing more."""
    return min(messages, 1)
