"""A statement as one page of HTML that needs nothing else.

First what was found, each question in one sentence and one picture; then the promise, in one box;
then the tables, for whoever wants the numbers. What only some readers need is folded away: the
guarantee term by term, how to read it all, and facts to check by.

Every text is escaped, so that a label is a label whatever is in it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations

from chaffinch.cards import card, escape
from chaffinch.charts.axis import Axis
from chaffinch.charts.estimates import (
    MOST_BARS,
    PERCENT,
    DotFigure,
    counts_chart,
    measured_chart,
    shares_chart,
)
from chaffinch.charts.guesses import LEGEND, guesses_chart, legend_mark
from chaffinch.charts.heat import HeatFigure
from chaffinch.charts.html_page import BOX_STYLE, html_page
from chaffinch.charts.linear_diagram import MOST_SETS, PartsFigure, parts_chart
from chaffinch.charts.rounding import error_text, lower_text, nearest_text, percent_text, upper_text
from chaffinch.charts.svg import RULES
from chaffinch.charts.text_tables import shorten_text
from chaffinch.charts.trends import TrendFigure, trend_chart
from chaffinch.disk.protected import RELEASE_PAGE
from chaffinch.release.statement import (
    PARTS,
    Ends,
    Grid,
    Headline,
    Line,
    Pair,
    Section,
    Statement,
)

# The rest of a notebook has classes of its own, some with the same names.
_BOX_ON_CARD = re.sub(r"^\.", ".cf-card .", BOX_STYLE, flags=re.MULTILINE)
_MOST_ROWS = 200
_EXCERPT_ROWS = 10
_LONGEST_NAME = 12
"""Of a row or a column of a cross table, in its picture."""


def statement_page(statement: Statement) -> str:
    """Return the whole page."""
    return html_page(
        statement.title,
        head=_statement_head(statement),
        main=_statement_main(statement),
        kind=RELEASE_PAGE,
    )


def statement_inside(statement: Statement) -> str:
    """Return what stands on the page below its title, for another page that shows it."""
    return _statement_head(statement) + _statement_main(statement)


def _statement_head(statement: Statement) -> str:
    warnings = "\n".join(f"<p>{escape(said)}</p>" for said in statement.warnings)
    byline = " · ".join(statement.byline)
    return (f'<p class="byline">{escape(byline)}</p>\n' if byline else "") + (
        f'<div class="warning">{warnings}</div>\n' if warnings else ""
    )


def _statement_main(statement: Statement) -> str:
    found = [
        f"<section>{''.join(_found(section, statement.level))}</section>\n"
        for section in statement.sections
        if not section.repeats
    ]
    numbers = [
        f"<section>{''.join(_numbers(section, statement.level))}</section>\n"
        for section in statement.sections
    ]
    reading = "".join(f"<li>{escape(line)}</li>\n" for line in statement.reading)
    return (
        "".join(found)
        + _note_list(statement.notes)
        + f"<section><h2>What is promised</h2>\n{promise_box(statement)}"
        + _folded("The guarantee, term by term", _definitions(statement.terms))
        + "</section>\n<section><h2>The numbers</h2>\n"
        + f"<p>{escape(PARTS)}</p>\n"
        + "".join(numbers)
        + _folded("How to read this", f"<ul>{reading}</ul>\n")
        + _folded("Facts to check by", _definitions(statement.facts))
        + "</section>\n"
    )


def promise_box(statement: Statement, own: str = "") -> str:
    """Return the promise: a sentence, a hundred dots, what is covered, and what it counts on."""
    marked = f"at most {statement.odds.right}"
    lead = escape(statement.promise).replace(marked, f"<strong>{marked}</strong>", 1)
    legend = "".join(
        f"<li>{legend_mark(kind)} {count} {escape(words)}</li>"
        for count, (kind, words) in zip(statement.odds, LEGEND, strict=True)
    )
    useless = " useless" * (statement.odds.wrong == 0)
    return (
        f'<div class="promise{useless}"><p class="lead">{lead}</p>\n'
        f"{guesses_chart(statement.odds).svg(name=f'{own}promise', styled=False)}\n"
        f'<ul class="legend">{legend}</ul>\n'
        f"<p>{escape(statement.covers)}</p><p>{escape(statement.trust)}</p></div>\n"
    )


def statement_excerpt(statement: Statement) -> str:
    """Return a card for notebooks: what was found, the promise, the guarantee and all notes."""
    own = f"r{hashlib.sha256(repr(statement.facts).encode()).hexdigest()[:8]}-"
    pieces = [f'<p class="cf-small">{escape(" · ".join(statement.byline))}</p>']
    pieces += [f"<p><strong>{escape(said)}</strong></p>" for said in statement.warnings]
    for section in statement.sections:
        if section.repeats:
            continue
        pieces += _found(section, statement.level, most=_EXCERPT_ROWS, own=own)
        pieces.append(_note_list([note for note in section.notes if not _is_warning(note)]))
    pieces += [_note_list(statement.notes), promise_box(statement, own)]
    notes = [f"{statement.guarantee}."]
    return card(statement.title, *pieces, notes=notes, style=RULES + _BOX_ON_CARD)


def _folded(title: str, inside: str) -> str:
    """Return what is shown only to those who open it, and on paper."""
    return f"<details><summary>{escape(title)}</summary>\n{inside}</details>\n"


def _found(
    section: Section, level: float, *, most: int | None = None, own: str = ""
) -> Iterator[str]:
    """Yield what was found: the question, one sentence, one picture of all or of ``most`` rows.

    ``own`` makes names in pictures differ from those of other releases in the same place.
    """
    tag = "h3" if own else "h2"
    yield f"<{tag}>{escape(section.heading)}</{tag}>\n"
    yield _headline_html(section.headline, "p")
    name, shares = f"{own}{section.name}", _share_chart(section)
    if shares is not None:
        yield _figure(shares, f"{name}-shares")
    yield _figure(section_chart(section, level, most=most), name)
    warnings = [note for note in section.notes if _is_warning(note)]
    yield _note_list([*filter(None, [section.outside_note]), *warnings])


def _numbers(section: Section, level: float) -> Iterator[str]:
    """Yield the table of a section and what has to be said of it."""
    notes = _note_list([note for note in section.notes if not _is_warning(note)])
    table = _row_table(section, level, _MOST_ROWS) + notes
    if section.repeats:
        yield _folded(f"{section.heading}: the same, with a larger error", table)
    else:
        yield f"<h3>{escape(section.heading)}</h3>\n{table}"


def _is_warning(note: str) -> bool:
    return note.startswith("Warning")


def _headline_html(headline: Headline, tag: str) -> str:
    """Return a headline with its weights, or nothing where there is none."""
    weights = {"": "{}", "strong": "<strong>{}</strong>", "soft": '<span class="aside">{}</span>'}
    words = "".join(weights[weight].format(escape(text)) for weight, text in headline)
    return f'<{tag} class="headline">{words}</{tag}>\n' if words else ""


def section_chart(
    section: Section, level: float, *, most: int | None = None
) -> DotFigure | HeatFigure | TrendFigure:
    """Return the picture of a section's rows, or of the ``most`` largest."""
    if section.grid is not None:
        return _heat_chart(section, section.grid)
    if section.courses:
        return _course_chart(section, level)
    return _estimate_chart(section, level, most)


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
    scale, of = 1.0, f"estimate, in {section.unit}"
    if section.crowd is not None:
        scale, of = 100.0 / section.crowd, f"% of all {section.crowd:,} {section.unit}"
    shown = tuple(tuple(max(scale * one, 0.0) for one in row) for row in grid.values)
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
        scale=Axis(of, 0.0, max(top, 1.0)),
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


def _estimate_chart(section: Section, level: float, most: int | None) -> DotFigure:
    rows = [row for row in section.rows if row.drawn]
    measured = [(row.label, row.estimate, row.interval, row.together) for row in rows]
    if section.unit == PERCENT:
        of = section.caption.removeprefix("in %").strip("; ")
        return shares_chart(section.heading, measured, level=level, of=of)
    if not section.counted:
        return measured_chart(
            section.heading, measured, level=level, unit=section.unit, within=section.within
        )
    return counts_chart(
        section.heading,
        measured,
        level=level,
        unit=section.unit,
        crowd=section.crowd,
        most=MOST_BARS if most is None or section.is_ordered else most,
        ordered=section.is_ordered,
    )


def _columns(
    section: Section, level: float, rows: Sequence[Line]
) -> tuple[list[str], list[tuple[str, ...]]]:
    """Return the heads and the rows of a table; an interval that no row has gets no column."""
    shares = section.shares(rows)
    heads = [section.label, *["share"] * bool(shares)]
    heads += [section.unit if shares else "estimate"]
    columns = [[row.label for row in rows], *[shares] * bool(shares), [*map(_estimate, rows)]]
    each, together = [row.interval for row in rows], [row.together for row in rows]
    for head, ends in (
        (f"{percent_text(level)} interval", each),
        # One value alone has no others to be told together with.
        (f"{percent_text(level)}, all together", together if together != each else []),
    ):
        if any(ends):
            heads.append(head)
            columns.append([_between(one, row) for one, row in zip(ends, rows, strict=True)])
    heads.append("standard error")
    columns.append([*map(_error, rows)])
    return heads, list(zip(*columns, strict=True))


def _row_table(section: Section, level: float, most: int) -> str:
    heads, rows = _columns(section, level, section.leading(most))
    left_out = section.left_out(most)
    more = f"{left_out} All of them are in the release's JSON, CSV and Parquet files."
    return _grid(section, heads, rows) + (
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
        + "".join(
            f'<td data-label="{escape(head)}">{escape(cell)}</td>'
            for head, cell in zip(heads[1:], rest, strict=True)
        )
        + "</tr>\n"
        for first, *rest in rows
    )
    # Narrow screens show a row as a small list (`data-label`). In between, a wide table scrolls by
    # itself, with a shade where it goes on: for the keyboard it needs a place and a name.
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
