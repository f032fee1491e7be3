"""The shell of a page that needs nothing else: no script, no request, no font.

Every text that is handed in is escaped, and the page forbids itself everything but its own
style, so that a label is a label whatever is in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from chaffinch.charts.svg import STYLE, escape
from chaffinch.rounding import downwards, upwards

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


class Drawn(Protocol):
    """A chart of any kind that can stand in a page."""

    @property
    def note(self) -> str:
        """Return what the picture does not show."""
        ...

    def svg(self, *, name: str = ..., styled: bool = ...) -> str:
        """Return the picture as an SVG element."""
        ...


def shell(title: str, *, head: str, main: str, foot: str = "", style: str = "") -> str:
    """Return a whole page: ``head`` stands below the title, ``foot`` at the very end.

    ``style`` is added to the looks that all pages share.
    """
    named = escape(title)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f"<title>{named}</title>\n<style>{_PAGE_STYLE}\n{STYLE}{style}</style>\n</head>\n"
        f"<body>\n<header>\n<h1>{named}</h1>\n{head}</header>\n<main>\n"
        f"{main}</main>\n{foot}</body>\n</html>\n"
    )


def promise(said: Iterable[str], terms: Iterable[tuple[str, str]]) -> str:
    """Return the promise in a box, and its parts below."""
    box = "\n".join(f"<p>{escape(one)}</p>" for one in said)
    return f'<div class="promise">{box}</div>\n{definitions(terms)}'


def reading(lines: Iterable[str]) -> str:
    """Return the section that says how to read everything above."""
    items = "".join(f"<li>{escape(line)}</li>\n" for line in lines)
    return f"<section><h2>How to read this</h2>\n<ul>{items}</ul></section>\n"


def facts(pairs: Iterable[tuple[str, str]]) -> str:
    """Return the end of a page: names and numbers by which it can be checked."""
    return f"<footer><h2>Facts</h2>\n{definitions(pairs)}</footer>\n"


def definitions(pairs: Iterable[tuple[str, str]]) -> str:
    """Return a list of names and what is said of each."""
    items = "".join(f"<dt>{escape(name)}</dt><dd>{escape(said)}</dd>\n" for name, said in pairs)
    return f"<dl>{items}</dl>\n"


def notes(lines: Sequence[str]) -> str:
    """Return small print, or nothing where there is none."""
    items = "".join(f"<li>{escape(line)}</li>" for line in lines)
    return f'<ul class="soft">{items}</ul>\n' if lines else ""


def figure(chart: Drawn, name: str) -> str:
    """Return a chart with its note; ``name`` must differ between those of a page."""
    note = f"<figcaption>{escape(chart.note)}</figcaption>" if chart.note else ""
    return f"<figure>{chart.svg(name=name, styled=False)}{note}</figure>\n"


def grid(caption: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
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


def between(low: float, high: float, digits: int) -> str:
    """Return an interval, rounded outwards."""
    return f"{downwards(low, digits)} to {upwards(high, digits)}"
