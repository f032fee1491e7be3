"""Text in the columns of a terminal: how wide it is, how to cut it, how to set it in a table."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence

_LEAST_LABEL = 12


def _text_width(text: str) -> int:
    """Return how many columns a text takes in a terminal.

    >>> _text_width("tea"), _text_width("茶")
    (3, 2)
    """
    return sum(
        0 if unicodedata.combining(letter) else 1 + (unicodedata.east_asian_width(letter) in "WF")
        for letter in text
    )


def shorten_text(text: str, most: int) -> str:
    """Return a text of at most ``most`` columns; one that was cut ends in an ellipsis.

    >>> shorten_text("peppermint tea", 8)
    'pepperm…'
    """
    if _text_width(text) <= most:
        return text
    while _text_width(text) > most - 1:
        text = text[:-1]
    return text + "…"


def text_table(rows: Sequence[Sequence[str]], width: int) -> Iterator[str]:
    """Yield rows in columns: a label, cut to what its numbers leave of the width, then numbers.

    >>> for line in text_table([("drink", "cups"), ("peppermint tea", "5")], 24):
    ...     print(line)
      drink           cups
      peppermint tea     5
    """
    wide = [max(map(len, column)) for column in list(zip(*rows, strict=True))[1:]]
    # A label keeps a few letters even if the numbers alone are wider than the terminal.
    room = max(_LEAST_LABEL, width - 2 - sum(wide) - 2 * len(wide))
    labels = [shorten_text(row[0], room) for row in rows]
    first = max(map(_text_width, labels))
    for label, row in zip(labels, rows, strict=True):
        numbers = "".join(f"  {cell:>{n}}" for cell, n in zip(row[1:], wide, strict=True))
        yield f"  {label}{' ' * (first - _text_width(label))}{numbers}".rstrip()
