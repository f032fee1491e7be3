"""Stop a command at its n-th step on the disk, in a process of its own that ends there.

A step is whatever puts something on the disk or gives it a name. The command is killed, or its
disk is full, at one step; how it ended is the exit code (9 when it was killed).
"""

from __future__ import annotations

import errno
import json
import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from chaffinch.cli import main
from chaffinch.ledger import Ledger

KILLED = 9


def run_until(step: int, words: Sequence[str], *, fault: str) -> tuple[int, bool]:
    """Run a command in a fork with a fault at one step; return how it ended, and if it got there.

    The fork starts with everything imported, which saves a second each time.
    """
    inside, outside = os.pipe()
    child = os.fork()
    if not child:
        code = 70
        try:
            os.close(inside)
            null = os.open(os.devnull, os.O_RDWR)
            for stream in (0, 1, 2):
                os.dup2(null, stream)
            _break(step, fault, outside)
            code = main(list(words))
        finally:
            os._exit(code)
    os.close(outside)
    _, status = os.waitpid(child, 0)
    reached = bool(os.read(inside, 1))
    os.close(inside)
    return (KILLED if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)), reached


def _break(step: int, fault: str, pipe: int) -> None:
    """Count steps on the disk, and let one of them fail."""
    count = 0

    def reach() -> None:
        nonlocal count
        count += 1
        if count != step:
            return
        os.write(pipe, b"x")
        if fault == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        raise OSError(errno.ENOSPC, "no space left")

    def before(call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*given: Any, **more: Any) -> Any:
            reach()
            return call(*given, **more)

        return wrapped

    def around(call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*given: Any, **more: Any) -> Any:
            if fault == "kill":
                reach()
            done = call(*given, **more)
            if fault == "kill":
                reach()
            return done

        return wrapped

    os.fsync = before(os.fsync)
    os.replace = before(os.replace)
    os.link = before(os.link)
    Path.replace = before(Path.replace)  # type: ignore[method-assign]
    Path.mkdir = before(Path.mkdir)  # type: ignore[method-assign]
    Ledger.charge = around(Ledger.charge)  # type: ignore[method-assign]


def ask(function: Callable[[], Any]) -> Any:
    """Return what a function returns in a fork: whoever forks must have no threads."""
    inside, outside = os.pipe()
    child = os.fork()
    if not child:
        code = 70
        try:
            os.close(inside)
            os.write(outside, json.dumps(function()).encode())
            code = 0
        finally:
            os._exit(code)
    os.close(outside)
    with os.fdopen(inside, "rb") as pipe:
        answer = pipe.read()
    os.waitpid(child, 0)
    return json.loads(answer)
