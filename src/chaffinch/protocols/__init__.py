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

from chaffinch.protocols.base import Protocol, Variant
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
    "protocol_variants",
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


def local_variant(question: Question) -> Variant:
    """Return plain randomized response, which trusts no shuffler: the baseline."""
    offered = (
        protocol.local_variant(question)
        for protocol in PROTOCOLS
        if question.shape in protocol.shapes
    )
    return next(variant for variant in offered if variant is not None)
