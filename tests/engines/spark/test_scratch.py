"""Where the rows of a frame lie: what a killed job left goes with the next one, nothing else."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from chaffinch.disk.locations import Place
from chaffinch.engines.spark.frames import _scratch_folder
from chaffinch.errors import StorageFault

NO_JOB: Any = None
"""Where a folder is named nothing is asked of it."""
KILLED = """
import os, sys
from chaffinch.engines.spark.frames import _scratch_folder
from chaffinch.disk.locations import Place

with _scratch_folder(None, Place.of(sys.argv[1])) as place:
    open(place.text + "/rows", "w").close()
    os.kill(os.getpid(), 9)
"""


def test_rows_of_a_killed_job_are_removed_by_the_next_one(tmp_path: Path) -> None:
    (tmp_path / "somebody's").touch()
    run = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], check=False)
    assert run.returncode == -signal.SIGKILL
    assert list(tmp_path.rglob("rows"))
    with _scratch_folder(NO_JOB, Place.of(tmp_path)) as first:
        assert not list(tmp_path.rglob("rows"))
        Path(first.text, "rows").touch()
        with _scratch_folder(NO_JOB, Place.of(tmp_path)) as second:
            assert second != first
        assert list(tmp_path.rglob("rows"))  # those of a job that lives stay
    assert [path.name for path in tmp_path.iterdir()] == ["somebody's"]


def test_a_scratch_that_is_not_there_is_told(tmp_path: Path) -> None:
    missing = Place.of(tmp_path / "none")
    with pytest.raises(StorageFault, match="none"), _scratch_folder(NO_JOB, missing):
        pass
