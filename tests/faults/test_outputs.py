"""What a process left between two of its last steps is finished by the next one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from chaffinch import outputs
from chaffinch.outputs import Bill, finish_waiting, hand_out

BILL = Bill("plan", "key", "subject", pay=lambda: None, paid=lambda: True)


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
    assert len(finish_waiting(tmp_path, lambda _: True, [target.name])) == 1
    assert target.read_text() == "a filter"
    assert [path.name for path in tmp_path.iterdir()] == [target.name]


def test_unfinished_files_go_when_waiting_ones_are_finished(tmp_path: Path) -> None:
    staging = tmp_path / f".chaffinch-staging.{'0a' * 8}.part"
    (staging / "files").mkdir(parents=True)
    assert finish_waiting(tmp_path, lambda _: True) == []
    assert list(tmp_path.iterdir()) == []


def test_what_nobody_paid_for_does_not_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(outputs, "_give_name", stop)
    with pytest.raises(KeyboardInterrupt):
        hand_out({tmp_path / "release.json": lambda path: path.write_text("{}")})
    assert list(tmp_path.iterdir()) == []
