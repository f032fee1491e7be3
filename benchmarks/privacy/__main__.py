"""Run with ``python -m benchmarks.privacy``: all topics, or those that are named."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator

from benchmarks import tables
from benchmarks.harness import Case
from benchmarks.privacy import filters, many_rounds, one_round, peers

TOPICS: dict[str, Callable[[], Iterator[Case]]] = {
    "one-round": one_round.cases,
    "many-rounds": many_rounds.cases,
    "filters": filters.cases,
}


def main() -> int:
    """Measure, and print tables or JSON."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.privacy", description=__doc__)
    parser.add_argument("topics", nargs="*", metavar="topic", help=", ".join(TOPICS))
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    chosen = parser.parse_args()
    unknown = [topic for topic in chosen.topics if topic not in TOPICS]
    if unknown:
        parser.error(f"no topic {unknown[0]!r}; there are {', '.join(TOPICS)}")
    if not chosen.json:
        _introduce()
    found: dict[str, list[Case]] = {}
    for topic in chosen.topics or TOPICS:
        found[topic] = []
        for case in TOPICS[topic]():
            found[topic].append(case)
            if not chosen.json:
                print(f"{tables.table(case)}\n", flush=True)
    if chosen.json:
        print(tables.machine(found))
    return 0


def _introduce() -> None:
    print("; ".join(f"{name} {value}" for name, value in tables.surroundings().items()))
    print(
        "Seconds are medians of runs taken in turn. dp-accounting gets the exact probabilities\n"
        f"of one crowd, ready made, in the order {peers.ORDER}.\n"
        "'every crowd' is a guarantee; one given crowd and the Gaussian limit are not.\n",
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main())
