"""Runs of a table: one party adds up, unless the plan of devices is asked for."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import chaffinch as cf
from chaffinch.analysis.tally import check_tally
from chaffinch.engines.local import Local
from chaffinch.errors import BatchTooSmall, InvalidInput, InvalidTable
from chaffinch.plans.plan import Plan
from chaffinch.release.survey_statement import release_statement
from tests.runs.conftest import SURVEY, USERS

Columns = dict[str, list[object]]
Command = Callable[..., tuple[int, str]]
TRUSTED = (
    "Trusted was whoever ran this: they hold the table and know the exact numbers, and added noise "
    "to the totals, once; the promise holds against everybody else, who sees only what is released."
)


@pytest.fixture(scope="module")
def totals() -> Plan:
    survey = cf.Survey({"tea": cf.Bit(missing="refuse")})
    return cf.plan(survey, users=USERS, target=cf.Target(2, 1e-6), view="totals")


def test_a_survey_is_added_up_by_one_party(folder: Path, table: Columns) -> None:
    release = cf.run(folder / "survey.toml", table, folder / "out", rows_are_people=True)
    assert release.guarantee.view == "totals"
    assert release.guarantee.local_epsilon == math.inf
    (row,) = release.table()
    # Discrete Laplace noise of scale 1/2: that of a trusted centre.
    assert row.standard_error == pytest.approx(0.6018, rel=2e-3)
    assert abs(row.estimate - (USERS // 2 + 1)) < 30
    said = release_statement(release)
    assert said.trust == TRUSTED
    assert ("View", "the released numbers alone (totals)") in said.terms
    assert "to the totals on purpose" in said.reading[0]
    again = cf.load_release(folder / "out" / "release.json")
    assert (again, again.of_totals) == (release, True)
    assert TRUSTED[:30] in (folder / "out" / "release.html").read_text()


def test_devices_are_asked_for(folder: Path, table: Columns) -> None:
    release = cf.run(folder / "survey.toml", table, rows_are_people=True, as_devices=True)
    assert release.guarantee.view == "messages"
    assert not release.of_totals
    assert "as on devices, but by whoever ran this: they hold" in release_statement(release).trust


def test_the_command_does_the_same(folder: Path, command: Command) -> None:
    words = ["run", folder / "survey.toml", "--data", folder / "people.csv"]
    code, printed = command(*words, "--out", folder / "one")
    assert (code, "view: totals" in printed.replace("\n ", "")) == (0, True)
    code, printed = command(*words, "--out", folder / "two", "--again", "--as-devices")
    assert (code, "view: messages" in printed.replace("\n ", "")) == (0, True)
    # What both promise together says both views.
    made = cf.load_release(folder / "two" / "release.json")
    assert made.together is not None
    assert made.together.guarantee.view == "messages and totals"


def test_a_plan_is_run_as_what_it_is(folder: Path, table: Columns, totals: Plan) -> None:
    by_plan = cf.run(folder / "tea.plan.json", table)
    assert by_plan.guarantee.view == "messages"
    totals.save(folder / "totals.plan.json")
    for survey, plan in (("totals.plan.json", None), ("survey.toml", "totals.plan.json")):
        given = None if plan is None else folder / plan
        with pytest.raises(InvalidInput, match="must be one for devices") as refused:
            cf.run(folder / survey, table, plan=given, as_devices=True)
        assert "without --as-devices" in refused.value.hint
        released = cf.run(folder / survey, table, plan=given, again=True, anyway=True)
        assert released.guarantee.view == "totals"
    devices = cf.run(
        folder / "survey.toml", table, plan=folder / "tea.plan.json", again=True, anyway=True
    )
    assert devices.guarantee.view == "messages"


def test_a_kept_plan_of_another_view_is_not_used(folder: Path, table: Columns) -> None:
    survey, out = folder / "survey.toml", folder / "out"
    cf.run(survey, table, out)
    with pytest.raises(InvalidInput, match="results of another plan"):
        cf.run(survey, table, out, again=True, as_devices=True)
    replaced = cf.run(survey, table, out, again=True, as_devices=True, replace=True)
    assert replaced.guarantee.view == "messages"


def test_wishes_about_devices_are_told(folder: Path, table: Columns) -> None:
    (folder / "survey.toml").write_text(f"honest = 0.9\ninfluence = 3\n{SURVEY}")
    notes: list[str] = []
    # Of 200 rows as many are needed as people are sure to answer.
    cf.run(folder / "survey.toml", table, tell=notes.append)
    told = [one.split(" is about devices")[0] for one in notes if "about devices" in one]
    assert told == ["note: honest", "note: max_messages", "note: influence"]
    with pytest.raises(BatchTooSmall):
        cf.run(folder / "survey.toml", table, again=True, as_devices=True)


def test_too_few_rows_and_faulty_cells_are_refused(totals: Plan) -> None:
    with pytest.raises(BatchTooSmall):
        Local().add_up({"tea": ["yes"] * (USERS - 1)}, totals)
    with pytest.raises(InvalidTable):
        Local().add_up({"tea": ["yes"] * USERS + ["maybe"]}, totals)
    with pytest.raises(InvalidTable):
        Local().add_up({"tea": []}, totals)


def test_a_tally_is_of_the_view_of_its_plan(totals: Plan, plan: Plan) -> None:
    found = Local().add_up({"tea": ["no"] * USERS}, totals)
    assert found.noisy
    below = replace(found, counts=np.array([-3]))
    assert cf.analyze(below, totals).table()[0].estimate == -3
    with pytest.raises(InvalidInput, match="one of totals"):
        check_tally(replace(found, noisy=False, counts=np.array([3])), totals)
    with pytest.raises(InvalidInput, match="one of messages"):
        check_tally(replace(found, plan_id=plan.id), plan)
    with pytest.raises(InvalidInput, match="at least 0"):
        replace(below, noisy=False)


def test_every_kind_of_question_is_released(folder: Path) -> None:
    survey = """users = 400
epsilon = 60
delta = 1e-6
anyway = true
cross = ["size", "tea"]
[questions.size]
kind = "choice"
values = ["s", "m"]
[questions.tea]
kind = "bit"
[questions.cups]
kind = "number"
low = 0
high = 10
missing = "count"
[questions.age]
kind = "number"
low = 0
high = 100
quantiles = true
[questions.spices]
kind = "flags"
names = ["salt", "pepper"]
missing = "none"
"""
    (folder / "all.toml").write_text(survey)
    rows = 400
    table: Columns = {
        "size": ["s", "m", "m", "m"] * 100,
        "tea": ["yes", "no", "yes", "yes"] * 100,
        "cups": [2, None, 4, 6] * 100,
        "age": [*range(100)] * 4,
        "spices": ["salt", "salt;pepper", "", "salt"] * 100,
    }
    release = cf.run(folder / "all.toml", table, rows_are_people=True)
    found = {(row.question, row.group, row.value): row.estimate for row in release.table()}
    assert found["size × tea", "size = s", "s × yes"] == pytest.approx(rows / 4, abs=10)
    assert found["size × tea", "", "size = m"] == pytest.approx(3 * rows / 4, abs=20)
    assert found["cups", "", "mean"] == pytest.approx(4.0, abs=0.2)
    assert found["cups", "", "answered"] == pytest.approx(300, abs=10)
    assert found["age", "", "mean"] == pytest.approx(49.5, abs=2)
    assert found["age", "", "median"] == pytest.approx(50, abs=6)
    assert found["spices", "", "pepper"] == pytest.approx(100, abs=10)


def test_public_groups_and_rounds(folder: Path) -> None:
    survey = f"""rounds = 2
by_public = "town"
{SURVEY}
[questions.town]
kind = "choice"
values = ["a", "b"]
"""
    (folder / "towns.toml").write_text(survey)
    table: Columns = {"tea": ["yes"] * 400, "town": [*["a"] * 200, *["b"] * 200]}
    for number in (1, 2):
        release = cf.run(
            folder / "towns.toml", table, folder / str(number), group="b", round=number, again=True
        )
        assert (release.round, release.reports, release.of_totals) == (number, 200, True)
    assert release.table()[0].standard_error == pytest.approx(math.sqrt(2) * 1.0, rel=0.1)
