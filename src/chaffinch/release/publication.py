"""What a release of any kind can do: be read as text, shown as a page, saved as a file."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any, ClassVar

from chaffinch.errors import InvalidInput
from chaffinch.privacy import Guarantee
from chaffinch.release import files
from chaffinch.release.statement import Statement
from chaffinch.release.text import WIDTH, statement_text
from chaffinch.storage.files import atomic

_SUFFIXES = (".json", ".csv", ".parquet", ".html")

_GUARANTEE = ("epsilon", "delta", "neighbours", "view", "crowd", "local_epsilon", "method")
_promised_values = attrgetter(*_GUARANTEE)


class Publication(ABC):
    """A public result. What its kind is made of stands in its document, table and statement."""

    __slots__ = ()

    plan_id: str
    title: str
    guarantee: Guarantee
    _columns: ClassVar[files.TableColumns]
    """What is in the columns of the table."""
    _detail: ClassVar[str]
    """The part of the document that says what the rows of the table say."""

    @abstractmethod
    def document(self) -> dict[str, Any]:
        """Return the release as JSON-ready data."""

    @abstractmethod
    def table(self) -> Sequence[tuple[str | float | None, ...]]:
        """Return all rows."""

    @abstractmethod
    def statement(self) -> Statement:
        """Return what the release says, in sentences and rows."""

    def text(self, *, width: int = WIDTH, truths: Mapping[str, float] | None = None) -> str:
        """Return the release as plain text.

        ``truths``, by the names of rows, stand beside the estimates: of made-up data only.
        """
        statement = self.statement()
        return statement_text(statement.with_truths(truths) if truths else statement, width=width)

    def page(self) -> str:
        """Return the release as a page of HTML."""
        # Drawing is loaded with the first page: whoever holds a release needs no charts.
        from chaffinch.release.page import statement_page

        return statement_page(self.statement())

    def save(self, path: str | Path) -> None:
        """Write the release; the suffix says how: .json, .csv, .parquet or .html.

        The file is there in full or not at all. ``.json`` holds everything and can be read
        back, ``.csv`` has the rows of the table for spreadsheets, ``.parquet`` the same rows
        with their types and the guarantee in the metadata, ``.html`` is a page for people.
        """
        place = Path(path)
        content = self._file_content(check_suffix(place))
        with atomic(place) as file:
            file.write(content)

    def _file_content(self, suffix: str) -> bytes:
        if suffix == ".json":
            return files.json_bytes(self.document())
        if suffix == ".csv":
            return files.csv_bytes(self.table(), self._columns)
        if suffix == ".parquet":
            facts = {name: part for name, part in self.document().items() if name != self._detail}
            facts["sentence"] = self.statement().guarantee
            return files.parquet_bytes(self.table(), self._columns, facts)
        return self.page().encode()

    def __repr__(self) -> str:
        of = f"of plan {self.plan_id[:16]}, {len(self.table())} rows"
        return f"<{type(self).__name__} {self.title!r} {of}>"

    def __str__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        from chaffinch.release.page import statement_excerpt  # late, as in `page`

        return statement_excerpt(self.statement())


def check_suffix(path: Path) -> str:
    """Return how a file of a release is to be written; refuse a suffix that says nothing."""
    suffix = path.suffix.lower()
    if suffix not in _SUFFIXES:
        raise InvalidInput("file name", "one that ends in " + ", ".join(_SUFFIXES), path.name)
    return suffix


def guarantee_document(promise: Guarantee) -> dict[str, Any]:
    """Return a promise as JSON-ready data."""
    return {
        name: finite_or_word(value)
        for name, value in zip(_GUARANTEE, _promised_values(promise), strict=True)
    }


def finite_or_word(value: Any) -> Any:
    """Return a value that JSON can hold: it has no infinity, so that is the word "infinite"."""
    return "infinite" if value == math.inf else value
