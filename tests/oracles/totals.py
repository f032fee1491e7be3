"""Totals with discrete noise, outcome by outcome: a referee in 50 digits that shares no code."""

from __future__ import annotations

import itertools
from decimal import Decimal, localcontext
from fractions import Fraction

_DIGITS = 50
_TAIL = Decimal("1e-22")


def masses(law: str, scale: Fraction) -> dict[int, Decimal]:
    """Return the masses of one number, down to 1e-22 of the largest, normalised."""
    with localcontext(prec=_DIGITS):
        found: dict[int, Decimal] = {}
        place = 0
        while True:
            power = Fraction(place) / scale if law == "laplace" else Fraction(place) ** 2 / scale**2
            power = power if law == "laplace" else power / 2
            mass = (-Decimal(power.numerator) / Decimal(power.denominator)).exp()
            if mass < _TAIL:
                break
            found[place] = found[-place] = mass
            place += 1
        total = sum(found.values())
        return {place: mass / total for place, mass in found.items()}


def delta(law: str, scale: Fraction, moves: tuple[int, ...], epsilon: float) -> Decimal:
    """Return the hockey-stick of the counts against the counts moved by ``moves``."""
    one = masses(law, scale)
    with localcontext(prec=_DIGITS):
        power, none = Decimal(epsilon).exp(), Decimal(0)
        found = none
        for outcome in itertools.product(one, repeat=len(moves)):
            here = there = Decimal(1)
            for place, move in zip(outcome, moves, strict=True):
                here *= one[place]
                there *= one.get(place - move, none)
            found += max(here - power * there, none)
        return found
