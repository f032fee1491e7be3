"""The inbox of a first hop: sealed reports on the disk, before anybody is told that they are there.

Uploads are written behind one another into a segment. A segment that is large or old enough is
sealed: it takes another name and never changes again. Nothing finer than the order inside a
segment is kept, and no time. ::

    struct {
        opaque format[8];            // "chafseg1"
        opaque marker[16];           // random, for this segment alone: its name
        uint32 crc;                  // CRC-32 of the fields above
    } SegmentHead;                   // then blocks until the end

    struct {
        opaque marker[16];
        uint32 length;
        uint32 crc;                  // CRC-32 of the uploads
        Upload uploads[length];      // at least one; the length is in bytes
    } Block;

    struct {
        opaque plan_id[32];
        uint32 round;
        uint32 length;
        opaque reports[length];
    } Upload;

A block holds all uploads that waited when it was written: one write and one sync for all of
them. It is written only when the block before it is on the disk. So the marker of a block
proves that everything before it was acknowledged:

* a block that is not whole, with no marker behind it, was not acknowledged. It is what a crash
  leaves, and is cut off;
* a block that is not whole, with a marker behind it, is acknowledged and damaged. Nothing is
  cut. Whoever opens the segment takes all other blocks, and puts the file aside.

What cannot be told apart: damage to the very last block of a segment that a crash left open.
Whoever recovers it is told how many bytes were cut.

Names of segments are random and never used again: ``state`` remembers which of them were
opened, and several collectors write into one folder. Whoever writes a segment holds its lock.
Nobody who sends knows a name: no report can hold what looks like a block.
"""

from __future__ import annotations

import errno
import os
import secrets
import struct
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, NoReturn
from zlib import crc32

from chaffinch.disk.files import sync_folder
from chaffinch.disk.kill_points import kill_point
from chaffinch.disk.locks import LOOK, has_name, holds_new, try_lock
from chaffinch.disk.storage_errors import storage_fault, write_fault
from chaffinch.errors import Reason, StorageFault

LARGEST_SEGMENT = 8 << 20
"""Bytes after which a segment is sealed."""
_FORMAT = b"chafseg1"
_HEAD = struct.Struct(">8s16sI")
_BLOCK = struct.Struct(">16sII")
_UPLOAD = struct.Struct(">32sII")
_MARKER = 16
_OPEN, _SEALED = ".open", ".segment"
_AT_ONCE, _PAGE = 1 << 20, 1 << 12
"""Bytes that are read together, and where the disk does not give all of them."""
_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | getattr(os, "O_BINARY", 0)


class Upload(NamedTuple):
    """Reports that came together, one behind the other."""

    plan_id: str
    round: int
    reports: bytes


class SegmentWriter:
    """Puts uploads on the disk; one thread of one process uses it."""

    def __init__(self, folder: Path, *, largest: int = LARGEST_SEGMENT) -> None:
        self._folder = folder
        self._largest = largest
        self._number: int | None = None
        self._path = folder
        self._marker = b""
        self.length = 0
        """Bytes of the open segment; 0 if none is open."""

    @property
    def name(self) -> str:
        """Return the name of the open segment, under which it will be sealed."""
        return self._path.stem

    def append(self, uploads: Sequence[Upload]) -> None:
        """Write uploads as one block; they are on the disk when this returns.

        A StorageFault of the reason NO_SPACE leaves the segment as it was, and more may be
        tried when there is space. After any other nobody knows what is on the disk: the process
        must end, and the next one recovers what is there.
        """
        content = b"".join(
            part
            for plan_id, number, reports in uploads
            for part in (_UPLOAD.pack(bytes.fromhex(plan_id), number, len(reports)), reports)
        )
        if self._number is None:
            self._create()
        number = self._number
        assert number is not None  # noqa: S101 - for the type checker
        # The marker of this block proves that the block before it was acknowledged: so the next
        # block is never written before this one is synced, and both are never one write.
        head = _BLOCK.pack(self._marker, len(content), crc32(content))
        self._write(number, head, content)
        kill_point("inbox.written")
        try:
            # Data and length are enough: no time of the file is needed after a crash.
            os.fdatasync(number)
        except OSError as error:
            self._fail(error)
        kill_point("inbox.synced")
        self.length += len(head) + len(content)
        if self.length >= self._largest:
            self.seal()

    def seal(self) -> Path | None:
        """Give the open segment its last name and return it; None if there is nothing in one."""
        if self._number is None:
            return None
        # Every block is synced, so only the name changes. A crash before the sync of the folder may
        # bring the old name back: ``recover`` seals the segment then.
        kill_point("inbox.sealing")
        path = self._path.with_suffix(_SEALED) if self.length > _HEAD.size else None
        try:
            if path is None:
                self._path.unlink()  # The disk was full when its first block came.
            else:
                self._path.rename(path)
            kill_point("inbox.sealed")
            sync_folder(self._folder)
        except OSError as error:
            self._fail(error)
        os.close(self._number)
        self._number, self.length = None, 0
        return path

    def _create(self) -> None:
        """Open a new segment; its name is on the disk before anything is acknowledged in it."""
        try:
            self._path, number = _new_file(self._folder)
        except OSError as error:
            raise write_fault(self._folder.name, error) from None
        marker = bytes.fromhex(self.name)
        head = _FORMAT + marker
        self.length = 0
        try:
            self._write(number, head, crc32(head).to_bytes(4, "big"))
        except BaseException:
            self._path.unlink()
            os.close(number)
            raise
        try:
            # The head and the name come first: a block is acknowledged when it is synced, and a
            # power cut must not leave it in a file without a name.
            os.fsync(number)
            sync_folder(self._folder)
        except OSError as error:
            self._fail(error)
        self._number, self._marker, self.length = number, marker, _HEAD.size
        kill_point("inbox.created")

    def _write(self, number: int, *parts: bytes) -> None:
        """Write all of it behind the last good byte, or leave the file as it was."""
        waiting = [memoryview(part) for part in parts]
        try:
            while waiting:
                # A write may be cut short: what is left of it goes behind.
                written = os.writev(number, waiting)
                while waiting and written >= len(waiting[0]):
                    written -= len(waiting.pop(0))
                if written:
                    waiting[0] = waiting[0][written:]
        except OSError as error:
            # What was written of the block goes again. Otherwise the next block would stand behind
            # a torn one, and its marker would say that the torn one was acknowledged.
            try:
                os.ftruncate(number, self.length)
            except OSError as second:
                self._fail(second)
            raise write_fault(self._path.name, error) from None

    def _fail(self, error: OSError) -> NoReturn:
        # After a failed sync the system may have dropped the pages: another sync could succeed
        # without them. So nobody tries again, and the process ends.
        raise write_fault(self._path.name, error, Reason.UNCERTAIN) from None


def _new_file(folder: Path) -> tuple[Path, int]:
    for _ in range(100):
        path = folder / f"{secrets.token_hex(_MARKER)}{_OPEN}"
        number = os.open(path, _NEW, 0o600)
        if holds_new(number, path):
            return path, number
        os.close(number)  # Somebody took it for what a crash has left.
    raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))


# ----------------------------------------------------------------------------
# Reading, and what a crash has left.


def sealed_segments(folder: Path) -> list[Path]:
    """Return all segments that never change again."""
    return sorted(folder.glob(f"*{_SEALED}"))


def unopened_segments(folder: Path) -> int:
    """Return how many segments nobody has opened; one that is still written to is one of them."""
    return sum(1 for path in folder.glob("*") if path.suffix in (_OPEN, _SEALED))


def read_segment(path: Path) -> list[Upload]:
    """Return the uploads of a sealed segment; StorageFault if it is not whole."""
    content = _read(path)
    ends = list(_whole_blocks(content))
    if not ends or ends[-1] != len(content):
        raise _damaged(path)
    uploads: list[Upload] = []
    for start, end in zip([_HEAD.size, *ends], ends, strict=False):
        found = _uploads(content[start + _BLOCK.size : end])
        if found is None:
            raise _damaged(path)
        uploads.extend(found)
    return uploads


class Salvage(NamedTuple):
    """What is left of a damaged segment."""

    uploads: list[Upload]
    """Those of all blocks that are whole."""
    lost: list[Upload]
    """Those of the others, as far as their heads can be read."""


def salvage(path: Path) -> Salvage:
    """Return what is left of a segment that is not whole: nothing if its owner has removed it."""
    try:
        content = _read(path)
    except StorageFault as fault:
        if fault.details.get("errno") != errno.ENOENT:
            raise
        content = b""
    marker = _marker_of(path, content)
    found, place = Salvage([], []), _HEAD.size
    while marker and place < len(content):
        end = _block_end(content, place, marker)
        into = found.lost if end is None else found.uploads
        if end is None:
            # The next marker is where the next block begins, however long this one says it is.
            end = content.find(marker, place + 1)
            end = len(content) if end < 0 else end
        into.extend(_uploads(content[place + _BLOCK.size : end]) or ())
        place = end
    return found


def _marker_of(path: Path, content: bytes) -> bytes:
    """Return what all blocks start with; where the head of the file is damaged, its name says.

    The head and the start of the first block are on one sector of the disk. If neither it nor the
    name is there any more: no bytes. Segments of a version before have other names: of them a first
    block says that is whole, at a place where no stranger writes.
    """
    if _has_head(content):
        return content[len(_FORMAT) : len(_FORMAT) + _MARKER]
    first = content[_HEAD.size : _HEAD.size + _MARKER]
    if _block_end(content, _HEAD.size, first) is not None:
        return first
    with suppress(ValueError):
        return bytes.fromhex(path.name.partition(".")[0])
    return b""


def recover(folder: Path) -> int:
    """Seal the segments that dead collectors left open; return how many bytes were cut off.

    These bytes were acknowledged to nobody. A segment in which acknowledged bytes are damaged is
    sealed as it is: whoever opens it takes what is whole, and puts it aside.
    """
    cut = 0
    for path in sorted(folder.glob(f"*{_OPEN}")):
        with suppress(FileNotFoundError):
            number = os.open(path, LOOK | os.O_RDWR)
            try:
                # Locked: its writer lives. Without its name: another process has recovered it.
                if try_lock(number) is not False and has_name(number, path):
                    cut += _recover_one(path, number)
            except OSError as error:
                raise storage_fault(path.name, error, verb="write") from None
            finally:
                os.close(number)
    sync_folder(folder)
    return cut


def _recover_one(path: Path, number: int) -> int:
    try:
        content = path.read_bytes()
    except OSError as error:
        if error.errno != errno.EIO:
            raise
        path.rename(path.with_suffix(_SEALED))  # Nobody knows what was acknowledged.
        return 0
    ends = [_HEAD.size, *_whole_blocks(content)]
    end = ends[-1]
    # Nothing is acknowledged before the head is on the disk.
    if not _has_head(content) and len(content) <= _HEAD.size:
        path.unlink()
        return len(content)
    marker = content[len(_FORMAT) : len(_FORMAT) + _MARKER]
    # A marker behind the last whole block: what lies between was acknowledged, and is damaged.
    if not _has_head(content) or content.find(marker, end + 1) >= 0:
        path.rename(path.with_suffix(_SEALED))
        return 0
    # No whole block: nothing in this segment was acknowledged.
    if len(ends) == 1:
        path.unlink()
    else:
        # On the disk before the file counts as sealed: whoever reads a sealed segment takes bytes
        # behind the last whole block for damage.
        os.ftruncate(number, end)
        os.fsync(number)
        path.rename(path.with_suffix(_SEALED))
    return len(content) - end


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return b"".join(_pieces(file.fileno()))
    except OSError as error:
        raise storage_fault(path.name, error, verb="read") from None


def _pieces(number: int) -> Iterator[bytes]:
    place, length, size = 0, os.fstat(number).st_size, _AT_ONCE
    while place < length:
        try:
            piece = os.pread(number, min(size, length - place), place)
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            if size > _PAGE:
                size = _PAGE  # Somewhere in it: page by page, to lose no more than one.
                continue
            # Zeros keep all that follows in its place; no block with them in it has its CRC.
            piece = bytes(min(_PAGE, length - place))
        if not piece:
            return  # It is shorter by now.
        yield piece
        place += len(piece)
        size = _AT_ONCE


def _has_head(content: bytes) -> bool:
    head = content[: _HEAD.size]
    return (
        len(head) == _HEAD.size
        and head.startswith(_FORMAT)
        and crc32(head[:-4]) == int.from_bytes(head[-4:], "big")
    )


def _whole_blocks(content: bytes) -> Iterator[int]:
    if not _has_head(content):
        return
    marker = content[len(_FORMAT) : len(_FORMAT) + _MARKER]
    place = _HEAD.size
    while (end := _block_end(content, place, marker)) is not None:
        yield end
        place = end


def _block_end(content: bytes, place: int, marker: bytes) -> int | None:
    """Return where the block at a place ends; None if none is there, or it is not whole."""
    start = place + _BLOCK.size
    if start > len(content):
        return None
    found, length, crc = _BLOCK.unpack_from(content, place)
    end = start + length
    # Zeros are the CRC of nothing: an empty block is none.
    whole = length > 0 and end <= len(content) and crc32(content[start:end]) == crc
    return end if found == marker and whole else None


def _uploads(block: bytes) -> list[Upload] | None:
    found, place = [], 0
    while place + _UPLOAD.size <= len(block):
        plan_id, number, length = _UPLOAD.unpack_from(block, place)
        start = place + _UPLOAD.size
        place = start + length
        found.append(Upload(plan_id.hex(), number, block[start:place]))
    return found if found and place == len(block) else None


def _damaged(path: Path) -> StorageFault:
    return StorageFault(
        f"The segment {path.name!r} must be whole, as it was acknowledged. Got a damaged one.",
        hint="what is whole in it is taken, and it is kept: restore it from a copy if there is one",
        details={"segment": path.name},
        reason=Reason.DAMAGED,
    )
