"""What a message of an Arrow stream says of its parts, read before any part is unpacked.

The header of a message is a flatbuffer. Whatever is not as it must be raises ``EOFError``, and so
does what was written before Arrow 1.0: its messages may say elsewhere that they are compressed.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

_DICTIONARY, _RECORDS = 2, 3
"""Kinds of messages that have a body."""
_VERSION_5 = 4
"""How a message says that it is of the fifth version of the format, the first stable one."""
_OLD_COMPRESSION = b"ARROW:experimental_compression"
_AS_IT_IS = -1
_LENGTH = struct.Struct("<q")
_MARK = b"\xff" * 4
_LARGEST_HEADER = 1 << 24
"""A batch of 10,000 columns has one of less than a MiB, and their names and types some more."""


class OldFormat(EOFError):
    """A message of a version that may be read in another way than this one."""


@dataclass(frozen=True)
class MessageHead:
    """What stands before the body of a message: how large that is, and what it holds."""

    content: bytes
    """All of it, as it was read."""
    body: int = 0
    rows: int = 0
    dictionary: int | None = None
    """Which dictionary it holds, if it holds one."""
    added: bool = False
    """Whether it adds to the dictionary that was there before."""
    compressed: bool = False
    buffers: tuple[tuple[int, int], ...] = ()
    """Where in a compressed body each buffer starts, and how long it is."""


def read_head(file: BinaryIO) -> MessageHead:
    """Read what stands before the body of the next message; the end of a stream has no body.

    A message starts with four bytes of ones, which old writers left out, and the length of its
    header; a length of zero ends the stream, and so does the end of the file.
    """
    start = file.read(4)
    if start == _MARK:
        start += file.read(4)
    size = int.from_bytes(start[-4:], "little")
    if not start or not size:
        return MessageHead(start)
    if size > _LARGEST_HEADER:
        raise EOFError
    header = file.read(size)
    if len(header) != size:
        raise EOFError
    return parse_head(header, start)


def parse_head(header: bytes, start: bytes = b"") -> MessageHead:
    """Return what a header says, and all bytes of a message from its start."""
    try:
        return _parse(start + header, _Flatbuffer(header))
    except (struct.error, IndexError):
        raise EOFError from None


def _parse(content: bytes, buffer: _Flatbuffer) -> MessageHead:
    """Return what the head of a message says; a field that is left out has its default, 0."""
    root = buffer.number("I", 0)
    version = buffer.number("h", place) if (place := buffer.field(root, 0)) else 0
    if version != _VERSION_5 or _OLD_COMPRESSION in content:
        raise OldFormat
    body = buffer.number("q", place) if (place := buffer.field(root, 3)) else 0
    kind = buffer.content[place] if (place := buffer.field(root, 1)) else 0
    if body < 0:
        raise EOFError
    if kind not in (_DICTIONARY, _RECORDS):
        return MessageHead(content, body)
    batch = buffer.follow(buffer.field(root, 2))
    dictionary, added = None, False
    if kind == _DICTIONARY:
        place, delta = buffer.field(batch, 0), buffer.field(batch, 2)
        dictionary = buffer.number("q", place) if place else 0
        added = bool(delta and buffer.content[delta])
        batch = buffer.follow(buffer.field(batch, 1))
    rows = buffer.number("q", place) if (place := buffer.field(batch, 0)) else 0
    if rows < 0:
        raise EOFError
    compressed = bool(buffer.field(batch, 3))
    buffers = tuple(_buffers(buffer, batch)) if compressed else ()
    return MessageHead(content, body, rows, dictionary, added, compressed, buffers)


def _buffers(buffer: _Flatbuffer, batch: int) -> Iterator[tuple[int, int]]:
    places = buffer.follow(buffer.field(batch, 2))
    for number in range(buffer.number("I", places)):
        place = places + 4 + 16 * number
        yield buffer.number("q", place), buffer.number("q", place + 8)


def unpacked_size(head: MessageHead, body: bytes) -> int:
    """Return how many bytes the buffers of a compressed body have when they are unpacked.

    Each starts with its unpacked length, or with -1 if it is as it is.
    """
    total = 0
    for start, length in head.buffers:
        if not 0 <= start <= start + length <= len(body) or 0 < length < _LENGTH.size:
            raise EOFError
        unpacked = _LENGTH.unpack_from(body, start)[0] if length else 0
        if unpacked < _AS_IT_IS:
            raise EOFError
        total += length if unpacked == _AS_IT_IS else unpacked
    return total


@dataclass(frozen=True)
class _Flatbuffer:
    """Numbers in a flatbuffer: a table starts with the way back to where its fields are."""

    content: bytes

    def number(self, kind: str, place: int) -> int:
        if place < 0:
            raise EOFError  # Python would count it from the end
        value: int = struct.unpack_from(f"<{kind}", self.content, place)[0]
        return value

    def field(self, table: int, number: int) -> int:
        """Return where a field of a table is, or 0 if it is left out."""
        fields = table - self.number("i", table)
        if 4 + 2 * number >= self.number("H", fields):
            return 0
        offset = self.number("H", fields + 4 + 2 * number)
        return table + offset if offset else 0

    def follow(self, place: int) -> int:
        if not place:
            raise EOFError
        return place + self.number("I", place)
