"""Pages say what is true: links lead somewhere, commands exist, no page is lost."""

from __future__ import annotations

import pkgutil
import re
from pathlib import Path

import pytest

from tests.cases import each_case
from tests.docs import pages
from tests.meta import repository

EVERY_PAGE = [
    pytest.param(page, id=str(page.relative_to(repository.ROOT))) for page in pages.pages()
]


@each_case("page", EVERY_PAGE)
def test_links_lead_somewhere(page: Path) -> None:
    broken = []
    for link in re.findall(r"\]\(([^)\s]+)\)", pages.prose(page)):
        if "://" in link or link.startswith("mailto:"):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        if not target.exists() or (anchor and anchor not in pages.anchors(target)):
            broken.append(link)
    assert not broken


def make_targets() -> dict[str, str]:
    """Return the targets that `make help` lists, with their words."""
    text = (repository.ROOT / "Makefile").read_text(encoding="utf-8")
    return dict(re.findall(r"(?m)^([a-z-]+):.*?## (.*)$", text))


@each_case("page", EVERY_PAGE)
def test_commands_on_a_page_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    spans = re.findall(r"`(make [^`\n]+)`", text)
    lines = [
        line for block in pages.blocks(page) for line in block.text.splitlines() if block.language
    ]
    called = re.findall(r"(?m)^(?:\$ )?make ([a-z-]+)", "\n".join([*spans, *lines]))
    assert set(called) <= set(make_targets())


def test_every_command_is_documented() -> None:
    contributing = (repository.ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    missing = [target for target in make_targets() if f"make {target}" not in contributing]
    assert not missing


def test_every_page_under_docs_can_be_reached_from_the_index() -> None:
    index = repository.ROOT / "docs" / "index.md"
    reached, waiting = {index}, [index]
    while waiting:
        page = waiting.pop()
        for link in re.findall(r"\]\(([^)#\s]+)", pages.prose(page)):
            target = (page.parent / link).resolve()
            if target.suffix == ".md" and target.exists() and target not in reached:
                reached.add(target)
                waiting.append(target)
    docs = {page for page in pages.pages() if (repository.ROOT / "docs") in page.parents}
    assert docs <= reached


@each_case("page", EVERY_PAGE)
def test_names_on_a_page_exist(page: Path) -> None:
    # A code span such as `privacy.published` or `chaffinch.charts` is a promise.
    spans = re.findall(r"`([\w.]+)(?:\([^`]*\))?`", page.read_text(encoding="utf-8"))
    missing = [span for span in spans if not exists(span)]
    assert not missing


def exists(span: str) -> bool:
    """Return whether a dotted name can be found; names of other things pass."""
    name = span.removeprefix("chaffinch.")
    if name.partition(".")[0] not in {"charts", "errors", "privacy"}:
        return True
    try:
        # Modules are imported: otherwise it would depend on what earlier tests have loaded.
        pkgutil.resolve_name(f"chaffinch.{name}")
    except (AttributeError, ImportError):
        return False
    return True
