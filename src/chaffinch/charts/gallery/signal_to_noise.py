"""Three observations on signal to noise, drawn anew (S4 part I, figures 2 to 4), on one page.

S4 calls the bits that one column has in all filters its logo, and does not say which skewed
counts of them it looked at. Here they are proportional to (1 − s)^y, y the number of set bits and
s the *skewness*: 0 for equal counts, 1 for all columns on logo 0. On the page, for readers who
have not read S4, a logo is a pattern.
Independent audiences of one size have exactly such counts, each in a share (1 − s)/(2 − s) of
the columns. Ratios are given times the number of columns, which they do not depend on then.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from chaffinch.charts.axis import Axis
from chaffinch.charts.figure import Figure, Series
from chaffinch.charts.gallery.section import Section, write_sections
from chaffinch.charts.heat import Cell, HeatFigure, short_number
from chaffinch.errors import checks
from chaffinch.privacy import FlippedFilters
from chaffinch.privacy.mechanisms.filters import MOST_DENSE, SignalToNoise
from chaffinch.privacy.numerics.precision import Floats

_PAGE = "signal-to-noise.html"
TITLE = "Signal to noise of one moved column"
_RARELY = "0.02"
_OPENING = (
    "Several publishers hand in Bloom filters over the same columns, every bit flipped with "
    "probability q and the columns shuffled. The technical details of that scheme ask how loud "
    "one column is that moves from one pattern (its bits in all filters) to another: the squared "
    "shift of the best linear statistic over its variance. These are their three observations, "
    "computed anew."
)
_FAMILY = (
    "They do not say which skewed counts were drawn. Here the patterns with y set bits hold a "
    "share proportional to (1 − s)^y of the columns: skewness s = 0 is equal counts, s = 1 is all "
    "columns empty, and independent audiences of one size lie in between. Ratios are "
    "multiplied by the number of columns. They rank moves; none is a guarantee."
)
SETTING = (
    "Publishers hand in Bloom filters over the same columns, every bit flipped with probability q "
    "and the columns shuffled. A pattern is the bits of one column in all filters; patterns with y "
    "set bits hold a share proportional to (1 − s)^y of the columns, s the skewness. How loud is "
    "one column that moves from one pattern to another? The squared shift of the best linear "
    "statistic over its variance tells."
)
"""The same in one paragraph."""

_TERMS = "Signal to noise ranks the moves of one column; it is no guarantee."
_RATIO = "signal to noise × columns"
_POINTS = 41
_SAME = 1e-9
"""Ratios that differ by less than this share of them are equal: symmetric moves are."""


def _skewed_shares(filters: int, skewness: float) -> tuple[float, ...]:
    """Return the share of the columns on every logo, proportional to (1 − skewness)^y.

    >>> _skewed_shares(2, 0.5)
    (0.4444444444444444, 0.2222222222222222, 0.2222222222222222, 0.1111111111111111)
    """
    count = checks.whole("number of filters", filters, least=1, most=MOST_DENSE)
    rest = 1.0 - checks.real("skewness", skewness, least=0.0, most=1.0)
    return tuple(rest ** logo.bit_count() / (1.0 + rest) ** count for logo in range(2**count))


def _loudest_by_skewness(
    *, filters: int = 3, flip_probabilities: Sequence[str] = ("0.05", "0.1", "0.2", "0.3")
) -> Figure:
    """Return observation 1: the largest ratio of all moves against the skewness."""
    # Dense at the right end, where the ratio of rarely flipped bits rises the most.
    places = 1.0 - np.linspace(1.0, 0.0, _POINTS) ** 2
    series = tuple(
        Series(
            f"flip probability {flip}",
            tuple(places.tolist()),
            tuple(_signal(filters, flip, float(place)).largest()[1] for place in places),
            "measured",
        )
        for flip in flip_probabilities
    )
    ends = [f"{line.name}: {line.y[0]:.3g} to {line.y[-1]:.3g}" for line in series]
    return Figure(
        title=f"Largest signal to noise of a moved column, {_filters(filters)}",
        x=Axis("skewness of the counts", 0.0, 1.0),
        y=_decades([value for line in series for value in line.y]),
        series=series,
        alternative=(
            f"The largest {_RATIO} on a logarithmic axis, from equal counts (skewness 0) to all "
            f"columns empty (skewness 1). It rises along every line. {'; '.join(ends)}."
        ),
        terms=_TERMS,
    )


def _heat_maps(
    *,
    filters: int = 3,
    flip_probability: str = "0.2",
    skewness: Sequence[float] = (0.0, 0.5, 0.9),
) -> tuple[HeatFigure, ...]:
    """Return observation 2: the ratio of every move, one map for each skewness, one scale."""
    found = [_signal(filters, flip_probability, each) for each in skewness]
    tables = [signal.matrix() for signal in found]
    heard = [value for table in tables for value in table[table > 0].tolist()]
    scale = Axis(_RATIO, min(heard, default=1.0), max(heard, default=2.0), scale="log")
    return tuple(
        _heat_map(table, scale, f"q = {flip_probability}, skewness {each:g}")
        for table, each in zip(tables, skewness, strict=True)
    )


def _best_coefficients(
    *,
    filters: int = 3,
    flip_probability: str = "0.2",
    skewness: Sequence[float] = (0.0, 0.5, 0.9),
) -> Figure:
    """Return observation 3: the best coefficients of the seen logo counts for 2^k − 1 → 0.

    The counts treat all logos with the same number of set bits alike, so there is one
    coefficient for each number. All are shown with mean zero and length one.
    """
    count = checks.whole("number of filters", filters, least=2, most=MOST_DENSE)
    bits = tuple(float(y) for y in range(count + 1))
    measured = [
        Series(f"skewness {each:g}", bits, _by_bits(count, flip_probability, each), "measured")
        for each in skewness
    ]
    exact = Series(
        "skewness 1, exactly: constant − (p/q)^(2y−k)",
        bits,
        _exact_shape(count, flip_probability),
        "proven",
    )
    printed = _unit([0.0] * count + [-1.0])
    claimed = Series("(s, …, s, −1)", bits, printed, "published")
    last = [f"{line.name}: {', '.join(f'{c:.3f}' for c in line.y)}" for line in (*measured, exact)]
    return Figure(
        title=f"Best coefficients, {_filters(count)}, flip probability {flip_probability}",
        x=Axis("set bits y of a pattern", 0.0, float(count), whole=True),
        y=Axis("coefficient of every such pattern", -1.0, 1.0),
        series=(*measured, exact, claimed),
        alternative=(
            "The coefficient of a pattern in the best linear statistic against its number of set "
            f"bits, 0 to {count}. {'; '.join(last)}. With all columns empty the patterns with "
            "one bit unset lie below the others, which the published shape does not show."
        ),
        terms=_TERMS,
    )


def _exact_shape(filters: int, flip_probability: str) -> tuple[float, ...]:
    """Return the best coefficients with all columns on logo 0, by set bits (S4 Obs. 3, corrected).

    They are −(p/q)^(2y−k), less the mean over all 2^k logos, divided by the length.

    >>> [round(c, 3) for c in _exact_shape(2, "0.4")]
    [0.551, 0.131, -0.814]
    """
    flip = float(checks.flip_probability(flip_probability))
    odds = (1.0 - flip) / flip
    return _unit([-(odds ** (2 * y - filters)) for y in range(filters + 1)])


def write_figures(folder: str | Path) -> list[Path]:
    """Write every figure as SVG, and one page that shows them all; return the files."""
    return write_sections(folder, sections(), page=_PAGE, title=TITLE, opening=(_OPENING, _FAMILY))


def _signal(filters: int, flip: str, skewness: float) -> SignalToNoise:
    # One column's worth of counts: the ratio goes as one over the number of columns.
    mechanism = FlippedFilters(filters=filters, bits=1, flip_probability=flip)
    return mechanism.signal_to_noise(_skewed_shares(filters, skewness))


def _heat_map(table: Floats, scale: Axis, setting: str) -> HeatFigure:
    size = len(table)
    count = (size - 1).bit_length()
    names = tuple(f"{logo:0{count}b}" for logo in range(size))
    loudest = float(table.max())
    marked = _cells(table >= loudest * (1 - _SAME))
    moves = " and ".join(f"{names[i]} ↔ {names[j]}" for i, j in marked if i < j)
    values = [
        [math.nan if row == column else float(table[row, column]) for column in range(size)]
        for row in range(size)
    ]
    return HeatFigure(
        title=setting,
        x_label="to pattern",
        y_label="from pattern",
        columns=names,
        rows=names,
        values=tuple(tuple(row) for row in values),
        scale=scale,
        alternative=(
            f"{_RATIO} of every move between two of {size} patterns, {setting}. The loudest, "
            f"framed: {moves}, {short_number(loudest)}. The faintest has "
            f"{short_number(float(table[table > 0].min()))}."
        ),
        marked=marked,
        note=_TERMS,
    )


def _cells(chosen: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> tuple[Cell, ...]:
    return tuple((int(row), int(column)) for row, column in np.argwhere(chosen))


def _by_bits(filters: int, flip: str, skewness: float) -> tuple[float, ...]:
    best = _signal(filters, flip, skewness).coefficients((0, 2**filters - 1))
    # Logo 0…01…1 stands for all with y set bits: they have the same coefficient.
    return tuple(float(best[2**y - 1]) for y in range(filters + 1))


def _unit(by_bits: Sequence[float]) -> tuple[float, ...]:
    """Return coefficients by set bits with mean zero and length one over all logos."""
    filters = len(by_bits) - 1
    weights = [math.comb(filters, y) for y in range(filters + 1)]
    mean = sum(w * c for w, c in zip(weights, by_bits, strict=True)) / 2**filters
    square = sum(w * (c - mean) ** 2 for w, c in zip(weights, by_bits, strict=True))
    return tuple((c - mean) / math.sqrt(square) for c in by_bits)


def _decades(values: Sequence[float]) -> Axis:
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return Axis(_RATIO, 10.0**low, 10.0 ** max(high, low + 1), scale="log")


def _filters(filters: int) -> str:
    return f"{filters} filters" if filters > 1 else "one filter"


def sections() -> tuple[Section, ...]:
    """Return the three observations, in order."""
    return skewness(), moves(), coefficients()


def skewness() -> Section:
    """Return observation 1, with what is true of it."""
    return Section(
        "Skewness makes one column louder",
        "skewness",
        (_loudest_by_skewness(),),
        "The signal-to-noise ratio increases with the skewness of the counts of the patterns "
        "(observation 1, figure 2).",
        "It does for these counts, and it never falls on the straight way from equal counts "
        "to all columns on one pattern. It is no law for all counts: with two filters and "
        "q = 0.1 the counts (2, 0, 0, 2) have 3.556, the less skewed (2, 0, 1, 1) have "
        "3.748. With one filter the ratio does not change at all.",
    )


def moves() -> Section:
    """Return observation 2, with what is true of it."""
    return Section(
        "Which move is the loudest",
        "moves",
        (*_heat_maps(), *_heat_maps(flip_probability=_RARELY)),
        "The ratio is largest for the move between no bit and all bits set, for three filters "
        "and every skewness shown (observation 2, figure 3).",
        "It is when all columns are empty, with the value (t^k − 1)/m for m columns, "
        "t = p²/q + q²/p and p = 1 − q. With equal counts every move between complements is "
        f"as loud; and where bits are rarely flipped (q = {_RARELY}, second row of maps) "
        "moves from other patterns to 111 are louder. The loudest moves have a frame.",
    )


def coefficients() -> Section:
    """Return observation 3, with what is true of it."""
    return Section(
        "The statistic that hears it best",
        "coefficients",
        (_best_coefficients(),),
        "For the move between all bits and none the best coefficients concentrate near a "
        "multiple of (s, …, s, −1) with a small s > 0 (observation 3, figure 4).",
        "With all columns empty they are exactly a constant less (p/q)^(2y−k), y the "
        "number of set bits: the patterns with one bit unset weigh (q/p)² of the last one, so "
        "the published shape is the limit of rare flips. With less skewness the statistic "
        "is another one altogether.",
    )
