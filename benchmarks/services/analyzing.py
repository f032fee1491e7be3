"""What the analyzer opens, knows as new, counts and keeps."""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from benchmarks.findings import Finding, Goal, Line
from benchmarks.harness import tell
from benchmarks.services.reference import exchanges
from chaffinch.analysis.open_batches import open_batch
from chaffinch.analysis.received import Received
from tests.analysis.sealed import PEOPLE, LastHop, flips

TURNS = 5
ITEMS = 20_000
GOAL = 0.45


def findings() -> Iterator[Finding]:
    """Yield how many messages one process opens and counts, by its own processor time."""
    with tempfile.TemporaryDirectory(prefix="chaffinch-bench-") as name:
        folder = Path(name)
        hop = LastHop.of(flips(), folder)
        tell("sealing")
        items = hop.items(code % PEOPLE for code in range(ITEMS))
        path = hop.put(folder, hop.batch(items, reports=ITEMS))
        rates, ratios = [], []
        for turn in range(TURNS):
            tell(f"turn {turn + 1}")
            rates.append(ITEMS / _spent(hop, path, folder / "data"))
            ratios.append(rates[-1] / exchanges())
        tell("")
    middle = statistics.median(ratios)
    cells = (statistics.median(rates), middle, min(ratios), max(ratios))
    line = Line("open and count", cells, Goal(GOAL, middle))
    note = f"One process, {ITEMS:,} messages: signature, opening, replay tags and tally, durable."
    yield Finding("The analyzer", ("messages/s", "ratio", "least", "most"), [line], [note])


def _spent(hop: LastHop, path: Path, folder: Path) -> float:
    """Return the processor time from the file of a batch to its tally in a new state."""
    keys = hop.keys.opening_keys()
    with closing(Received(folder / "state.sqlite")) as received:
        start = time.process_time()
        counted = received.add(open_batch(path, hop.plan, keys))
        spent = time.process_time() - start
    assert counted.counted == ITEMS, counted
    shutil.rmtree(folder)
    return spent
