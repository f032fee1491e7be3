"""Durable privacy budgets: who has been asked what, and whether more may be asked."""

from chaffinch.ledger.charge import Charge, Entry
from chaffinch.ledger.ledger import Ledger

__all__ = ["Charge", "Entry", "Ledger"]
