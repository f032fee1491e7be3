"""An application that gets no worker, and what starting leaves on the disk."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from chaffinch.engines.local import Local
from tests.engines import plans

if TYPE_CHECKING:
    from pyspark import SparkContext

    from tests.engines.spark.cluster import Cluster

USERS = 200
PLAN = plans.clear(USERS, 4)
START = "from chaffinch.engines.spark.session import running\nwith running('local[1]'): pass"
SECONDS = 60


def left_in(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if "chaffinch" in path.name]


def kill_while_it_starts(environment: dict[str, str], folder: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", START], env=environment)
    try:
        end = time.monotonic() + SECONDS
        while not left_in(folder):
            assert time.monotonic() < end
            time.sleep(0.01)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()


@pytest.mark.long
def test_a_second_application_on_a_full_cluster_is_told_so(
    context: SparkContext, cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context.parallelize([0], 1).count()  # whoever has run a task has its workers
    monkeypatch.chdir(tmp_path)
    PLAN.save(tmp_path / "plan.json")
    plans.table(tmp_path / "a.parquet", plans.answers(USERS, 4))
    Local().encode("a.parquet", PLAN, "encoded.parquet")
    Local().shuffle(["encoded.parquet"], PLAN, "made.parquet", record="record")
    (tmp_path / "own").mkdir()
    environment = os.environ | cluster.settings | {"TMPDIR": str(tmp_path / "own")}
    kill_while_it_starts(environment, tmp_path / "own")
    assert left_in(tmp_path / "own")
    words = [sys.executable, "-m", "chaffinch", "analyze", "made.parquet", "--plan", "plan.json"]
    words += ["--engine", "spark", "--master", cluster.url, "--patience", "3"]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    told = [line for line in done.stderr.splitlines() if not line.startswith("warning: with eps")]
    assert (done.returncode, done.stdout) == (5, "")
    *before, error, hint = told
    assert before == [
        "asking the master ...",
        "starting Java ...",
        "starting an application ...",
        "waiting for workers: 0 of 1 ...",
    ]
    needed = f"error: The Spark cluster {cluster.url} must have a free worker within 3 seconds."
    assert error == f"{needed} Got none."
    assert hint.startswith("hint: nothing was read or written; its workers may be taken by")
    assert left_in(tmp_path / "own") == []
