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
    if words is not found:
        # Of several rounds there is no assumed pair, and the ends are still of different origin.
        return {"lower_is": _FOUND, "upper_is": "its rounds composed"}
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
        f"of {words.records:,}{'' if words is found else ' in a round'}."
    )


def word_lines(rows: list[dict[str, Any]]) -> list[list[str]]:
    """Return a line of a table for each end of every number, and for the assumed pair."""
    lines = []
    for row in rows:
        proven = f"every crowd, proven ({row['upper_is']})"
        lines += [
            [row["given"], row["found"], row["lower_is"], lower_text(row["lower"]), ""],
            ["", "", proven, "", upper_text(row["upper"])],
        ]
        if "assumed_pair" in row:
            low, high = row["assumed_pair"]["lower"], row["assumed_pair"]["upper"]
            lines.append(["", "", _ASSUMED, lower_text(low), upper_text(high)])
    return lines


def _whole_words(found: Mechanism) -> WordMechanism | None:
    """Return the words that are released, once or in every round."""
    from chaffinch.privacy import Composition
    from chaffinch.privacy.mechanisms.records import WordMechanism

    once = found.parts[0][0] if isinstance(found, Composition) else found
    # One bit a word is a plain sum, of which every crowd is searched.
    return once if isinstance(once, WordMechanism) and once.length > 1 else None
