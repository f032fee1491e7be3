"""Locks on open files and folders. A lock ends with its handle, or with the process."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

try:
    import fcntl
except ImportError:  # a system without such locks
    fcntl = None  # type: ignore[assignment]


def try_lock(number: int) -> bool | None:
    """Lock an open file at once: whether that worked, None where there are no locks."""
    if fcntl is None:
        return None
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return False if error.errno in {errno.EAGAIN, errno.EACCES} else None
    return True


def wait_for_lock(number: int) -> None:
    """Lock an open file as soon as nobody else has the lock; OSError where a disk has none."""
    if fcntl is not None:
        fcntl.flock(number, fcntl.LOCK_EX)


def holds_new(number: int, path: Path) -> bool:
    """Lock a file that was just made; return whether it is still there, and ours.

    Before it is locked, another process may take it for a leftover: then it is locked or gone.
    """
    return try_lock(number) is not False and has_name(number, path)


def has_name(number: int, path: Path) -> bool:
    """Return whether a name still leads to an open file or folder."""
    try:
        return os.path.samestat(os.fstat(number), path.lstat())
    except OSError:
        return False


def make_locked_folder(new_name: Callable[[], Path]) -> tuple[Path, int]:
    """Make a folder for its owner only; return it with its handle, which is locked."""
    while True:
        place = new_name()
        place.mkdir(0o700)
        with suppress(FileNotFoundError):  # somebody took it for a leftover
            number = os.open(place, os.O_RDONLY)
            if holds_new(number, place):
                return place, number
            os.close(number)
