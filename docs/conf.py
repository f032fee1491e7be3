"""How the pages become a site: `make site` writes it to build/site.

The sources are the Markdown files of the repository as they are, so GitHub shows the same pages.
The menu follows from the lists of links on index pages. The site needs no network: fonts are those
of the system, and no page loads anything from elsewhere.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

from pygments.lexers.shell import BashLexer
from pygments.lexers.special import TextLexer
from sphinx.application import Sphinx

project = "chaffinch"
author = "The chaffinch authors"

extensions = ["myst_parser"]
root_doc = "docs/index"
# Sphinx starts at the root of the repository: pages link to those beside this folder.
include_patterns = ["docs/**", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"]
exclude_patterns = [
    ".*",
    "benchmarks",
    "build",
    "clients",
    "examples",
    "requirements",
    "src",
    "tests",
    "tools",
]
nitpicky = True

myst_heading_anchors = 4
"""Headings have the anchors that GitHub gives them."""

html_theme = "furo"
html_title = "chaffinch"
html_copy_source = False
html_show_copyright = False
html_show_search_summary = False
"""Excerpts would be fetched from pages, which a browser refuses to pages opened from a file."""
html_search_scorer = str(Path(__file__).with_name("site") / "search.js")
html_static_path = ["site"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
_PALETTE = {
    "brand-primary": ("#0B64A0", "#6CB8EC"),
    "brand-content": ("#0B64A0", "#6CB8EC"),
    "brand-visited": ("#0B64A0", "#6CB8EC"),
    "background-primary": ("#FBFAF7", "#131517"),
    "background-secondary": ("#F3F1EC", "#1A1D20"),
    "background-hover": ("#EAE7E0", "#23272B"),
    "background-border": ("#DCD9D2", "#33383D"),
    "foreground-border": ("#80868C", "#80868C"),
    "highlight-on-target": ("#FDF0E6", "#33231A"),
    "problematic": ("#B34700", "#FF9A57"),
}
html_theme_options = {
    f"{shade}_css_variables": {f"color-{name}": both[place] for name, both in _PALETTE.items()}
    for place, shade in enumerate(("light", "dark"))
}
pygments_style = "friendly"
pygments_dark_style = "github-dark"

_FOUND_BY = {
    "docs/guides/from-the-command-line": ("--again", "--replace", "--round", "--ledger"),
    "docs/guides/a-table-of-people": (
        *("xlsx", "Excel", "--show", "--person", "next month", "every month", "rounds"),
    ),
    "docs/guides/reading-the-curves": ("GRR", "k-ary randomized response", "k-RR"),
    "docs/concepts/composition": ("next month", "rounds"),
    "docs/concepts/certificates": ("verify certificate", "verify a certificate"),
    "docs/guides/first-collection": ("median", "quantile"),
    "docs/guides/reach": ("reach", "overlap", "audience"),
    "SECURITY": ("threat model", "security"),
}
"""Words that people look for and the search passes over: options are cut at their dashes, and what
is left of `--again` is too common to be kept. Entries of the index are found as they are."""

_ENTRY = re.compile(r"(?m)^- \[[^\]]+\]\(([^)#\s]+)\.md\)")
_PART = re.compile(r"(?m)^## (.*)$")


def add_menu(_app: Sphinx, page: str, content: list[str]) -> None:
    """Put into the menu what an index page lists: each heading above links is a part of it."""
    if posixpath.basename(page) != "index":
        return
    _, *parts = _PART.split(f"## \n{content[0]}" if not _PART.search(content[0]) else content[0])
    for caption, text in zip(parts[::2], parts[1::2], strict=True):
        if pages := _ENTRY.findall(text):
            listed = "\n".join(f"/{posixpath.normpath(f'docs/{one}')}" for one in pages)
            if posixpath.dirname(page) != "docs":
                listed = "\n".join(pages)
            named = f":caption: {caption}\n" if caption else ""
            content[0] += f"\n```{{toctree}}\n:hidden:\n{named}\n{listed}\n```\n"


def add_entries(_app: Sphinx, page: str, content: list[str]) -> None:
    """Put a page into the index under the words by which people look for it."""
    for words in _FOUND_BY.get(page, ()):
        content[0] += f"\n```{{index}} ! {words}\n```\n"


def setup(app: Sphinx) -> None:
    """Connect what is done to each page."""
    app.connect("source-read", add_menu)
    app.connect("source-read", add_entries)
    app.add_lexer("hex", TextLexer)
    app.add_lexer("console", BashLexer)  # commands without a prompt, and no output
