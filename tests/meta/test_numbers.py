"""Numbers are written one way for people: 336,776, in code, docs and output."""

from __future__ import annotations

import re

from tests.meta import repository

CODE = re.compile(r"```.*?```|`[^`\n]*`|\[[^\]\n]*\]\([^)\n]*\)", re.DOTALL)
APART = re.compile(r"(?<![\d.,+])[1-9]\d{0,2}(?: \d{3})+(?![\d.])")


def test_thousands_are_set_apart_by_commas() -> None:
    pages = [*repository.ROOT.glob("*.md"), *repository.ROOT.glob("docs/**/*.md")]
    pages += [*repository.ROOT.glob("examples/**/*.md"), repository.ROOT / "Makefile"]
    assert len(pages) > 30
    wrong = {
        page.name: found
        for page in pages
        if (found := APART.findall(CODE.sub("", page.read_text(encoding="utf-8"))))
    }
    assert not wrong
    assert APART.findall("about 336 776 flights, 1 000 000 ids") == ["336 776", "1 000 000"]
