"""A publisher's filter and a shuffler's columns, and the files they travel in.

The file of a filter is a line that names the format, a line of facts in canonical JSON, zeros up to
the next multiple of 64 bytes, and the rows: words of 64 bits, little-endian, one row after the
other. It has one form only: a byte that is another is refused. A SHA-256 over facts and rows tells
a damaged bit, which nothing else would, as chance could have made any row. It is no signature; who
may send a filter is for the channel to know. Whoever has the campaign key, as every publisher
has, can read a filter: only its owner may open the file, and it goes to the analyzer alone.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from io import BytesIO
from pathlib import Path
from typing import Annotated, Any, BinaryIO, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import FailFast, Field, ValidationError

from chaffinch.disk.file_kinds import Kind
from chaffinch.disk.files import AnyPath, atomic, read_small
from chaffinch.disk.storage_errors import storage_fault
from chaffinch.errors import InvalidFile, InvalidInput, Unquoted, checks
from chaffinch.questions import label
from chaffinch.wire.document_forms import Form, Hex32, Hex64, Strict, Written
from chaffinch.wire.documents import canonical, digest, faults_of, one_line, read_document

LEAST_BITS, MOST_BITS = 2**6, 2**29
MOST_ROWS = 20
"""As many rows as the accountant can judge (privacy.FlippedFilters)."""
_FORMAT = "chaffinch/filter@1"
_RULE = f"a filter in the format {_FORMAT}"
_FIRST_LINE = f"{_FORMAT}\n".encode()
LONGEST_HEAD = 4096
"""Bytes in front of the rows, at most."""
_ALIGNED = 64
_Found = TypeVar("_Found")


class _Facts(Strict):
    """What a filter file says of its rows."""

    plan_id: Hex64
    publisher: str
    key: Hex32
    batch: Hex32
    bits: Annotated[int, Field(ge=LEAST_BITS, le=MOST_BITS)]
    rows: Annotated[int, Field(ge=1, le=MOST_ROWS)]
    sha256: Hex64


@dataclass(frozen=True)
class FilterFacts:
    """What a filter must agree on with all others, and its digest; not what is in its rows."""

    plan_id: str
    publisher: str
    key: str
    batch: str
    bits: int
    frequencies: int
    digest: str


@dataclass(frozen=True, eq=False)
class Filter:
    """One publisher's flipped rows, and what they must agree on with all others.

    ``key`` is the fingerprint of the campaign key, ``batch`` a random name of this very
    encoding. Row f − 1 is of those seen at least f times; column c is bit c % 64 of word
    c // 64. Nothing here says how many ids went in.
    """

    plan_id: str
    publisher: str
    key: str
    batch: str
    bits: int
    rows: tuple[NDArray[np.uint64], ...] = field(repr=False)

    def __post_init__(self) -> None:
        label("name of a publisher", self.publisher)
        checks.whole("number of bits", self.bits, least=LEAST_BITS, most=MOST_BITS)
        checks.whole("number of rows", len(self.rows), least=1, most=MOST_ROWS)
        words = _words(self.bits)
        for row in self.rows:
            if row.dtype != np.uint64 or row.shape != (words,):
                raise InvalidInput("row", f"{words} words of 64 bits", row.shape)
            if self.bits % 64 and int(row[-1]) >> self.bits % 64:
                raise InvalidInput(
                    "row", f"of {self.bits} bits", Unquoted("others set behind them")
                )
        try:
            _ = self._facts("0" * 64)
        except ValidationError as fault:
            raise InvalidInput("filter", "one with proper facts", faults_of(fault)[0]) from None

    @property
    def frequencies(self) -> int:
        """Return how far views are counted."""
        return len(self.rows)

    @cached_property
    def digest(self) -> str:
        """Return the SHA-256 of facts and rows, which stands in its file too."""
        return _checksum(self._facts("0" * 64), self.rows)

    @property
    def facts(self) -> FilterFacts:
        """Return all but the rows."""
        known = (self.plan_id, self.publisher, self.key, self.batch)
        return FilterFacts(*known, self.bits, self.frequencies, self.digest)

    def content(self) -> bytes:
        """Return the bytes of its file: always the same ones."""
        rows = [np.ascontiguousarray(row, "<u8").tobytes() for row in self.rows]
        return b"".join((_head(self._facts(self.digest)), *rows))

    def save(self, path: AnyPath) -> None:
        """Write the filter to a file, which is there in full or not at all."""
        facts = self._facts(self.digest)
        with atomic(path, permissions=stat.S_IRUSR | stat.S_IWUSR) as file:
            file.write(_head(facts))
            for row in self.rows:
                file.write(np.ascontiguousarray(row, "<u8").data)

    def _facts(self, checksum: str) -> _Facts:
        return _Facts(
            plan_id=self.plan_id,
            publisher=self.publisher,
            key=self.key,
            batch=self.batch,
            bits=self.bits,
            rows=len(self.rows),
            sha256=checksum,
        )


def load_filter(path: AnyPath) -> Filter:
    """Return the filter in a file; refuse one with anything amiss."""
    return _from_file(path, _read)


def load_facts(path: AnyPath) -> FilterFacts:
    """Return what a file says of its filter; its rows are not read, and prove nothing yet."""
    facts, _ = _from_file(path, _opened)
    known = (facts.plan_id, facts.publisher, facts.key, facts.batch)
    return FilterFacts(*known, facts.bits, facts.rows, facts.sha256)


def _from_file(path: AnyPath, read: Callable[[str, BinaryIO, int], _Found]) -> _Found:
    place = Path(path)
    name = f"filter file {place.name!r}"
    try:
        if not stat.S_ISREG(place.stat().st_mode):
            raise _wrong(name, "something that is no file")
        with place.open("rb") as file:
            return read(name, file, os.fstat(file.fileno()).st_size)
    except OSError as error:
        raise storage_fault(place.name, error, verb="read") from None


def filter_from(content: bytes) -> Filter:
    """Return the filter whose file has this content; refuse one with anything amiss."""
    return _read("filter", BytesIO(content), len(content))


def _read(name: str, file: BinaryIO, size: int) -> Filter:
    facts, start = _opened(name, file, size)
    words = _words(facts.bits)
    file.seek(start)
    # Copied, so that nobody can change or cut off what was checked.
    rows = tuple(_row(file.read(8 * words)) for _ in range(facts.rows))
    if any(len(row) != words for row in rows) or _checksum(facts, rows) != facts.sha256:
        raise _wrong(name, "damaged content")
    for row in rows:
        row.flags.writeable = False
    known: dict[str, Any] = facts.model_dump(exclude={"rows", "sha256"})
    try:
        return Filter(**known, rows=rows)
    except InvalidInput as error:
        raise _wrong(name, f"a {error.parameter} that is not {error.must_be}") from None


def _row(content: bytes) -> NDArray[np.uint64]:
    return np.frombuffer(content[: len(content) // 8 * 8], "<u8").astype(np.uint64)


def _opened(name: str, file: BinaryIO, size: int) -> tuple[_Facts, int]:
    """Return the facts of a file and where its rows start, if it has exactly that size."""
    head = file.read(LONGEST_HEAD)
    if not head.startswith(_FIRST_LINE):
        known = head.startswith(b"chaffinch/filter@")
        raise _wrong(name, "one of another version" if known else "something else")
    try:
        facts = _Facts.model_validate_json(head[len(_FIRST_LINE) :].partition(b"\n")[0])
    except ValidationError as fault:
        raise _wrong(name, *faults_of(fault)) from None
    written = _head(facts)
    if not head.startswith(written):
        raise _wrong(name, "facts that are not written in their one way")
    if size != len(written) + facts.rows * 8 * _words(facts.bits):
        raise _wrong(name, "a size that does not fit its facts: cut off, or added to")
    return facts, len(written)


def _head(facts: _Facts) -> bytes:
    lines = _FIRST_LINE + canonical(facts.model_dump()) + b"\n"
    return lines + bytes(-len(lines) % _ALIGNED)


def _checksum(facts: _Facts, rows: Iterable[NDArray[np.uint64]]) -> str:
    """Return the SHA-256 of the facts, without any checksum, and of the rows."""
    found = hashlib.sha256(canonical(facts.model_dump(exclude={"sha256"})))
    for row in rows:
        found.update(np.ascontiguousarray(row, "<u8").data)
    return found.hexdigest()


def _words(bits: int) -> int:
    return -(-bits // 64)


def _wrong(name: str, *faults: str) -> InvalidFile:
    return InvalidFile(name, _RULE, list(faults), hint="have the publisher send its filter again")


# ----------------------------------------------------------------------------
# What a shuffler of filters hands over: how many columns have each logo.
#
# Columns in a uniform order that nobody knows tell how many of them have each logo, and nothing
# else; so these counts are all that is handed over. The order is not hidden, it is not there. The
# file says nothing of the filters that went in: no digest or name of theirs, and not who sent when.
# It is a JSON document with a SHA-256 over all of it, which tells damage; it is no signature.

_COLUMNS_FORMAT = "chaffinch/columns@1"
_COLUMNS_RULE = f"{Kind.COLUMNS.value} in the format {_COLUMNS_FORMAT}"
_LARGEST_COLUMNS = 1 << 24
"""A million counts of up to nine digits."""


@dataclass(frozen=True, eq=False)
class ShuffledColumns:
    """How many columns of a collection have each logo, after the shuffler's flips.

    Bit r of a logo is the column's bit in row r, in the order of ``Audience.row``. ``key`` is the
    fingerprint of the campaign key, ``batch`` a random name of this very hand-over.
    """

    plan_id: str
    key: str
    batch: str
    bits: int
    rows: int
    counts: NDArray[np.int64] = field(repr=False)

    def __post_init__(self) -> None:
        counts = self.counts
        if counts.dtype != np.int64 or counts.shape != (1 << self.rows,):
            raise InvalidInput("counts", f"one for each of {1 << self.rows} logos", counts.shape)
        if counts.min() < 0 or int(counts.sum()) != self.bits:
            raise InvalidInput("counts", f"{self.bits} columns in all", int(counts.sum()))

    @cached_property
    def digest(self) -> str:
        """Return the SHA-256 of all of it, which is the id of its file."""
        return digest(_COLUMNS_FORMAT, self.body())

    def body(self) -> dict[str, Any]:
        """Return what stands in a file, but for format and id."""
        return ColumnsForm.document(self)

    def content(self) -> bytes:
        """Return the bytes of its file: always the same ones."""
        return one_line(_COLUMNS_FORMAT, self.body())

    def save(self, path: AnyPath) -> None:
        """Write a file that is there in full or not at all, and for its owner only."""
        with atomic(path, permissions=stat.S_IRUSR | stat.S_IWUSR) as file:
            file.write(self.content())


def _read_counts(listed: list[int]) -> NDArray[np.int64]:
    counts = np.array(listed, np.int64)
    counts.flags.writeable = False
    return counts


_Listed = Annotated[list[Annotated[int, Field(ge=0, le=MOST_BITS)]], FailFast()]
_Counts = Written(_Listed, _read_counts, np.ndarray.tolist)


class ColumnsForm(Form):
    """What is handed over."""

    makes = ShuffledColumns

    plan_id: Hex64
    key: Hex32
    batch: Hex32
    bits: Annotated[int, Field(ge=LEAST_BITS, le=MOST_BITS)]
    rows: Annotated[int, Field(ge=1, le=MOST_ROWS)]
    counts: Annotated[NDArray[np.int64], _Counts]


def load_columns(path: AnyPath) -> ShuffledColumns:
    """Return what a shuffler handed over in a file; refuse one with anything amiss."""
    text = read_small(Path(path), most=_LARGEST_COLUMNS, must_be=_COLUMNS_RULE)
    return columns_from(text, name=Path(path).name)


def columns_from(content: bytes, *, name: str = "columns") -> ShuffledColumns:
    """Return what a shuffler handed over; refuse a content with anything amiss."""
    form, _ = read_document(content, ColumnsForm, _COLUMNS_FORMAT, name=name, kind=Kind.COLUMNS)
    try:
        columns: ShuffledColumns = form.build()
    except InvalidInput as error:
        faults = [f"{error.parameter} that are not {error.must_be}"]
        raise InvalidFile(f"file {name}", _COLUMNS_RULE, faults) from None
    return columns
