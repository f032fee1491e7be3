"""Files that are there in full or not at all.

A file is written beside its place, as a draft that nobody takes for it, and takes its name when
all of it is on the disk. ``atomic`` does so for whoever writes a file. What must be on the disk
before something else happens, and have its name only afterwards, uses the draft itself.
"""

from __future__ import annotations

import errno
import io
import os
import secrets
import shlex
import stat
from collections.abc import Callable, Container, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from contextvars import ContextVar
from itertools import chain, count
from pathlib import Path
from typing import Any, BinaryIO, Literal, Self, TextIO, overload

from chaffinch.disk.leftovers import NEW, new_part, remove_leftovers, remove_surely
from chaffinch.disk.locks import LOOK, holds_new, lock_file
from chaffinch.disk.storage_errors import storage_fault, write_fault
from chaffinch.errors import InvalidFile, Reason, StorageFault

AnyPath = str | os.PathLike[str]
Check = Callable[[Path], object]
"""Raises unless the file in a place may be replaced."""

_WITHOUT_LINKS = {errno.EPERM, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP}

TURNED = 64
"""How many bytes at the start of a file are turned round while it waits for its name."""
_TURNING: ContextVar[set[Path] | None] = ContextVar("turning", default=None)


@contextmanager
def masked_headers() -> Iterator[set[Path]]:
    """Write files with their first bytes turned round, so that none can be taken for whole.

    Yields the set of files that were written so.
    """
    done: set[Path] = set()
    before = _TURNING.set(done)
    try:
        yield done
    finally:
        _TURNING.reset(before)


def mask_header(content: bytes) -> bytes:
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
                data = mask_header(bytes(memoryview(data).cast("B")[: TURNED - place]))
            return super().write(data) or 0
        except OSError as error:
            raise storage_fault(self.label, error, verb="write") from None


@overload
def atomic(
    path: AnyPath,
    mode: Literal["wb"] = "wb",
    *,
    overwrite: bool = True,
    check: Check | None = None,
    permissions: int = 0o666,
) -> AbstractContextManager[BinaryIO]: ...
@overload
def atomic(
    path: AnyPath,
    mode: Literal["w"],
    *,
    overwrite: bool = True,
    check: Check | None = None,
    permissions: int = 0o666,
) -> AbstractContextManager[TextIO]: ...
def atomic(
    path: AnyPath,
    mode: str = "wb",
    *,
    overwrite: bool = True,
    check: Check | None = None,
    permissions: int = 0o666,
) -> AbstractContextManager[Any]:
    """Open a file that takes its name only once it is complete and on the disk.

    Whatever goes wrong before that, Ctrl-C included, leaves the old file as it was and no
    other behind. A device or a named pipe is written to directly. Text is UTF-8.
    What stands there is asked for ``check`` before anything is written, and again when the new
    file takes its name: something else may have come meanwhile.
    ``permissions`` is who may use a new file, less what the system's mask takes away.
    """
    # Through a link, the file it points to is replaced, and the link stays.
    target = Path(os.path.realpath(path))
    if is_special(target):
        return _direct(target, mode)
    return _replacing(target, mode, overwrite, check, permissions)


@contextmanager
def _replacing(
    target: Path,
    mode: str,
    overwrite: bool,  # noqa: FBT001
    check: Check | None,
    permissions: int,
) -> Iterator[Any]:
    with _faults(target):
        if target.is_dir():
            raise IsADirectoryError(errno.EISDIR, "")
        if not overwrite and target.exists():
            # One that was killed after the file had its name leaves a second name for it.
            remove_leftovers(target.parent)
            raise FileExistsError(errno.EEXIST, "")
        if check is not None:
            check(target)
        draft = Draft(target, permissions)
    with draft:
        with _writing(draft.number, target, mode) as file:
            yield file
        # ``_writing`` has synced the content: a name never leads to a file that is not whole.
        with _faults(target):
            draft.put_in_place(overwrite=overwrite, check=check)
    with suppress(OSError):
        sync_folder(target.parent)


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


class Draft:
    """A new file beside its place; it takes the name when it is told to, or goes.

    It is locked as long as it is there, so that nobody takes it for a leftover.
    """

    def __init__(self, target: Path, permissions: int) -> None:
        remove_leftovers(target.parent)
        self._target = target
        self._part, self.number = new_part(target, permissions)
        # A second handle keeps the lock until the file has its name.
        self._lock = os.dup(self.number)
        self._placed = False
        try:
            with suppress(OSError):
                keep_private(self._part, target, permissions)
        except BaseException:  # Ctrl-C: nobody has a draft yet that could go
            os.close(self.number)
            self.__exit__(None, None, None)
            raise

    @property
    def path(self) -> Path:
        """Return where the file is until it has its name."""
        return self._part

    def write(self, content: bytes) -> None:
        """Write all that the file holds, once; afterwards it is on the disk."""
        with open(self.number, "wb") as file:  # noqa: PTH123 - a handle, not a path
            file.write(content)
            file.flush()
            os.fsync(file.fileno())

    def put_in_place(self, *, overwrite: bool = True, check: Check | None = None) -> None:
        """Give the file its name; whoever needs that on the disk syncs the folder."""
        if check is None:
            give_name(self._part, self._target, overwrite=overwrite)
        else:
            give_checked_name(self._part, self._target, check)
        self._placed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if not self._placed:
            remove_surely(self._part.unlink)
        os.close(self._lock)


def require_private(place: Path, *, hint: str = "") -> None:
    """Refuse a file or folder that others than its owner may use."""
    try:
        mode = stat.S_IMODE(place.stat().st_mode)
    except OSError as error:
        raise storage_fault(place.name, error, verb="read") from None
    if mode & 0o077:
        kind, wanted = ("folder", "700") if place.is_dir() else ("file", "600")
        raise StorageFault(
            f"The {kind} {place.name!r} must be for its owner alone. Got permissions {mode:o}.",
            hint=f"{shlex.join(['chmod', wanted, str(place)])}{hint}",
        )


def give_name(part: Path, target: Path, *, overwrite: bool) -> None:
    """Let a file that is complete take its name; without ``overwrite`` only where no file is."""
    if overwrite:
        part.replace(target)
        return
    # A link, unlike a renaming, fails where another file came first. On a disk without links an
    # empty file takes the name, locked, and is replaced: a process killed in between leaves it.
    try:
        os.link(part, target)
    except OSError as error:
        if error.errno not in _WITHOUT_LINKS:
            raise
        number = os.open(target, NEW, stat.S_IRUSR | stat.S_IWUSR)
        try:
            if not holds_new(number, target):
                raise FileExistsError(errno.EEXIST, "") from None
            part.replace(target)
        finally:
            os.close(number)
    else:
        part.unlink()


def require_links(folder: Path) -> None:
    """Refuse a disk without hard links: a name is not taken and filled in one step there.

    Whoever is killed in between leaves an empty file, for which somebody may get a receipt.
    """
    with suppress(OSError):  # Whatever else is wrong is told when something is stored.
        part, number = new_part(folder / "links", 0o600)
        other = part.with_name(f".links.{secrets.token_hex(8)}.part")
        try:
            os.link(part, other)
            other.unlink()
        except OSError as error:
            if error.errno in _WITHOUT_LINKS:
                raise StorageFault(
                    f"The disk of {folder.name!r} must know hard links. Got one that does not.",
                    hint="keep the data of services on a disk such as ext4, XFS, Btrfs or ZFS",
                ) from None
        finally:
            remove_surely(part.unlink)
            os.close(number)


def give_checked_name(part: Path, target: Path, check: Check) -> None:
    """Let a file that is complete take its name; ``check`` refuses to replace what stands there.

    Of any number of processes that do so at once, no two replace the same file, whoever runs
    them: a free name is taken by a link, and a file is replaced by whoever holds a lock on it, and
    asks ``check`` when its name still leads to it.
    """
    with suppress(FileExistsError):
        give_name(part, target, overwrite=False)
        return
    # The lock is on the file that stands there: two that replace it take turns, and the second
    # finds that the name leads to another file by then, and locks and checks that one.
    number = lock_file(target, LOOK)
    try:
        check(target)
        give_name(part, target, overwrite=True)
    finally:
        os.close(number)


def keep_private(part: Path, target: Path, permissions: int) -> None:
    """Give a file that replaces another the permissions of that one, as far as they go.

    So what only its owner could read stays so.
    """
    part.chmod(stat.S_IMODE(target.stat().st_mode) & permissions)


def sync_folder(folder: Path) -> None:
    """Put the names in a folder on the disk, where the system lets folders be synced."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def make_folder(folder: Path) -> None:
    """Make a folder for its owner alone, and those above it; their names are on the disk then.

    A process that was killed may have made a folder and not synced its name, but never more than
    one: so the name of the lowest one that is there is synced, too.
    """
    if not folder.is_dir():
        make_folder(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)
    with suppress(PermissionError):  # whoever may not read the one above has made nothing in it
        sync_folder(folder.parent)


def is_special(target: Path) -> bool:
    """Return whether a target is a device or a pipe, which is written to directly."""
    try:
        kind = target.stat().st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(kind) or stat.S_ISDIR(kind))


@contextmanager
def _faults(target: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno == errno.ENOENT and not target.parent.exists():
            gone = target.parent.name
            raise storage_fault(gone, error, verb="find", kind="folder") from None
        raise storage_fault(target.name, error, verb="write") from None


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


def state_folder() -> Path:
    """Return where records of this user are kept, whatever the working folder."""
    state = os.environ.get("XDG_STATE_HOME", "")
    if Path(state).is_absolute():
        return Path(state) / "chaffinch"
    try:
        home = Path.home()
    except RuntimeError:  # no HOME, and a user whom the system does not know
        home = Path()
    if not home.is_absolute():
        # Another folder each time would forget what the one before knew.
        raise StorageFault(
            "The user's home folder must be an absolute path. Got none.",
            hint="records are kept there: set HOME or XDG_STATE_HOME to a folder that stays",
        )
    return home / ".local" / "state" / "chaffinch"


# ----------------------------------------------------------------------------
# Damaged files: put aside under another name, and never removed.

DAMAGED = ".damaged"
"""``NAME.segment`` becomes ``NAME.damaged``. Whoever has a copy puts it back under the old name."""


def put_aside(path: Path, used: Container[str] = ()) -> Path:
    """Give a damaged file another name, durably; return it. One process at a time does this.

    It is none that is ``used``, although its owner may have removed that file just now.
    """
    numbers = chain([""], (f".{number}" for number in count(2)))
    names = (path.with_name(f"{path.stem}{number}{DAMAGED}") for number in numbers)
    free = next(name for name in names if not (name.exists() or name.name in used))
    try:
        path.rename(free)
        sync_folder(path.parent)
    except OSError as error:
        raise write_fault(path.name, error, Reason.UNCERTAIN) from None
    return free


def put_aside_in(folder: Path) -> list[Path]:
    """Return the damaged files of a folder, by name."""
    return sorted(folder.glob(f"*{DAMAGED}"))
