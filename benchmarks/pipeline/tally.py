"""Count what arrived: packed rows against reading memory, sparse messages against databases."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from benchmarks.findings import (
    Finding,
    Goal,
    Line,
    milliseconds,
    processor_seconds,
    ratio,
)
from chaffinch.sampling import backend, histogram, positional_popcount
from chaffinch.wire.message_reader import MessageReader
from chaffinch.wire.message_writer import MessageWriter

ROWS, BITS = 2_000_000, 1024
"""A quarter of a gigabyte: no cache holds it."""
MESSAGES, CODES = 15_000_000, 100_000
READ_AIM, DATABASE_AIM = 0.8, 2.0
PLAN = "0" * 64
COLUMN = "message"


def findings() -> Iterator[Finding]:
    """Yield the tables."""
    yield _packed()
    codes = np.random.default_rng(1).integers(0, CODES, MESSAGES, dtype=np.uint32)
    yield _in_memory(codes)
    with tempfile.TemporaryDirectory() as folder:
        yield _from_parquet(codes, Path(folder))


def _packed() -> Finding:
    rows = np.random.default_rng(1).integers(0, 256, (ROWS, BITS // 8), dtype=np.uint8)
    words = rows.reshape(-1).view(np.uint64)
    jobs: dict[str, Callable[[], object]] = {
        "positional popcount": lambda: positional_popcount(rows, BITS),
        "read: sum of 64-bit words": words.sum,
        "read: largest 64-bit word": words.max,
        "unpackbits and sum": lambda: _unpacked(rows[: ROWS // 10]),
    }
    seconds = processor_seconds(jobs)
    seconds["unpackbits and sum"] = [10 * one for one in seconds["unpackbits and sum"]]
    reads = [name for name in jobs if name.startswith("read")]
    fastest = min(reads, key=lambda name: statistics.median(seconds[name]))
    lines = []
    for name, runs in seconds.items():
        share = ratio(seconds[fastest], runs)
        goal = Goal(READ_AIM, share) if name == "positional popcount" else None
        lines.append(
            Line(name, (milliseconds(runs), rows.nbytes / milliseconds(runs) / 1e6, share), goal)
        )
    return Finding(
        f"Tally {ROWS:,} packed rows of {BITS} bits ({rows.nbytes / 1e6:.0f} MB), one thread",
        ("ms", "GB/s", "of reading"),
        lines,
        [f"kernels: {backend()}; unpackbits on a tenth, scaled"],
    )


def _unpacked(rows: NDArray[np.uint8]) -> NDArray[np.int64]:
    counts = np.zeros(BITS, np.int64)
    for start in range(0, len(rows), 255):
        bits = np.unpackbits(rows[start : start + 255], axis=1, bitorder="little")
        counts += bits.sum(axis=0, dtype=np.uint8)
    return counts


def _in_memory(codes: NDArray[np.uint32]) -> Finding:
    jobs: dict[str, Callable[[], object]] = {
        "histogram": lambda: histogram(codes, CODES),
        "np.bincount": lambda: np.bincount(codes, minlength=CODES),
    }
    seconds = processor_seconds(jobs)
    lines = [
        Line(name, (milliseconds(runs), ratio(runs, seconds["histogram"])))
        for name, runs in seconds.items()
    ]
    title = f"Tally {MESSAGES:,} messages of {CODES:,} codes in memory, one thread"
    return Finding(title, ("ms", "x histogram"), lines)


def _from_parquet(codes: NDArray[np.uint32], folder: Path) -> Finding:
    """Compare on the file that chaffinch writes and on one with the usual settings."""
    ours, usual = folder / "messages.parquet", folder / "usual.parquet"
    with MessageWriter(ours, plan_id=PLAN, stage="shuffled", space=CODES) as writer:
        for start in range(0, MESSAGES, 1 << 20):
            writer.write(codes[start : start + (1 << 20)], 0)
        writer.write(codes[:0], MESSAGES)
    pq.write_table(pa.table({COLUMN: codes}), usual, compression="zstd")
    lines = []
    for name, path in (("own file", ours), ("zstd file", usual)):
        lines += _engines(name, path, np.bincount(codes, minlength=CODES))
    return Finding(
        f"Tally {MESSAGES:,} messages of {CODES:,} codes from Parquet, one thread each",
        ("CPU ms", "x chaffinch", "MB"),
        lines,
        ["own file: as chaffinch writes messages; zstd file: pyarrow's other settings as they are"],
    )


def _engines(name: str, path: Path, truth: NDArray[np.int64]) -> list[Line]:
    column = pq.read_schema(path).names[0]
    connection = duckdb.connect(config={"threads": 1})
    query = f"select {column}, count(*) from '{path}' group by 1"  # noqa: S608 - a path of ours
    jobs: dict[str, Callable[[], Any]] = {
        "chaffinch": lambda: _ours(path) if name == "own file" else _plain(path),
        "DuckDB": lambda: connection.execute(query).fetchnumpy(),
        "Polars": lambda: _polars(path, column),
    }
    assert np.array_equal(jobs["chaffinch"](), truth)
    assert len(connection.execute(query).fetchall()) == np.count_nonzero(truth)
    seconds = processor_seconds(jobs, repeats=5)
    connection.close()
    fast = seconds["chaffinch"]
    size = path.stat().st_size / 1e6
    lines = []
    for tool, runs in seconds.items():
        against = ratio(runs, fast)
        goal = None if tool == "chaffinch" else Goal(DATABASE_AIM, against)
        lines.append(Line(f"{tool}, {name}", (milliseconds(runs), against, size), goal))
    return lines


def _ours(path: Path) -> NDArray[np.int64]:
    reader = MessageReader(path)
    for _ in reader.batches():
        pass
    return reader.counts.dense()


def _plain(path: Path) -> NDArray[np.int64]:
    """Count a file that is not one of chaffinch's own, in the same way."""
    counts = np.zeros(CODES, np.int64)
    with pq.ParquetFile(path) as source:
        for batch in source.iter_batches(1 << 20, use_threads=False):
            histogram(batch.column(0).to_numpy(), CODES, out=counts)
    return counts


def _polars(path: Path, column: str) -> object:
    import polars as pl

    assert pl.thread_pool_size() == 1
    return pl.scan_parquet(path).group_by(column).len().collect()
