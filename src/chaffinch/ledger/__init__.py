"""Durable privacy budgets: who has been asked what, and whether more may be asked."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from chaffinch.ledger.charge import Charge, Entry
    from chaffinch.ledger.ledger import Ledger

__all__ = ["Charge", "Entry", "Ledger"]

_NAMES = {"Charge": "charge", "Entry": "charge", "Ledger": "ledger"}


def __getattr__(name: str) -> Any:
    """Load a part of the ledger on first use (PEP 562): a device without one loads nothing."""
    if name in _NAMES:
        return getattr(importlib.import_module(f"chaffinch.ledger.{_NAMES[name]}"), name)
    raise AttributeError(f"module 'chaffinch.ledger' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
