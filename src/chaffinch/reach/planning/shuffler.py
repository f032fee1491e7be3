"""A shuffler between publishers and analyzer, as a plan describes it.

Publishers flip their own bits and hand their filters to the shuffler, who is no publisher and
never has the campaign key. It flips every bit of every row again and hands over how many columns
have each logo. Who sees what:

* The analyzer sees these counts. Publishers who help it know the hash, and choose their own rows.
  For any hash and any rows an id is a group of columns in some crowd, so the shuffler's flips
  alone carry the bound for every crowd: ``FlippedAudiences`` at the shuffler's flips. What the
  publishers flipped before is one more thing that the crowd may be; it is not counted on.
* The shuffler sees all rows in their order, without the key, so that the order is uniform:
  ``FlippedAudiences`` at the publishers' flips. What the analyzer has, it could make itself, so
  the two together learn no more.
* The shuffler together with a publisher knows the order: only the own flips of the others are left.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from chaffinch.errors import InvalidInput, checks
from chaffinch.privacy.numerics.precision import log_of_power
from chaffinch.protocols.base import GRAIN
from chaffinch.reach.planning.audience import Audience

MOST_EPSILON, MOST_DELTA = 100.0, 0.01
"""More than this is no promise, and a plan that makes it is a mistake or a trap."""


@dataclass(frozen=True)
class Shuffler:
    """What a shuffler flips, and what the publishers' own flips promise against it."""

    flip_probability: Fraction
    """The chance that the shuffler flips a bit: the promise against the analyzer stands on it."""
    epsilon: float
    """With ``delta``: what is promised against the shuffler, who does not have the key."""
    delta: float

    def __post_init__(self) -> None:
        if (self.flip_probability * GRAIN).denominator != 1:
            rule = "a multiple of 1/2⁶⁴"
            raise InvalidInput("flip probability of the shuffler", rule, self.flip_probability)
        checks.real("epsilon against the shuffler", self.epsilon, least=1e-9, most=MOST_EPSILON)
        checks.real("delta against the shuffler", self.delta, least=1e-300, most=MOST_DELTA)

    @property
    def numerator(self) -> int:
        """Return the flip probability in units of 2⁻⁶⁴."""
        return int(self.flip_probability * GRAIN)


def both_flips(own: Fraction, shuffled: Fraction) -> Fraction:
    """Return the chance that a bit differs in the end: flipped by one of two, not by both.

    >>> both_flips(Fraction(1, 4), Fraction(1, 4))
    Fraction(3, 8)
    """
    return own + shuffled - 2 * own * shuffled


def colluding_epsilon(audience: Audience, hashes: int, flip: Fraction) -> float:
    """Return what the own flips alone leave to an id at all publishers but one."""
    others = audience.rows - audience.frequencies
    return log_of_power((1 - flip) / flip, others * hashes) if others else 0.0


def local_flip(audience: Audience, hashes: int, epsilon: float) -> Fraction:
    """Return the smallest flip probability k/2⁶⁴ that alone leaves ``epsilon``, up to 1e-12.

    It is left to an id at all publishers but one, who tells the key; where there is only one
    publisher, to an id there.

    >>> two = Audience(["daily", "radio"])
    >>> flip = local_flip(two, 2, 3.0)
    >>> round(float(flip), 4), colluding_epsilon(two, 2, flip) <= 3.0
    (0.1824, True)
    """
    power = hashes * ((audience.rows - audience.frequencies) or audience.rows)
    numerator = max(1, int(GRAIN / (1.0 + math.exp(min(epsilon / power, 40.0)))))
    # The float is off by far less than 2⁻⁴⁰ of itself; what is returned was checked.
    step = max(1, numerator >> 40)
    while log_of_power(Fraction(GRAIN - numerator, numerator), power) > epsilon:
        numerator += step
    return Fraction(numerator, GRAIN)
