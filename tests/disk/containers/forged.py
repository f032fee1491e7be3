"""Parquet files by hand, which say whatever a hostile writer wants them to say.

Written from the format's own description, and sharing no code with the reader.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

INT, LONG, BINARY, LIST, STRUCT = 5, 6, 8, 9, 12
NUMBER, BYTES, FIXED_BYTES = 2, 6, 7
REQUIRED, OPTIONAL, REPEATED = 0, 1, 2
PLAIN, RLE, DELTA_NUMBERS, DELTA_LENGTHS, DICTIONARY = 0, 3, 5, 6, 8
CODECS = {"none": 0, "zstd": 6}
MOST = 2**31 - 1


class Long(int):
    """A number that is written as one of 64 bits."""


@dataclass(frozen=True)
class Written:
    """A structure as it is written, right or wrong."""

    content: bytes


@dataclass(frozen=True)
class Times:
    """A list of the same value, many times over."""

    value: Any
    times: int


def varint(value: int) -> bytes:
    found = bytearray()
    while value >= 128:
        found.append(value & 127 | 128)
        value >>= 7
    return bytes([*found, value])


def kind_of(value: Any) -> int:
    if isinstance(value, int):
        return LONG if isinstance(value, Long) else INT
    if isinstance(value, bytes):
        return BINARY
    return LIST if isinstance(value, (list, Times)) else STRUCT


def thrift(value: Any) -> bytes:
    """Return a number, bytes, a list, or a structure (a mapping, a tuple of pairs, or as it is)."""
    if isinstance(value, int):
        return varint(value << 1 if value >= 0 else (-value << 1) - 1)
    if isinstance(value, bytes):
        return varint(len(value)) + value
    if isinstance(value, Written):
        return value.content
    if isinstance(value, Times):
        return _list_head(kind_of(value.value), value.times) + thrift(value.value) * value.times
    if isinstance(value, list):
        kind = kind_of(value[0]) if value else STRUCT
        return _list_head(kind, len(value)) + b"".join(map(thrift, value))
    pairs = value.items() if isinstance(value, dict) else value
    fields = b"".join(
        bytes([kind_of(one)]) + varint(number << 1) + thrift(one) for number, one in pairs
    )
    return fields + b"\0"


def _list_head(kind: int, size: int) -> bytes:
    return bytes([size << 4 | kind]) if size < 15 else bytes([0xF0 | kind]) + varint(size)


def pack(content: bytes, *, zeros: int = 0) -> bytes:
    """Return bytes under zstd, and so many zeros behind them, which are never held."""
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as file:
        file.write(content)
        block = bytes(1 << 20)
        for start in range(0, zeros, len(block)):
            file.write(block[: zeros - start])
    found: bytes = sink.getvalue().to_pybytes()
    return found


def page(
    content: bytes,
    values: int,
    *,
    zeros: int = 0,
    encoding: int = PLAIN,
    dictionary: bool = False,
    codec: str = "zstd",
) -> bytes:
    """Return a page of bytes with so many zeros behind them: its header, and that, packed."""
    packed = pack(content, zeros=zeros) if codec == "zstd" else content
    about: dict[int, Any] = {1: values, 2: encoding}
    if not dictionary:
        about |= {3: RLE, 4: RLE}
    kind, field = (2, 7) if dictionary else (0, 5)
    return thrift({1: kind, 2: len(content) + zeros, 3: len(packed), field: about}) + packed


def column(
    name: str = "a", kind: int = NUMBER, *, repetition: int = REQUIRED, length: int = 0
) -> dict[int, Any]:
    """Return the element of a schema that is a column."""
    return {1: kind, 2: length, 3: repetition, 4: name.encode()}


def chunk(
    pages: Sequence[bytes],
    values: int,
    *,
    start: int = 4,
    codec: str = "zstd",
    kind: int = NUMBER,
    path: str = "a",
    listed: bool = False,
    **said: Any,
) -> dict[int, Any]:
    """Return what a footer says of a chunk; ``said`` replaces fields (f6=…) by other values."""
    size = sum(map(len, pages))
    fields: dict[int, Any] = {
        1: kind,
        2: [PLAIN, RLE],
        3: [path.encode()],
        4: CODECS[codec],
        5: Long(values),
        6: Long(100),  # what it unpacks to: a lie that nobody may believe
        7: Long(size),
        9: Long(start + len(pages[0]) if listed else start),
    }
    if listed:
        fields[11] = Long(start)
    fields |= {int(number[1:]): value for number, value in said.items()}
    return {2: Long(start), 3: fields}


def file(
    pages: Sequence[bytes],
    columns: Sequence[Any],
    groups: Any,
    metadata: Mapping[str, str] | None = None,
    **said: Any,
) -> bytes:
    """Return a file: pages, the elements of its schema below the root, and groups of rows.

    ``said`` replaces fields of the footer (f2=…) by other values.
    """
    footer: dict[int, Any] = {
        1: 2,
        2: [{4: b"schema", 5: len(columns)}, *columns],
        3: Long(1),
        4: groups,
        5: [{1: key.encode(), 2: value.encode()} for key, value in (metadata or {}).items()],
    }
    told = thrift(footer | {int(number[1:]): value for number, value in said.items()})
    return b"PAR1" + b"".join(pages) + told + len(told).to_bytes(4, "little") + b"PAR1"


def group(*chunks: Any, rows: int) -> dict[int, Any]:
    """Return what a footer says of a group of rows."""
    return {1: list(chunks), 2: Long(100), 3: Long(rows)}


def simple(
    pages: Sequence[bytes],
    values: int,
    *,
    kind: int = NUMBER,
    repetition: int = REQUIRED,
    length: int = 0,
    **options: Any,
) -> bytes:
    """Return a file of one column ``a`` in one group."""
    told = chunk(pages, values, kind=kind, **options)
    one = column("a", kind, repetition=repetition, length=length)
    return file(pages, [one], [group(told, rows=values)])
