"""Plan a collection: questions, protocols, what they cost and what they promise.

The names here are what a plan can be asked that only its planner can answer, and what can be asked
before there is one (``price``). ``plans.plan`` knows no more of this room, and a device that asks
nothing of the kind loads none of it (PEP 562).
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from chaffinch.planning.candidates import Candidate
    from chaffinch.planning.certificate import Certificate, certify
    from chaffinch.planning.choosing import choose
    from chaffinch.planning.costs.collection import cost_of
    from chaffinch.planning.costs.cost import Cost, Prices
    from chaffinch.planning.explanation import explain
    from chaffinch.planning.fewer_honest import Reached, reached
    from chaffinch.planning.plan_card import plan_html
    from chaffinch.planning.price_curve import Price, price
    from chaffinch.planning.wishes import margin_of

__all__ = [
    "Candidate",
    "Certificate",
    "Cost",
    "Price",
    "Prices",
    "Reached",
    "certify",
    "choose",
    "cost_of",
    "explain",
    "margin_of",
    "plan_html",
    "price",
    "reached",
]

_NAMES = {
    "Candidate": "candidates",
    "Certificate": "certificate",
    "Cost": "costs.cost",
    "Price": "price_curve",
    "Prices": "costs.cost",
    "Reached": "fewer_honest",
    "certify": "certificate",
    "choose": "choosing",
    "cost_of": "costs.collection",
    "explain": "explanation",
    "margin_of": "wishes",
    "plan_html": "plan_card",
    "price": "price_curve",
    "reached": "fewer_honest",
}


def __getattr__(name: str) -> Any:
    """Load a part of planning on first use (PEP 562)."""
    if name in _NAMES:
        return getattr(importlib.import_module(f"chaffinch.planning.{_NAMES[name]}"), name)
    raise AttributeError(f"module 'chaffinch.planning' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
