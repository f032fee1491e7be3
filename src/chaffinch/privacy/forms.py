"""The parameters of a mechanism in its document: whole numbers, words, and fractions as texts.

A document has JSON types only, and there is one spelling of every value. JSON readers disagree
about the digits of fractions, so fractions are texts; all other numbers are whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any

from chaffinch.errors import InvalidInput, Unquoted
from chaffinch.privacy.numerics.precision import GRAIN

_LONGEST = 400
"""Digits. Enough for every float with three of them, so for every chance that a plan charges."""
_FRACTION = re.compile(r"(0|[1-9][0-9]*)/(2\^64|[1-9][0-9]*)", re.ASCII)


def fraction_text(parameter: str, value: Fraction) -> str:
    """Return an exact probability as text: ``k/2^64`` where it is one, else ``a/b``.

    >>> fraction_text("flip", Fraction(1, 4)), fraction_text("flip", Fraction(1, 3))
    ('4611686018427387904/2^64', '1/3')
    """
    if GRAIN % value.denominator == 0:
        return f"{value * GRAIN}/2^64"
    if value.denominator.bit_length() > 3 * _LONGEST:
        raise InvalidInput(
            parameter, f"a fraction of fewer than {_LONGEST} digits", Unquoted("a longer one")
        )
    return f"{value.numerator}/{value.denominator}"


def fraction_from(parameter: str, text: object) -> Fraction:
    """Return the exact probability that ``fraction_text`` wrote.

    >>> fraction_from("flip", "4611686018427387904/2^64")
    Fraction(1, 4)
    """
    rule = "a fraction written as k/2^64 or a/b"
    found = None
    if isinstance(text, str) and len(text) <= 3 * _LONGEST:
        found = _FRACTION.fullmatch(text)
    if found is None:
        raise InvalidInput(parameter, rule, text)
    below = GRAIN if found[2] == "2^64" else int(found[2])
    value = Fraction(int(found[1]), below)
    if fraction_text(parameter, value) != text:
        raise InvalidInput(parameter, rule + " in lowest terms", text)
    return value


def named_fields(thing: str, document: object) -> dict[str, Any]:
    """Return a table of named fields, or refuse what is none."""
    if not isinstance(document, Mapping) or not all(isinstance(key, str) for key in document):
        raise InvalidInput(thing, "a table of named fields", document)
    return dict(document)


def check_fields(form: str, fields: Mapping[str, Any], names: Iterable[str]) -> None:
    """Refuse fields that are missing, and those that nobody knows."""
    listed = tuple(names)
    if set(fields) != set(listed):
        raise InvalidInput(f"fields of {form}", "exactly " + ", ".join(listed), sorted(fields))


def written_fields(owner: object, names: Iterable[str], fractions: Iterable[str]) -> dict[str, Any]:
    """Return attributes of a mechanism as they stand in its document."""
    exact = tuple(fractions)
    return {
        name: fraction_text(name, getattr(owner, name)) if name in exact else getattr(owner, name)
        for name in names
    }


def read_fields(fields: Mapping[str, Any], fractions: Iterable[str]) -> dict[str, Any]:
    """Return the arguments that fields of a document stand for."""
    exact = tuple(fractions)
    return {name: _read_field(name, value, exact) for name, value in fields.items()}


def _read_field(name: str, value: Any, exact: tuple[str, ...]) -> Any:
    if isinstance(value, float):
        # 9.0 equals 9 and has another digest.
        raise InvalidInput(name, "a whole number or a text", value)
    return fraction_from(name, value) if name in exact else value
