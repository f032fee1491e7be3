"""A frame whose rows stray, and an executor lost between two of its exchanges, as a program.

Two exchanges follow one another, while a slow task beside them keeps the frame from its end. What
the first one sends goes elsewhere each time that it is evaluated. The executor that is killed has
parts of both: if only these are made again, people are lost, and others are there twice.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from chaffinch.engines.spark.engine import Spark
from chaffinch.engines.spark.job import Job
from chaffinch.engines.spark.session import running
from tests.engines import plans
from tests.engines.spark.work import PAUSE_SECONDS, executor_of_this_task

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import DataFrame, SparkSession

EXECUTORS, PARTS = 3, 6
ROWS, LATE, VALUES = 3000, 6, 8
PATIENCE_SECONDS = 240.0
PLAN = plans.clear(100, VALUES + 1)
Batches = Iterator[pa.RecordBatch]


def strayed(batches: Batches) -> Batches:
    draw = random.SystemRandom()
    for batch in batches:
        places = [draw.randrange(1 << 30) for _ in range(batch.num_rows)]
        yield pa.record_batch([batch["id"], pa.array(places)], ["id", "place"])


@dataclass(frozen=True)
class Noting:
    """Notes which executor has a part, slowly enough that several get some."""

    notes: Path

    def rows(self, batches: Batches) -> Batches:
        (self.notes / f"part-{executor_of_this_task()}-{time.monotonic_ns()}").touch()
        time.sleep(0.7)
        for batch in batches:
            yield batch.select(["id"])


@dataclass(frozen=True)
class Slow:
    """Waits until the executor is gone."""

    notes: Path

    def rows(self, batches: Batches) -> Batches:
        wait_for((self.notes / "killed").exists)
        yield from batches


def wait_for(ready: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while not ready():
        assert time.monotonic() < end, "nothing comes"
        time.sleep(PAUSE_SECONDS)


def straying(session: SparkSession, notes: Path) -> DataFrame:
    first = session.range(0, ROWS, 1, PARTS).mapInArrow(strayed, "id long, place long")
    second = first.repartition(PARTS, "place").mapInArrow(Noting(notes).rows, "id long")
    late = session.range(ROWS, ROWS + LATE, 1, 1).mapInArrow(Slow(notes).rows, "id long")
    both = second.repartition(PARTS, "id").union(late.repartition(2, "id"))
    return both.selectExpr(f"concat('v', cast(id % {VALUES} as string)) as answer")


def kill_one(context: SparkContext, notes: Path) -> None:
    """Kill an executor that has some of the parts, when all of them are made."""
    tracker = context.statusTracker()
    wait_for(lambda: len(list(notes.glob("part-*"))) >= PARTS)
    wait_for(lambda: _tasks_that_run(tracker) == 1)  # the slow one
    executors = [int(path.name.split("-")[1]) for path in sorted(notes.glob("part-*"))]
    assert len(set(executors)) > 1, "one executor has all parts"
    before = context._jsc.sc().getExecutorMemoryStatus().size()  # noqa: SLF001 - no other way
    os.kill(executors[0], signal.SIGKILL)
    wait_for(lambda: context._jsc.sc().getExecutorMemoryStatus().size() < before)  # noqa: SLF001
    (notes / "killed").touch()


def _tasks_that_run(tracker: Any) -> int:
    stages = [tracker.getStageInfo(one) for one in tracker.getActiveStageIds()]
    return sum(stage.numActiveTasks for stage in stages if stage is not None)


def main(master: str, notes: str, made: str) -> None:
    from pyspark.sql import SparkSession

    true = Job.map_rows

    def noting(job: Job, *given: Any, **options: Any) -> Any:
        found, whole = true(job, *given, **options)
        with (Path(notes) / "times").open("a") as file:
            file.write(f"{whole}\n")
        return found, whole

    Job.map_rows = noting  # type: ignore[assignment,method-assign] # as monkeypatch does
    with running(master) as context, warnings.catch_warnings(action="ignore"):
        executors = context._jsc.sc().getExecutorMemoryStatus  # noqa: SLF001 - no other way
        wait_for(lambda: executors().size() > EXECUTORS)  # the driver is one of them
        frame = straying(SparkSession(context), Path(notes))
        killer = threading.Thread(target=kill_one, args=(context, Path(notes)))
        killer.start()
        Spark().encode(frame, PLAN, made)
        killer.join()


if __name__ == "__main__":
    main(*sys.argv[1:])
