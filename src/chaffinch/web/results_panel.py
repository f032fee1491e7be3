"""Releases of the folder: read, drawn, and taken along as files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import chaffinch as cf
from chaffinch import reach
from chaffinch.errors import ChaffinchError
from chaffinch.release.page import statement_inside
from chaffinch.release.publication import Publication
from chaffinch.release.trend_release import load_trend
from chaffinch.web.folder import Folder
from chaffinch.web.frame import card, table
from chaffinch.web.markup import Markup, join, tag

FILES = (".json", ".csv", ".parquet", ".html")


def results_page(folder: Folder) -> Iterator[Markup]:
    """Yield the list of releases."""
    found = folder.releases()
    if not found:
        yield card(
            "No release yet",
            tag(
                "p",
                "What is released into this folder is listed here: ",
                tag("code", str(folder.root)),
            ),
        )
        return
    rows = []
    for word, name in found.items():
        release = load(folder.root / name)
        if release is None:
            rows.append(("cannot be shown", name))
        else:
            title = release.statement().title
            rows.append((tag("a", title, href=f"./results/{word}"), name))
    yield card("Releases of this folder", table(("release", "file"), rows, "The newest first"))


def load(path: Path) -> Publication | None:
    """Return what was released in a file; None if it is damaged, or no release of any kind."""
    for read in (cf.load_release, reach.load_release, load_trend):
        with suppress(ChaffinchError):
            return read(path)
    return None


def files_html(word: str) -> Markup:
    """Return where the files of a release are to be had."""
    links = [tag("a", name, href=f"./{word}/{name}") for name in (f"release{one}" for one in FILES)]
    return tag("p", *(join(one, " ") for one in links), class_="files")


def release_html(release: Publication) -> Markup:
    """Return what a release says, as its page does."""
    return tag("div", Markup(statement_inside(release.statement())), class_="release")
