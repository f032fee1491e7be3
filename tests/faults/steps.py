"""Run a command in a process of its own, and stop it at one step on the disk or at one moment.

A step is whatever opens a file for writing, writes to it, syncs it, gives it a name, removes it,
or changes a database. Steps are counted by the interpreter's audit events, and by wrappers around
what has none; the command itself is the real one.
"""

from __future__ import annotations

import errno
import json
import os
import signal
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, cast

from chaffinch.cli import main
from chaffinch.disk import files

SIGNALS = {
    "kill": signal.SIGKILL,
    "terminate": signal.SIGTERM,
    "hang up": signal.SIGHUP,
    "interrupt": signal.SIGINT,
}
FULL = "full"
"""No space is left: whatever needs some fails at this step, once."""
TORN = "torn"
"""Killed in the middle of a write, when half of it has been done."""
FAULTS = (*SIGNALS, FULL, TORN)

STOPPED = 130
"""The exit code of a command that was asked to end."""
_PATIENCE = 60
"""Seconds after which a command that does not end is taken to wait for ever."""
_NAMING = {"os.rename", "os.link", "os.mkdir"}
_REMOVING = {"os.remove", "os.rmdir"}
_WITHOUT_SPACE = _REMOVING | {"os.chmod", "os.truncate"}
_WRITABLE = os.O_WRONLY | os.O_RDWR | os.O_CREAT


@dataclass(frozen=True)
class Fault:
    """What goes wrong, and when: at a step, or so many seconds after the start."""

    kind: str
    step: int = 0
    after: float | None = None


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int | None
    """Its exit code; None if it was killed."""
    reached: bool
    """Whether the fault happened before the command was over."""
    steps: int
    """How many steps were counted."""
    seconds: float
    direct: bool
    """Whether a result was opened for writing under the name it has when it is whole."""
    said: str = ""
    """The end of what it said, if it failed."""
    removing: tuple[int, ...] = ()
    """Which steps remove a file or a folder."""


def run(words: Sequence[str], results: Collection[str], fault: Fault | None = None) -> Ended:
    """Run a command in a fork, which starts with everything imported; ``results`` are its files."""
    fault = fault or Fault("none")
    inside, outside = os.pipe()
    with tempfile.TemporaryFile() as talk:
        start = time.monotonic()
        child = os.fork()
        if not child:
            os.close(inside)
            _live(words, results, fault, outside, talk.fileno())
        os.close(outside)
        if fault.after is not None:
            time.sleep(max(0.0, start + fault.after - time.monotonic()))
            os.kill(child, SIGNALS[fault.kind])
        _, status = os.waitpid(child, 0)
        seconds = time.monotonic() - start
        talk.seek(0)
        said = talk.read().decode(errors="replace")[-2000:]
    with os.fdopen(inside, "rb") as pipe:
        told = pipe.read()
    killed = os.WIFSIGNALED(status)
    assert not (killed and os.WTERMSIG(status) == signal.SIGALRM), ("hangs", words, said)
    steps, removing = json.loads(told.lstrip(b"x!") or b"[0, []]")
    ending = None if killed else os.WEXITSTATUS(status)
    reached = b"x" in told if fault.after is None else killed or ending == STOPPED
    said = said if ending else ""
    return Ended(ending, reached, steps, seconds, b"!" in told, said, tuple(removing))


def _live(
    words: Sequence[str], results: Collection[str], fault: Fault, pipe: int, talk: int
) -> NoReturn:
    code = 70
    try:
        _silence()
        os.dup2(talk, 2)
        signal.alarm(_PATIENCE)
        watched = _watch(fault, results, pipe)
        code = main(list(words))
        os.write(pipe, json.dumps([watched.count, watched.removing]).encode())
    except BaseException:  # noqa: BLE001 - whoever looks is told, and the parent fails
        sys.excepthook(*cast("Any", sys.exc_info()))
    finally:
        os._exit(code)


def ask(function: Callable[[], Any]) -> Any:
    """Return what a function returns in a fork: whoever forks must have no threads."""
    inside, outside = os.pipe()
    child = os.fork()
    if not child:
        code = 70
        try:
            os.close(inside)
            answer = json.dumps(function()).encode()
            with os.fdopen(outside, "wb") as pipe:
                pipe.write(answer)
            code = 0
        except BaseException:  # noqa: BLE001 - shown here, and the parent fails
            sys.excepthook(*cast("Any", sys.exc_info()))
        finally:
            os._exit(code)
    os.close(outside)
    with os.fdopen(inside, "rb") as pipe:
        answer = pipe.read()
    os.waitpid(child, 0)
    if not answer:
        raise AssertionError(function)
    return json.loads(answer)


def quietly(words: Sequence[str]) -> int:
    """Run a command in this process, which is a fork already, without a word."""
    _silence()
    return main(list(words))


def _silence() -> None:
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)
    # Whoever starts tests in the background may have let these be ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


class _Steps:
    """Counts steps on the disk, and lets one of them fail."""

    def __init__(self, fault: Fault, results: Collection[str], pipe: int) -> None:
        self.count = 0
        self.removing: list[int] = []
        self._fault, self._results, self._pipe = fault, results, pipe

    def reach(self, *, writing: int = 0, needs_space: bool = True) -> int:
        """Count a step; return how many bytes are written before the process dies, if it does."""
        self.count += 1
        kind = self._fault.kind
        if self.count != self._fault.step:
            return 0
        if (kind == FULL and not needs_space) or (kind == TORN and not writing):
            self.count -= 1  # the next step that can fail in this way does
            return 0
        if kind == TORN:
            return -(-writing // 2)
        os.write(self._pipe, b"x")
        if kind == FULL:
            raise OSError(errno.ENOSPC, "no space left")
        signal.raise_signal(SIGNALS[kind])
        return 0

    def die(self) -> None:
        os.write(self._pipe, b"x")
        os.kill(os.getpid(), signal.SIGKILL)

    def hear(self, event: str, given: tuple[Any, ...]) -> None:
        """Hear of what the interpreter is about to do."""
        if event == "open":
            path, _, flags = given
            if not flags & _WRITABLE or str(path).startswith("/dev/"):
                return
            if str(path) in self._results:
                os.write(self._pipe, b"!")
            self.reach()
        elif event in _NAMING:
            self.reach()
        elif event in _WITHOUT_SPACE:
            if event in _REMOVING:
                self.removing.append(self.count + 1)
            self.reach(needs_space=False)


def _watch(fault: Fault, results: Collection[str], pipe: int) -> _Steps:
    """Count steps from now on."""
    steps = _Steps(fault, results, pipe)
    _wrap_writes(steps)
    _wrap_databases(steps)
    sync = os.fsync

    def fsync(number: int) -> None:
        steps.reach()
        sync(number)

    os.fsync = cast("Any", fsync)
    sys.addaudithook(steps.hear)
    return steps


def _wrap_writes(steps: _Steps) -> None:
    raw: Any = files._Raw  # noqa: SLF001 - where all bytes of results go through
    plain = raw.write

    def write(self: Any, data: Any, /) -> int:
        size = len(memoryview(data).cast("B"))
        part = steps.reach(writing=size)
        if part:
            plain(self, memoryview(data).cast("B")[:part])
            steps.die()
        return cast("int", plain(self, data))

    raw.write = write


def _wrap_databases(steps: _Steps) -> None:
    connect = sqlite3.connect

    class Watched(sqlite3.Connection):
        def execute(self, sql: str, *given: Any) -> sqlite3.Cursor:
            if not sql.startswith(("SELECT", "PRAGMA")):
                try:
                    steps.reach()
                except OSError:
                    raise sqlite3.OperationalError("database or disk is full") from None
            return super().execute(sql, *given)

        def close(self) -> None:
            steps.reach(needs_space=False)
            super().close()

    def watched(*given: Any, **more: Any) -> sqlite3.Connection:
        return connect(*given, factory=Watched, **more)

    sqlite3.connect = cast("Any", watched)
