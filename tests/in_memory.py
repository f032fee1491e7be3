"""A folder for each test in memory: for tests that kill processes and cut power by the hundred.

A process that is killed leaves what it has written, synced or not, on a disk as in memory, and
where syncs matter a test must play the disk itself. What a real disk adds is that everybody waits
for its syncs, of which there are tens of thousands.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_MEMORY = Path("/dev/shm")  # noqa: S108 - folders of its own in it
_ENOUGH = 1 << 30
"""Bytes; in a container there may be next to none."""


@contextmanager
def folder(otherwise: Path) -> Iterator[Path]:
    """Yield an empty folder, in memory where there is enough of it."""
    if not _MEMORY.is_dir() or shutil.disk_usage(_MEMORY).free < _ENOUGH:
        yield otherwise
        return
    with tempfile.TemporaryDirectory(dir=_MEMORY, ignore_cleanup_errors=True) as made:
        yield Path(made).resolve()


@pytest.fixture
def tmp_path(tmp_path: Path) -> Iterator[Path]:
    """Yield a folder of a test, in memory."""
    with folder(tmp_path) as made:
        yield made
