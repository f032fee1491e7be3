"""SVG without a library: elements, escaping, and the frame that makes a picture readable to all.

Colours are CSS variables (`cards`) with a light and a dark value, so that one drawing fits both. A
picture in a notebook is on a card, which is light everywhere.
"""

from __future__ import annotations

import hashlib
import textwrap
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar, NamedTuple

from chaffinch.cards import DARK, LIGHT, PAPER, card, escape
from chaffinch.charts.axis import Axis

_MOST_TICKS, _FEW_TICKS = 6, 4
_TICK_LETTERS = 28
"""More letters than this have no room below a narrow picture."""
_TITLE_LETTERS, _TITLE_LINE = 80, 20
"""How many letters of a title stand in a line, and its height."""
_LEGEND_LETTERS, _LEGEND_LINE, _SAMPLE = 42, 18, 28
"""How many letters of a legend stand in a line on a phone, its height, and how long a line is."""
_HALF_LETTER = 0.012
"""Of the width of a narrow screen."""

RULES = """
.cf-chart{font:13px system-ui,sans-serif;fill:var(--cf-ink);overflow:visible;
font-variant-numeric:tabular-nums}
.cf-alone{background:var(--cf-paper)}
.cf-title{font-size:14px;font-weight:600}
.cf-soft{fill:var(--cf-soft);font-size:12.5px}
.cf-strong{fill:var(--cf-ink);font-size:13.5px;font-weight:600}
.cf-grid{stroke:var(--cf-grid);stroke-width:1}
.cf-zero{stroke:var(--cf-soft);stroke-width:1}
.cf-track{fill:var(--cf-track)}
.cf-rule{fill:var(--cf-luck);opacity:.45}
.cf-bar{fill:var(--cf-bar)}
.cf-cap{fill:var(--cf-cap);opacity:.75}
.cf-end{stroke:var(--cf-cap);stroke-width:1.5}
.cf-dot{fill:var(--cf-main);stroke:var(--cf-paper);stroke-width:1.5}
.cf-part{fill:var(--cf-bar)}
.cf-edge{stroke:var(--cf-paper);stroke-width:2}
.cf-luck{fill:var(--cf-luck)}
.cf-leak{fill:var(--cf-leak)}
.cf-wrong{fill:none;stroke:var(--cf-luck);stroke-width:1.2}
.cf-line{fill:none;stroke-width:1.5}
.cf-band{fill:var(--cf-main);stroke:none;opacity:.2}
.cf-proven,.cf-assumed{stroke:var(--cf-main);stroke-width:2.5}
.cf-assumed{stroke-dasharray:6 3}
.cf-reference{stroke:var(--cf-soft);stroke-width:1}
.cf-claim-0{stroke:var(--cf-claim-0);stroke-dasharray:8 3}
.cf-claim-1{stroke:var(--cf-claim-1);stroke-dasharray:3 2}
.cf-claim-2{stroke:var(--cf-claim-2);stroke-dasharray:9 3 2 3}
.cf-claim-3{stroke:var(--cf-claim-3);stroke-dasharray:1 2}
.cf-claim-4{stroke:var(--cf-claim-4);stroke-dasharray:12 3}
.cf-claim-5{stroke:var(--cf-claim-5);stroke-dasharray:5 2 1 2}
.cf-cell{fill:var(--cf-heat)}
.cf-number{font-size:11px}
.cf-mark{fill:none;stroke:var(--cf-ink);stroke-width:2}
figure:has(>.cf-chart){container-type:inline-size}
@container (max-width:27rem){.cf-wide{display:none}}
""".strip()
"""How the parts of pictures look, whatever the colours are."""

STYLE = f"""
.cf-chart{{{LIGHT}}}
@media (prefers-color-scheme:dark){{.cf-chart{{{DARK}}}}}
@media print{{.cf-chart{{{PAPER}}}}}
{RULES}
""".strip()
"""The style of a picture that stands alone: it has the colours of the system, and its own paper."""


class Drawing(NamedTuple):
    """What is drawn of a picture."""

    elements: Sequence[str]
    size: str
    """The attributes that say how much room it takes."""
    note: str
    """What is told beside the text alternative."""


def full_width(height: float) -> str:
    """Return the size of a drawing that is as wide as its place; across it has percentages."""
    return f'width="100%" height="{height:g}"'


class Picture(ABC):
    """What can be drawn; a notebook shows it by itself."""

    __slots__ = ()

    title: str
    alternative: str
    """What the picture shows, for those who listen."""
    rules: ClassVar[str] = ""
    """How its parts look that no other picture has."""

    @abstractmethod
    def _draw(self, *, name: str, styled: bool) -> Drawing: ...

    def svg(self, *, name: str = "chart", styled: bool = True) -> str:
        """Return the picture as an SVG element; ``name`` must differ between those of a page.

        It takes the width it is given. ``styled=False`` leaves the styling to the page.
        """
        drawing = self._draw(name=name, styled=styled)
        label, identity = escape(self.title), f"{escape(name)}-words"
        opening = (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="cf-chart{" cf-alone" * styled}" '
            f'{drawing.size} role="img" '
            f'aria-label="{label}" aria-describedby="{identity}">'
        )
        words = escape(f"{self.alternative} {drawing.note}".strip())
        described = f'<title>{label}</title><desc id="{identity}">{words}</desc>'
        style = f"<style>{STYLE}{self.rules}</style>" if styled else ""
        return "".join([opening, described, style, *drawing.elements, "</svg>"])

    def _repr_svg_(self) -> str:
        return self.svg(name=self._own_name)

    def _repr_html_(self) -> str:
        name = self._own_name
        note = self._draw(name=name, styled=False).note
        inside = f"<figure style='margin:0'>{self.svg(name=name, styled=False)}</figure>"
        return card(self.title, inside, notes=[note], style=RULES + self.rules)

    @property
    def _own_name(self) -> str:
        # Cells of a notebook are one page: names in it must differ where pictures do.
        return f"chart-{hashlib.sha256(self.svg().encode()).hexdigest()[:12]}"


def element(tag: str, text: str | None = None, /, **attributes: str | float) -> str:
    """Return one element with a text or with nothing in it; numbers keep two decimals.

    Underscores in names of attributes stand for hyphens, and ``class_`` for ``class``.

    >>> element("circle", cx="50%", r=4.5, class_="cf-dot")
    '<circle cx="50%" r="4.5" class="cf-dot"/>'
    """
    written = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{_value(value)}"'
        for name, value in attributes.items()
    )
    return f"<{tag}{written}/>" if text is None else f"<{tag}{written}>{escape(text)}</{tag}>"


def level(y: float, left: str | float, right: str | float, kind: str) -> str:
    """Return a level line."""
    return element("line", x1=left, x2=right, y1=y, y2=y, class_=kind)


def upright(x: str | float, top: float, bottom: float, kind: str) -> str:
    """Return an upright line."""
    return element("line", x1=x, x2=x, y1=top, y2=bottom, class_=kind)


def grid_kind(value: float) -> str:
    """Return the class of the line of a grid at a value: that of zero stands out."""
    return "cf-zero" if value == 0 else "cf-grid"


def headline(title: str, *, bottom: int) -> tuple[list[str], int]:
    """Return the lines of a title that end above ``bottom``, and how much room they take."""
    lines = textwrap.wrap(title, _TITLE_LETTERS)
    tall = _TITLE_LINE * len(lines)
    drawn = [
        element("text", line, x=0, y=bottom - tall + _TITLE_LINE * number + 12, class_="cf-title")
        for number, line in enumerate(lines)
    ]
    return drawn, tall


def legend(entries: Iterable[tuple[str, str]], y: float) -> tuple[list[str], float]:
    """Return lines with what they are called, from ``y`` down, and where what follows begins.

    Each is named by its class and its words, which stand on several lines where a phone needs it.
    """
    drawn = []
    for kind, words in entries:
        drawn.append(level(y - 4, 0, _SAMPLE, f"cf-line {kind}"))
        for line in textwrap.wrap(words, _LEGEND_LETTERS):
            drawn.append(element("text", line, x=_SAMPLE + 8, y=y))
            y += _LEGEND_LINE
    return drawn, y


def across(axis: Axis, value: float) -> str:
    """Return where a value lies, in percent of whatever width there is; never outside."""
    return f"{100 * min(max(axis.place(value), 0.0), 1.0):.2f}%"


def ticks_below(axis: Axis) -> tuple[tuple[float, str], ...]:
    """Return the ticks of an axis below a picture: few where their numbers are long."""
    ticks = axis.ticks(most=_MOST_TICKS)
    if sum(len(_tick_text(*tick)) for tick in ticks) > _TICK_LETTERS:
        return axis.ticks(most=_FEW_TICKS)
    return ticks


def _tick_text(value: float, label: str) -> str:
    return f"{value:,.0f}" if value == round(value) and abs(value) < 1e9 else label


def scale_below(
    axis: Axis,
    bottom: int,
    *,
    named: bool = True,
    sign: str = "",
    ticks: Iterable[tuple[float, str]] | None = None,
) -> Iterator[str]:
    """Yield the numbers of an axis below everything else, and its name if it is ``named`` here."""
    for value, label in ticks_below(axis) if ticks is None else ticks:
        written = _tick_text(value, label)
        share, half = axis.place(value), _HALF_LETTER * len(written)
        anchor = "start" if share < half else "end" if share > 1 - half else "middle"
        yield element(
            "text",
            f"{written}{sign}",
            x=across(axis, value),
            y=bottom + 14,
            text_anchor=anchor,
            class_="cf-soft",
        )
    if named:
        label = axis.label
        yield element("text", label, x="100%", y=bottom + 32, text_anchor="end", class_="cf-soft")


def _value(value: str | float) -> str:
    return escape(value) if isinstance(value, str) else f"{round(value, 2):g}"
