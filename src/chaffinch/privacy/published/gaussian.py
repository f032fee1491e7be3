"""S3 (Chen and Long, 2021): trade-off function and Gaussian parameter of a shuffled bit.

S3 writes λ for the expected number of users who answer at random; a bit is then reported
wrongly with q = λ/(2n), and F is the distribution function of Bin(n, q).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from chaffinch import checks
from chaffinch.errors import InvalidInput
from chaffinch.privacy.published.formula import Formula, flip

_LARGEST = 10**6


def shifted_binomial_tradeoff(
    alphas: ArrayLike, *, users: int, flip_probability: float
) -> NDArray[np.float64]:
    """Return S3 Theorem 2, f(α) = 1 − F(F⁻¹(α) + 1), at each α.

    F⁻¹(α) is the least k with F(k) ≥ α, and −1 at α = 0. Domain: 0 ≤ α ≤ 1, up to a million
    users. Defect: not a guarantee. It compares a binomial with itself shifted by one, in one
    order, at the knots only; the protocol is less private than that for small λ (at n = 100,
    λ = 1 the claim is too good by 0.088 at α = 0.6) and more private for large λ.
    """
    levels = _levels(alphas)
    distribution = _distribution(users, flip_probability)
    index = np.searchsorted(distribution, levels) - (levels == 0.0)
    index = np.minimum(index, len(distribution) - 1)
    reached = np.append(distribution, 1.0)[index + 1]
    return np.asarray(1.0 - reached, dtype=np.float64)


def shifted_binomial_mu(
    *, users: int, flip_probability: float, alphas: ArrayLike | None = None
) -> float:
    """Return S3 Corollary 3.2, μ* = max over α of Φ⁻¹(1−α) − Φ⁻¹(1 − F(F⁻¹(α)+1)).

    Domain: up to a million users. Defect: over the whole interval, as printed, it is infinite,
    because f(α) = 0 from α = F(n−1) < 1 on. Give ``alphas`` to see what a figure that stops
    short of there would show.

    >>> shifted_binomial_mu(users=100, flip_probability=0.29)
    inf
    """
    if alphas is None:
        checks.whole("users", users, least=1, most=_LARGEST)
        flip(flip_probability)
        return math.inf
    levels = _levels(alphas)
    if levels.size == 0 or not (np.all(levels > 0.0) and np.all(levels < 1.0)):
        raise InvalidInput("alphas", "at least one number above 0 and below 1", alphas)
    beta = shifted_binomial_tradeoff(levels, users=users, flip_probability=flip_probability)
    return float(np.max(-special.ndtri(levels) - special.ndtri(beta)))


def _levels(alphas: ArrayLike) -> NDArray[np.float64]:
    levels = np.atleast_1d(np.asarray(alphas, dtype=np.float64))
    if not (np.all(levels >= 0.0) and np.all(levels <= 1.0)):
        raise InvalidInput("alphas", "numbers from 0 to 1", alphas)
    return levels


def _distribution(users: int, flip_probability: float) -> NDArray[np.float64]:
    """Return F(0), …, F(n)."""
    size = checks.whole("users", users, least=1, most=_LARGEST)
    wrong = np.arange(size, dtype=np.float64)
    below = special.betainc(size - wrong, wrong + 1.0, 1.0 - flip(flip_probability))
    return np.append(np.maximum.accumulate(below), 1.0)


FORMULAS: tuple[Formula, ...] = (
    Formula(
        name="shifted_binomial_tradeoff",
        source="S3 Theorem 2",
        equation="f(α) = 1 − F(F⁻¹(α) + 1), F of Bin(n, λ/2n)",
        gives="trade-off function of one bit",
        domain="0 ≤ α ≤ 1, n up to a million",
        defect="not a guarantee: over-claims for small λ (by 0.088 at n = 100, λ = 1, α = 0.6)",
        compute=shifted_binomial_tradeoff,
    ),
    Formula(
        name="shifted_binomial_mu",
        source="S3 Corollary 3.2",
        equation="μ = max over α of Φ⁻¹(1 − α) − Φ⁻¹(f(α))",
        gives="Gaussian parameter of one bit",
        domain="n up to a million",
        defect="infinite as printed: the two laws have different supports",
        compute=shifted_binomial_mu,
    ),
)
