"""What a process left between two of its last steps is finished by the next one."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from chaffinch.errors import InvalidInput, StorageFault
from chaffinch.outputs import waiting
from chaffinch.outputs.handing_out import Bill, finish_waiting, hand_out_files
from chaffinch.storage import locks

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
            hand_out_files({target: lambda path: path.write_text("a filter")}, BILL, new=True)


def test_a_new_file_with_two_names_is_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "daily.filter"
    stopped(target, monkeypatch)
    assert len(finish_waiting([target], lambda _: True)) == 1
    assert target.read_text() == "a filter"
    assert [path.name for path in tmp_path.iterdir()] == [target.name]


def test_unfinished_files_go_when_waiting_ones_are_finished(tmp_path: Path) -> None:
    staging = tmp_path / f".chaffinch-staging.{'0a' * 8}.part"
    (staging / "files").mkdir(parents=True)
    assert finish_waiting([tmp_path / "release.json"], lambda _: True) == []
    assert list(tmp_path.iterdir()) == []


def test_what_nobody_paid_for_does_not_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(waiting, "give_name", stop)
    with pytest.raises(KeyboardInterrupt):
        hand_out_files({tmp_path / "release.json": lambda path: path.write_text("{}")})
    assert list(tmp_path.iterdir()) == []


def stop_when_paid(
    targets: Sequence[Path], monkeypatch: pytest.MonkeyPatch, content: str = "a release"
) -> None:
    """Hand out files that stay in their waiting folder."""

    def stop(*_: object, **__: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(waiting, "give_name", stop)
        with pytest.raises(Killed):
            hand_out_files({one: lambda path: path.write_text(content) for one in targets}, BILL)


def waiting_file(target: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Hand out a file that stays in its waiting folder, and return it there."""
    stop_when_paid([target], monkeypatch)
    (found,) = target.parent.glob(f".chaffinch-*.waiting/{target.name}")
    return found


@pytest.mark.parametrize("there", ["a release", "another", None])
def test_what_is_gone_counts_only_if_it_is_in_place(
    there: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "release.json"
    waiting_file(target, monkeypatch).unlink()
    if there is not None:
        target.write_text(there)
    if there == "a release":
        assert len(finish_waiting([target], lambda _: True)) == 1
        assert [path.name for path in tmp_path.iterdir()] == [target.name]
        return
    error, words = (InvalidInput, "as it was") if there else (StorageFault, "must be there")
    with pytest.raises(error, match=words):
        finish_waiting([target], lambda _: True)


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
    if (before, after) == (None, None):
        assert len(finish_waiting([first], lambda _: True)) == 1
        assert second.read_text() == "a release"
        return
    for _ in range(2):
        with pytest.raises(InvalidInput, match=r"b\.json"):
            finish_waiting([first], lambda _: True)
        assert not first.exists()
    assert len(list(tmp_path.glob(".chaffinch-*.waiting/?.json"))) == 2


def test_an_input_is_not_replaced_even_if_it_was_there_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = tmp_path / "a.json", tmp_path / "b.json"
    second.write_text("a table")
    stop_when_paid([first, second], monkeypatch)
    with pytest.raises(InvalidInput, match=r"b\.json"):
        finish_waiting([first], lambda _: True, inputs=[second])
    assert (first.exists(), second.read_text()) == (False, "a table")
    assert len(finish_waiting([first], lambda _: True)) == 1
    assert second.read_text() == "a release"


def test_two_that_wait_for_one_place_do_not_replace_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "a.json"
    for content in ("one", "two"):
        stop_when_paid([target], monkeypatch, content)
    with pytest.raises(InvalidInput, match=r"a\.json"):
        finish_waiting([target], lambda _: True)
    kept = target.read_text()
    assert len(list(tmp_path.glob(".chaffinch-*.waiting"))) == 1
    target.unlink()
    assert len(finish_waiting([target], lambda _: True)) == 1
    assert {kept, target.read_text()} == {"one", "two"}


def test_two_at_once_do_not_mix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second one starts while the first has named one of two files."""
    targets = [tmp_path / "a.json", tmp_path / "b.json"]
    named, go_on = threading.Event(), threading.Event()
    real = Path.replace

    def slow(place: Path, target: Path) -> Path:
        found = real(place, target)
        if target in targets and not named.is_set():
            named.set()
            assert go_on.wait(60)
        return found

    monkeypatch.setattr(Path, "replace", slow)

    def write(content: str) -> None:
        hand_out_files({one: lambda path: path.write_text(content) for one in targets}, BILL)

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


def test_what_came_while_paying_is_not_replaced(tmp_path: Path) -> None:
    target = tmp_path / "a.json"
    bill = replace(BILL, pay=lambda: target.write_text("another release"))
    with pytest.raises(InvalidInput, match=r"a\.json"):
        hand_out_files({target: lambda path: path.write_text("a release")}, bill)
    assert target.read_text() == "another release"
    target.unlink()
    assert len(finish_waiting([target], lambda _: True)) == 1
    assert target.read_text() == "a release"


def test_what_a_check_refuses_is_not_paid_for(tmp_path: Path) -> None:
    def refuse() -> None:
        assert list(tmp_path.glob(".chaffinch-*.waiting/a.json")), "it is asked at the end"
        raise InvalidInput("output", "another file", "a key")

    def pay() -> None:
        pytest.fail("it was paid")

    with pytest.raises(InvalidInput, match="a key"):
        hand_out_files(
            {tmp_path / "a.json": lambda path: path.write_text("{}")},
            replace(BILL, pay=pay),
            check=refuse,
        )
    assert list(tmp_path.iterdir()) == []


def test_a_folder_without_a_note_goes_and_one_with_a_damaged_note_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "release.json"
    kept = waiting_file(target, monkeypatch).parent
    note = kept / "waiting.json"
    content = note.read_text()
    for damaged in (content[:-1], "[]", "{}", content.replace('"release.json"', '"../x.json"')):
        note.write_text(damaged)
        with pytest.raises(StorageFault, match=f"{kept.name}.*damaged"):
            finish_waiting([target], lambda _: True)
        assert kept.exists()
    note.unlink()
    assert finish_waiting([target], lambda _: True) == []
    assert not kept.exists()


def test_a_new_waiting_folder_that_is_taken_for_a_leftover_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process removes the first one before it is opened, and locks the second one."""
    made: list[Path] = []
    locked: list[int] = []
    real = os.open

    def open_late(path: Path, flags: int, *more: int) -> int:
        if str(path).endswith(".waiting"):
            made.append(Path(path))
            if len(made) == 1:
                made[0].rmdir()
            elif len(made) == 2:
                locked.append(real(path, flags))
                assert locks.try_lock(locked[0])
        return real(path, flags, *more)

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", open_late)
        hand_out_files({tmp_path / "release.json": lambda path: path.write_text("a release")}, BILL)
    assert len(set(made)) == 3
    assert (tmp_path / "release.json").read_text() == "a release"
    os.close(locked[0])
    finish_waiting([tmp_path / "release.json"], lambda _: True)
    assert [path.name for path in tmp_path.iterdir()] == ["release.json"]


def test_links_of_one_name_do_not_wait_together(tmp_path: Path) -> None:
    links = [tmp_path / "one" / "r.json", tmp_path / "two" / "r.json"]
    for link in links:
        link.parent.mkdir()
        link.symlink_to(tmp_path / f"{link.parent.name}.json")
    with pytest.raises(InvalidInput, match="different names"):
        hand_out_files({link: lambda path: path.write_text("{}") for link in links})
