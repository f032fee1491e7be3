"""Whole words (vectors, columns of filters): ends of different origin, each shown as what it is.

Of these no search covers all crowds. The lower end is a crowd, the upper end is a proof, and what
the sources take for the worst pair lies between them: three numbers, not one bracket.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chaffinch.cli.randomizers import lower_text, upper_text

if TYPE_CHECKING:
    from chaffinch.privacy import Mechanism
    from chaffinch.privacy.mechanisms.records import WordMechanism

_FOUND = "worst crowd found"
_ASSUMED = "assumed pair: all others as the target (exact; no guarantee)"


def ends_of_words(
    found: Mechanism, what: str, given: float, *, lower: float, upper: float
) -> dict[str, Any]:
    """Return what both ends of a number are and the assumed pair's own; nothing for other views.

    ``what`` ("epsilon" or "delta") was asked for at ``given``.
    """
    words = _whole_words(found)
    if words is None:
        return {}
    pair = words.assumed_pair()
    bracket = pair.epsilon(given) if what == "epsilon" else pair.delta(given)
    epsilon = upper if what == "epsilon" else given
    return {
        # The pair is a crowd like any other, and was looked at more closely than all of them.
        "lower": min(max(lower, bracket.lower), upper),
        "lower_is": _FOUND,
        "upper_is": words.proof(epsilon),
        "assumed_pair": {"lower": bracket.lower, "upper": bracket.upper, "method": pair.method},
    }


def unproven_of(found: Mechanism) -> str | None:
    """Return what is not proven of a mechanism, in words, or None."""
    words = _whole_words(found)
    if words is None:
        return None
    return (
        "Unproven: that no crowd is worse than the worst one found. The guarantee is the proven "
        "number, which may be far above the truth: of the others the privacy blanket counts only "
        f"words that are redrawn in all {words.length} bits, on average {words.hidden_words:.3g} "
        f"of {words.records:,}."
    )


def word_lines(rows: list[dict[str, Any]]) -> list[list[str]]:
    """Return three lines of a table for every number."""
    lines = []
    for row in rows:
        assumed = row["assumed_pair"]
        low, high = lower_text(assumed["lower"]), upper_text(assumed["upper"])
        proven = f"every crowd, proven ({row['upper_is']})"
        lines += [
            [row["given"], row["found"], row["lower_is"], lower_text(row["lower"]), ""],
            ["", "", proven, "", upper_text(row["upper"])],
            ["", "", _ASSUMED, low, high],
        ]
    return lines


def _whole_words(found: Mechanism) -> WordMechanism | None:
    from chaffinch.privacy.mechanisms.records import WordMechanism

    # One bit a word is a plain sum, of which every crowd is searched.
    return found if isinstance(found, WordMechanism) and found.length > 1 else None
