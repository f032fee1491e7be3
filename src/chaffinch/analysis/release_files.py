"""Releases as files. The suffix says how; a file is there in full or not at all.

=========  ==================================================================================
.json      everything: `Release.document`, and what `load_release` reads again
.csv       the rows of `Release.table`, for spreadsheets
.parquet   the same rows with their types; the guarantee stands in the metadata
.html      a page for people
=========  ==================================================================================
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from chaffinch.analysis.release import Release, Row
from chaffinch.errors import InvalidInput
from chaffinch.tables.write import atomic

METADATA = b"chaffinch.release"
"""The key under which a Parquet file holds the document of its release, without the rows."""

# Spreadsheets take a text that begins so for a formula; the wide forms too, in some languages.
_FORMULA = re.compile(r"\s*[=+\-@'＝＋－＠]")
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?")


def save_release(release: Release, path: str | Path) -> None:
    """Write a release to a file in the format that its suffix names."""
    place = Path(path)
    form = FORMATS.get(place.suffix.lower())
    if form is None:
        raise InvalidInput("file name", "one that ends in " + ", ".join(FORMATS), place.name)
    content = form(release)
    with atomic(place) as file:
        file.write(content)


def json_file(release: Release) -> bytes:
    """Return the release as JSON: one line for each value, for people and for ``diff``.

    There is no infinity in JSON; an infinite local epsilon is the text ``"infinite"``.
    """
    return "".join([*_lines(release.document(), ""), "\n"]).encode()


def csv_file(release: Release) -> bytes:
    """Return the rows as CSV: UTF-8, one header, texts in quotes, numbers to the last digit.

    The standard error of a quantile is empty: there is none.

    A text that a spreadsheet would run as a formula (it begins with = + - @) gets an
    apostrophe in front, and so does one that begins with an apostrophe: take one off to
    have the text again. Texts that are plain numbers, such as -5, stay as they are.
    """
    lines = [",".join(map(_quoted, Row._fields))]
    for question, value, *numbers in release.table():
        texts = (_quoted(harmless(text)) for text in (question, value))
        # Not in quotes: some readers would take the whole column for text.
        lines.append(",".join([*texts, *("" if one is None else repr(one) for one in numbers)]))
    return "".join(f"{line}\n" for line in lines).encode()


def harmless(text: str) -> str:
    """Return a text that no spreadsheet takes for a formula.

    >>> harmless("=1+1"), harmless("tea"), harmless("-5")
    ("'=1+1", 'tea', '-5')
    """
    unsafe = _FORMULA.match(text) and not _NUMBER.fullmatch(text)
    return f"'{text}" if unsafe else text


def parquet_file(release: Release) -> bytes:
    """Return the rows as Parquet, with plan, guarantee and version in the metadata."""
    import pyarrow as pa
    from pyarrow import parquet

    kinds = {"question": pa.string(), "value": pa.string()}
    fields = [
        pa.field(name, kinds.get(name, pa.float64()), nullable=name == "standard_error")
        for name in Row._fields
    ]
    facts = {name: part for name, part in release.document().items() if name != "questions"}
    facts["sentence"] = str(release.guarantee)
    schema = pa.schema(fields, {METADATA: json.dumps(facts, allow_nan=False).encode()})
    columns = zip(*release.table(), strict=True)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, fields, strict=True)]
    out = pa.BufferOutputStream()
    parquet.write_table(pa.table(arrays, schema=schema), out, use_dictionary=["question"])
    return bytes(out.getvalue())


def html_file(release: Release) -> bytes:
    """Return the release as a page for people."""
    from chaffinch.analysis.release_page import page

    return page(release).encode()


FORMATS: dict[str, Callable[[Release], bytes]] = {
    ".json": json_file,
    ".csv": csv_file,
    ".parquet": parquet_file,
    ".html": html_file,
}


def _quoted(text: str) -> str:
    doubled = text.replace('"', '""')
    return f'"{doubled}"'


def _lines(value: Any, margin: str) -> Iterator[str]:
    """Yield JSON in which what holds only plain things is one line."""
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
