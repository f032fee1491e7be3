"""What went into a batch never goes into another one: runs, crashes, shuffles at once."""

from __future__ import annotations

import errno
import io
import os
import shutil
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chaffinch import load_plan
from chaffinch.disk import databases, files
from chaffinch.disk.databases import creating, owner_and_version
from chaffinch.disk.storage_errors import storage_fault
from chaffinch.engines.local import Local
from chaffinch.errors import (
    BatchRepeated,
    BatchTooSmall,
    ChaffinchError,
    InvalidFile,
    InvalidInput,
    Reason,
    StorageFault,
)
from chaffinch.shuffling.record import Record, usual_record
from chaffinch.wire.batches import BatchFacts, CodeCounts
from chaffinch.wire.message_reader import MessageReader
from tests import forks
from tests.engines import plans

PLAN = plans.clear(20, 5)
ENGINE = Local(workers=1)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with three encoded files: a crowd, another one, and one late report."""
    for name, count in (("a", 20), ("b", 20), ("late", 1)):
        ENGINE.encode(["v1"] * count, PLAN, tmp_path / name)
    return tmp_path


def shuffle(folder: Path, *names: str, out: str = "s", record: str = "record") -> Any:
    sources = [folder / name for name in names]
    return ENGINE.shuffle(sources, PLAN, folder / out, record=folder / record)


def known(folder: Path) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(folder / "record")) as connection, connection:
        return connection.execute("SELECT name, inputs, finished FROM batches").fetchall()


def test_what_would_be_refused_is_refused_before_anything_is_read(folder: Path) -> None:
    record = Record(folder / "record")
    record.refuse_repeated(["1" * 32])
    with pytest.raises(InvalidInput, match="target"):
        record.refuse_repeated(["1" * 32], instead_of="2" * 32)
    assert not (folder / "record").exists()
    shuffle(folder, "a")
    with closing(sqlite3.connect(folder / "record")) as connection, connection:
        names = [name for (name,) in connection.execute("SELECT name FROM inputs")]
    with pytest.raises(BatchRepeated):
        record.refuse_repeated(names)
    record.refuse_repeated(["1" * 32])


def test_a_batch_and_then_one_report_more_is_refused(folder: Path) -> None:
    shuffle(folder, "a", out="first")
    for names in (["a", "late"], ["late", "a"], ["a"], ["a", "b"]):
        with pytest.raises(BatchRepeated, match=r"earlier shuffle(.|\n)*hint: use the batch"):
            shuffle(folder, *names)
        assert not (folder / "s").exists()
    shuffle(folder, "b", "late")


def test_another_folder_and_another_process_know_it_too(
    folder: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(folder / "state"))
    PLAN_FILE = folder / "plan.json"
    PLAN.save(PLAN_FILE)
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    shutil.copy(folder / "a", elsewhere / "renamed")
    runs = []
    for place, inputs in ((folder, ["a"]), (elsewhere, ["renamed", str(folder / "late")])):
        monkeypatch.chdir(place)
        words = ["shuffle", "--plan", PLAN_FILE, "-o", "s", *inputs]
        runs.append(forks.run(forks.COMMAND, *words))
    assert [run.returncode for run in runs] == [0, 4], [run.stderr for run in runs]
    assert "earlier shuffle" in runs[1].stderr
    name = MessageReader(folder / "a").start.name
    assert name not in runs[0].stderr + runs[1].stderr
    assert usual_record(PLAN.id).is_relative_to(folder / "state")
    assert usual_record(PLAN.id).stat().st_mode & 0o777 == 0o600
    assert usual_record(PLAN.id).parent.stat().st_mode & 0o077 == 0


def test_names_and_digests_of_inputs_stay_with_the_shuffler(folder: Path) -> None:
    secret = []
    for name in ("a", "late"):
        reader = MessageReader(folder / name)
        assert list(reader.batches())
        secret += [reader.facts.name, reader.digest]
    stream = io.BytesIO()
    ENGINE.shuffle([folder / "a", folder / "late"], PLAN, stream, record=folder / "record")
    for word in secret:
        assert word.encode() not in stream.getvalue()
    digests = [word for word in secret if len(word) == 64]
    assert not any(word.encode() in (folder / "record").read_bytes() for word in digests)


def test_what_is_refused_is_not_recorded(folder: Path) -> None:
    with pytest.raises(BatchTooSmall):
        shuffle(folder, "late")
    (folder / "damaged").write_bytes((folder / "b").read_bytes()[:-9])
    with pytest.raises(ChaffinchError):
        shuffle(folder, "a", "damaged")
    assert not (folder / "record").exists()
    shuffle(folder, "a", "late")


# ------------------------------------------------------------------------------ crashes

KILLED = """
import os, sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from chaffinch.disk import databases, files
from chaffinch.disk.databases import creating
from chaffinch.engines.local import Local
from chaffinch.shuffling import record
from tests.engines import plans
moment, folder = sys.argv[1], Path(sys.argv[2])
def die(*_, **__):
    os._exit(9)
if moment == "before the record":
    record.Record.claim = die
elif moment == "after the record":
    claim = record.Record.claim
    record.Record.claim = lambda *words, **more: (claim(*words, **more), die())
elif moment == "before the name":
    files.give_name = die
else:
    record.Record.finish = die
Local(workers=1).shuffle([folder / "a"], plans.clear(20, 5), folder / "s", record=folder / "record")
"""
MOMENTS = ["before the record", "after the record", "before the name", "before the end"]


def kill(folder: Path, moment: str) -> None:
    assert forks.run(KILLED, moment, folder).returncode == 9


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_killed_shuffle_can_be_run_again_and_no_other(folder: Path, moment: str) -> None:
    kill(folder, moment)
    assert (folder / "s").exists() is (moment == "before the end")
    if moment == "before the record":
        assert not (folder / "record").exists()
    else:
        with pytest.raises(BatchRepeated, match="exactly the files it had"):
            shuffle(folder, "a", "late")
        with pytest.raises(BatchRepeated):
            shuffle(folder, "a", "b")
    shuffle(folder, "a", out="again")
    assert [finished for _, _, finished in known(folder)] == [1]
    with pytest.raises(BatchRepeated):
        shuffle(folder, "a", out="third")


def test_what_is_run_again_is_the_same_batch(folder: Path) -> None:
    """Whoever saw both learns nothing new, counts it once and is charged once."""
    kill(folder, "before the end")
    shuffle(folder, "a", out="again")
    assert (
        ENGINE.tally([folder / "s"], PLAN).digest == ENGINE.tally([folder / "again"], PLAN).digest
    )
    with pytest.raises(BatchRepeated):
        ENGINE.tally([folder / "s", folder / "again"], PLAN)


def test_a_killed_shuffle_is_not_finished_with_other_messages(folder: Path) -> None:
    name = MessageReader(folder / "a").start.name
    kill(folder, "after the record")
    plans.written(folder / "a", PLAN, [1] * 20 + [2], name=name)
    with pytest.raises(InvalidFile, match="the same names with other messages") as caught:
        shuffle(folder, "a")
    assert caught.value.reason is Reason.DAMAGED
    assert not (folder / "s").exists()


def test_a_full_disk_burns_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:

        def full(*_: object, **__: object) -> None:
            raise storage_fault("s", OSError(28, ""), verb="write")

        patch.setattr(files, "give_name", full)
        with pytest.raises(StorageFault):
            shuffle(folder, "a")
    assert not (folder / "s").exists()
    shuffle(folder, "a")


# ------------------------------------------------------------------------------ at once


def test_shuffles_at_once_share_no_input(folder: Path) -> None:
    results: list[str] = []

    def run(number: int) -> None:
        names = ("a", "late") if number % 2 else ("a",)
        try:
            shuffle(folder, *names, out=f"s{number}")
            results.append(" ".join(names))
        except BatchRepeated:
            results.append("refused")

    threads = [threading.Thread(target=run, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # One set of inputs wins. The same set at the same time may be the same batch twice.
    assert len(set(results) - {"refused"}) == 1
    made = [folder / f"s{number}" for number in range(8) if (folder / f"s{number}").exists()]
    assert len({ENGINE.tally([path], PLAN).digest for path in made}) == 1


def encode_to(target: Path, meanwhile: Callable[[], object]) -> None:
    """Encode to a file; something happens before it has its name."""

    def tell(_done: int, _total: int | None) -> None:
        meanwhile()

    ENGINE.encode(["v1"] * 20, PLAN, target, progress=tell)


def shuffle_to(target: Path, meanwhile: Callable[[], object]) -> None:
    """Shuffle to a file, with a record of its own, as another user; the same happens."""
    own = target.with_name("own")
    if not own.exists():
        ENGINE.encode(["v1"] * 20, PLAN, own)
    begun = list[int]()

    def tell(_done: int, total: int | None) -> None:
        if total is not None and not begun:
            begun.append(total)
            meanwhile()

    record = target.with_name("second.record")
    ENGINE.shuffle([own], PLAN, target, record=record, progress=tell)


@pytest.mark.parametrize("verb", [encode_to, shuffle_to])
@pytest.mark.parametrize("before", [None, b"", b"an older file"])
def test_a_batch_that_came_meanwhile_is_not_replaced(
    verb: Callable[..., None], before: bytes | None, folder: Path
) -> None:
    if before is not None:
        (folder / "s").write_bytes(before)
    with pytest.raises(InvalidInput, match="another file than one with messages"):
        verb(folder / "s", lambda: shuffle(folder, "a"))
    with closing(MessageReader(folder / "s")) as reader:
        assert known(folder) == [(reader.start.name, 1, 1)]
    verb(folder / "t", lambda: None)  # the same again, to another name
    assert not list(folder.glob(".*"))


@pytest.mark.parametrize("verb", [encode_to, shuffle_to])
def test_a_plan_that_came_meanwhile_is_not_replaced(
    verb: Callable[..., None], folder: Path
) -> None:
    with pytest.raises(InvalidInput, match="another file than a plan"):
        verb(folder / "s", lambda: PLAN.save(folder / "s"))
    assert load_plan(folder / "s").id == PLAN.id


def test_encoding_to_a_batch_reads_nothing(folder: Path) -> None:
    before = (folder / "a").read_bytes()
    with pytest.raises(InvalidInput, match="another file than one with messages"):
        encode_to(folder / "a", lambda: pytest.fail("something was read"))
    assert (folder / "a").read_bytes() == before


@pytest.mark.parametrize("links", [True, False])
@pytest.mark.parametrize("before", [None, b""])
def test_of_many_that_take_one_name_at_once_one_has_it(
    before: bytes | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, links: bool
) -> None:
    """A file that all of them find and may replace is replaced once."""

    def no_link(*_: object) -> None:
        raise PermissionError(errno.EPERM, "")

    if not links:
        monkeypatch.setattr(os, "link", no_link)

    def refuse_content(place: Path) -> None:
        if place.exists() and place.stat().st_size:
            raise InvalidInput("output", "a new file", place.name)

    def write(target: Path, ready: threading.Barrier, named: list[str]) -> None:
        name = threading.current_thread().name
        with suppress(InvalidInput):
            with files.atomic(target, check=refuse_content) as file:
                file.write(name.encode())
                ready.wait(60)
            named.append(name)

    for number in range(20):
        target, named = tmp_path / f"s{number}", list[str]()
        if before is not None:
            target.write_bytes(before)
        given = (target, threading.Barrier(6), named)
        threads = [threading.Thread(target=write, args=given) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert named == [target.read_text()]
    assert not list(tmp_path.glob(".*"))


def test_the_same_batch_may_come_meanwhile(folder: Path) -> None:
    """Whoever runs a shuffle again that seems to hang makes the same batch."""
    shuffle_to(folder / "s", lambda: shuffle_to(folder / "s", lambda: None))
    assert len(plans.read(folder / "s")) == 20


# ------------------------------------------------------------------------------ the file


@pytest.mark.parametrize("content", [b"", b"something else", b"SQLite format 3\0" + bytes(500)])
def test_what_is_no_record_is_not_taken_for_an_empty_one(folder: Path, content: bytes) -> None:
    (folder / "record").write_bytes(content)
    with pytest.raises(StorageFault, match="record of the shuffler"):
        shuffle(folder, "a")
    assert not (folder / "s").exists()
    assert (folder / "record").read_bytes() == content


def test_a_record_that_lost_a_row_is_refused(folder: Path) -> None:
    shuffle(folder, "a")
    with closing(sqlite3.connect(folder / "record")) as connection, connection:
        connection.execute("DELETE FROM inputs")
    with pytest.raises(StorageFault, match="damaged") as caught:
        shuffle(folder, "a", out="t")
    assert "two batches" in caught.value.hint, "it is said what is lost"
    assert "--record" not in caught.value.hint, "another record would shuffle people twice"


def test_a_batch_of_other_files_is_not_replaced(folder: Path) -> None:
    shuffle(folder, "a")
    before = (folder / "s").read_bytes()
    for content in (before, before[:4] + before[8:]):  # a damaged one is somebody's, too
        (folder / "s").write_bytes(content)
        with pytest.raises(InvalidInput, match="another batch"):
            shuffle(folder, "b")
        assert (folder / "s").read_bytes() == content
    shuffle(folder, "b", out="t")


def test_the_record_is_not_overwritten(folder: Path) -> None:
    with pytest.raises(InvalidInput, match="another file"):
        shuffle(folder, "a", out="record")
    shuffle(folder, "a")
    with pytest.raises(InvalidInput, match="another file"):
        shuffle(folder, "b", out="record")


def test_a_record_that_cannot_be_written_shuffles_nothing(folder: Path) -> None:
    (folder / "file").write_bytes(b"")
    with pytest.raises(StorageFault, match="within reach"):
        shuffle(folder, "a", record="file/record")
    assert not (folder / "s").exists()


def test_a_restored_record_has_forgotten(folder: Path) -> None:
    """Documented, not wished for: nothing outside of the record knows better."""
    shuffle(folder, "b", out="other")
    shutil.copy(folder / "record", folder / "backup")
    shuffle(folder, "a", out="first")
    shutil.copy(folder / "backup", folder / "record")
    shuffle(folder, "a", "late", out="second")


def test_the_usual_place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path))
    inside = tmp_path / ".local" / "state" / "chaffinch" / "shuffled"
    assert usual_record("ab" * 32) == inside / f"{'ab' * 16}.record"
    assert os.path.isabs(Record("x")._path)  # noqa: PTH117, SLF001


# -------------------------------------------------------------------- the record by itself


def facts_of(name: str) -> BatchFacts:
    return BatchFacts(PLAN.id, "shuffled", 20, PLAN.codes, 1, name)


def test_a_batch_gets_a_name_of_its_own(tmp_path: Path) -> None:
    record, given = Record(tmp_path / "record"), facts_of("0" * 32)
    made = [record.claim([letter * 32], given, CodeCounts(PLAN.codes)).name for letter in "abc"]
    assert len({*made, given.name, "a" * 32, "b" * 32, "c" * 32}) == 7


def test_the_usual_record_is_in_the_users_state(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/nowhere")
    usual = Path("chaffinch", "shuffled", "a" * 32 + ".record")
    for state, home in (
        ("/elsewhere", "/elsewhere"),
        ("relative", "/nowhere/.local/state"),
        ("", "/nowhere/.local/state"),
    ):
        monkeypatch.setenv("XDG_STATE_HOME", state)
        assert usual_record("a" * 64) == Path(home) / usual
    monkeypatch.delenv("XDG_STATE_HOME")
    assert usual_record("a" * 64) == Path("/nowhere/.local/state") / usual


A, B, C = ("a" * 32, "b" * 32, "c" * 32)
NOTHING = CodeCounts(PLAN.codes)


def claim(record: Record, *names: str) -> str:
    return record.claim(names, facts_of("0" * 32), NOTHING).name


def test_a_shuffle_that_was_cut_short_may_be_repeated_as_it_was(tmp_path: Path) -> None:
    record = Record(tmp_path / "record")
    made = claim(record, A, B)
    assert claim(record, A, B) == claim(record, B, A) == made
    record.finish(made)
    with pytest.raises(BatchRepeated):
        claim(record, A, B)


def test_a_batch_is_unfinished_from_its_claim_to_its_end(tmp_path: Path) -> None:
    record = Record(tmp_path / "record")
    assert not record.is_unfinished("0" * 32)
    assert not (tmp_path / "record").exists(), "nothing is made by asking"
    made = claim(record, A)
    assert record.is_unfinished(made)
    assert not record.is_unfinished("0" * 32)
    record.finish(made)
    assert not record.is_unfinished(made)


def test_a_batch_that_was_cut_short_is_replaced_by_itself_only(tmp_path: Path) -> None:
    record = Record(tmp_path / "record")
    first, second = claim(record, A), claim(record, B)
    facts = facts_of("0" * 32)
    for names in ([B], [C], [A, B]):  # of another batch cut short, of none, of two
        with pytest.raises(InvalidInput, match="that of another batch"):
            record.claim(names, facts, NOTHING, instead_of=first)
    assert record.claim([A], facts, NOTHING, instead_of=first).name == first
    assert record.claim([B], facts, NOTHING, instead_of=second).name == second


def test_a_record_that_another_shuffle_makes_first_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "record"

    @contextmanager
    def slow(*words: Any) -> Iterator[Any]:
        with monkeypatch.context() as patch:
            patch.setattr(databases, "creating", creating)
            claim(Record(path), A)
        with creating(*words) as connection:
            yield connection

    monkeypatch.setattr(databases, "creating", slow)
    claim(Record(path), B)
    with pytest.raises(BatchRepeated):
        claim(Record(path), A, B)


def test_a_shuffle_that_was_cut_short_is_not_repeated_with_other_messages(tmp_path: Path) -> None:
    record, other = Record(tmp_path / "record"), CodeCounts(PLAN.codes)
    claim(record, A)
    other.add(np.array([1], np.uint32))
    with pytest.raises(InvalidFile, match="the same names with other messages") as caught:
        record.claim([A], facts_of("0" * 32), other)
    assert caught.value.reason is Reason.DAMAGED


@pytest.mark.parametrize("names", [(A,), (A, C), (A, B, C), (C, A)])
def test_a_shuffle_that_was_cut_short_is_not_repeated_otherwise(
    tmp_path: Path, names: tuple[str, ...]
) -> None:
    record = Record(tmp_path / "record")
    claim(record, A, B)
    with pytest.raises(BatchRepeated):
        claim(record, *names)


def test_two_shuffles_that_were_cut_short_do_not_become_one(tmp_path: Path) -> None:
    record = Record(tmp_path / "record")
    claim(record, A)
    claim(record, B)
    with pytest.raises(BatchRepeated):
        claim(record, A, B)


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ("PRAGMA application_id = 7", "another file, or a damaged one"),
        ("PRAGMA user_version = 7", "one of the format version 7, where 1 is read"),
        ("CREATE TABLE more (name TEXT)", "one that another version of chaffinch has made"),
        ("DELETE FROM inputs", "a damaged file"),
    ],
)
def test_a_record_that_is_not_as_it_was_made_is_refused(
    tmp_path: Path, change: str, found: str
) -> None:
    record = Record(tmp_path / "record")
    claim(record, A)
    with closing(sqlite3.connect(tmp_path / "record", isolation_level=None)) as connection:
        connection.execute(change)
    with pytest.raises(StorageFault, match=rf"Got {found}\.") as caught:
        claim(record, B)
    assert caught.value.reason is None, "nothing was shuffled"


def test_a_record_whose_schema_is_no_text_is_refused(tmp_path: Path) -> None:
    """What SQLite says of it repeats the bytes, which Python cannot read."""
    path = tmp_path / "record"
    claim(Record(path), A)
    path.write_bytes(path.read_bytes().replace(b"tableinputs", b"table\xffnputs"))
    with pytest.raises(StorageFault, match=r"Got a damaged file\."):
        claim(Record(path), B)


def test_a_record_whose_index_is_damaged_is_refused(tmp_path: Path) -> None:
    """A name that the index does not know would pass for a new one."""
    path = tmp_path / "record"
    claim(Record(path), A)
    content = path.read_bytes()
    assert content.count(A.encode()) == 2, "once in the table and once in its index"
    for place in (content.index(A.encode()), content.rindex(A.encode())):
        path.write_bytes(content[:place] + b"d" + content[place + 1 :])
        with pytest.raises(StorageFault, match="damaged"):
            claim(Record(path), B)


def test_a_record_is_for_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "state" / "record"
    claim(Record(path), A)
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert [each.name for each in path.parent.iterdir()] == ["record"]


def test_a_record_waits_for_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[list[int]] = []
    names = ("synchronous", "fullfsync", "trusted_schema")

    def watched(connection: sqlite3.Connection) -> tuple[int, int]:
        found.append([connection.execute(f"PRAGMA {name}").fetchone()[0] for name in names])
        return owner_and_version(connection)

    monkeypatch.setattr(databases, "owner_and_version", watched)
    claim(Record(tmp_path / "record"), A)
    assert found == [[3, 1, 0]], "EXTRA, ON, OFF"


def test_a_record_lost_after_the_batch_was_written_is_not_replaced(tmp_path: Path) -> None:
    record = Record(tmp_path / "gone" / "record")
    (tmp_path / "gone").write_text("a file where the folder was")
    with pytest.raises(StorageFault, match="The batch itself is written in full") as caught:
        record.finish("0" * 32)
    assert "--record" not in caught.value.hint
