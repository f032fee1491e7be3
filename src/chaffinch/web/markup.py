"""HTML from Python: whatever is no markup already becomes text."""

from __future__ import annotations

from collections.abc import Iterable

from chaffinch.cards import escape

_EMPTY = frozenset({"input", "link", "meta", "br"})
"""Elements that have nothing in them."""


class Markup(str):
    """HTML that may stand in a page as it is."""

    __slots__ = ()


Inside = str | Iterable[str]


def tag(name: str, /, *inside: Inside, **attributes: str | float | bool | None) -> Markup:
    """Return an element. Texts in it are escaped, and so are its attributes.

    Underscores in names of attributes stand for hyphens, and ``class_`` for ``class``. True is an
    attribute without a value; None and False are no attribute.

    >>> tag("p", "5 < 6 ", tag("b", "or not"), class_="soft", hidden=False)
    '<p class="soft">5 &lt; 6 <b>or not</b></p>'
    """
    written = "".join(
        f" {key.rstrip('_').replace('_', '-')}"
        + ("" if value is True else f'="{escape(str(value))}"')
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    closing = "" if name in _EMPTY else f"</{name}>"
    return Markup(f"<{name}{written}>{join(*inside)}{closing}")


def join(*inside: Inside) -> Markup:
    """Return markup and texts one behind the other."""
    return Markup("".join(_safe(one) for each in inside for one in _each(each)))


def _each(inside: Inside) -> Iterable[str]:
    return (inside,) if isinstance(inside, str) else inside


def _safe(one: str) -> str:
    return one if isinstance(one, Markup) else escape(one)
