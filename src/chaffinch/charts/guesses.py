"""What a promise means in guesses: a hundred dots, one for each person who guesses.

Full and grey is right by luck, full and orange right because of what is seen, hollow is wrong.
Shapes tell hollow from full where colours cannot be told apart, and the order tells the rest.
"""

from __future__ import annotations

from dataclasses import dataclass

from chaffinch.charts.svg import Drawing, Picture, element
from chaffinch.privacy.guarantee import Odds

_ACROSS, _APART, _RADIUS = 20, 20, 6.6

LEGEND = (
    ("cf-luck", "right by luck"),
    ("cf-leak", "right because of what is seen"),
    ("cf-wrong", "wrong"),
)
"""The look of a dot, and what it means; in the order of the dots."""
_NOTE = "Grey: right by luck. Orange: right because of what is seen. Hollow: wrong."


@dataclass(frozen=True, slots=True)
class GuessFigure(Picture):
    """The odds of a promise as dots."""

    title: str
    odds: Odds
    alternative: str

    def _draw(self, *, name: str, styled: bool) -> Drawing:  # noqa: ARG002 - no part has a name
        kinds = [
            kind for count, (kind, _) in zip(self.odds, LEGEND, strict=True) for _ in range(count)
        ]
        dots = [
            element(
                "circle",
                cx=_APART * (place % _ACROSS) + _APART / 2,
                cy=_APART * (place // _ACROSS) + _APART / 2,
                r=_RADIUS,
                class_=kind,
            )
            for place, kind in enumerate(kinds)
        ]
        size = f'viewBox="0 0 {_APART * _ACROSS} {_APART * 100 // _ACROSS}" width="100%"'
        return Drawing(dots, size, _NOTE)


def guesses_chart(odds: Odds) -> GuessFigure:
    """Return the odds of a promise as a picture.

    >>> guesses_chart(Odds(50, 24, 26)).alternative
    'A hundred dots: 50 right by luck, 24 right because of what is seen, 26 wrong.'
    """
    told = ", ".join(f"{count} {words}" for count, (_, words) in zip(odds, LEGEND, strict=True))
    return GuessFigure("Of 100 people who guess", odds, f"A hundred dots: {told}.")


def legend_mark(kind: str) -> str:
    """Return one dot as large as a letter, for the legend of a page."""
    dot = element("circle", cx=6, cy=6, r=5, class_=kind)
    return f'<svg class="cf-mark-dot" viewBox="0 0 12 12" aria-hidden="true">{dot}</svg>'
