"""Whatever is wrong: one clear error, its exit code, nothing left behind, nothing private told."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import chaffinch as cf
from chaffinch.errors import InvalidInput, InvalidTable, StorageFault
from tests.cli.conftest import USERS, Done

CANARY = "CANARY8731"


def text(content: str) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        path = folder / "data.csv"
        path.write_text(content)
        return path

    return write


def rows(*answers: str) -> Callable[[Path], Path]:
    return text("\n".join(["member", *["yes"] * USERS, *answers, ""]))


def truncated_parquet(folder: Path) -> Path:
    path = folder / "data.parquet"
    pq.write_table(pa.table({"member": [CANARY] * USERS}), path)
    path.write_bytes(path.read_bytes()[:-20])
    return path


def mixed_lines(folder: Path) -> Path:
    path = folder / "data.jsonl"
    path.write_text('{"member": true}\n{"member": ["' + CANARY + '"]}\n')
    return path


def nan_parquet(folder: Path) -> Path:
    path = folder / "data.parquet"
    pq.write_table(pa.table({"member": [1.0] * USERS + [float("nan"), 2.0]}), path)
    return path


def nothing(folder: Path) -> Path:
    return folder / "none.csv"


TABLES = {
    "empty file": (text(""), 2),
    "only a header": (text("member\n"), 2),
    "no such file": (nothing, 5),
    "a folder": (lambda folder: folder, 2),
    "wrong column": (text(f"other,second\n{CANARY},1\n"), 2),
    "unknown value": (rows(CANARY), 2),
    "a gap that is refused": (rows('""'), 2),
    "out of bounds": (rows("2"), 2),
    "not a number": (nan_parquet, 2),
    "mixed types": (mixed_lines, 2),
    "ragged rows": (text(f"member,x\nyes,1\nno,{CANARY},3,4\n"), 2),
    "truncated Parquet": (truncated_parquet, 2),
    "crowd too small": (text("member\nyes\nno\n"), 4),
    "control characters": (rows(f"\x1b[31m{CANARY}"), 2),
}


@pytest.fixture
def refusing(folder: Path) -> Path:
    """A plan that refuses gaps."""
    plan = cf.plan(
        cf.Survey({"member": cf.Bit("refuse")}),
        users=USERS,
        target=cf.Target(1.0, 1e-6),
        max_messages=1,
    )
    plan.save(folder / "refusing.plan.json")
    return folder / "refusing.plan.json"


@pytest.mark.parametrize("name", TABLES)
def test_a_table_that_cannot_do(
    name: str, cli: Callable[..., Done], folder: Path, refusing: Path
) -> None:
    make, code = TABLES[name]
    data = make(folder)
    before = sorted(folder.rglob("*"))
    for words in (
        ("run", refusing, "--data", data, "--out", folder / "out"),
        ("run", refusing, "--data", data, "--out", folder / "out", "--json"),
        ("encode", data, "--plan", refusing, "-o", folder / "messages.parquet"),
    ):
        done = cli(*words)
        if name == "crowd too small" and words[0] == "encode":
            assert done.code == 0  # the shuffler counts the crowd
            (folder / "messages.parquet").unlink()
            continue
        assert done.code == code, done
        assert CANARY not in done.out + done.err
        assert "\x1b" not in done.out + done.err
        if "--json" in words:
            assert json.loads(done.out)["error"]["message"]
        else:
            assert done.err.count("error: ") == 1
            assert done.out == ""
        assert sorted(folder.rglob("*")) == before


def changed(path: Path) -> None:
    content = path.read_bytes()
    place = content.index(b'"users": 2000') + len(b'"users": ')
    path.write_bytes(content[:place] + b"9" + content[place + 1 :])


def other_version(path: Path) -> None:
    path.write_text(path.read_text().replace("chaffinch/plan@1", "chaffinch/plan@2"))


def cut_off(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-40])


def emptied(path: Path) -> None:
    path.write_bytes(b"")


@pytest.mark.parametrize("spoil", [changed, other_version, cut_off, emptied])
def test_a_plan_that_cannot_do(
    spoil: Callable[[Path], None], cli: Callable[..., Done], folder: Path
) -> None:
    plan, data = folder / "members.plan.json", folder / "people.csv"
    spoil(plan)
    for words in (
        ("plan", "--check", plan),
        ("run", plan, "--data", data, "--out", folder / "out"),
        ("encode", data, "--plan", plan, "-o", folder / "m.parquet"),
        ("simulate", "--plan", plan),
    ):
        done = cli(*words)
        assert done.code == 2
        assert done.err.count("error: ") == 1
    assert not (folder / "out").exists()
    assert not (folder / "m.parquet").exists()


def test_a_plan_that_promises_too_much(cli: Callable[..., Done], folder: Path) -> None:
    from dataclasses import replace

    plan = cf.load_plan(folder / "members.plan.json")
    replace(plan, epsilon=0.5, shares=()).save(folder / "bold.plan.json")
    done = cli("plan", "--check", folder / "bold.plan.json")
    assert done.code == 4
    assert "do not use it" in done.err
    data, out = folder / "people.csv", folder / "out"
    assert cli("run", folder / "bold.plan.json", "--data", data, "--out", out).code == 4
    assert not out.exists()


def test_messages_of_another_plan_or_stage(cli: Callable[..., Done], folder: Path) -> None:
    from dataclasses import replace

    plan = cf.load_plan(folder / "members.plan.json")
    replace(plan, title="another").save(folder / "other.plan.json")
    encoded, shuffled = folder / "encoded.parquet", folder / "shuffled.parquet"
    mine = ("--plan", folder / "members.plan.json")
    other = ("--plan", folder / "other.plan.json")
    done = cli("encode", folder / "people.csv", *mine, "-o", encoded, "--json")
    assert json.loads(done.out) == {
        "plan": plan.id,
        "stage": "encoded",
        "reports": USERS,
        "file": str(encoded),
    }
    assert cli("shuffle", encoded, *other, "-o", shuffled).code == 4
    assert cli("analyze", encoded, *mine).code == 2
    assert cli("shuffle", encoded, encoded, *mine, "-o", shuffled).code == 4
    assert not shuffled.exists()
    assert cli("shuffle", encoded, *mine, "-o", shuffled).code == 0
    assert cli("shuffle", shuffled, *mine, "-o", folder / "again.parquet").code == 2
    assert cli("analyze", shuffled, *mine, "-o", folder / "release.docx").code == 2
    done = cli("analyze", shuffled, *mine, "-o", folder / "r.html", "-o", folder / "r.parquet")
    assert done.code == 0
    assert (folder / "r.html").exists()
    assert (folder / "r.parquet").exists()


def test_a_batch_that_is_too_small(cli: Callable[..., Done], folder: Path) -> None:
    (folder / "few.csv").write_text("member\n" + "yes\n" * (USERS - 1))
    mine = ("--plan", folder / "members.plan.json")
    assert cli("encode", folder / "few.csv", *mine, "-o", folder / "e.parquet").code == 0
    done = cli("shuffle", folder / "e.parquet", *mine, "-o", folder / "s.parquet", "--json")
    assert done.code == 4
    assert json.loads(done.out)["error"]["details"] == {"have": USERS - 1, "need": USERS}
    assert not (folder / "s.parquet").exists()
    assert cli("encode", folder / "few.csv", *mine, "-o", folder / "f.parquet").code == 0
    together = (folder / "e.parquet", folder / "f.parquet")
    assert cli("shuffle", *together, *mine, "-o", folder / "s.parquet").code == 0


def test_a_full_disk(cli: Callable[..., Done], folder: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    mine = ("--plan", folder / "members.plan.json")
    done = cli("encode", folder / "people.csv", *mine, "-o", "/dev/full")
    assert done.code == 5
    assert "no space left" in done.err


def test_a_folder_that_cannot_be_written(cli: Callable[..., Done], folder: Path) -> None:
    closed = folder / "closed"
    closed.mkdir()
    if os.geteuid() == 0:
        closed = Path("/proc")  # nobody makes files there, not even root
    else:
        closed.chmod(0o500)
    mine = ("--plan", folder / "members.plan.json")
    data = folder / "people.csv"
    for words in (
        ("run", folder / "members.plan.json", "--data", data, "--out", closed / "out"),
        ("run", folder / "members.plan.json", "--data", data, "--out", closed),
        ("encode", data, *mine, "-o", closed / "m.parquet"),
        ("plan", "--check", folder / "members.plan.json", "-o", closed / "p.json"),
    ):
        done = cli(*words)
        assert done.code == 5, done
        assert done.err.count("error: ") == 1
    shutil.rmtree(folder / "closed")


def test_whatever_file_is_missing_the_end_is_the_same(
    cli: Callable[..., Done], folder: Path
) -> None:
    plan, data, none = folder / "members.plan.json", folder / "people.csv", folder / "none"
    ledger, mark = folder / "ledger.db", folder / "ledger.mark"
    cli("ledger", "create", ledger, "--mark", mark, "--epsilon", 1, "--delta", 1e-5)
    before = sorted(folder.iterdir())
    for words in (
        ("plan", none),
        ("plan", "--check", none),
        ("run", none, "--data", data, "--out", folder / "out"),
        ("run", plan, "--data", none, "--out", folder / "out"),
        ("encode", none, "--plan", plan, "-o", folder / "m"),
        ("encode", data, "--plan", none, "-o", folder / "m"),
        ("shuffle", none, "--plan", plan, "-o", folder / "m"),
        ("analyze", none, "--plan", plan),
        ("analyze", none, "--plan", plan, "--ledger", none, "--mark", mark),
        ("simulate", "--plan", plan, "--population", f"{none}:member"),
        ("audit", "--plan", none),
        ("ledger", "show", none, "--mark", mark),
        ("ledger", "check", ledger, "--mark", none),
        ("ledger", "charge", ledger, "--mark", mark, "--plan", none, "--key", "k"),
    ):
        done = cli(*words)
        assert (done.code, done.out) == (5, ""), words
        assert done.err == (
            "error: The file 'none' must be possible to read. Got no such file or folder.\n"
            f"hint: it was looked for in {folder}\n"
        )
        assert sorted(folder.iterdir()) == before
    done = cli("encode", data, "--plan", folder / "plnas" / "none", "-o", folder / "m")
    assert done.err.endswith(f"hint: there is no folder {folder / 'plnas'}\n")


def test_a_question_without_a_column_leads_to_the_option(
    cli: Callable[..., Done], folder: Path
) -> None:
    data, plan = folder / "other.csv", folder / "members.plan.json"
    data.write_text((folder / "people.csv").read_text().replace("member", "joined", 1))
    encode = ("encode", data, "--plan", plan, "-o", folder / "m")
    for words in (encode, ("run", plan, "--data", data, "--out", folder / "out")):
        assert "add --map member=COLUMN" in cli(*words).err
        # A column that was named is misspelled; the option is known already.
        assert "add --map" not in cli(*words, "--map", "member=nobody").err
        assert cli(*words, "--map", "member=joined").code == 0


@pytest.mark.parametrize(
    ("words", "got"),
    [
        (["plan"], "none of them"),
        (["plan", "--bit", "--example"], "several of them"),
        (["plan", "--bit", "--epsilon", 1], "none"),
        (["plan", "--bit", "--users", 9], "neither"),
        (["plan", "--bit", "--users", 9, "--epsilon", 1, "--error", "1%"], "both"),
        (["plan", "--bit", "--flags", "a,b", "--users", 9, "--epsilon", 1], "2"),
        (["plan", "--bit", "--clip", "--users", 9, "--epsilon", 1], "another question"),
        (["privacy", "bits"], "nothing"),
        (["simulate"], "neither"),
    ],
)
def test_what_nobody_typed_has_no_quotes(
    words: list[object], got: str, cli: Callable[..., Done]
) -> None:
    done = cli(*words)
    assert done.code == 2
    assert done.err.splitlines()[0].endswith(f" Got {got}.")


def test_json_and_messages_do_not_share_a_pipe(cli: Callable[..., Done], folder: Path) -> None:
    mine = ("--plan", folder / "members.plan.json")
    done = cli("encode", folder / "people.csv", *mine, "--json")
    assert done.code == 2
    assert json.loads(done.out)["error"]["hint"] == "add -o FILE"


SURVEY = "users = 100\nepsilon = 1\n[questions.q]\nkind = {kind}\n"
WORDS: dict[str, tuple[str, str, list[str]]] = {
    "a level in percent": (
        "analyze none.parquet --plan members.plan.json --level 95",
        "",
        ["did you mean 0.95, which is 95%?"],
    ),
    "an error in percent": (
        "plan --bit --users 1000 --error 5",
        "",
        ["error must be a number", "did you mean 0.05, which is 5%?"],
    ),
    "an error that nobody can have": (
        "plan --choice a,b,c --users 1000 --error 0.0001%",
        "",
        ["a larger error"],
    ),
    "groups that are not asked": (
        "plan file.toml",
        SURVEY.format(kind='"bit"\nby = "Abteilung"'),
        [
            "groups of 'q' (by)",
            "another question, with values of its own (there are 'q')",
            "Got 'Abteilung'",
        ],
    ),
    "another kind": (
        "plan file.toml",
        SURVEY.format(kind='"zzz"'),
        ["kind must be bit, choice, number or flags, not 'zzz'\n"],
    ),
    "a table in place of a batch": (
        "analyze people.csv --plan members.plan.json",
        "",
        ["Got a file with the name of a table", "`chaffinch run` takes a table"],
    ),
    "rows that are cut off": (
        "check survey.toml --data file.toml --format csv",
        "member,x\nyes,1\nno\n",
        ["Got fewer cells in row 3", "an empty cell has a delimiter, too"],
    ),
    "no format": (
        "plan --check members.json",
        "",
        ["Got no format"],
    ),
    "a folder below a file": (
        "run survey.toml --data people.csv --out file.toml/x",
        "x",
        ["The folder 'file.toml/x'"],
    ),
    "no epsilon of a reach": (
        "reach plan --publisher a=100 --publisher b=100",
        "",
        ["given by --epsilon. Got none."],
    ),
}


@pytest.mark.parametrize("case", WORDS)
def test_an_error_says_what_was_probably_meant(
    case: str, cli: Callable[..., Done], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    line, content, expected = WORDS[case]
    monkeypatch.chdir(folder)
    (folder / "file.toml").write_text(content)
    (folder / "members.json").write_text("{}")
    done = cli(*line.split())
    assert done.code != 0
    for words in expected:
        assert words in done.err
    assert "known: bit" not in done.err


def test_small_slips_are_told_or_understood(
    cli: Callable[..., Done], plan: cf.Plan, tmp_path: Path
) -> None:
    made = cli("plan", "--bit", "--users", "2,000", "--epsilon", 1, "-o", tmp_path / "b.plan.json")
    assert made.code == 0, made.err
    assert cf.load_plan(tmp_path / "b.plan.json").users == 2000
    assert cli("plan", "--bit", "--users", "2,00", "--epsilon", 1).code == 2
    done = cli("simulate", tmp_path / "b.plan.json", "--runs", 100, "--seed", 1)
    assert "100 collections of 2,000 people" in done.out, done.err
    several = cf.plan(cf.Bit(), users=USERS, target=cf.Target(2.0, 1e-4), rounds=3)
    with pytest.raises(InvalidInput, match="Got none") as refused:
        cf.encode("yes", several)
    assert "--round 1 (round=1)" in refused.value.hint
    release = cf.analyze(cf.shuffle(cf.encode_many(["yes"] * USERS, plan)), plan)
    with pytest.raises(StorageFault, match="folder 'gone' must be possible to find"):
        release.save(tmp_path / "gone" / "release.html")
    frame = pd.DataFrame({"member": ["yes"] * USERS, "id": range(USERS)}).set_index("id")
    with pytest.raises(InvalidTable) as missing:
        cf.check(frame, plan, person="id")
    assert "reset_index()" in missing.value.hint
