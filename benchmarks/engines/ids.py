"""Thirty million ids: hashed into a filter by each engine, and filters counted."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from benchmarks.engines.measuring import Taken
from benchmarks.engines.running import COLUMNS, ENGINES, bench, line, scaling
from benchmarks.findings import Finding
from benchmarks.reach.hundred_million import make_table
from chaffinch.wire.filter_files import load_filter

IDS = 30_000_000
STEPS = ("filter", "logos")


def findings() -> Iterator[Finding]:
    """Yield what every step of every engine took."""
    from benchmarks.engines import id_step

    with bench() as running:
        make_table(running.folder, IDS)
        id_step.prepare(running.folder, IDS)
        found: dict[tuple[str, str], Taken] = {}
        for step in STEPS:
            for engine in ENGINES:
                found[step, engine] = running.run("benchmarks.engines.id_step", step, engine)
        # Flips are as rare as can be: with one key all engines set the same bits.
        rows = [load_filter(running.folder / f"{engine}.filter").rows for engine in ENGINES]
        counts = [np.load(running.folder / f"logos-{engine}.npy") for engine in ENGINES]
        for others in (rows, counts):
            assert all(np.array_equal(others[0], one) for one in others)
    lines = [line(*key, taken, IDS) for key, taken in found.items()]
    notes = ["all four filters have the same bits, all four logos the same counts"]
    yield Finding(f"{IDS:,} ids", COLUMNS, lines, [*notes, *scaling(found, STEPS)])
