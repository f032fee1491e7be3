"""Numbers as people write them on the command line: 1e6 users, a delta of 1%."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, get_args

from cyclopts import Parameter, Token, convert

_SHARES = {"--delta", "--max-delta"}
"""Options that take a probability as a float; others that may have a percent sign take a text."""
_LONGEST = 30
"""A longer text is not looked at: 1e999999999 would fill the memory."""


def convert_words(kind: Any, words: Sequence[Token]) -> Any:
    """Convert the words of one option to what its annotation says.

    A whole number may be written as 1e6 or 30.0, but 2.7 is refused, not rounded.
    """
    inner = {kind, *get_args(kind)}
    if int in inner:
        words = [word.evolve(value=_whole_text(word.value)) for word in words]
    elif float in inner:
        words = [
            word.evolve(value=_real_text(word.value)) if word.keyword in _SHARES else word
            for word in words
        ]
    return convert(kind, words)


AS_PEOPLE_WRITE = Parameter(converter=convert_words)


def _whole_text(text: str) -> str:
    """Return a whole number in digits; leave what is no number to who converts it.

    >>> _whole_text("1e6"), _whole_text("12"), _whole_text("many")
    ('1000000', '12', 'many')
    """
    if not ("." in text or "e" in text.lower()) or len(text) > _LONGEST:
        return text
    try:
        if not abs(float(text)) < 1e18:
            return text
        exact = Fraction(text)
    except ValueError:
        return text
    if exact.denominator != 1:
        raise ValueError(f'"{text}" is not a whole number.')
    return str(exact.numerator)


def _real_text(text: str) -> str:
    """Return a share as a plain number.

    >>> _real_text("0.1%"), _real_text("1e-6")
    ('0.001', '1e-6')
    """
    if not text.endswith("%") or len(text) > _LONGEST:
        return text
    try:
        return repr(float(Fraction(text[:-1].strip()) / 100))
    except (ValueError, OverflowError):
        return text
