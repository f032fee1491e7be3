"""First guesses for a protocol's parameters, from the Gaussian limit. They prove nothing."""

from __future__ import annotations

import math
from fractions import Fraction

from scipy import special

from chaffinch.privacy.numerics.roots import bisect_real
from chaffinch.protocols.base import GRAIN


def flip_for_shift(mu: float, crowd: int, moved: float) -> Fraction:
    """Return the flip probability k/2⁶⁴ at which one person moves ``moved`` bits by mu.

    From (1 − 2q)²·moved/(crowd·q·(1 − q)) = mu², rounded up to the private side.
    """
    spread = moved / (crowd * mu * mu + 4.0 * moved)
    flip = 2.0 * spread / (1.0 + math.sqrt(max(1.0 - 4.0 * spread, 0.0)))
    return _drawable(flip)


def flip_for_local(epsilon: float) -> Fraction:
    """Return the flip probability k/2⁶⁴ of a bit that is ``epsilon`` private by itself."""
    # The factor covers the rounding of expit; the ceiling then rounds to the private side.
    return _drawable(special.expit(-epsilon * (1 - 1e-12)))


def _drawable(flip: float) -> Fraction:
    return Fraction(min(max(math.ceil(flip * GRAIN), 1), GRAIN // 2 - 1), GRAIN)


def gaussian_delta(epsilon: float, mu: float) -> float:
    """Return the delta of the Gaussian mechanism: Φ(−ε/μ + μ/2) − e^ε·Φ(−ε/μ − μ/2)."""
    here = special.log_ndtr(-epsilon / mu + mu / 2)
    there = epsilon + special.log_ndtr(-epsilon / mu - mu / 2)
    # In logarithms, because both terms underflow long before their difference matters.
    return float(math.exp(here) * -math.expm1(min(there - here, 0.0)))


def gaussian_slope(epsilon: float, mu: float) -> float:
    """Return by how much ln(delta) rises with ln(mu), or falls with ln(epsilon), about."""
    small, large = gaussian_delta(epsilon, mu), gaussian_delta(epsilon, 1.01 * mu)
    if not 0 < small < large:
        return 1.0
    return max(math.log(large / small) / math.log(1.01), 1.0)


def gaussian_mu(epsilon: float, delta: float) -> float:
    """Return the mu whose Gaussian mechanism just meets (epsilon, delta)."""

    def keeps(mu: float) -> bool:
        return gaussian_delta(epsilon, mu) <= delta

    return bisect_real(keeps, good=1e-9, bad=100.0, steps=100, geometric=True)


def gaussian_epsilon(mu: float, delta: float) -> float:
    """Return the epsilon at which the Gaussian mechanism of this mu has this delta."""

    def suffices(epsilon: float) -> bool:
        return gaussian_mu(epsilon, delta) >= mu

    return bisect_real(suffices, good=700.0, bad=1e-9, steps=100, geometric=True)
