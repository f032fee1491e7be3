"""CSV and JSON lines. Nothing is guessed from the first rows, so no late row can disagree."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from chaffinch.errors import InvalidTable
from chaffinch.files import LONGEST_LINE, Source, reading
from chaffinch.tables.memory import column_of

if TYPE_CHECKING:
    import pyarrow as pa

_Opened = tuple[Sequence[str], int | None, Callable[[tuple[str, ...], int], "Iterator[Any]"]]
_BLOCK = 1 << 20
_DECODE = json.JSONDecoder().raw_decode


def open_csv(source: Source, delimiter: str) -> _Opened:
    """Open text with a header line. Every column is text, and an empty cell is missing."""
    columns = _header(source, delimiter)

    def stream(chosen: tuple[str, ...], _rows: int) -> Iterator[pa.RecordBatch]:
        with source.open() as file, reading(source.name, "CSV"):
            yield from _csv_batches(file, chosen, delimiter, len(columns))

    return columns, None, stream


def _header(source: Source, delimiter: str) -> list[str]:
    whole = source.head[: source.head.rfind(b"\n") + 1] or source.head
    try:
        lines = io.StringIO(whole.decode("utf-8-sig"), newline="")
    except UnicodeDecodeError as error:
        # Where the header itself is readable the row is named later, by the reader.
        start = whole.find(b"\n") + 1
        if error.start < start or not start:
            raise _not_unicode() from None
        lines = io.StringIO(whole[:start].decode("utf-8-sig"), newline="")
    try:
        return next(filter(None, csv.reader(lines, delimiter=delimiter)))
    except (csv.Error, StopIteration):
        raise InvalidTable("one with a header line", "a first line that is none") from None


def _csv_batches(
    file: Any, chosen: tuple[str, ...], delimiter: str, width: int
) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    ragged: list[int] = []

    def refuse(row: Any) -> str:
        ragged.append(row.number - 1)
        return "error"

    row = 1
    try:
        for batch in arrow_csv.open_csv(file, **_options(chosen, delimiter, width, refuse)):
            yield _decoded(batch, row)
            row += batch.num_rows
    except pa.ArrowInvalid as error:
        if ragged:
            raise _ragged(ragged[0], width) from None
        # So Arrow calls a header that no line end follows.
        if row > 1 or "Empty CSV" not in str(error):
            raise


def _options(
    chosen: tuple[str, ...], delimiter: str, width: int, refuse: Callable[[Any], str]
) -> dict[str, Any]:
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    return {
        # With more threads the row number of a bad line would not be known.
        "read_options": arrow_csv.ReadOptions(use_threads=False, block_size=_BLOCK),
        "parse_options": arrow_csv.ParseOptions(
            delimiter=delimiter,
            newlines_in_values=True,
            invalid_row_handler=refuse,
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
    """Return the bytes of a batch as text."""
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
                    raise _not_unicode(column=name, row=row) from None
            raise
    return pa.record_batch(texts, names=batch.schema.names)


def open_lines(source: Source) -> _Opened:
    """Open JSON lines: one object per line. A key that a line lacks is a missing answer.

    The columns are the keys of the lines at the start of the file.
    """
    head = source.head if b"\n" not in source.head else source.head[: source.head.rfind(b"\n")]
    columns: dict[str, None] = {}
    for row, line in enumerate(filter(bytes.strip, head.split(b"\n")), start=1):
        columns |= dict.fromkeys(_object(line, row))

    def stream(chosen: tuple[str, ...], rows: int) -> Iterator[pa.RecordBatch]:
        with source.open() as file, reading(source.name, "JSONL"):
            lines = filter(bytes.strip, iter(partial(file.readline, LONGEST_LINE), b""))
            yield from _line_batches(lines, chosen, rows)

    return list(columns), None, stream


def _line_batches(
    lines: Iterator[bytes], chosen: tuple[str, ...], rows: int
) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    first = 1
    while True:
        values: list[list[Any]] = [[] for _ in chosen]
        appends = [(name, column.append) for name, column in zip(chosen, values, strict=True)]
        row = first
        for row, line in enumerate(islice(lines, rows), start=first + 1):
            found = _object(line, row - 1)
            for name, append in appends:
                append(found.get(name))
        if row == first:
            return
        columns = [
            column_of(column, name=name, first_row=first)
            for name, column in zip(chosen, values, strict=True)
        ]
        yield pa.record_batch(columns, names=list(chosen))
        first = row


def _object(line: bytes, row: int) -> dict[str, Any]:
    try:
        text = line.strip().decode("utf-8-sig" if row == 1 else "utf-8")
        found, end = _DECODE(text)
    except UnicodeDecodeError:
        raise _not_unicode(row=row) from None
    except (ValueError, RecursionError):
        found, end = None, 0
    if not isinstance(found, dict) or end != len(text):
        raise InvalidTable(
            "one JSON object per line",
            f"something else in row {row}",
            hint="check that every line ends where its object ends",
        )
    return found


def _ragged(row: int, width: int) -> InvalidTable:
    return InvalidTable(
        f"one with {width} cells in every row",
        f"another number of cells in row {row}",
        hint="quote the cells that hold delimiters",
    )


def _not_unicode(*, column: str | None = None, row: int | None = None) -> InvalidTable:
    where = "" if row is None else f" in row {row}"
    return InvalidTable(
        "text in UTF-8", f"other bytes{where}", column=column, hint="save the table as UTF-8"
    )
