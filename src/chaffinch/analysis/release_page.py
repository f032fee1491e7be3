"""A release as one page of HTML that needs nothing else: no script, no request, no font.

Every text that comes from a plan is escaped, and the page forbids itself everything but its
own style, so that a label is a label whatever is in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from chaffinch.analysis import release_words as words
from chaffinch.analysis.release import Answer, Release, Summary
from chaffinch.charts.estimates import DotFigure, estimates_chart, number_chart, quantile_name
from chaffinch.charts.rounding import downwards, nearest, percent, two_digits, upwards
from chaffinch.charts.svg import STYLE, escape

MOST_ROWS = 200
_HEAD_ROWS = 10
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
_PAGE_STYLE = """
:root{color-scheme:light dark;--ink:#1b1b1b;--soft:#5a5a5a;--line:#d5d5d5;--paper:#fff;
--box:#f3f7fa;--edge:#0072b2}
@media (prefers-color-scheme:dark){:root{--ink:#ececec;--soft:#b4b4b4;--line:#4a4a4a;
--paper:#161616;--box:#1e2a33;--edge:#6cb8ec}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:52rem;padding:1.5rem 1rem 3rem;color:var(--ink);
background:var(--paper);font:1rem/1.5 system-ui,sans-serif;overflow-wrap:anywhere}
h1{font-size:1.7rem;line-height:1.25;margin:0 0 1rem}
h2{font-size:1.25rem;margin:2.5rem 0 .75rem;border-top:1px solid var(--line);padding-top:1.5rem}
.promise{background:var(--box);border-left:4px solid var(--edge);padding:.75rem 1rem;
margin:0 0 1rem}
.promise p{margin:.25rem 0}
.promise p:first-child{font-size:1.1rem}
.soft,figcaption,caption{color:var(--soft);font-size:.9rem}
caption{text-align:left;padding-bottom:.35rem}
dl{display:grid;grid-template-columns:minmax(8rem,max-content) 1fr;gap:.25rem 1rem;margin:0}
dt{color:var(--soft)}
dd{margin:0}
figure{margin:1rem 0}
.wide{overflow-x:auto;margin:1rem 0}
table{border-collapse:collapse;width:100%;font-size:.92rem;font-variant-numeric:tabular-nums}
th,td{padding:.3rem .5rem;border-bottom:1px solid var(--line);text-align:right;
white-space:nowrap;vertical-align:top}
th:first-child,td:first-child{text-align:left;white-space:normal;min-width:8rem;padding-left:0}
tbody th{font-weight:normal}
thead th{white-space:normal;overflow-wrap:normal;
vertical-align:bottom;border-bottom:2px solid var(--line)}
li{margin:.25rem 0}
@media (max-width:30rem){body{padding:1rem .75rem 2rem}h1{font-size:1.4rem}
dl{grid-template-columns:1fr;gap:0}dd{margin-bottom:.5rem}}
@media print{:root{--ink:#000;--soft:#333;--line:#bbb;--paper:#fff;--box:#fff;--edge:#000}
html{font-size:10pt}caption{break-after:avoid}
body{max-width:none;padding:0}figure,tr,.promise{break-inside:avoid}
h2{break-after:avoid}.wide{overflow:visible}thead{display:table-header-group}}
""".strip()


def page(release: Release) -> str:
    """Return the whole page."""
    title = escape(_title(release))
    sections = [
        f"<section>{''.join(_question(release, answer, number))}</section>\n"
        for number, answer in enumerate(release.answers, 1)
    ]
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f"<title>{title}</title>\n<style>{_PAGE_STYLE}\n{STYLE}</style>\n</head>\n"
        f"<body>\n<header>\n<h1>{title}</h1>\n{_promise(release)}</header>\n<main>\n"
        f"{''.join(sections)}{_reading(release)}</main>\n{_facts(release)}</body>\n</html>\n"
    )


def summary(release: Release) -> str:
    """Return a short piece of HTML for notebooks: the promise and the first rows."""
    pieces = [f"<p><strong>{escape(_title(release))}</strong></p>"]
    pieces.append(f"<p>{escape(str(release.guarantee))}</p>")
    for answer in release.answers:
        pieces.append(f"<p>{escape(answer.question)}</p>")
        pieces.extend(_table(release, answer, _HEAD_ROWS))
    return "".join(pieces)


def _title(release: Release) -> str:
    return release.title or f"Release of plan {release.plan_id[:16]}"


def _promise(release: Release) -> str:
    return (
        f'<div class="promise"><p>{escape(words.promise(release))}</p>\n'
        f"<p>{escape(words.trust(release))}</p></div>\n"
        f"{_list(words.terms(release))}"
    )


def _question(release: Release, answer: Answer, number: int) -> Iterator[str]:
    yield f"<h2>{escape(answer.question)}</h2>\n"
    chart = _chart(release, answer)
    note = f"<figcaption>{escape(chart.note)}</figcaption>" if chart.note else ""
    yield f"<figure>{chart.svg(name=f'chart-{number}', styled=False)}{note}</figure>\n"
    yield from _table(release, answer, MOST_ROWS)
    if answer.summary is not None and answer.summary.quantiles:
        yield _quantiles(release, answer.summary)
    if answer.notes:
        items = "".join(f"<li>{escape(note)}</li>" for note in answer.notes)
        yield f'<ul class="soft">{items}</ul>\n'


def _chart(release: Release, answer: Answer) -> DotFigure:
    if answer.summary is not None:
        return number_chart(
            answer.question,
            (float(answer.estimates[0]), float(answer.low[0]), float(answer.high[0])),
            answer.summary.quantiles,
            level=release.level,
            unit=answer.summary.unit,
        )
    return estimates_chart(
        answer.question,
        answer.labels,
        answer.estimates,
        each=(answer.low, answer.high),
        together=(answer.low_together, answer.high_together),
        level=release.level,
    )


def _table(release: Release, answer: Answer, most: int) -> Iterator[str]:
    digits, shown = words.places(answer), words.leading(answer, most)
    columns = (answer.low, answer.high, answer.low_together, answer.high_together)
    rows = []
    for place in shown:
        low, high, low_all, high_all = (float(column[place]) for column in columns)
        estimate = float(answer.estimates[place])
        rows.append(
            [
                answer.labels[place],
                nearest(estimate, digits),
                two_digits(float(answer.standard_errors[place])),
                _between(low, high, digits),
                _between(low_all, high_all, digits),
            ]
        )
    level = percent(release.level)
    head = ["value", "estimate", "standard error", f"{level} interval", f"{level}, all together"]
    if answer.summary is not None:
        # One number: its interval is that of all together.
        name, total, error, low_end, high_end = words.sum_row(answer, release.reports)
        rows.append([name, total, error, f"{low_end} to {high_end}"])
        head, rows = head[:4], [row[:4] for row in rows]
    unit = answer.summary.unit if answer.summary else "people"
    yield _grid(f"{f'In {unit}; ' if unit else ''}{release.reports:,} reports.", head, rows)
    if len(shown) < len(answer.labels):
        yield (
            f'<p class="soft">The {len(shown)} largest of {len(answer.labels):,} values. '
            "All of them are in the release's JSON, CSV and Parquet files.</p>\n"
        )


def _quantiles(release: Release, spread: Summary) -> str:
    digits = words.spread_places(spread)
    rows = [
        [quantile_name(chance), nearest(middle, digits), _between(low, high, digits)]
        for chance, low, middle, high in spread.quantiles
    ]
    caption = (
        "Quantiles; all brackets hold together with a probability of at least "
        f"{percent(release.level)}."
    )
    return _grid(caption, ["quantile", "estimate", "bracket"], rows)


def _reading(release: Release) -> str:
    items = "".join(f"<li>{escape(line)}</li>\n" for line in words.reading(release))
    return f"<section><h2>How to read this</h2>\n<ul>{items}</ul></section>\n"


def _facts(release: Release) -> str:
    facts = [
        ("Plan", release.plan_id),
        ("Guarantee", str(release.guarantee)),
        ("Method", release.guarantee.method),
        ("Level", percent(release.level)),
        ("Rounds", f"{release.rounds:,}"),
        ("Batch", release.batch),
        ("Made with", f"chaffinch {release.version}"),
    ]
    return f"<footer><h2>Facts</h2>\n{_list(facts)}</footer>\n"


def _list(pairs: Iterable[tuple[str, str]]) -> str:
    items = "".join(f"<dt>{escape(name)}</dt><dd>{escape(said)}</dd>\n" for name, said in pairs)
    return f"<dl>{items}</dl>\n"


def _grid(caption: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; the first cell of a row names it."""
    titles = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in head)
    lines = "".join(
        f'<tr><th scope="row">{escape(first)}</th>'
        + "".join(f"<td>{escape(cell)}</td>" for cell in rest)
        + "</tr>\n"
        for first, *rest in rows
    )
    return (
        f'<div class="wide" tabindex="0" role="region" aria-label="{escape(caption)}">'
        f"<table><caption>{escape(caption)}</caption>"
        f"<thead><tr>{titles}</tr></thead>\n<tbody>{lines}</tbody></table></div>\n"
    )


def _between(low: float, high: float, digits: int) -> str:
    return f"{downwards(low, digits)} to {upwards(high, digits)}"
