"""Run with ``python -m benchmarks.engines``: all topics, or those that are named."""

from __future__ import annotations

import sys

from benchmarks.topics import main

TOPICS = ("messages", "ids")
PACKAGES = ("numpy", "pyarrow", "pyspark")
NOTE = (
    "Every step is a command of its own, with the start of Python and of Spark. The cluster is a "
    "master and two workers of one core each, on this machine: what it takes beyond one machine is "
    "the price of a cluster, and no gain can be seen. How counting compares with DuckDB and Polars "
    "on the same file is told by `python -m benchmarks.pipeline tally`."
)

if __name__ == "__main__":
    sys.exit(main("benchmarks.engines", TOPICS, PACKAGES, note=NOTE))
