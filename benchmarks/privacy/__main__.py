"""Run with ``python -m benchmarks.privacy``: all topics, or those that are named."""

from __future__ import annotations

import sys

from benchmarks.topics import main

TOPICS = ("speed", "one_round", "many_rounds", "filters")
PACKAGES = ("numpy", "scipy", "dp-accounting", "prv-accountant")
NOTE = (
    "Seconds are medians of runs taken in turn. dp-accounting gets the exact probabilities of\n"
    "one crowd, ready made, in the order (target 0, target 1), both orders, pessimistic.\n"
    "'every crowd' is a guarantee; one given crowd and the Gaussian limit are not."
)

if __name__ == "__main__":
    sys.exit(main("benchmarks.privacy", TOPICS, PACKAGES, note=NOTE))
