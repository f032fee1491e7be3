"""Open a table of answers, whatever it is kept in, and read chosen columns in batches.

Only the columns asked for are decoded, and only one batch is held at a time. Errors name
files, columns and rows (``RowNumbers`` says how they are counted), never the content of a cell.
"""

from __future__ import annotations

import difflib
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chaffinch.disk.locations import is_address
from chaffinch.errors import InvalidInput, InvalidTable, Reason, checks
from chaffinch.questions import Choice, Question
from chaffinch.tables import columnar, objects, sources, text
from chaffinch.tables.answers import CellFormat
from chaffinch.tables.arrays import Opened, Stream, check_kinds, cut_batch, rows_of
from chaffinch.tables.cell_faults import RowNumbers
from chaffinch.tables.dialect import Settings
from chaffinch.tables.formats import (
    DateFormat,
    NumberFormat,
    PlainNumbers,
    reads_numbers,
    said_format,
)
from chaffinch.tables.sources import Source
from chaffinch.tables.spellings import same_letters
from chaffinch.tables.substitutions import Substitutions

if TYPE_CHECKING:
    import pyarrow as pa

_ROWS = 65_536
_FORMATS: dict[str, Callable[[Source, Settings], Opened]] = {
    "csv": lambda source, settings: text.open_csv(source, settings, ","),
    "tsv": lambda source, settings: text.open_csv(source, settings, "\t"),
    "jsonl": lambda source, _: text.open_lines(source),
    "parquet": lambda source, _: columnar.open_parquet(source),
    "arrow": lambda source, _: columnar.open_arrow(source),
}
_ROW_NUMBERS = {
    "csv": RowNumbers.SPREADSHEET,
    "tsv": RowNumbers.SPREADSHEET,
    "jsonl": RowNumbers.LINES,
}
_FIRST_LINE = "the first line is read as the names of the columns"
_COLUMNS = (
    "whoever holds it can look at .columns; the index of a frame is none of them, until "
    ".reset_index() makes it one"
)
_OF_A_FRAME = "their names are not shown, which are cells if its text had no line of names"
SUFFIXES = {f".{name}": name for name in _FORMATS} | {
    ".ndjson": "jsonl",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".pq": "parquet",
}
"""The formats of tables by the ends of their names."""
SPREADSHEETS = {".xlsx", ".xlsm", ".xls", ".ods", ".numbers"}
_ZIP = b"PK\x03\x04"
"""So most spreadsheets begin, whatever they are called; no table does."""
_MAGIC = {b"PAR1": "parquet", b"ARROW1": "arrow", b"\xff\xff\xff\xff": "arrow", b"{": "jsonl"}


@dataclass(frozen=True)
class Table:
    """A table that can be read in batches.

    >>> table = open_table({"tea": ["yes", "no"], "age": [30, 40]})
    >>> table.columns, table.rows
    (('tea', 'age'), 2)
    >>> [batch.to_pydict() for batch in table.batches(["tea"])]
    [{'tea': ['yes', 'no']}]
    """

    columns: tuple[str, ...]
    rows: int | None
    size: int | None
    _stream: Stream
    named_by_first_line: bool = False
    """Whether the names are a first line of text, which may be somebody's answers."""
    names_may_be_cells: bool = False
    """Whether the names may be such a line; a frame may be made of a text, too."""
    unnamed: bool = False
    """Whether it is a bare sequence of answers, whose column nobody has named."""
    readable_again: bool = True
    """Whether it can be read more than once, which a pipe cannot."""
    row_numbers: RowNumbers = RowNumbers.POSITIONS
    """How an error counts the rows."""
    in_memory: bool = False
    """Whether it is a frame, an Arrow table or columns, which have no bytes of their own."""
    notes: tuple[str, ...] = ()
    """How it is written, as far as that was guessed."""
    settings: Settings = field(default_factory=Settings)
    """How it is written, as far as that is known."""
    numbers: Mapping[str, NumberFormat] = field(default_factory=dict)
    """How the numbers of a column are written, where that was guessed."""
    groups: tuple[int, ...] = ()
    """The rows of each row group, of a Parquet file."""
    substitutions: Substitutions | None = None
    """What counts the cells that count as something else, whenever its answers are read."""

    def cell_format(self, column: str, question: Question) -> CellFormat | None:
        """Return how the answers to a question are written in a column; None is for plainly."""
        if reads_numbers(question):
            form = self.numbers.get(column, said_format(self.settings))
            if form is None or form.differs:
                return form
            return PlainNumbers() if form.undecided else None
        dated = isinstance(question, Choice) and question.dates is not None
        pattern = self.settings.date_format
        return DateFormat(pattern) if dated and pattern is not None else None

    @property
    def gaps(self) -> frozenset[str]:
        """Return the texts that stand for a missing answer, folded."""
        return self.settings.gaps

    def __post_init__(self) -> None:
        name, times = Counter(self.columns).most_common(1)[0] if self.columns else ("", 0)
        if times != 1:
            raise self._alike(name, times)

    def batches(self, columns: Sequence[str], *, rows: int = _ROWS) -> Iterator[pa.RecordBatch]:
        """Return the chosen columns in order, at most ``rows`` rows at a time."""
        if isinstance(columns, str) or not columns:
            raise InvalidInput("columns", "a list of names of columns", columns)
        rows = checks.whole("number of rows in a batch", rows, least=1)
        for column in columns:
            if column not in self.columns:
                raise self._unknown(column)
        return self._checked(tuple(dict.fromkeys(columns)), rows)

    def where(self, column: str, keep: Callable[[pa.RecordBatch], Any]) -> Table:
        """Return the rows that ``keep`` says to keep, from a batch with at least this column."""
        if column not in self.columns:
            raise self._unknown(column)

        def stream(columns: tuple[str, ...], rows: int) -> Iterator[pa.RecordBatch]:
            wanted = tuple(dict.fromkeys((*columns, column)))
            for batch in self._checked(wanted, rows):
                yield rows_of(batch, keep(batch))

        return replace(self, rows=None, row_numbers=RowNumbers.IN_GROUP, _stream=stream)

    def _checked(self, columns: tuple[str, ...], rows: int) -> Iterator[pa.RecordBatch]:
        seen = 0
        for batch in self._stream(columns, rows):
            chosen = batch.select(list(columns))
            check_kinds(chosen.schema)
            for part in cut_batch(chosen, rows):
                seen += part.num_rows
                yield part
        if not seen:
            hint = "check the file" if self.readable_again else "it may have been read already"
            raise InvalidTable("one with at least one row", "no rows", hint=hint)

    def _alike(self, name: str, times: int) -> InvalidTable:
        got, hint = f"{times} columns named {_short(name)}" if times else "none", "rename one"
        if times and self.names_may_be_cells:
            first, second, *_ = (at for at, one in enumerate(self.columns, 1) if one == name)
            got = f"columns {first} and {second} of the same name"
            hint = _FIRST_LINE if self.named_by_first_line else hint
        return InvalidTable("one with columns of different names", got, hint=hint)

    def _unknown(self, column: object) -> InvalidTable:
        # A name that may be a cell is shown only where who asked knows it but for a slip.
        near = difflib.get_close_matches(str(column), self.columns, n=1)
        guess = f"did you mean {_short(near[0])}? " if near else ""
        if alike := [one for one in self.columns if same_letters(one, str(column))]:
            guess = f"it has {_short(alike[0])}, whose letters have another Unicode form. "
        return InvalidTable(
            "in the table",
            "no column of that name",
            column=str(column),
            hint=guess + self.known_columns,
            reason=Reason.UNKNOWN_COLUMN,
        )

    @property
    def known_columns(self) -> str:
        """Return the names of the columns, or, where they may be cells, who can see them."""
        if not self.names_may_be_cells:
            listed = ", ".join(map(_short, self.columns[:20])) + ", …" * (len(self.columns) > 20)
            return f"The columns are {listed}"
        why = _FIRST_LINE if self.named_by_first_line else _OF_A_FRAME
        many = len(self.columns)
        shows = "`chaffinch check --show` lists them, for whoever holds the table"
        where = shows if self.named_by_first_line else _COLUMNS
        return f"The table has {many} column{'s' * (many != 1)}; {why}; {where}"


def open_table(
    source: Any,
    *,
    format: str | None = None,  # noqa: A002
    settings: Settings = Settings(),  # noqa: B008 - frozen
    groups: range | None = None,
) -> Table:
    """Open a path, ``"-"`` or a binary stream, an Arrow object, a frame, rows, or columns.

    ``format`` (csv, tsv, jsonl, parquet or arrow) overrides the suffix of a file's name.
    CSV is read as text without guessing types. An empty cell is a missing answer, and so is a
    text that stands for one, unless a question lists it as a value.
    ``settings`` tell how text is written; what they leave open is guessed where it is certain.
    A sequence of answers becomes the one column ``answers``; mappings in one are rows, and frames
    are parts. Of a Parquet file some row ``groups`` may be read alone.
    """
    if format is not None:
        checks.choice("format", format, tuple(_FORMATS))
    form = objects.form_of(source)
    if form == "path":
        path = os.fspath(source)
        if is_address(path):
            found = sources.from_address(path)
        else:
            found = sources.standard_input() if path == "-" else sources.from_path(Path(path))
    elif form == "stream":
        found = sources.from_stream(source)
    else:
        return _object_table(source, settings, in_memory=form == "memory")
    again = found.stream is None  # before anything is read of it
    kind = format or _format(found)
    if groups is not None and kind != "parquet":
        raise InvalidTable("one with row groups", f"one in the format {kind}")
    opened = (
        _FORMATS[kind](found, settings) if groups is None else columnar.open_parquet(found, groups)
    )
    return Table(
        tuple(opened.columns),
        opened.rows,
        found.size,
        opened.stream,
        named_by_first_line=kind in ("csv", "tsv"),
        names_may_be_cells=kind in ("csv", "tsv"),
        readable_again=again,
        row_numbers=_ROW_NUMBERS.get(kind, RowNumbers.POSITIONS),
        notes=tuple(opened.notes),
        settings=replace(settings, separator=opened.separator),
        groups=opened.groups,
    )


def _object_table(source: Any, settings: Settings, *, in_memory: bool) -> Table:
    opened = objects.open_object(source)
    size = getattr(source, "nbytes", None)
    return Table(
        tuple(opened.columns),
        opened.rows,
        size if isinstance(size, int) else None,
        opened.stream,
        readable_again=in_memory,
        in_memory=in_memory,
        names_may_be_cells=not isinstance(source, Mapping),
        unnamed=opened.unnamed,
        settings=settings,
    )


def _format(source: Source) -> str:
    named = [SUFFIXES[end.lower()] for end in source.suffixes if end.lower() in SUFFIXES]
    if named:
        return named[-1]
    start = source.head.lstrip()
    for magic, name in _MAGIC.items():
        if start.startswith(magic):
            return name
    if source.head.startswith(_ZIP) or SPREADSHEETS & {end.lower() for end in source.suffixes}:
        raise InvalidTable(
            "a text or a file of columns",
            f"{source.name!r}, a spreadsheet",
            hint="save it as CSV in the program that wrote it, or read it into a data frame",
        )
    raise InvalidTable(
        "of a format that its name tells",
        f"{source.name!r}",
        hint="give the format: " + ", ".join(_FORMATS),
    )


def _short(name: str) -> str:
    return repr(name if len(name) <= 40 else f"{name[:39]}…")
