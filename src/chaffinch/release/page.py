"""A statement as one page of HTML that needs nothing else: charts and tables, then the promise.

What only some readers need is folded away: the guarantee term by term, and facts to check by.

Every text is escaped, so that a label is a label whatever is in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations

from chaffinch.charts.axis import Axis
from chaffinch.charts.estimates import DotFigure, estimates_chart, measured_chart
from chaffinch.charts.heat import HeatFigure
from chaffinch.charts.html_page import html_page
from chaffinch.charts.linear_diagram import MOST_SETS, PartsFigure, parts_chart
from chaffinch.charts.rounding import error_text, lower_text, nearest_text, percent_text, upper_text
from chaffinch.charts.svg import escape
from chaffinch.charts.text_tables import shorten_text
from chaffinch.charts.trends import TrendFigure, trend_chart
from chaffinch.disk.protected import RELEASE_PAGE
from chaffinch.release.statement import Ends, Grid, Line, Pair, Section, Statement

_MOST_ROWS = 200
_EXCERPT_ROWS = 10
_LONGEST_NAME = 12
"""Of a row or a column of a cross table, in its picture."""


def statement_page(statement: Statement) -> str:
    """Return the whole page."""
    warnings, promise = (
        "\n".join(f"<p>{escape(said)}</p>" for said in some)
        for some in (statement.warnings, (statement.promise, statement.trust))
    )
    sections = [
        f"<section>{''.join(_section_html(section, statement.level))}</section>\n"
        for section in statement.sections
    ]
    reading = "".join(f"<li>{escape(line)}</li>\n" for line in statement.reading)
    return html_page(
        statement.title,
        head=f'<div class="warning">{warnings}</div>\n' if warnings else "",
        main="".join(sections)
        + _note_list(statement.notes)
        + f'<section><h2>What is promised</h2>\n<div class="promise">{promise}</div>\n'
        + _folded("The guarantee, term by term", _definitions(statement.terms))
        + "</section>\n"
        + f"<section><h2>How to read this</h2>\n<ul>{reading}</ul></section>\n",
        foot=f"<footer>{_folded('Facts to check by', _definitions(statement.facts))}</footer>\n",
        kind=RELEASE_PAGE,
    )


def statement_excerpt(statement: Statement) -> str:
    """Return a short piece of HTML for notebooks: the guarantee, the first rows and all notes."""
    pieces = [f"<p><strong>{escape(statement.title)}</strong></p>"]
    pieces.append(f"<p>{escape(statement.guarantee)}</p>")
    for section in statement.sections:
        pieces.append(f"<p>{escape(section.heading)}</p>")
        pieces.append(_row_table(section, statement.level, _EXCERPT_ROWS))
        pieces.append(_note_list(section.notes))
    pieces.append(_note_list(statement.notes))
    return "".join(pieces)


def _folded(title: str, inside: str) -> str:
    """Return what is shown only to those who open it, and on paper."""
    return f"<details><summary>{escape(title)}</summary>\n{inside}</details>\n"


def _section_html(section: Section, level: float) -> Iterator[str]:
    yield f"<h2>{escape(section.heading)}</h2>\n"
    shares = _share_chart(section)
    if shares is not None:
        yield _figure(shares, f"{section.name}-shares")
    yield _figure(section_chart(section, level), section.name)
    yield _row_table(section, level, _MOST_ROWS)
    yield _note_list(section.notes)


def section_chart(section: Section, level: float) -> DotFigure | HeatFigure | TrendFigure:
    """Return the picture of a section's rows."""
    if section.grid is not None:
        return _heat_chart(section, section.grid)
    if section.courses:
        return _course_chart(section, level)
    return _estimate_chart(section, level)


def _share_chart(section: Section) -> PartsFigure | None:
    """Return the picture of who shares what, for a few publishers whose overlaps are all known."""
    known = section.shared or {}
    names = [name for some in known if len(some) == 1 for name in some]
    if not 2 <= len(names) <= MOST_SETS:
        return None
    wanted = [
        frozenset(some) for size in range(1, len(names) + 1) for some in combinations(names, size)
    ]
    if not all(some in known for some in wanted):
        return None
    return parts_chart(
        "Who shares what", names, {some: known[some] for some in wanted}, unit=section.unit
    )


def _heat_chart(section: Section, grid: Grid) -> HeatFigure:
    """Return the picture of a cross table; an estimate below 0 is as light as 0."""
    shown = tuple(tuple(max(one, 0.0) for one in row) for row in grid.values)
    top, row, column = max(
        (one, row, column)
        for row, values in zip(grid.rows, shown, strict=True)
        for column, one in zip(grid.columns, values, strict=True)
    )
    return HeatFigure(
        section.heading,
        grid.across,
        grid.down,
        tuple(shorten_text(name, _LONGEST_NAME) for name in grid.columns),
        tuple(shorten_text(name, _LONGEST_NAME) for name in grid.rows),
        shown,
        scale=Axis(f"estimate, in {section.unit}", 0.0, max(top, 1.0)),
        alternative=f"A table of estimates; the largest is {row}, {column}.",
    )


def _course_chart(section: Section, level: float) -> TrendFigure:
    first, *_ = section.courses
    return trend_chart(
        section.heading,
        first.rounds,
        {course.label: (course.estimates, course.intervals) for course in section.courses},
        level=level,
        unit=section.unit,
    )


def _estimate_chart(section: Section, level: float) -> DotFigure:
    rows = [row for row in section.rows if row.drawn]
    if not section.counted:
        measured = [(row.label, row.estimate, row.interval, row.together) for row in rows]
        return measured_chart(section.heading, measured, level=level, unit=section.unit)
    # An adjusted estimate may lie outside of its interval, and still belongs in the picture.
    each = [row.interval or row.ends for row in rows]
    together = [row.together or row.ends for row in rows]
    return estimates_chart(
        section.heading,
        [row.label for row in rows],
        [row.estimate for row in rows],
        each=([low for low, _ in each], [high for _, high in each]),
        together=([low for low, _ in together], [high for _, high in together]),
        level=level,
        unit=section.unit,
    )


def _row_table(section: Section, level: float, most: int) -> str:
    """Return the table of a section; a kind of interval that no row has gets no column."""
    rows = section.leading(most)
    heads = [section.label, "estimate", "standard error"]
    columns = [[row.label for row in rows], [_estimate(row) for row in rows], [*map(_error, rows)]]
    for head, ends in (
        (f"{percent_text(level)} interval", [row.interval for row in rows]),
        (f"{percent_text(level)}, all together", [row.together for row in rows]),
    ):
        if any(ends):
            heads.append(head)
            columns.append([_between(one, row) for one, row in zip(ends, rows, strict=True)])
    left_out = section.left_out(most)
    more = f"{left_out} All of them are in the release's JSON, CSV and Parquet files."
    return _grid(section, heads, zip(*columns, strict=True)) + (
        f'<p class="soft">{escape(more)}</p>\n' if left_out else ""
    )


def _estimate(row: Line) -> str:
    return nearest_text(row.estimate, row.decimals)


def _error(row: Line) -> str:
    return "" if row.standard_error is None else error_text(row.standard_error)


def _between(ends: Ends | None, row: Line) -> str:
    """Return an interval, rounded outwards."""
    if ends is None:
        return ""
    return f"{lower_text(ends[0], row.decimals)} to {upper_text(ends[1], row.decimals)}"


def _grid(section: Section, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; the first cell of a row names it."""
    caption = f"{section.caption[:1].upper()}{section.caption[1:]}."
    titles = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in heads)
    lines = "".join(
        f'<tr><th scope="row">{escape(first)}</th>'
        + "".join(f"<td>{escape(cell)}</td>" for cell in rest)
        + "</tr>\n"
        for first, *rest in rows
    )
    # A wide table scrolls by itself: for the keyboard it needs a place and a name.
    named = escape(f"{section.heading}. {caption}")
    return (
        f'<div class="wide" tabindex="0" role="region" aria-label="{named}">'
        f"<table><caption>{escape(caption)}</caption>"
        f"<thead><tr>{titles}</tr></thead>\n<tbody>{lines}</tbody></table></div>\n"
    )


def _figure(chart: DotFigure | PartsFigure | HeatFigure | TrendFigure, name: str) -> str:
    """Return a chart with its note; ``name`` must differ between those of a page."""
    note = f"<figcaption>{escape(chart.note)}</figcaption>" if chart.note else ""
    return f"<figure>{chart.svg(name=name, styled=False)}{note}</figure>\n"


def _definitions(pairs: Iterable[Pair]) -> str:
    """Return a list of names and what is said of each."""
    items = "".join(f"<dt>{escape(name)}</dt><dd>{escape(said)}</dd>\n" for name, said in pairs)
    return f"<dl>{items}</dl>\n"


def _note_list(notes: Sequence[str]) -> str:
    """Return small print, or nothing where there is none."""
    items = "".join(f"<li>{escape(note)}</li>" for note in notes)
    return f'<ul class="soft">{items}</ul>\n' if notes else ""
