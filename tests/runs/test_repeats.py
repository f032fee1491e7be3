"""The same data again: known by their rows and answers, and told what all releases promise."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest

import chaffinch as cf
from chaffinch.charts.rounding import promise_text
from chaffinch.disk.files import state_folder
from chaffinch.errors import BudgetExhausted, DataRepeated
from chaffinch.ledger import Ledger
from chaffinch.ledger.charge import Charge, total
from chaffinch.ledger.release_record import ReleaseRecord, RunRelease
from chaffinch.release.surveys import Together
from chaffinch.runs import pipeline
from chaffinch.runs.known_data import KnownData
from tests.runs.conftest import USERS
from tests.tiers import nightly

Columns = dict[str, list[object]]


def together(release: cf.Release) -> Together:
    assert release.together is not None
    return release.together


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    path, mark = tmp_path / "a.ledger", tmp_path / "a.mark"
    return Ledger.create(path, role="analyzer", cap=cf.Target(6, 1e-5), mark=mark)


def test_the_same_rows_are_known_in_another_file_and_order(folder: Path, plan: cf.Plan) -> None:
    cf.run(plan, folder / "people.csv")
    head, *rows = (folder / "people.csv").read_text().splitlines()
    random.Random(1).shuffle(rows)
    (folder / "shuffled.csv").write_text("\n".join([head, *rows]) + "\n")
    pq.write_table(pc.read_csv(folder / "shuffled.csv"), folder / "people.parquet")
    for name in ("people.csv", "shuffled.csv", "people.parquet"):
        with pytest.raises(DataRepeated):
            cf.run(plan, folder / name)
    swap = {"yes": "no", "no": "yes"}  # one person has another answer
    first = ",".join(swap.get(cell, cell) for cell in rows[0].split(","))
    (folder / "other.csv").write_text("\n".join([head, first, *rows[1:]]) + "\n")
    assert cf.run(plan, folder / "other.csv").together is None


def test_the_same_answers_are_known_however_they_are_written(folder: Path, plan: cf.Plan) -> None:
    """Without a change of any answer, nothing of a table makes it other data."""
    cf.run(plan, folder / "people.csv")
    text = (folder / "people.csv").read_text()
    pq.write_table(pc.read_csv(folder / "people.csv"), folder / "people.parquet")
    (folder / "renamed.csv").write_text(text.replace("tea", "drinks tea"))
    (folder / "spaced.csv").write_text(text.replace("yes,", "yes ,").replace("no,", " NO,"))
    (folder / "truth.csv").write_text(text.replace("yes,", "1,").replace("no,", "0,"))
    other_ways: list[tuple[str, dict[str, Any]]] = [
        ("people.parquet", {"person": "cups"}),
        ("renamed.csv", {"columns": {"tea": "drinks tea"}}),
        ("spaced.csv", {}),
        ("truth.csv", {}),
    ]
    for name, options in other_ways:
        with pytest.raises(DataRepeated, match="Got data with 1 release so far"):
            cf.run(plan, folder / name, **options)


def test_releases_that_protect_nobody_together_are_refused_before_they_are_made(
    table: Columns, monkeypatch: pytest.MonkeyPatch
) -> None:
    survey = cf.Survey({"tea": cf.Bit()})
    weak = cf.plan(survey, users=USERS, target=cf.Target(4, 1e-6), max_messages=1)
    assert cf.run(weak, table, again=True).together is None
    with monkeypatch.context() as patch:
        patch.setattr(pipeline, "tally_table", lambda *_: pytest.fail("encoded"))
        with pytest.raises(DataRepeated, match="protects nobody") as refused:
            cf.run(weak, table, again=True)
    said = str(refused.value)
    assert re.search(r"1 release so far, and with this one a promise of \([5-8]", said)
    assert "add --anyway (anyway=True)" in said
    both = together(cf.run(weak, table, again=True, anyway=True))
    assert (both.releases, both.unit) == (2, "row")
    assert 4.6 < both.guarantee.epsilon <= 8


@pytest.mark.long
@pytest.mark.parametrize(
    "survey",
    [
        cf.Survey({"tea": cf.Bit()}),
        nightly(cf.Survey({"tea": cf.Bit(), "old": cf.Bit()}, cross=["tea", "old"])),
    ],
    ids=["bit", "cross"],
)
def test_any_number_of_releases_promises_something_together(survey: cf.Survey) -> None:
    """Reports of signed decoys may be cut: composed, some of them prove nothing any more."""
    plan = cf.plan(survey, users=500, target=cf.Target(2, 1e-8))
    table = {"tea": ["yes", "no"] * 250, "old": ["no", "yes"] * 250}
    told = [2.0 if one is None else one.guarantee.epsilon for one in (
        cf.run(plan, table, again=True, anyway=True).together for _ in range(5)
    )]  # fmt: skip
    most = [2.0 * times for times in range(1, 6)]
    assert all(last < new for last, new in pairwise(told)), told
    assert all(epsilon <= added for epsilon, added in zip(told, most, strict=True)), told
    assert told[-1] == most[-1], "the sum of all, where composing proves nothing"


def test_a_refusal_tells_what_all_releases_would_promise(plan: cf.Plan, table: Columns) -> None:
    cf.run(plan, table)
    with pytest.raises(DataRepeated) as refused:
        cf.run(plan, table)
    found = re.search(
        r"one more like the last they would promise \(([0-9.]+), 2e-06\)", str(refused.value)
    )
    assert found is not None, refused.value
    both = together(cf.run(plan, table, again=True))
    assert float(found[1]) == pytest.approx(both.guarantee.epsilon, rel=0.01)


@pytest.fixture
def two_rounds() -> cf.Plan:
    survey = cf.Survey({"tea": cf.Bit()})
    return cf.plan(survey, users=USERS, target=cf.Target(1, 1e-6), rounds=2, max_messages=1)


def test_a_repeated_round_is_not_forgotten_by_the_next_one(
    table: Columns, two_rounds: cf.Plan
) -> None:
    cf.run(two_rounds, table, round=1)
    second, third = (cf.run(two_rounds, table, round=1, again=True) for _ in range(2))
    assert together(second).releases == 2
    with pytest.raises(DataRepeated, match="Got data with 3 releases so far") as refused:
        cf.run(two_rounds, table, round=2)
    assert "with this one they would promise (" in refused.value.hint
    fourth = cf.run(two_rounds, table, round=2, again=True)
    assert (fourth.round, together(fourth).releases) == (2, 4)
    # Four rounds of a plan of two, at the delta of two promises.
    four = total([Charge.of(two_rounds)] * 4)
    promise = together(fourth).guarantee
    assert promise.delta == 2e-6
    assert promise.epsilon == four.epsilon(2e-6).upper > 1
    # The third release had told the same: round 2, which was to come, is promised as well.
    assert together(third).guarantee == promise


def test_rounds_of_one_plan_are_covered_once(table: Columns, two_rounds: cf.Plan) -> None:
    assert two_rounds.rounds == 2
    assert cf.run(two_rounds, table, round=1).together is None
    assert cf.run(two_rounds, table, round=2).together is None
    with pytest.raises(DataRepeated):
        cf.run(two_rounds, table, round=2)
    once_more = together(cf.run(two_rounds, table, round=2, again=True))
    assert once_more.releases == 3
    assert once_more.guarantee.epsilon > 1


@pytest.mark.parametrize("order", [(1, 1, 1, 2), (2, 1, 1, 1), nightly((1, 2, 1, 1))])
def test_a_budget_pays_for_as_many_rounds_as_a_plan_has_whichever_they_are(
    tmp_path: Path, table: Columns, two_rounds: cf.Plan, order: tuple[int, ...]
) -> None:
    path, mark = tmp_path / "two.ledger", tmp_path / "two.mark"
    budget = Ledger.create(path, role="analyzer", cap=cf.Target(1, 1e-6), mark=mark)
    for number in order[:2]:
        cf.run(two_rounds, table, ledger=budget, round=number)
    for number in order[2:]:
        with pytest.raises(BudgetExhausted):
            cf.run(two_rounds, table, ledger=budget, round=number)
    assert budget.spent().epsilon <= two_rounds.epsilon


def test_what_a_paid_release_says_of_earlier_ones_is_true_when_it_is_recorded(
    plan: cf.Plan, table: Columns, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    cf.run(plan, table, ledger=ledger)
    real, raced = ReleaseRecord.add, RunRelease.of(plan, 1, "row")

    def add(record: ReleaseRecord, new: RunRelease, names: Sequence[str], known: Any) -> None:
        real(record, replace(raced, subject="0" * 64), names, None)  # another run is quicker
        real(record, new, names, known)

    with monkeypatch.context() as patch:
        patch.setattr(ReleaseRecord, "add", add)
        with pytest.raises(DataRepeated, match="another run has made a release just now"):
            cf.run(plan, table, ledger=ledger, again=True)
    assert len(ledger.entries()) == 1, "nothing was charged"
    assert together(cf.run(plan, table, ledger=ledger, again=True)).releases == 3


def test_a_ledger_decides_how_often_and_says_nothing_of_other_releases(
    plan: cf.Plan, table: Columns, ledger: Ledger
) -> None:
    assert cf.run(plan, table).together is None
    for _ in range(2):
        assert cf.run(plan, table, ledger=ledger).together is None
    assert together(cf.run(plan, table, ledger=ledger, again=True)).releases == 4


def test_releases_to_rows_and_to_people_promise_rows_together(
    plan: cf.Plan, table: Columns
) -> None:
    cf.run(plan, table)
    mixed = cf.run(plan, table, rows_are_people=True, again=True)
    assert (mixed.unit, together(mixed).unit, mixed.promised_unit) == ("person", "row", "row")


def test_a_release_in_the_folder_that_nobody_remembers_is_not_added_to(
    folder: Path, plan: cf.Plan, table: Columns, ledger: Ledger
) -> None:
    cf.run(plan, table, folder / "out")
    (state_folder() / "releases.record").unlink()
    for payer in (None, ledger):
        with pytest.raises(DataRepeated, match="does not know"):
            cf.run(plan, table, folder / "out", payer, again=True)
    paid = cf.run(plan, table, folder / "out", ledger, replace=True)
    assert paid.together is None, "the budget decides"


def test_a_file_that_is_called_like_the_pipe_is_not_taken_for_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    (folder / "-").write_text("tea\nyes\n")
    assert KnownData.of("-").names == ()
    assert len(KnownData.of(folder / "-").names) == 1


def test_a_trend_counts_releases_of_the_same_data_once(plan: cf.Plan, table: Columns) -> None:
    """What the last one promises together with the others is what all of them promise."""
    first, second, third = (cf.run(plan, table, again=True, anyway=True) for _ in range(3))
    assert together(second).earlier == (first.digest,)
    assert together(third).earlier == (first.digest, second.digest)
    promised = together(third).guarantee
    for found in ([first, third], [second, third], [first, second, third]):
        for plans in ([], [plan]):
            assert cf.trend(found, plans=plans).guarantee == promised
    said = " ".join(str(cf.trend([second, third])).split())
    assert f"at worst ({promise_text(promised.epsilon, 6)}, " in said
    # A file of before does not say which releases it adds to, so each of them counts.
    before = [replace(one, digest="") for one in (second, third)]
    added = together(second).guarantee.epsilon + promised.epsilon
    assert cf.trend(before, plans=[plan]).guarantee.epsilon == pytest.approx(added)
    # So do releases of other data.
    other = cf.run(plan, {**table, "tea": ["no", *table["tea"][1:]]}, again=True)
    assert other.together is None
    both = cf.trend([other, third], plans=[plan]).guarantee
    assert both.epsilon == pytest.approx(plan.epsilon + promised.epsilon)
