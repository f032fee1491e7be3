"""Run with ``python -m benchmarks.pipeline``: all topics, or those that are named."""

from __future__ import annotations

import os
import sys

from benchmarks.topics import main

TOPICS = ("centre", "totals", "accuracy", "flips", "lists", "decoys", "tally", "device")
PACKAGES = ("numpy", "cryptography", "pyarrow", "multi-freq-ldpy", "duckdb", "polars", "opendp")

if __name__ == "__main__":
    os.environ["POLARS_MAX_THREADS"] = "1"  # Read once, when polars is first imported.
    sys.exit(main("benchmarks.pipeline", TOPICS, PACKAGES))
