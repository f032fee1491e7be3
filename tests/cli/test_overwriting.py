"""No output replaces a plan, a key, a ledger, its mark, a record, a filter, a batch or an input."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from chaffinch import Bit, Ledger, Plan, Target, analyze, charts, load_plan, plan, reach
from chaffinch.cli import demo as survey_demo
from chaffinch.cli import main
from chaffinch.cli.reach import reach_demo
from chaffinch.disk.file_kinds import Kind
from chaffinch.disk.protected import kind_of
from chaffinch.engines import engine
from chaffinch.errors import InvalidFile, InvalidInput
from chaffinch.keys import KeyFolder
from chaffinch.planning.survey_file import SurveyFile
from chaffinch.plans.parties import Parties, Party
from tests.cli.conftest import Done
from tests.tiers import chequered, nightly

KINDS = {
    "survey.plan.json": Kind.PLAN,
    "reach.plan.json": Kind.PLAN,
    "campaign.key": Kind.KEY,
    "campaign.key.record": Kind.KEY_RECORD,
    "ledger": Kind.LEDGER,
    "mark": Kind.MARK,
    "shuffler.record": Kind.BATCH_RECORD,
    "daily.filter": Kind.FILTER,
    "encoded.parquet": Kind.BATCH,
    "shuffled.parquet": Kind.BATCH,
    "encoded.arrow": Kind.BATCH,
    "shuffled.arrow": Kind.BATCH,
    "release.json": Kind.RELEASE,
    "release.parquet": Kind.RELEASE,
    "release.csv": Kind.RELEASE,
    "release.html": Kind.RELEASE,
}
FEW = ("survey.plan.json", "campaign.key", "ledger", "daily.filter")
"""For verbs that take long before they find what is in their way."""
INPUTS = ("people.csv", "survey.toml", "ids.csv")
OTHERS = ("people.parquet", "people.arrow")
"""What is nobody's but its owner's."""
SURVEY = (
    'users = 30\nepsilon = 2\ndelta = 1e-2\nmax_messages = 1\n\n[questions.answer]\nkind = "bit"\n'
)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with one file of every kind, and what verbs read."""
    folder = tmp_path_factory.mktemp("kinds")
    made = plan(Bit(), users=30, target=Target(2, 1e-2), max_messages=1)
    made.save(folder / "survey.plan.json")
    (folder / "survey.toml").write_text(SURVEY)
    (folder / "people.csv").write_text("answer\n" + "yes\nno\n" * 20)
    local = engine()
    local.encode(folder / "people.csv", made, folder / "encoded.parquet")
    encoded, shuffled = folder / "encoded.parquet", folder / "shuffled.parquet"
    local.shuffle([encoded], made, shuffled, record=folder / "shuffler.record")
    local.encode(folder / "people.csv", made, folder / "encoded.arrow")
    local.shuffle([encoded], made, folder / "shuffled.arrow", record=folder / "second.record")
    release = analyze(local.tally([shuffled], made), made)
    for name, kind in KINDS.items():
        if kind is Kind.RELEASE:
            release.save(folder / name)
    table = pa.table({"answer": ["yes", "no"]})
    pq.write_table(table, folder / "people.parquet")
    with (
        pa.OSFile(str(folder / "people.arrow"), "wb") as file,
        pa.ipc.new_stream(file, table.schema) as stream,
    ):
        stream.write_table(table)
    audience = reach.plan(reach.Audience(["daily"]), sizes=[1000], target=Target(2, 1e-4))
    audience.save(folder / "reach.plan.json")
    (folder / "ids.csv").write_text("id\n" + "".join(f"{n}\n" for n in range(1000)))
    reach.new_key().save(folder / "campaign.key")
    key = reach.load_key(folder / "campaign.key")
    reach.encode(folder / "ids.csv", audience, publisher="daily", key=key).save(
        folder / "daily.filter"
    )
    cap = Target(3, 1e-2)
    Ledger.create(folder / "ledger", role="analyzer", cap=cap, mark=folder / "mark")
    return folder


@pytest.fixture
def folder(whole: Path, tmp_path: Path) -> Path:
    """Return a copy for one test."""
    for file in whole.iterdir():
        copy = tmp_path / file.name
        copy.write_bytes(file.read_bytes())
        copy.chmod(file.stat().st_mode & 0o777)
    return tmp_path


def verbs(folder: Path) -> dict[str, tuple[list[str], str]]:
    """Return every verb that writes a file, and how the file's name must end."""
    plan_file, reach_plan = folder / "survey.plan.json", folder / "reach.plan.json"
    publisher = f"--plan {reach_plan} --publisher daily --key {folder / 'other.key'}"
    words = {
        "plan": (f"plan {folder / 'survey.toml'} -o", ""),
        "plan --check": (f"plan --check {plan_file} -o", ""),
        "encode": (f"encode {folder / 'people.csv'} --plan {plan_file} -o", ""),
        "shuffle": (
            f"shuffle {folder / 'encoded.parquet'} --plan {plan_file} --record {folder / 'r'} -o",
            "",
        ),
        "analyze": (f"analyze {folder / 'shuffled.parquet'} --plan {plan_file} -o", ".json"),
        "privacy": ("privacy bits --users 100 --flip 0.1 --plot", ".svg"),
        "reach plan": ("reach plan --publisher daily=1000 --epsilon 2 --delta 1e-4 -o", ""),
        "reach key": ("reach key -o", ""),
        "reach encode": (f"reach encode {folder / 'ids.csv'} {publisher} -o", ""),
        "reach analyze": (
            f"reach analyze {folder / 'daily.filter'} --plan {reach_plan} -o",
            ".json",
        ),
    }
    return {name: (line.split(), end) for name, (line, end) in words.items()}


FOLDERS = {
    "run": ("survey.plan.json", "release.html", "release.json", "release.csv"),
    "demo": ("browsers.plan.json", "release.html", "survey.toml", "people.csv"),
    "reach demo": ("campaign.plan.json", "campaign.key", "daily.filter", "release.html"),
    "reach figures": ("signal-to-noise.html", "skewness.svg"),
    "figures copies-numbers": ("figures.html", "copies-numbers.csv"),
}
NAMES = list(verbs(Path()))


def may_replace(verb: str, name: str) -> bool:
    """Return whether a verb writes the very plan that is there, or a release over a release."""
    if KINDS.get(name) is Kind.RELEASE:
        return verb in ("analyze", "reach analyze")
    return (verb.rsplit(maxsplit=1)[-1], name) in {
        ("plan", "survey.plan.json"),
        ("--check", "survey.plan.json"),
        ("plan", "reach.plan.json"),
    }


@pytest.mark.parametrize(
    ("verb", "link"), chequered(((verb,) for verb in NAMES), ["itself", "symlink", "hard link"])
)
def test_no_verb_overwrites_what_cannot_be_made_again(
    verb: str, link: str, folder: Path, cli: Callable[..., Done]
) -> None:
    reach.new_key().save(folder / "other.key")
    words, end = verbs(folder)[verb]
    for name in (*KINDS, *INPUTS):
        if may_replace(verb, name):
            continue
        if name in INPUTS and str(folder / name) not in words:
            continue  # no input of this verb
        path = folder / name
        before = path.read_bytes()
        target = folder / (name + end)
        if link == "symlink":
            target = folder / f"link{end}"
            target.symlink_to(path)
        elif link == "hard link" or target != path:
            target = folder / f"link{end}"
            os.link(path, target)
        done = cli(*words, target)
        assert done.code in (2, 5), (verb, name, done)
        assert path.read_bytes() == before, (verb, name)
        assert target.read_bytes() == before, (verb, name)
        if target != path:
            target.unlink()
    assert not list(folder.glob(".*"))
    done = cli(*words, folder / f"new{end}")
    assert done.code == 0, done


@pytest.fixture
def _small_demos(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let demos count a few people: the files that they write are the same."""
    for name, value in (("PEOPLE", 60), ("EPSILON", 3.0), ("DELTA", 1e-2)):
        monkeypatch.setattr(survey_demo, name, value)
    monkeypatch.setattr(reach_demo, "_UNIVERSE", 4000)
    monkeypatch.setattr(reach_demo, "SIZES", {"daily": 1600, "radio": 800, "shop": 1800})


@pytest.mark.usefixtures("_small_demos")
@pytest.mark.parametrize(
    ("verb", "kinds"),
    [
        ("run", KINDS),
        ("demo", FEW),
        nightly("demo", KINDS),
        nightly("reach demo", FEW),
        nightly("reach demo", KINDS),
        ("reach figures", KINDS),
        nightly("figures copies-numbers", FEW),
    ],
)
def test_no_folder_is_filled_over_what_cannot_be_made_again(
    verb: str, kinds: Iterable[str], folder: Path, cli: Callable[..., Done]
) -> None:
    inputs: list[str | Path] = []
    if verb == "run":
        inputs = [folder / "survey.toml", "--data", folder / "people.csv", "--again"]
    for name in kinds:
        for target in FOLDERS[verb] if name == "campaign.key" else FOLDERS[verb][:1]:
            out = folder / "out"
            out.mkdir()
            os.link(folder / name, out / target)
            before = (folder / name).read_bytes()
            done = cli(*verb.split(), *inputs, "-o", out)
            assert done.code in (0, 2), (verb, name, done)
            assert (folder / name).read_bytes() == before
            if done.code == 0:  # the very same plan
                assert kind_of(out / target) is Kind.PLAN
            assert (out / target).read_bytes() == before, (verb, name, target)
            for left in out.iterdir():
                left.unlink()
            out.rmdir()


@pytest.mark.parametrize("end", [".json", ".csv", ".html", ".parquet"])
def test_a_release_replaces_only_a_release(
    end: str, folder: Path, cli: Callable[..., Done]
) -> None:
    """Whatever else is there may be the only copy of somebody's table, or notes."""
    for verb in ("analyze", "reach analyze"):
        words, _ = verbs(folder)[verb]
        for content in (b"id,name\n1,a\n", b"{}\n", b"<!DOCTYPE html>\n<p>mine</p>\n"):
            target = folder / f"mine{end}"
            target.write_bytes(content)
            done = cli(*words, target)
            assert (done.code, "a new file or a release" in done.err) == (2, True), done
            assert target.read_bytes() == content
        target.write_bytes(b"")
        assert cli(*words, target).code == 0, "an empty file holds nothing"
        first = target.read_bytes()
        assert kind_of(target) is Kind.RELEASE
        assert cli(*words, target).code == 0
        assert target.read_bytes() == first, "the same release"
        target.unlink()


@pytest.mark.parametrize("name", FOLDERS["run"][1:])
def test_run_replaces_nothing_of_its_users(
    name: str, folder: Path, cli: Callable[..., Done]
) -> None:
    out = folder / "out"
    out.mkdir()
    (out / name).write_text("mine")
    words = ["run", folder / "survey.toml", "--data", folder / "people.csv", "-o", out]
    done = cli(*words)
    assert (done.code, "a new file or a release" in done.err) == (2, True), done
    assert (out / name).read_text() == "mine"
    (out / name).unlink()
    assert cli(*words).code == 0


@pytest.mark.usefixtures("_small_demos")
def test_a_demo_replaces_nothing_but_a_demo(folder: Path, cli: Callable[..., Done]) -> None:
    words = ("demo", "-q", "-o", folder / "out")
    assert cli(*words).code == 0
    assert cli(*words).code == 0, "its own files are made anew"
    for name in ("people.csv", "survey.toml", "release.html"):
        mine = folder / f"mine-{name}"
        mine.mkdir()
        (mine / name).write_text("mine")
        assert cli("demo", "-q", "-o", mine).code == 2
        assert [(one.name, one.read_text()) for one in mine.iterdir()] == [(name, "mine")]
    # Nor a release of somebody else.
    real = folder / "real"
    real.mkdir()
    before = (folder / "release.json").read_bytes()
    (real / "release.json").write_bytes(before)
    assert cli("demo", "-q", "-o", real).code == 2
    assert (real / "release.json").read_bytes() == before


def test_own_work_around_a_release_is_no_release(folder: Path, cli: Callable[..., Done]) -> None:
    words, _ = verbs(folder)["analyze"]
    release, rows = ((folder / f"release.{end}").read_text() for end in ("json", "csv"))
    for end, content in (
        (".json", f'{{"mine": 1, "release": {release}}}'),
        (".csv", f'"my",{rows}'),
    ):
        target = folder / f"mine{end}"
        target.write_text(content)
        assert kind_of(target) is None
        assert cli(*words, target).code == 2
        assert target.read_text() == content
    table = folder / "mine.csv"
    before = table.read_bytes()
    done = cli("encode", folder / "people.csv", "--plan", folder / "survey.plan.json", "-o", table)
    assert done.code == 2
    assert table.read_bytes() == before


def test_run_does_not_overwrite_its_own_table(folder: Path, cli: Callable[..., Done]) -> None:
    out = folder / "out"
    out.mkdir()
    (folder / "people.csv").rename(out / "release.csv")
    before = (out / "release.csv").read_bytes()
    done = cli("run", folder / "survey.toml", "--data", out / "release.csv", "-o", out)
    assert (done.code, "another file than the input" in done.err) == (2, True)
    assert (out / "release.csv").read_bytes() == before


def test_a_plan_replaces_only_a_plan(folder: Path) -> None:
    made = plan(Bit(), users=30, target=Target(2, 1e-2), max_messages=1)
    for name in (*(one for one, kind in KINDS.items() if kind is not Kind.PLAN), *INPUTS):
        before = (folder / name).read_bytes()
        with pytest.raises(InvalidInput, match=r"a new file or a plan|ends in \.json"):
            made.save(folder / name)
        assert (folder / name).read_bytes() == before
    made.save(folder / "survey.plan.json")
    (folder / "empty").write_bytes(b"")
    made.save(folder / "empty")


def test_kinds_are_told_by_what_files_hold(folder: Path) -> None:
    assert {name: kind_of(folder / name) for name in KINDS} == KINDS
    for name in (*INPUTS, *OTHERS):
        assert kind_of(folder / name) is None, name
    assert kind_of(folder) is None
    assert kind_of(folder / "none") is None
    # A folder is what its manifest is.
    (folder / "manifest.json").write_bytes((folder / "survey.plan.json").read_bytes())
    assert kind_of(folder) is Kind.PLAN


def test_files_of_messages_are_told_by_their_facts_and_by_no_answer(tmp_path: Path) -> None:
    """Facts stand in the footer of a Parquet file and in the head of a stream."""
    words = "chaffinch.messages"
    answers = pa.table({"answer": ["x" * 100] * 100 + [words] + ["x" * 100] * 100})
    facts = {"first": "x" * 5000, words: "{}", "last": "x" * 5000}
    for table, kind in ((answers, None), (answers.replace_schema_metadata(facts), Kind.BATCH)):
        path = tmp_path / "file"
        plainly = {"compression": "none", "write_statistics": False, "use_dictionary": False}
        pq.write_table(table, path, **plainly)
        assert words.encode() in path.read_bytes()
        assert kind_of(path) is kind
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, table.schema) as stream:
            stream.write_table(table)
        assert words.encode() in path.read_bytes()
        assert kind_of(path) is kind


@pytest.mark.parametrize("before", [b" " * 100, b"\n" * (1 << 19), b"\xef\xbb\xbf" + b"\t" * 100])
@pytest.mark.parametrize("name", ["survey.plan.json", "reach.plan.json"])
def test_a_plan_behind_anything_that_is_skipped_is_kept(
    name: str, before: bytes, folder: Path, cli: Callable[..., Done]
) -> None:
    path, own = folder / "spaced.json", folder / "survey.plan.json"
    path.write_bytes(before + (folder / name).read_bytes())
    assert kind_of(path) is Kind.PLAN
    verb = ("reach", "plan") if name.startswith("reach") else ("plan",)
    assert cli(*verb, "--check", path).code == 0
    done = cli("analyze", folder / "shuffled.parquet", "--plan", own, "-o", path)
    assert (done.code, "another file than a plan" in done.err) == (2, True)
    assert kind_of(path) is Kind.PLAN


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32-le"])
@pytest.mark.parametrize("name", ["survey.plan.json", "reach.plan.json"])
def test_a_plan_that_would_not_be_kept_is_not_read(name: str, encoding: str, folder: Path) -> None:
    path = folder / name
    path.write_bytes(path.read_text(encoding="utf-8").encode(encoding))
    assert kind_of(path) is None
    with pytest.raises(InvalidFile, match="written in another way"):
        (reach.load_plan if name.startswith("reach") else load_plan)(path)


def test_a_plan_whose_format_is_hidden_is_not_read(folder: Path) -> None:
    path = folder / "survey.plan.json"
    path.write_text(path.read_text().replace('"format"', r'"\u0066ormat"'))
    with pytest.raises(InvalidFile, match="written in another way"):
        load_plan(path)


def test_shuffle_replaces_no_batch_but_one_that_was_cut_short(
    folder: Path, cli: Callable[..., Done]
) -> None:
    # What was shuffled is remembered and refused, so a batch that is overwritten is lost.
    plan_file, shuffled = folder / "survey.plan.json", folder / "shuffled.parquet"
    before = shuffled.read_bytes()
    assert cli("encode", folder / "people.csv", "--plan", plan_file, "-o", folder / "m").code == 0
    for record in ("shuffler.record", "another.record"):
        words = ("--plan", plan_file, "--record", folder / record, "-o", shuffled)
        done = cli("shuffle", folder / "m", *words)
        assert (done.code, "another file than one with messages" in done.err) == (2, True)
        assert shuffled.read_bytes() == before
    with closing(sqlite3.connect(folder / "shuffler.record")) as connection, connection:
        connection.execute("UPDATE batches SET finished = 0")
    words = ("--plan", plan_file, "--record", folder / "shuffler.record", "-o", shuffled)
    # It may have been seen, and is whole: only its own shuffle makes it again.
    done = cli("shuffle", folder / "m", *words)
    assert (done.code, "another file than that of another batch" in done.err) == (2, True)
    assert shuffled.read_bytes() == before
    assert cli("shuffle", folder / "encoded.parquet", *words).code == 0
    elsewhere = (*words[:-1], folder / "second.parquet")
    assert cli("shuffle", folder / "m", *elsewhere).code == 0, "what was refused is not recorded"


@pytest.mark.parametrize("verb", ["survey", "reach key", "keys list"])
def test_a_second_name_of_a_file_that_is_there_goes(
    verb: str, folder: Path, cli: Callable[..., Done]
) -> None:
    """A command that is killed right after its file has its name leaves the one it had before."""
    keys = KeyFolder.create(folder / "keys")
    hop = Party("hop", keys.identity_hex, "http://127.0.0.1:9")
    analyzer = Party("analyzer", "ab" * 32, "http://127.0.0.1:9")
    run = load_plan(folder / "survey.plan.json").run_by(Parties((hop,), analyzer))
    run.save(folder / "run.plan.json")
    words = {
        "survey": f"survey {folder / 'people.csv'} -o",
        "reach key": "reach key -o",
        "keys list": f"keys list {keys.path} --plan {folder / 'run.plan.json'} --out",
    }[verb].split()
    assert cli(*words, folder / "new").code == 0
    before = (folder / "new").read_bytes()
    (folder / f".new.{'0' * 16}.part").hardlink_to(folder / "new")
    assert cli(*words, folder / "new").code != 0
    assert not list(folder.glob(".new*")), "left behind"
    assert (folder / "new").read_bytes() == before


@pytest.fixture
def nothing_is_worked_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        pytest.fail("something was worked out for a file that cannot be written")

    for place, name in (
        (SurveyFile, "plan"),
        (reach, "plan"),
        (Plan, "verify"),
        (charts, "privacy_curve"),
    ):
        monkeypatch.setattr(place, name, fail)


@pytest.mark.usefixtures("nothing_is_worked_out")
@pytest.mark.parametrize("verb", [one for one in NAMES if one != "reach key"])
@pytest.mark.parametrize("target", ["no such/out", "people.csv/out", ""])
def test_what_cannot_be_written_is_refused_before_any_work(
    folder: Path, verb: str, target: str, capfd: pytest.CaptureFixture[str]
) -> None:
    words, end = verbs(folder)[verb]
    assert main([*words, f"{folder / target}{end if target else ''}"]) in {2, 5}
    assert capfd.readouterr().out == ""


@pytest.mark.usefixtures("nothing_is_worked_out")
@pytest.mark.parametrize(
    ("verb", "target", "told"),
    [
        ("privacy", "curve.txt", "one that ends in"),
        ("analyze", "release.txt", "one that ends in"),
        ("plan", "people.csv", "a new file or"),
        ("plan", "other.plan.json", "that of the same plan"),
        ("reach plan", "people.csv", "a new file or"),
    ],
)
def test_what_would_be_refused_afterwards_is_refused_before(
    folder: Path, verb: str, target: str, told: str, capfd: pytest.CaptureFixture[str]
) -> None:
    (folder / "survey.toml").write_text(SURVEY.replace("users = ", "users = 1"))
    (folder / "other.plan.json").write_bytes((folder / "survey.plan.json").read_bytes())
    words, _ = verbs(folder)[verb]
    assert main([*words, str(folder / target)]) == 2
    assert told in capfd.readouterr().err


@pytest.mark.usefixtures("nothing_is_worked_out")
@pytest.mark.parametrize("out", ["people.csv", "people.csv/out", "."])
def test_a_folder_that_cannot_be_filled_is_refused_before_planning(
    folder: Path, out: str, capfd: pytest.CaptureFixture[str]
) -> None:
    (folder / "survey.toml").write_text(SURVEY.replace("users = ", "users = 1"))
    words = ["run", str(folder / "survey.toml"), "--data", str(folder / "people.csv")]
    assert main([*words, "-o", str(folder / out)]) in {2, 5}
    told = capfd.readouterr().err
    assert any(words in told for words in ("a folder", "not a folder", "another plan")), told
