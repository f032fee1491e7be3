"""Records of bits, every bit flipped: how they are drawn, and the slots that hold them.

How many messages a record makes depends on the answer and on chance; were it visible, it
would tell about both. So reports are padded with empty slots, and what does not fit is cut
off. Cutting changes what is sent with probability at most τ per record, so two collections
that were (ε, δ)-close stay (ε, δ + (1 + e^ε)·records·τ)-close. That is charged to delta.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chaffinch import sampling
from chaffinch.privacy.numerics.roots import bisect_whole
from chaffinch.privacy.shortened_reports import cutting_cost
from chaffinch.protocols.base import Coded, Setting, answer_labels, cut_chance, numerator
from chaffinch.sampling import Words
from chaffinch.wire.batches import Codes
from chaffinch.wire.messages import Rows

PACKED_ABOVE = Fraction(1, 32)
"""A code takes 32 bits: with more set bits than this share, packed rows are smaller."""
_LEAST_PACKED = 64
_SAFE = 1e-9
"""Covers the rounding of the exponent below, which is a sum of a few terms near 1e4."""


def flip_row(held: NDArray[np.bool_], chance: Fraction, words: Words, bits: int) -> Codes:
    """Flip records of ``bits`` bits that are there one by one; return the codes of set bits."""
    held[sampling.positions(words, numerator(chance), len(held))] ^= True
    places = np.flatnonzero(held)
    return (places % bits).astype(np.uint32) if bits > 1 else np.zeros(len(places), np.uint32)


def flip_values(
    values: NDArray[Any], bits: int, chance: Fraction, slots: int, words: Words
) -> Coded:
    """Flip one-hot records of which only the place of the one is given."""
    if chance > PACKED_ABOVE and bits >= _LEAST_PACKED:
        rows = sampling.flip_packed(words, numerator(chance), values.astype(np.int64), bits, slots)
        return Coded(np.empty(0, np.uint32), Rows(0, bits, rows))
    held = sampling.histogram(np.asarray(values, np.uint32), bits)
    sent = sampling.flip_one_hot(words, numerator(chance), held, slots)
    # In the order of the codes, which says nothing about who sent them.
    return Coded(np.repeat(np.arange(bits, dtype=np.uint32), sent))


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
    # (d − 1)·KL(K/(d − 1), q) = K·ln(K/((d − 1)q)) + rest·ln(rest/((d − 1)(1 − q))).
    rest = zeros - slots
    exponent = slots * math.log(slots / (zeros * chance))
    if rest:
        exponent += rest * math.log(rest / (zeros * (1 - chance)))
    return min(math.exp(-exponent * (1 - _SAFE) + _SAFE), 1.0)


def fewest_slots(
    positions: int, flip: Fraction, *, records: int, epsilon: float, allowed: float
) -> int:
    """Return the fewest slots whose cost in delta is at most ``allowed``.

    >>> fewest_slots(105, Fraction(1, 7000), records=336_776, epsilon=1.0, allowed=1e-10)
    8
    """

    def affordable(slots: int) -> bool:
        return (
            cutting_cost(cut_chance(overflow(positions, flip, slots), records), epsilon) <= allowed
        )

    # With a slot for every bit nothing is ever cut, so that many are always good.
    return bisect_whole(affordable, good=positions, bad=0)


def slots_for(setting: Setting, flip: Fraction, records: int) -> int:
    """Return the fewest slots per record that a setting allows."""
    return fewest_slots(
        len(answer_labels(setting.question)),
        flip,
        records=setting.crowd * records,
        epsilon=setting.epsilon,
        allowed=setting.cutting,
    )
