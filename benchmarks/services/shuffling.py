"""From sealed segments to a batch in the outbox: one core, and two processes that open."""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from benchmarks.findings import Finding, Goal, Line
from benchmarks.harness import tell
from benchmarks.services.reference import exchanges
from chaffinch.keys import KeyFolder
from chaffinch.services.shuffler import Shuffler, ShufflerSettings
from chaffinch.tables.parallel import cores
from tests.services.oracle import Collection

TURNS = 9
REPORTS = 24_000
"""With few reports, what a batch waits for the disk weighs as much as what is opened."""
SEGMENTS = 6
SLOTS = 8


class _Spent(NamedTuple):
    processor: float
    opening: float
    """By the clock, until all reports wait in the pool: what processes share."""
    clock: float


def findings() -> Iterator[Finding]:
    """Yield what a shuffler takes over and releases, by its processor time and by the clock."""
    with tempfile.TemporaryDirectory(prefix="chaffinch-bench-") as name:
        folder = Path(name)
        collection = Collection.make(folder / "keys", crowd=1000, numbers=REPORTS, slots=SLOTS)
        tell("sealing")
        reports = collection.seal(range(REPORTS))
        yield _pipeline(folder, collection, reports)
        yield _two_openers(folder, collection, reports)


def _pipeline(folder: Path, collection: Collection, reports: list[bytes]) -> Finding:
    rates, ratios = [], []
    for turn in range(TURNS):
        tell(f"inbox to batch, turn {turn + 1}")
        spent = _run(folder / "data", collection, reports, openers=1)
        rates.append(REPORTS / spent.processor)
        ratios.append(rates[-1] / exchanges())
    tell("")
    middle = statistics.median(ratios)
    cells = (statistics.median(rates), middle, min(ratios), max(ratios))
    line = Line(f"{SLOTS} messages a report", cells, Goal(0.42, middle))
    columns = ("reports/s", "ratio", "least", "most")
    return Finding("The shuffler, from inbox to sealed batch", columns, [line])


def _two_openers(folder: Path, collection: Collection, reports: list[bytes]) -> Finding:
    pairs = []
    for turn in range(TURNS):
        tell(f"two processes that open, turn {turn + 1}")
        pairs.append(
            tuple(_run(folder / "data", collection, reports, openers=openers) for openers in (1, 2))
        )
    tell("")
    opening = [(alone.opening, together.opening) for alone, together in pairs]
    all_of_it = [(alone.clock, together.clock) for alone, together in pairs]
    lines = [
        _gain("two openers over one, inbox to pool", opening, aim=1.8),
        _gain("the same, inbox to batch", all_of_it),
    ]
    noise = (
        f"By the clock, on {cores()} cores. Whatever else this machine does makes both slower, "
        "and two more than one: the gain is that of the shortest turn of each."
    )
    alone = "One process makes the batch, however many open: no opener can shorten that."
    columns = ("gain", "middle turn", "least", "most")
    return Finding("Opener processes", columns, lines, [noise, alone])


def _gain(name: str, pairs: list[tuple[float, float]], aim: float | None = None) -> Line:
    one, two = (min(clocks) for clocks in zip(*pairs, strict=True))
    gains = [alone / together for alone, together in pairs]
    cells = (one / two, statistics.median(gains), min(gains), max(gains))
    return Line(name, cells, None if aim is None else Goal(aim, one / two))


def _run(data: Path, collection: Collection, reports: list[bytes], *, openers: int) -> _Spent:
    """Take over segments of fresh reports, and release them."""
    shutil.rmtree(data, ignore_errors=True)
    settings = ShufflerSettings(openers=openers)
    keys = KeyFolder.open(collection.hops[0].path)
    with Shuffler(data, keys, [collection.plan], settings) as hop:
        collection.show_keys(hop)
        # Processes start with the first work they get, and are not what is measured.
        collection.write_segment(data, reports[:2] * 2000)
        hop.take()
        for at in range(0, len(reports), len(reports) // SEGMENTS):
            collection.write_segment(data, reports[at : at + len(reports) // SEGMENTS])
        processor, clock = time.process_time(), time.perf_counter()
        hop.take()
        opening = time.perf_counter() - clock
        hop.tick()
        spent = _Spent(time.process_time() - processor, opening, time.perf_counter() - clock)
        (counts,) = hop.status.plans.values()
        assert counts.batched == len(reports), counts
    return spent
