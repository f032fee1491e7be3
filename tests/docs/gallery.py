"""The pictures and tables of docs/guides/figures.md: run ``python -m tests.docs.gallery``.

Every exhibit of ``chaffinch figures``, with the lines that draw it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from chaffinch.charts.figure import Figure
from chaffinch.charts.gallery.exhibits import EXHIBITS, Exhibit
from chaffinch.charts.gallery.section import Section, TableFigure
from tests.docs import figures
from tests.meta import repository

PAGE = repository.ROOT / "docs" / "guides" / "figures.md"
FOLDER = figures.FOLDER / "gallery"
START, END = "<!-- made by `make docs` -->\n", "<!-- end -->\n"


def files(section: Section) -> dict[Path, str]:
    """Return the pictures of a section by their files."""
    names = (FOLDER / name for name, _ in section.files())
    return {
        path: figures.plate(chart)
        for path, chart in zip(names, section.charts, strict=True)
        if not isinstance(chart, TableFigure)
    }


def code(name: str) -> str:
    """Return the lines of Python that draw an exhibit."""
    return (
        "from chaffinch.charts.gallery.exhibits import chosen_exhibits\n\n"
        f'(exhibit,) = chosen_exhibits("{name}")\n'
        "pictures = exhibit.make().charts  # a notebook shows each\n"
    )


def part(exhibit: Exhibit, section: Section) -> str:
    """Return what the page has about an exhibit."""
    return "\n".join(_lines(exhibit, section)) + "\n"


def _lines(exhibit: Exhibit, section: Section) -> Iterator[str]:
    yield from [f"### {section.heading}", "", f"`{exhibit.name}`: {exhibit.source}.", ""]
    if section.setting:
        yield from [section.setting, ""]
    for (name, _), chart in zip(section.files(), section.charts, strict=True):
        if isinstance(chart, TableFigure):
            yield from [*_table(chart), ""]
            continue
        words = chart.alternative.replace("[", "(").replace("]", ")")
        yield from [f"![{chart.title}. {words}](../figures/gallery/{name})", ""]
        if isinstance(chart, Figure):
            yield from [chart.caption, ""]
    yield from [f"**Published:** {section.published}", "", f"**What holds:** {section.true}", ""]
    yield from ["```py", code(exhibit.name) + "```", ""]


def _table(table: TableFigure) -> Iterator[str]:
    yield from [f"{table.title}:", "", f"| {' | '.join(table.heads)} |"]
    yield "|" + "---|" * table.texts + "---:|" * (len(table.heads) - table.texts)
    for row in table.rows:
        yield f"| {' | '.join(row)} |"
    if table.note:
        yield from ["", table.note]


def written(text: str, made: str) -> str:
    """Return the page with other exhibits."""
    before, _, rest = text.partition(START)
    return before + START + "\n" + made + END + rest.partition(END)[2]


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    _made = ""
    for _exhibit in EXHIBITS:
        _section = _exhibit.make()
        _made += part(_exhibit, _section)
        for _path, _text in files(_section).items():
            _path.write_text(_text, encoding="utf-8")
    PAGE.write_text(written(PAGE.read_text("utf-8"), _made), "utf-8")
