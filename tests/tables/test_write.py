"""A file is there in full or not at all, whatever fails and whenever."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from chaffinch.disk import files
from chaffinch.disk.files import atomic
from chaffinch.errors import StorageFault
from tests.cases import each_case

PIECES = [bytes([i]) * (700_000) for i in range(5)]


def listing(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("overwrite", [True, False])
def test_a_new_file(tmp_path: Path, overwrite: bool) -> None:  # noqa: FBT001
    path = tmp_path / "out.bin"
    with atomic(path, overwrite=overwrite) as file:
        for piece in PIECES:
            file.write(piece)
        assert not path.exists()
    assert path.read_bytes() == b"".join(PIECES)
    assert listing(tmp_path) == ["out.bin"]
    mask = os.umask(0o022)
    os.umask(mask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~mask


def test_text(tmp_path: Path) -> None:
    with atomic(tmp_path / "t", "w") as file:
        file.write("naïve\n")
    assert (tmp_path / "t").read_bytes() == "naïve\n".encode()


def test_a_file_closed_inside_is_complete(tmp_path: Path) -> None:
    with atomic(tmp_path / "t") as file:
        file.write(b"x")
        file.close()
    assert (tmp_path / "t").read_bytes() == b"x"


def test_an_old_file_is_replaced_or_refused(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_bytes(b"old")
    with pytest.raises(StorageFault, match="exists already"), atomic(path, overwrite=False):
        pytest.fail("must not get here")
    assert path.read_bytes() == b"old"
    with atomic(path) as file:
        file.write(b"new")
    assert path.read_bytes() == b"new"


def test_one_who_comes_first_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "out"
    with pytest.raises(StorageFault, match="exists already"), atomic(path, overwrite=False):
        path.write_bytes(b"theirs")
    assert path.read_bytes() == b"theirs"
    assert listing(tmp_path) == ["out"]


def test_a_private_file_stays_private(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_bytes(b"old")
    path.chmod(0o600)
    with atomic(path) as file:
        file.write(b"new")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_through_a_link_its_file_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b"old")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with atomic(tmp_path / "link") as file:
        file.write(b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == b"new"


def interrupted(path: Path, error: type[BaseException]) -> None:
    with atomic(path) as file:
        file.write(PIECES[0])
        file.write(PIECES[1])
        raise error


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit, GeneratorExit])
def test_any_error_keeps_the_old_file(error: type[BaseException], tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_bytes(b"old")
    with pytest.raises(error):
        interrupted(path, error)
    assert path.read_bytes() == b"old"
    assert listing(tmp_path) == ["out"]


class Failing(files._Raw):  # noqa: SLF001
    """A disk that fails at one write, and at every later one."""

    left = 0
    code = errno.ENOSPC
    writes = 0

    def write(self, data: Any, /) -> int:
        type(self).writes += 1
        if type(self).left == 0:
            self.close_reader()
        type(self).left -= 1
        return super().write(data)

    def close_reader(self) -> None:
        # The error must come from below `_Raw.write`, so the descriptor itself is changed.
        full = os.open("/dev/full", os.O_WRONLY)
        os.dup2(full, self.fileno())
        os.close(full)


def attempt(path: Path) -> None:
    with atomic(path) as file:
        for piece in PIECES:
            file.write(piece)


def test_a_disk_that_fills_at_any_write_keeps_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "out"
    monkeypatch.setattr(files, "_Raw", Failing)
    Failing.left, Failing.writes = -1, 0
    attempt(path)
    needed = Failing.writes
    assert needed > 2
    path.write_bytes(b"old")
    for k in range(needed):
        Failing.left = k
        with pytest.raises(StorageFault, match=r"'out'.*no space"):
            attempt(path)
        assert path.read_bytes() == b"old"
        assert listing(tmp_path) == ["out"]
    Failing.left = needed
    attempt(path)
    assert path.read_bytes() == b"".join(PIECES)


@each_case("code", [errno.EIO, errno.ENOSPC, errno.EDQUOT])
@each_case("call", ["fsync", "replace"])
def test_a_late_failure_keeps_the_old_file(
    call: str, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "out"
    path.write_bytes(b"old")

    def fail(*_: object) -> None:
        raise OSError(code, "broken")

    monkeypatch.setattr(os, call, fail)
    with pytest.raises(StorageFault) as caught:
        attempt(path)
    assert caught.value.details == {"file": "out", "errno": code}
    assert path.read_bytes() == b"old"
    assert listing(tmp_path) == ["out"]


def test_a_device_is_written_to_and_not_replaced() -> None:
    with pytest.raises(StorageFault, match=r"'full'.*no space"), atomic("/dev/full") as file:
        file.write(b"x")
    with atomic("/dev/null") as file:
        file.write(b"x")
    for device in ("/dev/full", "/dev/null"):
        assert stat.S_ISCHR(Path(device).stat().st_mode)


def test_folders_that_are_not_there_and_folders_that_are(tmp_path: Path) -> None:
    for path, words in ((tmp_path / "no" / "out", "no such"), (tmp_path, "a folder")):
        with pytest.raises(StorageFault, match=words), atomic(path):
            pytest.fail("must not get here")


def test_no_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(*_: object) -> None:
        raise PermissionError(errno.EACCES, "denied")  # root may write anywhere, so pretend

    monkeypatch.setattr(os, "open", denied)
    with pytest.raises(StorageFault, match="permission"), atomic(tmp_path / "out"):
        pytest.fail("must not get here")


def test_an_error_of_the_caller_is_not_taken_for_one_of_the_disk(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), atomic(tmp_path / "out"):
        raise FileNotFoundError(errno.ENOENT, "input")
