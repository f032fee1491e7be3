"""The shuffler is killed at every call that it makes to change something on the disk.

``strace`` does that from outside: at the n-th of these calls the process gets SIGKILL, also in
the middle of what SQLite does. Where there is no strace, the named failpoints must do.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.services.oracle import Collection
from tests.services.test_shuffler import ones, sealed, shuffler

CALLS = "write,pwrite64,writev,fsync,fdatasync,rename,unlink,unlinkat,ftruncate,openat,mkdir"
STRACE = shutil.which("strace")


def dies_at_call(number: int, work: Callable[[], object]) -> bool:
    """Do something in a copy of this process, which is killed at one of its calls.

    Returns whether it was: it may have been over before.
    """
    child = os.fork()
    if child == 0:
        os.kill(os.getpid(), signal.SIGSTOP)
        work()
        os._exit(0)
    os.waitpid(child, os.WUNTRACED)
    inject = f"inject={CALLS}:signal=KILL:when={number}"
    words = [str(STRACE), "-qq", "-o", os.devnull, "-e", f"trace={CALLS}", "-e", inject]
    with subprocess.Popen([*words, "-p", str(child)], stderr=subprocess.PIPE) as watcher:
        status = Path(f"/proc/{child}/status")
        while "TracerPid:\t0" in status.read_text(encoding="ascii") and watcher.poll() is None:
            time.sleep(0.001)
        seen = watcher.poll() is None
        os.kill(child, signal.SIGCONT)
        _, ended = os.waitpid(child, 0)
    if not seen:
        pytest.skip("strace may not watch processes here")
    return os.WIFSIGNALED(ended)


def work(collection: Collection, data: Path) -> None:
    with shuffler(collection, data) as hop:
        hop.take()
        hop.tick()


def kill_at(number: int, root: Path, collection: Collection) -> bool:
    data = root / str(number)
    reports = collection.seal(range(6))
    collection.write_segment(data, [*reports[:4], reports[1]])
    collection.write_segment(data, reports[2:])
    dead = dies_at_call(number, lambda: work(collection, data))
    work(collection, data)
    assert collection.histogram(sealed(data)) == ones(*range(6)), f"call {number}"
    return dead


@pytest.mark.skipif(STRACE is None, reason="there is no strace")
@pytest.mark.parametrize("first", [1, 2])
def test_a_kill_at_any_call_loses_and_doubles_nothing(tmp_path: Path, first: int) -> None:
    collection = Collection.make(tmp_path / "keys", crowd=4)
    number, kills = first, 0
    while kill_at(number, tmp_path, collection):
        number, kills = number + 9, kills + 1
    assert kills >= 8


@pytest.mark.long
@pytest.mark.skipif(STRACE is None, reason="there is no strace")
def test_a_kill_at_every_call_loses_and_doubles_nothing(tmp_path: Path) -> None:
    collection = Collection.make(tmp_path / "keys", crowd=4)
    number = 1
    while kill_at(number, tmp_path, collection):
        number += 1
    assert number > 80
