"""The pages become a site without a warning, and it needs nothing from elsewhere."""

from __future__ import annotations

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.meta import repository

_LOADED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href"}
_ELSEWHERE = re.compile(r"(?:https?:)?//")
_KEPT = {"next", "prev", "search", "index", "canonical"}
"""Links in the head of a page that load nothing."""


class Loaded(HTMLParser):
    """What a browser fetches for a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        told = dict(attrs)
        if set((told.get("rel") or "").split()) & _KEPT:
            return
        if (address := told.get(_LOADED.get(tag, ""))) is not None:
            self.found.append(address)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the built site; that it is built without a warning is the first of its tests."""
    folder = tmp_path_factory.mktemp("site")
    words = "-m sphinx --quiet --fail-on-warning --builder html --conf-dir docs --doctree-dir"
    done = subprocess.run(
        [sys.executable, *words.split(), str(folder / "trees"), ".", str(folder / "site")],
        cwd=repository.ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder / "site"


def test_the_site_loads_nothing_from_elsewhere(site: Path) -> None:
    pages = {path: Loaded(path.read_text("utf-8")).found for path in site.rglob("*.html")}
    assert len(pages) > 60
    assert all(pages.values())
    assert not {one for found in pages.values() for one in found if _ELSEWHERE.match(one)}
    for path in [*site.rglob("*.css"), *site.rglob("*.svg")]:
        text = path.read_text("utf-8")
        assert not re.findall(r"@import[^;]*|(?:url\(|href=)[\"']?(?:https?:)?//[^)\"']*", text)


def test_every_file_that_a_page_loads_is_there(site: Path) -> None:
    missing = {
        one
        for path in site.rglob("*.html")
        for one in Loaded(path.read_text("utf-8")).found
        if not one.startswith("data:") and not (path.parent / one.partition("?")[0]).exists()
    }
    assert not missing


def test_the_search_finds_words_without_a_server(site: Path) -> None:
    """A page opened from a file may load a script, and no data."""
    index = (site / "searchindex.js").read_text("utf-8")
    assert index.startswith("Search.setIndex(")
    options = (site / "_static" / "documentation_options.js").read_text("utf-8")
    assert "SHOW_SEARCH_SUMMARY: false" in options
    assert '"shuffl"' in index or "shuffl:" in index


def test_words_that_the_search_would_pass_over_are_entries_of_the_index(site: Path) -> None:
    """It cuts options at their dashes, and leaves out words as common as `again`."""
    index = (site / "searchindex.js").read_text("utf-8")
    entries = index[index.index('"indexentries":') :]
    for word in ("--again", "grr", "xlsx", "next month", "--round"):
        assert f'"{word}":[[' in entries


def test_words_are_not_marked_in_pictures(site: Path) -> None:
    """In the titles of icons that fails, and stops the script that marks them."""
    assert "site.js" in (site / "docs" / "claims.html").read_text("utf-8")
    assert 'classList.add("nohighlight")' in (site / "_static" / "site.js").read_text("utf-8")
    assert '"nohighlight"' in (site / "_static" / "sphinx_highlight.js").read_text("utf-8")


def test_a_door_holds_no_picture(site: Path) -> None:
    page = (site / "docs" / "index.html").read_text("utf-8")
    doors = page[page.index('id="three-doors"') : page.index('id="you-have-a-table"')]
    assert "<img" not in doors
    assert "plan.svg" in page


def test_both_colour_schemes_have_the_palette(site: Path) -> None:
    page = (site / "docs" / "index.html").read_text("utf-8")
    for colour in ("#0B64A0", "#6CB8EC", "#FBFAF7", "#131517"):
        assert colour in page


def test_the_search_leads_to_guides_before_decisions(site: Path) -> None:
    index = (site / "searchindex.js").read_text("utf-8")
    for words in ("reach", "threat model", "verify certificate"):
        # As a main entry: others come after everything else.
        assert re.search(rf'"{words}":\[\[\d+,"[\w-]+",true\]\]', index), words
    assert "decisions" in (site / "_static" / "language_data.js").read_text("utf-8")
