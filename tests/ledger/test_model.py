"""Any sequence of uses agrees with a list in memory that is composed without the ledger."""

from __future__ import annotations

import math
import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from chaffinch import privacy
from chaffinch.errors import BudgetExhausted, InvalidInput, LedgerRolledBack
from chaffinch.ledger import Charge
from tests.ledger import made
from tests.ledger.made import BIT, CAP, OTHER

NONSENSE = [math.nan, math.inf, -math.inf, -1, 0, -0.0, 0.5, 1.0, True, False, None, "1", 10**9]
keys = st.sampled_from([f"key {number}" for number in range(12)])
subjects = st.sampled_from(["", "batch 1", "batch 2"])
mechanisms = st.sampled_from([BIT, OTHER])
charges = st.builds(Charge, st.just("plan"), mechanisms, st.integers(1, 4))


@cache
def within(bits: int, others: int) -> bool:
    parts = [privacy.compose(BIT, times=bits)] if bits else []
    parts += [privacy.compose(OTHER, times=others)] if others else []
    return privacy.compose(parts).delta(CAP.epsilon).upper <= CAP.delta


class Uses(RuleBasedStateMachine):
    """A ledger beside the simplest thing that could be one."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.role = "client"
        self.ledger = made.create(self.folder)
        self.model: dict[str, tuple[Charge, str]] = {}
        self.copy: tuple[int, bytes] | None = None

    def teardown(self) -> None:
        shutil.rmtree(self.folder)

    def fits(self, charge: Charge) -> bool:
        asked = [*(charge for charge, _ in self.model.values()), charge]
        return within(
            sum(each.times for each in asked if each.mechanism == BIT),
            sum(each.times for each in asked if each.mechanism == OTHER),
        )

    @precondition(lambda self: not self.model)
    @rule(role=st.sampled_from(["client", "analyzer"]))
    def start_again(self, role: str) -> None:
        shutil.rmtree(self.folder)
        self.role = role
        self.ledger = made.create(self.folder, role=role)
        self.copy = None

    @rule(charge=charges, key=keys, subject=subjects)
    def charge(self, charge: Charge, key: str, subject: str) -> None:
        before = self.model.get(key)
        if before is not None:
            if before == (charge, subject) and (subject or self.role == "client"):
                assert self.ledger.charge(charge, key, subject=subject).replayed
            else:
                with pytest.raises(InvalidInput):
                    self.ledger.charge(charge, key, subject=subject)
        elif self.fits(charge):
            entry = self.ledger.charge(charge, key, subject=subject)
            self.model[key] = (charge, subject)
            assert (entry.sequence, entry.replayed) == (len(self.model), False)
        else:
            with pytest.raises(BudgetExhausted):
                self.ledger.charge(charge, key, subject=subject)

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def repeat(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.model)))
        self.charge(*self.model[key][:1], key, self.model[key][1])

    @rule(times=st.sampled_from(NONSENSE), key=keys)
    def charge_nonsense(self, times: Any, key: str) -> None:
        with pytest.raises(InvalidInput):
            self.ledger.charge(Charge("plan", BIT, times), key)

    @rule(key=st.sampled_from(["", "k" * 201, "\n", "\ud800", math.nan, -1, None]))
    def charge_without_a_key(self, key: Any) -> None:
        with pytest.raises(InvalidInput):
            self.ledger.charge(made.ONE, key)

    @rule(charge=charges)
    def ask(self, charge: Charge) -> None:
        assert (self.ledger.would_spend(charge).epsilon <= CAP.epsilon) == self.fits(charge)

    @rule()
    def reopen(self) -> None:
        self.ledger = made.reopen(self.folder)

    @rule()
    def keep_a_copy(self) -> None:
        self.copy = len(self.model), (self.folder / "ledger").read_bytes()

    @precondition(lambda self: self.copy is not None and self.copy[0] < len(self.model))
    @rule()
    def bring_the_copy_back(self) -> None:
        assert self.copy is not None
        newest = (self.folder / "ledger").read_bytes()
        (self.folder / "ledger").write_bytes(self.copy[1])
        with pytest.raises(LedgerRolledBack):
            made.reopen(self.folder)
        with pytest.raises(LedgerRolledBack):
            self.ledger.charge(made.ONE, "key 0")
        (self.folder / "ledger").write_bytes(newest)

    @invariant()
    def same_story(self) -> None:
        told = {entry.key: (entry.charge, entry.subject) for entry in self.ledger.entries()}
        assert list(told.items()) == list(self.model.items())
        assert self.ledger.role == self.role
        assert 0.0 <= self.ledger.spent().epsilon <= CAP.epsilon
        assert (self.ledger.remaining() == CAP.epsilon) == (not self.model)


TestUses = Uses.TestCase
TestUses.settings = settings(
    max_examples=max(8, settings().max_examples // 4), stateful_step_count=25, deadline=None
)
