"""What a release says, in one shape for surveys and audiences.

A statement has a title, a promise, sections of rows, notes and facts. Whoever renders it
(`publication`, `page`) needs to know nothing of the release that it came from.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from chaffinch.charts.rounding import (
    decimal_places,
    half_width,
    in_percent,
    nearest_text,
    percent_text,
    promise_text,
)
from chaffinch.plans.meaning import odds, useless_promise
from chaffinch.privacy import Guarantee
from chaffinch.privacy.guarantee import Odds
from chaffinch.questions import MISSING
from chaffinch.questions.date_bins import date_part

Ends = tuple[float, float]
Pair = tuple[str, str]
Headline = tuple[tuple[Literal["", "strong", "soft"], str], ...]
"""A sentence in pieces, each with its weight: a page prints them so, a terminal alike."""

_NEIGHBOURS = {
    "replace-one": "all of that, replaced by anything else",
    "replace-one-column": "one column, replaced by any other",
    "add-remove-one-id": "one id more or less, at all publishers at once",
}
_VIEWS = {
    "messages": "all messages, in random order",
    "one report": "all that one person sent",
    "records": "all records, in random order",
    "columns": "all columns of all filters, in random order",
    "totals": "the released numbers alone",
}
_METHODS = {
    "exact": "computed exactly",
    "upper-bound": "a proven upper bound",
}


PARTS = "Every number has noise of its own, so parts need not add up to the whole."
_WHOLE = re.compile("-?[0-9]+")
_MOST_OUTSIDE = 3
"""So many rows are named whose estimates lie outside of their intervals."""


class Line(NamedTuple):
    """One row: an estimate with what is known of its error."""

    label: str
    estimate: float
    standard_error: float | None
    """None for a quantile, which has an interval only."""
    interval: Ends | None
    """Holds by itself."""
    together: Ends | None
    """Holds for all rows of its kind at once."""
    decimals: int
    """How many decimals the error leaves of the numbers."""
    name: str = ""
    """What files call this row, where that is not the label."""
    drawn: bool = True
    """Whether the row is on the scale of the section's chart; a sum is not on that of a mean."""
    truth: float | None = None
    """The exact number, which only somebody who made the data up can know."""

    @property
    def ends(self) -> Ends:
        """Return the interval to show where there is room for one."""
        return self.interval or self.together or (self.estimate, self.estimate)

    @property
    def is_outside(self) -> bool:
        """Return whether the estimate is seen to lie outside of the interval beside it."""
        room = 0.5 * 10.0**-self.decimals
        return not self.ends[0] - room <= self.estimate <= self.ends[1] + room


class Grid(NamedTuple):
    """Numbers in rows and columns: a cross table."""

    down: str
    """What the rows are answers to."""
    across: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    values: tuple[tuple[float, ...], ...]
    decimals: int


class Course(NamedTuple):
    """The estimates of one value over several rounds."""

    label: str
    rounds: tuple[str, ...]
    estimates: tuple[float, ...]
    intervals: tuple[Ends, ...]


@dataclass(frozen=True, slots=True)
class Section:
    """Rows that belong together, under one heading."""

    name: str
    """A word for places in a page; no two sections share one."""
    heading: str
    caption: str
    """What the numbers count, such as "in people; 5,000 reports"."""
    label: str
    """The head of the column of labels."""
    rows: tuple[Line, ...]
    unit: str
    counted: bool = True
    """Whether the numbers count people or ids; otherwise they measure something in a unit."""
    notes: tuple[str, ...] = ()
    shared: Mapping[frozenset[str], float] | None = None
    """How much some publishers have in common at least, for a picture of who shares what."""
    grid: Grid | None = None
    """The estimates of the rows as a cross table, where it is small enough to be read."""
    courses: tuple[Course, ...] = ()
    """How values went over several rounds, for a picture of that instead of one of the rows."""
    headline: Headline = ()
    """What was found, in one sentence."""
    crowd: int | None = None
    """Of how many the counts are, where that is known exactly: then they are shares, too."""
    within: Ends | None = None
    """The range that a number can have, where it is known."""
    repeats: bool = False
    """Whether another section counts the same with a smaller error: this one is folded away."""

    @property
    def outside_note(self) -> str:
        """Return what to know of estimates outside of their intervals, if there are any."""
        names = [row.label for row in self.rows if row.is_outside]
        if not names:
            return ""
        more = len(names) - _MOST_OUTSIDE
        listed = ", ".join(names[:_MOST_OUTSIDE]) + f" and {more:,} more" * (more > 0)
        one = len(names) == 1
        return (
            f"Outside of {'its interval' if one else 'their intervals'}, because noise has moved "
            f"{'it' if one else 'them'} beyond what is possible, which is all that an interval "
            f"holds: {listed}. There, read the interval."
        )

    def shares(self, rows: Sequence[Line]) -> list[str]:
        """Return the shares of the crowd that rows are, in percent; none where it is unknown."""
        if self.crowd is None:
            return []
        widths = [in_percent(half_width(row.estimate, row.ends), self.crowd) for row in rows]
        places = decimal_places(min((one for one in widths if one > 0), default=0.0))
        # Of the number that stands beside it.
        shown = [round(row.estimate, row.decimals) for row in rows]
        return [f"{nearest_text(in_percent(one, self.crowd), places)}%" for one in shown]

    @property
    def is_ordered(self) -> bool:
        """Return whether the values have an order of their own, as months and numbers have."""
        labels = [row.label for row in self.rows if row.label != MISSING]
        return date_part(tuple(labels)) is not None or all(map(_WHOLE.fullmatch, labels))

    def leading(self, most: int) -> tuple[Line, ...]:
        """Return the rows to show: all in their order, or the largest where there are more."""
        if len(self.rows) <= most:
            return self.rows
        largest = sorted(self.rows, key=lambda row: -row.estimate)[:most]
        return (
            tuple(row for row in self.rows if row in largest) if self.is_ordered else tuple(largest)
        )

    def left_out(self, most: int) -> str:
        """Return the sentence about rows that are not shown, or nothing where all are."""
        count = len(self.rows)
        return "" if count <= most else f"The {most} largest of {count:,} rows."


@dataclass(frozen=True, slots=True)
class Statement:
    """All that a release says."""

    title: str
    byline: tuple[str, ...]
    """Of how many, when and by whom, as far as is known."""
    warnings: tuple[str, ...]
    """What has to be read before anything else, such as that the promise protects nobody."""
    odds: Odds
    """What is promised, in guesses."""
    promise: str
    """The same as a sentence: who guesses what, and what they have seen."""
    covers: str
    """What is protected: one sentence, and what is not, if that has to be said."""
    trust: str
    """What the promise counts on, and what is left without it: one sentence."""
    guarantee: str
    terms: tuple[Pair, ...]
    """The parts of the guarantee, each with its name."""
    level: float
    legend: str
    """What stands in the columns of a table of plain text."""
    sections: tuple[Section, ...]
    notes: tuple[str, ...]
    reading: tuple[str, ...]
    """How to read the numbers."""
    facts: tuple[Pair, ...]
    """Names and numbers by which a release can be checked."""

    def with_truths(self, truths: Mapping[str, float]) -> Statement:
        """Return the statement with exact numbers beside the rows of these names."""
        sections = tuple(
            replace(
                section,
                rows=tuple(
                    row._replace(truth=truths.get(row.name or row.label)) for row in section.rows
                ),
            )
            for section in self.sections
        )
        return replace(self, sections=sections)


def promise_warnings(guarantee: Guarantee, *, guess: str) -> tuple[str, ...]:
    """Return the warning of a promise that protects nobody."""
    useless = useless_promise(guarantee.epsilon, guarantee.delta, guess=guess)
    return tuple(f"Warning: {words}" for words in useless)


def promise_sentence(guarantee: Guarantee, *, guess: str, seen: str) -> str:
    """Return how well something is protected: a ``guess`` before and after it is ``seen``.

    The number of right guesses is rounded up.
    """
    said = odds(guarantee, guess=guess, seen=seen)
    return said[:1].upper() + said[1:]


def headline_text(headline: Headline) -> str:
    """Return a headline as plain text."""
    return "".join(words for _, words in headline)


def guarantee_terms(guarantee: Guarantee, *, unit: str, one_party: bool = False) -> list[Pair]:
    """Return the parts that every guarantee has, each with its name; promises are rounded up.

    Where ``one_party`` did everything, nobody sees the view; what is released follows from it.
    """
    view = _with_meaning(guarantee.view, _VIEWS)
    if one_party and guarantee.view != "totals":
        view = f"what is released, which follows from {view}"
    proven = "" if guarantee.proven else " (not proven)"
    return [
        ("Unit of protection", unit),
        ("Epsilon", promise_text(guarantee.epsilon, 6)),
        ("Delta", promise_text(guarantee.delta, 3)),
        ("Neighbours", _with_meaning(guarantee.neighbours, _NEIGHBOURS)),
        ("View", view),
        ("Crowd", guarantee.crowd_of_one_party if one_party else guarantee.crowd_shown),
        ("Method", _with_meaning(guarantee.method, _METHODS) + proven),
    ]


def closing_facts(*, batch: str, level: float, version: str) -> list[Pair]:
    """Return the facts that end the list of every release."""
    return [("Batch", batch), ("Level", percent_text(level)), ("Made with", f"chaffinch {version}")]


def _with_meaning(word: str, meanings: Mapping[str, str]) -> str:
    return f"{meanings[word]} ({word})" if word in meanings else word
