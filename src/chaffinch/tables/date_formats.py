"""Dates as somebody says that they are written. Nothing is guessed: 03/05 is in March or in May."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime

from chaffinch.errors import InvalidAnswer
from chaffinch.questions import is_missing

_TIMES = ("%H", "%I", "%X", "%c")


@dataclass(frozen=True)
class DateFormat:
    """One way to write dates.

    >>> DateFormat("%d.%m.%Y").read("05.03.2024")
    datetime.date(2024, 3, 5)
    """

    pattern: str

    def read(self, cell: object) -> object:
        """Return a text as a date; what is missing, or no text, stays as it is."""
        if not isinstance(cell, str) or is_missing(cell):
            return cell
        try:
            moment = datetime.strptime(cell.strip(), self.pattern)  # noqa: DTZ007 - as written
        except ValueError:
            raise InvalidAnswer(f"a date written as {self.pattern}") from None
        timed = any(sign in self.pattern for sign in _TIMES)
        return moment if timed else date(moment.year, moment.month, moment.day)
