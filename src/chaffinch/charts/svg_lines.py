"""Curves as SVG: the same figures that `files` and `terminal` draw, with nothing to install."""

from __future__ import annotations

import math
from collections.abc import Iterator

from chaffinch.charts.figure import Figure, Series
from chaffinch.charts.svg import element, escape, framed

_WIDTH, _HEIGHT = 640, 400
_LEFT, _RIGHT, _TOP, _BOTTOM = 60, 16, 24, 44
_LINE = 18
_CLAIMS = 4


def draw(figure: Figure, *, name: str, styled: bool) -> str:
    """Return the SVG element of a figure of lines; its legend stands below it."""
    kinds = _kinds(figure)
    clip = f"{escape(name)}-frame"
    body = [*_axes(figure), f'<clipPath id="{clip}">{_frame()}</clipPath>']
    body.append(f'<g clip-path="url(#{clip})">')
    for series, kind in zip(figure.series, kinds, strict=True):
        body.extend(_line(series, kind, figure))
    body.append("</g>")
    for number, (series, kind) in enumerate(zip(figure.series, kinds, strict=True)):
        y = _HEIGHT + 14 + _LINE * number
        shown = f"{series.name} (published)" if series.style == "published" else series.name
        body.append(
            element("line", x1=_LEFT, x2=_LEFT + 28, y1=y - 4, y2=y - 4, class_=f"cf-line {kind}")
        )
        body.append(element("text", shown, x=_LEFT + 36, y=y))
    height = _HEIGHT + 14 + _LINE * len(figure.series)
    return framed(
        body,
        name=name,
        title=figure.title,
        description=f"{figure.alternative} {figure.caption}",
        size=f'viewBox="0 0 {_WIDTH} {height}" width="100%"',
        styled=styled,
    )


def _kinds(figure: Figure) -> list[str]:
    """Return the class of each line; claims and measures differ in colour and in dashes."""
    claims = 0
    kinds = []
    for series in figure.series:
        if series.style in ("published", "measured"):
            kinds.append(f"cf-claim-{claims % _CLAIMS}")
            claims += 1
        else:
            kinds.append(f"cf-{series.style}")
    return kinds


def _axes(figure: Figure) -> Iterator[str]:
    right, bottom = _WIDTH - _RIGHT, _HEIGHT - _BOTTOM
    for value, label in figure.x.ticks():
        x = _across(figure, value)
        yield element("line", x1=x, x2=x, y1=_TOP, y2=bottom, class_="cf-grid")
        yield element("text", label, x=x, y=bottom + 16, text_anchor="middle", class_="cf-soft")
    for value, label in figure.y.ticks():
        y = _down(figure, value)
        yield element("line", x1=_LEFT, x2=right, y1=y, y2=y, class_="cf-grid")
        yield element("text", label, x=_LEFT - 6, y=y + 4, text_anchor="end", class_="cf-soft")
    yield element("text", figure.x.label, x=right, y=bottom + 34, text_anchor="end")
    yield element("text", figure.y.label, x=6, y=14)


def _frame() -> str:
    width, height = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM
    return element("rect", x=_LEFT, y=_TOP, width=width, height=height)


def _line(series: Series, kind: str, figure: Figure) -> Iterator[str]:
    upper = _points(series.x, series.y, figure)
    if series.other_end:
        lower = _points(series.x, series.other_end, figure)
        band = " ".join([*upper, *reversed(lower)])
        yield element("polygon", points=band, class_="cf-band")
    yield element("polyline", points=" ".join(upper), class_=f"cf-line {kind}")


def _points(xs: tuple[float, ...], ys: tuple[float, ...], figure: Figure) -> list[str]:
    places = ((_across(figure, x), _down(figure, y)) for x, y in zip(xs, ys, strict=True))
    return [f"{x:.1f},{y:.1f}" for x, y in places if not (math.isnan(x) or math.isnan(y))]


def _across(figure: Figure, value: float) -> float:
    return _LEFT + figure.x.place(value) * (_WIDTH - _LEFT - _RIGHT)


def _down(figure: Figure, value: float) -> float:
    return _TOP + (1.0 - figure.y.place(value)) * (_HEIGHT - _TOP - _BOTTOM)
