"""What a message of an Arrow stream says of its parts, read before any part is unpacked.

The header of a message is a flatbuffer. Whatever is not as it must be raises ``EOFError``.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

_DICTIONARY, _RECORDS = 2, 3
"""Kinds of messages that have a body."""
_AS_IT_IS = -1


@dataclass(frozen=True)
class MessageParts:
    """How many rows a message has, and how large its body is before and after unpacking."""

    rows: int = 0
    packed: int = 0
    unpacked: int = 0
    compressed: bool = False
    dictionary: int | None = None
    """Which dictionary it holds, if it holds one."""
    added: bool = False
    """Whether it adds to the dictionary that was there before."""


def read_parts(message: Any) -> MessageParts:
    """Return the parts of a message; one without a body has none."""
    buffer = _Flatbuffer(message.metadata.to_pybytes())
    try:
        root = buffer.number("I", 0)
        kind = buffer.content[buffer.field(root, 1)]
        if kind not in (_DICTIONARY, _RECORDS):
            return MessageParts()
        batch = buffer.follow(buffer.field(root, 2))
        dictionary, added = None, False
        if kind == _DICTIONARY:
            place, delta = buffer.field(batch, 0), buffer.field(batch, 2)
            dictionary = buffer.number("q", place) if place else 0
            added = bool(delta and buffer.content[delta])
            batch = buffer.follow(buffer.field(batch, 1))
        rows = buffer.number("q", place) if (place := buffer.field(batch, 0)) else 0
        compressed = bool(buffer.field(batch, 3))
        size = message.body.size
        unpacked = _unpacked_size(buffer, batch, message.body) if compressed else size
    except (struct.error, IndexError):
        raise EOFError from None
    if min(rows, unpacked) < 0:
        raise EOFError
    return MessageParts(rows, size, unpacked, compressed, dictionary, added)


def _unpacked_size(buffer: _Flatbuffer, batch: int, body: Any) -> int:
    """Return how many bytes the buffers of a compressed batch have when they are unpacked.

    Each starts with its unpacked length, or with -1 if it is as it is.
    """
    places = buffer.follow(buffer.field(batch, 2))
    total = 0
    for number in range(buffer.number("I", places)):
        start = buffer.number("q", places + 4 + 16 * number)
        length = buffer.number("q", places + 12 + 16 * number)
        if not 0 <= start <= start + length <= body.size:
            raise EOFError
        unpacked = struct.unpack_from("<q", body, start)[0] if length else 0
        if unpacked < _AS_IT_IS:
            raise EOFError
        total += length if unpacked == _AS_IT_IS else unpacked
    return total


@dataclass(frozen=True)
class _Flatbuffer:
    """Numbers in a flatbuffer: a table starts with the way back to where its fields are."""

    content: bytes

    def number(self, kind: str, place: int) -> int:
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
        """Return where the table or list is that a field points to."""
        if not place:
            raise EOFError
        return place + self.number("I", place)
