"""A table of numbers as data, and the ways to write it: HTML for a page, CSV for a file."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass

from chaffinch.charts.svg import escape
from chaffinch.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class TableFigure:
    """Rows of cells under heads; the first ``texts`` columns are words, the others numbers."""

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
