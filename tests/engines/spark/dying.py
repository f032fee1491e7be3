"""A driver whose Java is killed while it works, as a program: what it says, and what comes then."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

from pyspark import SparkContext

from chaffinch.errors import ClusterFault
from chaffinch.services.openers import Cluster, open_pool


def hang(shared: str, item: int) -> int:
    Path(shared).touch()
    time.sleep(item)
    return item


def kill_java(seen: Path | None = None) -> None:
    while seen is not None and not seen.exists():
        time.sleep(0.02)
    gateway: Any = SparkContext._gateway  # noqa: SLF001 - which process is Java
    os.kill(gateway.proc.pid, signal.SIGKILL)


def main(seen: str) -> None:
    pool = open_pool("shuffler", 1, Cluster("local[1]"), threading.Event())
    threading.Thread(target=kill_java, args=[Path(seen)]).start()
    for item in (60, 0):  # in the middle of a job, and between two of them
        try:
            list(pool.mapped(hang, seen, [item]))
        except ClusterFault as fault:
            sys.stdout.write(f"{fault.message}\n")
        else:
            sys.stdout.write("none\n")
        sys.stdout.write(f"{list(pool.mapped(hang, seen, [0]))}\n")
        if item:
            kill_java()
    pool.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
