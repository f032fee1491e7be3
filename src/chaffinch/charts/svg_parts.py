"""A linear diagram as SVG, in whatever width there is (places across are percentages)."""

from __future__ import annotations

from collections.abc import Iterator

from chaffinch.charts.figure import Axis
from chaffinch.charts.parts import PartsFigure
from chaffinch.charts.svg import element, framed
from chaffinch.charts.svg_dots import scale
from chaffinch.charts.terminal import shortened

_ROW = 40
_BAR = 14
_AXIS = 38
_LABEL_COLUMNS = 40


def draw(figure: PartsFigure, *, name: str, styled: bool) -> str:
    """Return the SVG element of a linear diagram."""
    bottom = _ROW * len(figure.sets)
    body = [*_edges(figure, bottom), *scale(figure.x, bottom)]
    for number, one in enumerate(figure.sets):
        body.extend(_row(figure, one, _ROW * number))
    return framed(
        body,
        name=name,
        title=figure.title,
        description=f"{figure.alternative} {figure.note}".strip(),
        size=f'width="100%" height="{bottom + _AXIS}"',
        styled=styled,
    )


def _row(figure: PartsFigure, name: str, top: int) -> Iterator[str]:
    yield element("text", shortened(name, _LABEL_COLUMNS), x=0, y=top + 14)
    yield _bar(figure.x, (figure.x.low, figure.x.high), top + 20, "cf-band")
    for span in figure.spans(name):
        yield _bar(figure.x, span, top + 20, "cf-dot")


def _edges(figure: PartsFigure, bottom: int) -> Iterator[str]:
    """Yield a line at the end of each part, through the bars and not through the names."""
    for part in figure.parts[:-1]:
        at = _across(figure.x, part.high)
        for top in range(0, bottom, _ROW):
            yield element("line", x1=at, x2=at, y1=top + 18, y2=top + 36, class_="cf-zero")


def _bar(axis: Axis, ends: tuple[float, float], top: int, kind: str) -> str:
    low, high = (100 * axis.place(end) for end in ends)
    return element(
        "rect", x=f"{low:.2f}%", y=top, width=f"{high - low:.2f}%", height=_BAR, class_=kind
    )


def _across(axis: Axis, value: float) -> str:
    return f"{100 * axis.place(value):.2f}%"
