"""Chances and ratios of chances as devices draw them: rounded to the private side."""

from __future__ import annotations

import math
from fractions import Fraction

from chaffinch.errors import InvalidInput, checks
from chaffinch.privacy.numerics.precision import GRAIN

_LARGEST = 30.0


def check_local_epsilon(value: object) -> float:
    """Return a local epsilon above 0 and up to 30."""
    asked = checks.real("local epsilon", value, least=0.0, most=_LARGEST)
    if not asked > 0:
        raise InvalidInput("local epsilon", "above 0", value)
    return asked


def grain_above(value: Fraction) -> Fraction:
    """Return the least multiple of 2⁻⁶⁴ at or above a chance: more noise, more private."""
    return Fraction(math.ceil(value * GRAIN), GRAIN)


def grain_below(value: Fraction) -> Fraction:
    """Return the largest multiple of 2⁻⁶⁴ at or below a ratio of chances, at least 1."""
    return max(Fraction(math.floor(value * GRAIN), GRAIN), Fraction(1))
