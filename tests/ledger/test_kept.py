"""Ledgers that were written by earlier versions are read, and still pay and refuse."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from chaffinch.errors import InvalidInput
from chaffinch.ledger import Charge, Ledger
from chaffinch.privacy import FlippedBits

KEPT = Path(__file__).parent / "kept"
ASKED = Charge("ab" * 32, FlippedBits(users=1000, flip_probability="0.1"))


def test_a_ledger_that_charged_names_of_batches(tmp_path: Path) -> None:
    """Format 1 before digests were charged: the subject is the name of a batch."""
    for name in ("format-1.ledger", "format-1.mark"):
        shutil.copy(KEPT / name, tmp_path / name)
    ledger = Ledger.open(tmp_path / "format-1.ledger", mark=tmp_path / "format-1.mark")
    assert [(one.key, one.subject) for one in ledger.entries()] == [
        ("cd" * 16, "cd" * 16),
        ("november", "ef" * 16),
    ]
    assert all(one.charge == ASKED for one in ledger.entries())
    before = ledger.spent().epsilon
    with pytest.raises(InvalidInput):  # its old keys do not pay for a digest
        ledger.charge(ASKED, "november", subject="01" * 32)
    assert ledger.charge(ASKED, "01" * 32, subject="01" * 32).sequence == 3
    assert ledger.spent().epsilon > before
    assert ledger.charge(ASKED, "01" * 32, subject="01" * 32).replayed
