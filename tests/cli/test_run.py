from __future__ import annotations

import csv
import hashlib
import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import chaffinch as cf
from chaffinch.cli import demo
from chaffinch.wire.documents import canonical
from tests.cli.conftest import USERS, YES, Done
from tests.meta import repository

FILES = {"survey.plan.json", "release.html", "release.json", "release.csv"}


def test_from_a_survey_to_a_release(cli: Callable[..., Done], folder: Path) -> None:
    out = folder / "results"
    done = cli("run", folder / "survey.toml", "--data", folder / "people.csv", "--out", out)
    assert done.code == 0, done.err
    assert {path.name for path in out.iterdir()} == FILES | {".chaffinch-survey.json"}
    for part in ("Details\n  (1, 1e-06)-differential privacy, proven", "member", "estimate", "low"):
        assert part in done.out
    # Whoever holds the table knows the exact numbers, and every page says so.
    told = "Trusted was whoever ran this: they hold the table and know the exact numbers"
    for said in (done.out, (out / "release.html").read_text()):
        assert told in " ".join(said.split())
    assert "release.html" in done.err
    assert "truth " not in done.out.replace("the truth ", "")
    cf.load_plan(out / "survey.plan.json").verify()
    document = json.loads((out / "release.json").read_text())
    assert document["reports"] == USERS
    with (out / "release.csv").open(newline="") as file:
        row = next(csv.DictReader(file))
    # 12 standard errors: a fair run is further off with chance below 1e-6.
    assert abs(float(row["estimate"]) - YES) < 12 * float(row["standard_error"])


def test_from_a_plan_as_json(cli: Callable[..., Done], folder: Path) -> None:
    words = ("run", folder / "members.plan.json", "--data", folder / "people.csv")
    done = cli(*words, "--out", folder / "out", "--json")
    assert done.code == 0
    assert done.err == ""
    document = json.loads(done.out)
    assert document["release"]["format"] == "chaffinch/release@1"
    assert all(Path(file).exists() for file in document["files"])


def test_columns_by_option_and_by_survey(cli: Callable[..., Done], folder: Path) -> None:
    text = (folder / "people.csv").read_text().replace("member", "Member?", 1)
    (folder / "people.csv").write_text(text)
    words = ("run", folder / "members.plan.json", "--data", folder / "people.csv", "--out")
    assert cli(*words, folder / "a").code == 2
    assert cli(*words, folder / "b", "--column", "Member?").code == 0
    assert cli(*words, folder / "c", "--map", "member=Member?", "--again").code == 0
    survey = folder / "survey.toml"
    survey.write_text(survey.read_text() + 'column = "Member?"\n')
    assert cli("run", survey, *words[2:], folder / "d", "--again").code == 0
    assert sorted(path.name for path in folder.iterdir() if path.is_dir()) == ["b", "c", "d"]


def test_what_was_in_the_folder_stays(cli: Callable[..., Done], folder: Path) -> None:
    out = folder / "out"
    out.mkdir()
    (out / "notes.txt").write_text("mine")
    old = (
        '"question","value","estimate","standard_error","low","high","low_together","high_together"'
    )
    (out / "release.csv").write_text(f"{old}\n")
    words = ("run", folder / "members.plan.json", "--out", out, "--data")
    shutil.copy(folder / "people.csv", folder / "bad.csv")
    with (folder / "bad.csv").open("a") as file:
        file.write("1,perhaps,3\n")
    assert cli(*words, folder / "bad.csv").code == 2
    assert {path.name: path.read_text() for path in out.iterdir()} == {
        "notes.txt": "mine",
        "release.csv": f"{old}\n",
    }
    assert cli(*words, folder / "people.csv").code == 0
    assert {path.name for path in out.iterdir()} == FILES | {"notes.txt"}


def test_results_of_another_plan_are_not_overwritten(
    cli: Callable[..., Done], folder: Path
) -> None:
    out = folder / "out"
    other = folder / "other.plan.json"
    replace(cf.load_plan(folder / "members.plan.json"), title="Other").save(other)
    tail = ("--data", folder / "people.csv", "--out", out, "--again")
    assert cli("run", folder / "survey.toml", *tail).code == 0
    assert cli("run", folder / "survey.toml", *tail, "--replace").code == 0  # the same plan
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    for left in ("survey.plan.json", "release.json"):
        done = cli("run", other, *tail)
        assert (done.code, done.out) == (2, "")
        assert f"such a {left}" in done.err
        assert "--replace" in done.err
        assert {path.name: path.read_bytes() for path in out.iterdir()} == before
        (out / left).unlink()
        del before[left]
    (out / "release.json").mkdir()  # what cannot be looked at is not overwritten either
    assert cli("run", other, *tail).code == 5
    (out / "release.json").rmdir()
    (out / "release.json").write_text("{")
    assert cli("run", other, *tail).code == 2
    assert cli("run", other, *tail, "--replace").code == 2, "it is no release"
    (out / "release.json").unlink()
    assert cli("run", other, *tail, "--replace").code == 0
    assert json.loads((out / "release.json").read_text())["title"] == "Other"


def test_results_go_into_a_folder(cli: Callable[..., Done], folder: Path) -> None:
    data = folder / "people.csv"
    before = data.read_bytes()
    done = cli("run", folder / "members.plan.json", "--data", data, "--out", data)
    assert done.code == 2
    assert "must be a folder" in done.err
    assert data.read_bytes() == before


def test_two_questions_from_one_table(cli: Callable[..., Done], folder: Path) -> None:
    (folder / "two.toml").write_text(
        f"users = {USERS}\nepsilon = 2\ndelta = 1e-6\nmax_messages = 2\n"
        '[questions.member]\nkind = "bit"\n'
        '[questions.minutes]\nkind = "number"\nlow = 0\nhigh = 60\ncolumn = "age"\n'
    )
    words = ("run", folder / "two.toml", "--data", folder / "people.csv", "--out", folder / "o")
    document = json.loads(cli(*words, "--json").out)["release"]
    assert [one["question"] for one in document["questions"]] == ["member", "minutes"]
    mean = document["questions"][1]["values"][0]
    assert abs(mean["estimate"] - 29.4) < 12 * mean["standard_error"]


def test_a_title_cannot_steer_the_terminal(cli: Callable[..., Done], folder: Path) -> None:
    text = (folder / "members.plan.json").read_text(encoding="utf-8")
    document = json.loads(text) | {"title": "\x1b[2Jgone"}
    body = {key: value for key, value in document.items() if key != "id"}
    document["id"] = hashlib.sha256(canonical(body)).hexdigest()
    (folder / "sly.plan.json").write_text(json.dumps(document), encoding="utf-8")
    done = cli("plan", "--check", folder / "sly.plan.json")
    assert done.code != 0
    assert "\x1b" not in done.out + done.err
    assert "gone" in done.err


def test_the_demo_says_what_a_rehearsal_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    assert demo._needed() == ""  # noqa: SLF001 - the demo itself takes a while
    monkeypatch.setattr(demo, "find_spec", lambda name: None if name == "httptools" else name)
    assert "pip install '.[services]'" in demo._needed()  # noqa: SLF001


def test_the_demo(
    cli: Callable[..., Done], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "PEOPLE", 300)
    monkeypatch.chdir(tmp_path)
    done = cli("demo")
    assert done.code == 0, done.err
    names = {path.name for path in (tmp_path / "demo-output").iterdir()}
    wanted = {"browsers.plan.json", "survey.toml", "people.csv"}
    assert names == FILES - {"survey.plan.json"} | wanted
    assert "only because these people are made up" in " ".join(done.out.split())
    said = re.search(r"300\s+envelopes\s+of\s+([\d,]+)\s+bytes,\s+all\s+of\s+one", done.out)
    assert said, done.out
    # Noise is added here, and reports are sealed: what is said of the two is one story.
    told = " ".join(done.out.split())
    assert "by whoever ran this: they hold the table" in told
    assert "Noise was added to every report before it was sealed" in told
    assert "one process ran all parties, so whoever ran it knows the exact numbers" in told
    assert "demo-output/release.html" in done.out
    assert "chaffinch rehearse  (each party as a process)" in done.out
    tried, _, last = done.out.strip().splitlines()[-3:]
    assert tried == "Then try  chaffinch plan --check demo-output/browsers.plan.json --explain"
    checked = cli("plan", "--check", "demo-output/browsers.plan.json", "--explain")
    assert checked.code == 0
    assert last in (repository.ROOT / "README.md").read_text(encoding="utf-8")
    assert cli(*last.split()[1:]).code == 0
    # The files say the same as the demo itself.
    again = json.loads(cli("demo", "--json", "--quiet").out)
    # Its people are others, so that they may be released, too.
    assert cli(*last.split()[1:-1], "another").code == 0
    sealed = again["sealed"]
    assert (sealed["envelopes"], f"{sealed['envelope_bytes']:,}") == (300, said[1])
    assert sealed["messages"] > 300
    devices = cf.load_plan("demo-output/browsers.plan.json")
    one_party = cf.load_plan("result/survey.plan.json")
    assert (devices.view, one_party.view) == ("messages", "totals")
    assert (devices.epsilon, devices.delta) == (one_party.epsilon, one_party.delta)
    words = ("run", "demo-output/survey.toml", "--data", "demo-output/people.csv", "--out", "as")
    assert cli(*words, "--as-devices", "--again").code == 0
    assert cf.load_plan("as/survey.plan.json").id == devices.id


def test_the_people_of_the_demo_are_others_each_time() -> None:
    question = cf.Choice(demo.BROWSERS, missing="refuse")
    answers, counts = demo.people(question)
    assert demo.people(question)[0] != answers
    assert [answers.count(name) for name in demo.BROWSERS] == counts
    assert sum(counts) == demo.PEOPLE


def test_flags_in_columns_of_their_own(cli: Callable[..., Done], tmp_path: Path) -> None:
    (tmp_path / "survey.toml").write_text(
        "users = 2000\nepsilon = 2.0\ndelta = 1e-6\nmax_messages = 2\n\n"
        '[questions.settings]\nkind = "flags"\nnames = ["dark mode", "large text"]\n'
    )
    lines = ["dark mode,large text", *(["yes,no"] * 1500), *(["no,yes"] * 500)]
    (tmp_path / "people.csv").write_text("\n".join(lines) + "\n")
    out = tmp_path / "out"
    words = ("run", tmp_path / "survey.toml", "--data", tmp_path / "people.csv", "--out", out)
    done = cli(*words)
    assert done.code == 0, done.err
    release = cf.load_release(out / "release.json")
    for row, truth in zip(release.table(), (1500, 500), strict=True):
        assert row.standard_error is not None
        assert abs(row.estimate - truth) < 12 * row.standard_error


def test_counts_of_faults_are_in_no_release(cli: Callable[..., Done], folder: Path) -> None:
    """How many cells cannot be read is exact: it is for whoever runs this, and nobody else."""
    survey = folder / "survey.toml"
    survey.write_text(survey.read_text().replace('"refuse"', '"no"'))
    lines = (folder / "people.csv").read_text().splitlines()
    told = []
    for faults in (37, 137):
        words = [f"{n},perhaps,1" for n in range(faults)]
        (folder / "bad.csv").write_text("\n".join([*lines, *words]) + "\n")
        out = folder / f"bad{faults}"
        done = cli("run", survey, "--data", folder / "bad.csv", "--out", out)
        assert (done.code, str(faults) in done.err, out.exists()) == (2, True, False), done.err
        # Missing ones count as no: the release does not say how many there were.
        (folder / "gaps.csv").write_text("\n".join([*lines, *(f"{n},,1" for n in range(faults))]))
        out = folder / f"out{faults}"
        assert cli("run", survey, "--data", folder / "gaps.csv", "--out", out).code == 0
        release = cf.load_release(out / "release.json")
        # The number alone may stand there by chance, as an estimate.
        said = release.text().replace(f"{release.reports:,}", "")
        assert not re.search(rf"\b{faults} (cells|rows|missing|gaps|of)\b", said)
        told.append(set(release.document()) | set(release.answer().notes))
    assert told[0] == told[1]
