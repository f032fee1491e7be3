"""The page of S4's observations: each figure, what S4 saw in it, and what is true."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from chaffinch.charts.figure import Figure
from chaffinch.charts.heat import HeatFigure
from chaffinch.charts.svg import STYLE, escape
from chaffinch.reach import figures

PAGE = "signal-to-noise.html"
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_RARELY = "0.02"
_PAGE_STYLE = """
:root{color-scheme:light dark;--ink:#1b1b1b;--soft:#5a5a5a;--line:#d5d5d5;--paper:#fff}
@media (prefers-color-scheme:dark){:root{--ink:#ececec;--soft:#b4b4b4;--line:#4a4a4a;
--paper:#161616}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:60rem;padding:1.5rem 1rem 3rem;color:var(--ink);
background:var(--paper);font:1rem/1.5 system-ui,sans-serif;overflow-wrap:anywhere}
h1{font-size:1.7rem;line-height:1.25;margin:0 0 1rem}
h2{font-size:1.25rem;margin:2.5rem 0 .75rem;border-top:1px solid var(--line);padding-top:1.5rem}
p{max-width:46rem}
figure{margin:1rem 0;min-width:0}
figcaption{color:var(--soft);font-size:.9rem;margin-bottom:.35rem}
.line{max-width:44rem;overflow-x:auto}
.line svg{min-width:31rem}
.maps{display:grid;grid-template-columns:repeat(auto-fit,minmax(18rem,1fr));gap:.5rem 1.5rem}
.maps figure{margin:.5rem 0}
dt{font-weight:600;margin-top:.75rem}
dd{margin:0;max-width:46rem}
@media (max-width:30rem){body{padding:1rem .75rem 2rem}h1{font-size:1.4rem}}
@media print{:root{--ink:#000;--soft:#333;--line:#bbb;--paper:#fff}body{max-width:none;padding:0}
figure{break-inside:avoid}h2{break-after:avoid}}
""".strip()

_OPENING = (
    "Several publishers hand in Bloom filters over the same columns, every bit flipped with "
    "probability q and the columns shuffled. S4, the technical details of that scheme, asks how "
    "loud one column is that moves from one logo (its bits in all filters) to another: the "
    "squared shift of the best linear statistic over its variance. These are its three "
    "observations, computed anew."
)
_FAMILY = (
    "S4 does not say which skewed counts it drew. Here the logos with y set bits hold a share "
    "proportional to (1 − s)^y of the columns: skewness s = 0 is equal counts, s = 1 is all "
    "columns on logo 0, and independent audiences of one size lie in between. Ratios are "
    "multiplied by the number of columns. They rank moves; none is a guarantee."
)


@dataclass(frozen=True, slots=True)
class Section:
    """One observation: its figures, what was observed, and what holds."""

    heading: str
    name: str
    charts: tuple[Figure | HeatFigure, ...]
    observed: str
    true: str


def sections() -> tuple[Section, ...]:
    """Return all that the page shows, in order."""
    return (
        Section(
            "Skewness makes one column louder",
            "skewness",
            (figures.loudest_by_skewness(),),
            "The signal-to-noise ratio increases with the skewness of the logo counts "
            "(observation 1, figure 2).",
            "It does for these counts, and it never falls on the straight way from equal counts "
            "to all columns on one logo. It is no law for all counts: with two filters and "
            "q = 0.1 the counts (2, 0, 0, 2) have 3.556, the less skewed (2, 0, 1, 1) have "
            "3.748. With one filter the ratio does not change at all.",
        ),
        Section(
            "Which move is the loudest",
            "moves",
            (*figures.heat_maps(), *figures.heat_maps(flip_probability=_RARELY)),
            "The ratio is largest for the move between logos 0 and 2^k − 1, for three filters "
            "and every skewness shown (observation 2, figure 3).",
            "It is when all columns are on logo 0, with the value (t^k − 1)/m for m columns, "
            "t = p²/q + q²/p and p = 1 − q. With equal counts every move between complements is "
            f"as loud; and where bits are rarely flipped (q = {_RARELY}, second row of maps) "
            "moves from other logos to 111 are louder. The loudest moves have a frame.",
        ),
        Section(
            "The statistic that hears it best",
            "coefficients",
            (figures.best_coefficients(),),
            "For the move between 2^k − 1 and 0 the best coefficients concentrate near a "
            "multiple of (s, …, s, −1) with a small s > 0 (observation 3, figure 4).",
            "With all columns on logo 0 they are exactly a constant less (p/q)^(2y−k), y the "
            "number of set bits: the logos with one bit unset weigh (q/p)² of the last one, so "
            "the published shape is the limit of rare flips. With less skewness the statistic "
            "is another one altogether.",
        ),
    )


def write(folder: Path) -> list[Path]:
    """Write one SVG file for each chart, and the page; return the files."""
    shown = sections()
    written = []
    for section in shown:
        for number, chart in enumerate(section.charts, 1):
            end = f"-{number}" if len(section.charts) > 1 else ""
            path = folder / f"{section.name}{end}.svg"
            # On its own a picture has no page that goes dark with it.
            alone = chart.svg(name=section.name).replace(
                "<style>", "<style>:root{color-scheme:light dark}", 1
            )
            path.write_text(alone + "\n", encoding="utf-8")
            written.append(path)
    page = folder / PAGE
    page.write_text(html(shown), encoding="utf-8")
    return [*written, page]


def html(shown: Sequence[Section]) -> str:
    """Return the page, which needs nothing else."""
    title = "Signal to noise of one moved column"
    body = "".join(_section(section) for section in shown)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>{_PAGE_STYLE}\n{STYLE}</style>\n</head>\n"
        f"<body>\n<h1>{title}</h1>\n<p>{escape(_OPENING)}</p>\n<p>{escape(_FAMILY)}</p>\n"
        f"<main>\n{body}</main>\n</body>\n</html>\n"
    )


def _section(section: Section) -> str:
    # A drawing of lines shrinks its letters: on a narrow screen it is scrolled instead.
    kind = f'class="line" tabindex="0" role="region" aria-label="{escape(section.heading)}"'
    if len(section.charts) > 1:
        kind = 'class="maps"'
    drawn = "".join(
        f"<figure><figcaption>{escape(chart.title)}</figcaption>"
        f"{chart.svg(name=f'{section.name}-{number}', styled=False)}</figure>\n"
        for number, chart in enumerate(section.charts, 1)
    )
    return (
        f"<section><h2>{escape(section.heading)}</h2>\n"
        f"<div {kind}>{drawn}</div>\n"
        f"<dl><dt>What S4 observed</dt><dd>{escape(section.observed)}</dd>\n"
        f"<dt>What is true</dt><dd>{escape(section.true)}</dd></dl></section>\n"
    )
