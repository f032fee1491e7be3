"""Parquet and Arrow files: typed columns, of which only the chosen ones are decoded.

Both formats can say in a few bytes what fills gigabytes: a long text once in a dictionary and
a million rows that point to it, or compressed zeros. What a batch can grow to is worked out
from page headers, dictionaries and buffer lengths before anything else is decoded; a footer is
not asked, because it may lie.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO

from chaffinch.containers import parquet
from chaffinch.containers.arrow import read_parts
from chaffinch.containers.parquet import Chunk, Footer, Leaf, Page, read_footer, read_pages
from chaffinch.errors import InvalidTable, Reason
from chaffinch.tables.arrays import Opened, check_names
from chaffinch.tables.sources import LONGEST_LINE, Source, reading

if TYPE_CHECKING:
    import pyarrow as pa

_FILE = b"ARROW1"
_LARGEST_PAGE = 1 << 27
_LARGEST_DICTIONARY = 1 << 24
"""Of Parquet. Every value takes four bytes at least, and becomes sixteen."""
_LARGEST_LENGTHS = 1 << 22
"""Of pages that tell lengths as differences. 128 lengths take five bytes, and become 512."""
_LARGEST_BATCH = 1 << 28
"""What is unpacked or decoded at once: the pages that a batch of rows can touch, all values of
a nested column in a group of rows, a compressed batch of Arrow, or all its dictionaries."""
_LARGEST_BODY = 1 << 30
"""What a batch of Arrow that is not compressed may take."""
_WORK, _LARGEST_RATIO = 1 << 33, 1000
"""Bytes that any file may unpack to, and how many times its own size it may beyond them."""
_PAGE_WORK, _LISTED_WORK = 1 << 11, 1 << 7
"""What asking a page is worth, and each byte of a dictionary, in bytes that are unpacked."""
_VALUE_BYTES = 16
"""What any value takes beside its content: a view of it, an offset, its levels."""
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
        footer = _checked_footer(file)
        file.seek(0)
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
            steps = _check_parts(footer, opened.metadata, file, columns, size)
            for group, rows in enumerate(steps):
                # One thread decodes ahead of nobody: the memory stays at one batch per column.
                for batch in opened.iter_batches(
                    rows, row_groups=[group], columns=list(columns), use_threads=False
                ):
                    batch.validate(full=True)  # the format leaves the letters to the reader
                    yield batch

    return names, rows, stream


# ----------------------------------------------------------------------------
# What a Parquet file can grow to, by its page headers and its dictionaries.


def _checked_footer(file: BinaryIO) -> Footer:
    try:
        footer = read_footer(file)
    except parquet.LargeFooter:
        raise InvalidTable(
            f"one with a footer of at most {parquet.LARGEST_FOOTER >> 20} MiB",
            "a larger one",
            hint="write the file again with fewer columns or larger row groups",
        ) from None
    check_names([leaf.path for leaf in footer.leaves])
    return footer


def _check_parts(
    footer: Footer, metadata: Any, file: BinaryIO, columns: Sequence[str], rows: int
) -> list[int]:
    """Return how many rows of each group may be decoded at a time; refuse what is too large."""
    if (metadata.num_columns, metadata.num_row_groups) != (len(footer.leaves), len(footer.groups)):
        raise EOFError
    if sum(chunk.packed for chunks in footer.groups for chunk in chunks) > footer.start:
        raise EOFError  # the same bytes would be read over and over
    steps = [rows] * len(footer.groups)
    work = _Work(file.seek(0, io.SEEK_END))
    for number, leaf in enumerate(footer.leaves):
        # As pyarrow chooses them: a name stands for all columns below it.
        if not any(f"{leaf.path}.".startswith(f"{column}.") for column in columns):
            continue
        for group, chunks in enumerate(footer.groups):
            parts = list(_read_parts(leaf, chunks[number], file, footer.start, work))
            steps[group] = min(steps[group], _rows_at_once(leaf, parts, rows))
    file.seek(0)
    return steps


@dataclass(frozen=True, slots=True)
class _Part:
    """What a page of values becomes."""

    values: int
    size: int
    """Of the page, unpacked."""
    longest: int | None
    """Of its values; None where the page itself holds every one of them."""

    def bytes_of(self, rows: int) -> int:
        """Return what so many of its values can take."""
        several = min(rows, self.values)
        content = self.size if self.longest is None else several * self.longest
        return content + several * _VALUE_BYTES


def _read_parts(leaf: Leaf, chunk: Chunk, file: BinaryIO, end: int, work: _Work) -> Iterator[_Part]:
    """Yield what the pages of a chunk become, once none of them is too large."""
    name = leaf.path.partition(".")[0]
    fixed = leaf.length if leaf.kind == parquet.FIXED_BYTES else 0
    listed = written = 0
    for page in read_pages(file, chunk, end):
        size = max(page.unpacked, page.packed)
        if size > _largest(page) or not 0 <= fixed <= LONGEST_LINE:
            raise _too_large(name)
        written += size
        work.add(_PAGE_WORK)
        if page.kind == parquet.DICTIONARY_PAGE:
            work.add(_LISTED_WORK * size)
            if page.values > size:
                raise EOFError
            listed = _longest_listed(name, chunk, page, file) if leaf.kind == parquet.BYTES else 0
        elif page.kind in (parquet.DATA_PAGE, parquet.SECOND_DATA_PAGE):
            longest: int | None = fixed
            if leaf.kind == parquet.BYTES:
                longest = listed if page.encoding in parquet.DICTIONARY_ENCODINGS else None
                if page.encoding == parquet.DELTA_BYTES:
                    longest = written  # a value repeats others: at most all before it
            part = _Part(page.values, size, longest)
            work.add(part.bytes_of(page.values))
            yield part


def _largest(page: Page) -> int:
    if page.kind == parquet.DICTIONARY_PAGE:
        return _LARGEST_DICTIONARY
    lengths = page.encoding in (parquet.DELTA_LENGTHS, parquet.DELTA_BYTES)
    return _LARGEST_LENGTHS if lengths else _LARGEST_PAGE


def _longest_listed(name: str, chunk: Chunk, page: Page, file: BinaryIO) -> int:
    """Return the length of the longest value in a dictionary."""
    import pyarrow as pa

    file.seek(page.start)
    content: Any = file.read(page.packed)
    try:
        if chunk.codec:
            codec = pa.Codec(parquet.CODECS.get(chunk.codec, "unknown"))
            content = codec.decompress(content, page.unpacked, asbytes=True)
    except (pa.ArrowException, ValueError, OSError):
        return page.unpacked  # one value can be all of it
    read_length = struct.Struct("<I").unpack_from
    longest = place = 0
    while place + 4 <= len(content):
        (length,) = read_length(content, place)
        longest = max(longest, length)
        place += 4 + length
    if longest > LONGEST_LINE:
        raise _too_large(name)
    return longest


def _rows_at_once(leaf: Leaf, parts: list[_Part], rows: int) -> int:
    """Return how many rows of a group, in whatever place, take no more than a batch may."""
    if leaf.repeated:
        # All values may stand in one row.
        if sum(part.bytes_of(part.values) for part in parts) > _LARGEST_BATCH:
            raise _too_large(leaf.path.partition(".")[0])
        return rows
    while rows > 1 and _largest_run(parts, rows) > _LARGEST_BATCH:
        rows //= 2
    return rows


def _largest_run(parts: list[_Part], rows: int) -> int:
    """Return what the pages can take that so many rows, one after the other, touch."""
    most = total = first = between = 0
    for last, part in enumerate(parts):
        total += part.bytes_of(rows)
        # The pages between the first and the last are touched whole.
        while first < last and between + 2 > rows:
            total -= parts[first].bytes_of(rows)
            first += 1
            between -= parts[first].values if first < last else 0
        most = max(most, total)
        between += part.values if first < last else 0
    return most


class _Work:
    """What a file makes of its bytes; one that makes too much of them holds nobody's answers."""

    def __init__(self, packed: int = 0) -> None:
        self._left = _WORK + _LARGEST_RATIO * packed

    def add(self, unpacked: int, packed: int = 0) -> None:
        """Count what some bytes become."""
        self._left += _LARGEST_RATIO * packed - unpacked
        if self._left < 0:
            raise _too_large()


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
        self._dictionaries: dict[int, int] = {}
        self._work = _Work()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        while not self._waiting:
            try:
                message = self._messages.read_next_message()
            except StopIteration:
                return 0
            self._check(message)
            self._waiting = memoryview(message.serialize()).cast("B")
        taken = self._waiting[: len(buffer)]
        buffer[: len(taken)] = taken
        self._waiting = self._waiting[len(taken) :]
        return len(taken)

    def _check(self, message: Any) -> None:
        parts = read_parts(message)
        if parts.unpacked > (_LARGEST_BATCH if parts.compressed else _LARGEST_BODY):
            raise _too_large()
        if parts.dictionary is not None:
            size = parts.unpacked
            if parts.added:  # both are held while they are joined
                size = self._dictionaries.get(parts.dictionary, 0) + 2 * size
            self._dictionaries[parts.dictionary] = size
            if sum(self._dictionaries.values()) > _LARGEST_BATCH:
                raise _too_large()
        read = parts.packed + message.metadata.size
        self._work.add(parts.unpacked + _VALUE_BYTES * parts.rows, read)


def _too_large(column: str | None = None) -> InvalidTable:
    return InvalidTable(
        f"one whose parts unpack to at most {_LARGEST_BATCH >> 20} MiB, and not to nothing but "
        "repetitions",
        "a part that unpacks to more",
        column=column,
        hint=_SMALLER,
        reason=Reason.DAMAGED,
    )
