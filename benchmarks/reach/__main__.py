"""Run with ``python -m benchmarks.reach``: all topics, or those that are named."""

from __future__ import annotations

import sys

from benchmarks.topics import main

TOPICS = ("accuracy", "inserts", "logos")
PACKAGES = ("numpy", "datasketches", "rbloom", "pybloom-live")

if __name__ == "__main__":
    sys.exit(main("benchmarks.reach", TOPICS, PACKAGES))
