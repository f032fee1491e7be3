from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import chaffinch as cf
from chaffinch.planning.survey_file import EXAMPLE, survey_from
from tests.cli.conftest import Done
from tests.tiers import nightly

BIT = ("plan", "--bit", "--users", 2000, "--delta", 1e-6, "--max-messages", 2)


def test_protocols_side_by_side(cli: Callable[..., Done], tmp_path: Path) -> None:
    done = cli(*BIT, "--epsilon", 1, "-o", tmp_path / "b.plan.json")
    assert done.code == 0
    for part in ("flips", "clear with decoys", "local", "slots", "ops", "90% honest", "50% honest"):
        assert part in done.out
    chosen = [line for line in done.out.splitlines() if line.startswith("→  ")]
    assert len(chosen) == 1
    assert max(map(len, done.out.splitlines())) <= 80
    cf.load_plan(tmp_path / "b.plan.json").verify()


def test_json_holds_what_every_protocol_costs(cli: Callable[..., Done]) -> None:
    document = json.loads(cli(*BIT, "--epsilon", 1, "--json", "--explain").out)
    assert document["plan"]["format"] == "chaffinch/plan@1"
    assert "The promise covers" in document["explanation"]
    first, *rest = document["protocols"]
    assert first["chosen"]
    assert not any(one["chosen"] for one in rest)
    assert {one["protocol"] for one in rest} >= {"flips", "clear with decoys", "local"}
    wanted = {
        "standard_error", "slots", "messages", "report_bytes", "shuffler_operations",
        "analyzer_operations", "local_epsilon", "epsilon", "delta",
    }  # fmt: skip
    assert all(wanted <= set(one) for one in document["protocols"])
    assert {one["local_epsilon"] for one in rest} >= {"infinite"}


def test_the_other_way_round(cli: Callable[..., Done]) -> None:
    done = cli(*BIT, "--error", "0.2%", "--confidence", "90%", "--json")
    promise = json.loads(done.out)["plan"]["guarantee"]
    assert promise["delta"] == "1e-06"
    tighter = cli(*BIT, "--error", "0.1%", "--confidence", "90%", "--json")
    assert float(json.loads(tighter.out)["plan"]["guarantee"]["epsilon"]) > float(
        promise["epsilon"]
    )


def test_an_error_may_be_that_of_all_values_together(cli: Callable[..., Done]) -> None:
    asked = (*BIT, "--error", "2%", "--local-epsilon", 50)
    each, together = (cli(*asked, *more, "--explain") for more in ((), ("--together",)))
    assert "each by itself, are" in " ".join(each.out.split())
    assert "for all values of a question together, are" in " ".join(together.out.split())


@pytest.mark.parametrize(
    "question",
    [("--number", "0:60"), ("--flags", "dark mode, large text")],
)
def test_other_questions(question: tuple[str, str], cli: Callable[..., Done]) -> None:
    done = cli("plan", *question, "--users", 500, "--epsilon", 2, "--max-messages", 2, "--json")
    assert done.code == 0, done.out
    assert json.loads(done.out)["plan"]["questions"][0]["question"]["kind"] == question[0][2:]


def test_a_number_with_all_its_options(cli: Callable[..., Done]) -> None:
    words = ("--unit", "minutes", "--clip", "--quantiles", "--max-messages", 16, "--json")
    done = cli("plan", "--number", "0:60", *words, "--users", 2000, "--epsilon", 2)
    assert done.code == 0, done
    question = json.loads(done.out)["plan"]["questions"][0]["question"]
    assert (question["unit"], question["clip"], question["quantiles"]) == ("minutes", True, True)


@pytest.mark.parametrize("option", [["--unit", "minutes"], ["--clip"], ["--quantiles"]])
def test_what_belongs_to_a_number_needs_one(option: list[str], cli: Callable[..., Done]) -> None:
    done = cli("plan", "--bit", *option, "--users", 100, "--epsilon", 1)
    assert (done.code, "--number" in done.err) == (2, True)


def test_the_example_can_be_saved_and_loaded(cli: Callable[..., Done]) -> None:
    done = cli("plan", "--example")
    assert done.out == EXAMPLE
    assert survey_from(done.out).users == 20_000
    assert json.loads(cli("plan", "--example", "--json").out) == {"example": EXAMPLE}


@pytest.mark.long
def test_the_example_can_be_planned() -> None:
    survey_from(EXAMPLE).plan().verify()


def test_checking_a_plan(cli: Callable[..., Done], folder: Path) -> None:
    path = folder / "members.plan.json"
    done = cli("plan", "--check", path)
    assert (done.code, "its guarantee holds" in done.err) == (0, True)
    assert json.loads(cli("plan", "--check", path, "--json").out)["verified"] is True
    shown = cli("plan", "--check", path, "--explain").out
    assert "holds no alternatives" in shown
    assert "→" not in shown


def test_a_plan_in_the_place_of_a_survey_is_told_how_to_check_it(
    cli: Callable[..., Done], folder: Path
) -> None:
    done = cli("plan", folder / "members.plan.json")
    assert done.code == 2
    assert "members.plan.json must be a survey. Got a plan" in done.err
    assert f"chaffinch plan --check {folder / 'members.plan.json'}" in done.err


@pytest.mark.parametrize(
    ("text", "got", "hint"),
    [
        ("[[hops]]\n[analyzer]\n", "a list of parties", "plan --parties"),
        ('plans = ["a.json"]\n[collector]\n', "the settings of a service", "one of the plans"),
        ("users = 1\n", "a survey", "plan it first"),
    ],
)
def test_what_stands_in_the_place_of_a_plan_is_named(
    cli: Callable[..., Done], tmp_path: Path, text: str, got: str, hint: str
) -> None:
    (tmp_path / "file.toml").write_text(text)
    done = cli("send", "--plan", tmp_path / "file.toml", "--answer", "yes", "--outbox", tmp_path)
    assert done.code == 2
    assert f"must be a plan. Got {got}" in done.err
    assert hint in done.err


def test_the_legend_tells_of_the_columns_that_are_there(
    cli: Callable[..., Done], monkeypatch: pytest.MonkeyPatch
) -> None:
    for columns, there in ((60, False), (80, True)):
        monkeypatch.setenv("COLUMNS", str(columns))
        text = " ".join(cli(*BIT, "--epsilon", 1).out.split())
        assert "message slots" in text
        for part in (
            "by the answers that have most",
            "bytes of a sealed report",
            "public-key operations",
            " ops ",
        ):
            assert (part in text) is there


def test_planning_says_nothing_in_a_log(cli: Callable[..., Done]) -> None:
    assert cli(*BIT, "--epsilon", 1, "--json").err == ""


def test_a_quiet_plan_says_nothing(cli: Callable[..., Done], folder: Path) -> None:
    target = folder / "made.plan.json"
    done = cli(*BIT, "--epsilon", 1, "-o", target, "--quiet")
    assert (done.code, done.out, done.err) == (0, "", "")
    done = cli("plan", "--check", target, "-q")
    assert (done.code, done.out, done.err) == (0, "", "")
    assert cli("plan", "--check", target, "-q", "--explain").out
    assert json.loads(cli("plan", "--check", target, "-q", "--json").out)["verified"]


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["plan"], 2),
        (["plan", "--bit"], 2),
        (["plan", "--bit", "--users", 100], 2),
        (["plan", "--bit", "--users", 100, "--epsilon", 1, "--error", "1%"], 2),
        (["plan", "--bit", "--users", 100, "--epsilon", 1, "--confidence", "90%"], 2),
        (["plan", "--bit", "--users", 100, "--epsilon", 1, "--together"], 2),
        (["plan", "--bit", "--number", "0:1", "--users", 100, "--epsilon", 1], 2),
        (["plan", "--number", "5", "--users", 100, "--epsilon", 1], 2),
        (["plan", "--number", "5:1", "--users", 100, "--epsilon", 1], 2),
        (["plan", "--number", "nan:1", "--users", 100, "--epsilon", 1], 2),
        (["plan", "--choice", "a,a", "--users", 100, "--epsilon", 1], 2),
        (["plan", "--choice", "a,,b", "--users", 100, "--epsilon", 1], 2),
        (["plan", "--bit", "--users", 100, "--epsilon", "nan"], 2),
        (["plan", "--bit", "--users", 100, "--epsilon", 0], 2),
        (["plan", "--bit", "--users", 100, "--epsilon", -1], 2),
        (["plan", "--bit", "--users", 100, "--epsilon", 1, "--delta", 2], 2),
        (["plan", "--bit", "--users", 100, "--epsilon", 1, "--honest", "x"], 2),
        (["plan", "--bit", "--users", 100, "--epsilon", 1, "--honest", "200%"], 2),
        (["plan", "--bit", "--users", 100, "--error", "-1%"], 2),
        (["plan", "--bit", "--users", "many", "--epsilon", 1], 2),
        (["plan", "--bit", "--example"], 2),
        (["plan", "none.toml"], 5),
        nightly(["plan", "--bit", "--users", 10, "--error", "0.001%", "--max-messages", 1], 3),
        (["plan", "--flags", "a,b,c", "--users", 30, "--epsilon", 1, "--max-messages", 1], 3),
    ],
)
def test_wrong_wishes(words: list[object], code: int, cli: Callable[..., Done]) -> None:
    done = cli(*words)
    assert done.code == code, done
    assert done.out == ""
    assert done.err.count("error: ") == 1


def test_a_plan_names_its_parties(cli: Callable[..., Done], folder: Path, plan: cf.Plan) -> None:
    example = cli("plan", "--example-parties")
    assert example.code == 0
    (folder / "parties.toml").write_text(example.out)
    sealed = folder / "sealed.plan.json"
    named = ("--parties", folder / "parties.toml")
    done = cli("plan", "--check", folder / "members.plan.json", *named, "-o", sealed)
    assert done.code == 0
    found = cf.load_plan(sealed)
    assert found.parties is not None
    assert found.id != plan.id
    shown = " ".join(cli("plan", "--check", sealed).out.split())
    assert "hop 1" in shown
    assert "University does not work together with Ministry" in shown
    assert f"Every report is {found.layout.report_length:,} bytes" in shown
    assert shown.count(found.trust) == 1
    planned = cli("plan", folder / "survey.toml", *named, "--json")
    assert json.loads(planned.out)["plan"]["parties"]["analyzer"]["name"] == "Ministry"
