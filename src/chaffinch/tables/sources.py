"""Where a table's bytes come from: a path that can be read again, or a stream that cannot."""

from __future__ import annotations

import gzip
import io
import os
import stat
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

from chaffinch.disk.inputs import is_pattern
from chaffinch.disk.locations import Place
from chaffinch.disk.storage_errors import storage_fault
from chaffinch.errors import InvalidInput, InvalidTable, Reason, Unquoted
from chaffinch.tables.limits import LONGEST_LINE

_HEAD = 1 << 16
_GZIP = b"\x1f\x8b"


@contextmanager
def reading(name: str, kind: str) -> Iterator[None]:
    """Turn what a reader raises into one error that shows the file's name and no content.

    An error with a number is the system's; one without is a format that was not kept.
    """
    import pyarrow as pa

    try:
        yield
    except (OSError, pa.ArrowException, EOFError, UnicodeError, zlib.error, MemoryError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise storage_fault(name, error, verb="read") from None
        raise InvalidTable(
            f"an intact {kind} file",
            f"{name!r}, which is damaged, cut off or of another format",
            hint="write the file again, or name its format",
            reason=Reason.DAMAGED,
        ) from None


@dataclass
class Source:
    """Bytes with a name for messages, and their beginning, which tells the format."""

    name: str
    suffixes: tuple[str, ...]
    path: Place | None = None
    shared: BinaryIO | None = None
    stream: BinaryIO | None = None
    size: int | None = None
    head: bytes = b""
    zipped: bool = False
    packed: Callable[[], int] | None = None
    """Of a zipped source: how many bytes it has, or has given so far."""

    def open(self) -> BinaryIO:
        """Return the bytes from the start, unzipped; a stream gives them only once."""
        if self.path is not None:
            with reading(self.name, "table"):
                file = self.path.open()
                return cast("BinaryIO", _Unzipped(file)) if self.zipped else file
        if self.shared is not None:
            self.shared.seek(0)
            return io.BufferedReader(_Shared(self.shared), 1 << 20)
        if self.stream is None:
            raise InvalidTable(
                "a file to be read twice",
                f"{self.name!r}, a stream that was read already",
                hint="write it to a file first",
            )
        file, self.stream = self.stream, None
        return file

    @property
    def seekable(self) -> bool:
        """Return whether a format may jump about in the bytes."""
        return not self.zipped and (self.path is not None or self.shared is not None)


class _Unzipped(gzip.GzipFile):
    def __init__(self, file: BinaryIO) -> None:
        super().__init__(fileobj=file)
        self._packed = file

    def close(self) -> None:
        super().close()
        self._packed.close()


class _Replay(io.RawIOBase):
    """A stream with what was already taken from it put back at the front."""

    def __init__(self, head: bytes, rest: BinaryIO, *, owned: bool) -> None:
        self._head = memoryview(head)
        self._rest = rest
        self._owned = owned
        self.given = 0

    def close(self) -> None:
        super().close()
        if self._owned:
            self._rest.close()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        taken = bytes(self._head[: len(buffer)]) or self._rest.read(len(buffer)) or b""
        self._head = self._head[len(taken) :]
        buffer[: len(taken)] = taken
        self.given += len(taken)
        return len(taken)


class _Shared(io.RawIOBase):
    """Somebody else's open file: reading it does not close it."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0, /) -> int:
        return self._file.seek(offset, whence)

    def readinto(self, buffer: Any, /) -> int:
        taken = self._file.read(len(buffer))
        buffer[: len(taken)] = taken
        return len(taken)


def from_path(path: Path) -> Source:
    """Return the file at a path; what cannot hold a table is refused here."""
    name = path.name or str(path)
    must_be = "a file"
    with reading(name, "table"):
        try:
            status = path.stat()
        except FileNotFoundError:
            hint = "patterns are for --engine spark" if is_pattern(path) else "check the path"
            raise InvalidTable(must_be, f"no file named {name!r}", hint=hint) from None
    if stat.S_ISDIR(status.st_mode):
        raise InvalidTable(must_be, f"the folder {name!r}", hint="name one file in it")
    if not stat.S_ISREG(status.st_mode):
        with reading(name, "table"):
            return from_stream(path.open("rb"), name=name, owned=True)
    return _from_place(Source(name, tuple(path.suffixes), Place(str(path)), size=status.st_size))


def from_address(address: str) -> Source:
    """Return the file of a store."""
    place = Place.of(address)
    with reading(place.name, "table"):
        try:
            with place.open() as file:
                size = file.seek(0, os.SEEK_END)
        except FileNotFoundError:
            got = f"no file named {place.name!r}"
            raise InvalidTable("a file", got, hint="check the address") from None
    return _from_place(Source(place.name, tuple(Path(place.name).suffixes), place, size=size))


def _from_place(source: Source) -> Source:
    name, size = source.name, source.size
    with source.open() as file, reading(name, "table"):
        source.zipped = file.read(2) == _GZIP
    if source.zipped:
        source.packed = lambda: size or 0
    with source.open() as file, reading(name, "gzip" if source.zipped else "table"):
        source.head = _beginning(file)
    return _not_empty(source)


def from_stream(file: BinaryIO, *, name: str = "", owned: bool = False) -> Source:
    """Return an open binary file as a source; without seeking it can be read only once."""
    name = name or str(getattr(file, "name", "") or "stream")
    base = os.path.basename(name)  # noqa: PTH119 (a name such as "<stdin>" is no path)
    source = Source(base, tuple(Path(base).suffixes))
    with reading(base, "table"):
        if getattr(file, "closed", False):
            raise _not_for_reading("one that is closed")
        if isinstance(file.read(0), str):
            raise _not_for_reading("one of text")
        if not owned and file.seekable():
            file.seek(0)
        start = _beginning(file)
        if start[:2] == _GZIP:
            source.zipped = True
            replay = _Replay(start, file, owned=owned)
            source.packed = lambda: replay.given
            zipped = cast("BinaryIO", io.BufferedReader(replay, 1 << 20))
            file = cast("BinaryIO", gzip.GzipFile(fileobj=zipped))
            start = _beginning(file)
        if not source.zipped and not owned and file.seekable():
            source.shared = file
        else:
            source.stream = _rejoined(start, file, owned=owned or source.zipped)
    source.head = start
    return _not_empty(source)


def _not_for_reading(got: str) -> InvalidInput:
    return InvalidInput(
        "stream of a table", "open, and of bytes", Unquoted(got), hint='open(path, "rb") opens one'
    )


def standard_input() -> Source:
    """Return what is piped into the process."""
    return from_stream(sys.stdin.buffer, name="standard input")


def _beginning(file: BinaryIO) -> bytes:
    """Return the first bytes, and at least one whole line where lines are short enough."""
    head = b""
    while len(head) < _HEAD or (b"\n" not in head and len(head) < LONGEST_LINE):
        more = file.read(_HEAD)
        if not more:
            break
        head += more
    return head


def _rejoined(head: bytes, rest: BinaryIO, *, owned: bool) -> BinaryIO:
    return io.BufferedReader(_Replay(head, rest, owned=owned), 1 << 20)


def _not_empty(source: Source) -> Source:
    if not source.head.strip():
        hint = "check the path" if source.path else "a stream that was read already has no more"
        raise InvalidTable(
            "a file with a table in it", f"{source.name!r}, which is empty", hint=hint
        )
    return source
