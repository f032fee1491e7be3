"""How anything with rows and a document becomes a file: JSON, CSV, Parquet, all or nothing."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from chaffinch.errors import InvalidInput
from chaffinch.files import atomic

METADATA = b"chaffinch.release"
"""The key under which a Parquet file holds the document of its release, without the rows."""

# Spreadsheets take a text that begins so for a formula; the wide forms too, in some languages.
_FORMULA = re.compile(r"\s*[=+\-@'＝＋－＠]")
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?")

Thing = TypeVar("Thing")
Row = Sequence[str | float | None]
"""Texts first, then numbers; None where there is no number."""


def save(thing: Thing, path: str | Path, formats: Mapping[str, Callable[[Thing], bytes]]) -> None:
    """Write something to a file in the format that its suffix names."""
    place = Path(path)
    form = formats.get(place.suffix.lower())
    if form is None:
        raise InvalidInput("file name", "one that ends in " + ", ".join(formats), place.name)
    content = form(thing)
    with atomic(place) as file:
        file.write(content)


def json_bytes(document: Mapping[str, Any]) -> bytes:
    """Return JSON in which what holds only plain things is one line, for ``diff``."""
    return "".join([*_lines(dict(document), ""), "\n"]).encode()


def csv_bytes(fields: Sequence[str], rows: Iterable[Row], *, texts: int) -> bytes:
    """Return rows as CSV: UTF-8, one header, the first ``texts`` cells in quotes.

    A text that a spreadsheet would run as a formula (it begins with = + - @) gets an
    apostrophe in front, and so does one that begins with an apostrophe: take one off to
    have the text again. Texts that are plain numbers, such as -5, stay as they are.
    """
    lines = [",".join(map(_quoted, fields))]
    for row in rows:
        words = (_quoted(harmless(str(text))) for text in row[:texts])
        # Not in quotes: some readers would take the whole column for text.
        numbers = ("" if one is None else repr(one) for one in row[texts:])
        lines.append(",".join([*words, *numbers]))
    return "".join(f"{line}\n" for line in lines).encode()


def harmless(text: str) -> str:
    """Return a text that no spreadsheet takes for a formula.

    >>> harmless("=1+1"), harmless("tea"), harmless("-5")
    ("'=1+1", 'tea', '-5')
    """
    unsafe = _FORMULA.match(text) and not _NUMBER.fullmatch(text)
    return f"'{text}" if unsafe else text


def parquet_bytes(
    fields: Sequence[str],
    rows: Iterable[Row],
    *,
    texts: int,
    facts: Mapping[str, Any],
    gaps: Sequence[str] = (),
    repeated: Sequence[str] = (),
) -> bytes:
    """Return rows as Parquet, with ``facts`` in the metadata.

    ``gaps`` are the columns that may lack a number, ``repeated`` those with few texts.
    """
    import pyarrow as pa
    from pyarrow import parquet

    columns = [
        pa.field(name, pa.string() if place < texts else pa.float64(), nullable=name in gaps)
        for place, name in enumerate(fields)
    ]
    schema = pa.schema(columns, {METADATA: json.dumps(dict(facts), allow_nan=False).encode()})
    arrays = [
        pa.array(cells, field.type)
        for cells, field in zip(zip(*rows, strict=True), columns, strict=True)
    ]
    out = pa.BufferOutputStream()
    parquet.write_table(pa.table(arrays, schema=schema), out, use_dictionary=list(repeated))
    return bytes(out.getvalue())


def _quoted(text: str) -> str:
    doubled = text.replace('"', '""')
    return f'"{doubled}"'


def _lines(value: Any, margin: str) -> Iterator[str]:
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
        yield from _lines(one, deeper)
    yield f"\n{margin}{closing}"
