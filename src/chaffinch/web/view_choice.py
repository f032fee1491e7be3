"""Who adds the answers up: one control for the pages Plan and Run, and whom each choice trusts."""

from __future__ import annotations

from collections.abc import Mapping

from chaffinch.protocols.base import MESSAGES, TOTALS
from chaffinch.web.controls import CONTROLS
from chaffinch.web.markup import Markup, join, tag

_WORDS = {
    MESSAGES: CONTROLS["as-devices"],
    TOTALS: "by whoever holds the table",
}
_TRUSTED = {
    MESSAGES: "Every device adds noise of its own. Trusted are shuffler and analyzer not to work "
    "together; neither of them sees who answered what.",
    TOTALS: "Noise is added once, to the totals. Trusted is whoever holds the table: they see "
    "every row and know the exact numbers. The promise holds against everybody else, who sees only "
    "what is released.",
}


def who_adds_up(first: str, *, look: str = "blank") -> Markup:
    """Return the control; ``first`` is what it says at the beginning."""
    views = sorted(_WORDS, key=lambda view: view != first)
    options = [tag("option", _WORDS[view], value=view) for view in views]
    return tag("select", *options, name="view", class_=look, aria_label="counted by whom")


def who_is_trusted(more: Mapping[str, str] | None = None) -> Markup:
    """Return who is trusted, which follows the control, and what ``more`` there is to say."""
    return join(
        *(
            tag(
                "p",
                " ".join([words, *filter(None, [(more or {}).get(view)])]),
                class_="soft",
                data_view=view,
            )
            for view, words in _TRUSTED.items()
        )
    )
