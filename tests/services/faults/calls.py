"""What a process asked of the disk, call by call, as ``calls.c`` has written it down."""

from __future__ import annotations

import ctypes
import os
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

_SOURCE = "calls.c"
_HEAD = struct.Struct("<cQqII")


class Call(NamedTuple):
    """One call that did not fail."""

    what: str
    """``o`` open, ``w`` write, ``t`` truncate, ``s`` sync, ``r`` rename, ``l`` link, ``u`` unlink,
    ``m`` make a folder; ``n`` is no call, but a note of the test.
    """
    file: int
    number: int
    first: bytes
    second: bytes


def build(folder: Path, source: str = _SOURCE) -> Path:
    """Compile the recorder, or another file, to be loaded in front of everything."""
    made = folder / f"{source}.so"
    compiler = os.environ.get("CC", "cc")
    place = Path(__file__).with_name(source)
    words = ["-shared", "-fPIC", "-O1", "-o", str(made), str(place), "-ldl"]
    subprocess.run([compiler, *words], check=True)
    return made


@contextmanager
def recorded(log: Path, root: Path) -> Iterator[None]:
    """Write down what happens below a folder meanwhile; the recorder must be loaded."""
    loaded: Any = ctypes.CDLL(None)
    loaded.calls_start(str(log).encode(), str(root).encode())
    try:
        yield
    finally:
        loaded.calls_stop()


def note(text: str) -> None:
    """Write down, between two calls, that something has happened."""
    loaded: Any = ctypes.CDLL(None)
    if hasattr(loaded, "calls_note"):
        loaded.calls_note(text.encode(), len(text.encode()))


def read_calls(log: Path) -> list[Call]:
    """Return everything that was written down."""
    content = log.read_bytes()
    calls, place = [], 0
    while place < len(content):
        what, file, number, first, second = _HEAD.unpack_from(content, place)
        place += _HEAD.size
        a, b = content[place : place + first], content[place + first : place + first + second]
        calls.append(Call(what.decode(), file, number, a, b))
        place += first + second
    return calls
