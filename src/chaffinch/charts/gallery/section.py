"""One part of a page of figures: its pictures and tables, what was published, and what is true."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from chaffinch.cards import escape
from chaffinch.charts.figure import Figure
from chaffinch.charts.heat import HeatFigure
from chaffinch.charts.html_page import html_page
from chaffinch.errors import InvalidInput

_STYLE = """
body{max-width:60rem}
p,dd,.note{max-width:46rem}
dl{display:block}
dt{color:var(--ink);font-weight:600;margin-top:.75rem}
figure{min-width:0}
.line{max-width:44rem;overflow-x:auto}
.line svg{min-width:31rem}
.maps{display:grid;grid-template-columns:repeat(auto-fit,minmax(18rem,1fr));gap:.5rem 1.5rem}
.maps figure{margin:.5rem 0}
"""


@dataclass(frozen=True, slots=True)
class TableFigure:
    """A table of numbers, for a page as HTML and for a file as CSV.

    The first ``texts`` columns are words.
    """

    title: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""
    texts: int = 1

    def __post_init__(self) -> None:
        wrong = [row for row in self.rows if len(row) != len(self.heads)]
        if wrong:
            raise InvalidInput("row of a table", f"{len(self.heads)} cells long", wrong[0])

    def csv(self) -> str:
        """Return the table as the content of a CSV file."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(self.heads)
        writer.writerows(self.rows)
        return text.getvalue()

    def html(self) -> str:
        """Return the table with its title and its note."""
        heads = "".join(
            f'<th scope="col"{_align(place < self.texts)}>{escape(head)}</th>'
            for place, head in enumerate(self.heads)
        )
        rows = "".join(f"<tr>{self._row(row)}</tr>\n" for row in self.rows)
        note = f'<p class="note soft">{escape(self.note)}</p>' if self.note else ""
        region = f'class="wide" tabindex="0" role="region" aria-label="{escape(self.title)}"'
        return (
            f"<div {region}><table><caption>{escape(self.title)}</caption>\n"
            f"<thead><tr>{heads}</tr></thead>\n<tbody>{rows}</tbody></table></div>{note}\n"
        )

    def _row(self, row: tuple[str, ...]) -> str:
        first, *others = row
        cells = [f'<th scope="row">{escape(first)}</th>']
        for place, cell in enumerate(others, 1):
            cells.append(f"<td{_align(place < self.texts)}>{escape(cell)}</td>")
        return "".join(cells)


def _align(words: bool) -> str:  # noqa: FBT001 - of one use
    return ' style="text-align:left;white-space:normal"' if words else ""


@dataclass(frozen=True, slots=True)
class Section:
    """What was published, as figures or tables, and what holds."""

    heading: str
    name: str
    charts: tuple[Figure | HeatFigure | TableFigure, ...]
    published: str
    """What the source shows or says."""
    true: str
    setting: str = ""
    """What a reader must know first, where the heading does not say it."""

    def files(self) -> list[tuple[str, str]]:
        """Return the name and the content of a file for each chart."""
        found = []
        for number, chart in enumerate(self.charts, 1):
            end = f"-{number}" if len(self.charts) > 1 else ""
            if isinstance(chart, TableFigure):
                found.append((f"{self.name}{end}.csv", chart.csv()))
                continue
            # On its own a picture has no page that goes dark with it.
            alone = chart.svg(name=self.name).replace(
                "<style>", "<style>:root{color-scheme:light dark}", 1
            )
            found.append((f"{self.name}{end}.svg", alone + "\n"))
        return found

    def html(self) -> str:
        """Return the section as a part of a page."""
        drawn = "".join(self._drawn(number) for number in range(len(self.charts)))
        tables = all(isinstance(chart, TableFigure) for chart in self.charts)
        # A drawing of lines shrinks its letters: on a narrow screen it is scrolled instead.
        kind = f'class="line" tabindex="0" role="region" aria-label="{escape(self.heading)}"'
        if tables:
            kind = 'class="tables"'
        elif any(isinstance(chart, HeatFigure) for chart in self.charts):
            kind = 'class="maps"'
        setting = f"<p>{escape(self.setting)}</p>\n" if self.setting else ""
        return (
            f"<section><h2>{escape(self.heading)}</h2>\n{setting}"
            f"<div {kind}>{drawn}</div>\n"
            f"<dl><dt>What was published</dt><dd>{escape(self.published)}</dd>\n"
            f"<dt>What is true</dt><dd>{escape(self.true)}</dd></dl></section>\n"
        )

    def _drawn(self, number: int) -> str:
        chart = self.charts[number]
        if isinstance(chart, TableFigure):
            return chart.html()
        terms = ""
        if isinstance(chart, Figure):
            terms = f'<p class="note soft">{escape(chart.caption)}</p>'
        return (
            f"<figure><figcaption>{escape(chart.title)}</figcaption>"
            f"{chart.svg(name=f'{self.name}-{number + 1}', styled=False)}{terms}</figure>\n"
        )


def write_sections(
    folder: str | Path, shown: Sequence[Section], *, page: str, title: str, opening: Sequence[str]
) -> list[Path]:
    """Write a file for every chart, and one page that shows them all; return the files."""
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    content = [file for section in shown for file in section.files()]
    content.append((page, _page(shown, title, opening)))
    written = []
    for name, text in content:
        path = place / name
        path.write_text(text, encoding="utf-8")
        written.append(path)
    return written


def _page(shown: Sequence[Section], title: str, opening: Sequence[str]) -> str:
    return html_page(
        title,
        head="".join(f"<p>{escape(words)}</p>\n" for words in opening),
        main="".join(section.html() for section in shown),
        style=_STYLE,
    )
