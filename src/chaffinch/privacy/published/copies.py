"""S1 (*K-Randomization*, 2016): the three-sigma rule for one bit, sent once or k times."""

from __future__ import annotations

import math

from chaffinch.errors import checks
from chaffinch.privacy.published.formula import Formula, flip, positive_epsilon


def three_sigma_flip_probability(*, epsilon: float, users: int) -> float:
    """Return S1 (4.45), q = ½(1 − 1/√(1 + 36/((λ−1)²N))) with λ = e^ε.

    Domain: any ε > 0, any crowd. Defect: it speaks of no δ, and looks at outcomes three
    standard deviations away in one direction only. At N = 1000, λ = 2 it promises 99.98 % of
    the outcomes; the true failure is 6.3 % for a crowd of equals and 8.1 % for the worst.

    >>> round(three_sigma_flip_probability(epsilon=math.log(2), users=1000), 6)
    0.008764
    """
    return three_sigma_copies_flip_probability(epsilon=epsilon, users=users, copies=1)


def three_sigma_epsilon(*, users: int, flip_probability: float) -> float:
    """Return the ε that S1 (4.45) claims, ln(1 + 3(p−q)/√(pqN)) by (4.39)."""
    return three_sigma_copies_epsilon(users=users, flip_probability=flip_probability, copies=1)


def three_sigma_copies_flip_probability(*, epsilon: float, users: int, copies: int) -> float:
    """Return S1 (5.24), q = ½(1 − 1/√(1 + 36/((λ^{1/k}−1)²kN))) with λ = e^ε.

    Domain: any ε > 0, any crowd, any k ≥ 1. Defect: as for (4.45); and the precision gained
    by copies at fixed privacy, √k in the text, is not there: by its own (5.23) the standard
    deviation 3/(k(λ^{1/k}−1)) rises with k.
    """
    size = checks.whole("users", users, least=1) * checks.whole("copies", copies, least=1)
    rise = math.expm1(positive_epsilon(epsilon) / copies)
    # ½(1 − 1/√(1+x)) = ½·x/(√(1+x)·(1 + √(1+x))): the difference would cancel for small x.
    x = 36.0 / (rise * rise * size)
    root = math.sqrt(1.0 + x)
    return 0.5 * x / (root * (1.0 + root))


def three_sigma_copies_epsilon(*, users: int, flip_probability: float, copies: int) -> float:
    """Return the ε that S1 (5.22) claims, k·ln(1 + 3(p−q)/√(pqkN))."""
    size = checks.whole("users", users, least=1) * checks.whole("copies", copies, least=1)
    q = flip(flip_probability)
    return copies * math.log1p(3.0 * (1.0 - 2.0 * q) / math.sqrt(q * (1.0 - q) * size))


FORMULAS: tuple[Formula, ...] = (
    Formula(
        name="three_sigma_flip_probability",
        label="Zhilyaev and Zeber 2016a (4.45)",
        source="S1 (4.45)",
        equation="q = ½ (1 − 1/√(1 + 36/((e^ε − 1)² N)))",
        gives="flip probability of one bit",
        domain="ε > 0, N ≥ 1",
        defect="no δ; looks at three standard deviations in one direction only: "
        "fails for 6.3 to 8.1 % of outcomes where 0.02 % is promised (N = 1000, ε = ln 2)",
        compute=three_sigma_flip_probability,
        claimed_epsilon=three_sigma_epsilon,
    ),
    Formula(
        name="three_sigma_copies_flip_probability",
        label="Zhilyaev and Zeber 2016a (5.24)",
        source="S1 (5.24)",
        equation="q = ½ (1 − 1/√(1 + 36/((e^(ε/k) − 1)² k N)))",
        gives="flip probability of one bit sent k times",
        domain="ε > 0, N ≥ 1, k ≥ 1",
        defect="as (4.45); the promised gain of √k in precision is not there",
        compute=three_sigma_copies_flip_probability,
        claimed_epsilon=three_sigma_copies_epsilon,
    ),
)
