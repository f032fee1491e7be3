"""What was paid for and could not be put in place: it waits for its payer, and for nobody else."""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import pty
import shutil
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from chaffinch import Ledger, Target, load_plan, load_release, reach
from chaffinch.cli.exits import REFUSED
from chaffinch.disk import files, paid_files
from chaffinch.disk.files import give_name, state_folder
from chaffinch.disk.staged import StagedFiles
from chaffinch.disk.storage_errors import storage_fault
from chaffinch.engines import engine
from chaffinch.ledger import Charge
from chaffinch.ledger.release_record import ReleaseRecord
from chaffinch.runs import pipeline
from tests.faults.calls import Done, call
from tests.faults.verbs import USERS, VERBS, prepare, releases_in
from tests.tiers import all_but, nightly

PAID = ("run, paid", "analyze, paid", "reach analyze, paid", "reach encode, paid", "reach encode")


class Killed(BaseException):
    """Stands for the end of a process."""


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with everything that verbs read, and a second ledger of each role."""
    folder = prepare(tmp_path_factory.mktemp("waiting") / "start")
    for role in ("analyzer", "client"):
        paths = {"path": folder / f"{role}2.ledger", "mark": folder / f"{role}2.mark"}
        Ledger.create(**paths, role=role, cap=Target(20, 1e-2))
    return folder


@pytest.fixture
def folder(start: Path, tmp_path: Path) -> Path:
    """Return a copy of it for one test."""
    return shutil.copytree(start, tmp_path / "folder")


@pytest.fixture
def stop(monkeypatch: pytest.MonkeyPatch) -> Callable[[Sequence[str]], None]:
    """Run a command that is stopped when it has paid."""

    def run(words: Sequence[str]) -> None:
        def killed(_: StagedFiles) -> None:
            raise Killed

        with monkeypatch.context() as patch:
            patch.setattr(StagedFiles, "put_in_place", killed)
            with pytest.raises(Killed):
                call(words)

    return run


def waiting(folder: Path) -> list[Path]:
    """Return what waits anywhere below a folder."""
    return sorted(folder.rglob(".chaffinch-*.waiting"))


def charges(folder: Path, role: str = "analyzer") -> int:
    """Return how often a ledger was charged."""
    return len(Ledger.open(folder / f"{role}.ledger", mark=folder / f"{role}.mark").entries())


def unpaid(words: Sequence[str]) -> list[str]:
    """Return a command without its ledger."""
    return list(words[: words.index("--ledger")])


def by_other_ledger(words: Sequence[str]) -> list[str]:
    """Return a command with another ledger."""
    return [word.replace(".ledger", "2.ledger").replace(".mark", "2.mark") for word in words]


# ----------------------------------------------------------------------------
# Nobody but the payer touches it.


@pytest.mark.parametrize("other", [unpaid, by_other_ledger])
@pytest.mark.parametrize("name", PAID[:3])
def test_a_paid_release_waits_for_its_ledger(
    name: str,
    other: Callable[[Sequence[str]], list[str]],
    folder: Path,
    stop: Callable[[Sequence[str]], None],
) -> None:
    verb = VERBS[name]
    words = verb.line(folder)
    stop(words)
    (kept,) = waiting(folder)
    if (
        name == "run, paid" and other is unpaid
    ):  # the same data again, and nobody said that it adds up
        assert call(other(words)).code == REFUSED
        words_of_other = [*other(words), "--again"]
    else:
        words_of_other = other(words)
    done = call(words_of_other)
    assert done.code == 0, done.err
    assert waiting(folder) == [kept]
    said = [line for line in done.err.splitlines() if line.startswith("left alone: ")]
    assert len(said) == 1, "it is said once"
    assert " ".join(words) in said[0], "the command that finishes it is told"
    results = {one: (folder / one).read_bytes() for one in verb.results}
    if name == "run, paid":  # so that what is there now is another release, and stays
        refused = call(words)
        assert (refused.code, " ".join(words) in refused.err) == (2, True), refused.err
        assert {one: (folder / one).read_bytes() for one in verb.results} == results
        for result in results:
            (folder / result).unlink()
    again = call(words)
    assert again.code == 0, again.err
    assert waiting(folder) == []
    assert charges(folder) == 1, "it was paid once"
    for result, check in verb.results.items():
        check(folder / result)


@pytest.mark.parametrize("name", all_but(PAID, "reach analyze, paid"))
def test_what_the_same_payer_has_not_paid_for_goes(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = VERBS[name].line(folder)

    def killed(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(paid_files, "_pay", killed)
        patch.setattr(paid_files, "_may_be_paid", lambda _: True)
        with pytest.raises(Killed):
            call(words)
    assert len(waiting(folder)) == 1
    assert call(words).code == 0
    assert waiting(folder) == []


def test_a_release_of_another_batch_is_not_replaced_unseen(
    folder: Path, stop: Callable[[Sequence[str]], None]
) -> None:
    words = VERBS["analyze, paid"].line(folder)
    stop(words)
    plan, batch = load_plan(folder / "survey.plan.json"), folder / "batch.parquet"
    engine().shuffle([folder / "other.parquet"], plan, batch, record=folder / "record")
    others = [str(batch) if word.endswith("shuffled.parquet") else word for word in words]
    first = call(others)
    assert (first.code, "the same command again replaces it" in first.err) == (2, True)
    paid = load_release(folder / "release.json")
    assert (waiting(folder), charges(folder)) == ([], 1)
    assert call(others).code == 0
    assert load_release(folder / "release.json") != paid
    assert charges(folder) == 2


# ----------------------------------------------------------------------------
# It comes where it was to come, for whoever asked for it, or not at all.


def test_a_key_in_the_place_of_a_paid_release_stays(
    folder: Path, stop: Callable[[Sequence[str]], None]
) -> None:
    words = VERBS["analyze, paid"].line(folder)
    key = folder / "second.json"
    stop([*words, "-o", str(key)])
    shutil.copy2(folder / "campaign.key", key)
    done = call(words)
    assert (done.code, "second.json" in done.err) == (2, True), done.err
    assert key.read_bytes() == (folder / "campaign.key").read_bytes()
    assert (len(waiting(folder)), (folder / "release.json").exists()) == (1, False)
    key.unlink()
    assert call(words).code == 0
    load_release(key)
    assert (waiting(folder), charges(folder)) == ([], 1)


@pytest.mark.parametrize("change", ["--data", "--level", "--adjust", "--key", "plan"])
def test_a_run_gets_no_release_that_others_have_paid_for(
    change: str, folder: Path, stop: Callable[[Sequence[str]], None]
) -> None:
    words = VERBS["run, paid"].line(folder)
    stop(words)
    before = sorted(folder.rglob("*"))
    others = list(words)
    if change == "--data":
        table = folder / "people.csv"
        other = Path(shutil.copy(table, folder.parent / "other.csv"))
        other.write_text(table.read_text() + "yes\n")
        others[others.index("--data") + 1] = str(other)
    elif change == "plan":
        survey = folder.parent / "other.toml"
        survey.write_text(
            (folder / "survey.toml").read_text().replace("epsilon = 2", "epsilon = 1")
        )
        others[1] = str(survey)
    else:
        others += [change, {"--level": "50%", "--adjust": "total", "--key": "second"}[change]]
    done = call(others)
    assert (done.code, " ".join(words) in done.err) == (2, True), done.err
    assert sorted(folder.rglob("*")) == before
    assert call(words).code == 0
    assert (waiting(folder), charges(folder)) == ([], 1)


def test_a_run_does_not_pay_again_for_what_another_user_left(
    folder: Path, stop: Callable[[Sequence[str]], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = VERBS["run, paid"].line(folder)
    stop(words)
    with monkeypatch.context() as patch:
        patch.setattr(os, "geteuid", partial(int, os.geteuid() + 1))
        done = call(words)
        assert (done.code, waiting(folder)[0].name in done.err) == (5, True), done.err
        assert call(unpaid(words)).code == REFUSED
        done = call([*words, "--finish"])
        assert (done.code, "which another user" in done.err) == (2, True), done.err
    assert (charges(folder), len(waiting(folder))) == (1, 1)


@pytest.mark.parametrize("finish", [False, True])
def test_a_recorded_release_is_finished_and_recorded_once(
    folder: Path, stop: Callable[[Sequence[str]], None], *, finish: bool
) -> None:
    """Without a ledger the record of runs knows whether the release was to be seen."""
    words = VERBS["run"].line(folder)
    stop(words)
    assert len(waiting(folder)) == 1
    assert not (folder / "out" / "release.json").exists()
    others = [word.replace("people", "more") for word in words]
    (folder / "more.csv").write_text("answer\n" + "yes\nno\n" * (USERS + 1))
    done = call(others)
    assert (done.code, " ".join(words) in done.err) == (2, True), done.err
    done = call([*words, "--finish"] if finish else words)
    assert (done.code, "an earlier run that was interrupted" in done.err) == (0, True), done.err
    load_release(folder / "out" / "release.json")
    assert waiting(folder) == []
    assert releases_in(state_folder() / "releases.record") == 1
    assert call(words).code == REFUSED


def test_what_was_not_recorded_is_made_anew(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = VERBS["run"].line(folder)

    def killed(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(paid_files, "_may_be_paid", lambda _: True)  # nobody cleans up
        patch.setattr(ReleaseRecord, "add", killed)
        with pytest.raises(Killed):
            call(words)
    assert len(waiting(folder)) == 1
    done = call(words)
    assert (done.code, "earlier run" in done.err) == (0, False), done.err
    assert (waiting(folder), releases_in(state_folder() / "releases.record")) == ([], 1)


def test_what_a_ledger_refuses_is_not_recorded(folder: Path) -> None:
    cap = Target(1e-3, 1e-2)
    Ledger.create(folder / "small.ledger", role="analyzer", cap=cap, mark=folder / "small.mark")
    words = VERBS["run, paid"].line(folder)
    small = [word.replace("analyzer.", "small.") for word in words]
    assert call(small).code == REFUSED
    assert releases_in(state_folder() / "releases.record") == 0
    assert call(words).code == 0
    assert releases_in(state_folder() / "releases.record") == 1
    assert call(unpaid(words)).code == REFUSED, "a run without a ledger knows of that with one"


def test_a_paid_release_comes_into_a_place_that_was_cleared(
    folder: Path, stop: Callable[[Sequence[str]], None]
) -> None:
    words = VERBS["run, paid"].line(folder)
    assert call(words).code == 0
    stop([*words, "--replace"])
    for old in (folder / "out").glob("release.*"):
        old.unlink()
    again = call(words)
    assert again.code == 0, again.err
    assert (waiting(folder), charges(folder)) == ([], 2)


def test_a_release_whose_table_has_changed_is_taken_as_it_is(
    folder: Path, stop: Callable[[Sequence[str]], None]
) -> None:
    words = VERBS["run, paid"].line(folder)
    stop(words)
    table = folder / "people.csv"
    table.write_text(table.read_text() + "yes\n")
    refused = call(words)
    assert (refused.code, "--finish" in refused.err) == (2, True), refused.err
    assert (len(waiting(folder)), charges(folder)) == (1, 1)
    table.unlink()
    done = call([*words, "--finish"])
    assert done.code == 0, done.err
    assert load_release(folder / "out" / "release.json").reports == 2 * USERS
    assert (waiting(folder), charges(folder)) == ([], 1)


@pytest.mark.parametrize("pays", [True, False])
def test_nothing_is_finished_where_nothing_waits(folder: Path, *, pays: bool) -> None:
    words = VERBS["run, paid" if pays else "run"].line(folder)
    done = call([*words, "--finish"])
    assert (done.code, "release to finish" in done.err) == (2, True), done.err
    assert not (folder / "out").exists()


@pytest.mark.parametrize("and_back", [True, False])
def test_a_table_that_changes_while_it_is_read_is_not_paid_for(
    folder: Path, monkeypatch: pytest.MonkeyPatch, *, and_back: bool
) -> None:
    words, table = VERBS["run, paid"].line(folder), folder / "people.csv"
    real = pipeline.tally_table

    def swapped(*given: Any, **more: Any) -> Any:
        table.rename(folder / "aside.csv")
        table.write_text("answer\n" + "yes\n" * 2 * USERS)
        try:
            return real(*given, **more)
        finally:
            if and_back:
                (folder / "aside.csv").replace(table)

    monkeypatch.setattr(pipeline, "tally_table", swapped)
    done = call(words)
    assert (done.code, "changed meanwhile" in done.err) == (2, True), done.err
    assert (waiting(folder), charges(folder)) == ([], 0)
    assert not (folder / "out").exists()


def test_two_runs_into_one_folder_pay_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second one runs while the first one pays."""
    words = VERBS["run, paid"].line(folder)
    real, others = paid_files._pay, []  # noqa: SLF001 - the moment between two steps

    def pay(bill: paid_files.Bill) -> None:
        others.append(call(words))
        real(bill)

    monkeypatch.setattr(paid_files, "_pay", pay)
    done = call(words)
    assert done.code == 0, done.err
    ((code, said),) = [(one.code, one.err) for one in others]
    assert (code, "Got one in use" in said) == (5, True), said
    assert (waiting(folder), charges(folder)) == ([], 1)


def pause_before_naming(
    monkeypatch: pytest.MonkeyPatch, words: Sequence[str], others: Callable[[], Sequence[Done]]
) -> list[Done]:
    """Run a command that finishes a paid release, and others before that has its place."""
    real, done = StagedFiles.put_in_place, list[Done]()

    def put_in_place(one: StagedFiles) -> None:
        monkeypatch.undo()
        done.extend(others())
        real(one)

    monkeypatch.setattr(StagedFiles, "put_in_place", put_in_place)
    return [call(words), *done]


def test_what_is_being_finished_is_neither_paid_again_nor_replaced(
    folder: Path, stop: Callable[[Sequence[str]], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = VERBS["run, paid"].line(folder)
    analyze = f"analyze {folder}/shuffled.parquet --plan {folder}/survey.plan.json"
    analyze += f" -o {folder}/out/release.json"
    paid = [*analyze.split(), *words[words.index("--ledger") :]]
    stop(words)
    (note,) = folder.rglob("waiting.json")
    digests = {one[1]: one[2] for one in json.loads(note.read_bytes())["files"]}
    lines = (words, [*words, "--finish"], paid, analyze.split())
    done, *others = pause_before_naming(
        monkeypatch, [*words, "--finish"], lambda: [call(line) for line in lines]
    )
    assert done.code == 0, done.err
    for other in others:
        assert (other.code, "Got one in use" in other.err) == (5, True), other.err
    assert (waiting(folder), charges(folder)) == ([], 1)
    release = (folder / "out" / "release.json").read_bytes()
    assert hashlib.sha256(release).hexdigest() == digests["release.json"]


def test_what_another_command_finishes_is_not_paid_again(
    folder: Path, stop: Callable[[Sequence[str]], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An analysis to the folder of a run finishes what the run has paid for."""
    words = VERBS["run, paid"].line(folder)
    analyze = f"analyze {folder}/shuffled.parquet --plan {folder}/survey.plan.json"
    paid = f"{analyze} -o {folder}/out/release.json".split() + words[words.index("--ledger") :]
    stop(words)
    done, *others = pause_before_naming(
        monkeypatch, paid, lambda: [call(words), call([*words, "--finish"])]
    )
    assert (done.code, "an earlier, interrupted command" in done.err) == (2, True), done.err
    for other in others:
        assert (other.code, "Got one in use" in other.err) == (5, True), other.err
    assert (waiting(folder), charges(folder)) == ([], 1)


def test_a_release_is_finished_when_no_run_is_at_work(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run has yet to pay: whoever finished something in its folder now would be replaced."""
    words = VERBS["run, paid"].line(folder)
    real, others = pipeline.tally_table, list[Done]()

    def tally(*given: Any, **more: Any) -> Any:
        others.append(call([*words, "--finish"]))
        return real(*given, **more)

    monkeypatch.setattr(pipeline, "tally_table", tally)
    assert call(words).code == 0
    ((code, said),) = [(one.code, one.err) for one in others]
    assert (code, "Got one in use" in said) == (5, True), said
    assert (waiting(folder), charges(folder)) == ([], 1)


def test_a_run_gets_no_release_of_another_round(
    folder: Path, stop: Callable[[Sequence[str]], None]
) -> None:
    survey = folder / "rounds.toml"
    survey.write_text("rounds = 2\n" + (folder / "survey.toml").read_text())
    words = VERBS["run, paid"].line(folder)
    words[1] = str(survey)
    stop([*words, "--round", "1"])
    done = call([*words, "--round", "2"])
    assert (done.code, "--round 1" in done.err) == (2, True), done.err
    assert (len(waiting(folder)), charges(folder)) == (1, 1)


def test_a_release_for_a_pipe_comes_in_place_and_is_not_taken_for_an_answer(
    folder: Path, stop: Callable[[Sequence[str]], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = [*VERBS["run, paid"].line(folder), "--format", "csv"]
    words[words.index("--data") + 1] = "-"

    def pipe() -> None:
        content = io.BytesIO((folder / "people.csv").read_bytes())
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(content))

    pipe()
    stop(words)
    pipe()
    done = call(words)
    assert (done.code, "with --replace (replace=True) replaces it" in done.err) == (2, True), (
        done.err
    )
    load_release(folder / "out" / "release.json")
    assert (waiting(folder), charges(folder)) == ([], 1)


@pytest.mark.parametrize("terminal", [True, False])
def test_a_release_of_messages_from_a_pipe_is_finished_without_them(
    folder: Path,
    stop: Callable[[Sequence[str]], None],
    monkeypatch: pytest.MonkeyPatch,
    *,
    terminal: bool,
) -> None:
    sent = io.BytesIO()
    engine().shuffle(
        [folder / "encoded.parquet"],
        load_plan(folder / "survey.plan.json"),
        sent,
        record=folder / "r",
    )
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(sent.getvalue())))
    words = VERBS["analyze, paid"].line(folder)
    words.remove(str(folder / "shuffled.parquet"))
    stop(words)
    master, slave = pty.openpty()
    with os.fdopen(master, "wb"), os.fdopen(slave) as typed:
        monkeypatch.setattr("sys.stdin", typed if terminal else io.TextIOWrapper(io.BytesIO()))
        done = call(words)
    assert (done.code, "its release is now in place" in done.err) == (2, True), done.err
    load_release(folder / "release.json")
    assert (waiting(folder), charges(folder)) == ([], 1)


def test_a_table_in_the_place_of_a_paid_release_stays(
    folder: Path, stop: Callable[[Sequence[str]], None]
) -> None:
    words = VERBS["run, paid"].line(folder)
    stop(words)
    table = Path(shutil.copy(folder / "people.csv", folder / "out" / "release.csv"))
    words[words.index("--data") + 1] = str(table)
    assert call(words).code == 2
    assert table.read_bytes() == (folder / "people.csv").read_bytes()
    assert len(waiting(folder)) == 1


@pytest.mark.parametrize("name", all_but(PAID, "reach analyze, paid", "analyze, paid"))
def test_a_damaged_note_is_told_and_nothing_is_paid_again(
    name: str, folder: Path, stop: Callable[[Sequence[str]], None]
) -> None:
    words = VERBS[name].line(folder)
    stop(words)
    (kept,) = waiting(folder)
    note = kept / "waiting.json"
    note.write_bytes(note.read_bytes()[:-5])
    done = call(words)
    assert (done.code, kept.name in done.err) == (5, True), done.err
    assert waiting(folder) == [kept]
    role = VERBS[name].pays
    assert not role or not (folder / f"{role}.ledger").exists() or charges(folder, role) == 1


# ----------------------------------------------------------------------------
# Wherever links lead, it is found again.


@pytest.mark.parametrize(
    ("name", "links"),
    [
        ("run, paid", {"out": "real"}),
        nightly("run, paid", {"out/release.json": "real/other.json"}),
        nightly("run, paid", {"out/survey.plan.json": "real/plan.json"}),
        ("run, paid", {"out/release.json": "real/one", "out/release.csv": "other/two"}),
        nightly("analyze, paid", {"release.json": "real/other.json"}),
        ("reach analyze, paid", {"release.csv": "real/release.csv"}),
        nightly("reach encode, paid", {"daily.filter": "real/other.filter"}),
    ],
)
def test_linked_outputs_are_found(
    name: str, links: dict[str, str], folder: Path, stop: Callable[[Sequence[str]], None]
) -> None:
    for link, target in links.items():
        (folder / target).parent.mkdir(exist_ok=True)
        if "/" not in target:
            (folder / target).mkdir()
        (folder / link).parent.mkdir(exist_ok=True)
        (folder / link).symlink_to(folder / target)
    verb = VERBS[name]
    stop(verb.line(folder))
    assert waiting(folder)
    again = call(verb.line(folder))
    assert again.code == 0, again.err
    assert waiting(folder) == []
    assert charges(folder, verb.pays) == 1
    for result, check in verb.results.items():
        check(folder / result)
    assert all((folder / link).is_symlink() for link in links)


# ----------------------------------------------------------------------------
# A filter: the key makes no second one while a first may have been paid for.


def unrecorded(part: Path, target: Path, *, overwrite: bool) -> None:
    """Give a file its name; end where it is the record of a key."""
    if target.suffix == ".record":
        raise Killed
    give_name(part, target, overwrite=overwrite)


def test_a_filter_that_another_ledger_may_have_paid_for_blocks_its_key(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = VERBS["reach encode, paid"].line(folder)

    with monkeypatch.context() as patch:
        patch.setattr(files, "give_name", unrecorded)
        with pytest.raises(Killed):
            call(words)
    assert (charges(folder, "client"), len(waiting(folder))) == (1, 1)
    for other in (unpaid(words), by_other_ledger(words)):
        done = call(other)
        assert (done.code, " ".join(words) in done.err) == (2, True), done.err
        assert len(waiting(folder)) == 1
    assert call(words).code == 0
    assert waiting(folder) == []
    assert charges(folder, "client") == 1
    reach.load_filter(folder / "daily.filter")


@pytest.mark.parametrize("fault", ["no state folder", "full disk"])
def test_a_key_that_cannot_be_recorded_costs_nothing(
    fault: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = VERBS["reach encode, paid"].line(folder)
    real = files._Raw.write  # noqa: SLF001 - what all files are written by

    def full(file: files._Raw, data: bytes) -> int:
        if file.label == "campaign.key.record":
            raise storage_fault(file.label, OSError(errno.ENOSPC, ""), verb="write")
        return real(file, data)

    with monkeypatch.context() as patch:
        if fault == "full disk":
            patch.setattr("chaffinch.disk.files._Raw.write", full)
        else:
            patch.setenv("XDG_STATE_HOME", str(folder / "ids.csv"))
        done = call(words)
    assert done.code == 5, done.err
    assert (charges(folder, "client"), waiting(folder)) == (0, [])
    assert call(words).code == 0
    assert charges(folder, "client") == 1


def test_a_key_moved_with_its_unpaid_filter_is_as_good_as_new(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = VERBS["reach encode"].line(folder)

    def killed(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(paid_files, "_pay", killed)
        patch.setattr(paid_files, "_may_be_paid", lambda _: True)
        with pytest.raises(Killed):
            call(words)
    moved = folder.rename(folder.with_name("moved"))
    assert len(waiting(moved)) == 1
    done = call([word.replace(str(folder), str(moved)) for word in words])
    assert done.code == 0, done.err
    assert waiting(moved) == []
    reach.load_filter(moved / "daily.filter")


def test_a_filter_recorded_by_another_user_of_the_key_stays(
    folder: Path, stop: Callable[[Sequence[str]], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = VERBS["reach encode"].line(folder)
    stop(words)
    other = folder.parent / "theirs.key"
    shutil.copy2(folder / "campaign.key", other)
    with monkeypatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(folder / "state of another"))
        done = call([word.replace(str(folder / "campaign.key"), str(other)) for word in words])
    assert (done.code, len(waiting(folder))) == (2, 1), done.err
    assert call(words).code == 0
    assert waiting(folder) == []


def test_a_filter_is_recorded_before_it_has_its_name(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever has the filter must find its key used up, however often all is stopped."""
    words = VERBS["reach encode, paid"].line(folder)

    with monkeypatch.context() as patch:
        patch.setattr(files, "give_name", unrecorded)
        for _ in range(3):  # the first one pays, and the others finish
            with pytest.raises(Killed):
                call(words)
            assert not (folder / "daily.filter").exists()
    elsewhere = [*unpaid(words)[:-1], str(folder / "second.filter")]
    assert call(words).code == 0
    done = call(elsewhere)
    assert (done.code, "made no filter" in done.err) == (2, True), done.err
    assert charges(folder, "client") == 1


def test_a_copy_of_the_key_finishes_what_the_key_has_recorded(
    folder: Path, stop: Callable[[Sequence[str]], None]
) -> None:
    words = VERBS["reach encode"].line(folder)
    shutil.copy2(folder / "campaign.key", folder / "copy.key")
    stop(words)
    assert call([word.replace("campaign.key", "copy.key") for word in words]).code == 0
    assert waiting(folder) == []
    reach.load_filter(folder / "daily.filter")


def test_a_filter_is_never_seen_once_its_key_has_made_another(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = VERBS["reach encode, paid"].line(folder)

    with monkeypatch.context() as patch:
        patch.setattr(files, "give_name", unrecorded)
        with pytest.raises(Killed):
            call(words)
    elsewhere = [*unpaid(words)[:-1], str(folder / "second.filter")]
    assert call(elsewhere).code == 0
    done = call(words)
    assert done.code == 2, done.err
    assert not (folder / "daily.filter").exists()
    assert waiting(folder) == []


# ----------------------------------------------------------------------------
# The same content is charged once, whatever it is called.


def test_another_name_for_the_same_batch_costs_nothing(folder: Path) -> None:
    words = [*VERBS["analyze, paid"].line(folder), "--json", "--key"]
    first = json.loads(call([*words, "november"]).out)["charge"]
    again = json.loads(call([*words, "december"]).out)["charge"]
    assert (first["charged_before"], again["charged_before"]) == (False, True)
    assert (first["key"], again["key"]) == ("november", "november")
    assert charges(folder) == 1


def test_another_charge_for_the_same_batch_is_not_taken_for_this_one(folder: Path) -> None:
    words = [*VERBS["analyze, paid"].line(folder), "--json"]
    digest = json.loads(call(words).out)["charge"]["key"]
    other = Ledger.open(folder / "analyzer2.ledger", mark=folder / "analyzer2.mark")
    plan = load_plan(folder / "survey.plan.json")
    other.charge(Charge("another plan", plan.round_mechanism()), "other", subject=digest)
    charge = json.loads(call([*by_other_ledger(words), "--key", "mine"]).out)["charge"]
    assert (charge["key"], charge["charged_before"]) == ("mine", False)
    assert charges(folder, "analyzer2") == 2
