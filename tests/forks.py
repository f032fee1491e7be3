"""Processes that are there at once: copies of one that has imported everything already.

A service that is started by its command reads a thousand modules first, for a second, and tests
start services by the hundred. So one process for each run of tests imports what services need and
does nothing else; whatever a test wants to run is a copy of that. Such a copy is a process like
any other: it has its own memory, files and signals, and dies alone. It is no good where the start
itself is of interest: what is imported when, and what a person waits for. Nor is it for what comes
at the very end, where Python takes apart what is left; and all copies have one seed for the order
of sets. Some services are started afresh for that: ``tests/services/test_stopping.py``.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import IO, NoReturn

from chaffinch.disk import kill_points

COMMAND = "import sys\nfrom chaffinch.cli import main\nsys.exit(main())\n"
"""The command ``chaffinch``, as a program."""
MODULE = """\
import runpy, sys
name = sys.argv.pop(1)
runpy.run_module(name, run_name="__main__", alter_sys=True)
"""
"""What ``python -m`` does with its words."""
_ASKING = """\
import json, os, socket, sys
number, program, *words = sys.argv[1:]
mine, other = os.pipe()
wanted = [program, words, dict(os.environ), os.getcwd()]
line = socket.socket(fileno=int(number))
socket.send_fds(line, [json.dumps(wanted).encode()], [0, 1, 2, other])
os.close(other)
for stream in range(3):
    os.close(stream)
code = int(os.fdopen(mine).read().split()[1])
sys.exit(code if code >= 0 else 128 - code)
"""
"""Asks for a copy that reads and writes what this process would, and ends as it does."""
_ROOT = Path(__file__).parents[1]
_MODULES = (
    "chaffinch.analysis.analyze",
    "chaffinch.cli.app",
    "chaffinch.cli.encode",
    "chaffinch.cli.keys",
    "chaffinch.cli.plan",
    "chaffinch.cli.run",
    "chaffinch.cli.send",
    "chaffinch.cli.serve",
    "chaffinch.cli.shuffle",
    "chaffinch.cli.status",
    "chaffinch.engines.local",
    "chaffinch.release.page",
    "chaffinch.runs.pipeline",
    "chaffinch.runs.run_table",
    "chaffinch.services.analyzer_process",
    "chaffinch.services.hop",
    "chaffinch.services.server",
    "httptools",
    "uvloop",
)
_ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
"""A copy has none of the threads that a library has started at its import."""
_REQUEST = 1 << 17
_STREAMS = 4
"""What comes with a request: the standard streams, and where the end is told."""


class Forked:
    """A process that runs a program, with what is used here of ``subprocess.Popen``."""

    def __init__(
        self,
        program: str,
        *words: object,
        environment: Mapping[str, str] | None = None,
        fresh: bool = False,
    ) -> None:
        """Start it; a fresh one has imported nothing, and its memory holds what it needs alone."""
        self.args = [str(word) for word in words]
        pipes = [os.pipe() for _ in range(_STREAMS - 1)]
        wanted = [program, self.args, {**os.environ, **(environment or {})}, str(Path.cwd())]
        source = _source((environment or {}).get("LD_PRELOAD", ""), fresh=fresh)
        streams = [os.open(os.devnull, os.O_RDONLY), *(pipe[1] for pipe in pipes)]
        socket.send_fds(source, [json.dumps(wanted).encode()], streams)
        for stream in streams:
            os.close(stream)
        self.stdout: IO[str] = os.fdopen(pipes[0][0], encoding="utf-8")
        self.stderr: IO[str] = os.fdopen(pipes[1][0], encoding="utf-8")
        self._end: IO[str] = os.fdopen(pipes[2][0], encoding="ascii")
        self.pid = int(self._end.readline())
        self.returncode: int | None = None
        self._said = ("", "")

    def wait(self, timeout: float | None = None) -> int:
        """Return its exit code when it has ended."""
        if self.returncode is None:
            if not select.select([self._end], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(self.args, timeout or 0)
            self.returncode = int(self._end.readline())
            self._end.close()
        return self.returncode

    def poll(self) -> int | None:
        """Return its exit code if it has ended."""
        try:
            return self.wait(0)
        except subprocess.TimeoutExpired:
            return None

    def send_signal(self, number: int) -> None:
        """Send it a signal if it is still there."""
        if self.poll() is None:
            with suppress(ProcessLookupError):  # It has ended since.
                os.kill(self.pid, number)

    def kill(self) -> None:
        """End it at once."""
        self.send_signal(signal.SIGKILL)

    def communicate(self, *, timeout: float | None = None) -> tuple[str, str]:
        """Return what it has said, both ways, when it has ended: in time, or it is killed."""
        if not self.stdout.closed:
            other: list[str] = []
            reader = threading.Thread(target=lambda: other.append(self.stderr.read()), daemon=True)
            reader.start()
            late = threading.Timer(timeout or 0, self.kill)
            if timeout is not None:
                late.start()
            said = self.stdout.read()
            reader.join()
            late.cancel()
            self._said = said, other[0]
            self.stdout.close()
            self.stderr.close()
        self.wait(timeout)
        return self._said


def run(
    program: str,
    *words: object,
    environment: Mapping[str, str] | None = None,
    timeout: float | None = None,
) -> subprocess.CompletedProcess[str]:
    """Return what became of a program that ends by itself; in time, or it is killed."""
    process = Forked(program, *words, environment=environment)
    out, err = process.communicate(timeout=timeout)
    return subprocess.CompletedProcess(process.args, process.wait(), out, err)


def as_words() -> tuple[list[str], int]:
    """Return the command ``chaffinch`` for others to start, and what they must let it inherit.

    It has their streams, also terminals, but not their signals. Python alone, without anything
    that is installed, starts in a fiftieth of a second.
    """
    number = _source("", fresh=False).fileno()
    return [sys.executable, "-I", "-S", "-c", _ASKING, str(number), COMMAND], number


@cache
def _source(preload: str, *, fresh: bool) -> socket.socket:
    """Return the line to the process that all others are copies of; it ends with this one.

    A library in front of all others is there from the start of a process or not at all.
    """
    mine, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    start = f"import sys\nsys.path.insert(0, {str(_ROOT)!r})\n"
    call = f"forks.copy_for_all(int(sys.argv[1]), {() if fresh else _MODULES})"
    start += f"from tests import forks\n{call}\n"
    with other:
        source = subprocess.Popen(
            [sys.executable, "-c", start, str(other.fileno())],
            stdin=subprocess.DEVNULL,
            pass_fds=[other.fileno()],
            cwd=_ROOT,
            env={**os.environ, **_ONE_THREAD, "LD_PRELOAD": preload},
        )

    def end() -> None:
        mine.close()
        source.wait()

    atexit.register(end)
    return mine


def copy_for_all(number: int, modules: Sequence[str] = _MODULES) -> None:
    """Copy this process for everyone who asks on a line, until nobody is there any more."""
    for name in modules:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # A copy that looks through all of it would have to copy all of it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    line = socket.socket(fileno=number)
    while True:
        request, streams, _, _ = socket.recv_fds(line, _REQUEST, _STREAMS)
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if not request:
            os._exit(0)
        if os.fork() == 0:
            line.close()
            _look_after(request, streams)
        for stream in streams:
            os.close(stream)


def _look_after(request: bytes, streams: list[int]) -> NoReturn:
    """Let a copy be the process that was asked for, and tell how it ends."""
    child = os.fork()
    if not child:
        _live(request, streams)
    *said, end = streams
    for stream in (*said, *range(len(said))):
        os.close(stream)
    os.write(end, b"%d\n" % child)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    os.write(end, b"%d\n" % code)
    os._exit(0)


def _live(request: bytes, streams: list[int]) -> NoReturn:
    """Be the process that was asked for."""
    program, words, environment, folder = json.loads(request)
    for place, stream in enumerate(streams[:-1]):
        os.dup2(stream, place)
    for stream in streams:
        os.close(stream)
    # Python looks at a stream once, when it opens it: a pipe is another thing than a terminal.
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - no path
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 - no path
    sys.stderr = open(2, "w", encoding="utf-8", closefd=False, buffering=1)  # noqa: SIM115
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    sys.argv = ["-c", *words]
    code = 1
    try:
        if environment.get(kill_points.VARIABLE):
            kill_points.arm(environment[kill_points.VARIABLE])
        exec(program, {"__name__": "__main__"})  # noqa: S102 - a program of a test
        code = 0
    except SystemExit as end:
        code = int(end.code or 0)
    except BaseException:  # noqa: BLE001 - as Python tells it
        traceback.print_exc()
    # What Python does at its end, but for taking apart all that was imported: that takes long.
    threading._shutdown()  # type: ignore[attr-defined] # noqa: SLF001
    atexit._run_exitfuncs()  # noqa: SLF001
    sys.stdout.flush()
    os._exit(code)
