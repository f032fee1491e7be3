"""A whole HTML page that needs nothing else: no script, no request, no font.

The content security policy of the page forbids everything but its own style. So a text that was
not escaped by mistake could still run nothing.
"""

from __future__ import annotations

from chaffinch.cards import DARK, LIGHT, PAPER, escape
from chaffinch.charts.svg import RULES

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
# On a card these stand in a notebook, whose rules for lists only `!important` outdoes, and whose
# letters may have 10 pixels at the root.
BOX_STYLE = """
.headline{font-size:1.25em;line-height:1.4;margin:.1em 0 .6em;text-wrap:pretty}
.headline strong{font-weight:650}
.aside{color:var(--cf-soft)}
.promise{background:var(--cf-box);border-left:4px solid var(--cf-main);border-radius:0 10px 10px 0;
padding:.9em 1.25em 1em;margin:.75em 0 1em;break-inside:avoid}
.promise.useless{border-color:var(--cf-leak);background:var(--cf-alarm)}
.promise p{margin:.5em 0 0;max-width:42em}
.promise .lead{font-size:1.15em;font-weight:inherit;margin:0 0 .5em}
.promise>svg{display:block;max-width:26em}
.legend{list-style:none!important;padding:0!important;margin:.55em 0 .8em;display:flex;
flex-wrap:wrap;gap:.1em 1.2em;font-size:.9em;color:var(--cf-soft)}
.legend li{margin:0}
.cf-mark-dot{width:.8em;height:.8em;vertical-align:-.05em}
""".strip()
"""The sentences that say what was found and what is promised, on a page and on a card."""

_PAGE_STYLE = f"""
:root{{color-scheme:light dark;{LIGHT}}}
@media (prefers-color-scheme:dark){{:root{{{DARK}}}}}
*{{box-sizing:border-box}}
body{{margin:0 auto;max-width:48rem;padding:2rem 1rem 3rem;color:var(--cf-ink);
background:var(--cf-paper);font:1rem/1.55 system-ui,sans-serif;overflow-wrap:anywhere}}
h1{{font-size:1.9rem;line-height:1.2;margin:0 0 .35rem;text-wrap:balance}}
h2{{font-size:1.2rem;line-height:1.3;margin:2.5rem 0 .35rem}}
h3{{font-size:1rem;margin:1.75rem 0 .25rem}}
.byline{{color:var(--cf-soft);font-size:.95rem;margin:0}}
.warning{{border-left:4px solid var(--cf-leak);background:var(--cf-alarm);
border-radius:0 10px 10px 0;padding:.75rem 1.25rem;margin:1.25rem 0;font-weight:600}}
.warning p{{margin:.25rem 0}}
summary{{cursor:pointer;color:var(--cf-soft);padding:.4rem 0}}
details dl{{padding:.25rem 0 .75rem 1rem}}
:focus-visible{{outline:3px solid var(--cf-main);outline-offset:2px}}
.soft,figcaption,caption{{color:var(--cf-soft);font-size:.88rem}}
.soft{{padding-left:1.1rem}}p.soft{{padding:0}}
caption{{text-align:left;padding-bottom:.35rem}}
dl{{display:grid;grid-template-columns:minmax(8rem,max-content) 1fr;gap:.25rem 1rem;margin:0}}
dt{{color:var(--cf-soft)}}
dd{{margin:0}}
figure{{margin:.75rem 0 1rem}}
.wide{{overflow-x:auto;margin:.5rem 0 1rem;
background:linear-gradient(90deg,var(--cf-paper) 30%,transparent) 0 0/3rem 100% no-repeat local,
linear-gradient(270deg,var(--cf-paper) 30%,transparent) 100% 0/3rem 100% no-repeat local,
linear-gradient(90deg,var(--cf-grid),transparent) 0 0/1rem 100% no-repeat scroll,
linear-gradient(270deg,var(--cf-grid),transparent) 100% 0/1rem 100% no-repeat scroll}}
table{{border-collapse:collapse;width:100%;font-size:.92rem;font-variant-numeric:tabular-nums}}
th,td{{padding:.35rem 0 .35rem 1rem;border-bottom:1px solid var(--cf-grid);text-align:right;
white-space:nowrap;vertical-align:top}}
th:first-child{{text-align:left;white-space:normal;min-width:7rem;padding-left:0}}
tbody th{{font-weight:normal}}
thead th{{white-space:normal;overflow-wrap:normal;color:var(--cf-soft);font-weight:normal;
font-size:.88rem;vertical-align:bottom}}
td[data-label=share]{{font-weight:600}}
li{{margin:.25rem 0}}
@media (max-width:36rem){{body{{padding:1.25rem .75rem 2rem}}h1{{font-size:1.5rem}}
dl{{grid-template-columns:1fr;gap:0}}dd{{margin-bottom:.5rem}}
.promise{{padding:.75rem .9rem}}
.wide{{background:none}}table,tbody,tr,th,td,caption{{display:block}}
thead{{position:absolute;clip-path:inset(50%);white-space:nowrap;width:1px;height:1px;
overflow:hidden}}
tbody tr{{padding:.5rem 0;border-bottom:1px solid var(--cf-grid)}}
tbody th{{font-weight:600}}
th,td{{border:0;padding:.05rem 0}}
td{{display:flex;justify-content:space-between;gap:1rem}}
td:empty{{display:none}}
td::before{{content:attr(data-label);color:var(--cf-soft);font-weight:normal}}}}
@media print{{:root{{color-scheme:light;{LIGHT};{PAPER}}}
html{{font-size:10pt}}caption{{break-after:avoid}}
body{{max-width:none;padding:0}}figure,tr,.promise{{break-inside:avoid}}
h2,h3{{break-after:avoid}}.wide{{overflow:visible;background:none}}
details::details-content{{content-visibility:visible;block-size:auto}}
thead{{display:table-header-group}}
*{{print-color-adjust:exact;-webkit-print-color-adjust:exact}}}}
{BOX_STYLE}
""".strip()


def html_page(
    title: str, *, head: str, main: str, foot: str = "", style: str = "", kind: str = ""
) -> str:
    """Return a whole page: ``head`` stands below the title, ``foot`` at the very end.

    The title is escaped here; ``head``, ``main`` and ``foot`` are HTML. ``style`` is added to
    the style that all pages share, and ``kind`` is a line that tells programs what the page is.
    """
    named = escape(title)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f"{kind}{chr(10) if kind else ''}"
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f"<title>{named}</title>\n<style>{_PAGE_STYLE}\n{RULES}{style}</style>\n</head>\n"
        f"<body>\n<header>\n<h1>{named}</h1>\n{head}</header>\n<main>\n"
        f"{main}</main>\n{foot}</body>\n</html>\n"
    )
