"""Which ids were seen at least twice, three times, …: exactly, and in bounded memory.

Digests are gathered, sorted, and thinned to at most as many copies of each as count. What
does not fit is written as a sorted run to a temporary file without a name. At the end the
runs are read back side by side, a narrow range of digests at a time: in a sorted range an id
was seen f times where a digest equals the one f − 1 places on.

Digests are even over the ids, so ranges are alike; one id that comes a hundred million times
is thinned away in every run. Two of n ids share a digest with chance about n²/2⁶⁵ (3·10⁻⁴ for
10⁸), and would be taken for one.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import suppress
from typing import IO, Self

import numpy as np
from numpy.typing import NDArray

from chaffinch.disk.storage_errors import storage_fault
from chaffinch.errors import StorageFault, checks
from chaffinch.reach.publisher.ids import Digests

HELD = 1 << 24
"""Digests in memory (128 MiB)."""
LEAST_HELD = 16
_CELLS = 1 << 12
"""Ranges that a run can be cut into: by the highest twelve bits."""
_EDGES = np.arange(1, _CELLS, dtype=np.uint64) << np.uint64(52)
_PLACE = "temporary file"


class Repeats:
    """Counts digests up to ``most`` times each, holding at most ``held`` of them in memory.

    >>> with Repeats(3) as repeats:
    ...     repeats.add(np.array([5, 7, 5, 5, 7, 9], dtype=np.uint64))
    ...     [(times, set(found.tolist())) for times, found in repeats.seen()]
    [(2, {5, 7}), (3, {5})]
    """

    def __init__(self, most: int, *, held: int = HELD) -> None:
        self._most = checks.whole("number of frequencies", most, least=1)
        self._buffer = np.empty(
            checks.whole("digests in memory", held, least=LEAST_HELD), np.uint64
        )
        self._count = 0
        self._file: IO[bytes] | None = None
        self._runs: list[tuple[int, NDArray[np.int64]]] = []
        """Where each run starts, and where its ranges do within it."""

    def add(self, digests: Digests) -> None:
        """Count each digest once more."""
        while len(digests):
            part = digests[: len(self._buffer) - self._count]
            self._buffer[self._count : self._count + len(part)] = part
            self._count += len(part)
            digests = digests[len(part) :]
            if self._count == len(self._buffer):
                self._thin()
                if self._count > len(self._buffer) // 2:
                    self._spill()

    def seen(self) -> Iterator[tuple[int, Digests]]:
        """Yield times (2 and more) with digests seen at least as often, range by range.

        A digest may come more than once for the same times.
        """
        self._thin()
        for digests in self._ranges():
            for times in range(2, self._most + 1):
                ahead = digests[times - 1 :]
                found = digests[: len(ahead)]
                yield times, found[found == ahead]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            with suppress(OSError):
                self._file.close()

    def _thin(self) -> None:
        """Sort what is in memory and drop the copies that make no difference."""
        kept = thinned(self._buffer[: self._count], self._most)
        self._count = len(kept)
        self._buffer[: self._count] = kept

    def _spill(self) -> None:
        run = self._buffer[: self._count]
        try:
            if self._file is None:
                # Readable by nobody else, and gone with the process.
                self._file = tempfile.TemporaryFile()  # noqa: SIM115
            start = self._file.seek(0, 2)
            self._file.write(run.data.cast("B"))
            self._file.flush()
        except OSError as error:
            raise storage_fault(_PLACE, error, verb="write") from None
        self._runs.append((start, _cuts(run)))
        self._count = 0

    def _ranges(self) -> Iterator[Digests]:
        """Yield all that was kept, sorted, in ranges of about a quarter of the memory."""
        rest = self._buffer[: self._count]
        last = _cuts(rest)
        sizes = np.diff(sum((cuts for _, cuts in self._runs), last))
        room = len(self._buffer) // 4
        low = 0
        while low < _CELLS:
            within = np.searchsorted(np.cumsum(sizes[low:]), room, side="right")
            high = low + max(int(within), 1)
            parts = [self._read(start, cuts[low], cuts[high]) for start, cuts in self._runs]
            parts.append(rest[last[low] : last[high]])
            yield thinned(np.concatenate(parts), self._most)
            low = high

    def _read(self, start: int, low: np.int64, high: np.int64) -> Digests:
        out = np.empty(int(high - low), np.uint64)
        if not len(out) or self._file is None:
            return out
        try:
            self._file.seek(start + 8 * int(low))
            whole = self._file.readinto(out.data.cast("B")) == out.nbytes  # type: ignore[attr-defined]
        except OSError as error:
            raise storage_fault(_PLACE, error, verb="read") from None
        if not whole:
            raise StorageFault(f"The {_PLACE} must be as it was written. Got a shorter one.")
        return out


def thinned(digests: Digests, most: int) -> Digests:
    """Sort digests in place and return them without copies beyond ``most`` of each."""
    digests.sort(kind="stable")  # five times as fast where sorted runs follow one another
    kept = np.ones(len(digests), np.bool_)
    kept[most:] = digests[most:] != digests[:-most]
    return digests if kept.all() else digests[kept]


def _cuts(run: Digests) -> NDArray[np.int64]:
    """Return where each range starts in a sorted run, and where the last one ends."""
    return np.concatenate([[0], np.searchsorted(run, _EDGES), [len(run)]]).astype(np.int64)
