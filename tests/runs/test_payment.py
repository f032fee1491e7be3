"""Who pays for a release, in which order, and what becomes of one that was interrupted."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from chaffinch.analysis import analyze
from chaffinch.analysis.analyze import charge_release
from chaffinch.disk import paid_files
from chaffinch.disk.paid_files import Bill, commit_paid_files
from chaffinch.disk.staged import StagedFiles, Writer
from chaffinch.errors import InvalidInput, StorageFault
from chaffinch.ledger import Charge, Ledger
from chaffinch.privacy import Target
from chaffinch.questions import Choice, PublicGroup
from chaffinch.runs.payment import (
    Account,
    Charged,
    Payer,
    ReleaseTerms,
    finish_release,
    hand_out_release,
    refuse_to_replace,
)
from tests.in_memory import tmp_path
from tests.release.survey_releases import release
from tests.runs.by_hand import plan_of, tally_of

__all__ = ["tmp_path"]

PLAN = plan_of()
GROUP = replace(PLAN, group=PublicGroup("shop", Choice(["a", "b"]))).of_group("b")
TALLY = tally_of(PLAN, "a" * 32)


@pytest.fixture
def account(tmp_path: Path) -> Account:
    path, mark = tmp_path / "a.ledger", tmp_path / "a.mark"
    cap = Target(6, 1e-5)
    return Account(Ledger.create(path, role="analyzer", cap=cap, mark=mark), "the ledger")


def written(text: str) -> Writer:
    return lambda path: path.write_text(text)


# ------------------------------------------------------------------ bills


def test_a_bill_says_who_pays_for_what(account: Account) -> None:
    calls: list[str] = []
    bill = account.bill("plan", "key", "subject", lambda: calls.append("paid"), "command")
    noted = {
        "payer": account.ledger.id,
        "plan": "plan",
        "key": "key",
        "subject": "subject",
        "command": "command",
        "request": "",
    }
    assert bill.noted() == noted
    asked = account.bill("plan", "key", "subject", lambda: None, "command", "request")
    assert asked.noted() == noted | {"request": "request"}
    assert calls == []
    bill.pay()
    assert calls == ["paid"]


def test_without_a_ledger_there_is_no_bill(account: Account) -> None:
    assert ReleaseTerms().bill(TALLY, PLAN, command="again") is None
    assert ReleaseTerms().payer is None
    assert ReleaseTerms(account=account).payer is account.ledger


@pytest.mark.parametrize("one_party", [False, True])
def test_the_ledger_knows_what_it_has_paid(account: Account, *, one_party: bool) -> None:
    terms = ReleaseTerms(account=account)
    bill = terms.bill(TALLY, PLAN, command="again", request="asked", one_party=one_party)
    assert bill is not None
    assert (bill.plan_id, bill.key, bill.subject) == (PLAN.id, TALLY.digest, TALLY.digest)
    assert (bill.command, bill.request) == ("again", "asked")
    assert not bill.paid()
    for _ in range(2):
        bill.pay()
        assert bill.paid()
    (entry,) = account.ledger.entries()
    assert entry.charge == (Charge.of_table(PLAN) if one_party else Charge.of(PLAN))
    assert (entry.key, entry.subject) == (TALLY.digest, TALLY.digest)


@pytest.mark.parametrize("given", [{}, {"one_party": False}, {"one_party": True}], ids=str)
def test_a_row_is_charged_in_its_group_where_one_party_holds_all(
    account: Account, given: dict[str, Any]
) -> None:
    tally = tally_of(GROUP, "a" * 32)
    spring, summer = (ReleaseTerms(account=account, key=key) for key in ("spring", "summer"))
    bill = spring.bill(tally, GROUP, command="again", **given)
    assert bill is not None
    bill.pay()
    (entry,) = account.ledger.entries()
    assert entry.charge == (Charge.of_table(GROUP) if given.get("one_party") else Charge.of(GROUP))
    again = summer.bill(tally, GROUP, command="again", **given)
    assert again is not None
    assert again.key == "spring"


def test_a_release_names_its_parties_unless_one_party_held_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[Any] = []
    trusted = replace(release(), trust="two clouds", one_party=False)

    def analyzed(*given: object, **options: object) -> object:
        asked.append((given, options))
        return trusted

    monkeypatch.setattr(analyze, "analyze", analyzed)
    terms = ReleaseTerms(level=0.5, adjustment="total")
    for made in (terms.release(TALLY, PLAN), terms.release(TALLY, PLAN, one_party=False)):
        assert (made.one_party, made.trust) == (False, "two clouds")
    alone = terms.release(TALLY, PLAN, one_party=True)
    assert (alone.one_party, alone.trust) == (True, "")
    assert asked == [((TALLY, PLAN), {"level": 0.5, "adjustment": "total"})] * 3


def test_a_release_has_the_name_that_it_is_given(account: Account) -> None:
    bill = ReleaseTerms(account=account, key="spring").bill(TALLY, PLAN, command="again")
    assert bill is not None
    bill.pay()
    (entry,) = account.ledger.entries()
    assert (entry.key, entry.subject, bill.key) == ("spring", TALLY.digest, "spring")
    assert bill.request == ""
    assert entry.charge == Charge.of(PLAN)
    # The same content is charged under its first name.
    other = ReleaseTerms(account=account, key="summer").bill(TALLY, PLAN, command="again")
    assert other is not None
    assert (other.key, other.paid()) == ("spring", True)


def test_a_charge_is_told_with_the_budget_that_is_left(account: Account) -> None:
    charge_release(account.ledger, PLAN, TALLY)
    spent = account.ledger.spent().epsilon
    assert Charged(account, "key", before=True).document() == {
        "ledger": "the ledger",
        "key": "key",
        "charged_before": True,
        "spent": spent,
        "cap": {"epsilon": 6, "delta": 1e-5},
    }
    assert 0 < spent < PLAN.epsilon, "at the larger delta of the budget"


# ------------------------------------------------------------------ handing out


def test_a_release_is_paid_for_before_it_is_in_place(account: Account, tmp_path: Path) -> None:
    target, steps = tmp_path / "release.json", list[str]()
    charged = False

    def pay() -> None:
        nonlocal charged
        steps.append(f"paid, in place: {target.exists()}")
        charged = True

    bill = Bill("payer", "plan", "key", "subject", pay, lambda: charged)
    check = partial(steps.append, "checked")
    files = {target: written("first")}
    for before in (False, True):
        made = hand_out_release(files, account, bill, check, steps.append)
        assert made == Charged(account, "key", before)
    assert steps == ["checked", "paid, in place: False", "checked", "paid, in place: True"]
    assert hand_out_release(files, None, bill, check, steps.append) is None
    assert hand_out_release(files, account, None, check, steps.append) is None


def test_whoever_waits_for_another_command_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def busy(_: Path, __: str, *, tell: Callable[[str], object]) -> Iterator[None]:
        tell("waiting")
        yield

    said: list[str] = []
    monkeypatch.setattr(paid_files, "alone_in", busy)
    hand_out_release({tmp_path / "r": written("")}, None, None, lambda: None, said.append)
    assert said == ["waiting"]


def test_what_must_not_be_replaced_is_not_paid_for(account: Account, tmp_path: Path) -> None:
    def refuse() -> None:
        raise InvalidInput("output", "another one", "this one")

    bill = Bill("payer", "plan", "key", "subject", lambda: pytest.fail("paid"), lambda: False)
    with pytest.raises(InvalidInput, match="another one"):
        hand_out_release({tmp_path / "r": written("")}, account, bill, refuse, lambda _: None)
    assert not (tmp_path / "r").exists()


# ------------------------------------------------------------------ finishing


class Known:
    """A payer who has paid what it says."""

    def __init__(self, name: str, *paid: tuple[str, str]) -> None:
        self.id = name
        self.is_charged: Callable[[str, str], bool] = lambda *bill: bill in paid


ME = Known("me", ("key", "subject"))


@pytest.fixture
def target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The place of a release that was paid for and waits, where something stands."""

    def killed(_: StagedFiles) -> None:
        raise KeyboardInterrupt

    place = tmp_path / "release.json"
    place.write_text("before")
    bill = Bill("me", "plan", "key", "subject", lambda: None, lambda: True, "again", "asked")
    with monkeypatch.context() as patch:
        patch.setattr(StagedFiles, "put_in_place", killed)
        with pytest.raises(KeyboardInterrupt):
            commit_paid_files({place: written("a release")}, bill)
    return place


def finish(
    target: Path, payer: Payer | None, request: str | None = None
) -> tuple[list[StagedFiles], list[str]]:
    said: list[str] = []
    return finish_release([target], payer, said.append, inputs=(), request=request), said


@pytest.mark.parametrize("request_", [None, "asked"])
def test_what_was_paid_for_is_put_in_place(target: Path, request_: str | None) -> None:
    (one,), said = finish(target, ME, request_)
    assert (one.key, one.subject, said) == ("key", "subject", [])
    assert target.read_text() == "a release"


@pytest.mark.parametrize("request_", [None, "asked", "something else"])
def test_what_was_not_paid_for_is_removed(target: Path, request_: str | None) -> None:
    unpaid = Known("me", ("another key", "subject"), ("key", "another subject"))
    assert finish(target, unpaid, request_) == ([], [])
    assert list(target.parent.glob(".chaffinch*.waiting")) == []
    assert target.read_text() == "before"


@pytest.mark.parametrize("payer", [None, Known("somebody else", ("key", "subject"))])
def test_what_another_payer_has_to_judge_is_left_and_told_of(
    target: Path, payer: Payer | None
) -> None:
    finished, said = finish(target, payer, "something else")
    assert (finished, len(said)) == ([], 1)
    (waiting,) = target.parent.glob(".chaffinch*.waiting")
    assert str(waiting) in said[0]


def test_what_was_paid_for_something_else_waits(target: Path) -> None:
    with pytest.raises(InvalidInput, match="paid release that is still to be finished") as refused:
        finish(target, ME, "something else")
    assert refused.value.hint.startswith("finish with: again; if its data is gone")
    assert target.read_text() == "before"
    assert len(finish(target, ME)[0]) == 1


def test_an_input_is_not_replaced(target: Path) -> None:
    with pytest.raises(InvalidInput, match="as it was"):
        finish_release([target], ME, lambda _: None, inputs=[target])
    assert target.read_text() == "before"


def test_whoever_would_pay_again_does_not_pass_what_a_stranger_left(
    target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", partial(int, os.geteuid() + 1))
    with pytest.raises(StorageFault, match="Got another's"):
        finish(target, ME, "asked")
    for payer, request in ((ME, None), (None, "asked"), (None, None)):
        finished, said = finish(target, payer, request)
        assert (finished, len(said)) == ([], 1)


def test_what_was_put_in_place_just_now_is_replaced_by_nothing_else(target: Path) -> None:
    finished, _ = finish(target, ME)
    refuse_to_replace(finished, "subject")
    refuse_to_replace([], "another")
    with pytest.raises(InvalidInput, match="a new file, or that of the same release"):
        refuse_to_replace(finished, "another")
