"""Figures in files: PNG, SVG or PDF, drawn by matplotlib (extra ``plot``), imported late."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chaffinch.errors import InvalidInput, MissingExtra
from chaffinch.storage.files import atomic

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from chaffinch.charts.figure import Figure, Series

_SUFFIXES = (".pdf", ".png", ".svg")

# Okabe and Ito's colours: apart from one another for every kind of colour sight.
_PROVEN = "#0072B2"
_CLAIMS = ("#D55E00", "#009E73", "#CC79A7", "#E69F00")
_DASHES = ((5, 2), (2, 1.5), (7, 2, 1.5, 2), (1, 1))
_REFERENCE = "#666666"


def save_figure(figure: Figure, path: Path) -> Path:
    """Draw ``figure`` into ``path``; the same figure always gives the same file."""
    if path.suffix.lower() not in _SUFFIXES:
        raise InvalidInput("file name", "one that ends in " + ", ".join(_SUFFIXES), path.name)
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure as Canvas
    except ImportError:
        raise MissingExtra("drawing library for figures in files", "plot") from None
    with mpl.rc_context({"svg.hashsalt": "chaffinch", "svg.fonttype": "none"}):
        # No pyplot: nothing global is touched, and no window system is looked for.
        canvas = Canvas(figsize=(7.0, 5.2), dpi=150, layout="constrained")
        axes = canvas.add_subplot()
        _axes(figure, axes)
        for series, look in zip(figure.series, _looks(figure), strict=True):
            _line(series, look, axes)
        axes.legend(frameon=False, fontsize=9, loc="best")
        canvas.suptitle(textwrap.fill(figure.title, 78), fontsize=11)
        canvas.supxlabel(textwrap.fill(figure.caption, 105), fontsize=7.5, color="#444444")
        suffix = path.suffix.lower()
        with atomic(path) as file:
            canvas.savefig(file, format=suffix[1:], metadata=_metadata(figure, suffix))
    return path


def _axes(figure: Figure, axes: Axes) -> None:
    axes.set_xlabel(figure.x.label)
    axes.set_ylabel(figure.y.label)
    axes.set_yscale(figure.y.scale)
    axes.set_xscale(figure.x.scale)
    axes.set_xlim(figure.x.low, figure.x.high)
    axes.set_ylim(figure.y.low, figure.y.high)
    for axis, spec in ((axes.xaxis, figure.x), (axes.yaxis, figure.y)):
        places, labels = zip(*spec.ticks(), strict=True)
        axis.set_ticks(places, labels=labels)
        axis.set_ticks([], minor=True)
    axes.grid(color="#DDDDDD", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def _looks(figure: Figure) -> list[dict[str, Any]]:
    """Return how each series looks; claims and measures differ in colour and in dashes."""
    looks: list[dict[str, Any]] = []
    claims = 0
    for series in figure.series:
        if series.style in ("published", "measured"):
            number = claims % len(_CLAIMS)
            looks.append({"color": _CLAIMS[number], "dashes": _DASHES[number], "linewidth": 1.4})
            claims += 1
        elif series.style == "reference":
            looks.append({"color": _REFERENCE, "linewidth": 0.9})
        else:
            dashes = {} if series.style == "proven" else {"dashes": (3, 1)}
            looks.append({"color": _PROVEN, "linewidth": 2.2, "zorder": 3, **dashes})
    return looks


def _line(series: Series, look: dict[str, Any], axes: Axes) -> None:
    label = f"{series.name} (published)" if series.style == "published" else series.name
    axes.plot(series.x, series.y, label=label, **look)
    if series.other_end:
        # Where the bracket is too narrow to see, this band hides under its line.
        axes.fill_between(
            series.x, series.y, series.other_end, color=look["color"], alpha=0.2, linewidth=0
        )


def _metadata(figure: Figure, suffix: str) -> dict[str, Any]:
    """Return title and text alternative for the file, without dates or versions."""
    words = {"Title": figure.title}
    if suffix == ".pdf":
        return words | {"Subject": figure.alternative, "CreationDate": None}
    if suffix == ".svg":
        return words | {"Description": figure.alternative, "Date": None}
    return words | {"Description": figure.alternative, "Software": None}
