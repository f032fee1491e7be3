"""Cells that count as something else than what they hold, counted while a table is read.

A blank cell may count by ``missing``, an unlisted one as ``unknown``, and a number beyond its
bounds be clipped. That is no fault, but a table of nothing else is none of answers. These are
exact counts of private data: for whoever holds the table, never in a release, never in a log.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from chaffinch.questions import Bit, Choice, Flags, Number, Question, is_missing

_WORDS = {
    "missing": "blank (counted by `missing`)",
    "unknown": "not listed (counted as `unknown`)",
    "clipped": "clipped",
}
"""How a cell can count as something else, and what that is called."""
_NEAR_TOLD = 10
"""So many values are told whose spelling differs."""
_NOTE = (
    "note: these are exact counts of private data, for whoever holds the table alone; no release "
    "tells them"
)


@dataclass
class Counted:
    """How many cells of a column count as something else, of how many."""

    cells: int = 0
    missing: int = 0
    unknown: int = 0
    clipped: int = 0
    near: dict[str, int] = field(default_factory=dict)
    """How many of the unlisted ones differ from a listed value by their spelling alone."""
    years: set[int] = field(default_factory=set)
    """The years of dates that count as a time of any year, as months do."""

    def add(self, how: str, count: int) -> None:
        """Count some cells."""
        setattr(self, how, getattr(self, how) + count)

    def add_near(self, near: str, count: int) -> None:
        """Count cells that are a listed value but for their spelling, if they are."""
        if near:
            self.near[near] = self.near.get(near, 0) + count

    @property
    def nonzero(self) -> dict[str, int]:
        """Return the counts that are not 0, by what they count."""
        return {how: count for how in _WORDS if (count := getattr(self, how))}

    @property
    def is_most(self) -> bool:
        """Return whether more than half of the cells count as something else."""
        return 2 * sum(self.nonzero.values()) > self.cells

    def __str__(self) -> str:
        """Return the counts in words."""
        return ", ".join(f"{count:,} {_WORDS[how]}" for how, count in self.nonzero.items())


class Substitutions:
    """What is counted of a table so far, by question and column, by several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: dict[tuple[str, str], Counted] = {}

    def add(self, question: str, column: str, counted: Counted) -> None:
        """Add what was counted in a part of the table."""
        with self._lock:
            found = self._found.setdefault((question, column), Counted())
            found.cells += counted.cells
            for how, count in counted.nonzero.items():
                found.add(how, count)
            for near, count in counted.near.items():
                found.add_near(near, count)
            found.years |= counted.years

    def of(self, question: str) -> dict[str, Counted]:
        """Return what was counted of a question's columns, where there was something."""
        return {
            column: counted
            for (asked, column), counted in sorted(self._found.items())
            if asked == question and counted.nonzero
        }

    @property
    def warnings(self) -> list[str]:
        """Return what to say of columns that are mostly no answers."""
        warned = [
            f"warning: more than half of column {column!r} counts as something else than what it "
            "holds: is it the right column, and does the question list what people answer?"
            for (_, column), counted in sorted(self._found.items())
            if counted.is_most
        ]
        warned += [
            f"warning: cells of column {column!r} that count as `unknown`, though they differ from "
            f"{near} alone: {count:,}"
            for (_, column), counted in sorted(self._found.items())
            for near, count in sorted(counted.near.items())[:_NEAR_TOLD]
        ]
        warned += [
            f"warning: column {column!r} has dates from {min(counted.years)} to "
            f"{max(counted.years)}, and the same month or quarter of several years counts as one; "
            'to keep years apart, ask for dates = "year-month" with first and last'
            for (_, column), counted in sorted(self._found.items())
            if len(counted.years) > 1
        ]
        return list(dict.fromkeys(warned))

    @property
    def words(self) -> list[str]:
        """Return what to tell whoever holds the table, if there is anything."""
        told = [
            f"column {column!r}, {counted.cells:,} cells: {counted}"
            for (_, column), counted in sorted(self._found.items())
            if counted.nonzero
        ]
        # Several questions may ask for one column.
        warned = self.warnings
        return list(dict.fromkeys([*told, *warned, *[_NOTE] * bool(told)]))


def stand_in(question: Question, answer: object, gaps: frozenset[str]) -> str | None:
    """Return as what an answer counts that the question takes: None for what it is.

    >>> drink = Choice(["tea", "other"], missing="other", unknown="other")
    >>> [stand_in(drink, one, frozenset()) for one in ("tea", "mate", "")]
    [None, 'unknown', 'missing']
    """
    return _RULES[type(question)](question, answer, gaps)


def _of_bit(_: Bit, answer: object, gaps: frozenset[str]) -> str | None:
    return "missing" if is_missing(answer, gaps) else None


def _of_choice(question: Choice, answer: object, gaps: frozenset[str]) -> str | None:
    silent = is_missing(answer, gaps)
    # A text that stands for a gap may be a listed value.
    if (isinstance(answer, str) or not silent) and question.place(answer) is not None:
        return None
    return "missing" if silent else "unknown"


def _of_number(question: Number, answer: object, gaps: frozenset[str]) -> str | None:
    if is_missing(answer, gaps):
        return "missing"
    inside = question.low <= float(answer) <= question.high  # type: ignore[arg-type]
    return None if inside else "clipped"


def _of_flags(question: Flags, answer: object, gaps: frozenset[str]) -> str | None:
    if isinstance(answer, str) and answer.strip() in question.names:
        return None
    return "missing" if is_missing(answer, gaps) else None


_RULES: dict[type, Callable[..., str | None]] = {
    Bit: _of_bit,
    Choice: _of_choice,
    Number: _of_number,
    Flags: _of_flags,
}
