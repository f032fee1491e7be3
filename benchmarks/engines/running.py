"""Steps on one machine and on a cluster, one after the other, and the table of what they took."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from benchmarks.engines.measuring import Taken, Watch
from benchmarks.findings import Line
from benchmarks.harness import tell
from tests.engines.spark.cluster import Cluster, started

ENGINES = ("local1", "local2", "spark1", "spark2")
NAMES = {
    "local1": "local, 1 core",
    "local2": "local, 2 cores",
    "spark1": "spark, 1 worker",
    "spark2": "spark, 2 workers",
}
COLUMNS = ("seconds", "processor", "MiB", "a worker MiB", "million/s")


@dataclass(frozen=True)
class Bench:
    """A folder for files, and a cluster whose processes are looked at."""

    folder: Path
    cluster: Cluster
    watch: Watch
    """Of the cluster, whose processes stay."""

    def run(self, module: str, step: str, engine: str) -> Taken:
        """Run one step of an engine."""
        tell(f"{step}, {NAMES[engine]}")
        alone = engine.startswith("local")
        watch, settings = (Watch(), {}) if alone else (self.watch, self._spark(engine))
        found = watch.run([module, step, engine, str(self.folder)], settings)
        tell("")
        return found

    def _spark(self, engine: str) -> dict[str, str]:
        """Return the environment of a driver that may use so many workers."""
        conf = self.folder / f"conf-{engine}"
        conf.mkdir(exist_ok=True)
        usual = (self.cluster.folder / "conf" / "spark-defaults.conf").read_text(encoding="utf-8")
        own = f"spark.cores.max {engine.removeprefix('spark')}\nspark.executor.memory 1g\n"
        (conf / "spark-defaults.conf").write_text(usual + own, encoding="utf-8")
        return {
            **self.cluster.settings,
            "SPARK_CONF_DIR": str(conf),
            "CHAFFINCH_MASTER": self.cluster.url,
        }


@contextmanager
def bench() -> Iterator[Bench]:
    """Start a cluster; nothing of it is left afterwards."""
    watch = Watch()
    with (
        tempfile.TemporaryDirectory(prefix="chaffinch-bench-") as name,
        mock.patch.dict(os.environ, watch.environment),
    ):
        folder = Path(name)
        (folder / "cluster").mkdir()
        with started(folder / "cluster") as cluster:
            yield Bench(folder, cluster, watch)


def line(step: str, engine: str, taken: Taken, things: int) -> Line:
    """Return a row of the table."""
    rate = things / taken.clock / 1e6
    worker = taken.largest_worker / (1 << 20) or None
    cells = (taken.clock, taken.processor, taken.memory / (1 << 20), worker, rate)
    return Line(f"{step}, {NAMES[engine]}", cells)


def scaling(found: dict[tuple[str, str], Taken], steps: Sequence[str]) -> list[str]:
    """Return what a second core or worker brings, by the clock."""
    notes = []
    for kind in ("local", "spark"):
        gains = [found[step, f"{kind}1"].clock / found[step, f"{kind}2"].clock for step in steps]
        told = ", ".join(f"{step} {gain:.2f}" for step, gain in zip(steps, gains, strict=True))
        notes.append(f"{kind}, one against two, by the clock: {told}")
    return notes
