"""What a process left between two of its last steps is finished by the next one."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from chaffinch.disk import files, locks, paid_files, staged
from chaffinch.disk.file_kinds import Kind
from chaffinch.disk.leftovers import alone_in, remove_surely
from chaffinch.disk.paid_files import Bill, commit_paid_files, finish_staged
from chaffinch.disk.protected import refuse_all_but
from chaffinch.errors import ChaffinchError, InvalidInput, Reason, StorageFault

BILL = Bill("payer", "plan", "key", "subject", pay=lambda: None, paid=lambda: True)


class Killed(BaseException):
    """Stands for the end of a process."""


def stopped(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hand out a file, and stop right after it has its name."""
    real = os.link

    def link(place: Path, name: Path) -> None:
        real(place, name)
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(os, "link", link)
        with pytest.raises(Killed):
            commit_paid_files({target: lambda path: path.write_text("a filter")}, BILL, new=True)


def test_a_new_file_with_two_names_is_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "daily.filter"
    stopped(target, monkeypatch)
    assert len(finish_staged([target], lambda _: True)) == 1
    assert target.read_text() == "a filter"
    assert [path.name for path in tmp_path.iterdir()] == [target.name]


def test_a_new_file_that_was_copied_over_itself_is_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A backup or a synchronizer may bring back the same bytes as another file."""
    target = tmp_path / "daily.filter"
    stopped(target, monkeypatch)
    Path(shutil.copy(target, tmp_path / "copy")).replace(target)
    assert len(finish_staged([target], lambda _: True)) == 1
    assert target.read_text() == "a filter"
    assert [path.name for path in tmp_path.iterdir()] == [target.name]


# ----------------------------------------------------------------------------
# Disks without hard links.


@pytest.fixture
def without_links(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nobody make a hard link, as on many disks for cameras or of networks."""

    def link(*_: object, **__: object) -> None:
        raise PermissionError(errno.EPERM, "")

    monkeypatch.setattr(os, "link", link)


@pytest.mark.usefixtures("without_links")
def test_a_disk_without_links_gets_new_files(tmp_path: Path) -> None:
    target = tmp_path / "daily.filter"
    commit_paid_files({target: lambda path: path.write_text("a filter")}, BILL, new=True)
    assert target.read_text() == "a filter"
    with pytest.raises(StorageFault, match="exists already"):
        commit_paid_files({target: lambda path: path.write_text("another")}, BILL, new=True)
    assert target.read_text() == "a filter"


@pytest.mark.usefixtures("without_links")
def test_a_name_that_was_taken_on_a_disk_without_links_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(place: Path, target: Path) -> None:
        if target.suffix == ".filter":
            assert (target.exists(), target.stat().st_size) == (True, 0)
            raise Killed
        os.replace(place, target)  # noqa: PTH105 - the other one is replaced here

    target = tmp_path / "daily.filter"
    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", stop)
        with pytest.raises(Killed):
            commit_paid_files({target: lambda path: path.write_text("a filter")}, BILL, new=True)
    assert len(finish_staged([target], lambda _: True)) == 1
    assert target.read_text() == "a filter"
    assert [path.name for path in tmp_path.iterdir()] == [target.name]


def test_unfinished_files_go_when_waiting_ones_are_finished(tmp_path: Path) -> None:
    staging = tmp_path / f".chaffinch-staging.{'0a' * 8}.part"
    (staging / "files").mkdir(parents=True)
    assert finish_staged([tmp_path / "release.json"], lambda _: True) == []
    assert list(tmp_path.iterdir()) == []


def test_what_nobody_paid_for_does_not_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(staged, "give_checked_name", stop)
    with pytest.raises(KeyboardInterrupt):
        commit_paid_files({tmp_path / "release.json": lambda path: path.write_text("{}")})
    assert list(tmp_path.iterdir()) == []


def uncertain() -> StorageFault:
    return StorageFault("The ledger must be written.", reason=Reason.UNCERTAIN)


def hand_out_paid_by(pay: Callable[[], object], paid: Callable[[], bool], target: Path) -> None:
    bill = replace(BILL, pay=pay, paid=paid)
    commit_paid_files({target: lambda path: path.write_text("a release")}, bill)


def test_a_payment_that_is_uncertain_is_asked_for_once_more(tmp_path: Path) -> None:
    target, answers = tmp_path / "release.json", [uncertain()]

    def pay() -> None:
        if answers:
            raise answers.pop()

    hand_out_paid_by(pay, lambda: False, target)
    assert target.read_text() == "a release"
    assert [path.name for path in tmp_path.iterdir()] == [target.name]


@pytest.mark.parametrize("reason", [None, Reason.DAMAGED])
def test_a_payment_that_was_refused_is_not_asked_for_again(
    reason: Reason | None, tmp_path: Path
) -> None:
    answers: list[ChaffinchError] = []

    def pay() -> None:
        answers.append(StorageFault("No.", reason=reason))
        raise answers[-1]

    with pytest.raises(StorageFault):
        hand_out_paid_by(pay, lambda: False, tmp_path / "release.json")
    assert len(answers) == 1
    assert list(tmp_path.iterdir()) == []


def test_what_may_be_paid_for_is_kept(tmp_path: Path) -> None:
    """Twice uncertain, and nobody can say: the next command asks again, and nothing is lost."""

    def fail() -> bool:
        raise uncertain()

    target = tmp_path / "release.json"
    with pytest.raises(StorageFault):
        hand_out_paid_by(fail, fail, target)
    assert not target.exists()
    assert len(finish_staged([target], lambda _: True)) == 1
    assert target.read_text() == "a release"


@pytest.mark.parametrize("place", [0, -1])
def test_a_waiting_file_that_was_changed_gets_no_name(
    place: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    targets = [tmp_path / "a.json", tmp_path / "b.json"]
    stop_when_paid(targets, monkeypatch)
    (second,) = tmp_path.glob(".chaffinch-*.waiting/b.json")
    content = bytearray(second.read_bytes())
    content[place] ^= 1
    second.write_bytes(content)
    with pytest.raises(StorageFault, match=r"'b\.json' must be as it was written"):
        finish_staged(targets, lambda _: True)
    assert not any(target.exists() for target in targets)
    content[place] ^= 1
    second.write_bytes(content)
    assert len(finish_staged(targets, lambda _: True)) == 1
    assert [target.read_text() for target in targets] == ["a release"] * 2


def stop_when_paid(
    targets: Sequence[Path], monkeypatch: pytest.MonkeyPatch, content: str = "a release"
) -> None:
    """Hand out files that stay in their waiting folder."""

    def stop(*_: object, **__: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(staged, "give_checked_name", stop)
        with pytest.raises(Killed):
            commit_paid_files({one: lambda path: path.write_text(content) for one in targets}, BILL)


def staged_file(target: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Hand out a file that stays in its waiting folder, and return it there."""
    stop_when_paid([target], monkeypatch)
    (found,) = target.parent.glob(f".chaffinch-*.waiting/{target.name}")
    return found


@pytest.mark.parametrize("there", ["a release", "another", None])
def test_what_is_gone_counts_only_if_it_is_in_place(
    there: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "release.json"
    staged_file(target, monkeypatch).unlink()
    if there is not None:
        target.write_text(there)
    if there == "a release":
        assert len(finish_staged([target], lambda _: True)) == 1
        assert [path.name for path in tmp_path.iterdir()] == [target.name]
        return
    error, words = (InvalidInput, "as it was") if there else (StorageFault, "must be there")
    with pytest.raises(error, match=words):
        finish_staged([target], lambda _: True)


@pytest.mark.parametrize("before", ["an older release", None])
@pytest.mark.parametrize("after", ["a key", None, "a folder", "a link"])
def test_nothing_is_named_while_one_place_is_not_as_it_was(
    before: str | None, after: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = tmp_path / "a.json", tmp_path / "b.json"
    if before is not None:
        second.write_text(before)
    stop_when_paid([first, second], monkeypatch)
    second.unlink(missing_ok=True)
    if after == "a folder":
        second.mkdir()
    elif after == "a link":
        (tmp_path / "key").write_text("a key")
        second.symlink_to(tmp_path / "key")
    elif after is not None:
        second.write_text(after)
    if after is None:  # an empty place is free
        assert len(finish_staged([first], lambda _: True)) == 1
        assert second.read_text() == "a release"
        return
    for _ in range(2):
        with pytest.raises(InvalidInput, match=r"b\.json"):
            finish_staged([first], lambda _: True)
        assert not first.exists()
    assert len(list(tmp_path.glob(".chaffinch-*.waiting/?.json"))) == 2


def test_an_input_is_not_replaced_even_if_it_was_there_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = tmp_path / "a.json", tmp_path / "b.json"
    second.write_text("a table")
    stop_when_paid([first, second], monkeypatch)
    with pytest.raises(InvalidInput, match=r"b\.json"):
        finish_staged([first], lambda _: True, inputs=[second])
    assert (first.exists(), second.read_text()) == (False, "a table")
    assert len(finish_staged([first], lambda _: True, inputs=[tmp_path / "none"])) == 1
    assert second.read_text() == "a release"


def test_a_place_is_looked_at_behind_one_that_is_filled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = tmp_path / "a.json", tmp_path / "b.json"
    stop_when_paid([first, second], monkeypatch)
    first.write_text("a release")
    second.write_text("a key")
    with pytest.raises(InvalidInput, match=r"b\.json"):
        finish_staged([first], lambda _: True)
    assert second.read_text() == "a key"


def test_only_what_waits_for_a_wanted_place_is_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever stands before it among the folders."""
    for name in ("a.json", "b.json"):
        stop_when_paid([tmp_path / name], monkeypatch)
    kept, found = sorted(tmp_path.glob(".chaffinch-*.waiting/?.json"))
    assert len(finish_staged([tmp_path / found.name], lambda _: True)) == 1
    assert sorted(tmp_path.iterdir()) == [kept.parent, tmp_path / found.name]


def test_what_another_command_puts_in_place_just_now_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "release.json"
    folder = staged_file(target, monkeypatch).parent
    number = os.open(folder, os.O_RDONLY)
    try:
        assert locks.try_lock(number)
        with pytest.raises(StorageFault, match=f"{folder.name}.*Got one in use"):
            finish_staged([target], lambda _: True)
    finally:
        os.close(number)
    assert not target.exists()
    assert len(finish_staged([target], lambda _: True)) == 1


def test_a_waiting_folder_that_cannot_be_removed_stops_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.EBUSY, "")

    target = tmp_path / "release.json"
    staged_file(target, monkeypatch)
    monkeypatch.setattr(os, "rmdir", fail)
    for _ in range(2):  # what is not paid for, and then a folder without a note
        assert finish_staged([target], lambda _: False) == []
    assert not target.exists()


def test_a_waiting_folder_that_stays_when_its_files_are_in_place_stops_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.EBUSY, "")

    target = tmp_path / "release.json"
    folder = staged_file(target, monkeypatch).parent
    monkeypatch.setattr(os, "rmdir", fail)
    assert len(finish_staged([target], lambda _: True)) == 1
    assert (target.read_text(), [*folder.iterdir()]) == ("a release", [])


def test_a_folder_that_cannot_be_used_leaves_nothing_in_the_others(tmp_path: Path) -> None:
    with (
        pytest.raises(StorageFault),
        staged.held_folders([tmp_path, tmp_path / "none"]),
    ):
        pass
    assert list(tmp_path.iterdir()) == []


def test_faults_of_the_disk_are_told_of_what_waits(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for ask in (staged._digest, staged._turn):  # noqa: SLF001 - the disk gives nothing
        with pytest.raises(StorageFault):
            ask(tmp_path / "none")
    with pytest.raises(StorageFault):
        staged._standing(tmp_path / "file" / "none")  # noqa: SLF001 - as above


def test_a_note_is_for_its_owner_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    note = staged_file(tmp_path / "release.json", monkeypatch).with_name("waiting.json")
    assert note.stat().st_mode & 0o777 == 0o600


def test_what_nobody_pays_for_is_not_finished_but_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its process was killed before it could remove it: whoever asked makes it again."""
    target = tmp_path / "release.json"
    note = staged_file(target, monkeypatch).with_name("waiting.json")
    note.write_text(json.dumps(json.loads(note.read_text()) | {"payer": ""}))
    assert finish_staged([target], lambda _: True) == []
    assert list(tmp_path.iterdir()) == []


def test_nobody_names_files_while_waiting_ones_are_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "release.json"
    staged_file(target, monkeypatch)
    tried = []

    def name(*words: Any, **more: Any) -> None:
        with pytest.raises(StorageFault, match="in use"), alone_in(tmp_path, "naming", patience=0):
            pass
        tried.append(words)
        files.give_checked_name(*words, **more)

    monkeypatch.setattr(staged, "give_checked_name", name)
    assert len(finish_staged([target], lambda _: True)) == 1
    assert len(tried) == 1


def test_a_pipe_gets_what_is_paid_for_when_the_files_have_their_names(tmp_path: Path) -> None:
    target, pipe, seen = tmp_path / "release.json", tmp_path / "pipe", []
    os.mkfifo(pipe)

    def read() -> None:
        seen.append((pipe.read_text(), target.read_text()))

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    writers = {one: lambda path: path.write_text("a release") for one in (pipe, target)}
    commit_paid_files(writers, BILL)
    reader.join(60)
    assert seen == [("a release", "a release")]
    assert pipe.is_fifo()


@pytest.mark.parametrize("mode", [0o600, 0o640])
def test_what_only_its_owner_could_read_stays_so(mode: int, tmp_path: Path) -> None:
    target = tmp_path / "release.json"
    target.touch(mode)
    target.chmod(mode)
    commit_paid_files({target: lambda path: path.write_text("a release")}, BILL)
    assert target.read_text() == "a release"
    assert target.stat().st_mode & 0o777 & ~mode == 0


@pytest.mark.parametrize("fault", [errno.ENOLCK, errno.ENOTSUP])
def test_a_disk_without_locks_is_written_to_and_nothing_is_removed_from_it(
    fault: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_lock(*_: object) -> None:
        raise OSError(fault, os.strerror(fault))

    monkeypatch.setattr(fcntl, "flock", no_lock)
    leftover = tmp_path / f".release.json.{'0a' * 8}.part"
    leftover.touch()
    target = tmp_path / "release.json"
    commit_paid_files({target: lambda path: path.write_text("a release")}, BILL)
    assert target.read_text() == "a release"
    assert finish_staged([target], lambda _: True) == []
    assert leftover.exists(), "nobody knows whether it is in use"


def test_nobody_else_can_open_a_lock_and_hold_it(tmp_path: Path) -> None:
    with alone_in(tmp_path, "naming"):
        (lock,) = tmp_path.iterdir()
        assert lock.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("then", ["nothing", "another"])
def test_a_new_file_that_lost_its_name_is_not_held(then: str, tmp_path: Path) -> None:
    path = tmp_path / "new"
    with path.open("wb") as file:
        assert locks.holds_new(file.fileno(), path)
        path.unlink()
        if then == "another":
            path.touch()
        assert not locks.holds_new(file.fileno(), path)


def test_the_lock_of_a_file_that_was_removed_meanwhile_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "lock"
    held, real = [locks.lock_file(path)], locks.try_lock

    def late(number: int) -> bool | None:
        while held:  # whoever had it ends just now
            path.unlink()
            os.close(held.pop())
        return real(number)

    monkeypatch.setattr(locks, "try_lock", late)
    number = locks.lock_file(path)
    assert locks.has_name(number, path)
    os.close(number)


def test_two_that_wait_for_one_place_do_not_replace_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "a.json"
    for content in ("one", "two"):
        stop_when_paid([target], monkeypatch, content)
    with pytest.raises(InvalidInput, match=r"a\.json"):
        finish_staged([target], lambda _: True)
    kept = target.read_text()
    assert len(list(tmp_path.glob(".chaffinch-*.waiting"))) == 1
    target.unlink()
    assert len(finish_staged([target], lambda _: True)) == 1
    assert {kept, target.read_text()} == {"one", "two"}


def test_two_at_once_do_not_mix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second one starts while the first has named one of two files."""
    targets = [tmp_path / "a.json", tmp_path / "b.json"]
    named, go_on = threading.Event(), threading.Event()
    real = files.give_checked_name

    def slow(place: Path, target: Path, check: Callable[[Path], object]) -> None:
        real(place, target, check)
        if not named.is_set():
            named.set()
            assert go_on.wait(60)

    monkeypatch.setattr(staged, "give_checked_name", slow)

    def write(content: str) -> None:
        commit_paid_files({one: lambda path: path.write_text(content) for one in targets}, BILL)

    first = threading.Thread(target=write, args=["one"])
    second = threading.Thread(target=write, args=["two"])
    first.start()
    assert named.wait(60)
    second.start()
    second.join(0.5)
    waits = second.is_alive()
    go_on.set()
    first.join(60)
    second.join(60)
    assert waits, "the second one lets the first one finish"
    assert [one.read_text() for one in targets] == ["two", "two"]
    assert sorted(tmp_path.iterdir()) == targets


def test_folders_are_locked_in_one_order_by_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise two processes could wait for each other."""
    locked: list[Path] = []

    def note(folder: Path, purpose: str, **more: Any) -> AbstractContextManager[None]:
        locked.append(folder)
        return alone_in(folder, purpose, **more)

    monkeypatch.setattr(paid_files, "alone_in", note)
    places = [tmp_path / name / "release.json" for name in ("a", "b", "c")]
    for place in places:
        place.parent.mkdir()
    for order in (places, places[::-1]):
        commit_paid_files({place: lambda path: path.write_text("{}") for place in order}, BILL)
    assert len(locked) == 6
    assert locked[:3] == locked[3:]


def test_a_folder_that_two_paths_lead_to_is_locked_once(tmp_path: Path) -> None:
    """A disk may be mounted twice: whoever locked it twice would wait for itself."""
    (tmp_path / "a").mkdir()
    paths = [tmp_path, tmp_path / "a" / ".."]
    with paid_files._alone_in(paths, tell=lambda _: None):  # noqa: SLF001 - mounting needs rights
        assert sorted(path.name[:17] for path in tmp_path.iterdir()) == [".chaffinch-naming", "a"]


def test_what_came_while_paying_is_not_replaced(tmp_path: Path) -> None:
    target = tmp_path / "a.json"
    bill = replace(BILL, pay=lambda: target.write_text("another release"))
    with pytest.raises(InvalidInput, match=r"a\.json"):
        commit_paid_files({target: lambda path: path.write_text("a release")}, bill)
    assert target.read_text() == "another release"
    target.unlink()
    assert len(finish_staged([target], lambda _: True)) == 1
    assert target.read_text() == "a release"


@pytest.mark.parametrize("before", [None, "an older release"])
@pytest.mark.parametrize("new", [True, False])
def test_what_came_in_the_last_moment_is_not_replaced(
    before: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, new: bool
) -> None:
    """A shuffle puts its batch there between the last look at the place and the naming."""
    target, real = tmp_path / "a.parquet", staged._turn_back  # noqa: SLF001 - that moment
    if before is not None and not new:
        target.write_text(before)

    def turn_back(path: Path, digest: str) -> None:
        real(path, digest)
        target.write_text("a batch")

    with monkeypatch.context() as patch:
        patch.setattr(staged, "_turn_back", turn_back)
        with pytest.raises(StorageFault, match="exists already") as caught:
            commit_paid_files({target: lambda path: path.write_text("a release")}, BILL, new=new)
    assert "nothing is lost" in caught.value.hint
    assert target.read_text() == "a batch"
    target.unlink()
    assert len(finish_staged([target], lambda _: True)) == 1
    assert target.read_text() == "a release"


def test_what_a_check_refuses_is_not_paid_for(tmp_path: Path) -> None:
    def refuse() -> None:
        assert list(tmp_path.glob(".chaffinch-*.waiting/a.json")), "it is asked at the end"
        raise InvalidInput("output", "another file", "a key")

    def pay() -> None:
        pytest.fail("it was paid")

    with pytest.raises(InvalidInput, match="a key"):
        commit_paid_files(
            {tmp_path / "a.json": lambda path: path.write_text("{}")},
            replace(BILL, pay=pay),
            check=refuse,
        )
    assert list(tmp_path.iterdir()) == []


def test_a_folder_without_a_note_goes_and_one_with_a_damaged_note_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "release.json"
    kept = staged_file(target, monkeypatch).parent
    note = kept / "waiting.json"
    content = note.read_text()
    for damaged in (content[:-1], "[]", "{}", content.replace('"release.json"', '"../x.json"')):
        note.write_text(damaged)
        with pytest.raises(StorageFault, match=f"{kept.name}.*damaged"):
            finish_staged([target], lambda _: True)
        assert kept.exists()
    note.unlink()
    assert finish_staged([target], lambda _: True) == []
    assert not kept.exists()


def test_a_new_waiting_folder_that_is_taken_for_a_leftover_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process removes the first one before it is opened, and locks the second one."""
    made: list[Path] = []
    locked: list[int] = []
    real = os.open

    def open_late(path: Path, flags: int, *more: Any, **inside: Any) -> int:
        # Only what removes a folder says inside of which other one it is.
        if str(path).endswith(".waiting") and not inside:
            made.append(Path(path))
            if len(made) == 1:
                made[0].rmdir()
            elif len(made) == 2:
                locked.append(real(path, flags))
                assert locks.try_lock(locked[0])
        return real(path, flags, *more, **inside)

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", open_late)
        commit_paid_files(
            {tmp_path / "release.json": lambda path: path.write_text("a release")}, BILL
        )
    assert len(set(made)) == 3
    assert (tmp_path / "release.json").read_text() == "a release"
    os.close(locked[0])
    finish_staged([tmp_path / "release.json"], lambda _: True)
    assert [path.name for path in tmp_path.iterdir()] == ["release.json"]


def test_links_of_one_name_do_not_wait_together(tmp_path: Path) -> None:
    links = [tmp_path / "one" / "r.json", tmp_path / "two" / "r.json"]
    for link in links:
        link.parent.mkdir()
        link.symlink_to(tmp_path / f"{link.parent.name}.json")
    with pytest.raises(InvalidInput, match="different names"):
        commit_paid_files({link: lambda path: path.write_text("{}") for link in links})


# ----------------------------------------------------------------------------
# Nobody who may only read a folder can keep its owner waiting.


@pytest.mark.parametrize("mode", [fcntl.LOCK_SH, fcntl.LOCK_EX])
def test_a_lock_on_the_folder_itself_stops_nothing(mode: int, tmp_path: Path) -> None:
    number = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(number, mode)
    try:
        commit_paid_files({tmp_path / "a.json": lambda path: path.write_text("{}")}, BILL)
    finally:
        os.close(number)
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


HOLD = """
import sys
from pathlib import Path
from chaffinch.disk.leftovers import alone_in, remove_surely
with alone_in(Path(sys.argv[1]), "naming"):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_another_command_is_waited_for_within_bounds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks, "_LONG", 0.1)
    monkeypatch.setattr(paid_files, "alone_in", partial(alone_in, patience=0.5))

    def pay() -> None:
        pytest.fail("it was paid")

    said: list[str] = []
    other = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert other.stdout is not None
    assert other.stdout.readline() == b"held\n"
    target = tmp_path / "a.json"
    files: dict[Path, staged.Writer] = {target: lambda path: path.write_text("{}")}
    with pytest.raises(StorageFault, match="Got one in use"):
        commit_paid_files(files, replace(BILL, pay=pay), tell=said.append)
    assert len(said) == 1
    assert not list(tmp_path.glob(".chaffinch-*.waiting"))
    other.kill()  # its lock ends with it, and the file that it leaves is in nobody's way
    other.communicate()
    commit_paid_files(files, BILL)
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


def test_a_lock_file_of_a_stranger_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with alone_in(tmp_path, "naming"):
        (lock,) = tmp_path.iterdir()
        with (
            pytest.raises(StorageFault, match="Got one in use"),
            alone_in(tmp_path, "naming", patience=0.0),
        ):
            pass
        monkeypatch.setattr(os, "geteuid", partial(int, os.geteuid() + 1))
        with (
            pytest.raises(StorageFault, match=f"{lock.name}.*Got another's"),
            alone_in(tmp_path, "naming", patience=0.0),
        ):
            pass


# ----------------------------------------------------------------------------
# Notes that this user did not write.

STRANGE = "\x1b[2J\x1b]0;owned\x07curl somewhere | naïve"


def test_what_a_note_says_moves_no_cursor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target, said = tmp_path / "release.json", list[str]()
    note = staged_file(target, monkeypatch).with_name("waiting.json")
    note.write_text(json.dumps(json.loads(note.read_text()) | {"command": STRANGE}))
    assert finish_staged([target], lambda _: None, said.append) == []
    assert "curl" in said[0]
    assert "naïve" in said[0]
    assert said[0].isprintable()


@pytest.mark.parametrize("kind", ["pipe", "link", "endless"])
def test_a_note_that_is_no_small_file_is_not_read(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "release.json"
    note = staged_file(target, monkeypatch).with_name("waiting.json")
    content = note.read_bytes()
    note.unlink()
    if kind == "pipe":
        os.mkfifo(note)
    elif kind == "link":
        (tmp_path / "elsewhere").write_bytes(content)
        note.symlink_to(tmp_path / "elsewhere")
    else:
        note.write_bytes(content + b" " * (1 << 20))
    with pytest.raises(StorageFault, match="Got a damaged one"):
        finish_staged([target], lambda _: True)
    assert not target.exists()


@pytest.mark.parametrize("whole", ["folder", "note"])
def test_the_note_of_a_stranger_is_not_ours(
    whole: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "release.json"
    folder = staged_file(target, monkeypatch).parent
    strange = folder if whole == "folder" else folder / "waiting.json"
    real = os.fstat

    def fstat(number: int) -> os.stat_result:
        found = real(number)
        if os.path.samestat(found, strange.stat()):
            return os.stat_result([*found[:4], found.st_uid + 1, *found[5:10]])
        return found

    monkeypatch.setattr(os, "fstat", fstat)
    if whole == "folder":
        assert finish_staged([target], lambda _: True) == []
    else:
        with pytest.raises(StorageFault, match="Got a damaged one"):
            finish_staged([target], lambda _: True)
    assert (folder.exists(), target.exists()) == (True, False)


def test_a_waiting_folder_of_a_stranger_is_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, said = tmp_path / "release.json", list[str]()
    folder = staged_file(target, monkeypatch).parent
    monkeypatch.setattr(os, "geteuid", partial(int, os.geteuid() + 1))
    assert finish_staged([target], lambda _: True, said.append) == []
    assert said == [f"left alone: {folder}, which another user may have paid for"]
    with pytest.raises(StorageFault, match=f"{folder.name}.*Got another's"):
        finish_staged([target], lambda _: True, refuse_strangers=True)
    with staged.find_staged(folder, {target.name}) as found:
        assert found is None
    assert (folder.exists(), target.exists()) == (True, False)


def test_a_waiting_folder_that_is_finished_meanwhile_is_nobody_else_s(tmp_path: Path) -> None:
    assert not staged._is_strange(tmp_path / "gone")  # noqa: SLF001 - between two looks


def test_whoever_waits_to_finish_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def busy(_: Path, __: str, *, tell: Callable[[str], object]) -> Iterator[None]:
        tell("waiting")
        yield

    targets, told = [tmp_path / "a.json", tmp_path / "b.json"], list[str]()
    stop_when_paid(targets, monkeypatch)
    monkeypatch.setattr(paid_files, "alone_in", busy)
    assert len(finish_staged(targets, lambda _: True, told.append)) == 1
    assert told == ["waiting"]


def test_what_waits_is_found_among_other_files(tmp_path: Path) -> None:
    places = [tmp_path / f".chaffinch-{number * 8}.waiting" for number in ("0a", "2b", "1c", "0b")]
    for name in (".a", "z", *(place.name for place in places)):
        (tmp_path / name).mkdir()
    assert staged.staged_folders(tmp_path, None, refuse_strangers=False) == sorted(places)


def test_a_file_of_one_kind_replaces_that_kind_and_nothing_else(tmp_path: Path) -> None:
    place = tmp_path / "file"
    refuse_all_but(Kind.PLAN, tmp_path)
    refuse_all_but(Kind.PLAN, place)
    for content in ("", '{"format": "chaffinch/plan@1"}'):
        place.write_text(content)
        refuse_all_but(Kind.PLAN, place)
    for content in ("some words", "{}", "chaffinch-campaign-key-"):
        place.write_text(content)
        with pytest.raises(InvalidInput, match="a new file or a plan"):
            refuse_all_but(Kind.PLAN, place)


def test_every_byte_of_a_long_file_is_in_its_digest(tmp_path: Path) -> None:
    path, content = tmp_path / "long", bytes(range(256)) * 10_000
    path.write_bytes(content)
    assert staged._digest(path) == hashlib.sha256(content).hexdigest()  # noqa: SLF001 - of what waits
    path.write_bytes(content + b"x")
    assert staged._digest(path) != hashlib.sha256(content).hexdigest()  # noqa: SLF001 - of what waits


def test_what_waits_knows_its_bill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bill = replace(BILL, command="chaffinch run", request="all of it")
    target, seen = tmp_path / "a.json", list[staged.StagedFiles]()

    def stop(*_: object, **__: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(staged, "give_checked_name", stop)
        with pytest.raises(Killed):
            commit_paid_files({target: lambda path: path.write_text("a release")}, bill)

    def refuse(one: staged.StagedFiles) -> bool:
        seen.append(one)
        return False

    finish_staged([target], refuse)
    (one,) = seen
    assert (one.payer, one.plan_id, one.key, one.subject) == ("payer", "plan", "key", "subject")
    assert (one.command, one.request) == ("chaffinch run", "all of it")


def test_without_a_bill_nobody_pays(tmp_path: Path) -> None:
    with staged.held_folders([tmp_path]) as places:
        assert staged.write_note(places[tmp_path], [], {}, new=False).payer == ""


def test_a_place_that_is_taken_costs_nothing(tmp_path: Path) -> None:
    taken, folder, paid = tmp_path / "taken", tmp_path / "folder", list[int]()
    taken.write_text("old")
    folder.mkdir()
    bill = replace(BILL, pay=lambda: paid.append(1))
    for target, new in ((taken, True), (folder, False), (folder, True)):
        with pytest.raises(StorageFault):
            commit_paid_files({target: lambda path: path.write_text("a release")}, bill, new=new)
    assert paid == []
    commit_paid_files({taken: lambda path: path.write_text("a release")}, bill)
    assert (paid, taken.read_text()) == ([1], "a release")


def test_a_place_that_was_emptied_is_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "a.json"
    target.write_text("old")
    stop_when_paid([target], monkeypatch)
    target.write_text("")
    assert len(finish_staged([target], lambda _: True)) == 1
    assert target.read_text() == "a release"


@pytest.mark.parametrize("fault", [KeyboardInterrupt, OSError])
def test_an_interrupt_while_something_is_removed_is_heard_afterwards(
    fault: type[BaseException],
) -> None:
    asked = list[int]()

    def remove() -> None:
        asked.append(1)
        if len(asked) == 1:
            raise fault

    if fault is OSError:
        remove_surely(remove)
        assert len(asked) == 1
    else:
        with pytest.raises(fault):
            remove_surely(remove)
        assert len(asked) == 2
