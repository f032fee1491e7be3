"""The registry of protocols, and every way in which they can protect a question."""

from __future__ import annotations

import importlib
import re
from itertools import groupby

from chaffinch.errors import InvalidInput, Unquoted
from chaffinch.protocols.base import MESSAGES, MOST_SLOTS, Protocol, Variant
from chaffinch.questions import Question

PROTOCOLS: dict[str, str] = {
    "flips": "chaffinch.protocols.flips.Flips",
    "decoys": "chaffinch.protocols.decoys.Decoys",
    "flipped-decoys": "chaffinch.protocols.flipped_decoys.FlippedDecoys",
    "encoded": "chaffinch.protocols.encoded.Encoded",
    "signed-decoys": "chaffinch.protocols.signed.Signed",
    "weighted": "chaffinch.protocols.weighted.Weighted",
    "totals": "chaffinch.protocols.totals.Totals",
}
"""Each kind of protocol, as plan files call it, with its class by its whole name."""

LOCAL = "local"
"""The row of a planner that trusts no shuffler."""

ADDED: dict[str, type[Protocol]] = {}
"""Registered protocols from elsewhere by their kinds, in the order in which they came."""


def known_kinds() -> tuple[str, ...]:
    """Return the kinds of all protocols: ours, and behind them those that were registered."""
    return (*PROTOCOLS, *ADDED)


def protocol_named(kind: str) -> type[Protocol]:
    """Return the protocol of a kind; load it on first use, and no other."""
    if kind in ADDED:
        return ADDED[kind]
    module, _, name = PROTOCOLS[kind].rpartition(".")
    found: type[Protocol] = getattr(importlib.import_module(module), name)
    return found


def require_registered(protocol: Protocol) -> None:
    """Refuse a protocol that plan files do not mean by its kind: one that merely inherited it."""
    kind = protocol.kind
    if kind not in known_kinds() or protocol_named(kind) is not type(protocol):
        raise InvalidInput(
            f"protocol of the kind {kind!r} in a plan file",
            "the one that is registered",
            Unquoted(type(protocol).__name__),
            hint="give the class a kind of its own, and register it (chaffinch.protocols.register)",
        )


def every_protocol() -> tuple[type[Protocol], ...]:
    """Return all protocols, in the order of their kinds."""
    return tuple(map(protocol_named, known_kinds()))


def protocol_variants(
    question: Question,
    most_messages: int,
    *,
    clear: bool = False,
    wished: bool = False,
    view: str = MESSAGES,
) -> list[Variant]:
    """Return every way to protect a question within a number of messages per report, in a view.

    ``clear``: also those whose reports show the answer to who sees them alone; ``wished``: also
    those that are weighed only where somebody said that this does not matter.
    """
    return [
        variant
        for protocol in _carriers(question, view)
        if clear or not protocol.clear
        for variant in protocol.variants(question, most_messages)
        if wished or not variant.wished
    ]


def _carriers(question: Question, view: str) -> list[type[Protocol]]:
    """Return the protocols that carry a question; refuse ways of which nobody knows whose they are.

    What somebody asks for by a name must not be answered by a protocol that came later.
    """
    found = [one for one in every_protocol() if one.view == view and one.carries(question)]
    if not any(one.kind in ADDED for one in found):
        return found
    taken = {name: name for name in (*known_kinds(), LOCAL)}
    for protocol in found:
        for name in sorted(_names(protocol, question)):
            if taken.setdefault(name, protocol.kind) != protocol.kind:
                rule = f"other than those of {taken[name]!r}"
                raise InvalidInput(f"variants of {protocol.kind!r}", rule, name)
    return found


def _names(protocol: type[Protocol], question: Question) -> set[str]:
    """Return every name by which somebody may ask for a protocol, or for one of its ways."""
    ways = [variant.name for variant in protocol.variants(question, MOST_SLOTS)]
    names = {one for way in ways for one in (way, row_name(way))}
    return {protocol.kind, *names, *(name.partition(",")[0] for name in names)}


def named_variants(
    question: Question, most_messages: int, name: str, view: str = MESSAGES
) -> list[Variant]:
    """Return the ways that somebody asks for: the one of this name, or those of this protocol.

    "flips, 4 copies" is one way, "signed decoys" and "encoded" (what plan files call it) are all
    of a protocol. Ways that take more messages count where no other has the name.
    """
    for most in (most_messages, MOST_SLOTS):
        offered = [
            (protocol.kind, variant)
            for protocol in _carriers(question, view)
            for variant in protocol.variants(question, most)
        ]
        exact = [one for _, one in offered if name in {one.name, row_name(one.name)}]
        found = exact or [
            one for kind, one in offered if name in {kind, one.name.partition(",")[0]}
        ]
        if found:
            return found
    return []


def variant_names(question: Question, view: str = MESSAGES) -> list[str]:
    """Return the names of all ways to protect a question, however many messages they take."""
    every = protocol_variants(question, MOST_SLOTS, clear=True, wished=True, view=view)
    return [variant.name for variant in every]


def row_name(name: str) -> str:
    """Return the name of a way, or of one for each question, as tables print it.

    >>> row_name("number in 8 bits, total seen")
    '8 bits, total'
    >>> row_name("number in 1 bits, total seen")
    '1 bit, total'
    >>> row_name("flips; flips; flips; local")
    'flips (3 times); local'
    """
    ways = [(way, len(list(same))) for way, same in groupby(_shortened(name).split("; "))]
    return "; ".join(way if times == 1 else f"{way} ({times} times)" for way, times in ways)


def _shortened(name: str) -> str:
    short = name.replace("number in ", "").replace(" seen", "")
    return re.sub(r"\b1 bits\b", "1 bit", short)


def local_variant(question: Question) -> Variant:
    """Return plain randomized response, which trusts no shuffler: the baseline."""
    offered = (
        protocol.local_variant(question)
        for protocol in every_protocol()
        if protocol.carries(question)
    )
    return next(variant for variant in offered if variant is not None)
