"""One job on a cluster: pieces go out, functions of ours work on them, small results come back.

A task may run twice: Spark repeats what an executor took with it when it was lost, and may start
a second copy of a slow one. So no task draws random words of its own. Every job has a fresh secret
of 256 bits, and the words of a task follow from it, from what they are for, and from a digest of
its input (``Keyring.words``): who does the work again gets the same words and writes the same
bytes; another input gets words that are independent of these. Two jobs never share a secret.

The secret, and the keys of the party whose job it is, are in a broadcast and nowhere else: not in
the function, the configuration or the environment, and on no disk as they are (``session``).
"""

from __future__ import annotations

import pickle
import secrets
import threading
import warnings
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from chaffinch.engines.spark.masters import on_one_machine
from chaffinch.engines.spark.session import first_words
from chaffinch.engines.spark.tasks import (
    Gather,
    Gathered,
    Keyring,
    Mapped,
    MappedRows,
    Merged,
    RowWork,
    Scatter,
    Scattered,
    Work,
)
from chaffinch.errors import ClusterFault
from chaffinch.sampling.words import SECRET_BYTES
from chaffinch.tables.parallel import Progress

if TYPE_CHECKING:
    from pyspark import Accumulator, Broadcast, SparkContext
    from pyspark.sql import DataFrame

_PAUSE_SECONDS = 0.2
_NEWS_MILLISECONDS = 60_000
_ADAPTIVE = "spark.sql.adaptive.enabled"
_PLANNING = threading.Lock()
_MERGED_AT_ONCE = 8
_MOST_TRIES = 3

_Piece = TypeVar("_Piece")
_Result = TypeVar("_Result")
_Final = TypeVar("_Final")


class Job:
    """Work for a cluster under one secret, which ends with the job.

    What a task refuses with an error of ours is raised here as it is. A lost executor is Spark's
    to replace; what it cannot is a ``ClusterFault``.
    """

    def __init__(self, context: SparkContext, keys: Mapping[str, bytes] | None = None) -> None:
        self._context = context
        with cluster_faults():
            ring = Keyring(secrets.token_bytes(SECRET_BYTES), dict(keys or {}), _tries(context))
            self._ring: Broadcast[Keyring] = context.broadcast(ring)
        self._group = f"chaffinch-{secrets.token_hex(8)}"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with suppress(Exception):  # an executor that is gone cannot be told, and has nothing
            self._ring.destroy(blocking=True)

    @property
    def width(self) -> int:
        """Return how many tasks the cluster runs at once, as far as is known now."""
        with cluster_faults():
            return max(1, self._context.defaultParallelism)

    @property
    def alone(self) -> bool:
        """Return whether all of the cluster is on this machine."""
        return on_one_machine(str(self._context.master))

    def map(
        self,
        function: Work[_Piece, _Result],
        pieces: Sequence[_Piece],
        *,
        sizes: Sequence[int] | None = None,
        progress: Progress | None = None,
    ) -> list[_Result]:
        """Return what a function makes of every piece, in the order of the pieces.

        ``progress`` is told how much is done of the sum of ``sizes``; without them each is one.
        """
        if not pieces:
            return []
        work = Mapped(self._ring, self._context.accumulator(0), function)
        with cluster_faults():
            found = self._numbered(pieces, sizes).mapPartitions(work)
        return [
            one.value for one in self._collected(found, work.done, _sizes(pieces, sizes), progress)
        ]

    def map_rows(
        self,
        function: RowWork[_Result],
        frame: DataFrame,
        *,
        progress: Progress | None = None,
    ) -> tuple[list[_Result], bool]:
        """Return what a function makes of every partition of a frame, and if they are of one piece.

        They are not if Spark has evaluated a part of the frame again for some of them.
        ``progress`` is told how many rows are done.
        """
        work = MappedRows(self._ring, self._context.accumulator(0), function)
        with cluster_faults():
            before = set(self._context.statusTracker().getJobIdsForGroup(self._group))
        with cluster_faults(of_frame=True), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what Spark thinks of versions of other packages
            found = _planned_whole(frame.mapInArrow(work.on_rows, "outcome binary"))
        rows = self._collected(found, work.done, None, progress)
        outcomes = [pickle.loads(row.outcome) for row in rows]  # noqa: S301 - our own
        return [one.value for one in outcomes], not (rows and self._repeated(before))

    def _repeated(self, before: Container[int]) -> bool:
        """Return whether a stage of a later job of Spark than those had to be done again."""
        from py4j.protocol import Py4JError

        try:  # all that has happened so far is told before this returns
            self._context._jsc.sc().listenerBus().waitUntilEmpty(_NEWS_MILLISECONDS)  # noqa: SLF001
        except Py4JError:
            return True
        tracker = self._context.statusTracker()
        later = [one for one in tracker.getJobIdsForGroup(self._group) if one not in before]
        jobs = [tracker.getJobInfo(number) for number in later]
        stages = [tracker.getStageInfo(one) for job in jobs if job for one in job.stageIds]
        # Spark's own account of it comes late, and may be gone: what is not known was repeated.
        return not stages or any(stage is None or stage.currentAttemptId > 0 for stage in stages)

    def exchange(
        self,
        pieces: Sequence[_Piece],
        scatter: Scatter[_Piece],
        gather: Gather[_Result],
        *,
        parts: int,
        sizes: Sequence[int] | None = None,
        progress: Progress | None = None,
    ) -> list[_Result]:
        """Send bytes from every piece to numbered parts, and return what is made of each part.

        All bytes for one part are held by its task at once.
        """
        done = self._context.accumulator(0)
        scattered = Scattered(self._ring, done, scatter, parts)
        gathered = Gathered(self._ring, gather, len(pieces))
        with cluster_faults():
            found = (
                self._numbered(pieces, sizes)
                .mapPartitions(scattered)
                .partitionBy(parts, _same)
                .mapPartitionsWithIndex(gathered)
            )
        return [one.value for one in self._collected(found, done, _sizes(pieces, sizes), progress)]

    def reduce(
        self,
        function: Work[_Piece, _Result],
        pieces: Sequence[_Piece],
        merge: Callable[[_Result, _Result], _Result],
        finish: Callable[[_Result], _Final],
        *,
        sizes: Sequence[int] | None = None,
        progress: Progress | None = None,
    ) -> _Final:
        """Return what ``finish`` makes of all that a function gives, merged by and by on executors.

        It is merged as it arrives, in any order, so that a task holds two results at a time.
        Nothing of it comes here but the end.
        """
        done = self._context.accumulator(0)
        count = len(pieces)
        with cluster_faults():
            found = self._numbered(pieces, sizes).mapPartitions(
                Mapped(self._ring, done, function, numbered=True)
            )
            while True:
                count = -(-count // _MERGED_AT_ONCE)
                last = Merged(merge, finish if count == 1 else None)
                found = found.partitionBy(count, _next_level).mapPartitionsWithIndex(last)
                if count == 1:
                    break
        ((_, outcome),) = self._collected(found, done, _sizes(pieces, sizes), progress)
        return outcome.value  # type: ignore[no-any-return]

    def _numbered(self, pieces: Sequence[Any], sizes: Sequence[int] | None) -> Any:
        numbered = list(zip(range(len(pieces)), _sizes(pieces, sizes), pieces, strict=True))
        return self._context.parallelize(numbered, max(1, len(numbered)))

    def _collected(
        self,
        found: Any,
        done: Accumulator[int],
        sizes: Sequence[int] | None,
        progress: Progress | None,
    ) -> list[Any]:

        def collect() -> Any:
            with cluster_faults(of_frame=sizes is None):
                self._context.setJobGroup(self._group, "chaffinch", interruptOnCancel=True)
                return found.collect()

        total = None if sizes is None else sum(sizes)
        # A thread of its own asks Java: a Ctrl-C here cuts no answer short, and the job is over
        # before anybody clears up behind its tasks.
        with ThreadPoolExecutor(1) as thread:
            given = thread.submit(collect)
            try:
                while wait([given], _PAUSE_SECONDS).not_done:
                    if progress is not None:  # a task that runs again counts again
                        progress(done.value if total is None else min(done.value, total), total)
                results: list[Any] = given.result()
            except BaseException:
                # One that has not reached Spark yet is not cancelled: so it is told again.
                while not given.done():
                    with suppress(Exception):
                        self._context.cancelJobGroup(self._group)
                    wait([given], _PAUSE_SECONDS)
                raise
        if progress is not None:
            progress(done.value if total is None else total, total)
        return results


def _planned_whole(frame: DataFrame) -> DataFrame:
    """Plan a frame as one job, in which a stage that is done again has another number."""
    # An adaptive plan is a job for each exchange. What an executor takes with it after its job has
    # ended is evaluated anew by a later one, in part and as if for the first time.
    settings = frame.sparkSession.conf
    # The setting belongs to the whole session: another thread that plans at the same time would
    # restore the changed value, and leave it.
    with _PLANNING:
        before = settings.get(_ADAPTIVE)
        settings.set(_ADAPTIVE, "false")
        try:
            frame._jdf.queryExecution().executedPlan()  # noqa: SLF001 - plans, and keeps the plan
        finally:
            settings.set(_ADAPTIVE, str(before))
    return frame


def _tries(context: SparkContext) -> int:
    """Return how often a task may run for a fault that may pass: never until Spark gives up."""
    scheduler = context._jsc.sc().taskScheduler()  # noqa: SLF001 - it knows, whatever the master
    return min(_MOST_TRIES, int(scheduler.maxTaskFailures()))


def _sizes(pieces: Sequence[Any], sizes: Sequence[int] | None) -> Sequence[int]:
    return sizes if sizes is not None else [1] * len(pieces)


def _same(part: int) -> int:
    return part


def _next_level(number: int) -> int:
    return number // _MERGED_AT_ONCE


@contextmanager
def cluster_faults(*, of_frame: bool = False) -> Iterator[None]:
    """Say of what Spark could not do that it could not, without its pages of words.

    Of a frame it is told only that it could not be read: why may repeat a cell.
    """
    from py4j.protocol import Py4JError, Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        yield
    except (Py4JError, PySparkException, ConnectionError) as error:
        if not isinstance(error, (Py4JJavaError, PySparkException)):
            raise ClusterFault(
                "The Spark application must stay until its tasks are done. Got no answer from its "
                "Java.",
                hint="nothing was acknowledged; its machine may lack memory "
                "(spark.driver.memory): run the same command again",
            ) from None
        if of_frame:
            raise ClusterFault(
                f"The frame must be one that Spark can evaluate. Got {type(error).__name__}.",
                hint="ask Spark for its rows, such as frame.count(), to see why; nothing was "
                "written",
            ) from None
        raise ClusterFault(
            f"The Spark cluster must finish its tasks. Got {_cause(error)}.",
            hint="nothing was acknowledged; run the same command again when the cluster is healthy",
        ) from None


def _cause(error: Exception) -> str:
    cause = getattr(error, "java_exception", None)
    return first_words(type(error).__name__ if cause is None else str(cause.toString()))
