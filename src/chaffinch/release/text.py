"""A statement in plain text: a table for each section, the promise, and the details last."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from chaffinch.release.statement import Grid, Line, Section, Statement
from chaffinch.rounding import error_text, lower_text, nearest_text, upper_text
from chaffinch.text_tables import text_table

WIDTH = 80
_MOST_ROWS = 40


def statement_text(statement: Statement, *, width: int = WIDTH) -> str:
    """Return the statement as plain text, no paragraph wider than ``width`` columns."""

    def paragraphs(*texts: str) -> list[str]:
        return [line for one in texts for line in [*_wrap_text(one, width), ""]]

    lines = paragraphs(statement.title, *statement.warnings)
    for section in statement.sections:
        lines.extend([*_section_lines(section, width), ""])
    lines += paragraphs(statement.legend, *(f"note: {note}" for note in statement.notes))
    lines += paragraphs(statement.promise, statement.trust)
    lines += ["Details", *_wrap_text(f"{statement.guarantee}.", width, indent="  ")]
    return "\n".join(lines)


def _section_lines(section: Section, width: int) -> Iterator[str]:
    yield from _wrap_text(f"{section.heading} ({section.caption})", width)
    if section.grid is not None:
        yield from _grid_lines(section.grid, width)
        yield ""
    rows = section.leading(_MOST_ROWS)
    heads = [section.label, "estimate", "±", "low", "high"]
    cells = [_row_cells(row) for row in rows]
    if any(row.truth is not None for row in rows):
        heads.append("truth")
        for line, row in zip(cells, rows, strict=True):
            line.append("" if row.truth is None else nearest_text(row.truth, row.decimals))
    yield from text_table([heads, *cells], width)
    left_out = section.left_out(_MOST_ROWS)
    for said in [left_out] * bool(left_out) + [f"note: {note}" for note in section.notes]:
        yield from _wrap_text(said, width, indent="  ")


def _grid_lines(grid: Grid, width: int) -> list[str]:
    """Return a cross table, or nothing where it is too wide."""
    cells = [[nearest_text(one, grid.decimals) for one in row] for row in grid.values]
    body = [[name, *row] for name, row in zip(grid.rows, cells, strict=True)]
    lines = list(text_table([[f"{grid.down} \\ {grid.across}", *grid.columns], *body], width))
    return lines if max(map(len, lines)) <= width else []


def _row_cells(row: Line) -> list[str]:
    low, high = row.ends
    return [
        row.label,
        nearest_text(row.estimate, row.decimals),
        "" if row.standard_error is None else error_text(row.standard_error),
        # Outwards: what is shown must hold whenever the interval does.
        lower_text(low, row.decimals),
        upper_text(high, row.decimals),
    ]


def _wrap_text(text: str, width: int, *, indent: str = "") -> list[str]:
    # Names such as "upper-bound" and "add-remove-one-id" stay whole, to be found and copied.
    return textwrap.wrap(
        text, width, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False
    )
