"""What a process left between two of its last steps is finished by the next one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from chaffinch import handing_out, locks
from chaffinch.errors import InvalidInput, StorageFault
from chaffinch.handing_out import Bill, finish_waiting, hand_out

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
            hand_out({target: lambda path: path.write_text("a filter")}, BILL, new=True)


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

    monkeypatch.setattr(handing_out, "_give_name", stop)
    with pytest.raises(KeyboardInterrupt):
        hand_out({tmp_path / "release.json": lambda path: path.write_text("{}")})
    assert list(tmp_path.iterdir()) == []


def waiting_file(target: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Hand out a file that stays in its waiting folder, and return it there."""

    def stop(*_: object, **__: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(handing_out, "_give_name", stop)
        with pytest.raises(Killed):
            hand_out({target: lambda path: path.write_text("a release")}, BILL)
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
    with pytest.raises(StorageFault, match="must be there"):
        finish_waiting([target], lambda _: True)


def test_a_folder_without_a_note_goes_and_one_with_a_damaged_note_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "release.json"
    kept = waiting_file(target, monkeypatch).parent
    note = kept / "waiting.json"
    content = note.read_text()
    for damaged in (content[:-1], "[]", "{}", content.replace('"release.json"', '"../x.json"')):
        note.write_text(damaged)
        assert finish_waiting([target], lambda _: True) == []
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
        hand_out({tmp_path / "release.json": lambda path: path.write_text("a release")}, BILL)
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
        hand_out({link: lambda path: path.write_text("{}") for link in links})
