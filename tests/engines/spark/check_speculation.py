"""A slow task and the copy that Spark starts of it: two attempts, one result."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from chaffinch.wire.message_reader import MessageReader
from tests.engines import plans
from tests.engines.spark import cluster
from tests.engines.spark.speculating import PIECES, PLAN, USERS, VALUES

# Spark starts no copy on the machine of the task itself, so the workers are on two.
HOSTS = ("127.0.0.1", "127.0.0.2")
SETTINGS = """
spark.speculation true
spark.speculation.quantile 0.5
spark.speculation.multiplier 1.1
"""


@pytest.mark.long
@pytest.mark.timeout(600)  # a second cluster beside the one that runs
def test_a_slow_task_and_its_copy_send_the_same_once(tmp_path: Path) -> None:
    tables, notes = tmp_path / "tables", tmp_path / "notes"
    for folder in (tables, notes, tmp_path / "cluster"):
        folder.mkdir()
    codes = plans.answers(USERS, VALUES)
    for part in range(PIECES):
        plans.table(tables / f"{part}.parquet", codes[part * 300 :][:300])
    with cluster.started(tmp_path / "cluster", HOSTS, SETTINGS) as made:
        words = [sys.executable, "-m", "tests.engines.spark.speculating", made.url]
        done = subprocess.run(
            [*words, str(tables), str(notes), str(tmp_path / "made")],
            cwd=cluster.ROOT,
            env=os.environ | made.settings,
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    attempts = [path.read_text() for path in notes.glob(f"{PIECES - 1}-*")]
    assert (len(attempts), len(set(attempts))) == (2, 1)
    assert len(list(notes.iterdir())) == PIECES + 1
    reader = MessageReader(tmp_path / "made")
    assert sum(map(len, reader.batches())) > 0
    assert reader.facts.reports == USERS  # and the digest of all of them agrees
    assert reader.facts.plan_id == PLAN.id
