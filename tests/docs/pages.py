"""The written pages, cut into the pieces that can be checked."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from tests.meta import repository


class Block(NamedTuple):
    """One fenced block: the page it is on, its first line, its language and its text."""

    page: Path
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(repository.ROOT)}:{self.line}"


def pages() -> list[Path]:
    """Return every Markdown page of the repository."""
    return [path for path in repository.files() if path.suffix == ".md"]


def blocks(page: Path) -> list[Block]:
    """Return the fenced blocks of a page, in order."""
    found: list[Block] = []
    start, language, inside = 0, "", False
    lines = page.read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines, 1):
        fence = re.fullmatch(r"```(\w*)\s*", line)
        if not fence:
            continue
        if inside:
            found.append(Block(page, start, language, "\n".join(lines[start : number - 1]) + "\n"))
        start, language, inside = number, fence[1], not inside
    if inside:
        raise ValueError(f"{page.name}:{start}: a fenced block that never ends")
    return found


def prose(page: Path) -> str:
    """Return a page without its fenced blocks and code spans."""
    text = re.sub(r"(?ms)^```.*?^```\s*?$", "", page.read_text(encoding="utf-8"))
    return re.sub(r"`[^`\n]*`", "", text)


def anchors(page: Path) -> set[str]:
    """Return the names that a link can point at inside a page: its headings, as slugs."""
    text = re.sub(r"(?ms)^```.*?^```\s*?$", "", page.read_text(encoding="utf-8"))
    headings = re.findall(r"(?m)^#+\s+(.*?)\s*$", text)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
