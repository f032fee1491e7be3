"""A driver whose Java is killed says one clear thing, and starts another one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.engines.spark import dying

GONE = (
    "The Spark application must stay until its tasks are done. Got no answer from its Java.\n[0]\n"
)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_service_outlives_its_java(tmp_path: Path) -> None:
    words = [sys.executable, "-m", dying.__name__, str(tmp_path / "seen")]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, 2 * GONE, "")
