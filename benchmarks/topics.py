"""What ``python -m benchmarks.<package>`` does: measure all topics, or those that are named."""

from __future__ import annotations

import argparse
import importlib
import json
from collections.abc import Iterator, Sequence

from benchmarks.findings import Finding
from benchmarks.tables import Case, surroundings


def main(package: str, topics: Sequence[str], packages: Sequence[str], *, note: str = "") -> int:
    """Measure the topics of a package, each a module with ``findings``; print tables or JSON."""
    parser = argparse.ArgumentParser(prog=f"python -m {package}", description=__doc__)
    parser.add_argument("topics", nargs="*", metavar="topic", help=", ".join(topics))
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    chosen = parser.parse_args()
    unknown = [topic for topic in chosen.topics if topic not in topics]
    if unknown:
        parser.error(f"no topic {unknown[0]!r}; there are {', '.join(topics)}")
    around = surroundings(tuple(packages))
    if not chosen.json:
        print("; ".join(f"{name} {value}" for name, value in around.items()))
        times = "Times are processor time, medians of runs taken in turn; ratios turn by turn."
        print(f"{note or times}\n", flush=True)
    found: dict[str, list[object]] = {}
    for topic in chosen.topics or topics:
        found[topic] = []
        for finding in _findings(package, topic):
            found[topic].append(finding.document())
            if not chosen.json:
                print(f"{finding}\n", flush=True)
    if chosen.json:
        print(json.dumps({"surroundings": around, "topics": found}, indent=2))
    return 0


def _findings(package: str, topic: str) -> Iterator[Finding | Case]:
    # Late, so that one topic needs only its own peers.
    found: Iterator[Finding | Case] = importlib.import_module(f"{package}.{topic}").findings()
    return found
