"""A rehearsal is the real thing in small: every party a process, and one release."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from chaffinch.cli import main
from chaffinch.questions import Bit, Choice, Flags, Number
from chaffinch.services import rehearsal
from chaffinch.services.rehearsal import made_up_answer
from tests.planned_once import plans_are_made_once  # noqa: F401 - a fixture of all tests here
from tests.services.commands import waited

PEOPLE = 60


def test_a_crowd_goes_through_all_parties(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert main(["rehearse", "--people", str(PEOPLE), "--hops", "2", "--json"]) == 0
    found = json.loads(capfd.readouterr().out)
    (release,) = found["releases"]
    assert release["reports"] == PEOPLE
    assert found["plan"]["parties"]["analyzer"]["name"] == "analyzer"
    assert not list(tmp_path.iterdir())


def test_fewer_people_than_the_plan_waits_for_are_refused(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    survey = tmp_path / "survey.toml"
    survey.write_text(
        "users = 200\nepsilon = 2\ndelta = 1e-6\nrows_are_people = true\nmax_messages = 4\n"
        '[questions.member]\nkind = "bit"\nmissing = "refuse"\n'
    )
    keep = tmp_path / "kept"
    assert main(["rehearse", str(survey), "--people", "199", "--keep", str(keep)]) == 2
    assert "200 or more" in capfd.readouterr().err


def test_nobody_is_no_crowd(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["rehearse", "--people", "0"]) == 2
    assert "Got 0" in capfd.readouterr().err


def test_a_folder_that_exists_is_not_used(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["rehearse", "--people", "60", "--keep", str(tmp_path)]) == 5
    told = capfd.readouterr().err
    assert "exists already" in told
    assert "overwriting" not in told  # there is no such option


@pytest.mark.long
def test_the_logs_of_a_rehearsal_that_fails_are_where_it_says(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(rehearsal, "_HOP", "a service can not start from this")
    assert main(["rehearse", "--people", "60"]) == 5
    (kept,) = tmp_path.iterdir()
    assert str(kept) in capfd.readouterr().err
    assert "no TOML document" in (kept / "hop1" / "collector.log").read_text()


def test_a_rehearsal_without_the_services_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "httptools.py").write_text("raise ImportError\n")
    done = subprocess.run(
        [sys.executable, "-m", "chaffinch", "rehearse", "--people", "60"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert "chaffinch[services]" in done.stderr


def test_no_service_outlives_a_rehearsal_that_is_killed(tmp_path: Path) -> None:
    keep = tmp_path / "kept"
    command = [sys.executable, "-m", "chaffinch", "rehearse", "--people", "60", "--keep", str(keep)]
    started = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        waited(lambda: events(keep).count("started") == 3, 60)
    finally:
        started.kill()
        started.wait()
    waited(lambda: events(keep).count("stopped") == 3)


def events(folder: Path) -> list[str]:
    """What the services have said so far."""
    lines = [line for path in folder.glob("*/*.log") for line in path.read_text().splitlines()]
    return [json.loads(line)["event"] for line in lines]


@pytest.mark.parametrize(
    "question",
    [Bit(), Choice(["a", "b"]), Number(2, 5), Flags(["x", "y"])],
    ids=lambda question: question.kind,
)
def test_made_up_answers_are_answers(question: Bit | Choice | Number | Flags) -> None:
    import chaffinch as cf

    plan = cf.plan(question, users=500, target=cf.Target(2.0, 1e-3), max_messages=4, anyway=True)
    for _ in range(20):
        assert cf.encode(made_up_answer(question), plan).codes is not None


@pytest.mark.parametrize(
    "question",
    [
        Bit(missing="count"),
        Choice(["a", "b"], missing="count"),
        Number(2, 5, missing="count"),
        Flags(["x", "y"], missing="count"),
    ],
    ids=lambda question: question.kind,
)
def test_made_up_people_leave_gaps_where_these_count(question: Choice) -> None:
    # That none of 300 leaves a gap, or all do, has a chance below 1e-13.
    given = [made_up_answer(question) for _ in range(300)]
    assert 0 < given.count(None) < 300
    told = [one for one in given if one is not None]
    assert all(isinstance(one, list) or one not in {"(missing)", ""} for one in told)


def test_what_no_release_holds_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    import chaffinch as cf
    from chaffinch.cli import rehearse
    from chaffinch.cli.output import Output

    plan = cf.plan(cf.Bit(missing="refuse"), users=100, target=cf.Target(2.0, 1e-3))
    release = cf.analyze(cf.shuffle(cf.encode_many(["yes"] * 100, plan)), plan)
    for sent, said in ((120, True), (100, False)):
        rehearse.show(plan, sent, [release], Output())
        told = " ".join(capsys.readouterr().out.split())
        waiting = "The other 20 reports came after the batch was closed: they wait at the shuffler"
        assert (waiting in told) == said


def test_a_log_hears_of_long_work_now_and_then(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from chaffinch.cli import output

    clock = iter([0.0, 9.0, 11.0, 11.0, 12.0, 22.0, 22.0])
    monkeypatch.setattr(output, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    with output.Output().counting("sending", "reports") as tell:
        for done in (1000, 2000, 3000, 4000):
            tell(done, 5000)
    assert capsys.readouterr().err.splitlines() == [
        "sending: 2,000 of 5,000 reports ...",
        "sending: 4,000 of 5,000 reports ...",
    ]
