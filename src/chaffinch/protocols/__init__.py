"""How an answer is protected: what a device sends, and what that makes of the view.

=================  ==========================================================================
Flips              every bit of the answer flipped, ``copies`` times over
Decoys             the answer in clear, and decoy slots filled by chance with uniform values
FlippedDecoys      the answer and whole decoy records, every bit of all of them flipped
Encoded            a number as a thermometer of bits, every bit flipped
Signed             the answer in clear, among pluses and minuses that cancel but for noise
=================  ==========================================================================

A new protocol is one file with a subclass of ``Protocol``, and one line in ``PROTOCOLS``:
planner, plan files, encoders, simulations and explanations all ask this list.
"""

from __future__ import annotations

from chaffinch.protocols.base import MOST_SLOTS, Protocol, Variant
from chaffinch.protocols.decoys import Decoys
from chaffinch.protocols.encoded import Encoded
from chaffinch.protocols.flipped_decoys import FlippedDecoys
from chaffinch.protocols.flips import Flips
from chaffinch.protocols.signed import Signed
from chaffinch.questions import Question

__all__ = [
    "PROTOCOLS",
    "Decoys",
    "Encoded",
    "FlippedDecoys",
    "Flips",
    "Protocol",
    "Signed",
    "Variant",
    "local_variant",
    "named_variants",
    "protocol_variants",
    "row_name",
    "variant_names",
]

PROTOCOLS: tuple[type[Protocol], ...] = (
    Flips,
    Decoys,
    FlippedDecoys,
    Encoded,
    Signed,
)


def protocol_variants(
    question: Question, most_messages: int, *, clear: bool = False, wished: bool = False
) -> list[Variant]:
    """Return every way to protect a question within a number of messages per report.

    ``clear``: also those whose reports show the answer to who sees them alone; ``wished``: also
    those that are taken only where somebody said that this does not matter.
    """
    return [
        variant
        for protocol in PROTOCOLS
        if question.shape in protocol.shapes
        and (clear or not protocol.clear)
        and (wished or not protocol.only_by_wish(question))
        for variant in protocol.variants(question, most_messages)
    ]


def named_variants(question: Question, most_messages: int, name: str) -> list[Variant]:
    """Return the ways that somebody asks for: the one of this name, or those of this protocol.

    "flips, 4 copies" is one way, "signed decoys" and "encoded" (what plan files call it) are all
    of a protocol. Ways that take more messages count where no other has the name.
    """
    for most in (most_messages, MOST_SLOTS):
        offered = [
            (protocol.kind, variant)
            for protocol in PROTOCOLS
            if question.shape in protocol.shapes
            for variant in protocol.variants(question, most)
        ]
        exact = [one for _, one in offered if name in {one.name, row_name(one.name)}]
        found = exact or [
            one for kind, one in offered if name in {kind, one.name.partition(",")[0]}
        ]
        if found:
            return found
    return []


def variant_names(question: Question) -> list[str]:
    """Return the names of all ways to protect a question, however many messages they take."""
    every = protocol_variants(question, MOST_SLOTS, clear=True, wished=True)
    return [variant.name for variant in every]


def row_name(name: str) -> str:
    """Return the name of a way, or of one for each question, as tables print it.

    >>> row_name("number in 8 bits, total seen")
    '8 bits, total'
    """
    return name.replace("number in ", "").replace(" seen", "")


def local_variant(question: Question) -> Variant:
    """Return plain randomized response, which trusts no shuffler: the baseline."""
    offered = (
        protocol.local_variant(question)
        for protocol in PROTOCOLS
        if question.shape in protocol.shapes
    )
    return next(variant for variant in offered if variant is not None)
