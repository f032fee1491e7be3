"""How a table is written, as far as it is stated; the rest is guessed, or refused.

A guess is made only where there is one reading; it is told (``Table.notes``), and what does not
fit it later is refused by its row.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from chaffinch.errors import InvalidInput, InvalidTable, checks
from chaffinch.questions import GAPS, gap_words

_SEPARATORS = {"comma": ",", "semicolon": ";", "tab": "\t", "bar": "|"}
_ENCODINGS = ("utf-8", "utf-16", "utf-16-le", "utf-16-be", "latin-1", "cp1252")
GROUP_SIGNS = (",", ".", " ", "'")
"""What may stand between thousands."""
_MARKS = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
_LINES_LOOKED_AT = 100


@dataclass(frozen=True)
class Settings:
    r"""What is known of the way a table is written; None is for what is to be guessed.

    >>> Settings(separator="tab").separator
    '\t'
    """

    separator: str | None = None
    """Between the cells of a line: a comma, a semicolon, a tab or a bar."""
    encoding: str | None = None
    line_breaks: bool = False
    """Whether a quoted cell may go on in the next line, as in tables of remarks."""
    decimal: str | None = None
    """A point or a comma, before the fraction of a number."""
    thousands: str | None = None
    """Between groups of three digits: a comma, a point, a space, an apostrophe, or ``none``."""
    percent: str | None = None
    """What 12% is: the ``number`` 12 or the ``share`` 0.12."""
    date_format: str | None = None
    """How dates are written, as for ``strptime``: ``%d.%m.%Y``. Without it the year comes first."""
    missing_values: tuple[str, ...] | None = None
    """Texts that stand for a missing answer, in any case, besides empty ones; None: the usual."""

    def __post_init__(self) -> None:
        if self.missing_values is not None:
            gap_words(self.missing_values)
            object.__setattr__(self, "missing_values", tuple(self.missing_values))
        if self.separator is not None:
            sign = _SEPARATORS.get(str(self.separator), self.separator)
            if sign not in _SEPARATORS.values():
                listed = ", ".join(_SEPARATORS)
                raise InvalidInput("separator", f"one of {listed}, or its sign", self.separator)
            object.__setattr__(self, "separator", sign)
        if self.encoding is not None:
            known = checks.choice("encoding", str(self.encoding).lower(), _ENCODINGS)
            object.__setattr__(self, "encoding", known)
        if not isinstance(self.line_breaks, bool):
            raise InvalidInput("line_breaks", "true or false", self.line_breaks)
        self._check_numbers()

    def _check_numbers(self) -> None:
        if self.decimal is not None:
            checks.choice("decimal sign", self.decimal, (".", ","))
        if self.thousands == "none":
            object.__setattr__(self, "thousands", "")
        if self.thousands is not None:
            signs = tuple(sign for sign in ("", *GROUP_SIGNS) if sign != self.decimal)
            checks.choice("sign between thousands", self.thousands, signs)
        if self.percent is not None:
            checks.choice("meaning of percent", self.percent, ("number", "share"))
        written: object = self.date_format
        if not (written is None or (isinstance(written, str) and "%" in written)):
            rule = "one such as %d.%m.%Y or %m/%d/%y %H:%M"
            raise InvalidInput("format of dates", rule, self.date_format)

    @property
    def gaps(self) -> frozenset[str]:
        """Return the texts that stand for a missing answer, as they are looked up."""
        return GAPS if self.missing_values is None else gap_words(self.missing_values)


def settings_from(said: Mapping[str, Any]) -> Settings:
    """Return settings that stand in a mapping, each under its name.

    >>> settings_from({"decimal": ","}).decimal
    ','
    """
    names = [one.name for one in fields(Settings)]
    if not isinstance(said, Mapping):
        raise InvalidInput("settings of a table", "a mapping from names to settings", said)
    unknown = [name for name in said if name not in names]
    if unknown:
        raise InvalidInput("setting of a table", f"one of {', '.join(names)}", unknown[0])
    return Settings(**said)


def joined(said: Settings, before: Settings) -> Settings:
    """Return settings, and where they say nothing, those that were said before."""
    usual = Settings()
    given = {
        one.name: getattr(said, one.name)
        for one in fields(Settings)
        if getattr(said, one.name) != getattr(usual, one.name)
    }
    return replace(before, **given)


def encoding_of(head: bytes, settings: Settings) -> str:
    """Return the encoding of a text: as said, by its byte order mark, or UTF-8."""
    marked = _MARKS.get(head[:2], "utf-8")
    return marked if settings.encoding is None else settings.encoding


def separator_of(head: str, settings: Settings, usual: str) -> str:
    r"""Return what stands between cells: as said, or the one sign that fits the first lines.

    ``head`` is whole lines. A sign fits if it parts the first line and every other into as many
    cells.

    >>> separator_of("age;price\n30;1,5\n", Settings(), ",")
    ';'
    """
    if settings.separator is not None:
        return settings.separator
    parting = [
        sign for sign in _SEPARATORS.values() if len(_cells_of_first_lines(head, sign)[0]) > 1
    ]
    fitting = [
        sign for sign in parting if len(set(map(len, _cells_of_first_lines(head, sign)))) == 1
    ]
    if len(fitting) > 1:
        names = [name for name, sign in _SEPARATORS.items() if sign in fitting]
        raise InvalidTable(
            "one with one sign between its cells",
            f"one that {' or '.join(names)} could part",
            hint=f'say which: separator = "{names[0]}" under [table], or --separator {names[0]}',
        )
    return fitting[0] if fitting else usual if usual in parting or not parting else parting[0]


def _cells_of_first_lines(head: str, sign: str) -> list[list[str]]:
    rows: list[list[str]] = []
    try:
        for row in csv.reader(io.StringIO(head, newline=""), delimiter=sign):
            if row:
                rows.append(row)
            if len(rows) == _LINES_LOOKED_AT:
                break
    except csv.Error:
        pass  # a cell that is too long; the lines before it will do
    return rows or [[]]
