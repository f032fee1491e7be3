"""A file read by a process with little memory, as all code of chaffinch would read it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.meta import repository

ADDRESSES = 3 << 30
"""So that a failure does not take the machine with it."""
MEMORY = 600
"""Mebibytes that reading may take, whatever the file says."""
SECONDS = 100
_START = """
import resource, sys
from pathlib import Path
import pyarrow, pyarrow.parquet, pyarrow.csv, pyarrow.compute
from chaffinch.errors import ChaffinchError
from chaffinch.tables.arrays import plain_array
from chaffinch.tables.read import open_table
from chaffinch.wire.message_reader import MessageReader

def peak():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) // 1024

pyarrow.set_cpu_count(1); pyarrow.set_io_thread_count(1)
resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[2]),) * 2)
before = peak()
found = "read"
try:
    for batch in batches(sys.argv[1]):
        pass
except ChaffinchError as error:
    found = error.code
print(found, peak() - before)
"""
_TABLE = """
def batches(path):
    table = open_table(path)
    for batch in table.batches(table.columns[:1]):
        yield plain_array(batch.column(0))
"""
_WHOLE_TABLE = """
def batches(path):
    table = open_table(path)
    return table.batches(table.columns)
"""
_MESSAGES = """
def batches(path):
    return MessageReader(path).batches()
"""


def read_table(path: Path) -> str:
    """Return "read", or the code of the error with which the first column was refused."""
    return _read(path, _TABLE)


def read_whole_table(path: Path) -> str:
    """Return "read", or the code of the error with which all columns at once were refused."""
    return _read(path, _WHOLE_TABLE)


def read_messages(path: Path) -> str:
    """Return "read", or the code of the error with which a batch of messages was refused."""
    return _read(path, _MESSAGES)


def _read(path: Path, how: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", how + _START, str(path), str(ADDRESSES)],
        cwd=repository.ROOT,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found, memory = done.stdout.split()
    assert int(memory) < MEMORY, f"{found} in {memory} MiB"
    return found
