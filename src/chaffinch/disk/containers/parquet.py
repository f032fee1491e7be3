"""What a Parquet file says of its parts: its columns and their chunks, and all of their pages.

A few bytes of a page can stand for gigabytes, and a footer may lie about it; the header of a
page cannot, because a reader goes by it. So whoever wants to know what a column will unpack to
asks its pages here, and then has pyarrow read that very file.

Footers and headers are structures of Thrift's compact protocol. They are read here and not by
pyarrow, whose accessors for single chunks end the whole process where one is damaged. Whatever
is not as it must be raises ``EOFError``, as a file does that is cut off.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

from chaffinch.disk.containers.thrift import (
    BINARY,
    INT,
    LONG,
    LONGEST_LIST,
    STRUCT,
    Fields,
    Shape,
    Thrift,
    TooMany,
)

FIXED_BYTES, BYTES = 7, 6
"""The physical types whose values have a length of their own."""
DATA_PAGE, DICTIONARY_PAGE, SECOND_DATA_PAGE = 0, 2, 3
PLAIN_CODEC = 0
CODECS = {1: "snappy", 2: "gzip", 4: "brotli", 5: "lz4_raw", 6: "zstd", 7: "lz4_raw"}
DELTA_NUMBERS, DELTA_LENGTHS, DELTA_BYTES = 5, 6, 7
"""Encodings as differences: of numbers, of lengths, and of texts to the one before."""
DICTIONARY_ENCODINGS = (2, 8)

PARQUET_MARK = b"PAR1"
"""At the start and at the end of every file."""
LARGEST_FOOTER = 1 << 24
_REPEATED = 2
_DEEPEST_COLUMN = 64
_LONGEST_HEADER = 1 << 20
_HEADER_BYTES = 1 << 9
_LOST_BYTES = 100
"""Old writers forgot these in the size of a chunk; pyarrow reads that much further."""


class LargeFooter(EOFError):
    """A footer that says more than anybody should read."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """A column of single values; a nested column of a table has several."""

    path: str
    kind: int
    length: int
    """Of every value, where the physical type has one for all."""
    repeated: bool
    """Whether a row can hold any number of its values."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """The values of one leaf in one group of rows."""

    codec: int
    values: int
    first_data: int
    packed: int
    dictionary: int | None

    @property
    def start(self) -> int:
        """Return where its first page starts."""
        place = self.dictionary or 0
        return place if 0 < place < self.first_data else self.first_data


@dataclass(frozen=True)
class Footer:
    """The columns of a file, and for each group of rows a chunk for each leaf."""

    leaves: tuple[Leaf, ...]
    groups: tuple[tuple[Chunk, ...], ...]
    start: int
    """Where it starts in the file."""


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a chunk: what its header says."""

    kind: int
    values: int
    encoding: int
    unpacked: int
    packed: int
    start: int
    """Where its content starts."""
    checked: bool
    """Whether a checksum protects it."""

    @property
    def end(self) -> int:
        """Return where the next page starts."""
        return self.start + self.packed


def read_footer(file: BinaryIO) -> Footer:
    """Return what the footer of a file says."""
    end = file.seek(0, os.SEEK_END) - 8
    if end < len(PARQUET_MARK):
        raise EOFError
    file.seek(end)
    last = file.read(8)
    start = end - int.from_bytes(last[:4], "little")
    if last[4:] != PARQUET_MARK or start < len(PARQUET_MARK):
        raise EOFError
    if end - start > LARGEST_FOOTER:
        raise LargeFooter
    file.seek(start)
    try:
        elements, groups = Thrift(file.read(end - start)).read(_FOOTER)
    except TooMany:
        raise LargeFooter from None
    leaves = tuple(_leaves(elements))
    if any(len(chunks) != len(leaves) for chunks in groups):
        raise EOFError
    return Footer(leaves, tuple(groups), start)


@dataclass(frozen=True, slots=True)
class _Element:
    name: bytes
    kind: int | None
    length: int
    repeated: bool
    members: int


def _leaves(elements: list[_Element]) -> Iterator[Leaf]:
    if not elements:
        raise EOFError
    above = [(elements[0].members, "", False)]
    """Of each node above: how many members are still to come, its path, whether repeated."""
    for element in elements[1:]:
        while above and not above[-1][0]:
            above.pop()
        if not 0 < len(above) <= _DEEPEST_COLUMN:
            raise EOFError
        missing, before, repeated = above.pop()
        above.append((missing - 1, before, repeated))
        path = before + element.name.decode()
        repeated = repeated or element.repeated
        if element.members or element.kind is None:
            above.append((element.members, f"{path}.", repeated))
        else:
            yield Leaf(path, element.kind, element.length, repeated)
    if any(missing for missing, _, _ in above):
        raise EOFError


def read_pages(file: BinaryIO, chunk: Chunk, end: int) -> Iterator[Page]:
    """Yield the pages of a chunk that a reader goes through; none goes beyond ``end``.

    A reader goes on to the next page until it has all values that the footer tells of.
    """
    end = min(end, chunk.start + chunk.packed + _LOST_BYTES)
    place, seen = chunk.start, 0
    while seen < chunk.values:
        page = _read_page(file, place, end)
        if page.kind in (DATA_PAGE, SECOND_DATA_PAGE):
            seen += page.values
        place = page.end
        yield page


def _read_page(file: BinaryIO, place: int, end: int) -> Page:
    """Return what the page at a place says of itself; EOFError for one that reaches past the end.

    How long a header is shows only when it is read, so more of it is read where it was cut off.
    """
    size = _HEADER_BYTES
    while True:
        size = min(size, end - place)
        file.seek(place)
        header = Thrift(file.read(max(size, 0)))
        try:
            fields = header.read(_PAGE)
            break
        except EOFError:
            if size in (end - place, _LONGEST_HEADER):
                raise
            size = min(16 * size, _LONGEST_HEADER)
    kind = _given(fields, 1)
    about = _given(fields, _ABOUT[kind]) if kind in _ABOUT else (0, 0)
    page = Page(
        kind=kind,
        values=about[0],
        encoding=about[1],
        unpacked=_given(fields, 2),
        packed=_given(fields, 3),
        start=place + header.place,
        checked=4 in fields,
    )
    if min(page.values, page.unpacked, page.packed) < 0 or page.end > end:
        raise EOFError
    return page


def _given(fields: dict[int, Any], number: int) -> Any:
    if number not in fields:
        raise EOFError
    return fields[number]


# ----------------------------------------------------------------------------
# The structures, by the numbers that the format gives to their fields.


def _make_chunk(fields: Fields) -> Chunk:
    codec, values, first_data, packed = (_given(fields, number) for number in (4, 5, 9, 7))
    chunk = Chunk(codec, values, first_data, packed, fields.get(11))
    if min(chunk.values, chunk.start, chunk.packed) < 0:
        raise EOFError
    return chunk


def _make_element(fields: Fields) -> _Element:
    members = fields.get(5, 0)
    if not 0 <= members <= LONGEST_LIST:
        raise EOFError
    repeated = fields.get(3) == _REPEATED
    return _Element(_given(fields, 4), fields.get(1), fields.get(2, 0), repeated, members)


_SIZES = Shape({}, lists={2: LONG, 3: LONG})
_SHAPES_SEEN = Shape({}, lists={2: INT})
_CHUNK = Shape(
    {4: INT, 5: LONG, 7: LONG, 9: LONG, 11: LONG, 16: _SIZES, 17: _SHAPES_SEEN},
    _make_chunk,
    {2: INT, 3: BINARY, 8: STRUCT, 13: STRUCT},
)
_KEYS = Shape({2: Shape({}, lists={1: BINARY})})
_COLUMN = Shape({3: _CHUNK, 8: _KEYS}, lambda fields: _given(fields, 3))
_GROUP = Shape({1: [_COLUMN]}, lambda fields: tuple(_given(fields, 1)), {4: STRUCT})
_ELEMENT = Shape({1: INT, 2: INT, 3: INT, 4: BINARY, 5: INT}, _make_element)
_FOOTER = Shape(
    {2: [_ELEMENT], 4: [_GROUP]},
    lambda fields: (_given(fields, 2), _given(fields, 4)),
    {5: STRUCT, 7: STRUCT},
)
_ABOUT = {DATA_PAGE: 5, DICTIONARY_PAGE: 7, SECOND_DATA_PAGE: 8}
"""The field of a page's header that tells of each kind of page."""
_FIRST = Shape({1: INT, 2: INT}, lambda fields: (_given(fields, 1), _given(fields, 2)))
_SECOND = Shape({1: INT, 4: INT}, lambda fields: (_given(fields, 1), _given(fields, 4)))
_PAGE = Shape({1: INT, 2: INT, 3: INT, 4: INT, 5: _FIRST, 7: _FIRST, 8: _SECOND})
