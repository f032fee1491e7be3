"""One hundred million answers from a Parquet file to a release on one machine.

Run with ``python -m benchmarks.pipeline.hundred_million``. Every step is a process of its own,
so its peak memory is its own too.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.harness import tell

USERS = 100_000_000
VALUES = 100
LIMIT = 2048.0
"""Mebibytes that no step may exceed."""
CHUNK = 1_000_000
Found = dict[str, Any]


def make_plan(folder: Path, users: int) -> Found:
    """Calibrate a plan for a choice of a hundred values, and save it."""
    import chaffinch

    question = chaffinch.Choice([f"value {number}" for number in range(VALUES - 1)])
    made = chaffinch.plan(question, users=users, target=chaffinch.Target(1.0, 1e-9))
    made.save(folder / "plan.json")
    return {"protocol": str(made.parts[0].protocol)}


def make_table(folder: Path, users: int) -> Found:
    """Write the answers in chunks, and remember how many there are of each."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    random = np.random.default_rng(1)
    names = pa.array([f"value {number}" for number in range(VALUES - 1)])
    schema = pa.schema([("answer", pa.dictionary(pa.int32(), pa.string()))])
    truth = np.zeros(VALUES, np.int64)
    with pq.ParquetWriter(folder / "answers.parquet", schema) as writer:
        for start in range(0, users, CHUNK):
            draws = random.random(min(CHUNK, users - start))
            places = (draws**2 * (VALUES - 1)).astype(np.int32)
            truth += np.bincount(places, minlength=VALUES)
            column = pa.DictionaryArray.from_arrays(pa.array(places), names)
            writer.write_table(pa.table([column], schema=schema))
    np.save(folder / "truth.npy", truth)
    return {"bytes": (folder / "answers.parquet").stat().st_size}


def encode(folder: Path, users: int) -> Found:
    """Encode the table."""
    from chaffinch import load_plan
    from chaffinch.engines import engine

    plan = load_plan(folder / "plan.json")
    facts = engine().encode(folder / "answers.parquet", plan, folder / "encoded.parquet")
    assert facts.reports == users
    return {"bytes": (folder / "encoded.parquet").stat().st_size}


def shuffle(folder: Path, users: int) -> Found:
    """Shuffle the messages."""
    from chaffinch import load_plan
    from chaffinch.engines import engine

    plan = load_plan(folder / "plan.json")
    facts = engine().shuffle([folder / "encoded.parquet"], plan, folder / "shuffled.parquet")
    assert facts.reports == users
    return {"bytes": (folder / "shuffled.parquet").stat().st_size}


def tally(folder: Path, users: int) -> Found:
    """Count the messages."""
    import numpy as np

    from chaffinch import load_plan
    from chaffinch.engines import engine

    plan = load_plan(folder / "plan.json")
    found = engine().tally([folder / "shuffled.parquet"], plan)
    assert found.reports == users
    np.save(folder / "counts.npy", found.counts)
    return {"messages": int(found.counts.sum())}


def analyze(folder: Path, users: int) -> Found:
    """Estimate, and compare with the truth."""
    import numpy as np

    from chaffinch import analyze as release_of
    from chaffinch import load_plan
    from chaffinch.analysis.tally import Tally

    plan = load_plan(folder / "plan.json")
    counts = np.load(folder / "counts.npy")
    answer = release_of(Tally(plan.id, users, counts), plan).answers[0]
    errors = np.abs(answer.estimates - np.load(folder / "truth.npy"))
    return {
        "largest error": float(errors.max()),
        "in standard errors": float((errors / answer.standard_errors).max()),
    }


STEPS: dict[str, Callable[[Path, int], Found]] = {
    "plan": make_plan,
    "table": make_table,
    "encode": encode,
    "shuffle": shuffle,
    "tally": tally,
    "analyze": analyze,
}


def measured(step: str, folder: Path, users: int) -> Found:
    """Run a step in this process, and return its time and its peak memory with its findings."""
    start = time.perf_counter()
    found = STEPS[step](folder, users)
    seconds = time.perf_counter() - start
    used = resource.getrusage(resource.RUSAGE_SELF)
    return found | {
        "seconds": seconds,
        "processor seconds": used.ru_utime + used.ru_stime,
        "peak MiB": used.ru_maxrss / (1 << 20 if sys.platform == "darwin" else 1 << 10),
    }


def apart(step: str, folder: Path, users: int) -> Found:
    """Run a step in a fresh process."""
    tell(step)
    command = [sys.executable, "-m", "benchmarks.pipeline.hundred_million"]
    options = ["--users", str(users), "--step", step, "--folder", str(folder)]
    done = subprocess.run([*command, *options], stdout=subprocess.PIPE, check=True)  # noqa: S603
    tell("")
    found: Found = json.loads(done.stdout)
    return found


def shown(steps: dict[str, Found], users: int) -> str:
    """Return the findings as a table; rates are of users, or of messages where there are any."""
    messages = steps["tally"]["messages"]
    head = (
        f"  {'step':8} {'seconds':>8} {'processor':>10} {'million/s':>10} {'MiB':>6} {'x limit':>8}"
    )
    lines = [f"{users:,} users, {messages:,} messages, limit {LIMIT:.0f} MiB", head]
    for step, found in steps.items():
        count = {"shuffle": messages, "tally": messages}.get(step, users)
        rate = f"{count / found['seconds'] / 1e6:.1f}" if step not in {"plan", "analyze"} else ""
        lines.append(
            f"  {step:8} {found['seconds']:8.2f} {found['processor seconds']:10.2f} {rate:>10} "
            f"{found['peak MiB']:6.0f} {found['peak MiB'] / LIMIT:8.2f}"
        )
    checked = steps["analyze"]
    error, ratio = checked["largest error"], checked["in standard errors"]
    lines += [
        f"  * {steps['plan']['protocol']}",
        f"  * largest error of {VALUES} counts: {error:.1f} people, {ratio:.2f} standard errors",
        "  * processor: seconds of all threads, the start of Python included",
    ]
    return "\n".join(lines)


def main() -> int:
    """Measure, and print a table or JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--users", type=int, default=USERS)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--step", choices=STEPS, help="run one step only, in --folder")
    parser.add_argument("--folder", type=Path)
    chosen = parser.parse_args()
    if chosen.step:
        print(json.dumps(measured(chosen.step, chosen.folder, chosen.users)))
        return 0
    surroundings = {
        "python": platform.python_version(),
        "cores": str(os.cpu_count()),
        "load average": ", ".join(f"{part:.1f}" for part in os.getloadavg()),
    }
    with tempfile.TemporaryDirectory() as name:
        steps = {step: apart(step, Path(name), chosen.users) for step in STEPS}
    if chosen.json:
        whole = {"surroundings": surroundings, "users": chosen.users, "limit MiB": LIMIT}
        print(json.dumps(whole | {"steps": steps}, indent=2))
    else:
        print("; ".join(f"{name} {value}" for name, value in surroundings.items()))
        print(shown(steps, chosen.users))
    return 0


if __name__ == "__main__":
    sys.exit(main())
