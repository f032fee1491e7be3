"""Files that are there in full or not at all."""

from __future__ import annotations

import errno
import io
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, Literal, TextIO, overload

from chaffinch.tables.faults import storage_fault

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)


class _Raw(io.FileIO):
    """A file whose errors name the file that is being made, not the temporary one."""

    label = ""

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data) or 0
        except OSError as error:
            raise storage_fault(self.label, error, verb="write") from None


@overload
def atomic(
    path: str | os.PathLike[str],
    mode: Literal["wb"] = "wb",
    *,
    overwrite: bool = True,
    permissions: int = 0o666,
) -> AbstractContextManager[BinaryIO]: ...
@overload
def atomic(
    path: str | os.PathLike[str],
    mode: Literal["w"],
    *,
    overwrite: bool = True,
    permissions: int = 0o666,
) -> AbstractContextManager[TextIO]: ...
def atomic(
    path: str | os.PathLike[str],
    mode: str = "wb",
    *,
    overwrite: bool = True,
    permissions: int = 0o666,
) -> AbstractContextManager[Any]:
    """Open a file that takes its name only once it is complete and on the disk.

    Whatever goes wrong before that, Ctrl-C included, leaves the old file as it was and no
    other behind. A device or a named pipe is written to directly. Text is UTF-8.
    ``permissions`` is who may use a new file, less what the system's mask takes away.
    """
    # Through a link, the file it points to is replaced, and the link stays.
    target = Path(os.path.realpath(path))
    if _is_special(target):
        return _direct(target, mode)
    return _replacing(target, mode, overwrite, permissions)


@contextmanager
def _replacing(
    target: Path,
    mode: str,
    overwrite: bool,  # noqa: FBT001
    permissions: int,
) -> Iterator[Any]:
    part = target.with_name(f".{target.name[:100]}.{secrets.token_hex(8)}.part")
    with _faults(target):
        if not overwrite and target.exists():
            raise FileExistsError(errno.EEXIST, "")
        number = os.open(part, _NEW, permissions)
    with suppress(OSError):
        # What only its owner could read stays so.
        os.chmod(part, stat.S_IMODE(target.stat().st_mode) & permissions)  # noqa: PTH101
    try:
        with _writing(number, target, mode) as file:
            yield file
        with _faults(target):
            _name(part, target, overwrite=overwrite)
    except BaseException:
        with suppress(OSError):
            part.unlink()
        raise
    _settle(target.parent)


@contextmanager
def _direct(target: Path, mode: str) -> Iterator[Any]:
    with _faults(target):
        number = os.open(target, os.O_WRONLY)
    with _writing(number, target, mode) as file:
        yield file


@contextmanager
def _writing(number: int, target: Path, mode: str) -> Iterator[Any]:
    """Yield a buffered file over an open descriptor; on success everything is on the disk."""
    raw = _Raw(number, "wb")
    raw.label = target.name
    buffered = io.BufferedWriter(raw, 1 << 20)
    file: Any = buffered if mode == "wb" else io.TextIOWrapper(buffered, encoding="utf-8")
    try:
        yield file
        if not file.closed:
            file.flush()
        with _faults(target):
            if not raw.closed and stat.S_ISREG(os.fstat(raw.fileno()).st_mode):
                os.fsync(raw.fileno())
    finally:
        # After a failure the rest must not be tried again, so the descriptor goes first.
        raw.close()


def _name(part: Path, target: Path, *, overwrite: bool) -> None:
    if overwrite:
        part.replace(target)
    else:
        # A link, unlike a renaming, fails where another file came first.
        os.link(part, target)
        part.unlink()


def _settle(folder: Path) -> None:
    """Put the new name on the disk, where folders can be opened for that."""
    with suppress(OSError):
        number = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)


def _is_special(target: Path) -> bool:
    with _faults(target):
        try:
            kind = target.stat().st_mode
        except FileNotFoundError:
            return False
        if stat.S_ISDIR(kind):
            raise IsADirectoryError(errno.EISDIR, "")
        return not stat.S_ISREG(kind)


@contextmanager
def _faults(target: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise storage_fault(target.name, error, verb="write") from None
