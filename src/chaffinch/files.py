"""Files that are there in full or not at all, and what goes wrong with them."""

from __future__ import annotations

import errno
import io
import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any, BinaryIO, Literal, TextIO, overload

from chaffinch.errors import InvalidFile, Reason, StorageFault
from chaffinch.locks import holds_new, make_locked_folder, try_lock

AnyPath = str | os.PathLike[str]
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)


TURNED = 64
"""How many bytes at the start of a file are turned round while it waits for its name."""
_TURNING: ContextVar[set[Path] | None] = ContextVar("turning", default=None)


@contextmanager
def turned_round() -> Iterator[set[Path]]:
    """Write files with their first bytes turned round, so that none can be taken for whole.

    Yields the set of files that were written so.
    """
    done: set[Path] = set()
    before = _TURNING.set(done)
    try:
        yield done
    finally:
        _TURNING.reset(before)


def turn_round(content: bytes) -> bytes:
    """Return bytes with every bit turned; done twice, they are what they were."""
    return bytes(byte ^ 0xFF for byte in content)


class _Raw(io.FileIO):
    """A file whose errors name the file that is being made, not the temporary one."""

    label = ""
    turned = False

    def write(self, data: Any, /) -> int:
        try:
            if self.turned and (place := self.tell()) < TURNED:
                # A short write is allowed: the rest is asked for again.
                data = turn_round(bytes(memoryview(data).cast("B")[: TURNED - place]))
            return super().write(data) or 0
        except OSError as error:
            raise storage_fault(self.label, error, verb="write") from None


@overload
def atomic(
    path: AnyPath,
    mode: Literal["wb"] = "wb",
    *,
    overwrite: bool = True,
    permissions: int = 0o666,
) -> AbstractContextManager[BinaryIO]: ...
@overload
def atomic(
    path: AnyPath,
    mode: Literal["w"],
    *,
    overwrite: bool = True,
    permissions: int = 0o666,
) -> AbstractContextManager[TextIO]: ...
def atomic(
    path: AnyPath,
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
    remove_leftovers(target.parent)
    with _faults(target):
        if not overwrite and target.exists():
            raise FileExistsError(errno.EEXIST, "")
        part, number = _new_part(target, permissions)
        # A second handle keeps the lock until the file has its name.
        lock = os.dup(number)
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
    finally:
        os.close(lock)
    with suppress(OSError):
        sync_folder(target.parent)


def _new_part(target: Path, permissions: int) -> tuple[Path, int]:
    """Return a new file beside a target, and its handle, which is locked."""
    # Another run may take a new file for a leftover before it is locked, but not every time.
    for _ in range(100):
        part = target.with_name(f".{target.name[:100]}.{secrets.token_hex(8)}.part")
        number = os.open(part, _NEW, permissions)
        if holds_new(number, part):
            return part, number
        os.close(number)
    raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))


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
    turning = _TURNING.get()
    if turning is not None:
        raw.turned = True
        turning.add(target)
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


def sync_folder(folder: Path) -> None:
    """Put the names in a folder on the disk, where the system lets folders be synced."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
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


# ----------------------------------------------------------------------------
# What a killed process leaves behind. A living one holds a lock on what it has not finished.

_LEFTOVER = re.compile(r"\..{1,100}\.[0-9a-f]{16}\.part")
_LOOK = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


def remove_leftovers(folder: Path) -> None:
    """Remove unfinished files and folders of processes that are gone.

    They have names that only this module gives, and nobody holds their lock. What cannot be
    locked or removed stays: it may be somebody else's.
    """
    with suppress(OSError):
        for entry in list(os.scandir(folder)):
            if _LEFTOVER.fullmatch(entry.name):
                with suppress(OSError):
                    _remove_unlocked(Path(entry.path))


def _remove_unlocked(place: Path) -> None:
    number = os.open(place, _LOOK)
    try:
        kind = os.fstat(number).st_mode
        if try_lock(number) is not True:
            return
        if stat.S_ISDIR(kind):
            shutil.rmtree(place, ignore_errors=True)
        elif stat.S_ISREG(kind):
            place.unlink()
    finally:
        os.close(number)


@contextmanager
def staging_folder(parent: Path) -> Iterator[Path]:
    """Yield a new folder for unfinished files, for its owner only; it is removed in the end."""
    remove_leftovers(parent)
    place, number = make_locked_folder(
        lambda: parent / f".chaffinch-staging.{secrets.token_hex(8)}.part"
    )
    try:
        # Who works inside may lock its folder too, so that is another one than the locked one.
        inside = place / "files"
        inside.mkdir(0o700)
        yield inside
    finally:
        remove_folder(place)
        os.close(number)


@contextmanager
def publish_new(path: Path) -> Iterator[Path]:
    """Yield a name in a new folder to write to; afterwards it appears as ``path``, whole.

    Linking fails where a file exists, so two creators cannot both succeed. The folder goes
    with all that is in it, such as the journal of a database; if this process is killed, the
    next one that makes a file there removes it.
    """
    with staging_folder(path.parent) as folder:
        unfinished = folder / path.name
        yield unfinished
        os.link(unfinished, path)
    sync_folder(path.parent)


def remove_folder(place: Path) -> None:
    """Remove a folder as far as possible; Ctrl-C meanwhile is heard when it is gone."""
    try:
        shutil.rmtree(place, ignore_errors=True)
    except BaseException:
        shutil.rmtree(place, ignore_errors=True)
        raise


# ----------------------------------------------------------------------------
# Files that are read whole: plans, surveys and releases, never tables.

_BLOCK = 1 << 20


def read_small(path: str | Path, *, most: int, must_be: str) -> bytes:
    """Return the bytes of a file; refuse one of more than ``most``, whatever size it claims."""
    place = Path(path)
    content = bytearray()
    try:
        with place.open("rb") as file:
            while len(content) <= most and (block := file.read(_BLOCK)):
                content += block
    except OSError as fault:
        raise storage_fault(place.name, fault, verb="read") from None
    if len(content) > most:
        raise InvalidFile(f"file {place.name}", must_be, ["a file too large to be one"])
    return bytes(content)


# ----------------------------------------------------------------------------
# What goes wrong with files, in the words of chaffinch. No message repeats a cell.

_REASONS = {
    errno.ENOSPC: ("no space left on the disk", "free some space, or write elsewhere"),
    errno.EDQUOT: ("no space left in the quota", "free some space, or write elsewhere"),
    errno.EFBIG: ("a file too large for the disk", "write elsewhere"),
    errno.EACCES: ("a permission denied", "check who may use the file and its folder"),
    errno.EPERM: ("a permission denied", "check who may use the file and its folder"),
    errno.EROFS: ("a disk that cannot be written to", "write elsewhere"),
    errno.ENOENT: ("no such file or folder", "check the path"),
    errno.EISDIR: ("a folder", "name a file"),
    errno.ENOTDIR: ("a path through something that is not a folder", "check the path"),
    errno.EEXIST: ("a file that exists already", "choose another name, or allow overwriting"),
    errno.EPIPE: ("a reader that went away", ""),
    errno.EIO: ("an error of the disk", "check the disk; what was there before is kept"),
}


def storage_fault(name: str, error: OSError, *, verb: str) -> StorageFault:
    """Return the fault for a file that could not be read or written (``verb``)."""
    code = error.errno or 0
    reason, hint = _REASONS.get(code, (f"error {errno.errorcode.get(code, code)}", ""))
    return StorageFault(
        f"The file {name!r} must be possible to {verb}. Got {reason}.",
        hint=hint,
        details={"file": name, "errno": code},
        reason=Reason.READER_GONE if code == errno.EPIPE else None,
    )


def state_folder() -> Path:
    """Return where records of this user are kept, whatever the working folder."""
    state = os.environ.get("XDG_STATE_HOME", "")
    home = Path(state) if Path(state).is_absolute() else Path("~/.local/state").expanduser()
    return home / "chaffinch"
