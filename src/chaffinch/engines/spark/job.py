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

import os
import pickle
import re
import secrets
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from chaffinch.engines.spark.masters import on_one_machine
from chaffinch.engines.spark.session import first_words
from chaffinch.errors import ChaffinchError, ClusterFault, StorageFault
from chaffinch.parallel import Progress
from chaffinch.sampling import KeyedWords
from chaffinch.sampling.words import SECRET_BYTES
from chaffinch.storage.faults import may_pass

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark import Accumulator, Broadcast, SparkContext
    from pyspark.sql import DataFrame

_PAUSE_SECONDS = 0.2
_NEWS_MILLISECONDS = 60_000
_ADAPTIVE = "spark.sql.adaptive.enabled"
_PLANNING = threading.Lock()
_MERGED_AT_ONCE = 8
_MOST_TRIES = 3
_ON_CORES = re.compile(r"local(?:\[[^],]*(?:,\s*([0-9]+))?\])?")
"""The master on the cores of this machine, which runs a task once unless it says how often."""

_Piece = TypeVar("_Piece")
_Result = TypeVar("_Result")
_Final = TypeVar("_Final")


@dataclass(frozen=True)
class Keyring:
    """What the tasks of one job share and nobody else has; never shown."""

    _secret: bytes = field(repr=False)
    keys: Mapping[str, bytes] = field(repr=False)
    """Keys of the party whose job it is, by what they are for."""
    tries: int = 1
    """How often a task is run at most where a store or a disk is at fault."""

    def words(self, purpose: str, part: int, digest: bytes) -> KeyedWords:
        """Return the words for one piece of work on one input, the same for whoever does it."""
        return KeyedWords(self._secret, purpose.encode(), part.to_bytes(8, "little"), digest)


Work = Callable[[Keyring, _Piece], _Result]
"""What a task does with a piece; it travels to the executors, so it holds nothing private."""
RowWork = Callable[[Keyring, int, "Iterator[pa.RecordBatch]"], _Result]
"""What a task does with the rows of a numbered partition."""
Scatter = Callable[[Keyring, _Piece], Iterable[tuple[int, bytes]]]
"""Gives bytes for some of the parts, once for each."""
Gather = Callable[[Keyring, int, list[bytes]], _Result]
"""What is done with all bytes for one part, in the order of the pieces they come from."""


class Job:
    """Work for a cluster under one secret, which ends with the job.

    What a task refuses with an error of ours is raised here as it is. A lost executor is Spark's
    to replace; what it cannot is a ``ClusterFault``.
    """

    def __init__(self, context: SparkContext, keys: Mapping[str, bytes] | None = None) -> None:
        self._context = context
        ring = Keyring(secrets.token_bytes(SECRET_BYTES), dict(keys or {}), _tries(context))
        with _cluster_faults():
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
        work = _Mapped(self._ring, self._context.accumulator(0), function)
        with _cluster_faults():
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
        work = _MappedRows(self._ring, self._context.accumulator(0), function)
        before = set(self._context.statusTracker().getJobIdsForGroup(self._group))
        with frame_faults(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what Spark thinks of versions of other packages
            found = _planned_whole(frame.mapInArrow(work.on_rows, "outcome binary"))
        rows = self._collected(found, work.done, None, progress)
        outcomes = [pickle.loads(row.outcome) for row in rows]  # noqa: S301 - our own
        return [one.value for one in outcomes], not (rows and self._repeated(before))

    def _repeated(self, before: Container[int]) -> bool:
        """Return whether a stage of a later job of Spark than those had to be done again.

        Spark's own account of it comes late, and may be gone: what is not known was repeated.
        """
        from py4j.protocol import Py4JError

        try:  # all that has happened so far is told before this returns
            self._context._jsc.sc().listenerBus().waitUntilEmpty(_NEWS_MILLISECONDS)  # noqa: SLF001
        except Py4JError:
            return True
        tracker = self._context.statusTracker()
        later = [one for one in tracker.getJobIdsForGroup(self._group) if one not in before]
        jobs = [tracker.getJobInfo(number) for number in later]
        stages = [tracker.getStageInfo(one) for job in jobs if job for one in job.stageIds]
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
        scattered = _Scattered(self._ring, done, scatter, parts)
        gathered = _Gathered(self._ring, gather)
        with _cluster_faults():
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
        with _cluster_faults():
            found = self._numbered(pieces, sizes).mapPartitions(
                _Mapped(self._ring, done, function, numbered=True)
            )
            while True:
                count = -(-count // _MERGED_AT_ONCE)
                last = _Merged(merge, finish if count == 1 else None)
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
        """Return what a job of Spark gives, and tell meanwhile what is done, of how much if known.

        A thread of its own asks Java for it: a Ctrl-C here cuts no answer short, and the job is
        over before anybody clears up behind its tasks.
        """

        def collect() -> Any:
            with _cluster_faults() if sizes is not None else frame_faults():
                self._context.setJobGroup(self._group, "chaffinch", interruptOnCancel=True)
                return found.collect()

        total = None if sizes is None else sum(sizes)
        with ThreadPoolExecutor(1) as thread:
            given = thread.submit(collect)
            try:
                while wait([given], _PAUSE_SECONDS).not_done:
                    if progress is not None:  # a task that runs again counts again
                        progress(done.value if total is None else min(done.value, total), total)
                results: list[Any] = given.result()
            except BaseException:
                with suppress(Exception):
                    self._context.cancelJobGroup(self._group)
                raise
        if progress is not None:
            progress(done.value if total is None else total, total)
        return results


def _planned_whole(frame: DataFrame) -> DataFrame:
    """Plan a frame as one job, in which a stage that is done again has another number.

    An adaptive plan is a job for each exchange. What an executor takes with it after its job has
    ended is evaluated anew by a later one, in part and as if for the first time.
    """
    settings = frame.sparkSession.conf
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
    told = context.getConf().get("spark.task.maxFailures", "4")
    if (master := _ON_CORES.fullmatch(str(context.master))) is not None:
        told = master[1] or "1"
    return min(_MOST_TRIES, int(told))


def _sizes(pieces: Sequence[Any], sizes: Sequence[int] | None) -> Sequence[int]:
    return sizes if sizes is not None else [1] * len(pieces)


def _same(part: int) -> int:
    return part


def _next_level(number: int) -> int:
    return number // _MERGED_AT_ONCE


# ----------------------------------------------------------------------------
# What runs on executors. An error is a value there: as an exception Spark would run the task
# three times more, and write its words, and what stands near them, to its logs.


@dataclass(frozen=True)
class _Outcome(Generic[_Result]):
    """What came of a task: a result, an error of ours, or where something else went wrong."""

    result: _Result | None = None
    error: ChaffinchError | None = None
    fault: str = ""

    @property
    def failed(self) -> bool:
        return self.error is not None or bool(self.fault)

    @property
    def value(self) -> _Result:
        if self.error is not None:
            raise self.error
        if self.fault:
            raise ClusterFault(
                f"The task of a job must end well. Got {self.fault}.",
                hint="nothing was released; check that all machines have the same version of "
                "chaffinch",
            )
        return self.result  # type: ignore[return-value]


class _Again(Exception):
    """Has Spark run a task once more; its words are in Spark's logs, so there are none."""


def _outcome_of(work: Callable[[], _Result], tries: int = 1) -> _Outcome[_Result]:
    try:
        return _Outcome(result=work())
    except ChaffinchError as error:
        if isinstance(error, StorageFault) and may_pass(error) and _run_before() + 1 < tries:
            time.sleep(_PAUSE_SECONDS * 2 ** _run_before())
            raise _Again from None
        return _Outcome(error=error)
    except Exception as error:  # noqa: BLE001 - its words may hold what is private
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{os.path.basename(place.filename)}:{place.lineno}"  # noqa: PTH119
        return _Outcome(fault=f"{type(error).__name__} at {where}")


def _run_before() -> int:
    """Return how often this task was run before, on whatever executor."""
    from pyspark import TaskContext

    task = TaskContext.get()
    return 0 if task is None else task.attemptNumber()


_Numbered = Iterable[tuple[int, int, Any]]
"""Pieces, each after its number and its size."""


@dataclass(frozen=True)
class _Mapped(Generic[_Piece, _Result]):
    ring: Broadcast[Keyring]
    done: Accumulator[int]
    function: Work[_Piece, _Result]
    numbered: bool = False

    def __call__(self, pieces: _Numbered) -> Iterator[Any]:
        for number, size, piece in pieces:
            work = partial(self.function, self.ring.value, piece)
            found = _outcome_of(work, self.ring.value.tries)
            yield (number, found) if self.numbered else found
            self.done.add(size)


@dataclass(frozen=True)
class _MappedRows(Generic[_Result]):
    ring: Broadcast[Keyring]
    done: Accumulator[int]
    function: RowWork[_Result]

    def on_rows(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa
        from pyspark import TaskContext

        task = TaskContext.get()
        assert task is not None  # noqa: S101 - this is one
        number, ring = task.partitionId(), self.ring.value
        found = _outcome_of(lambda: self.function(ring, number, self._told(batches)), ring.tries)
        yield pa.record_batch([pa.array([pickle.dumps(found)], pa.binary())], ["outcome"])

    def _told(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch
            self.done.add(batch.num_rows)


@dataclass(frozen=True)
class _Merged(Generic[_Result, _Final]):
    merge: Callable[[_Result, _Result], _Result]
    finish: Callable[[_Result], _Final] | None

    def __call__(
        self, part: int, arrived: Iterable[tuple[int, _Outcome[_Result]]]
    ) -> Iterator[tuple[int, _Outcome[Any]]]:
        yield part, _outcome_of(lambda: self._made(arrived))

    def _made(self, arrived: Iterable[tuple[int, _Outcome[_Result]]]) -> Any:
        made: _Result | None = None
        refused: dict[int, _Outcome[_Result]] = {}
        for number, found in arrived:
            if found.failed:
                refused[number] = found
            elif not refused:
                made = found.value if made is None else self.merge(made, found.value)
        if refused:  # of several, the first in the order of the pieces is told
            return refused[min(refused)].value
        assert made is not None  # noqa: S101 - every part has something to merge
        return made if self.finish is None else self.finish(made)


@dataclass(frozen=True)
class _Scattered(Generic[_Piece]):
    ring: Broadcast[Keyring]
    done: Accumulator[int]
    function: Scatter[_Piece]
    parts: int

    def __call__(self, numbered: _Numbered) -> Iterator[tuple[int, tuple[int, _Outcome[bytes]]]]:
        for number, size, piece in numbered:
            found = _outcome_of(partial(self._blobs, piece), self.ring.value.tries)
            blobs = {part: _Outcome(blob) for part, blob in (found.result or {}).items()}
            if found.result is None:  # every part gets to know, and none does its work
                refused = _Outcome[bytes](error=found.error, fault=found.fault)
                blobs = dict.fromkeys(range(self.parts), refused)
            yield from ((part, (number, blob)) for part, blob in blobs.items())
            self.done.add(size)

    def _blobs(self, piece: _Piece) -> dict[int, bytes]:
        blobs: dict[int, bytes] = {}
        for part, blob in self.function(self.ring.value, piece):
            if part in blobs or part not in range(self.parts):
                raise IndexError
            blobs[part] = blob
        return blobs


@dataclass(frozen=True)
class _Gathered(Generic[_Result]):
    ring: Broadcast[Keyring]
    function: Gather[_Result]

    def __call__(
        self, part: int, arrived: Iterable[tuple[int, tuple[int, _Outcome[bytes]]]]
    ) -> Iterator[_Outcome[_Result]]:
        # In which order they arrive is chance; in which order they stand here is not.
        blobs = [one for _, one in sorted((sent for _, sent in arrived), key=lambda one: one[0])]
        ring = self.ring.value
        yield _outcome_of(
            lambda: self.function(ring, part, [blob.value for blob in blobs]), ring.tries
        )


@contextmanager
def _cluster_faults() -> Iterator[None]:
    """Say of what Spark could not do that it could not, without its pages of words."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (Py4JError, PySparkException) as error:
        raise ClusterFault(
            f"The Spark cluster must finish its tasks. Got {_cause(error)}.",
            hint="nothing was acknowledged; run the same command again when the cluster is well",
        ) from None


@contextmanager
def frame_faults() -> Iterator[None]:
    """Say of a frame that it could not be read: Spark's words on why may repeat a cell."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (Py4JError, PySparkException) as error:
        raise ClusterFault(
            f"The frame must be one that Spark can evaluate. Got {type(error).__name__}.",
            hint="ask Spark for its rows, such as frame.count(), to see why; nothing was written",
        ) from None


def _cause(error: Exception) -> str:
    """Return the kind of a failure in Spark's words, its first line at most."""
    cause = getattr(error, "java_exception", None)
    return first_words(type(error).__name__ if cause is None else str(cause.toString()))
