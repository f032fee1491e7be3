"""Whom a promise protects, and what of them, in words: nowhere else is it said."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

Unit = Literal["report", "person", "row"]
"""What is protected: a report (so a person who sends no other), a person, or a row of a table."""

ROWS_ONLY = (
    "A person who has several rows is protected less than this says: name the column that tells "
    "people apart (`person`), or say that every row is another person (`rows_are_people`)."
)
"""What a promise about rows leaves open."""

ROWS_OF_GROUPS_ONLY = (
    "A person who has several rows, in one public group or in several, is protected less than this "
    "says: make the group private (`by`) and name the column that tells people apart (`person`), "
    "or say that every row is another person (`rows_are_people`)."
)
"""The same where groups are public, for which no column can tell people apart."""


def weakest_unit(units: Iterable[Unit]) -> Unit:
    """Return what is protected by all promises together."""
    return min(units, key=("row", "report", "person").index)


def protected_answers(
    questions: int,
    rounds: int,
    releases: int = 1,
    *,
    contributions: int = 1,
    unit: Unit = "report",
) -> str:
    """Return what a promise covers, in words.

    >>> protected_answers(1, 1)
    "one person's answer if each sends one report"
    >>> protected_answers(3, 2, unit="person")
    "one person's 3 answers together, in all 2 rounds"
    >>> protected_answers(1, 1, contributions=5), protected_answers(2, 1, unit="row")
    ("one person's answer in all of their 5 reports", "one row's 2 answers together")
    """
    answers = "answer" if questions == 1 else f"{questions} answers together"
    several = contributions > 1 and unit != "row"
    reports = f" in all of their {contributions} reports" if several else ""
    often = f", in all {rounds} rounds" if rounds > 1 else ""
    again = f", in all {releases} releases of the same data" if releases > 1 else ""
    # Whoever reads a batch cannot know that nobody sent more.
    alone = " if each sends one report" if (unit, contributions) == ("report", 1) else ""
    return f"one {'row' if unit == 'row' else 'person'}'s {answers}{reports}{alone}{often}{again}"
