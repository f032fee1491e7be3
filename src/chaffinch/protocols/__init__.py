"""How an answer is protected: what a device sends, and what that makes of the view.

=================  ==========================================================================
Flips              every bit of the answer flipped, ``copies`` times over
Decoys             the answer in clear, and decoy slots filled by chance with uniform values
FlippedDecoys      the answer and whole decoy records, every bit of all of them flipped
Encoded            a number as a thermometer of bits, every bit flipped
Signed             the answer in clear, among pluses and minuses that cancel but for noise
Totals             nothing is sent: one party that may see the answers adds up, and adds noise
=================  ==========================================================================

A new protocol is one file with a subclass of ``Protocol``, and one line: in ``registry.PROTOCOLS``,
or, where the file is outside of this package, ``register`` behind the class. Planner, plan files,
encoders, simulations and explanations all ask the registry. A plan loads its
own protocols, and of these what is asked: a device draws no noise (``noise``, ``joint``,
``likelihoods``) and tunes nothing (``tuning``).
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from chaffinch.protocols import joint, likelihoods, noise, tuning
    from chaffinch.protocols.base import Protocol, Variant
    from chaffinch.protocols.decoys import Decoys
    from chaffinch.protocols.encoded import Encoded
    from chaffinch.protocols.flipped_decoys import FlippedDecoys
    from chaffinch.protocols.flips import Flips
    from chaffinch.protocols.registration import register
    from chaffinch.protocols.registry import (
        PROTOCOLS,
        every_protocol,
        known_kinds,
        local_variant,
        named_variants,
        protocol_named,
        protocol_variants,
        row_name,
        variant_names,
    )
    from chaffinch.protocols.signed import Signed
    from chaffinch.protocols.totals import Totals

__all__ = [
    "PROTOCOLS",
    "Decoys",
    "Encoded",
    "FlippedDecoys",
    "Flips",
    "Protocol",
    "Signed",
    "Totals",
    "Variant",
    "every_protocol",
    "joint",
    "known_kinds",
    "likelihoods",
    "local_variant",
    "named_variants",
    "noise",
    "protocol_named",
    "protocol_variants",
    "register",
    "row_name",
    "tuning",
    "variant_names",
]

_PARTS = ("joint", "likelihoods", "noise", "tuning")
_NAMES = {
    "PROTOCOLS": "registry",
    "Decoys": "decoys",
    "Encoded": "encoded",
    "FlippedDecoys": "flipped_decoys",
    "Flips": "flips",
    "Protocol": "base",
    "Signed": "signed",
    "Totals": "totals",
    "Variant": "base",
    "every_protocol": "registry",
    "known_kinds": "registry",
    "local_variant": "registry",
    "named_variants": "registry",
    "protocol_named": "registry",
    "protocol_variants": "registry",
    "register": "registration",
    "row_name": "registry",
    "variant_names": "registry",
}


def __getattr__(name: str) -> Any:
    """Load a part of protocols on first use (PEP 562)."""
    if name in _PARTS:
        return importlib.import_module(f"chaffinch.protocols.{name}")
    if name in _NAMES:
        return getattr(importlib.import_module(f"chaffinch.protocols.{_NAMES[name]}"), name)
    raise AttributeError(f"module 'chaffinch.protocols' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
