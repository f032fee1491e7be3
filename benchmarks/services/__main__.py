"""Run with ``python -m benchmarks.services``: all topics, or those that are named."""

from __future__ import annotations

import sys

from benchmarks.topics import main

TOPICS = ("collecting", "shuffling", "analyzing", "soaking")
PACKAGES = ("cryptography", "httptools", "uvloop")
NOTE = (
    "Reports or messages for each second of processor time of the service, over the key "
    "exchanges of `openssl speed ecdhx25519`; taken in turn, medians of the ratios."
)

if __name__ == "__main__":
    sys.exit(main("benchmarks.services", TOPICS, PACKAGES, note=NOTE))
