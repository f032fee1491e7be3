"""The law of a tally in rationals, by nothing but binomial coefficients."""

from __future__ import annotations

import math
from fractions import Fraction

from chaffinch.protocols.noise import Noise

Masses = list[Fraction]


def binomial(count: int, chance: Fraction) -> Masses:
    return [math.comb(count, k) * chance**k * (1 - chance) ** (count - k) for k in range(count + 1)]


def added(first: Masses, second: Masses) -> Masses:
    total = [Fraction(0)] * (len(first) + len(second) - 1)
    for i, x in enumerate(first):
        for j, y in enumerate(second):
            total[i + j] += x * y
    return total


def law(noise: Noise, held: int, reports: int) -> Masses:
    """Return P[S = s] for s = 0, 1, …."""
    own = added(
        binomial(noise.copies * held, noise.hit),
        binomial(noise.copies * (reports - held), noise.miss),
    )
    return added(own, binomial(noise.cover_slots * reports, noise.cover))


KINDS = {
    "flips": Noise.flips(Fraction(1, 5)),
    "rare flips": Noise.flips(Fraction(1, 10**6)),
    "heavy flips": Noise.flips(Fraction(9, 20)),
    "copies": Noise.flips(Fraction(1, 4), copies=3),
    "clear": Noise(1, Fraction(1), Fraction(0), 2, Fraction(1, 6)),
    "nearly clear": Noise(1, Fraction(1), Fraction(0), 1, Fraction(1, 7000)),
    "no noise": Noise(2, Fraction(1), Fraction(0)),
    "flips and decoys": Noise.flips_with_decoys(
        Fraction(1, 10), decoy_slots=1, rate=Fraction(3, 4), values=4
    ),
    "response": Noise(1, Fraction(7, 15), Fraction(2, 15)),
}
