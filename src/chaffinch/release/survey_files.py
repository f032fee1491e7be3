"""Releases as files. The suffix says how; a file is there in full or not at all.

=========  ==================================================================================
.json      everything: `Release.document`, and what `load_release` reads again
.csv       the rows of `Release.table`, for spreadsheets
.parquet   the same rows with their types; the guarantee stands in the metadata
.html      a page for people
=========  ==================================================================================
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from chaffinch.release import files
from chaffinch.release.release import Release, Row

_TEXTS = 2


def save_release(release: Release, path: str | Path) -> None:
    """Write a release to a file in the format that its suffix names."""
    files.save(release, path, FORMATS)


def json_file(release: Release) -> bytes:
    """Return the release as JSON: one line for each value, for people and for ``diff``.

    There is no infinity in JSON; an infinite local epsilon is the text ``"infinite"``.
    """
    return files.json_bytes(release.document())


def csv_file(release: Release) -> bytes:
    """Return the rows as CSV, numbers to the last digit and texts that no spreadsheet runs.

    The standard error of a quantile is empty: there is none.
    """
    return files.csv_bytes(Row._fields, release.table(), texts=_TEXTS)


def parquet_file(release: Release) -> bytes:
    """Return the rows as Parquet, with plan, guarantee and version in the metadata."""
    facts = {name: part for name, part in release.document().items() if name != "questions"}
    facts["sentence"] = str(release.guarantee)
    return files.parquet_bytes(
        Row._fields,
        release.table(),
        texts=_TEXTS,
        facts=facts,
        gaps=["standard_error"],
        repeated=["question"],
    )


def html_file(release: Release) -> bytes:
    """Return the release as a page for people."""
    from chaffinch.release.survey_page import page

    return page(release).encode()


FORMATS: dict[str, Callable[[Release], bytes]] = {
    ".json": json_file,
    ".csv": csv_file,
    ".parquet": parquet_file,
    ".html": html_file,
}
