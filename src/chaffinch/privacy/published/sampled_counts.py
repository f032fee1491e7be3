"""Bharadwaj and Cormode (2022): the sampling rate and the threshold of a sampled count.

With p = α(1 − e^−ε) and K ≥ ln(1/δ)/C, C = ln(1/α) − 1/(1 + α), they show (ε, δ)-privacy. The same
constants stand in the program that rolled it out (brave/brave-core, Nebula: α = 1/6).
"""

from __future__ import annotations

import math

from chaffinch.errors import InvalidInput, checks
from chaffinch.privacy.published.formula import Formula, open_delta, positive_epsilon


def sample_and_threshold_rate(*, epsilon: float, alpha: float) -> float:
    """Return the sampling rate p = α(1 − e^−ε).

    >>> round(sample_and_threshold_rate(epsilon=1, alpha=1 / 6), 4)
    0.1054
    """
    share = checks.real("alpha", alpha, least=0.0, most=1.0)
    return share * -math.expm1(-positive_epsilon(epsilon))


def sample_and_threshold_least(*, epsilon: float, delta: float, sampling_rate: float) -> float:
    """Return Bharadwaj and Cormode (2022), K = ln(1/δ)/(ln(1/α) − 1/(1 + α)), α = p/(1 − e^−ε).

    Not rounded to a whole number. Domain: α so small that the denominator is above 0 (α < 0.51).
    Defect: no false case known; the exact δ at this K is smaller by orders of magnitude.

    >>> math.ceil(sample_and_threshold_least(epsilon=1, delta=1e-8, sampling_rate=0.105))
    20
    """
    return -math.log(open_delta(delta)) / _exponent(epsilon, sampling_rate)


def sample_and_threshold_delta(*, epsilon: float, sampling_rate: float, threshold: int) -> float:
    """Return the δ that Bharadwaj and Cormode claim, e^(−CK)."""
    least = checks.whole("threshold", threshold, least=1)
    return math.exp(-least * _exponent(epsilon, sampling_rate))


def _exponent(epsilon: float, sampling_rate: float) -> float:
    rate = checks.real("sampling rate", sampling_rate, least=0.0, most=1.0)
    if not rate > 0:
        raise InvalidInput("sampling rate", "above 0", sampling_rate)
    alpha = rate / -math.expm1(-positive_epsilon(epsilon))
    found = -math.log(alpha) - 1.0 / (1.0 + alpha)
    if not found > 0:
        raise InvalidInput(
            "sampling rate", "small enough for ln(1/alpha) > 1/(1 + alpha)", sampling_rate
        )
    return found


FORMULAS: tuple[Formula, ...] = (
    Formula(
        name="sample_and_threshold_least",
        label="Bharadwaj and Cormode 2022",
        source="Bharadwaj and Cormode 2022",
        equation="K = ln(1/δ)/(ln(1/α) − 1/(1 + α)), α = p/(1 − e^−ε)",
        gives="threshold of a sampled count",
        domain="α < 0.51",
        defect="no false case known; "
        "at ε = 1, δ = 1e-8, p = 0.105 it asks for 20, where 11 is enough",
        compute=sample_and_threshold_least,
        claimed_delta=sample_and_threshold_delta,
    ),
)
