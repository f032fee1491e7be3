"""Message slots: every report of a plan has the same number of them, empty ones included.

How many messages a report holds depends on the answer and on chance; were it visible, it
would tell about both. So reports are padded with dummies, and what does not fit is cut off.
Cutting changes what is sent with probability at most τ per record, so two collections that
were (ε, δ)-close stay (ε, δ + (1 + e^ε)·records·τ)-close. That amount is charged to delta.
"""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction

from chaffinch.privacy.shortened_reports import cost

SHARE_FOR_CUTTING = Fraction(1, 100)
"""How much of delta may go to cutting: enough for a few spare slots, too little to matter."""
_SAFE = 1e-9
"""Covers the rounding of the exponent below, which is a sum of a few terms near 1e4."""


def overflow(positions: int, flip: Fraction, slots: int) -> float:
    """Return a bound on the chance that a flipped one-hot record sets more than ``slots`` bits.

    More than K set bits need at least K among the d − 1 zeros: P[Bin(d − 1, q) ≥ K] is at
    most exp(−(d − 1)·KL(K/(d − 1), q)) (Chernoff).

    >>> overflow(100, Fraction(1, 1000), 100), overflow(100, Fraction(1, 1000), 8) < 1e-10
    (0.0, True)
    """
    zeros, chance = positions - 1, float(flip)
    if slots >= positions:
        return 0.0
    if slots <= zeros * chance:
        return 1.0
    rest = zeros - slots
    exponent = slots * math.log(slots / (zeros * chance))
    if rest:
        exponent += rest * math.log(rest / (zeros * (1 - chance)))
    return min(math.exp(-exponent * (1 - _SAFE) + _SAFE), 1.0)


def distance(chance: float, records: int) -> Fraction:
    """Return records·τ, rounded up to three digits: the chance that anything is cut at all."""
    if chance == 0:
        return Fraction(0)
    text = Context(prec=3, rounding=ROUND_CEILING).create_decimal(
        Decimal(chance) * Decimal(records)
    )
    return min(Fraction(text), Fraction(1))


def slots_for(
    positions: int, flip: Fraction, *, records: int, epsilon: float, allowed: float
) -> int:
    """Return the fewest slots whose cost in delta is at most ``allowed``.

    >>> slots_for(105, Fraction(1, 7000), records=336_776, epsilon=1.0, allowed=1e-10)
    8
    """
    low, high = 0, positions
    while high - low > 1:
        middle = (low + high) // 2
        if cost(distance(overflow(positions, flip, middle), records), epsilon) <= allowed:
            high = middle
        else:
            low = middle
    return high
