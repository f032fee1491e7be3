"""A card: how a notebook shows a number, a plan, a release or a figure.

A notebook may be dark on a light system, or light on a dark one, and nothing inside of it can tell.
So a card brings its own paper and its own ink, and lets neither the system nor the notebook change
them. The colours are those of all pages and figures.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence
from typing import Any

# What XML has no place for, and halves of characters that no file can hold.
_UNFIT = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

# One meaning for each colour: main and bar are estimated or proven, leak is what is lost, luck is
# what anybody has anyway. Letters have a contrast of 4.5 or more on the paper, marks of 3.
LIGHT = (
    "--cf-ink:#1b1c1e;--cf-soft:#595d63;--cf-paper:#fbfaf7;--cf-box:#e6f0f6;--cf-alarm:#fbeee2;--cf-grid:#dddcd8;"
    "--cf-track:#ececec;--cf-main:#0b64a0;--cf-bar:#4f95c3;--cf-cap:#0a3553;--cf-leak:#b34700;"
    "--cf-luck:#80868c;--cf-heat:#4a9fd0;--cf-claim-0:#b34700;--cf-claim-1:#00795a;"
    "--cf-claim-2:#a2487d;--cf-claim-3:#8a6100;--cf-claim-4:#6a3d9a;--cf-claim-5:#5f5f00"
)
DARK = (
    "--cf-ink:#ecebe8;--cf-soft:#b3b6ba;--cf-paper:#131517;--cf-box:#16252f;--cf-alarm:#33231a;--cf-grid:#383c40;"
    "--cf-track:#25292d;--cf-main:#6cb8ec;--cf-bar:#3d86b8;--cf-cap:#d3eafa;--cf-leak:#ff9a57;"
    "--cf-luck:#80868c;--cf-heat:#0b6fae;--cf-claim-0:#ff9a57;--cf-claim-1:#4fd0a5;"
    "--cf-claim-2:#e79ac4;--cf-claim-3:#e8b64c;--cf-claim-4:#bf9fe8;--cf-claim-5:#c9c95a"
)
PAPER = (
    "--cf-ink:#000;--cf-soft:#333;--cf-paper:#fff;--cf-box:#fff;--cf-alarm:#fff;--cf-grid:#bbb;--cf-track:#eee;"
    "--cf-main:#0a5587;--cf-cap:#000"
)

# Notebooks colour tables by rules of their own, which only `!important` outdoes. Some of them have
# letters of 10 pixels at their root, so nothing is measured in these.
_STYLE = f"""
.cf-card,.cf-card .cf-chart{{{LIGHT}}}
.cf-card{{color-scheme:light;box-sizing:border-box;max-width:736px;margin:8px 0;
padding:14px 18px 16px;border:1px solid var(--cf-grid);border-radius:10px;
background:var(--cf-paper);color:var(--cf-ink);font:14px/1.5 system-ui,sans-serif;
overflow-wrap:anywhere}}
.cf-card p,.cf-card ul{{margin:6px 0;color:inherit}}
.cf-card h3{{font-size:14px;font-weight:600;margin:14px 0 2px;color:inherit}}
.cf-card .cf-card-title{{font-size:16px;font-weight:600;margin:0 0 6px}}
.cf-card .cf-small{{font-size:12.5px;color:var(--cf-soft)}}
.cf-card table{{border-collapse:collapse;margin:8px 0;font-size:13px!important;
color:inherit!important;font-variant-numeric:tabular-nums}}
.cf-card tr{{background:none!important}}
.cf-card figure{{margin:8px 0}}
.cf-card figcaption{{font-size:12.5px;color:var(--cf-soft)}}
.cf-card th,.cf-card td{{padding:3px 14px 3px 0;text-align:right;color:inherit!important;
overflow-wrap:normal;border:0;border-bottom:1px solid var(--cf-grid);vertical-align:top}}
.cf-card .cf-words{{text-align:left!important;overflow-wrap:anywhere}}
.cf-card tbody th{{font-weight:normal}}
.cf-card thead th{{color:var(--cf-soft)!important;font-weight:normal}}
.cf-card .cf-scroll{{overflow-x:auto}}
""".strip()
_WORDS = ' class="cf-words"'
_OWN = "color-scheme:light;background:#fbfaf7;color:#1b1c1e"
"""Where a style sheet is taken out, as of a notebook that nobody trusts, this is left."""


def escape(text: str) -> str:
    """Return a text that is only a text, in an element as in a quoted attribute.

    >>> escape('"><script>')
    '&quot;&gt;&lt;script&gt;'
    """
    return html.escape(_UNFIT.sub("\N{REPLACEMENT CHARACTER}", text), quote=True)


class Words(str):
    """Paragraphs that a notebook shows as they read, and not as one line with escapes."""

    __slots__ = ()

    def _repr_pretty_(self, printer: Any, _cycle: object) -> None:
        printer.text(str(self))


def card(title: str, *inside: str, notes: Iterable[str] = (), style: str = "") -> str:
    """Return a card: a title, pieces of HTML, and sentences in small print below them.

    Title and notes are escaped here. ``style`` is added to the style that all cards share.

    >>> card("Tea & milk", "<p>5</p>", notes=["An estimate."])[-68:]
    'Tea &amp; milk</p><p>5</p><p class="cf-small">An estimate.</p></div>'
    """
    small = "".join(f'<p class="cf-small">{escape(note)}</p>' for note in notes if note)
    return (
        f'<div class="cf-card" style="{_OWN}"><style>{_STYLE}{style}</style>'
        f'<p class="cf-card-title">{escape(title)}</p>{"".join(inside)}{small}</div>'
    )


def paragraph(text: str) -> str:
    """Return a text as a paragraph."""
    return f"<p>{escape(text)}</p>"


def listing(heading: str, items: Iterable[str]) -> str:
    """Return a heading and a list of texts below it.

    >>> listing("Ada", ["tea & milk"])
    '<h3>Ada</h3><ul><li>tea &amp; milk</li></ul>'
    """
    listed = "".join(f"<li>{escape(one)}</li>" for one in items)
    return f"<h3>{escape(heading)}</h3><ul>{listed}</ul>"


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], *, words: int = 1) -> str:
    """Return a table; the first columns hold ``words``, all others numbers.

    >>> table(["drink", "cups"], [["tea & milk", "5"]])[-88:]
    '<tbody><tr><th class="cf-words">tea &amp; milk</th><td>5</td></tr></tbody></table></div>'
    """
    top = _cells(heads, "th", words)
    body = "".join(
        f"<tr>{_cells(first_cells, 'th', 1)}{_cells(rest, 'td', words - 1)}</tr>"
        for first_cells, rest in ((row[:1], row[1:]) for row in rows)
    )
    return (
        f'<div class="cf-scroll"><table><thead><tr>{top}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _cells(texts: Sequence[str], tag: str, words: int) -> str:
    return "".join(
        f"<{tag}{_WORDS * (place < words)}>{escape(one)}</{tag}>" for place, one in enumerate(texts)
    )
