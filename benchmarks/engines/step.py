"""One step of one engine, for ``benchmarks.engines``: STEP ENGINE FOLDER."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

from chaffinch import load_plan
from chaffinch.engines import Engine
from chaffinch.engines.local import Local


def engine_of(name: str) -> Engine:
    """Return the engine of a name: ``local`` with so many cores, ``spark`` on the master given."""
    if name.startswith("local"):
        number = int(name.removeprefix("local"))
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:number])
        return Local(workers=number)
    from chaffinch.engines.spark.engine import Spark

    return Spark(os.environ["CHAFFINCH_MASTER"])


def encode(engine: Engine, folder: Path, name: str) -> None:
    """Encode the table."""
    plan = load_plan(folder / "plan.json")
    engine.encode(folder / "answers.parquet", plan, folder / f"encoded-{name}")


def shuffle(engine: Engine, folder: Path, name: str) -> None:
    """Shuffle what one machine has encoded."""
    plan, record = load_plan(folder / "plan.json"), folder / f"record-{name}"
    engine.shuffle([folder / "encoded-local1"], plan, folder / f"shuffled-{name}", record=record)


def tally(engine: Engine, folder: Path, name: str) -> None:
    """Count what this engine has shuffled, and check it: one machine has counted the same."""
    plan = load_plan(folder / "plan.json")
    found = engine.tally([folder / f"shuffled-{name}"], plan)
    np.save(folder / f"counts-{name}.npy", found.counts)


STEPS: dict[str, Callable[[Engine, Path, str], None]] = {
    "encode": encode,
    "shuffle": shuffle,
    "tally": tally,
}

if __name__ == "__main__":
    _step, _name, _folder = sys.argv[1:]
    STEPS[_step](engine_of(_name), Path(_folder), _name)
