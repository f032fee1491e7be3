"""Forks the Python workers of executors, as Spark's own does, with packages loaded that all need.

Every worker would load them again, and a test that ends workers has many. What is ours is loaded by
the workers, as ever: a module that cannot be loaded there by itself must not pass here.
"""

from __future__ import annotations

from importlib import import_module

from pyspark.daemon import manager

PACKAGES = (
    "cryptography.hazmat.primitives.ciphers.aead",
    "pyarrow.compute",
    "pyarrow.fs",
    "pyarrow.parquet",
    "pydantic",
    "scipy.special",
)

if __name__ == "__main__":
    for name in PACKAGES:
        import_module(name)
    manager()
