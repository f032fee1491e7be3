"""Whose rows a table holds: what `run`, `check` and `encode` say and do about it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import chaffinch as cf
from tests.cli.conftest import Done

PEOPLE = 400


@pytest.fixture
def visits(tmp_path: Path) -> Path:
    """A table in which person n has n % 4 + 1 rows, and a survey about it."""
    lines = ["user_id,member"]
    for number in range(PEOPLE):
        lines += [f"u{number},{'yes' if number % 2 else 'no'}"] * (number % 4 + 1)
    (tmp_path / "visits.csv").write_text("\n".join(lines) + "\n")
    (tmp_path / "survey.toml").write_text(
        f"users = {PEOPLE}\nepsilon = 2\ndelta = 1e-6\nmax_messages = 1\n"
        '[questions.member]\nkind = "bit"\nmissing = "no"\n'
    )
    return tmp_path


def run(cli: Callable[..., Done], visits: Path, *options: str) -> Done:
    data = visits / "visits.csv"
    return cli("run", visits / "survey.toml", "--data", data, "-o", visits / "out", *options)


def test_rows_are_not_called_people(cli: Callable[..., Done], visits: Path) -> None:
    done = run(cli, visits)
    assert done.code == 0
    assert "--person COLUMN (person=...), such as 'user_id'" in done.err
    assert "one row's answer" in done.out
    assert "several rows is protected less" in " ".join(done.out.split())
    assert "one person's" not in done.out
    assert "(in rows; 1,000 reports)" in done.out
    page = (visits / "out" / "release.html").read_text()
    assert "one row&#x27;s answer" in page or "one row's answer" in page
    release = cf.load_release(visits / "out" / "release.json")
    assert release.unit == "row"
    assert cf.load_release(visits / "out" / "release.json") == release


def test_a_column_tells_people_apart(cli: Callable[..., Done], visits: Path) -> None:
    done = run(cli, visits, "--person", "user_id")
    assert done.code == 0
    assert "400 people have 1,000 rows; 1 row of each, drawn at random" in done.err
    assert "one person's answer" in done.out
    assert "(in people; 400 reports)" in done.out
    document = json.loads((visits / "out" / "release.json").read_text())
    assert document["unit"] == "person"
    assert document["reports"] == PEOPLE
    # Another draw gives other numbers, and no interval knows.
    for said in (done.out, (visits / "out" / "release.html").read_text()):
        assert "Where somebody has several rows, one was drawn at random" in " ".join(said.split())
    release = cf.load_release(visits / "out" / "release.json")
    assert release.rows_were_drawn
    assert release.document() == document


def test_every_row_may_be_another_person(cli: Callable[..., Done], visits: Path) -> None:
    done = run(cli, visits, "--rows-are-people")
    assert done.code == 0
    assert "one person's answer" in done.out
    assert "(in people; 1,000 reports)" in done.out
    assert "drawn" not in done.out


def test_a_survey_says_who_is_a_person(cli: Callable[..., Done], visits: Path) -> None:
    survey = visits / "survey.toml"
    survey.write_text('person = "user_id"\ncontributions = 2\n' + survey.read_text())
    done = run(cli, visits)
    assert done.code == 0
    assert "2 rows of each, drawn at random, empty ones where there are fewer" in done.err
    assert "one person's answer in all of their 2 reports" in " ".join(done.out.split())
    assert "Where somebody has more rows, 2 were drawn at random" in " ".join(done.out.split())
    assert cf.load_plan(visits / "out" / "survey.plan.json").contributions == 2
    alone = cli(
        "encode", visits / "visits.csv", "--plan", visits / "out" / "survey.plan.json", "-o", "x"
    )
    assert alone.code == 2
    assert "--person COLUMN" in alone.err


def test_too_few_people_are_told_before_planning(cli: Callable[..., Done], visits: Path) -> None:
    survey = visits / "survey.toml"
    survey.write_text(survey.read_text().replace(f"users = {PEOPLE}", "users = 900"))
    done = run(cli, visits, "--person", "user_id")
    assert done.code != 0
    assert "planning" not in done.err
    assert "400" in done.err


def test_both_at_once_are_refused(cli: Callable[..., Done], visits: Path) -> None:
    done = run(cli, visits, "--person", "user_id", "--rows-are-people")
    assert done.code == 2
    assert "not by both" in done.err


def test_releases_of_rows_and_of_people_promise_rows_together(
    cli: Callable[..., Done], visits: Path
) -> None:
    assert run(cli, visits).code == 0
    done = run(cli, visits, "--person", "user_id", "--again", "--replace")
    assert done.code == 0
    assert "one row's answer, in all 2 releases of the same data" in " ".join(done.out.split())
    assert "(in people; 400 reports)" in done.out
    release = cf.load_release(visits / "out" / "release.json")
    assert (release.unit, release.promised_unit) == ("person", "row")


def test_check_counts_the_reports_of_people(cli: Callable[..., Done], visits: Path) -> None:
    """Two rows of each of 400 people are 800 reports, however many rows the table has."""
    survey = visits / "survey.toml"
    survey.write_text('person = "user_id"\ncontributions = 2\n' + survey.read_text())
    done = cli("check", survey, "--data", visits / "visits.csv")
    assert "800 reports, 800 needed; every cell answers its question." in done.out
    assert "400 people have 1,000 rows" in done.err


@pytest.mark.long
def test_rounds_of_rows_cover_no_round_of_people(cli: Callable[..., Done], visits: Path) -> None:
    survey = visits / "survey.toml"
    survey.write_text("rounds = 2\n" + survey.read_text())
    assert run(cli, visits, "--round", "1").code == 0
    other = visits / "other.csv"
    other.write_text((visits / "visits.csv").read_text().replace("u3,", "w3,"))
    words = ("run", visits / "out" / "survey.plan.json", "--data", other, "--round", "2")
    done = cli(*words, "-o", visits / "two", "--person", "user_id")
    assert done.code == 2
    assert "the same in all rounds of a plan" in done.err
    assert cli(*words, "-o", visits / "two").code == 0


def test_a_draft_says_who_was_said_to_be_a_person(cli: Callable[..., Done], visits: Path) -> None:
    data = visits / "visits.csv"
    assert 'person = "member"\n' in cli("survey", data, "--person", "member").out
    assert "rows_are_people = true" in cli("survey", data, "--rows-are-people").out
    assert cli("survey", data, "--person", "nobody").code == 2


def test_silence_must_be_of_use_before_anything_is_planned(
    cli: Callable[..., Done], visits: Path
) -> None:
    survey = visits / "survey.toml"
    text = survey.read_text().replace('missing = "no"\n', "")
    survey.write_text('person = "user_id"\ncontributions = 2\n' + text)
    done = run(cli, visits)
    assert done.code == 2
    assert "member" in done.err
    assert "planning: " not in done.err
