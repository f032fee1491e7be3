"""Crosses and groups from the command line: one release, or one for each public group."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import chaffinch as cf
from tests.cli.conftest import Done

PUBLIC = """
users = 300
epsilon = 2
delta = 1e-4
max_messages = 1
by_public = "airport"
[questions.airport]
kind = "choice"
values = ["EWR", "J F/K", "LGA"]
missing = "refuse"
column = "origin"
[questions.delayed]
kind = "bit"
"""
CROSS = """
users = 500
epsilon = 3
delta = 1e-4
local_epsilon = 60
cross = ["airport", "delayed"]
[questions.airport]
kind = "choice"
values = ["EWR", "J F/K"]
missing = "refuse"
column = "origin"
[questions.delayed]
kind = "bit"
"""


@pytest.fixture
def flights(tmp_path: Path) -> Path:
    rows = ["EWR,yes"] * 200 + ["EWR,no"] * 200 + ["J F/K,no"] * 350 + ["LGA,yes"] * 20
    (tmp_path / "flights.csv").write_text("\n".join(["origin,delayed", *rows]) + "\n")
    (tmp_path / "public.toml").write_text(PUBLIC)
    (tmp_path / "cross.toml").write_text(CROSS.replace('"J F/K"]', '"J F/K", "LGA"]'))
    return tmp_path


def test_a_cross_from_a_survey_to_a_release(cli: Callable[..., Done], flights: Path) -> None:
    out = flights / "out"
    done = cli("run", flights / "cross.toml", "--data", flights / "flights.csv", "-o", out)
    assert done.code == 0, done.err
    assert "airport \\ delayed" in done.out
    found = {row.value: row for row in cf.load_release(out / "release.json").table()}
    row = found["share of delayed = yes, where airport = EWR"]
    # Twice the interval of 95 percent: a fair run is further off with chance below 1e-4.
    assert abs(row.estimate - 0.5) < 2 * (row.high - row.low)
    # The same survey finds its plan again, whose levels and cells are the planner's.
    again = cli(
        "run", flights / "cross.toml", "--data", flights / "flights.csv", "-o", out, "--again"
    )
    assert "using the plan that was made for this survey before" in again.err


def test_every_public_group_that_is_large_enough_has_a_release(
    cli: Callable[..., Done], flights: Path
) -> None:
    out = flights / "out"
    done = cli("run", flights / "public.toml", "--data", flights / "flights.csv", "-o", out)
    assert done.code == 0, done.err
    assert "left out, with fewer than 300 reports: LGA (20); nothing is released" in done.err
    assert sorted(one.name for one in out.iterdir() if one.is_dir()) == ["001-ewr", "002-j-f-k"]
    here = cf.load_release(out / "001-ewr" / "release.json")
    there = cf.load_release(out / "002-j-f-k" / "release.json")
    assert (here.reports, here.group) == (400, ("airport", "EWR"))
    assert (there.reports, there.group) == (350, ("airport", "J F/K"))
    # One plan, made once, of which each group has its own.
    plan = cf.load_plan(out / "survey.plan.json")
    own = cf.load_plan(out / "001-ewr" / "survey.plan.json")
    assert plan.of_group("EWR") == own
    assert (plan.parts, plan.epsilon) == (own.parts, own.epsilon)
    # The same groups again are the same people; so is the whole table.
    words = ("run", flights / "public.toml", "--data", flights / "flights.csv", "-o")
    assert cli(*words, flights / "more", "--group", "EWR").code == 4
    whole = flights / "cross.toml"
    assert cli("run", whole, *words[2:], flights / "whole").code == 4


def test_one_public_group_by_itself(cli: Callable[..., Done], flights: Path) -> None:
    words = ("run", flights / "public.toml", "--data", flights / "flights.csv", "-o")
    done = cli(*words, flights / "one", "--group", "J F/K", "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["release"]["public_group"] == ["airport", "J F/K"]
    apart = cli(*words, flights / "apart", "--group", "J F/K", "--person", "delayed")
    assert apart.code == 2
    assert "told apart by rows where groups are public" in apart.err
    small = cli(*words, flights / "small", "--group", "LGA")
    assert small.code == 4
    assert "300 reports or more. Got 20" in small.err
    assert cli(*words, flights / "none", "--group", "BOS").code == 2
    assert not (flights / "small" / "release.json").exists()
    other = ("run", flights / "cross.toml", "--data", flights / "flights.csv", "-o")
    assert cli(*other, flights / "cross", "--group", "EWR").code == 2


def test_groups_that_are_all_too_small_are_refused_before_planning(
    cli: Callable[..., Done], flights: Path
) -> None:
    (flights / "public.toml").write_text(PUBLIC.replace("users = 300", "users = 500"))
    done = cli(
        "run", flights / "public.toml", "--data", flights / "flights.csv", "-o", flights / "out"
    )
    assert done.code == 2
    assert "EWR (400), J F/K (350), LGA (20)" in done.err
    assert not (flights / "out").exists()
