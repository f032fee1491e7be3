"""Texts and tables in a terminal, where some letters take two columns and some none."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence

_LEAST_LABEL = 12


def columns_of(text: str) -> int:
    """Return how many columns a text takes in a terminal.

    >>> columns_of("tea"), columns_of("茶")
    (3, 2)
    """
    return sum(
        0 if unicodedata.combining(letter) else 1 + (unicodedata.east_asian_width(letter) in "WF")
        for letter in text
    )


def shorten(text: str, most: int) -> str:
    """Return a text of at most ``most`` columns; one that was cut ends in an ellipsis.

    >>> shorten("peppermint tea", 8)
    'pepperm…'
    """
    if columns_of(text) <= most:
        return text
    while columns_of(text) > most - 1:
        text = text[:-1]
    return text + "…"


def table(rows: Sequence[Sequence[str]], width: int) -> Iterator[str]:
    """Yield rows in columns: a label, cut to what its numbers leave of the width, then numbers.

    >>> for line in table([("drink", "cups"), ("peppermint tea", "5")], 24):
    ...     print(line)
      drink           cups
      peppermint tea     5
    """
    wide = [max(map(len, column)) for column in list(zip(*rows, strict=True))[1:]]
    room = max(_LEAST_LABEL, width - 2 - sum(wide) - 2 * len(wide))
    labels = [shorten(row[0], room) for row in rows]
    first = max(map(columns_of, labels))
    for label, row in zip(labels, rows, strict=True):
        numbers = "".join(f"  {cell:>{n}}" for cell, n in zip(row[1:], wide, strict=True))
        yield f"  {label}{' ' * (first - columns_of(label))}{numbers}".rstrip()
