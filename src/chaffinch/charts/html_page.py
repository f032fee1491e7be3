"""A whole HTML page that needs nothing else: no script, no request, no font.

The content security policy of the page forbids everything but its own style. So a text that was
not escaped by mistake could still run nothing.
"""

from __future__ import annotations

from chaffinch.charts.svg import STYLE, escape

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
_PAGE_STYLE = """
:root{color-scheme:light dark;--ink:#1b1b1b;--soft:#5a5a5a;--line:#d5d5d5;--paper:#fff;
--box:#f3f7fa;--edge:#0072b2;--alarm:#b3261e}
@media (prefers-color-scheme:dark){:root{--ink:#ececec;--soft:#b4b4b4;--line:#4a4a4a;
--paper:#161616;--box:#1e2a33;--edge:#6cb8ec;--alarm:#ff8a80}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:52rem;padding:1.5rem 1rem 3rem;color:var(--ink);
background:var(--paper);font:1rem/1.5 system-ui,sans-serif;overflow-wrap:anywhere}
h1{font-size:1.7rem;line-height:1.25;margin:0 0 1rem}
h2{font-size:1.25rem;margin:2.5rem 0 .75rem;border-top:1px solid var(--line);padding-top:1.5rem}
.promise{background:var(--box);border-left:4px solid var(--edge);padding:.75rem 1rem;
margin:0 0 1rem}
.warning{border-left:4px solid var(--alarm);padding:.75rem 1rem;margin:0 0 1rem}
.promise p,.warning p{margin:.25rem 0}
.promise p:first-child{font-size:1.1rem}
summary{cursor:pointer;color:var(--soft);padding:.4rem 0}
details dl{padding:.25rem 0 .75rem 1rem}
footer{border-top:1px solid var(--line);margin-top:2.5rem;padding-top:1rem}
main>section:first-child>h2:first-child{border-top:0;margin-top:0;padding-top:0}
.soft,figcaption,caption{color:var(--soft);font-size:.9rem}
caption{text-align:left;padding-bottom:.35rem}
dl{display:grid;grid-template-columns:minmax(8rem,max-content) 1fr;gap:.25rem 1rem;margin:0}
dt{color:var(--soft)}
dd{margin:0}
figure{margin:1rem 0}
.wide{overflow-x:auto;margin:1rem 0}
table{border-collapse:collapse;width:100%;font-size:.92rem;font-variant-numeric:tabular-nums}
th,td{padding:.3rem .5rem;border-bottom:1px solid var(--line);text-align:right;
white-space:nowrap;vertical-align:top}
th:first-child,td:first-child{text-align:left;white-space:normal;min-width:8rem;padding-left:0}
tbody th{font-weight:normal}
thead th{white-space:normal;overflow-wrap:normal;
vertical-align:bottom;border-bottom:2px solid var(--line)}
li{margin:.25rem 0}
@media (max-width:30rem){body{padding:1rem .75rem 2rem}h1{font-size:1.4rem}
dl{grid-template-columns:1fr;gap:0}dd{margin-bottom:.5rem}}
@media print{:root{--ink:#000;--soft:#333;--line:#bbb;--paper:#fff;--box:#fff;--edge:#000}
html{font-size:10pt}caption{break-after:avoid}
body{max-width:none;padding:0}figure,tr,.promise{break-inside:avoid}
h2{break-after:avoid}.wide{overflow:visible}
details::details-content{content-visibility:visible;block-size:auto}thead{display:table-header-group}}
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
        f"<title>{named}</title>\n<style>{_PAGE_STYLE}\n{STYLE}{style}</style>\n</head>\n"
        f"<body>\n<header>\n<h1>{named}</h1>\n{head}</header>\n<main>\n"
        f"{main}</main>\n{foot}</body>\n</html>\n"
    )
