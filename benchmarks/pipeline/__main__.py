"""Run with ``python -m benchmarks.pipeline``: all topics, or those that are named."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
from collections.abc import Iterator

from benchmarks.pipeline.findings import Finding
from benchmarks.tables import surroundings

TOPICS = ("accuracy", "flips", "tally", "device")
PACKAGES = ("numpy", "cryptography", "pyarrow", "multi-freq-ldpy", "duckdb", "polars")


def main() -> int:
    """Measure, and print tables or JSON."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pipeline", description=__doc__)
    parser.add_argument("topics", nargs="*", metavar="topic", help=", ".join(TOPICS))
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    chosen = parser.parse_args()
    unknown = [topic for topic in chosen.topics if topic not in TOPICS]
    if unknown:
        parser.error(f"no topic {unknown[0]!r}; there are {', '.join(TOPICS)}")
    os.environ["POLARS_MAX_THREADS"] = "1"  # Read once, when polars is first imported.
    around = surroundings(PACKAGES)
    if not chosen.json:
        print("; ".join(f"{name} {value}" for name, value in around.items()))
        print("Times are processor time, medians of runs taken in turn; ratios turn by turn.\n")
    found: dict[str, list[Finding]] = {}
    for topic in chosen.topics or TOPICS:
        found[topic] = []
        for finding in _findings(topic):
            found[topic].append(finding)
            if not chosen.json:
                print(f"{finding}\n", flush=True)
    if chosen.json:
        topics = {topic: [one.document() for one in all_] for topic, all_ in found.items()}
        print(json.dumps({"surroundings": around, "topics": topics}, indent=2))
    return 0


def _findings(topic: str) -> Iterator[Finding]:
    # Late, so that one topic needs only its own peers.
    found: Iterator[Finding] = importlib.import_module(f"benchmarks.pipeline.{topic}").findings()
    return found


if __name__ == "__main__":
    sys.exit(main())
