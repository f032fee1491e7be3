"""Parquet and Arrow files: typed columns, of which only the chosen ones are decoded.

Both formats can say in a few bytes what fills gigabytes: a long text once in a dictionary and
a million rows that point to it, or compressed zeros. What a batch can grow to is worked out
from page headers, dictionaries and buffer lengths before anything else is decoded; a footer is
not asked, because it may lie.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, BinaryIO

from chaffinch.disk.containers import parquet
from chaffinch.disk.containers.arrow import MessageHead, OldFormat, read_head, unpacked_size
from chaffinch.disk.containers.parquet import Chunk, Footer, Leaf, Page, read_footer, read_pages
from chaffinch.disk.containers.thrift import MOST_VALUES
from chaffinch.errors import InvalidTable, Reason
from chaffinch.tables.arrays import Opened
from chaffinch.tables.limits import (
    LARGEST_BATCH,
    LISTED_WORK,
    LONGEST_LINE,
    PART_WORK,
    Work,
    check_names,
)
from chaffinch.tables.sources import Source, reading

if TYPE_CHECKING:
    import pyarrow as pa

_FILE = b"ARROW1"
_LARGEST_PAGE = 1 << 27
_LARGEST_DICTIONARY = 1 << 24
"""Of Parquet. Every value takes four bytes at least, and becomes sixteen."""
_LARGEST_LENGTHS = 1 << 22
"""Of pages that tell lengths as differences. 128 lengths take five bytes, and become 512."""
_VALUE_BYTES = 16
"""What any value takes beside its content: a view of it, an offset, its levels."""
_CODED_BYTES = 1 << 8
"""What a value of a dictionary takes where the column is read as one: its place in a table of
hashes, and a copy in every batch."""
_BLOCK = 1 << 20
_SMALLER = "write the file again with smaller row groups, or as CSV"


def open_parquet(source: Source, wanted: range | None = None) -> Opened:
    """Open a Parquet file, or some row groups of it.

    Its table of contents is at the end, so a pipe will not do.
    """
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
        names, metadata = check_names(found.schema_arrow.names), found.metadata
        held = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
        groups = range(len(held)) if wanted is None else wanted
        if not set(groups) <= set(range(len(held))):
            raise EOFError  # the file is another one than when its groups were counted

    def stream(columns: tuple[str, ...], size: int) -> Iterator[pa.RecordBatch]:
        with source.open() as file, reading(source.name, "Parquet"):
            opened = pq.ParquetFile(
                file,
                buffer_size=1 << 20,
                pre_buffer=False,  # it would hold the whole file
                page_checksum_verification=True,
            )
            steps = _check_parts(footer, opened, file, columns, size, groups=groups)
            for group, rows in zip(groups, steps, strict=True):
                # One thread decodes ahead of nobody: the memory stays at one batch per column.
                for batch in opened.iter_batches(
                    rows, row_groups=[group], columns=list(columns), use_threads=False
                ):
                    batch.validate(full=True)  # the format leaves the letters to the reader
                    yield batch

    kept = tuple(held[group] for group in groups)
    return Opened(names, sum(kept), stream, groups=kept)


# ----------------------------------------------------------------------------
# What a Parquet file can grow to, by its page headers and its dictionaries.


def _checked_footer(file: BinaryIO) -> Footer:
    try:
        footer = read_footer(file)
    except parquet.LargeFooter:
        raise InvalidTable(
            f"one with a footer of at most {parquet.LARGEST_FOOTER >> 20} MiB and "
            f"{MOST_VALUES} values",
            "a larger one",
            hint="write the file again with fewer columns or larger row groups",
        ) from None
    check_names([leaf.path for leaf in footer.leaves])
    return footer


def _check_parts(
    footer: Footer,
    opened: Any,
    file: BinaryIO,
    columns: Sequence[str],
    rows: int,
    *,
    groups: range,
) -> list[int]:
    """Return how many rows of each group may be decoded at a time; refuse what is too large."""
    metadata = opened.metadata
    if (metadata.num_columns, metadata.num_row_groups) != (len(footer.leaves), len(footer.groups)):
        raise EOFError
    if sum(chunk.packed for chunks in footer.groups for chunk in chunks) > footer.start:
        raise EOFError  # the same bytes would be read over and over
    # As pyarrow chooses them: a name stands for all columns below it.
    below = tuple(f"{column}." for column in columns)
    coded = tuple(f"{one.name}." for one in opened.schema_arrow if "dictionary<" in str(one.type))
    chosen = [
        (number, leaf, _CODED_BYTES if f"{leaf.path}.".startswith(coded) else _VALUE_BYTES)
        for number, leaf in enumerate(footer.leaves)
        if f"{leaf.path}.".startswith(below)
    ]
    size = file.seek(0, io.SEEK_END)
    work = Work(lambda: size)
    steps = [
        _rows_at_once(
            [
                _read_held(_Held(leaf, each), chunks[number], file, footer.start, work)
                for number, leaf, each in chosen
            ],
            rows,
        )
        for chunks in (footer.groups[group] for group in groups)
    ]
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


@dataclass(slots=True)
class _Held:
    """What one leaf of a group takes while it is read."""

    leaf: Leaf
    each: int
    """What a value of its dictionary takes."""
    parts: list[_Part] = field(default_factory=list)
    page: int = 0
    """The largest of its pages: one is held, unpacked, however few of its values are read."""
    listed: int = 0
    """Its dictionaries."""

    def bytes_of(self, rows: int) -> int:
        """Return what so many rows, in whatever place, can take."""
        if self.leaf.repeated:  # all values may stand in one row
            values = sum(part.bytes_of(part.values) for part in self.parts)
        else:
            values = _largest_run(self.parts, rows)
        return self.listed + self.page + values


def _read_held(held: _Held, chunk: Chunk, file: BinaryIO, end: int, work: Work) -> _Held:
    """Fill in what the pages of a chunk become, and return it; none of them is too large."""
    leaf, name = held.leaf, _column(held.leaf)
    fixed = leaf.length if leaf.kind == parquet.FIXED_BYTES else 0
    listed = written = 0
    for page in read_pages(file, chunk, end):
        size = max(page.unpacked, page.packed)
        if size > _largest(page) or not 0 <= fixed <= LONGEST_LINE:
            raise _too_large(name)
        written += size
        work.add(PART_WORK)
        if page.kind == parquet.DICTIONARY_PAGE:
            work.add(LISTED_WORK * size)
            if page.values > size:
                raise EOFError
            # As a page, and as a list of its values.
            held.listed += 2 * size + page.values * held.each
            listed = _longest_listed(name, chunk, page, file) if leaf.kind == parquet.BYTES else 0
            continue
        held.page = max(held.page, size)
        if page.kind in (parquet.DATA_PAGE, parquet.SECOND_DATA_PAGE):
            longest: int | None = fixed
            if leaf.kind == parquet.BYTES:
                longest = listed if page.encoding in parquet.DICTIONARY_ENCODINGS else None
                if page.encoding == parquet.DELTA_BYTES:
                    longest = written  # a value repeats others: at most all before it
            part = _Part(page.values, size, longest)
            work.add(part.bytes_of(page.values))
            held.parts.append(part)
    return held


def _column(leaf: Leaf) -> str:
    return leaf.path.partition(".")[0]


def _largest(page: Page) -> int:
    if page.kind == parquet.DICTIONARY_PAGE:
        return _LARGEST_DICTIONARY
    lengths = page.encoding in (parquet.DELTA_LENGTHS, parquet.DELTA_BYTES)
    return _LARGEST_LENGTHS if lengths else _LARGEST_PAGE


def _longest_listed(name: str, chunk: Chunk, page: Page, file: BinaryIO) -> int:
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


def _rows_at_once(leaves: list[_Held], rows: int) -> int:
    """Return how many rows of a group take no more than a batch may, all leaves together."""

    def taken() -> int:
        return sum(held.bytes_of(rows) for held in leaves)

    while rows > 1 and taken() > LARGEST_BATCH:
        rows //= 2
    if taken() > LARGEST_BATCH:
        alone = [held.leaf for held in leaves if held.bytes_of(rows) > LARGEST_BATCH]
        raise _too_large(_column(alone[0]) if alone else None)
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

    return Opened(names, None, stream)


def _arrow_reader(file: BinaryIO, source: Source, options: Any = None) -> Any:
    import pyarrow as pa

    file.read(_start(source))
    messages = _CheckedMessages(file, source.packed)
    return pa.ipc.open_stream(io.BufferedReader(messages), options=options)


def _start(source: Source) -> int:
    return 8 if source.head.startswith(_FILE) else 0


def _last_bytes(file: BinaryIO) -> bytes:
    last = b""
    while block := file.read(1 << 20):
        last = (last + block)[-len(_FILE) :]
    return last


class _CheckedMessages(io.RawIOBase):
    """The bytes of an Arrow stream, each message passed on only if it takes a bounded size."""

    def __init__(self, file: BinaryIO, packed: Callable[[], int] | None) -> None:
        self._file = file
        self._waiting = memoryview(b"")
        self._body = 0
        """How many bytes of a message are still in the file, and pass through as they are."""
        self._next = b""
        """A body that was asked before, and passes after its head."""
        self._dictionaries: dict[int, int] = {}
        self._work = Work(packed)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        if not self._waiting:
            self._waiting, self._next = memoryview(self._next), b""
        if not self._waiting:
            self._waiting = memoryview(self._next_bytes(len(buffer)))
        taken = self._waiting[: len(buffer)]
        buffer[: len(taken)] = taken
        self._waiting = self._waiting[len(taken) :] or memoryview(b"")  # nothing stays held
        return len(taken)

    def _next_bytes(self, size: int) -> bytes:
        if self._body:
            found = self._file.read(min(size, self._body, _BLOCK))
            if not found:
                raise EOFError
            self._body -= len(found)
            return found
        try:
            head = read_head(self._file)
        except OldFormat:
            raise InvalidTable(
                "of version 5 of the Arrow format, which is that of Arrow 1.0 and later",
                "another version",
                hint="write the file again with a newer program, or as CSV",
            ) from None
        if head.body > LARGEST_BATCH:
            raise _too_large()
        if head.compressed:
            # Each buffer starts with its unpacked length, so they must be there to be asked.
            self._next = self._file.read(head.body)
            self._check(head, unpacked_size(head, self._next))
        else:
            self._body = head.body
            self._check(head, head.body)
        return head.content

    def _check(self, head: MessageHead, unpacked: int) -> None:
        if unpacked + (head.body if head.compressed else 0) > LARGEST_BATCH:
            raise _too_large()
        if head.dictionary is not None:
            size = unpacked
            if head.added:  # both are held while they are joined
                size = self._dictionaries.get(head.dictionary, 0) + 2 * size
            self._dictionaries[head.dictionary] = size
            if sum(self._dictionaries.values()) > LARGEST_BATCH:
                raise _too_large()
        self._work.add(unpacked + _VALUE_BYTES * head.rows, read=len(head.content) + head.body)


def _too_large(column: str | None = None) -> InvalidTable:
    return InvalidTable(
        f"one whose parts that are read together unpack to at most {LARGEST_BATCH >> 20} MiB",
        "parts that unpack to more",
        column=column,
        hint=_SMALLER,
        reason=Reason.DAMAGED,
    )
