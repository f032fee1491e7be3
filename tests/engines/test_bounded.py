"""Two million reports pass in memory that could not hold them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

CODE = """
import json, sys
from fractions import Fraction
from pathlib import Path
import numpy as np, pyarrow as pa, pyarrow.parquet as pq
from chaffinch.analysis.tally import tally
from chaffinch.encoding.bulk import encode_many
from chaffinch.engines.local import Local
from chaffinch.shuffling.in_memory import shuffle
from tests.engines import plans

STATUS = Path("/proc/self/status")
folder, users, values = Path(sys.argv[1]), int(sys.argv[2]), 100
random = np.random.default_rng(0)
schema = pa.schema([("answer", pa.string())])

def peak():
    # Unlike the peak that getrusage tells, this starts anew in a new program.
    lines = STATUS.read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024

def table(name, size):
    with pq.ParquetWriter(folder / name, schema) as writer:
        for start in range(0, size, 50_000):
            numbers = random.integers(0, values - 1, min(50_000, size - start))
            writer.write_table(pa.table({"answer": [f"v{i}" for i in numbers]}, schema))
    return folder / name

def work(name, size):
    plan = plans.flipped(size, values, Fraction(1, 32))
    local = Local(workers=2, memory=4 << 20)
    encoded, shuffled = folder / f"{size}.e.parquet", folder / f"{size}.s.parquet"
    local.encode(table(name, size), plan, encoded)
    local.shuffle([encoded], plan, shuffled)
    return plan, int(local.tally([shuffled], plan).counts.sum())

work("few.parquet", 200_000)  # All code is loaded and every buffer is there.
before = peak()
plan, messages = work("all.parquet", users)
engine = peak() - before
tally(shuffle(encode_many(folder / "all.parquet", plan)))
print(json.dumps({"messages": messages, "engine": engine, "memory": peak() - before}))
"""
USERS = 2_000_000
LIMIT = 90.0
"""Mebibytes. The messages alone take 32, their order in memory 200 more."""


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="no peak memory is told here")
def test_memory_does_not_grow_with_the_crowd(tmp_path: Path) -> None:
    command = [sys.executable, "-c", CODE, str(tmp_path), str(USERS)]
    root = Path(__file__).parents[2]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    # 1 − q + 99·q = 4.06 messages of each.
    assert 4.0 * USERS < found["messages"] < 4.1 * USERS
    assert found["engine"] < LIMIT
    assert found["memory"] > 2 * LIMIT  # The measure sees what holding everything takes.
