"""SVG without a library: elements, escaping, and the frame that makes a picture readable to all.

Colours are CSS variables with a light and a dark value, so that one drawing fits both.
"""

from __future__ import annotations

import hashlib
import html
import re
import textwrap
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from chaffinch.charts.axis import Axis

MOST_TICKS = 6
_TITLE_LETTERS, _TITLE_LINE = 80, 20
"""How many letters of a title stand in a line, and its height."""
_HALF_LETTER = 0.012
"""Of the width of a narrow screen."""

# What XML has no place for, and halves of characters that no file can hold.
_UNFIT = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

STYLE = """
.cf-chart{--cf-ink:#1b1b1b;--cf-soft:#5a5a5a;--cf-grid:#dcdcdc;--cf-main:#0072b2;
--cf-claim-0:#b34700;--cf-claim-1:#00795a;--cf-claim-2:#a2487d;--cf-claim-3:#8a6100;
--cf-claim-4:#6a3d9a;--cf-claim-5:#5f5f00;
--cf-heat:#4a9fd0;font:13px system-ui,sans-serif;fill:var(--cf-ink);overflow:visible}
@media (prefers-color-scheme:dark){.cf-chart{--cf-ink:#ececec;--cf-soft:#b4b4b4;--cf-grid:#444;
--cf-main:#6cb8ec;--cf-claim-0:#ff9a57;--cf-claim-1:#4fd0a5;--cf-claim-2:#e79ac4;
--cf-claim-3:#e8b64c;--cf-claim-4:#bf9fe8;--cf-claim-5:#c9c95a;--cf-heat:#0b6fae}}
@media print{.cf-chart{--cf-ink:#000;--cf-soft:#444;--cf-grid:#ccc;--cf-main:#00558a}}
.cf-title{font-size:14px;font-weight:600}
.cf-soft{fill:var(--cf-soft);font-size:12px}
.cf-grid{stroke:var(--cf-grid);stroke-width:1}
.cf-zero{stroke:var(--cf-soft);stroke-width:1}
.cf-each{stroke:var(--cf-main);stroke-width:6;opacity:.4}
.cf-together{stroke:var(--cf-main);stroke-width:1.5}
.cf-dot{fill:var(--cf-main)}
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
""".strip()


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

    @abstractmethod
    def _draw(self, *, name: str, styled: bool) -> Drawing: ...

    def svg(self, *, name: str = "chart", styled: bool = True) -> str:
        """Return the picture as an SVG element; ``name`` must differ between those of a page.

        It takes the width it is given. ``styled=False`` leaves the styling to the page.
        """
        drawing = self._draw(name=name, styled=styled)
        label, identity = escape(self.title), f"{escape(name)}-words"
        opening = (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="cf-chart" {drawing.size} role="img" '
            f'aria-label="{label}" aria-describedby="{identity}">'
        )
        words = escape(f"{self.alternative} {drawing.note}".strip())
        described = f'<title>{label}</title><desc id="{identity}">{words}</desc>'
        style = f"<style>{STYLE}</style>" if styled else ""
        return "".join([opening, described, style, *drawing.elements, "</svg>"])

    def _repr_svg_(self) -> str:
        # Cells of a notebook are one page: names in it must differ where pictures do.
        drawn = self.svg()
        return self.svg(name=f"chart-{hashlib.sha256(drawn.encode()).hexdigest()[:12]}")


def escape(text: str) -> str:
    """Return a text that is only a text, in an element as in a quoted attribute.

    >>> escape('"><script>')
    '&quot;&gt;&lt;script&gt;'
    """
    return html.escape(_UNFIT.sub("\N{REPLACEMENT CHARACTER}", text), quote=True)


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


def across(axis: Axis, value: float) -> str:
    """Return where a value lies, in percent of whatever width there is; never outside."""
    return f"{100 * min(max(axis.place(value), 0.0), 1.0):.2f}%"


def scale_below(axis: Axis, bottom: int) -> Iterator[str]:
    """Yield the numbers and the name of an axis below everything else."""
    for value, label in axis.ticks(most=MOST_TICKS):
        written = f"{value:,.0f}" if value == round(value) and abs(value) < 1e9 else label
        share, half = axis.place(value), _HALF_LETTER * len(written)
        anchor = "start" if share < half else "end" if share > 1 - half else "middle"
        yield element(
            "text",
            written,
            x=across(axis, value),
            y=bottom + 14,
            text_anchor=anchor,
            class_="cf-soft",
        )
    yield element("text", axis.label, x="100%", y=bottom + 32, text_anchor="end", class_="cf-soft")


def _value(value: str | float) -> str:
    return escape(value) if isinstance(value, str) else f"{round(value, 2):g}"
