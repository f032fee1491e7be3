"""The verb `trend`: releases in, changes out."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import chaffinch as cf
from tests.cli.conftest import USERS, Done


@pytest.fixture
def months(folder: Path, plan: cf.Plan) -> list[Path]:
    """Release files as `run` leaves them, each in a folder with its plan."""
    made = []
    for name, yes in (("may", 1300), ("june", 900), ("july", 1000)):
        answers = ["yes"] * yes + ["no"] * (USERS - yes)
        release = cf.analyze(cf.shuffle(cf.encode_many(answers, plan)), plan)
        (folder / name).mkdir()
        release.save(folder / name / "release.json")
        plan.save(folder / name / "survey.plan.json")
        made.append(folder / name / "release.json")
    return made


def test_from_releases_to_a_page(
    cli: Callable[..., Done], folder: Path, months: list[Path], plan: cf.Plan
) -> None:
    done = cli("trend", *months, "-o", folder / "t.html", "-o", folder / "t.json")
    assert done.code == 0, done.err
    assert "yes, may → june" in done.out
    assert (folder / "t.html").read_text().startswith("<!DOCTYPE html>")
    document = json.loads((folder / "t.json").read_text())
    assert [one["name"] for one in document["rounds"]] == ["may", "june", "july"]
    change = document["questions"][0]["changes"][0]
    # 12 standard errors: a fair run is further off with chance below 1e-6.
    assert abs(change["estimate"] + 0.2) < 12 * change["standard_error"]
    # The plans beside the releases were found: what all promise is composed, not added up.
    assert 1 < document["guarantee"]["epsilon"] < 3
    assert document["guarantee"]["delta"] == pytest.approx(3 * plan.guarantee.delta)
    for month in months:
        month.with_name("survey.plan.json").unlink()
    added = json.loads(cli("trend", *months, "--json").out)
    assert added["guarantee"]["epsilon"] == pytest.approx(3)
    given = cli("trend", *months, "--plan", folder / "members.plan.json", "--json")
    assert json.loads(given.out)["guarantee"] == document["guarantee"]


def test_folders_of_runs_stand_for_their_releases(
    cli: Callable[..., Done], folder: Path, months: list[Path]
) -> None:
    folders = [month.parent for month in months]
    done = cli("trend", *folders, "--json")
    assert done.code == 0, done.err
    assert done.out == cli("trend", *months, "--json").out
    assert cli("trend", *folders, "-o", months[0]).code == 2
    done = cli("trend", folder, *folders)
    assert done.code == 2
    assert "name the folder of one group" in done.err
    (folder / "empty").mkdir()
    done = cli("trend", folder / "empty", *folders)
    assert "Got the folder 'empty' without one." in done.err


def test_names(cli: Callable[..., Done], folder: Path, months: list[Path]) -> None:
    words = ("trend", months[0], months[1])
    assert cli(*words, "--name", "a").code == 2
    done = cli(*words, "--name", "a", "--name", "b", "--json")
    assert [one["name"] for one in json.loads(done.out)["rounds"]] == ["a", "b"]
    files = [month.rename(folder / f"{month.parent.name}.json") for month in months]
    done = cli("trend", *files, "--json")
    assert [one["name"] for one in json.loads(done.out)["rounds"]] == ["may", "june", "july"]


def test_what_is_no_trend(cli: Callable[..., Done], folder: Path, months: list[Path]) -> None:
    alone = cli("trend", months[0])
    assert (alone.code, "name another release, or its folder" in alone.err) == (2, True)
    assert cli("trend", months[0], months[0]).code == 2
    assert cli("trend", months[0], folder / "none.json").code in {2, 5}
    before = months[0].read_bytes()
    assert cli("trend", *months, "-o", months[0]).code == 2
    assert months[0].read_bytes() == before
    assert cli("trend", *months, "-o", folder / "t.txt").code == 2
