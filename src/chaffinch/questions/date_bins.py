"""Dates and times as values of a choice: months, weekdays, quarters, hours. The bins are public.

Months of the calendar (``year-month``) go from a first to a last one: years stay apart.

The time is that of the clock where it was written: nothing is moved to another time zone.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date, datetime

from chaffinch.errors import InvalidInput, Unquoted, checks

DATE_BINS: dict[str, tuple[str, ...]] = {
    "month": (
        *("January", "February", "March", "April", "May", "June"),
        *("July", "August", "September", "October", "November", "December"),
    ),
    "weekday": ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"),
    "quarter": ("Q1", "Q2", "Q3", "Q4"),
    "hour": tuple(f"{hour:02}:00" for hour in range(24)),
}
"""The values of each kind of bin, in order; ``year-month`` has those that are asked for."""
YEAR_MONTH = "year-month"
DATE_PARTS = (*DATE_BINS, YEAR_MONTH)
MERGES_YEARS = ("month", "quarter")
"""Parts of a date in which the same time of several years is one value."""
_YEAR_MONTH = re.compile("[0-9]{4}-(0[1-9]|1[0-2])")


def date_values(part: str, first: str | None = None, last: str | None = None) -> tuple[str, ...]:
    """Return the values of a part of a date.

    >>> date_values("year-month", "2023-11", "2024-02")
    ('2023-11', '2023-12', '2024-01', '2024-02')
    """
    checks.choice("part of a date", part, DATE_PARTS)
    if part == YEAR_MONTH:
        return _months(first, last)
    if first is not None or last is not None:
        raise InvalidInput("first and last", f"given for {YEAR_MONTH} alone", Unquoted(part))
    return DATE_BINS[part]


def _months(first: str | None, last: str | None) -> tuple[str, ...]:
    for name, month in (("first", first), ("last", last)):
        if month is None or not _YEAR_MONTH.fullmatch(month):
            raise InvalidInput(f"{name} month", "a year and a month, such as 2024-01", month)
    start, end = (12 * int(one[:4]) + int(one[5:]) - 1 for one in (first or "", last or ""))
    if not start < end:
        raise InvalidInput("last month", f"after the first, {first}", last)
    return tuple(f"{at // 12:04}-{at % 12 + 1:02}" for at in range(start, end + 1))


def date_part(values: Sequence[object]) -> str | None:
    """Return which part of a date some values are, all of them and in order."""
    for kind, bins in DATE_BINS.items():
        if bins == values:
            return kind
    ends = [str(one) for one in (*values[:1], *values[-1:])]
    if all(map(_YEAR_MONTH.fullmatch, ends)) and ends[0] < ends[1]:
        return YEAR_MONTH if _months(*ends) == values else None
    return None


def year_of(answer: object) -> int | None:
    """Return the year of a date; None where it is no date."""
    moment = _parse_date(answer)
    return None if moment is None else moment.year


def bin_of(kind: str, answer: object) -> str | None:
    """Return the bin that a date falls into; None where it is no date, or has no such part.

    >>> bin_of("month", "2024-03-05"), bin_of("hour", "2024-03-05T17:45:00")
    ('March', '17:00')
    >>> bin_of("hour", "2024-03-05") is None
    True
    """
    moment = _parse_date(answer)
    if moment is None or (kind == "hour" and not isinstance(moment, datetime)):
        return None
    if kind == YEAR_MONTH:
        return f"{moment.year:04}-{moment.month:02}"
    return DATE_BINS[kind][_place(kind, moment)]


def _place(kind: str, moment: date) -> int:
    if kind == "hour":
        return moment.hour if isinstance(moment, datetime) else 0
    if kind == "weekday":
        return moment.weekday()
    return (moment.month - 1) // (3 if kind == "quarter" else 1)


def _parse_date(answer: object) -> date | None:
    if isinstance(answer, date):
        return answer
    if not isinstance(answer, str):
        return None
    text = answer.strip()
    for read in (date.fromisoformat, datetime.fromisoformat):
        try:
            return read(text)
        except ValueError:
            continue
    return None
