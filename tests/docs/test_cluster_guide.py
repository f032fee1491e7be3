"""The guide from laptop to cluster: its commands run, one after the other, on a real cluster."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs import pages
from tests.meta import repository

PAGE = repository.ROOT / "docs" / "guides" / "from-laptop-to-cluster.md"


@pytest.mark.long
@pytest.mark.timeout(600)
def test_the_commands_run_as_they_stand(tmp_path: Path) -> None:
    script = "".join(block.text for block in pages.blocks(PAGE) if block.language == "bash")
    assert script.count("spark-class") == 3, "a master and two workers"
    programs = Path(sys.executable).parent
    home = {"HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "state")}
    done = subprocess.run(
        # Whatever happens, no process of the cluster outlives the shell.
        ["/bin/bash", "-c", f"set -eu\ntrap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n{script}"],
        cwd=tmp_path,
        env=os.environ | home | {"PATH": f"{programs}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "tea" in done.stdout
    assert "20000 reports" in done.stdout, "of a frame"
    assert (tmp_path / "shuffled" / "manifest.json").is_file()
