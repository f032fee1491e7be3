"""Whether another release of the same data is permitted, and what is recorded of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from chaffinch.charts.rounding import promise_text
from chaffinch.disk.paid_files import Bill
from chaffinch.errors import (
    BudgetExhausted,
    DataRepeated,
    InvalidInput,
    Reason,
    StorageFault,
)
from chaffinch.ledger import Charge
from chaffinch.ledger.release_record import ReleaseRecord, RunRelease, promise_together
from chaffinch.plans.plan import Plan
from chaffinch.questions import Choice, PublicGroup
from chaffinch.release.surveys import Together
from chaffinch.runs.repeats import Permit, RepeatRules, is_released
from tests.release.survey_releases import release
from tests.runs.by_hand import data_of, plan_of, tally_of

PLAN = plan_of()
ROUNDS = plan_of(rounds=2)
WEAK = plan_of(Fraction(1, 512))
"""Twice this one protects nobody."""
ONCE, AGAIN, PAID = RepeatRules(), RepeatRules(again=True), RepeatRules(paid=True)
BATCH = "b" * 32


@pytest.fixture
def record(tmp_path: Path) -> ReleaseRecord:
    return ReleaseRecord(tmp_path / "runs.record")


def put(
    record: ReleaseRecord,
    number: int,
    *names: str,
    plan: Plan = PLAN,
    round_: int = 1,
    batch: str = "",
) -> RunRelease:
    """Record a release of data of these names, and of a batch if it has one."""
    made = replace(RunRelease.of(plan, round_, "row"), subject=f"{number:064x}")
    batches = [record.name_of("batch", batch.encode())] if batch else []
    record.add(made, [*data_of(record, *names).names, *batches], None)
    return made


def shown(*made: RunRelease) -> str:
    found = promise_together(made)
    return f"({promise_text(found.epsilon, 3)}, {promise_text(found.delta, 2)})"


def test_groups_of_a_table_share_a_plan_and_groups_of_reports_do_not() -> None:
    whole = replace(ROUNDS, group=PublicGroup("shop", Choice(["a", "b", "c"])))
    for number, shop in enumerate("abc"):
        plan = whole.of_group(shop)
        for unit in ("row", "person"):
            made = RunRelease.of(plan, 2, unit)
            assert (made.charge, made.round) == (Charge.of(whole), 2 + 2 * number)
        made = RunRelease.of(plan, 2, "report")
        assert (made.charge, made.round) == (Charge.of(plan), 2)


# ------------------------------------------------------------------ before there is a plan


def test_a_repeat_is_refused_before_it_is_planned(record: ReleaseRecord) -> None:
    data = data_of(record, "a")
    ONCE.check_before_planning(data, None)
    made = put(record, 1, "a")
    with pytest.raises(DataRepeated, match=r"Got data with 1 release so far\.") as refused:
        ONCE.check_before_planning(data, None)
    said = f"with one more like the last they would promise {shown(made, made)} together"
    assert said in refused.value.hint
    for rules in (AGAIN, PAID):
        rules.check_before_planning(data, None)
    ONCE.check_before_planning(data_of(record, "b"), None)


def test_a_round_of_several_may_still_be_planned_for(record: ReleaseRecord) -> None:
    put(record, 1, "a", plan=ROUNDS)
    ONCE.check_before_planning(data_of(record, "a"), None)
    put(record, 2, "a")
    with pytest.raises(DataRepeated, match="Got data with 2 releases so far"):
        ONCE.check_before_planning(data_of(record, "a"), None)


def test_a_release_in_the_folder_counts_before_planning(record: ReleaseRecord) -> None:
    put(record, 1, "a", batch=BATCH)
    ONCE.check_before_planning(data_of(record, "b"), None)
    for names in ((), ("b",)):
        with pytest.raises(DataRepeated, match="Got other data for a folder with 1 release"):
            ONCE.check_before_planning(data_of(record, *names), BATCH)


# ------------------------------------------------------------------ with a plan


def test_a_repeat_is_refused_unless_it_is_wanted_or_paid_for(record: ReleaseRecord) -> None:
    data = data_of(record, "a")
    assert ONCE.permit(data, PLAN, None, "row", None).before == ()
    made = put(record, 1, "a")
    other = replace(plan_of(Fraction(1, 4)), delta=1.234e-6)
    with pytest.raises(DataRepeated, match="Got data with 1 release so far") as refused:
        ONCE.permit(data, other, None, "row", None)
    new = RunRelease.of(other, None, "row")
    assert shown(made, new) != shown(made, made)
    assert f"with this one they would promise {shown(made, new)} together" in refused.value.hint
    for rules in (AGAIN, PAID):
        permit = rules.permit(data, other, None, "row", None)
        assert (permit.rules, permit.data, permit.plan) == (rules, data, other)
        assert (permit.before, permit.new) == ((made,), new)


def test_rounds_of_a_plan_are_permitted_once_each(record: ReleaseRecord) -> None:
    data = data_of(record, "a")
    put(record, 1, "a", plan=ROUNDS)
    with pytest.raises(DataRepeated):
        ONCE.permit(data, ROUNDS, 1, "row", None)
    assert ONCE.permit(data, ROUNDS, 2, "row", None).new.round == 2


def test_all_rounds_of_a_plan_protect_the_same(record: ReleaseRecord) -> None:
    put(record, 1, "a", plan=ROUNDS)
    put(record, 2, "a")
    for rules in (AGAIN, PAID):
        with pytest.raises(InvalidInput, match="unit of protection must be the same in all round"):
            rules.permit(data_of(record, "b"), ROUNDS, 2, "person", None)
        rules.permit(data_of(record, "b"), ROUNDS, 2, "row", None)
    ONCE.permit(data_of(record, "b"), PLAN, None, "person", None)


def test_a_folder_that_nobody_remembers_is_added_to_by_a_budget_alone(
    record: ReleaseRecord,
) -> None:
    data = data_of(record, "a")
    for rules in (ONCE, AGAIN, RepeatRules(again=True, anyway=True, paid=True)):
        with pytest.raises(DataRepeated, match="a release that the record of runs does not know"):
            rules.permit(data, PLAN, None, "row", BATCH)
    assert PAID.permit(data, PLAN, None, "row", BATCH).before == ()
    made = put(record, 1, batch=BATCH)
    with pytest.raises(DataRepeated, match="Got other data for a folder with 1 release"):
        ONCE.permit(data, PLAN, None, "row", BATCH)
    assert AGAIN.permit(data, PLAN, None, "row", BATCH).before == (made,)


def test_what_protects_nobody_is_made_only_anyway_or_for_a_budget(record: ReleaseRecord) -> None:
    data = data_of(record, "a")
    assert AGAIN.permit(data, WEAK, None, "row", None).before == ()
    made = put(record, 1, "a", plan=WEAK)
    new = RunRelease.of(WEAK, None, "row")
    with pytest.raises(DataRepeated) as refused:
        AGAIN.permit(data, WEAK, None, "row", None)
    said = str(refused.value)
    assert f"Got 1 release so far, and with this one a promise of {shown(made, new)}: with" in said
    assert "this protects nobody.\n" in said or "this protects nobody. " in said
    assert "nobody.." not in said
    for rules in (
        RepeatRules(again=True, anyway=True),
        RepeatRules(again=True, paid=True),
        PAID,
    ):
        assert rules.permit(data, WEAK, None, "row", None).before == (made,)
    # Wanted anyway is not wanted again.
    with pytest.raises(DataRepeated, match="Got data with 1 release so far"):
        RepeatRules(anyway=True).permit(data, WEAK, None, "row", None)


# ------------------------------------------------------------------ what is said


def test_a_release_says_what_all_promise_together(record: ReleaseRecord) -> None:
    data, alone = data_of(record, "a"), release()
    assert AGAIN.permit(data, PLAN, None, "row", None).say_together(alone) is alone
    made = put(record, 1, "a")
    for unit in ("row", "person"):
        permit = AGAIN.permit(data, PLAN, None, unit, None)
        promise = promise_together([made, permit.new])
        together = permit.say_together(alone).together
        assert together == Together(2, promise, "row", (made.subject,))
    assert PAID.permit(data, PLAN, None, "row", None).say_together(alone) is alone


def test_together_people_are_protected_where_every_release_protects_them(
    record: ReleaseRecord,
) -> None:
    made = replace(RunRelease.of(PLAN, 1, "person"), subject="0" * 64)
    record.add(made, data_of(record, "a").names, None)
    permit = AGAIN.permit(data_of(record, "a"), PLAN, None, "person", None)
    together = permit.say_together(release()).together
    promise = promise_together([made, permit.new])
    assert together == Together(2, promise, "person", (made.subject,))


# ------------------------------------------------------------------ the bill


def bill_of(permit: Permit, paid: Bill | None = None, standing: str | None = None) -> Bill:
    tally = tally_of(permit.plan, "c" * 32)
    return permit.bill(tally, standing, paid, command="again", request="asked")


def names_of(record: ReleaseRecord, *batches: str) -> list[str]:
    return [record.name_of("batch", batch.encode()) for batch in batches]


def test_what_nobody_pays_for_is_recorded(record: ReleaseRecord) -> None:
    data = data_of(record, "file", "rows")
    put(record, 1, batch=BATCH)
    permit = AGAIN.permit(data, PLAN, None, "row", BATCH)
    bill, digest = bill_of(permit, standing=BATCH), tally_of(PLAN, "c" * 32).digest
    assert bill.noted() == {
        "payer": record.id,
        "plan": PLAN.id,
        "key": digest,
        "subject": digest,
        "command": "again",
        "request": "asked",
    }
    assert not bill.paid()
    bill.pay()
    assert bill.paid()
    made = replace(permit.new, subject=digest)
    assert record.of_all_names([*data.names, *names_of(record, BATCH, "c" * 32)]) == (made,)


def test_another_run_may_be_quicker(record: ReleaseRecord) -> None:
    bill = bill_of(ONCE.permit(data_of(record, "a"), PLAN, None, "row", None))
    put(record, 1, "a")
    with pytest.raises(DataRepeated, match="another run has made a release just now"):
        bill.pay()
    assert not bill.paid()


def paid_bill(pay: Callable[[], object]) -> Bill:
    return Bill("ledger", PLAN.id, "key", "subject", pay, lambda: False, "pay", "wanted")


def test_what_a_budget_pays_for_is_recorded_first(record: ReleaseRecord) -> None:
    data, steps = data_of(record, "a"), list[int]()
    paid = paid_bill(lambda: steps.append(len(record.of_same_data(data.names))))
    bill = bill_of(PAID.permit(data, PLAN, None, "row", None), paid)
    assert (bill.noted(), bill.paid) == (paid.noted(), paid.paid)
    assert record.of_same_data(data.names) == ()
    bill.pay()
    assert steps == [1]
    assert record.of_same_data(names_of(record, "c" * 32)) == record.of_same_data(data.names)


def test_a_budget_minds_other_runs_only_where_the_release_tells_of_them(
    record: ReleaseRecord,
) -> None:
    data = data_of(record, "a")
    told = RepeatRules(again=True, paid=True).permit(data, PLAN, None, "row", None)
    untold = PAID.permit(data, PLAN, None, "row", None)
    put(record, 1, "a")
    with pytest.raises(DataRepeated, match="another run has made a release just now"):
        bill_of(told, paid_bill(lambda: pytest.fail("paid"))).pay()
    bill_of(untold, paid_bill(lambda: None)).pay()
    assert len(record.of_same_data(data.names)) == 2


@pytest.mark.parametrize(
    ("error", "kept"),
    [
        (BudgetExhausted(cap=1, delta=0, asked=2, spent=1, remaining=0), 0),
        (StorageFault("full", reason=Reason.NO_SPACE), 0),
        (StorageFault("lost", reason=Reason.UNCERTAIN), 1),
        (StorageFault("busy", reason=Reason.BUSY), 1),
        (KeyboardInterrupt(), 1),
    ],
    ids=["spent", "full", "uncertain", "busy", "stopped"],
)
def test_what_was_surely_not_paid_for_is_not_recorded(
    record: ReleaseRecord, error: BaseException, kept: int
) -> None:
    def pay() -> None:
        raise error

    data = data_of(record, "a")
    bill = bill_of(PAID.permit(data, PLAN, None, "row", None), paid_bill(pay))
    with pytest.raises(type(error)):
        bill.pay()
    assert len(record.of_same_data(data.names)) == kept


# ------------------------------------------------------------------ what is in the folder


def test_a_release_in_the_folder_is_known_by_rows_plan_round_and_unit(
    record: ReleaseRecord,
) -> None:
    put(record, 1, "file", "answers", "rows", plan=ROUNDS, round_=1, batch=BATCH)
    put(record, 2, "file", "answers", "rows", plan=ROUNDS, round_=2, batch=BATCH)
    data = data_of(record, "another file", "other answers", "rows")
    for number in (1, 2):
        assert is_released(data, ROUNDS, number, "row", BATCH)
    assert not is_released(data, ROUNDS, 1, "row", None)
    assert not is_released(data, ROUNDS, 1, "row", "d" * 32)
    assert not is_released(data, ROUNDS, 1, "person", BATCH)
    assert not is_released(data, ROUNDS, 3, "row", BATCH)
    assert not is_released(data, PLAN, 1, "row", BATCH)
    other = data_of(record, "file", "answers", "other rows")
    assert not is_released(other, ROUNDS, 1, "row", BATCH)


def test_what_only_a_ledger_permits_tells_of_earlier_releases(record: ReleaseRecord) -> None:
    data = data_of(record, "a")

    def note(rules: RepeatRules, plan: Plan = PLAN, round_: int = 1) -> str:
        return rules.permit(data, plan, round_ if plan.rounds > 1 else None, "row", None).note

    assert note(PAID) == note(AGAIN) == ""
    put(record, 1, "a")
    assert "the record knows 1 release of this data" in note(PAID)
    assert note(AGAIN) == "", "the release says it itself"
    put(record, 2, "a")
    assert "2 releases" in note(PAID)


def test_rounds_that_one_plan_covers_need_no_note(record: ReleaseRecord) -> None:
    put(record, 1, "a", plan=ROUNDS, round_=1)
    assert PAID.permit(data_of(record, "a"), ROUNDS, 2, "row", None).note == ""
