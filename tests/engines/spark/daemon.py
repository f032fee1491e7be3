"""Forks the Python workers of executors, as Spark's own does, with packages loaded that all need.

Every worker would load them again, and a test that ends workers has many. What is ours is loaded by
the workers, as ever: a module that cannot be loaded there by itself must not pass here. So is what
starts threads when it is loaded, which would be lost in every fork.

After every task Spark's own looks through all that is loaded for what may go, which takes longer
than most tasks here. What a task has left is looked through once.
"""

from __future__ import annotations

import gc
import os
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

from pyspark import daemon

PACKAGES = (
    "cryptography.hazmat.primitives.ciphers.aead",
    "numpy",
    "pydantic",
    "scipy.special",
)


def collect() -> None:
    """Remove what a task has left, and look at the rest no more."""
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    for name in PACKAGES:
        import_module(name)
    assert len(list(Path("/proc/self/task").iterdir())) == 1
    collect()
    daemon.gc = SimpleNamespace(collect=collect)  # type: ignore[assignment,attr-defined]
    daemon.manager()
