"""Locks on open files and folders. A lock ends with its handle, or with the process."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

try:
    import fcntl
except ImportError:  # a system without such locks
    fcntl = None  # type: ignore[assignment]

PATIENCE = 10.0
"""Seconds to wait for somebody else's lock; after _LONG of them people are told."""
_LONG = 2.0
_PAUSE = 0.05
LOOK = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
"""Open what is there; neither follow a link nor wait for the other end of a pipe."""
_OWN = LOOK | os.O_RDWR | os.O_CREAT


def try_lock(number: int) -> bool | None:
    """Lock an open file at once: whether that worked, None where there are no locks."""
    if fcntl is None:
        return None
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return False if error.errno in {errno.EAGAIN, errno.EACCES} else None
    return True


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


def lock_file(
    path: Path,
    how: int = _OWN,
    *,
    patience: float = PATIENCE,
    tell: Callable[[], object] = lambda: None,
) -> int:
    """Make a file for its owner only, or open it, and return its handle, which is locked.

    When somebody else has had the lock for so many seconds of ``patience``, BlockingIOError is
    raised; ``tell`` is called once if it takes long. Whoever waited may have locked a file that
    was removed meanwhile: then there is a new one. ``how`` it is opened may be without making it.
    """
    start, told = time.monotonic(), False
    while True:
        number = os.open(path, how, 0o600)
        # A lock is on the file, not on its name: it counts only where the name still leads there.
        free = try_lock(number) is not False
        if free and has_name(number, path):
            return number
        os.close(number)
        waited = time.monotonic() - start
        if not free and waited >= patience:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        if waited >= _LONG and not told:
            told = True
            tell()
        # Free, but removed meanwhile: the next open makes a new file, and nobody has to be waited
        # for.
        time.sleep(0 if free else _PAUSE)


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
