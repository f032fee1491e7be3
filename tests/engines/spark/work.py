"""What tasks of these tests do. Every worker loads this file, so it needs little else."""

from __future__ import annotations

import hashlib
import os
import random
import signal
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from chaffinch.disk.locations import Place
from chaffinch.disk.storage_errors import storage_fault
from chaffinch.engines.spark import shuffling
from chaffinch.engines.spark.tasks import Keyring
from chaffinch.errors import InvalidFile, Reason
from chaffinch.sampling.words import SecureWords

WORKERS = 2
PAUSE_SECONDS = 0.02
PATIENCE_SECONDS = 60.0
true_scatter = shuffling._scatter  # noqa: SLF001 - to put another one in its place


# ------------------------------------------------------------------------------ waiting


@dataclass(frozen=True)
class Held:
    """Does what a function does, but waits first where it is called for the number-th time.

    Who waits is told by a file. Calls after that go through: a task that is run again, too.
    """

    function: Callable[..., Any]
    gate: Path
    number: int

    def __call__(self, *arguments: Any) -> Any:
        calls = len(list(self.gate.glob("call-*")))
        (self.gate / f"call-{calls}-{os.getpid()}-{time.monotonic_ns()}").touch()
        if calls >= self.number and self._first():
            self._wait()
        return self.function(*arguments)

    def _first(self) -> bool:
        try:
            os.close(os.open(self.gate / "held", os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return False
        (self.gate / "waiting").write_text(str(executor_of_this_task()), encoding="utf-8")
        return True

    def _wait(self) -> None:
        end = time.monotonic() + PATIENCE_SECONDS
        while not (self.gate / "open").exists() and time.monotonic() < end:
            time.sleep(PAUSE_SECONDS)


def executor_of_this_task() -> int:
    """Return the Java process above this Python, which the task's executor is."""
    number = os.getpid()
    while number > 1:
        status = Path(f"/proc/{number}/status").read_text(encoding="utf-8")
        number = int(next(line.split()[1] for line in status.splitlines() if "PPid" in line))
        if b"CoarseGrainedExecutorBackend" in Path(f"/proc/{number}/cmdline").read_bytes():
            return number
    raise AssertionError


def meet(folder: Path, count: int) -> None:
    """Wait, in a task, until so many executors have come here, or long enough."""
    (folder / f"executor-{executor_of_this_task()}").touch()
    end = time.monotonic() + PATIENCE_SECONDS
    while len(list(folder.glob("executor-*"))) < count and time.monotonic() < end:
        time.sleep(PAUSE_SECONDS)


@dataclass(frozen=True)
class Spread:
    """Scatters only when both executors are at it, so that each of them has something to lose."""

    folder: Path

    def __call__(self, *arguments: Any) -> Iterator[tuple[int, bytes]]:
        (self.folder / f"scattered-{os.getpid()}-{time.monotonic_ns()}").touch()
        meet(self.folder, WORKERS)
        return true_scatter(*arguments)


# ------------------------------------------------------------------------------ jobs


def squared(_ring: Keyring, piece: int) -> int:
    return piece * piece


def refuse_the_third(_ring: Keyring, piece: int) -> int:
    if piece == 8:
        raise InvalidFile("file 'a'", "whole", ["half of one"], hint="again", reason=Reason.DAMAGED)
    return piece


def stumble(_ring: Keyring, piece: int) -> int:
    raise ValueError(f"private {piece}")


def sent(_ring: Keyring, piece: int) -> list[tuple[int, bytes]]:
    return [(piece % 3, bytes([piece])), ((piece + 1) % 3, bytes([piece, piece]))]


def joined(_ring: Keyring, part: int, blobs: list[bytes]) -> tuple[int, bytes]:
    return part, b"|".join(blobs)


def draw(ring: Keyring, piece: int) -> bytes:
    return ring.words("draw", piece, hashlib.sha256(b"input").digest()).take(4).tobytes()


def key_of(ring: Keyring, _piece: int) -> bytes:
    return ring.keys["campaign"]


def draw_anew(_ring: Keyring, _piece: int) -> bytes:
    """Do what a task must not: draw other words when it is run again."""
    return os.urandom(32)


@dataclass(frozen=True)
class Noted:
    """Notes what was drawn, every time that it is."""

    function: Callable[[Keyring, int], bytes]
    folder: Path

    def __call__(self, ring: Keyring, piece: int) -> bytes:
        drawn = self.function(ring, piece)
        with (self.folder / f"{self.function.__name__}-{piece}").open("a") as file:
            file.write(f"{drawn.hex()}\n")
        return drawn


def write_to_log(secret: bytes) -> None:
    os.write(2, secret.hex().encode())


@dataclass(frozen=True)
class Stumbling:
    """A store that fails so many times, and then does its work."""

    folder: Path
    times: int
    number: int

    def __call__(self, _ring: Keyring, piece: int) -> int:
        place = Place.of(self.folder / f"part-{piece}")
        with (self.folder / f"tries-{piece}").open("a") as file:
            file.write("x")
        if piece == 1 and len((self.folder / "tries-1").read_text()) <= self.times:
            raise storage_fault(place.name, OSError(self.number, ""), verb="write")
        with place.writing() as written:
            written.write(b"content")
        return piece


def add(shared: int, item: int) -> int:
    return shared + item


def hang(shared: float, item: int) -> int:
    time.sleep(shared if item == 3 else 0)
    return item


def sent_everywhere(_ring: Keyring, piece: int) -> list[tuple[int, bytes]]:
    return [(part, bytes([piece])) for part in range(6)]


@dataclass(frozen=True)
class Losing:
    """Notes how much has come for a part; then the disks lose what has not been fetched yet."""

    disks: Path
    notes: Path

    def __call__(self, _ring: Keyring, part: int, blobs: list[bytes]) -> int:
        (self.notes / f"{part}-{len(blobs)}").touch()
        try:
            os.close(os.open(self.notes / "lost", os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return len(blobs)
        for path in self.disks.rglob("shuffle_*.data"):
            path.unlink(missing_ok=True)
        return len(blobs)


# ------------------------------------------------------------------------------ frames


@dataclass(frozen=True)
class Fresh:
    """Gives other rows every time that it is asked, and waits once in the middle."""

    gate: Path

    def rows(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            answers = [f"v{random.SystemRandom().randrange(8)}" for _ in range(batch.num_rows)]
            names = [uuid.uuid4().hex for _ in answers]
            yield pa.record_batch([answers, names], ["answer", "name"])
        Held(lambda: None, self.gate, 1)()


@dataclass(frozen=True)
class Waiting:
    """Hands rows on, and waits once with them."""

    gate: Path

    def rows(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches
        Held(lambda: None, self.gate, 1)()


def nothing(_ring: Keyring, _number: int, batches: Iterator[pa.RecordBatch]) -> int:
    return sum(batch.num_rows for batch in batches)


# ------------------------------------------------------------------------------ words drawn again


class DrawnAnew(Keyring):
    """The words that a task must not draw: other ones every time."""

    def words(self, *_bound: Any) -> Any:
        return SecureWords()


@dataclass(frozen=True)
class CutOnce:
    """Does a task's work and notes what it has made; the first time its process ends then."""

    function: Callable[..., Any]
    folder: Path
    made: Path
    planted: bool

    def __call__(self, ring: Keyring, *given: Any) -> Any:
        found = self.function(DrawnAnew(bytes(32), ring.keys) if self.planted else ring, *given)
        found = list(found) if isinstance(found, (map, zip)) or hasattr(found, "send") else found
        number = given[0] if isinstance(given[0], int) else given[0][0]
        with (self.folder / f"piece-{number}").open("a") as notes:
            notes.write(f"{self._digest(found)}\n")
        try:
            os.close(os.open(self.folder / "cut", os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return found
        os.kill(os.getpid(), signal.SIGKILL)
        return None

    def _digest(self, found: Any) -> str:
        """Return a digest of the files that were written, or of what is sent on."""
        if isinstance(found, list):
            return hashlib.sha256(repr(found).encode()).hexdigest()
        if hasattr(found, "rows"):
            return hashlib.sha256(b"".join(row.tobytes() for row in found.rows)).hexdigest()
        parts = getattr(found, "parts", (found,))
        content = b"".join((self.made / part.name).read_bytes() for part in parts)
        return hashlib.sha256(content).hexdigest()
