"""Run with ``python -m benchmarks.reach``: all parts, or those that are named."""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from collections.abc import Iterator

from benchmarks.pipeline.findings import Finding
from benchmarks.tables import surroundings

PARTS = ("accuracy", "inserts", "logos")
PACKAGES = ("numpy", "datasketches", "rbloom", "pybloom-live")


def main() -> int:
    """Measure, and print tables or JSON."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reach", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="part", help=", ".join(PARTS))
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    chosen = parser.parse_args()
    unknown = [part for part in chosen.parts if part not in PARTS]
    if unknown:
        parser.error(f"no part {unknown[0]!r}; there are {', '.join(PARTS)}")
    around = surroundings(PACKAGES)
    if not chosen.json:
        print("; ".join(f"{name} {value}" for name, value in around.items()))
        print("Times are processor time, medians of runs taken in turn; ratios turn by turn.\n")
    found: dict[str, list[object]] = {}
    for part in chosen.parts or PARTS:
        found[part] = []
        for finding in _findings(part):
            found[part].append(finding.document())
            if not chosen.json:
                print(f"{finding}\n", flush=True)
    if chosen.json:
        print(json.dumps({"surroundings": around, "parts": found}, indent=2))
    return 0


def _findings(part: str) -> Iterator[Finding]:
    # Late, so that one part needs only its own peers.
    found: Iterator[Finding] = importlib.import_module(f"benchmarks.reach.{part}").findings()
    return found


if __name__ == "__main__":
    sys.exit(main())
