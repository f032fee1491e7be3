"""What a release of any kind can do: be read as text, shown as a page, saved, become a frame."""

from __future__ import annotations

import importlib
import textwrap
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from chaffinch.charts.rounding import error_text, lower_text, nearest_text, upper_text
from chaffinch.charts.text_tables import text_table
from chaffinch.disk.files import atomic
from chaffinch.errors import InvalidInput, MissingExtra, Unquoted
from chaffinch.privacy import Guarantee
from chaffinch.release import export
from chaffinch.release.statement import Grid, Line, Section, Statement, headline_text

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    from chaffinch.charts.svg import Picture

_Part = TypeVar("_Part")
_WIDTH = 80
"""Columns of a text, unless somebody says otherwise."""
_MOST_ROWS = 40
_SUFFIXES = (".json", ".csv", ".parquet", ".html")


class Publication(ABC):
    """A public result. What its kind is made of stands in its document, table and statement."""

    __slots__ = ()

    plan_id: str
    title: str
    guarantee: Guarantee
    _row: ClassVar[type[export.Row]]
    """What a row of the table is: a named tuple, whose fields are the columns everywhere."""
    _part: ClassVar = "name of a question"
    """What names the parts of it."""
    _detail: ClassVar[str]
    """The part of the document that says what the rows of the table say."""

    @abstractmethod
    def document(self) -> dict[str, Any]:
        """Return the release as JSON-ready data."""

    @abstractmethod
    def table(self) -> Sequence[export.Row]:
        """Return all rows."""

    @abstractmethod
    def statement(self) -> Statement:
        """Return what the release says, in sentences and rows."""

    @abstractmethod
    def _charted(self, statement: Statement) -> Mapping[str, Section]:
        """Return the sections that ``chart`` draws, by the names that it knows them by."""

    def to_arrow(self) -> pa.Table:
        """Return the table as one of Arrow, with the guarantee in its metadata.

        The release itself offers the Arrow PyCapsule interface: ``polars.DataFrame(release)``,
        ``pyarrow.table(release)`` and DuckDB take it as it is.
        """
        facts = {name: part for name, part in self.document().items() if name != self._detail}
        facts["sentence"] = self.statement().guarantee
        return export.arrow_table(self.table(), self._row, facts)

    def to_pandas(self) -> pd.DataFrame:
        """Return the table as a data frame of pandas, which has to be installed."""
        _require_library("pandas")
        return self.to_arrow().to_pandas()

    def to_polars(self) -> pl.DataFrame:
        """Return the table as a data frame of polars, which has to be installed."""
        frame: pl.DataFrame = _require_library("polars").DataFrame(self.to_arrow())
        return frame

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of the table, of which ``pandas.DataFrame(release)`` makes a frame."""
        return iter(self.table())

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def chart(self, name: str | None = None) -> Picture:
        """Return the chart of one question, as the page draws it; a notebook shows it by itself.

        The name may be left out where there is only one. Charts of a reach have the names of the
        parts of its page: ``reach``, ``overlaps``, ``frequency`` and ``asked``.
        """
        from chaffinch.release.page import section_chart  # late, as in `page`

        statement = self.statement()
        section = self._named(name, self._charted(statement))
        return section_chart(section, statement.level)

    def _named(self, name: str | None, parts: Mapping[str, _Part]) -> _Part:
        """Return the part of that name, or the only one."""
        if name is None and len(parts) == 1:
            (name,) = parts
        if name is None or name not in parts:
            got = Unquoted("none") if name is None else name
            hint = f"there are several: name one, such as {next(iter(parts))!r}" if parts else ""
            rule = f"one of {', '.join(map(repr, parts))}"
            raise InvalidInput(self._part, rule, got, hint=hint)
        return parts[name]

    def text(self, *, width: int = _WIDTH, truths: Mapping[str, float] | None = None) -> str:
        """Return the release as plain text.

        ``truths``, by the names of rows, stand beside the estimates: of made-up data only.
        """
        statement = self.statement()
        return _statement_text(statement.with_truths(truths) if truths else statement, width=width)

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
        content = self.file_content(check_suffix(place))
        with atomic(place) as file:
            file.write(content)

    def file_content(self, suffix: str) -> bytes:
        """Return the content of a file with this suffix, as ``save`` writes it."""
        if suffix == ".json":
            return export.json_bytes(self.document())
        if suffix == ".csv":
            return export.csv_bytes(self.table(), self._row)
        if suffix == ".parquet":
            return export.parquet_bytes(self.to_arrow())
        return self.page().encode()

    def __repr__(self) -> str:
        of = f"of plan {self.plan_id[:16]}, {len(self.table())} rows"
        return f"<{type(self).__name__} {self.title!r} {of}>"

    def __str__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        from chaffinch.release.page import statement_excerpt  # late, as in `page`

        return statement_excerpt(self.statement())


def question_sections(names: Iterable[str], statement: Statement) -> dict[str, Section]:
    """Return the first section of each question that has any; the third's are ``question-3…``."""
    first: dict[int, Section] = {}
    for section in statement.sections:
        first.setdefault(int(section.name.split("-")[1]), section)
    return {name: first[number] for number, name in enumerate(names, 1) if number in first}


def _require_library(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise MissingExtra(f"library {name}", library=name) from None


def check_suffix(path: Path) -> str:
    """Return how a file of a release is to be written; refuse a suffix that says nothing."""
    suffix = path.suffix.lower()
    if suffix not in _SUFFIXES:
        raise InvalidInput("file name", "one that ends in " + ", ".join(_SUFFIXES), path.name)
    return suffix


# ----------------------------------------------------------------------------
# A statement in plain text: a table for each section, the promise, and the details last.


def _statement_text(statement: Statement, *, width: int = _WIDTH) -> str:
    """Return the statement as plain text, no paragraph wider than ``width`` columns."""

    def paragraphs(*texts: str) -> list[str]:
        return [line for one in texts for line in [*_wrap_text(one, width), ""]]

    lines = _wrap_text(statement.title, width)
    lines += paragraphs(*([" · ".join(statement.byline)] * bool(statement.byline))) or [""]
    lines += paragraphs(*statement.warnings)
    for section in statement.sections:
        if section.repeats:
            continue
        lines.extend([*_section_lines(section, width), ""])
    lines += paragraphs(statement.legend, *(f"note: {note}" for note in statement.notes))
    lines += _wrap_text(statement.promise, width)
    lines += paragraphs(statement.covers, statement.trust)
    lines += ["Details", *_wrap_text(f"{statement.guarantee}.", width, indent="  ")]
    return "\n".join(lines)


def _section_lines(section: Section, width: int) -> Iterator[str]:
    yield from _wrap_text(f"{section.heading} ({section.caption})", width)
    yield from _wrap_text(headline_text(section.headline), width, indent="  ")
    if section.grid is not None:
        yield from _grid_lines(section.grid, width)
        yield ""
    rows = section.leading(_MOST_ROWS)
    heads = [section.label, "estimate", "s.e.", "low", "high"]
    cells = [_row_cells(row) for row in rows]
    shares = section.shares(rows)
    if shares:
        heads.insert(1, "share")
        for line, share in zip(cells, shares, strict=True):
            line.insert(1, share)
    if any(row.truth is not None for row in rows):
        heads.append("truth")
        for line, row in zip(cells, rows, strict=True):
            line.append("" if row.truth is None else nearest_text(row.truth, row.decimals))
    yield from text_table([heads, *cells], width)
    left_out = section.left_out(_MOST_ROWS)
    notes = [*filter(None, [section.outside_note]), *section.notes]
    for said in [left_out] * bool(left_out) + [f"note: {note}" for note in notes]:
        yield from _wrap_text(said, width, indent="  ")


def _grid_lines(grid: Grid, width: int) -> list[str]:
    """Return a cross table, or nothing where it is too wide."""
    cells = [[nearest_text(one, grid.decimals) for one in row] for row in grid.values]
    body = [[name, *row] for name, row in zip(grid.rows, cells, strict=True)]
    lines = list(text_table([[f"{grid.down} \\ {grid.across}", *grid.columns], *body], width))
    return lines if max(map(len, lines)) <= width else []


def _row_cells(row: Line) -> list[str]:
    low, high = row.ends
    return [
        row.label,
        nearest_text(row.estimate, row.decimals),
        "" if row.standard_error is None else error_text(row.standard_error),
        # Outwards: what is shown must hold whenever the interval does.
        lower_text(low, row.decimals),
        upper_text(high, row.decimals),
    ]


def _wrap_text(text: str, width: int, *, indent: str = "") -> list[str]:
    # Names such as "upper-bound" and "add-remove-one-id" stay whole, to be found and copied.
    return textwrap.wrap(
        text, width, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False
    )
