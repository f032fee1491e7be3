"""What a Parquet file says of its parts: the column chunks in its footer, and the header of a page.

Both are structures of Thrift's compact protocol, and are read here and not by pyarrow: where one
is damaged, pyarrow's accessors for single chunks end the whole process. Whatever is not as it
must be raises ``EOFError``, as a file does that is cut off.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

FIXED_BYTES, BYTES = 7, 6
"""The physical types whose values have a length of their own."""
DELTA_BYTES = 7
"""The encoding in which a value repeats the start of the one before it."""
CODECS = {1: "snappy", 2: "gzip", 4: "brotli", 5: "lz4_raw", 6: "zstd", 7: "lz4_raw"}

_MAGIC = b"PAR1"
_DEEPEST = 16
_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = 1, 2, 3, 7, 8, 9, 10, 11, 12
_WHOLE_NUMBERS = (4, 5, 6)


@dataclass(frozen=True)
class Chunk:
    """One column of one group of rows."""

    place: int
    """Which column it is."""
    path: tuple[str, ...]
    kind: int
    encodings: tuple[int, ...]
    codec: int
    values: int
    unpacked: int
    packed: int
    dictionary: int | None
    """Where its dictionary starts."""


@dataclass(frozen=True)
class PageHeader:
    """What stands before a page: how long that is, and the page's sizes."""

    length: int
    unpacked: int
    packed: int


def read_chunks(file: BinaryIO) -> Iterator[Chunk]:
    """Yield all column chunks of a file, one group of rows after the other."""
    file.seek(-8, os.SEEK_END)
    last = file.read(8)
    length = int.from_bytes(last[:4], "little")
    if last[4:] != _MAGIC or file.seek(0, os.SEEK_END) < length + 8:
        raise EOFError
    file.seek(-8 - length, os.SEEK_END)
    footer = _Thrift(file.read(length)).structure()
    for group in _list(footer, 4):
        for place, column in enumerate(_list(group, 1)):
            yield _chunk(place, _structure(column, 3))


def read_page_header(content: bytes) -> PageHeader:
    """Return the header at the start of some bytes."""
    found = _Thrift(content)
    fields = found.structure()
    unpacked, packed = _number(fields, 2), _number(fields, 3)
    if min(unpacked, packed) < 0:
        raise EOFError
    return PageHeader(found.place, unpacked, packed)


def _chunk(place: int, fields: dict[int, Any]) -> Chunk:
    try:
        path = tuple(part.decode() for part in _list(fields, 3))
    except (AttributeError, UnicodeError):
        path = ()
    if not path:
        raise EOFError
    return Chunk(
        place=place,
        path=path,
        kind=_number(fields, 1),
        encodings=tuple(_list(fields, 2)),
        codec=_number(fields, 4),
        values=_number(fields, 5),
        unpacked=_number(fields, 6),
        packed=_number(fields, 7),
        dictionary=_number(fields, 11) if 11 in fields else None,
    )


def _number(fields: dict[int, Any], number: int) -> int:
    found = fields.get(number)
    if type(found) is not int:
        raise EOFError
    return found


def _structure(fields: Any, number: int) -> dict[int, Any]:
    found = fields.get(number) if isinstance(fields, dict) else None
    if type(found) is not dict:
        raise EOFError
    return found


def _list(fields: Any, number: int) -> list[Any]:
    found = fields.get(number) if isinstance(fields, dict) else None
    if type(found) is not list:
        raise EOFError
    return found


class _Thrift:
    """Reads values of Thrift's compact protocol, one after the other."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self.place = 0

    def structure(self, depth: int = 0) -> dict[int, Any]:
        """Return the fields of a structure, by their numbers.

        A field starts with a byte: by how much its number is larger than the one before (or 0,
        and the number follows), and its type. A zero byte ends the structure.
        """
        if depth > _DEEPEST:
            raise EOFError
        fields: dict[int, Any] = {}
        number = 0
        while head := self._take():
            more, kind = head >> 4, head & 15
            number = number + more if more else self._signed()
            fields[number] = kind == _TRUE if kind <= _FALSE else self._value(kind, depth)
        return fields

    def _value(self, kind: int, depth: int) -> Any:
        if kind in _WHOLE_NUMBERS:
            return self._signed()
        if kind in (_TRUE, _FALSE, _BYTE):
            return self._take()
        if kind == _STRUCT:
            return self.structure(depth + 1)
        if kind in (_LIST, _SET):
            head = self._take()
            size = head >> 4 if head >> 4 < 15 else self._varint()
            return self._values(size, head & 15, depth)
        if kind == _MAP:
            size = self._varint()
            kinds = self._take() if size else 0
            return [self._values(1, one, depth) for _ in range(size) for one in divmod(kinds, 16)]
        if kind in (_BINARY, _DOUBLE):
            return self._bytes(self._varint() if kind == _BINARY else 8)
        raise EOFError

    def _values(self, size: int, kind: int, depth: int) -> list[Any]:
        # Every value takes a byte at least, so a made-up size ends here and takes no memory.
        if size > len(self._content) - self.place:
            raise EOFError
        return [self._value(kind, depth + 1) for _ in range(size)]

    def _take(self) -> int:
        return self._bytes(1)[0]

    def _bytes(self, size: int) -> bytes:
        found = self._content[self.place : self.place + size]
        if len(found) != size:
            raise EOFError
        self.place += size
        return found

    def _varint(self) -> int:
        value = shift = 0
        while shift < 70:
            byte = self._take()
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value
        raise EOFError

    def _signed(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)
