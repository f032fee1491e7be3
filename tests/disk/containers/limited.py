"""A file read by a process with little memory, as all code of chaffinch would read it.

Called as a program, it has imported everything and forks a process for each file that it is
given: no file profits from the memory or the state that another has left.
"""

from __future__ import annotations

import atexit
import json
import os
import resource
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path

import pyarrow as pa

from chaffinch.errors import ChaffinchError
from chaffinch.tables.arrays import plain_array
from chaffinch.tables.read import open_table
from chaffinch.wire.message_reader import MessageReader
from tests.meta import repository

ADDRESSES = 3 << 30
"""So that a failure does not take the machine with it."""
MEMORY = 600
"""Mebibytes that reading may take, whatever the file says."""
SECONDS = 100


def read_table(path: Path) -> str:
    """Return "read", or the code of the error with which the first column was refused."""
    return _ask("table", path)


def read_whole_table(path: Path) -> str:
    """Return "read", or the code of the error with which all columns at once were refused."""
    return _ask("whole table", path)


def read_messages(path: Path) -> str:
    """Return "read", or the code of the error with which a batch of messages was refused."""
    return _ask("messages", path)


def _ask(how: str, path: Path) -> str:
    server = _server()
    assert server.stdin is not None
    assert server.stdout is not None
    server.stdin.write(json.dumps([how, str(path)]) + "\n")
    server.stdin.flush()
    answer = server.stdout.readline()
    assert answer, "the reading process is gone"
    found, memory = json.loads(answer)
    assert memory is not None, found
    assert memory < MEMORY, f"{found} in {memory} MiB"
    return str(found)


@cache
def _server() -> subprocess.Popen[str]:
    """Return the process that forks; one for all tests of this one."""
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.disk.containers.limited"],
        cwd=repository.ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    atexit.register(server.communicate)
    return server


# ----------------------------------------------------------------------------
# The process that forks, and its children.


def _table(path: str) -> Iterable[object]:
    table = open_table(path)
    return (plain_array(batch.column(0)) for batch in table.batches(table.columns[:1]))


def _whole_table(path: str) -> Iterable[object]:
    table = open_table(path)
    return table.batches(table.columns)


def _messages(path: str) -> Iterable[object]:
    return MessageReader(path).batches()


WAYS: dict[str, Callable[[str], Iterable[object]]] = {
    "table": _table,
    "whole table": _whole_table,
    "messages": _messages,
}


def serve() -> None:
    """Answer each line, a way of reading and a path, with what was found and what it took."""
    pa.scalar(0)  # which looks for pandas: once, not in every child
    for line in sys.stdin:
        child = os.fork()
        if not child:
            _answer(*json.loads(line))
        _, status = os.waitpid(child, 0)
        if status:  # killed by a signal, and silent
            _tell(f"ended with {os.waitstatus_to_exitcode(status)}", None)


def _answer(how: str, path: str) -> None:
    try:
        signal.alarm(SECONDS)
        pa.set_cpu_count(1)
        pa.set_io_thread_count(1)
        resource.setrlimit(resource.RLIMIT_AS, (ADDRESSES,) * 2)
        before = _peak()
        _tell(_read(how, path), _peak() - before)
    except BaseException:  # noqa: BLE001 - whatever it is, it is told, and this process ends
        _tell(traceback.format_exc()[-2000:], None)
    os._exit(0)


def _tell(found: str, memory: int | None) -> None:
    sys.stdout.write(json.dumps([found, memory]) + "\n")
    sys.stdout.flush()


def _read(how: str, path: str) -> str:
    try:
        for _ in WAYS[how](path):
            pass
    except ChaffinchError as error:
        return error.code
    return "read"


def _peak() -> int:
    """Return the most memory that this process has held so far, in mebibytes."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) // 1024


if __name__ == "__main__":
    serve()
