"""Numbers and dates as people write them: 1,234.50 and 1.234,50, 5.3.2024 and 03/05.

Plain numbers are read without any of this. Another way of writing is guessed from the first rows
of a column where only one reading of them is possible; where two differ, as for 1,234, nobody but
the person who holds the table knows, and is asked. How dates are written is never guessed: 03/05
is in March or in May.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import date, datetime
from decimal import Decimal
from functools import cached_property

from chaffinch.errors import InvalidAnswer, InvalidTable
from chaffinch.questions import Choice, Number, Question, is_missing
from chaffinch.tables.dialect import GROUP_SIGNS, Settings

_SIGN = re.compile(r"[+-]?")
_SPACES = "\u00a0\u202f"
"""Spaces that do not break, as programs write them between groups of digits."""
_TWO_READINGS = re.compile(r"[1-9]\d{0,2}(?:[.,]\d{3})+")
_SAY = (
    'say how: decimal = "." or ",", thousands = "," or "." or "none" under [table], or as options'
)
_TIMES = ("%H", "%I", "%X", "%c")
_SAY_PERCENT = 'say what 12% is: percent = "number" (12) or "share" (0.12) under [table]'


@dataclass(frozen=True)
class PlainNumbers:
    """Plain numbers of a table of which nothing tells what 1.234 is: that alone is refused."""

    def read(self, answer: object) -> object:
        """Return an answer as it is."""
        if isinstance(answer, str):
            _refuse_two_readings(_bare(answer))
        return answer


@dataclass(frozen=True)
class NumberFormat:
    """One way to write numbers.

    >>> NumberFormat(",", ".", currency="€").read("1.234,50 €")
    1234.5
    >>> NumberFormat(percent="share").read("12.5%")
    0.125
    """

    decimal: str = "."
    thousands: str = ""
    percent: str = ""
    """What 12% is: the ``number`` 12, or the ``share`` 0.12; empty where it is no number."""
    currency: str = ""
    undecided: bool = False
    """Whether nothing tells what 1.234 is: it is refused then."""

    def read(self, answer: object) -> object:
        """Return a text as a number; what is missing, or no text, stays as it is."""
        if not isinstance(answer, str) or is_missing(answer):
            return answer
        bare = _bare(answer)
        if self.undecided:
            _refuse_two_readings(bare)
        allowed = bare.currencies <= {self.currency} and (bool(self.percent) or not bare.percent)
        if not allowed or not self._pattern.fullmatch(bare.digits):
            raise InvalidAnswer(
                f"a number such as {self.example}",
                hint="how numbers are written can be said: decimal, thousands and percent under "
                "[table]",
            )
        plain = bare.digits.replace(self.thousands, "") if self.thousands else bare.digits
        plain = plain.replace(self.decimal, ".")
        return _shifted(bare.sign + plain, shares=bare.percent and self.percent == "share")

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        point = re.escape(self.decimal)
        grouped = rf"[1-9]\d{{0,2}}(?:{re.escape(self.thousands)}\d{{3}})+|" * bool(self.thousands)
        whole = rf"(?:{grouped}\d+)(?:{point}\d*)?"
        return re.compile(rf"(?:{whole}|{point}\d+)(?:[eE][+-]?\d+)?", re.ASCII)

    @property
    def differs(self) -> bool:
        """Return whether there is anything but plain numbers to read."""
        return replace(self, undecided=False) != NumberFormat()

    @property
    def example(self) -> str:
        """Return a number as it is written this way."""
        digits = f"1{self.thousands}234{self.decimal}50"
        return digits + (f" {self.currency}" if self.currency else "%" if self.percent else "")


def _shifted(plain: str, *, shares: bool) -> float:
    # Shifted as a decimal number, so that it is rounded once.
    return float(Decimal(plain).scaleb(-2)) if shares else float(plain)


@dataclass(frozen=True)
class _Bare:
    sign: str
    digits: str
    percent: bool
    currencies: frozenset[str]


def _refuse_two_readings(bare: _Bare) -> None:
    if _TWO_READINGS.fullmatch(bare.digits):
        raise InvalidAnswer("a number with one meaning, not one such as 1,234 or 1.234", hint=_SAY)


def _bare(text: str) -> _Bare:
    """Return a text without what stands around its digits."""
    for space in _SPACES:
        text = text.replace(space, " ")
    currencies = frozenset(one for one in text if unicodedata.category(one) == "Sc")
    for one in currencies:
        text = text.replace(one, "", 1)
    text = (
        text.strip().replace("\N{MINUS SIGN}", "-").replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")
    )
    percent = text.endswith("%")
    text = text.removesuffix("%").rstrip()
    found = _SIGN.match(text)
    sign = found[0] if found else ""
    return _Bare(sign, text[len(sign) :].strip(), percent, currencies)


def reads_numbers(question: Question) -> bool:
    """Return whether answers are numbers: of any kind, or whole ones from a range."""
    if isinstance(question, Choice):
        return isinstance(question.values, range)
    return isinstance(question, Number)


def said_format(settings: Settings) -> NumberFormat | None:
    """Return the format of all numbers of a table by what was said, or None where all are plain."""
    unsaid = settings.decimal is settings.thousands is None
    undecided = unsaid and not _has_plain_points(settings)
    if unsaid and settings.percent is None and not undecided:
        return None
    point = settings.decimal or ("," if settings.thousands == "." else ".")
    return NumberFormat(
        point, settings.thousands or "", settings.percent or "", undecided=undecided
    )


def _has_plain_points(settings: Settings) -> bool:
    # Programs write a point before the fraction. Only a table whose cells are not separated by
    # commas may come from a place where a point separates thousands.
    return settings.separator in {None, ","}


def guess_format(
    texts: Iterable[str], settings: Settings, *, column: str, unit: str = ""
) -> NumberFormat:
    """Return the one format that some texts of a column are written in.

    What is a number in no format is left out: its row is told later.
    """
    cells = [
        _bare(text) for text in {text for text in texts if not is_missing(text, settings.gaps)}
    ]
    signs = sorted({sign for one in cells for sign in one.currencies})
    if len(signs) > 1:
        raise _refused(column, "in one currency", "several signs", "give each its own column")
    percent = settings.percent or ("number" if unit.strip() in {"%", "percent"} else "")
    if any(one.percent for one in cells) and not percent:
        raise _refused(column, "of numbers with one meaning", "percent signs", _SAY_PERCENT)
    found = _only_reading({one.digits for one in cells}, settings, column)
    return replace(found, percent=percent, currency=signs[0] if signs else "")


def _only_reading(digits: set[str], settings: Settings, column: str) -> NumberFormat:
    """Return the format in which all digits are numbers, if it reads them as no other one does."""
    readings = {one: _readings(one, digits) for one in _possible_formats(settings)}
    numbers = {text for read in readings.values() for text in read}
    fitting = {one: read for one, read in readings.items() if len(read) == len(numbers)}
    if not fitting:
        raise _refused(column, "of numbers that are written in one way", "several ways", _SAY)
    if NumberFormat() in fitting and _has_plain_points(settings):
        return NumberFormat()
    first, *others = fitting
    if any(fitting[first] != fitting[other] for other in others):
        raise _refused(
            column, "of numbers with one meaning", "ambiguous ones such as 1,234 or 1.234", _SAY
        )
    later = {value for one in fitting for value in _readings(one, {"1.234"}).values()}
    return replace(first, undecided=len(later) > 1)


def _possible_formats(settings: Settings) -> list[NumberFormat]:
    return [
        NumberFormat(point, sign)
        for sign in ("", *GROUP_SIGNS)
        for point in ".,"
        if sign != point
        and settings.decimal in {None, point}
        and settings.thousands in {None, sign}
    ]


def _readings(form: NumberFormat, digits: set[str]) -> dict[str, object]:
    found: dict[str, object] = {}
    for text in digits:
        with suppress(InvalidAnswer):
            found[text] = form.read(text)
    return found


def _refused(column: str, must_be: str, got: str, hint: str) -> InvalidTable:
    return InvalidTable(must_be, got, column=column, hint=hint)


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
