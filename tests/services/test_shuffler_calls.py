"""The shuffler is killed at every call that it makes to change something on the disk.

``strace`` does that from outside: at the n-th of these calls the process gets SIGKILL, also in
the middle of what SQLite does. Where there is no strace, the named kill points must do.
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
from tests.services.test_shuffler import handed_over, ones, sealed, shuffler

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


class FirstHop:
    """Segments with copies become a batch."""

    least_calls = 90

    def __init__(self, root: Path) -> None:
        self.root, self.hop = root, 1
        self.collection = Collection.make(root / "keys", crowd=4)

    def prepare(self, data: Path) -> None:
        reports = self.collection.seal(range(6))
        self.collection.write_segment(data, [*reports[:4], reports[1]])
        self.collection.write_segment(data, reports[2:])

    def work(self, data: Path) -> None:
        with shuffler(self.collection, data, self.hop) as hop:
            hop.take()
            hop.tick()
            assert hop.status.adds_up

    def kill_at(self, number: int) -> bool:
        """Return whether there was such a call; the batch is the same, killed or not."""
        data = self.root / str(number)
        self.prepare(data)
        dead = dies_at_call(number, lambda: self.work(data))
        self.work(data)
        assert self.collection.histogram(sealed(data)) == ones(*range(6)), f"call {number}"
        return dead


class LaterHop(FirstHop):
    """A batch of the hop before becomes a batch, in one transaction."""

    least_calls = 30

    def __init__(self, root: Path) -> None:
        self.root, self.hop = root, 2
        self.collection = Collection.make(root / "keys", crowd=4, hops=2)

    def prepare(self, data: Path) -> None:
        handed_over(self.collection, data.with_suffix(".first"), data, range(6))


HOPS = pytest.mark.parametrize("kind", [FirstHop, LaterHop])
NEEDS_STRACE = pytest.mark.skipif(STRACE is None, reason="there is no strace")


@NEEDS_STRACE
@HOPS
def test_a_kill_at_any_call_loses_and_doubles_nothing(tmp_path: Path, kind: type[FirstHop]) -> None:
    hop, number = kind(tmp_path), 1
    while hop.kill_at(number):
        number += 5
    assert number > kind.least_calls, "they are no longer counted"


@pytest.mark.long
@NEEDS_STRACE
@HOPS
def test_a_kill_at_every_call_loses_and_doubles_nothing(
    tmp_path: Path, kind: type[FirstHop]
) -> None:
    hop, number = kind(tmp_path), 1
    while hop.kill_at(number):
        number += 1
    assert number > kind.least_calls, "they are no longer counted"
