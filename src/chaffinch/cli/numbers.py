"""Numbers as people write them on the command line: 1e6 users, a delta of 1%."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, get_args

from cyclopts import Parameter, Token, convert

_SHARES = {"--delta", "--max-delta"}
"""Options that take a probability as a float; others that may have a percent sign take a text."""
_LONGEST = 30
"""A longer text is not looked at."""
_THOUSANDS = re.compile("[0-9]{1,3}(,[0-9]{3})+")
_SMALLEST, _LARGEST = 1e-300, 1e18


def _convert_words(kind: Any, words: Sequence[Token]) -> Any:
    """Convert the words of one option to what its annotation says.

    A whole number may be written as 1e6, 10,000 or 30.0, but 2.7 is refused, not rounded.
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


AS_PEOPLE_WRITE = Parameter(converter=_convert_words)


def _whole_text(text: str) -> str:
    """Return a whole number in digits; leave what is no number to who converts it.

    >>> _whole_text("1e6"), _whole_text("10,000"), _whole_text("1,5"), _whole_text("many")
    ('1000000', '10000', '1,5', 'many')
    """
    if _THOUSANDS.fullmatch(text):
        return text.replace(",", "")
    exact = _exact(text) if "." in text or "e" in text.lower() else None
    if exact is None:
        return text
    if exact.denominator != 1:
        raise ValueError(f'"{text}" is not a whole number.')
    return str(exact.numerator)


def _real_text(text: str) -> str:
    """Return a share as a plain number.

    >>> _real_text("0.1%"), _real_text("1e-6")
    ('0.001', '1e-6')
    """
    exact = _exact(text.removesuffix("%").strip())
    if exact is None or not text.endswith("%"):
        return text
    return repr(float(exact / 100))


def _exact(text: str) -> Fraction | None:
    """Return the number in a text; None where there is none, or one that is no size of anything."""
    if len(text) > _LONGEST:
        return None
    digits, power, _ = text.lower().partition("e")
    try:
        # By its size first: all digits of 1e999999999 would fill the memory.
        size = abs(float(text)) if power else 1.0
        found = Fraction(text) if _SMALLEST < size < _LARGEST else None
    except (ValueError, ZeroDivisionError):
        return None
    if size <= _SMALLEST and any(digit in "123456789" for digit in digits):
        raise ValueError(f'"{text}" is too small to be told from 0.')
    return found
