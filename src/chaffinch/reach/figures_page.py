"""The page of S4's observations: each figure, what S4 saw in it, and what is true."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from chaffinch.analysis.page import shell
from chaffinch.charts.figure import Figure
from chaffinch.charts.heat import HeatFigure
from chaffinch.charts.svg import escape
from chaffinch.reach import figures

PAGE = "signal-to-noise.html"
_RARELY = "0.02"
_STYLE = """
body{max-width:60rem}
p,dd{max-width:46rem}
dl{display:block}
dt{color:var(--ink);font-weight:600;margin-top:.75rem}
figure{min-width:0}
.line{max-width:44rem;overflow-x:auto}
.line svg{min-width:31rem}
.maps{display:grid;grid-template-columns:repeat(auto-fit,minmax(18rem,1fr));gap:.5rem 1.5rem}
.maps figure{margin:.5rem 0}
"""

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
    return shell(
        "Signal to noise of one moved column",
        head=f"<p>{escape(_OPENING)}</p>\n<p>{escape(_FAMILY)}</p>\n",
        main="".join(_section(section) for section in shown),
        style=_STYLE,
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
