"""What all pages share: the head, the way between them, and a few pieces."""

from __future__ import annotations

from collections.abc import Container, Iterable

from chaffinch.errors import ChaffinchError
from chaffinch.web.controls import named_as_here
from chaffinch.web.markup import Inside, Markup, join, tag

PAGES = {"": "Plan & try", "run": "Run", "watch": "Watch", "results": "Results", "reach": "Reach"}
"""The pages by their addresses, in the order in which data flows."""
_NO_SCRIPT = (
    "This page plans as you type, so it needs its script, which comes from this machine. Without "
    "it the command line does the same: chaffinch plan --example > survey.toml"
)


def page(current: str, title: str, *main: Inside, depth: int = 0) -> str:
    """Return a whole page; ``current`` is its address, ``depth`` how far below the others it is."""
    root = "../" * depth or "./"
    links = [
        tag("a", name, href=f"{root}{path}", aria_current="page" if path == current else None)
        for path, name in PAGES.items()
    ]
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("title", f"{title} · chaffinch"),
        tag("link", rel="stylesheet", href=f"{root}page.css"),
        tag("link", rel="icon", href="data:,"),
        tag("script", src=f"{root}page.js", type="module"),
    )
    body = tag(
        "body",
        tag("a", "Skip to the content", href="#main", class_="skip"),
        tag(
            "header",
            tag("strong", "chaffinch"),
            tag("nav", *links, aria_label="Pages"),
            tag("span", "only on this machine", class_="soft"),
            class_="top",
        ),
        tag("noscript", tag("p", _NO_SCRIPT, class_="fault")),
        tag("main", tag("h1", title), *main, id="main", data_page=current or "plan"),
    )
    return "<!DOCTYPE html>\n" + tag("html", head, body, lang="en")


def card(title: str, *inside: Inside, id_: str | None = None, class_: str = "") -> Markup:
    """Return a box with a heading."""
    return tag("section", tag("h2", title), *inside, class_=f"card {class_}".strip(), id=id_)


def folded(title: str, *inside: Inside, id_: str, load: str | None = None) -> Markup:
    """Return what is shown to those who open it; ``load`` is what is asked for only then."""
    held = tag("div", *inside, id=f"{id_}-inside")
    return tag("details", tag("summary", title), held, id=id_, data_load=load)


def prose(text: str) -> Markup:
    r"""Return paragraphs, of which some end with a list.

    >>> prose("Two things:\n- tea\n- milk\n\nNo more.")
    '<p>Two things:</p><ul><li>tea</li><li>milk</li></ul><p>No more.</p>'
    """
    return join(*(_paragraph(*one.splitlines()) for one in text.split("\n\n")))


def _paragraph(first: str, *items: str) -> Markup:
    listed = [tag("li", one.removeprefix("- ")) for one in items]
    return join(tag("p", first), tag("ul", *listed) if listed else "")


def code_block(text: str, name: str) -> Markup:
    """Return something to be copied."""
    copy = tag("button", "copy", type="button", class_="copy", aria_label=f"Copy {name}")
    return tag("div", copy, tag("pre", tag("code", text), tabindex="0"), class_="code")


def facts(pairs: Iterable[tuple[str, Inside]]) -> Markup:
    """Return names and what is said of each."""
    return tag("dl", *(join(tag("dt", name), tag("dd", said)) for name, said in pairs))


def table(
    heads: Iterable[str],
    rows: Iterable[Iterable[Inside]],
    caption: str,
    *,
    words: Container[str] = (),
) -> Markup:
    """Return a table; the first cell of a row names it. ``words`` are the heads of texts."""
    listed = list(heads)
    looks = ["left" if head in words else None for head in listed]
    titles = [
        tag("th", head, scope="col", class_=look) for head, look in zip(listed, looks, strict=True)
    ]
    lines = []
    for first, *rest in rows:
        cells = [
            tag("td", cell, data_label=head, class_=look)
            for head, look, cell in zip(listed[1:], looks[1:], rest, strict=True)
        ]
        lines.append(tag("tr", tag("th", first, scope="row"), *cells))
    inside = tag(
        "table",
        tag("caption", caption),
        tag("thead", tag("tr", *titles)),
        tag("tbody", *lines),
    )
    return tag("div", inside, class_="wide", tabindex="0", role="region", aria_label=caption)


def fault_of(fault: ChaffinchError) -> Markup:
    """Return what is wrong, and what helps; all of several faults."""
    first, *rest = named_as_here(fault.message).splitlines()
    listed = [tag("li", line.removeprefix("  - ")) for line in rest]
    return tag(
        "div",
        tag("p", tag("strong", first)),
        tag("ul", *listed) if listed else "",
        tag("p", named_as_here(fault.hint)) if fault.hint else "",
        class_="fault",
        role="alert",
    )
