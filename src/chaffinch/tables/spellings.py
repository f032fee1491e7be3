"""Answers that are spelled otherwise than the listed value that is probably meant.

What differs is told, and the listed value, which is public; never the answer.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from functools import lru_cache

from chaffinch.questions import Bit, Choice, Flags, Question

_YES_OR_NO = frozenset({
    *("y", "n", "t", "f", "j", "on", "off", "ja", "nein", "nee"),
    *("oui", "non", "si", "sí", "sim", "não"),
})  # fmt: skip
"""Words for yes or no that a bit does not take: in another language they may mean the other."""

_INVISIBLE = dict.fromkeys(map(ord, "\u00ad\u200b\u200c\u200d\u2060\ufeff"))


def _spaced(text: str) -> str:
    """Return a text with single, usual spaces, and without letters that nobody sees."""
    return " ".join(text.translate(_INVISIBLE).split())


def _composed(text: str) -> str:
    """Return a text with its letters in one form of Unicode, and its spaces as they are."""
    if text.isascii():
        return text
    return re.sub(r"\S+", lambda word: unicodedata.normalize("NFKC", word[0]), text)


def same_letters(one: str, other: str) -> bool:
    """Return whether two names look the same, as those that differ in the form of Unicode do.

    >>> same_letters("Größe", "Gro\u0308ße")
    True
    """
    return _composed(one) == _composed(other)


_FOLDS: dict[str, Callable[[str], str]] = {
    "the Unicode form of its letters": _composed,
    "case": str.casefold,
    "spaces": _spaced,
}
"""What two spellings of one value may differ by, and what takes the difference away."""


def near_value(question: Question, answer: object) -> str:
    """Return which listed value an unlisted answer is but for its spelling, and what differs.

    >>> near_value(Choice(["green tea", "coffee"]), "Green  Tea")
    "the listed 'green tea' by case and spaces"
    >>> near_value(Choice(["green tea", "coffee"]), "mate")
    ''
    """
    if not isinstance(answer, str):
        return ""
    if isinstance(question, Bit):
        known = answer.strip().casefold() in _YES_OR_NO
        return "yes and no, as Y, N, ja or nein do" if known else ""
    if isinstance(question, Flags):
        names, texts = question.names, [part.strip() for part in answer.split(";")]
    elif isinstance(question, Choice) and not isinstance(question.values, range):
        names, texts = question.values, [answer.strip()]
    else:
        return ""
    listed = _folded(names)
    for text in texts:
        found = listed.get(_fold(text), ())
        if found and text not in found:
            shown = " or ".join(map(repr, found))
            return f"the listed {shown} by {' and '.join(_differences(text, found[0]))}"
    return ""


def _fold(text: str, *, without: str = "") -> str:
    for name, fold in _FOLDS.items():
        text = text if name == without else fold(text)
    return text


def _differences(one: str, other: str) -> list[str]:
    """Return what is different: without taking it away the two are not the same."""
    needed = [name for name in _FOLDS if _fold(one, without=name) != _fold(other, without=name)]
    return needed or ["spelling"]


@lru_cache(maxsize=4)
def _folded(names: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """Return the listed values by their folded spelling."""
    found: dict[str, tuple[str, ...]] = {}
    for name in names:
        folded = _fold(name)
        found[folded] = (*found.get(folded, ()), name)
    return found
