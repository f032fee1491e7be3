"""CSV and JSON lines. Kinds are not guessed from the first rows, so no late row can disagree."""

from __future__ import annotations

import codecs
import csv
import io
import json
import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from chaffinch.errors import InvalidTable
from chaffinch.tables.arrays import Opened
from chaffinch.tables.cell_faults import RowNumbers
from chaffinch.tables.dialect import Settings, encoding_of, separator_of
from chaffinch.tables.limits import (
    LINE_WORK,
    LONGEST_LINE,
    PART_WORK,
    TEXT_WORK,
    Work,
    check_names,
)
from chaffinch.tables.objects import column_of
from chaffinch.tables.sources import Source, reading

if TYPE_CHECKING:
    import pyarrow as pa

_BLOCK = 1 << 20
_SHEET = RowNumbers.SPREADSHEET
_NAMES = {"\t": "tabs", ",": "','", ";": "';'", "|": "'|'"}
_SAY_ENCODING = (
    'save the table as UTF-8, or say how it is encoded: encoding = "cp1252" under [table], '
    "or --encoding cp1252"
)
_TEXT_BYTES = 1 << 22
"""How much text of JSON lines is taken at a time, and how many cells."""
_EMPTY_LINES = re.compile(rb"[\r\n]{2,}")
_GAPS = (b"\n\n", b"\n\r", b"\r\r")
"""One of them is wherever a line is empty, and not where lines end with both."""
_BLANK_LINES = re.compile(rb"\n\s+")
_SCALARS = frozenset((str, int, float, bool, type(None)))
_RAGGED = re.compile(r"Row #(\d+): Expected (\d+) columns, got (\d+)")
"""What Arrow says of a row with too few or too many cells. Its handler for such rows would get
their text, and fails with a trace on standard error where that is no UTF-8."""


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object whose keys are all different: nobody knows which of two answers counts."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError
    return found


_DECODE = json.JSONDecoder(object_pairs_hook=_once).raw_decode


def open_csv(source: Source, settings: Settings, usual: str) -> Opened:
    """Open text with a header line. Every column is text, and an empty cell is missing.

    ``usual`` is the separator where neither ``settings`` nor the first lines tell another.
    """
    encoding = encoding_of(source.head, settings)
    head = _whole_head(source.head, encoding)
    delimiter = separator_of(head, settings, usual)
    columns = check_names(_header(head, delimiter))
    notes = []
    if delimiter != usual and settings.separator is None:
        notes.append(f"its cells are separated by {_NAMES[delimiter]}")
    if encoding != "utf-8" and settings.encoding is None:
        notes.append(f"its text is {encoding}")

    def stream(chosen: tuple[str, ...], _rows: int) -> Iterator[pa.RecordBatch]:
        work = Work(source.packed)
        with source.open() as opened, reading(source.name, "CSV"):
            file = opened if encoding == "utf-8" else _recoded(opened, encoding)
            blocks = iter(_CheckedLines(file, delimiter, len(columns), work, settings))
            options = _options(chosen, delimiter, len(columns), settings)
            for batch in _csv_batches(blocks, options, columns):
                work.add(PART_WORK * len(chosen))
                yield batch

    return Opened(columns, None, stream, notes, delimiter)


def _recoded(file: BinaryIO, encoding: str) -> BinaryIO:
    return cast("BinaryIO", _Recoded(file, encoding))


class _Recoded(io.RawIOBase):
    """The bytes of a text in another encoding, as UTF-8; what is none of it is refused."""

    def __init__(self, file: BinaryIO, encoding: str) -> None:
        self._file = file
        self._name = encoding
        self._decoder = codecs.getincrementaldecoder(encoding)()
        self._line = 1

    def close(self) -> None:
        super().close()
        self._file.close()

    def read(self, size: int = -1, /) -> bytes:
        while True:
            block = self._file.read(size)
            try:
                text = self._decoder.decode(block, final=not block)
            except UnicodeDecodeError:
                raise InvalidTable(
                    f"text in {self._name}",
                    f"other bytes in or after line {self._line}",
                    hint=_SAY_ENCODING,
                ) from None
            self._line += text.count("\n")
            if text or not block:
                return text.encode()


class _CheckedLines:
    """The bytes of a CSV file in blocks of whole rows, if every line is a row by itself.

    A quote that is opened and not closed would swallow the lines after it, people and all, up
    to the next quote. No answer has several lines, so a cell that goes on in the next line is
    refused, whichever column it is in, unless ``line_breaks`` says that there are such cells. Of
    a table with several columns, empty lines are left out: they are no rows, and there may be a
    milliard of them.
    """

    def __init__(
        self, file: BinaryIO, delimiter: str, width: int, work: Work, settings: Settings
    ) -> None:
        self._file = file
        self._work = work
        self._gaps = width > 1
        self._whole = _whole_lines(delimiter)
        self._rows = _whole_lines(delimiter, line_breaks=True) if settings.line_breaks else None
        self._open = _open_cell(delimiter)
        self._rest = b""
        self._line = 1

    def __iter__(self) -> Iterator[bytes]:
        while lines := self._next_lines():
            if not self._gaps or lines.removeprefix(codecs.BOM_UTF8).strip(b"\r\n"):
                yield lines

    def _next_lines(self) -> bytes:
        found = self._rest
        while True:
            block = self._file.read(_BLOCK)
            # What ends a line may have two bytes, of which the second is in the next block.
            end = max(block.rfind(b"\n"), block.rfind(b"\r", 0, len(block) - 1)) + 1
            if end or not block:
                break
            found += block
            if len(found) > LONGEST_LINE:
                raise _too_long(self._line + found.count(b"\n"))
        lines, self._rest = (found + block[:end], block[end:]) if block else (found, b"")
        self._work.add(TEXT_WORK * len(lines), read=len(lines))
        if b'"' in lines:
            start = 3 if self._line == 1 and lines.startswith(codecs.BOM_UTF8) else 0
            end = self._checked_end(lines, start, last=not block)
            if end < len(lines):
                lines, self._rest = lines[:end], lines[end:] + self._rest
                self._line += lines.count(b"\n")
                return lines or self._next_lines()
        ends = lines.count(b"\n")
        self._line += ends
        # Counting is quick, a pattern is not; fewer empty lines than that are left to Arrow.
        many = self._gaps and 3 * (ends + lines.count(b"\r")) > len(lines)
        if many and any(gap in lines for gap in _GAPS):
            return _EMPTY_LINES.sub(b"\n", lines)
        return lines

    def _checked_end(self, lines: bytes, start: int, *, last: bool) -> int:
        """Return where the whole rows end; the rest is a cell that goes on in the next block."""
        end = _matched_end(self._whole, lines, start)
        if end < len(lines) and self._rows is not None:
            end = _matched_end(self._rows, lines, end)
        if end < len(lines):
            unfinished = self._rows is not None and not last and self._open.match(lines, end)
            if not unfinished or len(lines) - end > LONGEST_LINE:
                raise self._unclosed(lines, end)
        return end

    def _unclosed(self, lines: bytes, end: int) -> InvalidTable:
        line = self._line + lines.count(b"\n", 0, end)
        advice = (
            "; if cells have line breaks, say so: --line-breaks, or line_breaks = true under "
            "[table] of a survey"
        )
        return InvalidTable(
            "one with every quoted cell closed" + ("" if self._rows else " on its own line"),
            f"a quote in line {line} that is not",
            hint="close the quote; inside a quoted cell, write a quote twice"
            + ("" if self._rows else advice),
        )


def _matched_end(pattern: re.Pattern[bytes], lines: bytes, start: int) -> int:
    matched = pattern.match(lines, start)
    return start if matched is None else matched.end()


def _whole_lines(delimiter: str, *, line_breaks: bool = False) -> re.Pattern[bytes]:
    """Return a pattern of lines whose quotes are closed; quotes inside a bare cell are letters."""
    # The quantifiers are possessive (`*+`): they give nothing back, so that a line is read once,
    # whatever it holds.
    mark = re.escape(delimiter)
    quoted = r'[^"]' if line_breaks else r'[^"\r\n]'
    cell = rf'(?:"(?:{quoted}|"")*+"|[^"{mark}\r\n][^{mark}\r\n]*+|)'
    line = rf"{cell}(?:{mark}{cell})*+"
    return re.compile(rf"(?:{line}[\r\n]++)*+(?:{line}\Z)?".encode())


def _open_cell(delimiter: str) -> re.Pattern[bytes]:
    """Return a pattern of a row up to a quoted cell that has no end yet."""
    mark = re.escape(delimiter)
    cell = rf'(?:"(?:[^"]|"")*+"|[^"{mark}\r\n][^{mark}\r\n]*+|)'
    return re.compile(rf'(?:{cell}{mark})*+"(?:[^"]|"")*+"?\Z'.encode())


def _whole_head(head: bytes, encoding: str) -> str:
    decoder = codecs.getincrementaldecoder("utf-8-sig" if encoding == "utf-8" else encoding)()
    try:
        text = decoder.decode(head)
    except UnicodeDecodeError as error:
        # Where the header itself is readable the row is named later, by the reader.
        start = head.find(b"\n") + 1
        if encoding != "utf-8" or error.start < start or not start:
            raise _not_unicode(encoding) from None
        text = head[:start].decode("utf-8-sig")
    if "\0" in text.partition("\n")[0]:
        raise _not_unicode()  # what two bytes a letter look like where nothing says so
    return text[: text.rfind("\n") + 1] or text


def _header(head: str, delimiter: str) -> list[str]:
    try:
        return next(filter(None, csv.reader(io.StringIO(head, newline=""), delimiter=delimiter)))
    except (csv.Error, StopIteration):
        raise InvalidTable(
            "one with a header line", "a first line that cannot be read as one"
        ) from None


def _csv_batches(
    blocks: Iterator[bytes], options: dict[str, Any], columns: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of blocks, of which the first starts with the header."""
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    row = 1
    for place, block in enumerate(blocks):
        # With more threads the row number of a bad line would not be known.
        reading_options = arrow_csv.ReadOptions(
            use_threads=False, block_size=len(block), column_names=columns if place else None
        )
        try:
            # Parsed from memory: Arrow reads a file in a thread of its own, which may be in the
            # middle of Python code when the process is told to stop, and then aborts it.
            found = arrow_csv.read_csv(pa.py_buffer(block), reading_options, **options)
        except pa.ArrowInvalid as error:
            ragged = _RAGGED.search(str(error))
            if ragged is not None:
                number, width, found_width = map(int, ragged.groups())
                fewer = found_width < width
                raise _ragged(row + number - (1 if place else 2), width, fewer=fewer) from None
            # So Arrow calls a header that no line end follows.
            if place or "Empty CSV" not in str(error):
                raise
            return
        for batch in found.to_batches():
            yield _decoded(batch, row)
            row += batch.num_rows


def _options(
    chosen: tuple[str, ...], delimiter: str, width: int, settings: Settings
) -> dict[str, Any]:
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    return {
        "parse_options": arrow_csv.ParseOptions(
            delimiter=delimiter,
            newlines_in_values=settings.line_breaks,
            # In a table of one column an empty line is a missing answer, not a gap.
            ignore_empty_lines=width > 1,
        ),
        "convert_options": arrow_csv.ConvertOptions(
            include_columns=list(chosen),
            column_types=dict.fromkeys(chosen, pa.binary()),
            null_values=[""],
            strings_can_be_null=True,
        ),
    }


def _decoded(batch: pa.RecordBatch, first_row: int) -> pa.RecordBatch:
    import pyarrow as pa

    texts = []
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        try:
            texts.append(column.cast(pa.string()))
        except pa.ArrowInvalid:
            for row, cell in enumerate(column.to_pylist(), start=first_row):
                try:
                    (cell or b"").decode()
                except UnicodeDecodeError:
                    raise _not_unicode(column=name, row=row, counted=_SHEET) from None
            raise
    return pa.record_batch(texts, names=batch.schema.names)


def open_lines(source: Source) -> Opened:
    """Open JSON lines: one object per line. A key that a line lacks is a missing answer.

    The columns are the keys of the lines at the start of the file.
    """
    head = source.head if b"\n" not in source.head else source.head[: source.head.rfind(b"\n")]
    columns: dict[str, None] = {}
    for row, line in enumerate(filter(bytes.strip, head.split(b"\n")), start=1):
        found = _object(line, row)
        if not found.keys() <= columns.keys():
            columns |= dict.fromkeys(found)
            check_names(list(columns))

    def stream(chosen: tuple[str, ...], rows: int) -> Iterator[pa.RecordBatch]:
        work = Work(source.packed)
        with source.open() as file, reading(source.name, "JSONL"):
            for batch in _line_batches(_written_lines(file, work), chosen, rows):
                work.add((PART_WORK + TEXT_WORK * batch.num_rows) * len(chosen))
                work.add(LINE_WORK * batch.num_rows)
                yield batch

    return Opened(list(columns), None, stream)


def _written_lines(file: BinaryIO, work: Work) -> Iterator[bytes]:
    """Yield the lines that are not blank, from blocks out of which long gaps are taken at once."""
    rest = b""
    # One that is too long is the last: whoever gets it refuses it.
    while len(rest) <= LONGEST_LINE and (block := file.read(_BLOCK)):
        work.add(TEXT_WORK * len(block), read=len(block))
        lines, _, rest = (rest + block).rpartition(b"\n")
        rest = rest.lstrip()
        yield from filter(None, _BLANK_LINES.sub(b"\n", lines.strip()).split(b"\n"))
    if rest:
        yield rest


def _line_batches(
    lines: Iterator[bytes], chosen: tuple[str, ...], rows: int
) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    first = 1
    while True:
        values: list[list[Any]] = [[] for _ in chosen]
        appends = [(name, column.append) for name, column in zip(chosen, values, strict=True)]
        row = first
        size = 0
        for row, line in enumerate(islice(lines, rows), start=first + 1):
            found = _object(line, row - 1)
            for name, append in appends:
                append(found.get(name))
            # A byte of text becomes up to some twenty of objects, and a cell takes eight.
            size += len(line) + len(chosen)
            if size > _TEXT_BYTES:
                break
        if row == first:
            return
        columns = [
            column_of(
                _checked_cells(column, name, first),
                name=name,
                first_row=first,
                numbers=RowNumbers.LINES,
            )
            for name, column in zip(chosen, values, strict=True)
        ]
        yield pa.record_batch(columns, names=list(chosen))
        first = row


def _checked_cells(cells: list[Any], name: str, first_row: int) -> list[Any]:
    # Records and lists of lists are refused before Arrow sees them: it would make a cell for every
    # row and every key in any record, and as many levels as there are lists in lists.
    if set(map(type, cells)) <= _SCALARS:
        return cells
    for row, cell in enumerate(cells, start=first_row):
        texts = isinstance(cell, list) and set(map(type, cell)) <= {str}
        if not (texts or type(cell) in _SCALARS):
            raise InvalidTable(
                "text, a number, true, false, null or a list of texts",
                "something else",
                column=name,
                row=row,
                counted=RowNumbers.LINES.counted,
                hint="write a list of the flags that hold, or a column for each flag",
            )
    return cells


def _object(line: bytes, row: int) -> dict[str, Any]:
    if len(line) > LONGEST_LINE:
        raise _too_long(row)
    try:
        text = line.strip().decode("utf-8-sig" if row == 1 else "utf-8")
        found, end = _DECODE(text)
    except UnicodeDecodeError:
        raise _not_unicode(row=row, counted=RowNumbers.LINES) from None
    except (ValueError, RecursionError):
        found, end = None, 0
    if not isinstance(found, dict) or end != len(text):
        raise InvalidTable(
            "one JSON object per line, with every key once",
            f"something else in row {row}, {RowNumbers.LINES.counted}",
            hint="check that every line ends where its object ends",
        )
    return found


def _too_long(line: int) -> InvalidTable:
    return InvalidTable(
        f"one with lines of at most {LONGEST_LINE >> 20} MiB",
        f"a longer one, line {line}",
        hint="check that the lines end, and what they hold",
    )


def _ragged(row: int, width: int, *, fewer: bool) -> InvalidTable:
    hint = "quote the cells that hold delimiters"
    if fewer:
        hint = "an empty cell has a delimiter, too; or is the row cut off?"
    return InvalidTable(
        f"one with {width} cells in every row",
        f"{'fewer' if fewer else 'more'} cells in row {_SHEET.of(row)}, {_SHEET.counted}",
        hint=hint,
    )


def _not_unicode(
    encoding: str = "utf-8",
    *,
    column: str | None = None,
    row: int = 0,
    counted: RowNumbers | None = None,
) -> InvalidTable:
    name = "UTF-8" if encoding == "utf-8" else encoding
    where = "" if counted is None else f" in row {counted.of(row)}, {counted.counted}"
    return InvalidTable(f"text in {name}", f"other bytes{where}", column=column, hint=_SAY_ENCODING)
