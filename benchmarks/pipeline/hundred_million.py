"""One hundred million answers from a Parquet file to a release on one machine.

Run with ``python -m benchmarks.pipeline.hundred_million``. Every step is a process of its own,
so its peak memory is its own too.
"""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks.steps import Found, Step, main

USERS = 100_000_000
VALUES = 100
LIMIT = 2048.0
"""Mebibytes that no step may exceed."""
CHUNK = 1_000_000


def make_plan(folder: Path, users: int) -> Found:
    """Calibrate a plan for a choice of a hundred values, and save it."""
    import chaffinch

    question = chaffinch.Choice(
        [f"value {number}" for number in range(VALUES - 1)], missing="count"
    )
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
    from chaffinch.wire.messages import Tally

    plan = load_plan(folder / "plan.json")
    counts = np.load(folder / "counts.npy")
    answer = release_of(Tally(plan.id, users, counts), plan).answers[0]
    errors = np.abs(answer.estimates - np.load(folder / "truth.npy"))
    return {
        "largest error": float(errors.max()),
        "in standard errors": float((errors / answer.standard_errors).max()),
    }


STEPS: dict[str, Step] = {
    "plan": make_plan,
    "table": make_table,
    "encode": encode,
    "shuffle": shuffle,
    "tally": tally,
    "analyze": analyze,
}


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


if __name__ == "__main__":
    sys.exit(
        main("benchmarks.pipeline.hundred_million", STEPS, size=USERS, limit=LIMIT, shown=shown)
    )
