"""Parquet and Arrow files: typed columns, of which only the chosen ones are decoded.

Both formats can say in a few bytes what fills gigabytes: a long text once in a dictionary and
a million rows that point to it, or compressed zeros. What a batch can grow to is worked out
from the footer, page headers and buffer lengths before anything is decoded.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO

from chaffinch.errors import InvalidTable, Reason
from chaffinch.tables.arrays import BATCH_BYTES, Opened, check_names
from chaffinch.tables.parquet_parts import (
    BYTES,
    CODECS,
    DELTA_BYTES,
    FIXED_BYTES,
    Chunk,
    read_chunks,
    read_page_header,
)
from chaffinch.tables.sources import LONGEST_LINE, Source, reading

if TYPE_CHECKING:
    import pyarrow as pa

_FILE = b"ARROW1"
_LARGEST_PART = 1 << 30
"""What a column of one row group, or one Arrow batch, may unpack to."""
_NOTABLE_PART = 1 << 26
_LARGEST_RATIO = 1000
"""A part above the notable size that was packed more tightly than this holds nothing."""
_DICTIONARY, _RECORDS = 2, 3
"""Kinds of Arrow messages that have a body."""
_SMALLER = "write the file again with smaller row groups, or as CSV"


def open_parquet(source: Source) -> Opened:
    """Open a Parquet file; its table of contents is at the end, so a pipe will not do."""
    import pyarrow.parquet as pq

    if not source.seekable:
        raise InvalidTable(
            "one that can be read in order",
            f"Parquet {'under gzip' if source.zipped else 'from a pipe'}",
            hint="name a Parquet file, or pipe CSV, JSONL or an Arrow stream",
        )
    with source.open() as file, reading(source.name, "Parquet"):
        found = pq.ParquetFile(file)
        names, rows = check_names(found.schema_arrow.names), found.metadata.num_rows

    def stream(columns: tuple[str, ...], size: int) -> Iterator[pa.RecordBatch]:
        with source.open() as file, reading(source.name, "Parquet"):
            opened = pq.ParquetFile(
                file,
                buffer_size=1 << 20,
                pre_buffer=False,  # it would hold the whole file
                page_checksum_verification=True,
            )
            rows = _rows_at_once(opened.schema, file, columns, size)
            file.seek(0)
            # One thread decodes ahead of nobody: the memory stays at one batch per column.
            for batch in opened.iter_batches(rows, columns=list(columns), use_threads=False):
                batch.validate(full=True)  # the format leaves the letters to the reader
                yield batch

    return names, rows, stream


# ----------------------------------------------------------------------------
# What a Parquet file can grow to, by its footer and its dictionaries.


def _rows_at_once(schema: Any, file: BinaryIO, columns: Sequence[str], size: int) -> int:
    """Return how many rows may be decoded at a time; refuse columns that unpack to too much."""
    wanted = set(columns)
    rows = size
    for chunk in read_chunks(file):
        top, *below = chunk.path
        if top not in wanted:
            continue
        _check_size(chunk.unpacked, chunk.packed, top)
        longest = max(_longest_value(chunk, schema, file), 8)
        if not below:
            rows = min(rows, max(BATCH_BYTES // longest, 1))
        elif chunk.values * longest > _LARGEST_PART:
            # All values of a nested column may stand in one row.
            raise _too_large(top)
    return rows


def _check_size(unpacked: int, packed: int, column: str | None = None) -> None:
    vain = unpacked > _NOTABLE_PART and unpacked > _LARGEST_RATIO * max(packed, 1)
    if vain or unpacked > _LARGEST_PART:
        raise _too_large(column)


def _longest_value(chunk: Chunk, schema: Any, file: BinaryIO) -> int:
    """Return how many bytes one value of a column chunk can have, or more than that."""
    if chunk.kind == FIXED_BYTES:
        if chunk.place >= len(schema):
            raise EOFError
        return int(schema.column(chunk.place).length)
    if chunk.kind != BYTES:
        return 12
    if DELTA_BYTES in chunk.encodings:
        # A value repeats the start of the one before it: at most all that was written.
        return chunk.unpacked
    # Where values are written one by one, a batch of them is no larger than the chunk.
    plain = chunk.unpacked // max(chunk.values, 1)
    if chunk.dictionary is None:
        return plain
    return max(plain, _longest_in_dictionary(chunk, chunk.dictionary, file))


def _longest_in_dictionary(chunk: Chunk, start: int, file: BinaryIO) -> int:
    """Return the length of the longest value in a chunk's dictionary, which comes first."""
    import pyarrow as pa

    if start < 0:
        raise EOFError
    file.seek(start)
    try:
        page = read_page_header(file.read(256))
    except EOFError:
        return chunk.unpacked  # a header of another shape
    _check_size(page.unpacked, page.packed, chunk.path[0])
    file.seek(start + page.length)
    content: Any = file.read(page.packed)
    try:
        if chunk.codec:
            codec = pa.Codec(CODECS.get(chunk.codec, "unknown"))
            content = codec.decompress(content, page.unpacked, asbytes=True)
    except (pa.ArrowException, ValueError, OSError):
        return page.unpacked  # one value can be all of it
    longest = place = 0
    while place + 4 <= len(content):
        (length,) = struct.unpack_from("<I", content, place)
        longest = max(longest, length)
        place += 4 + length
    if longest > LONGEST_LINE:
        raise _too_large(chunk.path[0])
    return longest


# ----------------------------------------------------------------------------
# Arrow.


def open_arrow(source: Source) -> Opened:
    """Open an Arrow file or an Arrow stream, from a path or from a pipe.

    A file is its magic, then a stream, then a footer that ends in the magic again; so it is
    read as a stream as well.
    """
    import pyarrow as pa

    file = source.open()
    # A pipe gives its bytes only once: the reader goes on where the names ended.
    waiting: list[tuple[BinaryIO, Any]] = []
    try:
        with reading(source.name, "Arrow"):
            first = _arrow_reader(file, source)
            names = check_names(first.schema.names)
        if not source.seekable:
            waiting.append((file, first))
    finally:
        if not waiting:
            file.close()

    def stream(columns: tuple[str, ...], _size: int) -> Iterator[pa.RecordBatch]:
        chosen = pa.ipc.IpcReadOptions(included_fields=[names.index(name) for name in columns])
        opened, batches = waiting.pop() if waiting else (source.open(), None)
        with opened, reading(source.name, "Arrow"):
            for batch in _arrow_reader(opened, source, chosen) if batches is None else batches:
                batch.validate(full=True)  # the format leaves the offsets to the reader
                yield batch.select(list(columns))
            if _start(source) and not _last_bytes(opened).endswith(_FILE):
                raise EOFError

    return names, None, stream


def _arrow_reader(file: BinaryIO, source: Source, options: Any = None) -> Any:
    import pyarrow as pa

    file.read(_start(source))
    return pa.ipc.open_stream(io.BufferedReader(_CheckedMessages(file)), options=options)


def _start(source: Source) -> int:
    return 8 if source.head.startswith(_FILE) else 0


def _last_bytes(file: BinaryIO) -> bytes:
    last = b""
    while block := file.read(1 << 20):
        last = (last + block)[-len(_FILE) :]
    return last


class _CheckedMessages(io.RawIOBase):
    """The messages of an Arrow stream, each passed on only if it unpacks to a bounded size."""

    def __init__(self, file: BinaryIO) -> None:
        import pyarrow as pa

        self._messages = pa.ipc.MessageReader.open_stream(file)
        self._waiting = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        while not self._waiting:
            try:
                message = self._messages.read_next_message()
            except StopIteration:
                return 0
            packed = 0 if message.body is None else message.body.size
            _check_size(_unpacked_size(message.metadata.to_pybytes(), message.body), packed)
            self._waiting = memoryview(message.serialize()).cast("B")
        taken = self._waiting[: len(buffer)]
        buffer[: len(taken)] = taken
        self._waiting = self._waiting[len(taken) :]
        return len(taken)


def _unpacked_size(metadata: bytes, body: Any) -> int:
    """Return how many bytes the buffers of an Arrow message have when they are unpacked.

    A compressed buffer starts with its unpacked length, or with -1 if it is as it is.
    """
    buffer = _Flatbuffer(metadata)
    try:
        message = buffer.number("I", 0)
        kind = metadata[buffer.field(message, 1)]
        batch = buffer.follow(buffer.field(message, 2))
        if kind == _DICTIONARY:
            batch = buffer.follow(buffer.field(batch, 1))
        elif kind != _RECORDS:
            return 0
        if not buffer.field(batch, 3):  # nothing is compressed
            return int(body.size)
        places = buffer.follow(buffer.field(batch, 2))
        total = 0
        for number in range(buffer.number("I", places)):
            start = buffer.number("q", places + 4 + 16 * number)
            length = buffer.number("q", places + 12 + 16 * number)
            unpacked = struct.unpack_from("<q", body, start)[0] if length else 0
            total += length if unpacked == -1 else unpacked
    except (struct.error, IndexError):
        raise EOFError from None
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
        return place + self.number("I", place)


def _too_large(column: str | None = None) -> InvalidTable:
    return InvalidTable(
        f"one whose parts unpack to at most {_LARGEST_PART >> 30} GiB, and not to nothing but "
        "repetitions",
        "a part that unpacks to more",
        column=column,
        hint=_SMALLER,
        reason=Reason.DAMAGED,
    )
