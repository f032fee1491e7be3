"""Rules for parameters: each returns the clean value or raises InvalidInput.

Every range check is positive (``if not low <= value``), so NaN fails it.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from fractions import Fraction

import numpy as np

from chaffinch.errors import InvalidInput

LARGEST_CROWD = 10**9
"""More people than this in one collection is refused: the proofs are tested up to here."""


def whole(parameter: str, value: object, *, least: int = 0, most: int = LARGEST_CROWD) -> int:
    """Return ``value`` as an int from ``least`` to ``most``; refuse booleans and fractions."""
    if type(value) is int and least <= value <= most:
        return value  # as nearly always, and many thousand times a second: no rule need be written
    rule = f"a whole number from {least:,} to {most:,}"
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Integral):
        raise InvalidInput(parameter, rule, value)
    if not least <= int(value) <= most:
        raise InvalidInput(parameter, rule, value)
    return int(value)


def people(parameter: str, value: object, *, least: int = 1, most: int = LARGEST_CROWD) -> int:
    """Return a number of people; 1e6, a float that is whole, stands for its int.

    For callers who go on with what is returned: nobody keeps the float.
    """
    if isinstance(value, (float, np.floating)) and float(value).is_integer():
        value = int(value)
    return whole(parameter, value, least=least, most=most)


def real(parameter: str, value: object, *, least: float, most: float = math.inf) -> float:
    """Return ``value`` as a finite float from ``least`` to ``most``."""
    rule = f"a finite number of at least {least:g}"
    if most < math.inf:
        rule = f"a number from {least:g} to {most:g}"
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Real):
        raise InvalidInput(parameter, rule, value)
    try:
        number = float(value)
    except OverflowError:
        raise InvalidInput(parameter, rule, value) from None
    if not (least <= number <= most and math.isfinite(number)):
        raise InvalidInput(parameter, rule, value)
    return number


def share(parameter: str, value: object, *, least: float, most: float = 1.0) -> float:
    """Return a share, such as a level, as a float; of a number above 1 ask whether it is percent.

    >>> share("level", 95, least=0.5)
    Traceback (most recent call last):
    chaffinch.errors.InvalidInput: The level must be a number from 0.5 to 1. Got 95.
    hint: did you mean 0.95, which is 95%?
    """
    try:
        return real(parameter, value, least=least, most=most)
    except InvalidInput as error:
        if isinstance(value, (int, float)) and 1 < value <= 100:
            error.add_to_hint(f"did you mean {float(value) / 100:g}, which is {float(value):g}%?")
        raise


def epsilon(value: object) -> float:
    """Return a privacy loss bound: finite and at least 0."""
    return real("epsilon", value, least=0.0)


def delta(value: object, *, least: float = 1e-300) -> float:
    """Return a failure probability: from ``least`` to 1 (0 asks for the local guarantee)."""
    return real("delta", value, least=least, most=1.0)


def probability(
    parameter: str,
    value: object,
    *,
    below: Fraction,
    certain: bool = False,
    hint: str = "",
    rule: str = "",
) -> Fraction:
    """Return an exact probability above 0 and below ``below``; ``certain`` also allows 1.

    A float stands for the dyadic number it is; a string such as ``"0.05"``, ``"5%"`` or
    ``"1/20"`` and a Fraction are taken exactly.
    """
    rule = rule or f"above 0 and below {float(below):g}"
    exact = _exact(value)
    if exact is None or not (0 < exact < below or (certain and exact == 1)):
        raise InvalidInput(parameter, rule, value, hint=hint)
    return exact


def rate(parameter: str, value: object, *, most: int) -> Fraction:
    """Return an exact rate from 0 to ``most``, read as a probability is."""
    exact = _exact(value)
    if exact is None or not 0 <= exact <= most:
        raise InvalidInput(parameter, f"at least 0 and at most {most}", value)
    return exact


def flip_probability(value: object) -> Fraction:
    """Return the chance that a reported bit differs from the true one: 0 < q < 1/2."""
    return probability(
        "flip probability",
        value,
        below=Fraction(1, 2),
        hint="without flips there is no privacy; at one half there is no answer",
    )


def truth(parameter: str, value: object) -> bool:
    """Return ``value`` as a bool; refuse what is merely true, as the text "no" is."""
    if not isinstance(value, (bool, np.bool_)):
        raise InvalidInput(parameter, "True or False", value)
    return bool(value)


def choice(parameter: str, value: object, allowed: Sequence[str]) -> str:
    """Return ``value`` when it is one of ``allowed``."""
    if not isinstance(value, str) or value not in allowed:
        raise InvalidInput(parameter, "one of " + ", ".join(map(repr, allowed)), value)
    return value


def _exact(value: object) -> Fraction | None:
    """Return the rational that ``value`` stands for, or None when it stands for none."""
    if isinstance(value, (bool, np.bool_)):
        return None
    if isinstance(value, np.floating):
        value = float(value)
    if isinstance(value, numbers.Rational):
        return Fraction(value)
    try:
        if isinstance(value, str) and value.endswith("%"):
            return Fraction(value[:-1].strip()) / 100
        if isinstance(value, (float, Decimal, str)):
            return Fraction(value)
    except (ValueError, OverflowError, InvalidOperation, ZeroDivisionError):
        return None
    return None
