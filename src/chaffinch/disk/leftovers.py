"""Unfinished files and folders, and how the next process removes those that a killed one left.

A living process holds a lock on what it has not finished.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from chaffinch.disk.locks import (
    LOOK,
    PATIENCE,
    has_name,
    holds_new,
    lock_file,
    make_locked_folder,
    try_lock,
)
from chaffinch.disk.storage_errors import storage_fault
from chaffinch.errors import Reason, StorageFault

_LEFTOVER = re.compile(r"\..{1,100}\.[0-9a-f]{16}\.part")
NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)


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
    number = os.open(place, LOOK)
    try:
        kind = os.fstat(number).st_mode
        # The name may lead to another file by now, on which a living process has its lock.
        if try_lock(number) is not True or not has_name(number, place):
            return
        if stat.S_ISDIR(kind):
            shutil.rmtree(place, ignore_errors=True)
        elif stat.S_ISREG(kind):
            place.unlink()
    finally:
        os.close(number)


def new_part(target: Path, permissions: int) -> tuple[Path, int]:
    """Return a new file beside a target, and its handle, which is locked."""
    # Another run may take a new file for a leftover before it is locked, but not every time.
    for _ in range(100):
        part = target.with_name(f".{target.name[:100]}.{secrets.token_hex(8)}.part")
        number = os.open(part, NEW, permissions)
        if holds_new(number, part):
            return part, number
        os.close(number)
    raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))


@contextmanager
def alone_in(
    folder: Path,
    purpose: str,
    *,
    patience: float = PATIENCE,
    tell: Callable[[str], object] = lambda _: None,
) -> Iterator[None]:
    """Let one process of this user at a time do something in a folder.

    The lock is on a file of our own: whoever may read a folder can lock that, and keep us
    waiting. Somebody else is waited for within bounds; ``tell`` is told so.
    """
    user = getattr(os, "getuid", int)()
    # A name that ``remove_leftovers`` knows: what a killed process leaves goes with the next one.
    path = folder / f".chaffinch-{purpose}.{user:016x}.part"
    name = folder.name or str(folder)
    try:
        number = lock_file(
            path,
            patience=patience,
            tell=lambda: tell(f"waiting for another command to end that writes to {name!r}"),
        )
    except OSError as error:
        raise _not_alone(path, name, error) from None
    # Removed before it is unlocked: whoever waits for it finds that the name is gone, and starts
    # anew (``lock_file``). In the other order two could hold locks on two files of one name.
    try:
        yield
    finally:
        remove_surely(partial(_remove_own, number, path))
        os.close(number)


def _remove_own(number: int, path: Path) -> None:
    # Somebody may have removed the lock file meanwhile, and another process made and locked a new
    # one: that one stays.
    if has_name(number, path):
        path.unlink()


def _not_alone(path: Path, folder: str, error: OSError) -> StorageFault:
    with suppress(OSError):
        if path.lstat().st_uid != getattr(os, "geteuid", int)():
            return StorageFault(
                f"The lock file {path.name!r} in {folder!r} must be this user's. Got another's.",
                hint="nothing was changed: if no command of yours is running there, remove that "
                "file, or write to another folder",
            )
    if isinstance(error, BlockingIOError):
        return StorageFault(
            f"The folder {folder!r} must be free for this command. Got one in use.",
            hint="nothing was changed: run the same command again when the other one has ended",
            reason=Reason.BUSY,
        )
    return storage_fault(folder, error, verb="write")


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


def remove_folder(place: Path) -> None:
    """Remove a folder as far as possible; Ctrl-C meanwhile is heard when it is gone."""
    remove_surely(partial(shutil.rmtree, place, ignore_errors=True))


def remove_surely(remove: Callable[[], object]) -> None:
    """Remove something, if that is possible; Ctrl-C meanwhile is heard when it is gone."""
    try:
        with suppress(OSError):
            remove()
    except BaseException:
        with suppress(OSError):
            remove()
        raise
