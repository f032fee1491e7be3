"""A table is looked at before anything is planned, and a plan that was made is kept."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import chaffinch as cf
from chaffinch.planning.survey_file import SurveyFile
from tests.cli.conftest import USERS, Done
from tests.tiers import nightly

CANARY = "xyzzy-private"


@pytest.fixture
def messy(folder: Path) -> Path:
    """A table with faults in two columns, and a survey that asks for both."""
    lines = (folder / "people.csv").read_text().splitlines()
    for row in (7, 9, 1200, 1201, 1202, 1203, 1204):
        number, _, age = lines[row].split(",")
        lines[row] = f"{number},{CANARY},{age}"
    lines[3] = ",".join([*lines[3].split(",")[:2], "9999"])
    (folder / "people.csv").write_text("\n".join(lines) + "\n")
    (folder / "two.toml").write_text(
        f"users = {USERS}\nepsilon = 2\ndelta = 1e-6\nmax_messages = 2\n"
        '[questions.member]\nkind = "bit"\n'
        '[questions.minutes]\nkind = "number"\nlow = 0\nhigh = 60\ncolumn = "age"\n'
    )
    return folder


@pytest.fixture
def no_planning(monkeypatch: pytest.MonkeyPatch) -> None:
    def plan(*_: object, **__: object) -> None:
        pytest.fail("something was planned")

    monkeypatch.setattr(SurveyFile, "plan", plan)


@pytest.mark.usefixtures("no_planning")
@pytest.mark.parametrize("verb", ["check", "run"])
def test_all_faults_are_told_before_planning(
    cli: Callable[..., Done], messy: Path, verb: str
) -> None:
    words = [verb, messy / "two.toml", "--data", messy / "people.csv"]
    done = cli(*words, *(["-o", messy / "out"] if verb == "run" else []))
    assert (done.code, done.out) == (2, "")
    assert "Got 8 that are not (rows as a spreadsheet counts):" in done.err
    assert "1 cell of column 'age' must be from 0 to 60: row 4 (widen" in done.err
    assert "7 cells of column 'member' must be yes or no" in done.err
    assert ": rows 8, 10, 1,201, 1,202, 1,203, …" in done.err
    assert CANARY not in done.err
    assert "9999" not in done.err
    assert not (messy / "out").exists()


def test_faults_as_json(cli: Callable[..., Done], messy: Path) -> None:
    words = ("check", messy / "two.toml", "--data", messy / "people.csv", "--json")
    done = cli(*words)
    assert done.code == 2
    error = json.loads(done.out)["error"]
    assert error["code"] == "invalid-table"
    assert [(one["column"], one["count"], one["rows"]) for one in error["details"]["faults"]] == [
        ("age", 1, [4]),
        ("member", 7, [8, 10, 1201, 1202, 1203]),
    ]
    assert {one["counted"] for one in error["details"]["faults"]} == {"as a spreadsheet counts"}
    assert CANARY not in done.out


def test_cells_are_shown_to_whoever_asks(cli: Callable[..., Done], messy: Path) -> None:
    words = ("check", messy / "two.toml", "--data", messy / "people.csv", "--show")
    done = cli(*words)
    assert done.code == 2
    assert CANARY not in done.err
    told = [line.split() for line in done.out.splitlines()]
    cell = f"'{CANARY}'"
    assert told[:3] == [
        ["column", "cell", "cells", "first", "row"],
        ["member", cell, "7", "8"],
        ["age", "'9999'", "1", "4"],
    ]
    assert told[3] == []
    assert "private data, for whoever holds the table alone" in done.out
    lines = ["a b\u00a0c", *["yes", "no"] * USERS]
    (messy / "one.csv").write_text("\n".join(lines))
    done = cli("check", messy / "survey.toml", "--data", messy / "one.csv", "--show")
    assert "The columns are 'a b\\xa0c'." in done.out


def test_each_spelling_is_shown_once_with_its_count(cli: Callable[..., Done], folder: Path) -> None:
    """Seven spellings of engineering, told apart, however many cells begin the table with one."""
    names = ["ENGINEERING"] * 900 + ["Engineering", "engineering ", "Eng."] * 300 + ["sales"] * 200
    (folder / "teams.csv").write_text("team\n" + "\n".join(names) + "\n")
    (folder / "teams.toml").write_text(
        f'users = {USERS}\nepsilon = 2\n[questions.team]\nkind = "choice"\n'
        'values = ["engineering", "sales"]\n'
    )
    done = cli("check", folder / "teams.toml", "--data", folder / "teams.csv", "--show")
    told = [line.split() for line in done.out.splitlines()]
    assert told[1:4] == [
        ["team", "'ENGINEERING'", "900", "2"],
        ["team", "'Engineering'", "300", "902"],
        ["team", "'Eng.'", "300", "904"],
    ]
    many = "\n".join(f"team {n}" for n in range(USERS))
    (folder / "teams.csv").write_text(f"team\n{many}\n")
    done = cli("check", folder / "teams.toml", "--data", folder / "teams.csv", "--show")
    assert 50 <= len(done.out.splitlines()) < 60


def test_a_yes_in_other_words_has_a_hint(cli: Callable[..., Done], folder: Path) -> None:
    people = (folder / "people.csv").read_text()
    (folder / "people.csv").write_text(people.replace("yes", "Y").replace("no", "N"))
    done = cli("check", folder / "survey.toml", "--data", folder / "people.csv")
    assert f"{USERS:,} cells of column 'member' must be yes or no" in done.err
    assert "differs from yes and no, as Y, N, ja or nein do" in done.err
    assert "One spelling for each value" in done.err


@pytest.mark.parametrize("words", [["people.csv", "--json"], ["-", "--format", "csv"]])
def test_cells_are_shown_to_people_only(
    cli: Callable[..., Done], messy: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    monkeypatch.chdir(messy)
    done = cli("check", "two.toml", "--show", "--data", *words)
    assert done.code == 2
    assert "--show must be given for a table in a file, and without --json" in done.out + done.err
    assert CANARY not in done.out + done.err


@pytest.fixture
def gaps(folder: Path) -> Path:
    """A table with three gaps in ages, one of them a word."""
    lines = (folder / "people.csv").read_text().splitlines()
    for row, gap in ((5, "NA"), (6, ""), (7, "nobody knows")):
        lines[row] = ",".join([*lines[row].split(",")[:2], gap])
    (folder / "people.csv").write_text("\n".join(lines) + "\n")
    asked = (
        f"users = {USERS}\nepsilon = 2\ndelta = 1e-6\n"
        '[questions.age]\nkind = "number"\nlow = 0\nhigh = 200\n'
    )
    (folder / "refused.toml").write_text(asked)
    (folder / "counted.toml").write_text(f'{asked}missing = "count"\n')
    (folder / "words.toml").write_text(
        f'{asked}missing = "count"\n[table]\nmissing_values = ["Nobody knows", "na"]\n'
    )
    return folder


def test_gaps_are_counted_and_what_to_do_is_told(cli: Callable[..., Done], gaps: Path) -> None:
    done = cli("check", gaps / "refused.toml", "--data", gaps / "people.csv")
    assert done.code == 2
    assert "2 cells of column 'age' must be given, not missing: rows 6, 7" in done.err
    assert 'missing = "count" lets a gap be an answer like any other' in done.err
    assert "1 cell of column 'age' must be a number: row 8" in done.err


def test_what_stands_for_a_gap_can_be_said(cli: Callable[..., Done], gaps: Path) -> None:
    words = ("check", gaps / "counted.toml", "--data", gaps / "people.csv")
    assert cli(*words).code == 2
    assert cli(*words, "--missing-values", "NA,Nobody Knows").code == 0
    assert cli(*words, "--missing-values", "nobody knows").code == 2
    assert cli("check", gaps / "words.toml", "--data", gaps / "people.csv").code == 0


@pytest.fixture
def strange(folder: Path) -> Path:
    """A table whose column of drinks holds next to nothing that the survey lists."""
    lines = ["drink,age", *(("mate,5", ",70", "tea,80")[i % 3] for i in range(USERS))]
    (folder / "people.csv").write_text("\n".join(lines) + "\n")
    (folder / "drinks.toml").write_text(
        f"users = {USERS}\nepsilon = 2\ndelta = 1e-6\nrows_are_people = true\nmax_messages = 3\n"
        '[questions.drink]\nkind = "choice"\nvalues = ["tea", "other"]\n'
        'missing = "count"\nunknown = "other"\n'
        '[questions.age]\nkind = "number"\nlow = 0\nhigh = 75\nclip = true\n'
    )
    return folder


def test_cells_that_count_as_something_else_are_told(
    cli: Callable[..., Done], strange: Path
) -> None:
    words = ("check", strange / "drinks.toml", "--data", strange / "people.csv")
    done = cli(*words)
    assert done.code == 0
    assert [line.split() for line in done.out.splitlines()[:3]] == [
        ["question", "kind", "column", "blank", "unlisted", "clipped"],
        ["drink", "choice", "drink", "667", "667"],
        ["age", "number", "age", "666"],
    ]
    told = " ".join(done.out.split())
    assert "every cell answers its question, or counts as the survey says" in told
    assert done.err.startswith("warning: more than half of column 'drink' counts as something else")
    assert "'age'" not in done.err
    found = json.loads(cli(*words, "--json").out)["questions"]
    assert [one["counted"] for one in found] == [
        [{"column": "drink", "cells": USERS, "missing": 667, "unknown": 667}],
        [{"column": "age", "cells": USERS, "clipped": 666}],
    ]


@pytest.mark.parametrize("verb", ["run", "pipe", "encode"])
def test_run_and_encode_tell_them_too_and_no_release_does(
    shell: Callable[..., subprocess.CompletedProcess[str]],
    strange: Path,
    verb: str,
) -> None:
    run = "chaffinch run drinks.toml -o out --data"
    lines = {
        "run": f"{run} people.csv",
        "pipe": f"cat people.csv | {run} - --format csv",
        "encode": "chaffinch plan drinks.toml -o d.plan.json -q && chaffinch encode people.csv "
        "--plan d.plan.json -o encoded.parquet --rows-are-people",
    }
    done = shell(lines[verb], strange)
    assert done.returncode == 0, done.stderr
    drinks = "667 blank (counted by `missing`), 667 not listed (counted as `unknown`)"
    assert f"column 'drink', 2,000 cells: {drinks}" in done.stderr
    assert "column 'age', 2,000 cells: 666 clipped" in done.stderr
    assert "no release tells them" in done.stderr
    assert "warning: more than half of column 'drink'" in done.stderr
    if verb != "encode":
        assert "cells" not in (strange / "out" / "release.json").read_text()
        assert drinks not in done.stdout


def test_encode_tells_all_faults_too(cli: Callable[..., Done], messy: Path) -> None:
    words = ("encode", messy / "people.csv", "--plan", messy / "members.plan.json")
    done = cli(*words, "-o", messy / "encoded.parquet")
    assert done.code == 2
    assert "7 cells of column 'member' must be yes or no" in done.err
    assert not (messy / "encoded.parquet").exists()


def test_a_table_without_faults(cli: Callable[..., Done], folder: Path) -> None:
    words = ("check", folder / "survey.toml", "--data", folder / "people.csv")
    done = cli(*words)
    assert (done.code, done.err) == (0, "")
    assert "2,000 rows, 2,000 needed; every cell answers its question." in done.out
    assert json.loads(cli(*words, "--json").out) == {
        "rows": USERS,
        "protected": "row",
        "rows_needed": USERS,
        "notes": [],
        "questions": [{"question": "member", "kind": "bit", "columns": ["member"]}],
    }
    assert cli("check", folder / "members.plan.json", *words[2:]).code == 0


@pytest.mark.usefixtures("no_planning")
@pytest.mark.parametrize("verb", ["check", "run"])
def test_too_few_rows_are_told_before_planning(
    cli: Callable[..., Done], folder: Path, verb: str
) -> None:
    lines = (folder / "people.csv").read_text().splitlines()[:-1]
    (folder / "few.csv").write_text("\n".join(lines) + "\n")
    words = [verb, folder / "survey.toml", "--data", folder / "few.csv"]
    done = cli(*words, *(["-o", folder / "out"] if verb == "run" else []))
    assert done.code == 4
    assert "The table must have 2,000 rows or more. Got 1,999." in done.err
    assert "wait for more" not in done.err
    done = cli(*words, "--person", "id", *(["-o", folder / "out"] if verb == "run" else []))
    assert "The table must have 2,000 people or more. Got 1,999." in done.err


@pytest.mark.parametrize("verb", ["check", "run"])
@pytest.mark.parametrize("times", [1, 2])
def test_many_more_rows_than_users_are_told(
    cli: Callable[..., Done], folder: Path, verb: str, times: int
) -> None:
    head, *rows = (folder / "people.csv").read_text().splitlines()
    rows = rows * times if times > 1 else [*rows, *rows[1:]]
    (folder / "many.csv").write_text("\n".join([head, *rows]) + "\n")
    words = [verb, folder / "survey.toml", "--data", folder / "many.csv"]
    done = cli(*words, *(["-o", folder / "out"] if verb == "run" else []))
    assert done.code == 0, done.err
    said = "a larger `users` gives a smaller error"
    assert (said in done.err) is (times == 2)
    assert said not in done.out


def test_how_a_table_is_written_is_said(cli: Callable[..., Done], folder: Path) -> None:
    text = (folder / "people.csv").read_text().replace(",", ";").replace("member", "Mitglied,ja", 1)
    (folder / "people.csv").write_text(text.replace("age", "Größe", 1), encoding="cp1252")
    words = ["check", folder / "survey.toml", "--data", folder / "people.csv"]
    words += ["--column", "Mitglied,ja"]
    done = cli(*words)
    assert done.code == 2
    assert "--encoding cp1252" in done.err
    done = cli(*words, "--encoding", "cp1252")
    assert (done.code, done.err) == (0, "the table: its cells are separated by ';'\n")
    survey = folder / "survey.toml"
    survey.write_text(survey.read_text() + '[table]\nencoding = "cp1252"\nseparator = ";"\n')
    done = cli(*words)
    assert (done.code, done.err) == (0, "")
    assert cli(*words, "--separator", "comma").code == 2
    survey.write_text(survey.read_text() + 'comma = ";"\n')
    done = cli(*words)
    assert done.code == 2
    assert "table.comma: is not known here" in done.err


@pytest.mark.parametrize("verb", ["check", "run"])
def test_an_only_column_of_another_name_is_refused(
    cli: Callable[..., Done], folder: Path, verb: str
) -> None:
    lines = ["has_hiv", *["yes", "no"] * (USERS // 2)]
    (folder / "one.csv").write_text("\n".join(lines) + "\n")
    words = [verb, folder / "survey.toml", "--data", folder / "one.csv", "-q"]
    words += ["-o", folder / "out"] if verb == "run" else []
    done = cli(*words)
    assert (done.code, done.out) == (2, "")
    assert "'member' must be in the table. Got only the column 'has_hiv'." in done.err
    assert "--column has_hiv" in done.err
    assert not (folder / "out").exists()
    done = cli(*words, "--column", "has_hiv")
    assert (done.code, done.err) == (0, "")
    survey = folder / "survey.toml"
    survey.write_text(survey.read_text() + 'column = "has_hiv"\n')
    assert cli("check", *words[1:5]).code == 0


def test_numbers_as_people_write_them(cli: Callable[..., Done], folder: Path) -> None:
    rows = ["id;price", *(f'{i};"1.{i % 900:03},50 €"' for i in range(USERS))]
    (folder / "prices.csv").write_text("\n".join(rows) + "\n")
    survey = folder / "prices.toml"
    survey.write_text(
        f"users = {USERS}\nepsilon = 2\ndelta = 1e-6\n"
        '[questions.price]\nkind = "number"\nlow = 0\nhigh = 2000\n'
    )
    words = ["check", survey, "--data", folder / "prices.csv"]
    done = cli(*words)
    assert done.code == 0, done.err
    assert done.err.splitlines() == [
        "the table: its cells are separated by ';'",
        "the table: numbers of column 'price' are read as in 1.234,50 €",
    ]
    done = cli("run", *words[1:], "-o", folder / "out")
    assert done.code == 0, done.err
    assert done.err.splitlines()[1].endswith("are read as in 1.234,50 €")
    mean = cf.load_release(folder / "out" / "release.json").table()[0]
    truth = 1000.5 + sum(i % 900 for i in range(USERS)) / USERS
    assert mean.standard_error is not None
    assert abs(mean.estimate - truth) < 12 * mean.standard_error
    (folder / "prices.csv").write_text("\n".join(["price", *(['"1,234"'] * USERS)]) + "\n")
    done = cli(*words)
    assert done.code == 2
    assert "ambiguous ones such as 1,234 or 1.234" in done.err
    assert cli(*words, "--thousands", ",").code == 0
    assert cli(*words, "--decimal", ",").code == 0


# ------------------------------------------------------------------ plans that are kept


@pytest.mark.long
def test_a_plan_is_kept_although_the_table_is_bad(
    shell: Callable[..., object], cli: Callable[..., Done], messy: Path
) -> None:
    """Of a pipe the faults are seen only while it is encoded; its plan is not lost."""
    shell("cat people.csv | chaffinch run survey.toml --data - --format csv -o out", messy)
    out = messy / "out"
    assert {path.name for path in out.iterdir()} == {"survey.plan.json", ".chaffinch-survey.json"}
    text = (messy / "people.csv").read_text()
    (messy / "people.csv").write_text(text.replace(CANARY, "yes"))
    before = (out / "survey.plan.json").read_bytes()
    done = cli("run", messy / "survey.toml", "--data", messy / "people.csv", "-o", out)
    assert done.code == 0, done.err
    assert "using the plan that was made for this survey before" in done.err
    assert "planning" not in done.err
    assert (out / "survey.plan.json").read_bytes() == before


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("users = 2000", "users = 1999"),
        nightly("epsilon = 1", "epsilon = 0.9"),
        ("[q", "anyway = true\n[q"),
    ],
)
def test_another_survey_gets_another_plan(
    cli: Callable[..., Done], folder: Path, old: str, new: str
) -> None:
    tail = ("--data", folder / "people.csv", "-o", folder / "out")
    assert cli("run", folder / "survey.toml", *tail).code == 0
    text = (folder / "survey.toml").read_text()
    assert old in text
    (folder / "survey.toml").write_text(text.replace(old, new))
    done = cli("run", folder / "survey.toml", *tail, "--replace", "--again")
    assert done.code == 0, done.err
    assert "made for this survey before" not in done.err


def test_a_kept_plan_that_is_not_the_survey_s_is_not_used(
    cli: Callable[..., Done], folder: Path
) -> None:
    tail = ("--data", folder / "people.csv", "-o", folder / "out")
    assert cli("run", folder / "survey.toml", *tail).code == 0
    weak = cf.plan(
        cf.Survey({"member": cf.Bit()}, "Members"),
        users=USERS,
        target=cf.Target(3.0, 1e-6),
        max_messages=1,
    )
    (folder / "out" / "survey.plan.json").unlink()
    weak.save(folder / "out" / "survey.plan.json")
    note = folder / "out" / ".chaffinch-survey.json"
    note.write_text(json.dumps(json.loads(note.read_text()) | {"plan": weak.id}))
    done = cli("run", folder / "survey.toml", *tail, "--replace", "--again")
    assert "made for this survey before" not in done.err
    assert cf.load_plan(folder / "out" / "survey.plan.json").epsilon <= 1


@pytest.mark.usefixtures("no_planning")
def test_a_plan_may_be_given_with_its_survey(cli: Callable[..., Done], folder: Path) -> None:
    given = folder / "given.plan.json"
    survey = cf.Survey({"member": cf.Bit(missing="refuse")})
    cf.plan(survey, users=USERS, target=cf.Target(1.0, 1e-6), max_messages=1).save(given)
    tail = ("--data", folder / "people.csv", "--plan", given, "-o")
    assert cli("run", folder / "survey.toml", *tail, folder / "a").code == 0
    text = (folder / "survey.toml").read_text()
    (folder / "survey.toml").write_text(text.replace("epsilon = 1", "epsilon = 0.9"))
    done = cli("run", folder / "survey.toml", *tail, folder / "b")
    assert done.code == 2
    assert "asks and promises what the survey does" in done.err
    assert cli("run", given, *tail, folder / "c").code == 2
