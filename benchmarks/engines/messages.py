"""Twenty million messages: encoded, shuffled and counted by each engine, with the same counts."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.engines.measuring import Taken
from benchmarks.engines.running import COLUMNS, ENGINES, Bench, bench, line, scaling
from benchmarks.findings import Finding
from chaffinch.plans.plan import Plan
from tests.engines.plans import clear

MESSAGES, VALUES = 20_000_000, 100
STEPS = ("encode", "shuffle", "tally")
CHUNK = 1_000_000


def findings() -> Iterator[Finding]:
    """Yield what every step of every engine took."""
    with bench() as running:
        plan = clear(MESSAGES, VALUES)
        plan.save(running.folder / "plan.json")
        truth = _table(running, plan)
        found: dict[tuple[str, str], Taken] = {}
        for step in STEPS:
            for engine in ENGINES:
                found[step, engine] = running.run("benchmarks.engines.step", step, engine)
        for engine in ENGINES:
            assert np.array_equal(np.load(running.folder / f"counts-{engine}.npy"), truth), engine
    lines = [line(*key, taken, MESSAGES) for key, taken in found.items()]
    notes = ["all four counts of all codes are the same", *scaling(found, STEPS)]
    yield Finding(f"{MESSAGES:,} messages of {VALUES} codes", COLUMNS, lines, notes)


def _table(running: Bench, plan: Plan) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Write answers in row groups; return how often each is there, as each is one message."""
    random, labels = np.random.default_rng(1), pa.array(plan.parts[0].labels[:-1])
    counts = np.zeros(VALUES, np.int64)
    schema = pa.schema([("answer", pa.dictionary(pa.int32(), pa.string()))])
    with pq.ParquetWriter(running.folder / "answers.parquet", schema) as writer:
        for _ in range(MESSAGES // CHUNK):
            places = random.integers(0, VALUES - 1, CHUNK, dtype=np.int32)
            counts += np.bincount(places, minlength=VALUES)
            column = pa.DictionaryArray.from_arrays(pa.array(places), labels)
            writer.write_table(pa.table([column], schema=schema))
    return counts
