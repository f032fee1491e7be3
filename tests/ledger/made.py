"""Ledgers to test with, and a mechanism so cheap that composing it takes no time."""

from __future__ import annotations

from pathlib import Path

from chaffinch import privacy
from chaffinch.ledger import Charge, Ledger

BIT = privacy.FlippedBits(users=20, flip_probability="0.3")
OTHER = privacy.FlippedBits(users=30, flip_probability="0.4")
ONE = Charge("plan", BIT)
CAP = privacy.Target(3.2, 1e-6)
GRANTS = 10
"""How many of ONE fit into CAP (see ``test_grants``)."""


def create(
    folder: Path, *, role: str = "client", cap: privacy.Target = CAP, kind: type[Ledger] = Ledger
) -> Ledger:
    folder.mkdir(exist_ok=True)
    return kind.create(folder / "ledger", role=role, cap=cap, mark=folder / "mark")


def reopen(folder: Path, kind: type[Ledger] = Ledger) -> Ledger:
    return kind.open(folder / "ledger", mark=folder / "mark")


def keys(ledger: Ledger) -> list[str]:
    return [entry.key for entry in ledger.entries()]
