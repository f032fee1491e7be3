"""The verb `cost`: what a plan would cost, in tables and in JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import chaffinch as cf
from chaffinch import reach
from tests.cli.conftest import Done


def test_tables(cli: Callable[..., Done], folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    done = cli("cost", folder / "members.plan.json", "--users", "1000000000")
    assert done.code == 0, done.err
    assert "Estimate for 1,000,000,000 people" in done.out
    for word in (
        "on devices",
        "all operators",
        "collector",
        "hop 1",
        "analyzer",
        "assumed prices",
        "X25519",
    ):
        assert word in done.out
    assert not done.err


def test_json_is_what_the_library_says(
    cli: Callable[..., Done], folder: Path, plan: cf.Plan
) -> None:
    words = ("cost", folder / "members.plan.json", "--json")
    assert json.loads(cli(*words).out) == _as_json(plan.cost())
    prices = cf.Prices(core_hour=1, gigabyte_month=2, gigabyte_out=3, days=4)
    given = ("--core-hour", 1, "--gigabyte-month", 2, "--gigabyte-out", 3, "--days", 4)
    done = cli(*words, "--users", 5000, "--hops", 2, *given)
    assert json.loads(done.out) == _as_json(plan.cost(5000, hops=2, prices=prices))


def test_a_plan_for_audiences(cli: Callable[..., Done], folder: Path) -> None:
    target = cf.Target(2, 1e-4)
    made = reach.plan(reach.Audience(["daily"]), sizes=[1000], target=target)
    made.save(folder / "reach.plan.json")
    words = ("cost", folder / "reach.plan.json", "--json")
    assert json.loads(cli(*words, "--users", 5000).out) == _as_json(made.cost(5000))
    refused = cli(*words[:-1], "--hops", 1)
    assert (refused.code, "a reach without a shuffler" in refused.err) == (2, True)
    shown = cli("cost", folder / "reach.plan.json").out
    assert shown.count("all operators") == 2


def test_a_survey_is_planned_first(cli: Callable[..., Done], folder: Path) -> None:
    survey = folder / "a survey.toml"
    survey.write_text("users = 100\n", "utf-8")
    done = cli("cost", survey)
    assert done.code == 2
    assert done.err.splitlines() == [
        "error: The file a survey.toml must be a plan. Got a survey",
        f"hint: plan it first: `chaffinch plan '{survey}'`",
    ]


def test_too_few_people_are_told(cli: Callable[..., Done], folder: Path) -> None:
    done = cli("cost", folder / "members.plan.json", "--users", "10")
    assert "Nothing would be released: the plan waits for" in done.out


def test_a_narrow_terminal_gets_whole_words_and_numbers(
    cli: Callable[..., Done], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    lines = cli("cost", folder / "members.plan.json").out.splitlines()
    assert max(map(len, lines)) <= 60
    names = [line for line in lines if not line.startswith(" ")]
    assert {"collector", "hop 1", "analyzer", "all operators", "on devices"} <= set(names)
    assert sum(line.startswith("  core-hours  ") for line in lines) == 8


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["none.plan.json"], 5),
        (["members.plan.json", "--users", "0"], 2),
        (["members.plan.json", "--hops", "9"], 2),
        (["members.plan.json", "--core-hour", "-1"], 2),
        (["-"], 2),
    ],
)
def test_what_is_refused(
    cli: Callable[..., Done], folder: Path, words: list[str], code: int
) -> None:
    first, *others = words
    assert cli("cost", first if first == "-" else folder / first, *others).code == code


def _as_json(cost: cf.Cost) -> object:
    return json.loads(json.dumps(cost.document()))
