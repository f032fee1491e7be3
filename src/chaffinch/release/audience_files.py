"""Releases of a reach as files. The suffix says how; a file is there in full or not at all.

=========  ==================================================================================
.json      everything: `ReachRelease.document`, and what `load_release` reads again
.csv       one row for each group, for spreadsheets
.parquet   the same rows with their types; the guarantee stands in the metadata
.html      a page for people
=========  ==================================================================================
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from chaffinch.release import files
from chaffinch.release.audience_release import ReachRelease, ReachRow

_TEXTS = 2


def save_release(release: ReachRelease, path: str | Path) -> None:
    """Write a release to a file in the format that its suffix names."""
    files.save(release, path, FORMATS)


def json_file(release: ReachRelease) -> bytes:
    """Return the release as JSON: one line for each group."""
    return files.json_bytes(release.document())


def csv_file(release: ReachRelease) -> bytes:
    """Return the rows as CSV, numbers to the last digit and texts that no spreadsheet runs."""
    return files.csv_bytes(ReachRow._fields, release.table(), texts=_TEXTS)


def parquet_file(release: ReachRelease) -> bytes:
    """Return the rows as Parquet, with plan, guarantee and version in the metadata."""
    facts = {name: part for name, part in release.document().items() if name != "groups"}
    facts["sentence"] = str(release.guarantee)
    return files.parquet_bytes(
        ReachRow._fields, release.table(), texts=_TEXTS, facts=facts, repeated=["kind"]
    )


def html_file(release: ReachRelease) -> bytes:
    """Return the release as a page for people."""
    from chaffinch.release.audience_page import page

    return page(release).encode()


FORMATS: dict[str, Callable[[ReachRelease], bytes]] = {
    ".json": json_file,
    ".csv": csv_file,
    ".parquet": parquet_file,
    ".html": html_file,
}
