"""Rows and documents as the content of files: JSON, CSV, Parquet."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from chaffinch.disk.protected import RELEASE_FACTS

# Spreadsheets take a text that begins so for a formula; the wide forms too, in some languages.
_FORMULA = re.compile(r"\s*[=+\-@'＝＋－＠]")
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?")

_Cells = Sequence[str | float | None]
"""Texts first, then numbers; None where there is no number."""


class TableColumns(NamedTuple):
    """What is in the columns of a table."""

    names: tuple[str, ...]
    texts: int
    """How many of the first columns are texts; all others are numbers."""
    gaps: tuple[str, ...] = ()
    """Which columns may lack a number."""
    repeated: tuple[str, ...] = ()
    """Which columns repeat a few texts, so that a dictionary makes the file smaller."""


def json_bytes(document: Mapping[str, Any]) -> bytes:
    """Return JSON in which what holds only plain things is one line, for ``diff``."""
    return "".join([*_json_pieces(dict(document), ""), "\n"]).encode()


def csv_bytes(rows: Iterable[_Cells], columns: TableColumns) -> bytes:
    """Return rows as CSV: UTF-8, one header, texts in quotes, numbers to the last digit.

    A text that a spreadsheet would run as a formula (it begins with = + - @) gets an
    apostrophe in front, and so does one that begins with an apostrophe: take one off to
    have the text again. Texts that are plain numbers, such as -5, stay as they are.
    """
    lines = [",".join(map(_in_quotes, columns.names))]
    for row in rows:
        words = (_in_quotes(_harmless_text(str(text))) for text in row[: columns.texts])
        # Not in quotes: some readers would take the whole column for text.
        numbers = ("" if one is None else repr(one) for one in row[columns.texts :])
        lines.append(",".join([*words, *numbers]))
    return "".join(f"{line}\n" for line in lines).encode()


def _harmless_text(text: str) -> str:
    """Return a text that no spreadsheet takes for a formula.

    >>> _harmless_text("=1+1"), _harmless_text("tea"), _harmless_text("-5")
    ("'=1+1", 'tea', '-5')
    """
    unsafe = _FORMULA.match(text) and not _NUMBER.fullmatch(text)
    return f"'{text}" if unsafe else text


def parquet_bytes(rows: Iterable[_Cells], columns: TableColumns, facts: Mapping[str, Any]) -> bytes:
    """Return rows as Parquet, with ``facts`` in the metadata."""
    import pyarrow as pa
    from pyarrow import parquet

    fields = [
        pa.field(
            name,
            pa.string() if place < columns.texts else pa.float64(),
            nullable=name in columns.gaps,
        )
        for place, name in enumerate(columns.names)
    ]
    schema = pa.schema(fields, {RELEASE_FACTS: json.dumps(dict(facts), allow_nan=False).encode()})
    arrays = [
        pa.array(cells, field.type)
        for cells, field in zip(zip(*rows, strict=True), fields, strict=True)
    ]
    out = pa.BufferOutputStream()
    table = pa.table(arrays, schema=schema)
    parquet.write_table(table, out, use_dictionary=list(columns.repeated))
    return bytes(out.getvalue())


def _in_quotes(text: str) -> str:
    doubled = text.replace('"', '""')
    return f'"{doubled}"'


def _json_pieces(value: Any, margin: str) -> Iterator[str]:
    inner = value.values() if isinstance(value, dict) else value
    if not isinstance(value, (dict, list)) or not any(isinstance(v, (dict, list)) for v in inner):
        yield json.dumps(value, ensure_ascii=False, allow_nan=False)
        return
    opening, closing = ("{", "}") if isinstance(value, dict) else ("[", "]")
    keys = (
        [f"{json.dumps(key)}: " for key in value] if isinstance(value, dict) else [""] * len(value)
    )
    deeper = margin + "  "
    yield opening
    for number, (key, one) in enumerate(zip(keys, inner, strict=True)):
        yield f"{',' if number else ''}\n{deeper}{key}"
        yield from _json_pieces(one, deeper)
    yield f"\n{margin}{closing}"
