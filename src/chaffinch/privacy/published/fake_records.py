"""S0 (*Notes*, 2020): Chernoff bounds for flipped bits, decoys in clear, and both together.

Two shapes return. With L = ln(2/δ) for one sum or ln(4/δ) for two, and N records,

    wide:   N·q ≥ 3L/a² + 4/a,            a = 1 − e^{−ε} or 1 − e^{−ε/2}
    narrow: N·q ≥ 3L·((e^ε+1)/(e^ε−1))² = 3L·coth²(ε/2),

and each can be solved for ε or for δ.
"""

from __future__ import annotations

import math

from chaffinch.errors import checks
from chaffinch.privacy.published.formula import (
    Formula,
    flip,
    flip_from,
    open_delta,
    positive_epsilon,
    refuse,
)

# One bit, (4.36).


def zero_crowd_flip_probability(*, epsilon: float, delta: float, users: int) -> float:
    """Return S0 (4.36), q = 3 ln(2/δ) / (n(1 − e^{−ε})²).

    Domain: a crowd large enough for q < 1/2. Defect: it speaks of a crowd in which everybody
    holds zero, which is not always the worst one.

    >>> round(zero_crowd_flip_probability(epsilon=1, delta=1e-6, users=10_000), 6)
    0.010893
    """
    size = checks.whole("users", users, least=1)
    fall = -math.expm1(-positive_epsilon(epsilon))
    return flip_from(3.0 * math.log(2.0 / open_delta(delta)) / fall**2, size, "users")


def zero_crowd_epsilon(*, users: int, flip_probability: float, delta: float) -> float:
    """Return the ε that S0 (4.36) claims for this crowd, flip probability and δ."""
    size = checks.whole("users", users, least=1)
    expected = size * flip(flip_probability)
    return _epsilon_from(math.sqrt(3.0 * math.log(2.0 / open_delta(delta)) / expected), users)


def zero_crowd_delta(*, users: int, flip_probability: float, epsilon: float) -> float:
    """Return the δ that S0 (4.36) claims; 1 where it claims nothing."""
    size = checks.whole("users", users, least=1)
    fall = -math.expm1(-positive_epsilon(epsilon))
    return min(1.0, 2.0 * math.exp(-size * flip(flip_probability) * fall**2 / 3.0))


# One bit, (4.48).


def any_crowd_flip_probability(*, epsilon: float, delta: float, users: int) -> float:
    """Return S0 (4.48), q = 3 ln(2/δ)/(n(1 − e^{−ε})²) + 4/(n(1 − e^{−ε})).

    Domain: a crowd large enough for q < 1/2. Defect: no false case is known, but it asks for
    2.8 to 6 times too many flips.
    """
    size = checks.whole("users", users, least=1)
    fall = -math.expm1(-positive_epsilon(epsilon))
    return flip_from(_wide(math.log(2.0 / open_delta(delta)), fall), size, "users")


def any_crowd_epsilon(*, users: int, flip_probability: float, delta: float) -> float:
    """Return the ε that S0 (4.48) claims for this crowd, flip probability and δ."""
    size = checks.whole("users", users, least=1)
    expected = size * flip(flip_probability)
    return _epsilon_from(_wide_fall(expected, math.log(2.0 / open_delta(delta))), users)


def any_crowd_delta(*, users: int, flip_probability: float, epsilon: float) -> float:
    """Return the δ that S0 (4.48) claims; 1 where it claims nothing."""
    size = checks.whole("users", users, least=1)
    fall = -math.expm1(-positive_epsilon(epsilon))
    return _wide_delta(size * flip(flip_probability), fall, 2.0)


# Decoys in clear, (5.10).


def clear_decoys(*, epsilon: float, delta: float, values: int) -> float:
    """Return S0 (5.10), m = 3d ln(4/δ)((e^ε+1)/(e^ε−1))² (not rounded to a whole number).

    Domain: any ε > 0, 0 < δ < 1, d ≥ 2. Defect: step (5.6) drops a −1 in the wrong
    direction; still no false case is known, and it asks for 3.3 to 6.2 times too many.

    >>> math.ceil(clear_decoys(epsilon=1, delta=1e-6, values=100))
    21356
    """
    size = checks.whole("values", values, least=2)
    return size * _narrow(math.log(4.0 / open_delta(delta)), positive_epsilon(epsilon))


def clear_decoys_epsilon(*, decoys: int, values: int, delta: float) -> float:
    """Return the ε that S0 (5.10) claims for this many decoys."""
    expected = checks.whole("decoys", decoys, least=1) / checks.whole("values", values, least=2)
    return _narrow_epsilon(expected, math.log(4.0 / open_delta(delta)), decoys)


def clear_decoys_delta(*, decoys: int, values: int, epsilon: float) -> float:
    """Return the δ that S0 (5.10) claims; 1 where it claims nothing."""
    expected = checks.whole("decoys", decoys, least=0) / checks.whole("values", values, least=2)
    return _narrow_delta(expected, positive_epsilon(epsilon))


# Flipped values, (5.16).


def flipped_values_flip_probability(
    *, epsilon: float, delta: float, users: int, decoys: int = 0
) -> float:
    """Return S0 (5.12) = (5.16), q = 3 ln(4/δ)/((n+m)(1−e^{−ε/2})²) + 4/((n+m)(1−e^{−ε/2})).

    Domain: enough records for q < 1/2. Defect: it holds for the sums only. Whole records with
    this q are not private: the attack that looks for a vector with one set bit names the
    target's value nearly every time. (5.13)–(5.15) print ≤ 1−δ for ≥ 1−δ.
    """
    size = _records(users, decoys)
    fall = -math.expm1(-0.5 * positive_epsilon(epsilon))
    return flip_from(_wide(math.log(4.0 / open_delta(delta)), fall), size, "users + decoys")


def flipped_values_epsilon(
    *, users: int, flip_probability: float, delta: float, decoys: int = 0
) -> float:
    """Return the ε that S0 (5.16) claims."""
    expected = _records(users, decoys) * flip(flip_probability)
    return 2.0 * _epsilon_from(_wide_fall(expected, math.log(4.0 / open_delta(delta))), users)


def flipped_values_delta(
    *, users: int, flip_probability: float, epsilon: float, decoys: int = 0
) -> float:
    """Return the δ that S0 (5.16) claims; 1 where it claims nothing."""
    fall = -math.expm1(-0.5 * positive_epsilon(epsilon))
    return _wide_delta(_records(users, decoys) * flip(flip_probability), fall, 4.0)


# Decoys as cover, (5.26).


def decoy_cover_flip_probability(*, epsilon: float, delta: float, decoys: int) -> float:
    """Return S0 (5.26), q = (3 ln(4/δ)/m)·((e^ε+1)/(e^ε−1))².

    Domain: enough decoys for q < 1/2. Defect: its argument supposes that no decoy falls on the
    two values in question, which is not the worst case; no false case of the formula itself
    is known, because its Chernoff step is loose. It holds for the sums only, as (5.16).
    """
    size = checks.whole("decoys", decoys, least=1)
    expected = _narrow(math.log(4.0 / open_delta(delta)), positive_epsilon(epsilon))
    return flip_from(expected, size, "decoys")


def decoy_cover_epsilon(*, decoys: int, flip_probability: float, delta: float) -> float:
    """Return the ε that S0 (5.26) claims."""
    expected = checks.whole("decoys", decoys, least=1) * flip(flip_probability)
    return _narrow_epsilon(expected, math.log(4.0 / open_delta(delta)), decoys)


def decoy_cover_delta(*, decoys: int, flip_probability: float, epsilon: float) -> float:
    """Return the δ that S0 (5.26) claims; 1 where it claims nothing."""
    expected = checks.whole("decoys", decoys, least=1) * flip(flip_probability)
    return _narrow_delta(expected, positive_epsilon(epsilon))


# The two shapes.


def _records(users: int, decoys: int) -> int:
    return checks.whole("users", users, least=1) + checks.whole("decoys", decoys)


def _wide(log_term: float, fall: float) -> float:
    # N·q of the wide shape at the top of this file.
    return 3.0 * log_term / fall**2 + 4.0 / fall


def _wide_fall(expected: float, log_term: float) -> float:
    """Solve 3L·y² + 4y = expected for y > 0 and return a = 1/y."""
    return 6.0 * log_term / (math.sqrt(16.0 + 12.0 * log_term * expected) - 4.0)


def _wide_delta(expected: float, fall: float, events: float) -> float:
    return min(1.0, events * math.exp(-(expected - 4.0 / fall) * fall**2 / 3.0))


def _epsilon_from(fall: float, users: int) -> float:
    """Return ε with 1 − e^{−ε} = fall."""
    if not fall < 1.0:
        raise refuse(users, "users")
    return -math.log1p(-fall)


def _narrow(log_term: float, epsilon: float) -> float:
    # (e^ε + 1)/(e^ε − 1) = 1/tanh(ε/2).
    return 3.0 * log_term / math.tanh(0.5 * epsilon) ** 2


def _narrow_epsilon(expected: float, log_term: float, decoys: int) -> float:
    fall = math.sqrt(3.0 * log_term / expected)
    if not fall < 1.0:
        raise refuse(decoys, "decoys")
    return 2.0 * math.atanh(fall)


def _narrow_delta(expected: float, epsilon: float) -> float:
    return min(1.0, 4.0 * math.exp(-expected * math.tanh(0.5 * epsilon) ** 2 / 3.0))


FORMULAS: tuple[Formula, ...] = (
    Formula(
        name="zero_crowd_flip_probability",
        label="Zhilyaev 2020 (4.36)",
        source="S0 (4.36), Lemma 4.3",
        equation="q = 3 ln(2/δ) / (n (1 − e^−ε)²)",
        gives="flip probability of one bit, everybody else holding zero",
        domain="n > 6 ln(2/δ) / (1 − e^−ε)²",
        defect="the all-zero crowd is not always the worst",
        compute=zero_crowd_flip_probability,
        claimed_epsilon=zero_crowd_epsilon,
        claimed_delta=zero_crowd_delta,
    ),
    Formula(
        name="any_crowd_flip_probability",
        label="Zhilyaev 2020 (4.48)",
        source="S0 (4.48), Proposition 4.5",
        equation="q = 3 ln(2/δ) / (n (1 − e^−ε)²) + 4 / (n (1 − e^−ε))",
        gives="flip probability of one bit, any crowd",
        domain="n large enough for q < 1/2",
        defect="no false case known; asks for 2.8 to 6 times too many flips",
        compute=any_crowd_flip_probability,
        claimed_epsilon=any_crowd_epsilon,
        claimed_delta=any_crowd_delta,
    ),
    Formula(
        name="clear_decoys",
        label="Zhilyaev 2020 (5.10)",
        source="S0 (5.10)",
        equation="m = 3 d ln(4/δ) ((e^ε + 1)/(e^ε − 1))²",
        gives="decoys for clear reports of one value out of d",
        domain="ε > 0, 0 < δ < 1, d ≥ 2",
        defect="step (5.6) drops a −1 the wrong way; no false case known; "
        "asks for 3.3 to 6.2 times too many decoys",
        compute=clear_decoys,
        claimed_epsilon=clear_decoys_epsilon,
        claimed_delta=clear_decoys_delta,
    ),
    Formula(
        name="flipped_values_flip_probability",
        label="Zhilyaev 2020 (5.16)",
        source="S0 (5.12) = (5.16), Proposition 5.1",
        equation="q = 3 ln(4/δ) / ((n+m)(1 − e^−ε/2)²) + 4 / ((n+m)(1 − e^−ε/2))",
        gives="flip probability of one-hot reports with decoys",
        domain="n + m large enough for q < 1/2",
        defect="true of the sums only: whole records with this q are not private",
        compute=flipped_values_flip_probability,
        claimed_epsilon=flipped_values_epsilon,
        claimed_delta=flipped_values_delta,
    ),
    Formula(
        name="decoy_cover_flip_probability",
        label="Zhilyaev 2020 (5.26)",
        source="S0 (5.26)",
        equation="q = (3 ln(4/δ) / m) ((e^ε + 1)/(e^ε − 1))²",
        gives="flip probability when the decoys alone are the cover",
        domain="m > 6 ln(4/δ) ((e^ε + 1)/(e^ε − 1))²",
        defect="its argument supposes that no decoy falls on the two values in question; "
        "no false case of the formula known; sums only",
        compute=decoy_cover_flip_probability,
        claimed_epsilon=decoy_cover_epsilon,
        claimed_delta=decoy_cover_delta,
    ),
)
