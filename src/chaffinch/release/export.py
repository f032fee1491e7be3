"""Rows and documents as tables of Arrow, and as the content of files: JSON, CSV, Parquet."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, get_type_hints

from chaffinch.disk.protected import RELEASE_FACTS

if TYPE_CHECKING:
    import pyarrow as pa

# Spreadsheets take a text that begins so for a formula; the wide forms too, in some languages.
_FORMULA = re.compile(r"\s*[=+\-@'＝＋－＠]")
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?")

Row = tuple[str | float | None, ...]
"""A named tuple, whose type says which cells are texts and which numbers may be missing."""


def json_bytes(document: Mapping[str, Any]) -> bytes:
    """Return JSON in which what holds only plain things is one line, for ``diff``."""
    return "".join([*_json_pieces(dict(document), ""), "\n"]).encode()


def csv_bytes(rows: Iterable[Row], kind: type[Row]) -> bytes:
    """Return rows of a kind as CSV: UTF-8, one header, texts in quotes, numbers to the last digit.

    A text that a spreadsheet would run as a formula (it begins with = + - @) gets an
    apostrophe in front, and so does one that begins with an apostrophe: take one off to
    have the text again. Texts that are plain numbers, such as -5, stay as they are.
    """
    lines = [",".join(map(_in_quotes, get_type_hints(kind)))]
    lines += [",".join(map(_csv_cell, row)) for row in rows]
    return "".join(f"{line}\n" for line in lines).encode()


def _csv_cell(cell: str | float | None) -> str:
    if isinstance(cell, str):
        return _in_quotes(_harmless_text(cell))
    # Not in quotes: some readers would take the whole column for text.
    return "" if cell is None else repr(cell)


def _harmless_text(text: str) -> str:
    """Return a text that no spreadsheet takes for a formula.

    >>> _harmless_text("=1+1"), _harmless_text("tea"), _harmless_text("-5")
    ("'=1+1", 'tea', '-5')
    """
    unsafe = _FORMULA.match(text) and not _NUMBER.fullmatch(text)
    return f"'{text}" if unsafe else text


def arrow_table(rows: Iterable[Row], kind: type[Row], facts: Mapping[str, Any]) -> pa.Table:
    """Return rows of a kind as a table of Arrow, with ``facts`` in its metadata."""
    import pyarrow as pa

    types = {
        str: pa.field("", pa.string(), nullable=False),
        float: pa.field("", pa.float64(), nullable=False),
        float | None: pa.field("", pa.float64()),
    }
    fields = [types[of].with_name(name) for name, of in get_type_hints(kind).items()]
    schema = pa.schema(fields, {RELEASE_FACTS: json.dumps(dict(facts), allow_nan=False).encode()})
    columns = zip(zip(*rows, strict=True), fields, strict=True)
    return pa.table([pa.array(cells, field.type) for cells, field in columns], schema=schema)


def parquet_bytes(table: pa.Table) -> bytes:
    """Return a table as Parquet; texts repeat, so a dictionary makes the file smaller."""
    import pyarrow as pa
    from pyarrow import parquet

    out = pa.BufferOutputStream()
    texts = [field.name for field in table.schema if field.type == pa.string()]
    parquet.write_table(table, out, use_dictionary=texts)
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
