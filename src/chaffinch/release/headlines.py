"""What a section found, in one sentence that a statistician would sign.

The largest value is picked after looking, so the interval beside it is the one that holds for all
values together, and of values whose intervals overlap each may be the largest. That is not to say
that two of them are alike: no difference is tested here. What was asked before looking, as a mean
or the share of a yes, has its own interval.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Literal

from chaffinch.charts.rounding import (
    decimal_places,
    half_width,
    in_percent,
    lower_text,
    nearest_text,
    percent_text,
    upper_text,
)
from chaffinch.release.statement import Ends, Headline, Line

_MOST_NAMED = 3
"""More values that may be the largest are counted instead of named."""
_NOISY = 0.25
"""An error of this part of all that is possible leaves nothing to say."""
_PARTS = (2, 3, 4, 5, 10)
_NEAR = 0.01
"""A share is "about" a simple part that is no farther from it; the number stands beside it."""

_TOGETHER = " for all together"
"""What the interval of a value is that was picked after looking: rows have others."""

_Number = tuple[str, str]
"""A number and its interval, rounded for people."""


def share_headline(row: Line, crowd: float, whose: str) -> Headline:
    """Return what share of a crowd says yes, which nobody picked after looking.

    ``whose`` names the crowd and what is true of the share: "of all 200 people answered yes".
    """
    share, interval = _numbers([row], lambda one: one.ends, "%", crowd)[0]
    if half_width(row.estimate, row.ends) > _NOISY * crowd:
        return _too_noisy(f": {interval} {whose}")
    part = _simple_part(row, crowd)
    if part is None:
        return (("strong", share), ("", f" {whose} "), ("soft", f"({interval})"), ("", "."))
    return (
        ("", "About "),
        ("strong", f"{part.numerator} of {part.denominator}"),
        ("", f" {whose}: "),
        ("strong", share),
        ("", " "),
        ("soft", f"({interval})"),
        ("", "."),
    )


def _simple_part(row: Line, crowd: float) -> Fraction | None:
    """Return the simplest part, such as 4 of 5, that is as near as "about" may be."""
    parts = (Fraction(n, whole) for whole in _PARTS for n in range(1, whole))
    return next((one for one in parts if abs(float(one) - row.estimate / crowd) <= _NEAR), None)


def largest_headline(
    rows: Sequence[Line],
    *,
    most: str = "the most common",
    verbs: tuple[str, str] = ("is", "be"),
    sign: str = "",
    crowd: float | None = None,
    whose: str = "",
) -> Headline:
    """Return which row is the largest, or that this cannot be told.

    Of a ``crowd``, which ``whose`` names, rows are parts, and shown as shares.
    """
    (says, may_be), listed = verbs, list(rows)
    if not listed:
        return ()
    together = [row.together or row.ends for row in listed]
    top = max(range(len(listed)), key=lambda place: listed[place].estimate)
    bar = max(low for low, _ in together)
    # Whoever reaches up to what some other has at least may be the largest, and nobody else.
    may = [row for row, (_, high) in zip(listed, together, strict=True) if high >= bar]
    shown = dict(zip(map(id, listed), _numbers(listed, _held_together, sign, crowd), strict=True))
    widest = max(high - low for low, high in together)
    if crowd is not None and widest > 2 * _NOISY * crowd:
        return _too_noisy(f" which {says} {most}")
    best = listed[top]
    number, interval = shown[id(best)]
    of = f" {whose}" if whose else ""
    if len(listed) == 1:
        return (
            ("", f"{best.label}: "),
            ("strong", f"{number}{of}"),
            ("soft", f" ({interval})"),
            ("", "."),
        )
    if len(may) == 1:
        return (
            ("strong", may[0].label),
            ("", f" {says} {most} of {len(listed):,}: "),
            ("strong", f"{shown[id(may[0])][0]}{of}"),
            ("soft", f" ({shown[id(may[0])][1]}{_TOGETHER})"),
            ("", "."),
        )
    if len(may) > _MOST_NAMED:
        return (
            ("strong", f"{len(may):,} of {len(listed):,}"),
            ("", f" may each {may_be} {most}: their intervals overlap. The largest estimate is "),
            ("strong", f"{number}{of}"),
            ("soft", f" ({interval}{_TOGETHER})"),
            ("", f", {best.label}."),
        )
    may.sort(key=lambda row: -row.estimate)
    names = _listed([row.label for row in may])
    numbers = _listed([f"{shown[id(row)][0]} ({shown[id(row)][1]})" for row in may])
    return (
        ("strong", names),
        ("", f" may each {may_be} {most} of {len(listed):,}, as their intervals overlap: "),
        ("soft", f"{numbers}{of}; intervals{_TOGETHER}"),
        ("", "."),
    )


def mean_headline(
    row: Line, unit: str, who: str, within: Ends | None, *, deviation: Line | None = None
) -> Headline:
    """Return a mean with its own interval, and perhaps the standard deviation with its own."""
    number, interval = _numbers([row], lambda one: one.ends)[0]
    named = f" {unit}" if unit else ""
    if within is not None and half_width(row.estimate, row.ends) > _NOISY * (within[1] - within[0]):
        return _too_noisy(f": the mean{who} lies from {interval}{named}")
    return (
        ("", f"The mean{who} is "),
        ("strong", f"{number}{named}"),
        ("soft", f" ({interval})"),
        *_deviation_words(deviation),
        ("", "."),
    )


def _deviation_words(row: Line | None) -> Headline:
    if row is None:
        return ()
    number, interval = _numbers([row], lambda one: one.ends)[0]
    return (
        ("", ", the standard deviation "),
        ("strong", number),
        ("soft", f" ({interval})"),
    )


def reach_headline(row: Line, publishers: Sequence[str]) -> Headline:
    """Return how many ids publishers have together, which was asked before looking."""
    number, interval = _numbers([row], lambda one: one.ends, counted=True)[0]
    if len(publishers) == 1:
        who = f"{publishers[0]} has "
    else:
        who = f"All {len(publishers):,} publishers together reach "
    return (("", who), ("strong", f"{number} ids"), ("soft", f" ({interval})"), ("", "."))


def overlap_headline(rows: Sequence[Line]) -> Headline:
    """Return how many ids some publishers share, of those that are more than noise."""
    told = [row for row in rows if row.ends[0] > 0]
    if not told:
        return (("", "No shared ids can be told from the noise."),)
    numbers = _numbers(told, lambda one: one.ends, counted=True)
    pieces: list[tuple[Literal["", "strong", "soft"], str]] = []
    for row, (number, interval) in zip(told, numbers, strict=True):
        pieces += [
            ("strong", f"{', ' * bool(pieces)}{number}{' ids' * (not pieces)}"),
            ("soft", f" ({interval})"),
            ("", f"{' are' * (not pieces)} at {row.label}"),
        ]
    return (*pieces, ("", "."))


def change_headline(rows: Sequence[Line], unit: str) -> Headline:
    """Return the largest change that is one, or that none can be told from noise."""
    real = [row for row in rows if row.together and not row.together[0] <= 0 <= row.together[1]]
    if not real:
        return (("", "No change can be told from the noise when all are taken together."),)
    best = max(real, key=lambda row: abs(row.estimate))
    number, interval = _numbers([best], _held_together)[0]
    sign = "+" * (best.estimate > 0)
    others = f" {len(real):,} of {len(rows):,} changes are larger than the noise{_TOGETHER}."
    return (
        ("", f"{best.label}: "),
        ("strong", f"{sign}{number} {unit}".rstrip()),
        ("soft", f" ({interval}{_TOGETHER})"),
        ("", f".{others}"),
    )


def headline_advice(level: float) -> str:
    """Return how headlines are to be read."""
    return (
        "A headline about the largest value has the interval for all together in brackets, because "
        "that value was picked out after looking. Where these intervals overlap, each of the "
        "values may be the largest; the difference of two that you had in mind before looking may "
        f"still be clear. Any other headline has the {percent_text(level)} interval by itself."
    )


def _held_together(row: Line) -> Ends:
    return row.together or row.ends


def _numbers(
    rows: Sequence[Line],
    ends_of: Callable[[Line], Ends],
    sign: str = "",
    crowd: float | None = None,
    *,
    counted: bool = False,
) -> list[_Number]:
    """Return numbers with a digit less than tables where they have many; intervals go outwards."""
    found = [
        (in_percent(row.estimate, crowd), tuple(in_percent(end, crowd) for end in ends_of(row)))
        for row in rows
    ]
    widths = [half_width(value, (low, high)) for value, (low, high) in found]
    narrowest = min((one for one in widths if one > 0), default=0.0)
    places = decimal_places(narrowest, counted=counted)
    if places > 1:
        places -= 1
    return [
        (
            nearest_text(value, places) + sign,
            f"{lower_text(low, places)} to {upper_text(high, places)}{sign}",
        )
        for value, (low, high) in found
    ]


def _too_noisy(what: str) -> Headline:
    return (("strong", "Too noisy to say"), ("", f"{what}."))


def _listed(words: Sequence[str]) -> str:
    if len(words) == 1:
        return words[0]
    return f"{', '.join(words[:-1])} and {words[-1]}"
