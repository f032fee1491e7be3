"""A first hop for ``send``: what it takes is on the disk before it answers.

Called as a program, so that whoever stops verbs has no threads; it ends with its input.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from chaffinch import load_plan
from tests.encoding.services import running


def arrivals_of(folder: Path) -> Path:
    """Return where reports arrive that are sent by the plan of a folder."""
    return folder.with_name(f"{folder.name}-arrivals")


_earlier: set[str] = set()
"""What arrived in other lives: a copy of it may still come, from a process that was killed."""


def arrived(folder: Path) -> int:
    """Return how many different reports have arrived in this life."""
    return len(_names(folder) - _earlier)


def forget_arrivals(folder: Path) -> None:
    """Begin another life."""
    for name in _names(folder):
        _earlier.add(name)
        (arrivals_of(folder) / name).unlink()


def _names(folder: Path) -> set[str]:
    return {path.name for path in arrivals_of(folder).iterdir()}


@contextmanager
def collecting(folder: Path) -> Iterator[None]:
    """Let a hop run in a process of its own, and put a plan that names it into a folder."""
    arrivals_of(folder).mkdir(exist_ok=True)
    words = [sys.executable, "-m", "tests.faults.collector", str(folder)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as hop:
        assert hop.stdin is not None
        assert hop.stdout is not None
        assert hop.stdout.readline() == b"ready\n"
        yield
        hop.stdin.close()


def main(folder: Path) -> None:
    """Take reports until the input ends."""
    with running(load_plan(folder / "survey.plan.json")) as services:
        length = services.plan.layout.report_length

        def take(body: bytes) -> None:
            for at in range(0, len(body), length):
                report = body[at : at + length]
                (arrivals_of(folder) / hashlib.sha256(report).hexdigest()).write_bytes(report)

        services.take = take  # type: ignore[method-assign]
        services.plan.save(folder / "sent.plan.json")
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        sys.stdin.read()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
