"""Count the logos of stacked filters, against unpacking their bits in NumPy."""

from __future__ import annotations

import functools
import multiprocessing
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.findings import (
    Finding,
    Goal,
    Line,
    milliseconds,
    processor_seconds,
    ratio,
)
from chaffinch.sampling import backend, backends, logo_counts

ROWS, BITS = 10, 1 << 27
SHARES = {"chaffinch, numpy": 16, "unpackbits": 32}
"""Who counts a part of the columns only; times and memory are scaled up as the notes say."""
OURS = "chaffinch, native"
STATUS = Path("/proc/self/status")
RATIO_AIM, MILLISECONDS_AIM = 10.0, 1000.0
Rows = list[NDArray[np.uint64]]


def findings() -> Iterator[Finding]:
    """Yield the table."""
    rows = _rows(BITS)
    parts = {name: _part(rows, share) for name, share in SHARES.items()}
    expected = _unpacked(parts["unpackbits"])
    assert np.array_equal(logo_counts(parts["unpackbits"], BITS // SHARES["unpackbits"]), expected)
    jobs: dict[str, Callable[[], object]] = {
        OURS: lambda: logo_counts(rows, BITS),
        "read: sums of all rows": lambda: [int(row.sum()) for row in rows],
        **{name: functools.partial(JOBS[name], part) for name, part in parts.items()},
    }
    seconds = {
        name: [one * SHARES.get(name, 1) for one in runs]
        for name, runs in processor_seconds(jobs, repeats=5).items()
    }
    yield Finding(
        f"Count the {1 << ROWS:,} logos of {ROWS} rows of {BITS:,} bits "
        f"({ROWS * BITS / 8e6:.0f} MB), one thread",
        ("ms", "ns per column", "x chaffinch", "MB on top"),
        [_line(name, runs, seconds[OURS]) for name, runs in seconds.items()],
        [
            f"kernels: {backend()}",
            "; ".join(f"{name}: on 1/{share}, time scaled up" for name, share in SHARES.items()),
            "MB on top: most memory held above that of the rows, in a process of its own",
            "unpackbits: its memory is scaled up too, because it unpacks all columns at once",
        ],
    )


def _line(name: str, runs: list[float], ours: list[float]) -> Line:
    took, against = milliseconds(runs), ratio(runs, ours)
    goals = {
        OURS: Goal(MILLISECONDS_AIM, took, at_least=False),
        "unpackbits": Goal(RATIO_AIM, against),
    }
    memory = _measured(name) if name in JOBS else None
    return Line(name, (took, 1e6 * took / BITS, against, memory), goals.get(name))


def _rows(bits: int) -> Rows:
    """Return random rows, made in small parts: nothing else ever takes more memory."""
    generator = np.random.default_rng(1)
    rows = [np.empty(bits // 64, dtype=np.uint64) for _ in range(ROWS)]
    for row in rows:
        for start in range(0, len(row), 1 << 14):
            part = row[start : start + (1 << 14)]
            part[:] = generator.integers(0, 2**64, len(part), dtype=np.uint64, endpoint=False)
    return rows


def _part(rows: Rows, share: int) -> Rows:
    return [row[: len(row) // share] for row in rows]


def _ours(kind: str, rows: Rows) -> NDArray[np.int64]:
    before = backends.FILTER_LOOPS
    backends.FILTER_LOOPS = backends.choose_filters(kind)[1]
    try:
        return logo_counts(rows, 64 * len(rows[0]))
    finally:
        backends.FILTER_LOOPS = before


def _unpacked(rows: Rows) -> NDArray[np.int64]:
    """Count as one would without a second thought."""
    bits = [np.unpackbits(row.view(np.uint8), bitorder="little") for row in rows]
    codes = np.zeros(len(bits[0]), dtype=np.uint32)
    for place, row in enumerate(bits):
        codes |= row.astype(np.uint32) << np.uint32(place)
    return np.bincount(codes, minlength=1 << len(rows))


JOBS: dict[str, Callable[[Rows], object]] = {
    OURS: functools.partial(_ours, ""),
    "chaffinch, numpy": functools.partial(_ours, "numpy"),
    "unpackbits": _unpacked,
}


def _measured(name: str) -> float | None:
    """Return the megabytes that a job takes, in a fresh process; None where nothing tells."""
    if not STATUS.exists():
        return None
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_taken, (name,))


def _taken(name: str) -> float:
    share = SHARES.get(name, 1)
    rows = _rows(BITS // share)
    JOBS[name]([row[:1024] for row in rows])  # What is loaded on first use does not count.
    before = _peak()
    JOBS[name](rows)
    grown = _peak() - before
    return grown * (share if name == "unpackbits" else 1)


def _peak() -> float:
    """Return the most megabytes that this process has held; rusage would count its parent's."""
    (line,) = (one for one in STATUS.read_text().splitlines() if one.startswith("VmHWM"))
    return float(line.split()[1]) * 1024.0 / 1e6
