"""Everything that needs a cluster, on one that is started once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent
SECONDS = 600
"""For a machine that has much else to do; alone it takes a minute."""
LONG_SECONDS = 1800


def run_checks(folder: Path, which: str, seconds: float = SECONDS) -> None:
    """Run the files that need a cluster; nothing of it is left, however that ends."""
    files = [str(path) for path in sorted(FOLDER.glob("check_*.py"))]
    assert files
    # Spark changes the environment, the signals and the threads of the process that it is used in.
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:randomly", "-m", which]
    command += ["--basetemp", str(folder / "runs"), *files]
    with (folder / "said").open("w+b") as said:
        run = subprocess.Popen(
            command, cwd=FOLDER.parents[2], stdout=said, stderr=said, start_new_session=True
        )
        try:
            code = run.wait(seconds)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(run.pid, signal.SIGKILL)  # the cluster is of the same group
            run.wait()
        said.seek(0)
        assert code == 0, said.read().decode(errors="replace")


@pytest.mark.timeout(SECONDS + 60)
def test_what_needs_a_cluster(tmp_path: Path) -> None:
    run_checks(tmp_path, "not long")


@pytest.mark.long
@pytest.mark.timeout(LONG_SECONDS + 60)
def test_ten_executors_are_killed(tmp_path: Path) -> None:
    run_checks(tmp_path, "long", LONG_SECONDS)
