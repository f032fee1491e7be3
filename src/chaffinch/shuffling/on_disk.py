"""A uniform order of more messages than fit into memory.

Every message goes to one of 256 buckets, drawn uniformly and independently of everything
else. Each bucket is then put into a uniform order, and the buckets follow one another. All
orders come out equally likely. Give every message a real number drawn uniformly from
[0, 1): the order of these keys is uniform. The bucket is the first eight bits of the key, so
the order by keys is bucket after bucket, and inside a bucket it is the order of the other
bits, which are independent of the bucket and of one another: a uniform order again. Where a
bucket is still too large, it is split by the next eight bits, by the same reasoning.

The buckets must be written in their own order, whichever is ready first: how long a bucket
takes depends on what is in it.
"""

from __future__ import annotations

import errno
import tempfile
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Self

import numpy as np
from numpy.typing import NDArray

from chaffinch.disk.storage_errors import storage_fault
from chaffinch.sampling import Words, permutation
from chaffinch.tables.parallel import mapped

BUCKETS = 256
BLOCK = 1 << 20
"""Messages that are sent to their buckets together; fewer where they are long."""
_BYTES_PER_ORDER = 24
"""What putting one message into order takes: keys, places, sorted keys; the message twice more."""
_WORD = 8
_TITLE = "temporary file of the shuffle"

_Compact = NDArray[Any]
"""Messages of one length: codes in the smallest type that holds all of the plan, or sealed."""


@dataclass(frozen=True, slots=True, eq=False)
class _Run:
    """Messages sorted by bucket: those of bucket b lie from ``bounds[b]`` to ``bounds[b + 1]``."""

    read: Callable[[int, int], _Compact]
    bounds: NDArray[np.int64]

    def bucket(self, number: int) -> _Compact:
        return self.read(int(self.bounds[number]), int(self.bounds[number + 1]))


class Buckets:
    """Messages on their way to a uniform order, in memory and then in a file without a name.

    The file lies in ``folder``. Nobody else can open it, and the system removes it however
    this process ends. At most ``memory`` bytes of messages are held, and about as many again
    are worked on.
    """

    def __init__(
        self, kind: np.dtype[Any], words: Words, *, folder: Path, memory: int, workers: int
    ) -> None:
        self.kind = kind
        self.sizes = np.zeros(BUCKETS, np.int64)
        self._words, self._folder = words, folder
        self._memory, self._workers = memory, workers
        width = max(_WORD, kind.itemsize)
        # Every worker puts a bucket into order at the same time, each in its part of the memory.
        self._largest = max(1, memory // ((_BYTES_PER_ORDER + 2 * width) * workers))
        self._held: list[_Run] = []
        self._bytes = 0
        self._spilled: list[_Run] = []
        self._file: IO[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._held.clear()
        if self._file is not None:
            # Closing writes the rest once more where the disk was full; it is not needed.
            with suppress(OSError):
                self._file.close()

    def __len__(self) -> int:
        return int(self.sizes.sum())

    def fill(self, batches: Iterable[_Compact], tell: Callable[[int], None] | None = None) -> None:
        """Send messages to their buckets; ``tell`` is told how many are there so far."""
        with mapped(self._scattered, self._blocks(batches), self._workers) as runs:
            for codes, bounds in runs:
                self.sizes += np.diff(bounds)
                self._held.append(_Run(_slices(codes), bounds))
                self._bytes += codes.nbytes
                if self._bytes > self._memory:
                    self._spill()
                if tell is not None:
                    tell(len(self))
        # The rest follows into the file: all memory is free then to put buckets into order.
        if self._spilled:
            self._spill()

    def ordered(self) -> Generator[_Compact, None, None]:
        """Yield all messages, piece by piece, in a uniform order."""

        def order(codes: _Compact) -> _Compact:
            return codes[permutation(self._words, len(codes))]

        # ``mapped`` takes the buckets in this thread: no two reads share the place in the file.
        with mapped(order, self._fitting(), self._workers) as pieces:
            yield from pieces

    def _fitting(self) -> Iterator[_Compact]:
        """Yield the buckets one after the other, those that are too large as finer ones."""
        for number in range(BUCKETS):
            parts = (run.bucket(number) for run in (*self._spilled, *self._held))
            if self.sizes[number] <= self._largest:
                # The empty array is for a bucket that nothing was sent to.
                yield np.concatenate([np.empty(0, self.kind), *parts])
                continue
            with Buckets(
                self.kind,
                self._words,
                folder=self._folder,
                memory=self._memory,
                workers=self._workers,
            ) as finer:
                finer.fill(parts)
                yield from finer._fitting()

    def _blocks(self, batches: Iterable[_Compact]) -> Iterator[_Compact]:
        waiting: list[_Compact] = []
        have, most = 0, BLOCK * _WORD // max(_WORD, self.kind.itemsize)
        for batch in batches:
            waiting.append(batch.astype(self.kind, copy=False))
            have += len(batch)
            if have >= most:
                yield np.concatenate(waiting)
                waiting, have = [], 0
        if waiting:
            yield np.concatenate(waiting)

    def _scattered(self, codes: _Compact) -> tuple[_Compact, NDArray[np.int64]]:
        """Return messages sorted by buckets that are drawn here, and where each bucket starts."""
        # A byte for each message, eight to a word.
        # Independent and uniform buckets, each put into a uniform order later: behind one another
        # they are a uniform order of all messages.
        drawn = self._words.take(-(-len(codes) // 8)).view(np.uint8)[: len(codes)]
        # Takes no bit away from 256 buckets. With any other power of 2 the rest is still uniform.
        drawn &= np.uint8(BUCKETS - 1)
        order = np.argsort(drawn, kind="stable")  # By counting, for numbers this small.
        bounds = np.zeros(BUCKETS + 1, np.int64)
        np.cumsum(np.bincount(drawn, minlength=BUCKETS), out=bounds[1:])
        return codes[order], bounds

    def _spill(self) -> None:
        sizes = sum((np.diff(run.bounds) for run in self._held), np.zeros(BUCKETS, np.int64))
        bounds = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115
            start = self._file.seek(0, 2)
            # Bucket by bucket through all runs: what one read fetches lies together in the file.
            for number in range(BUCKETS):
                for run in self._held:
                    _append(self._file, run.bucket(number))
            self._file.flush()
        except OSError as error:
            raise storage_fault(_TITLE, error, verb="write") from None
        self._spilled.append(_Run(self._reader(start), bounds))
        self._held.clear()
        self._bytes = 0

    def _reader(self, start: int) -> Callable[[int, int], _Compact]:
        def read(first: int, last: int) -> _Compact:
            assert self._file is not None  # noqa: S101 - there is a run in it
            width = self.kind.itemsize
            try:
                self._file.seek(start + first * width)
                found = self._file.read((last - first) * width)
            except OSError as error:
                raise storage_fault(_TITLE, error, verb="read") from None
            # A short read must never become an order of fewer messages.
            if len(found) != (last - first) * width:
                raise storage_fault(_TITLE, OSError(errno.EIO, ""), verb="read")
            return np.frombuffer(found, self.kind)

        return read


def _slices(codes: _Compact) -> Callable[[int, int], _Compact]:
    return lambda first, last: codes[first:last]


def _append(file: IO[bytes], codes: _Compact) -> None:
    file.write(codes.view(np.uint8).data)
