"""What runs on executors: our functions on pieces, under the secret of their job.

An error is a value there: as an exception Spark would run the task three times more, and write its
words, and what stands near them, to its logs.
"""

from __future__ import annotations

import os
import pickle
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from chaffinch.disk.storage_errors import may_pass
from chaffinch.errors import ChaffinchError, ClusterFault, StorageFault
from chaffinch.sampling import KeyedWords

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark import Accumulator, Broadcast

_PAUSE_SECONDS = 0.2

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


@dataclass(frozen=True)
class Outcome(Generic[_Result]):
    """What came of a task: a result, an error of ours, or where something else went wrong."""

    result: _Result | None = None
    error: ChaffinchError | None = None
    fault: str = ""

    @property
    def failed(self) -> bool:
        """Return whether there is no result."""
        return self.error is not None or bool(self.fault)

    @property
    def value(self) -> _Result:
        """Return the result; raise what went wrong."""
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


def _outcome_of(work: Callable[[], _Result], tries: int = 1) -> Outcome[_Result]:
    try:
        return Outcome(result=work())
    except ChaffinchError as error:
        if isinstance(error, StorageFault) and may_pass(error) and _earlier_attempts() + 1 < tries:
            time.sleep(_PAUSE_SECONDS * 2 ** _earlier_attempts())
            raise _Again from None
        return Outcome(error=error)
    except Exception as error:  # noqa: BLE001 - its words may hold what is private
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{os.path.basename(place.filename)}:{place.lineno}"  # noqa: PTH119
        return Outcome(fault=f"{type(error).__name__} at {where}")


def _earlier_attempts() -> int:
    from pyspark import TaskContext

    task = TaskContext.get()
    return 0 if task is None else task.attemptNumber()


_Numbered = Iterable[tuple[int, int, Any]]
"""Pieces, each after its number and its size."""


@dataclass(frozen=True)
class Mapped(Generic[_Piece, _Result]):
    """Gives what a function makes of each piece."""

    ring: Broadcast[Keyring]
    done: Accumulator[int]
    function: Work[_Piece, _Result]
    numbered: bool = False

    def __call__(self, pieces: _Numbered) -> Iterator[Any]:
        """Yield an outcome for each piece, after its number if that is wanted."""
        for number, size, piece in pieces:
            work = partial(self.function, self.ring.value, piece)
            found = _outcome_of(work, self.ring.value.tries)
            yield (number, found) if self.numbered else found
            self.done.add(size)


@dataclass(frozen=True)
class MappedRows(Generic[_Result]):
    """Gives what a function makes of the rows of a partition."""

    ring: Broadcast[Keyring]
    done: Accumulator[int]
    function: RowWork[_Result]

    def on_rows(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield one row with the outcome, as bytes."""
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
class Merged(Generic[_Result, _Final]):
    """Merges results as they arrive, and finishes the last of them."""

    merge: Callable[[_Result, _Result], _Result]
    finish: Callable[[_Result], _Final] | None

    def __call__(
        self, part: int, arrived: Iterable[tuple[int, Outcome[_Result]]]
    ) -> Iterator[tuple[int, Outcome[Any]]]:
        """Yield the outcome of one part, after its number."""
        yield part, _outcome_of(lambda: self._made(arrived))

    def _made(self, arrived: Iterable[tuple[int, Outcome[_Result]]]) -> Any:
        made: _Result | None = None
        refused: dict[int, Outcome[_Result]] = {}
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
class Scattered(Generic[_Piece]):
    """Sends bytes from each piece to parts."""

    ring: Broadcast[Keyring]
    done: Accumulator[int]
    function: Scatter[_Piece]
    parts: int

    def __call__(self, numbered: _Numbered) -> Iterator[tuple[int, tuple[int, Outcome[bytes]]]]:
        """Yield, for every part, its bytes or that there are none, after both numbers."""
        for number, size, piece in numbered:
            found = _outcome_of(partial(self._blobs, piece), self.ring.value.tries)
            # Of a piece that is refused every part gets to know, and none does its work.
            blobs = {} if found.result is None else found.result
            for part in range(self.parts):
                yield part, (number, Outcome(blobs.get(part), found.error, found.fault))
            self.done.add(size)

    def _blobs(self, piece: _Piece) -> dict[int, bytes]:
        blobs: dict[int, bytes] = {}
        for part, blob in self.function(self.ring.value, piece):
            if part in blobs or part not in range(self.parts):
                raise IndexError
            blobs[part] = blob
        return blobs


@dataclass(frozen=True)
class Gathered(Generic[_Result]):
    """Gives what a function makes of all bytes for a part, when something has come of all pieces.

    Where Spark cannot get the rest of what a task reads, it lets it end there, and gives the task
    up afterwards. By then the function would have written a part without that rest.
    """

    ring: Broadcast[Keyring]
    function: Gather[_Result]
    pieces: int

    def __call__(
        self, part: int, arrived: Iterable[tuple[int, tuple[int, Outcome[bytes]]]]
    ) -> Iterator[Outcome[_Result]]:
        """Yield the outcome of one part."""
        # In which order they arrive is chance; in which order they stand here is not.
        sent = [one for _, one in sorted((sent for _, sent in arrived), key=lambda one: one[0])]
        if len(sent) != self.pieces:
            raise _Again
        ring = self.ring.value
        yield _outcome_of(lambda: self.function(ring, part, _blobs(sent)), ring.tries)


def _blobs(sent: Iterable[Outcome[bytes]]) -> list[bytes]:
    return [one.value for one in sent if one.failed or one.result is not None]
