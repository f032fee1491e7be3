"""A ledger charges the digest of a batch: its name, its facts and what was counted."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import chaffinch as cf
from chaffinch.analysis.tally import tally
from chaffinch.engines import engine
from chaffinch.errors import BudgetExhausted, InvalidInput
from chaffinch.plans.parts import Part
from chaffinch.plans.plan import Plan
from chaffinch.protocols import Decoys, Flips
from chaffinch.wire.message_writer import MessageWriter
from chaffinch.wire.messages import Tally

PLAN = Plan(
    "", (Part("q", cf.Bit(), Flips(Fraction(1, 16))),), 500, 500, 500, 1, epsilon=1.0, delta=1e-6
)


@pytest.fixture
def ledger(tmp_path: Path) -> cf.Ledger:
    cap = cf.Target(1.0, 1e-6)
    return cf.Ledger.create(tmp_path / "l.db", role="analyzer", cap=cap, mark=tmp_path / "m")


def batch() -> object:
    return cf.shuffle(cf.encode_many([True] * 250 + [False] * 250, PLAN))


def test_two_batches_with_equal_counts_are_two_charges(ledger: cf.Ledger) -> None:
    """Ten thousand collections would meet again by chance; here they meet on purpose."""
    first = tally(batch())  # type: ignore[arg-type]
    second = Tally(first.plan_id, first.reports, first.counts, "ab" * 16)
    assert cf.analyze(first, PLAN, ledger=ledger).batch == first.name
    cf.analyze(first, PLAN, ledger=ledger)  # the same one again is free
    before = ledger.spent().epsilon
    try:
        cf.analyze(second, PLAN, ledger=ledger)
    except BudgetExhausted:
        return
    assert ledger.spent().epsilon > before


def test_a_key_belongs_to_one_batch(ledger: cf.Ledger) -> None:
    one, two = tally(batch()), tally(batch())  # type: ignore[arg-type]
    cf.analyze(one, PLAN, ledger=ledger, key="november")
    with pytest.raises(InvalidInput):
        cf.analyze(two, PLAN, ledger=ledger, key="november")


def test_other_messages_under_the_same_name_are_not_free(ledger: cf.Ledger) -> None:
    first = tally(batch())  # type: ignore[arg-type]
    cf.analyze(first, PLAN, ledger=ledger)
    assert [(one.key, one.subject) for one in ledger.entries()] == [(first.digest, first.digest)]
    before = ledger.spent().epsilon
    for changed in (
        replace(first, counts=first.counts + 1),
        replace(first, reports=first.reports + 1),
        replace(first, name="ab" * 16),
    ):
        with suppress(BudgetExhausted):
            cf.analyze(changed, PLAN, ledger=ledger)
            assert ledger.spent().epsilon > before
        with pytest.raises((InvalidInput, BudgetExhausted)):
            cf.analyze(changed, PLAN, ledger=ledger, key=first.digest)


def test_rewritten_files_are_charged_again(tmp_path: Path, ledger: cf.Ledger) -> None:
    """The attack: a shuffled file with other messages under the name that was paid for."""
    local = engine()
    local.encode(["yes"] * 500, PLAN, tmp_path / "e")
    facts = local.shuffle([tmp_path / "e"], PLAN, tmp_path / "s.parquet")
    cf.analyze(local.tally([tmp_path / "s.parquet"], PLAN), PLAN, ledger=ledger)
    known = {name: value for name, value in vars(facts).items() if name != "reports"}
    with MessageWriter(tmp_path / "s.arrow", **known) as writer:
        writer.write(np.zeros(200, np.uint32), 500)
    changed = local.tally([tmp_path / "s.arrow"], PLAN)
    assert changed.name == facts.name
    before = ledger.spent().epsilon
    try:
        cf.analyze(changed, PLAN, ledger=ledger)
    except BudgetExhausted:
        return
    assert ledger.spent().epsilon > before


def test_the_same_content_is_free_whatever_it_was_called(ledger: cf.Ledger) -> None:
    first = tally(batch())  # type: ignore[arg-type]
    cf.analyze(first, PLAN, ledger=ledger, key="november")
    cf.analyze(first, PLAN, ledger=ledger)
    cf.analyze(first, PLAN, ledger=ledger, key="november", level=0.5)
    assert [one.key for one in ledger.entries()] == ["november"]


def test_what_was_not_shuffled_cannot_be_charged(ledger: cf.Ledger) -> None:
    made_up = Tally(PLAN.id, 500, np.array([300]))
    with pytest.raises(InvalidInput, match="shuffled"):
        cf.analyze(made_up, PLAN, ledger=ledger)
    assert not ledger.entries()


def test_a_device_answers_once_per_key(tmp_path: Path) -> None:
    cap = cf.Target(1.0, 1e-6)
    mine = cf.Ledger.create(tmp_path / "c.db", role="client", cap=cap, mark=tmp_path / "m")
    cf.encode("yes", PLAN, ledger=mine, key="week 1")
    with pytest.raises(InvalidInput):
        cf.encode("no", PLAN, ledger=mine, key="week 1")
    assert len(mine.entries()) == 1


def test_decoys_do_not_stand_after_answers() -> None:
    """Where a message stands before the shuffle must not say whether it is a decoy."""
    question = cf.Choice(["a", "b", "c"], missing="refuse")
    part = Part("q", question, Decoys(1, Fraction(1, 2)))
    plan = Plan("", (part,), 1000, 1000, 1000, 1, epsilon=2.0, delta=1e-6)
    sent = cf.encode_many(["c"] * 1000, plan).messages
    assert (np.diff(sent.astype(int)) >= 0).all()
