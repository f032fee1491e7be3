"""Dates and times as values of a choice: months, weekdays, quarters, hours. The bins are public.

The time is that of the clock where it was written: nothing is moved to another time zone.
"""

from __future__ import annotations

from datetime import date, datetime

DATE_BINS: dict[str, tuple[str, ...]] = {
    "month": (
        *("January", "February", "March", "April", "May", "June"),
        *("July", "August", "September", "October", "November", "December"),
    ),
    "weekday": ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"),
    "quarter": ("Q1", "Q2", "Q3", "Q4"),
    "hour": tuple(f"{hour:02}:00" for hour in range(24)),
}
"""The values of each kind of bin, in order."""


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
