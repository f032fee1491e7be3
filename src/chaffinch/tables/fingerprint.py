"""A fingerprint that is the same for tables with the same rows, in any file and any order.

A cell is its text, or the answer that it is read as (``answers_in``), which has neither a spelling
nor a column. It gets a number of 64 bits: the sum of its bytes, each times a secret word for its
column and place. A row is the sum of its cells, mixed so that no cell can change rows unnoticed,
and a table is the sum of its rows, which has no order. Two given tables that differ have the same
number with a chance of about 2^-56, over the key. It is for finding mistakes: whoever knows the
key can make tables that agree.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from chaffinch.errors import ChaffinchError
from chaffinch.tables.arrays import plain_array
from chaffinch.tables.checking import AnswerColumns, read_answers
from chaffinch.tables.parallel import Progress
from chaffinch.tables.read import Table

if TYPE_CHECKING:
    import pyarrow as pa

_Words = NDArray[np.uint64]
_Places = NDArray[np.int64]
_MICROSECONDS = {"day": 86_400 * 10**6, "s": 10**6, "ms": 10**3, "us": 1}
_LONG = 32
"""Texts of more bytes are hashed one by one: few are so long, and their sums take memory."""


class Fingerprint:
    """What was seen of a table when it was last read from the beginning."""

    def __init__(
        self, key: bytes, read: Callable[[pa.RecordBatch], pa.RecordBatch] | None = None
    ) -> None:
        """Start with nothing; ``read`` says what of a batch counts, if not all of it."""
        self._key = key
        self._read = read
        self._rows = 0
        self._sum = 0

    def watch(self, table: Table) -> Table:
        """Return the same table; whoever reads it to its end has fingerprinted what was read."""

        def stream(columns: tuple[str, ...], rows: int) -> Iterator[pa.RecordBatch]:
            self._rows, self._sum = 0, 0
            for batch in table.batches(columns, rows=rows):
                self._add(batch if self._read is None else self._read(batch))
                yield batch

        return replace(table, _stream=stream)

    @property
    def value(self) -> bytes:
        """Return the number of rows and their sum; the names of the columns are in each cell's."""
        return self._rows.to_bytes(8) + self._sum.to_bytes(8)

    def read_all(self, table: Table, progress: Progress) -> None:
        """Read all columns of a table in memory, one after the other, and leave out the unreadable.

        Numbers and times count by their value, however the frame holds them, and not as texts. A
        word is held of each row, to which the columns add up.
        """
        rows: _Words | None = None
        for done, name in enumerate(table.columns, 1):
            try:
                read = [self._values(name, one.column(0)) for one in table.batches([name])]
            except ChaffinchError:
                continue
            rows = np.concatenate(read) if rows is None else rows + np.concatenate(read)
            progress(done, len(table.columns))
        self._rows, self._sum = 0, 0
        if rows is not None:
            self._add_rows(rows)

    def _add(self, batch: pa.RecordBatch) -> None:
        words = np.zeros(batch.num_rows, np.uint64)
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            words += self.words(name, column)
        self._add_rows(words)

    def _add_rows(self, words: _Words) -> None:
        self._sum = (self._sum + int(_mixed(words).sum(dtype=np.uint64))) % 2**64
        self._rows += len(words)

    def _values(self, name: str, column: pa.Array) -> _Words:
        plain = plain_array(column)
        numbers = _numbers(plain)
        if numbers is None:
            return self.words(name, plain)
        # Secrets before and after mixing: no two given numbers have a known difference.
        before, after = self._secrets(name)[-2:]
        words: _Words = _mixed(_mixed(numbers + before) + after)
        words[plain.is_null(nan_is_null=True).to_numpy(zero_copy_only=False)] = 0
        return words

    def _secrets(self, name: str) -> _Words:
        """Return a secret word for each place of a text in a column, and two for numbers."""
        start = hashlib.shake_256(self._key + name.encode())
        return np.frombuffer(start.digest(8 * (_LONG + 2)), np.uint64)

    def words(self, name: str, column: pa.Array) -> _Words:
        """Return a word for each cell; it is 0 for a gap, and for an empty text."""
        import pyarrow as pa

        plain = plain_array(column)
        try:
            coded = plain.dictionary_encode()
            texts = coded.dictionary.cast(pa.large_string()).cast(pa.large_binary())
            places = coded.indices.fill_null(len(texts)).to_numpy()
        except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
            cells = [None if one is None else _text(one) for one in plain.to_pylist()]
            texts = pa.array(cells, pa.large_binary())
            places = np.arange(len(texts))
        words: _Words = np.append(self._texts(name, texts), np.uint64(0))[places]
        return words

    def _texts(self, name: str, texts: pa.Array) -> _Words:
        ends = np.frombuffer(texts.buffers()[1], np.int64)[texts.offset :][: len(texts) + 1]
        content = np.frombuffer(texts.buffers()[2] or b"", np.uint8)
        lengths = np.diff(ends)
        words = np.zeros(len(texts), np.uint64)
        short = np.flatnonzero(lengths <= _LONG)
        words[short] = self._short_texts(name, content, ends[short], lengths[short])
        for place in np.flatnonzero(lengths > _LONG).tolist():
            long = hashlib.blake2b(name.encode() + b"\0", key=self._key, digest_size=8)
            long.update(content[ends[place] : ends[place + 1]].data)
            words[place] = int.from_bytes(long.digest())
        return words

    def _short_texts(
        self, name: str, content: NDArray[np.uint8], starts: _Places, lengths: _Places
    ) -> _Words:
        ends = np.concatenate([[0], np.cumsum(lengths)])
        places = np.arange(ends[-1]) - np.repeat(ends[:-1], lengths)
        held = content[np.repeat(starts, lengths) + places]
        secret = self._secrets(name)
        sums = np.zeros(len(held) + 1, np.uint64)
        # One more than each byte, so that zero bytes count, too.
        np.cumsum((held + np.uint64(1)) * secret[places], out=sums[1:])
        # What is added up to the end of a text, less what is added up to its start.
        words: _Words = sums[ends[1:]] - sums[ends[:-1]]
        return words


def answers_in(places: Mapping[str, AnswerColumns]) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
    """Return what reads the answers of a batch, by the names of the questions."""

    def read(batch: pa.RecordBatch) -> pa.RecordBatch:
        import pyarrow as pa

        try:
            numbers = read_answers(list(places.values()), 1, batch)
        except ChaffinchError:
            # Whoever gets this batch finds the same faults, tells their rows, and ends the run.
            return batch
        columns = {
            f"{name}\0{place}": pa.array(column)
            for name, found in zip(places, numbers, strict=True)
            for place, column in enumerate(np.atleast_2d(found.T))  # flags have one each
        }
        return pa.record_batch(columns)

    return read


def _numbers(column: pa.Array) -> _Words | None:
    """Return numbers, truth values and times as words, by their value; None for other columns."""
    import pyarrow as pa

    kind, types = column.type, pa.types
    if types.is_floating(kind):
        reals = column.cast(pa.float64()).fill_null(0).to_numpy(zero_copy_only=False)
        with np.errstate(invalid="ignore"):
            whole = reals.astype(np.int64)
        bits: _Words = np.where(whole == reals, whole.view(np.uint64), reals.view(np.uint64))
        return bits
    if not (types.is_integer(kind) or types.is_boolean(kind) or types.is_temporal(kind)):
        return None
    try:
        small = types.is_date32(kind) or types.is_time32(kind)
        held = (column.cast(pa.int32()) if small else column).cast(pa.int64())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None  # numbers above 2^63, and intervals of months
    whole = held.fill_null(0).to_numpy()
    if types.is_temporal(kind):
        unit = "day" if types.is_date32(kind) else getattr(kind, "unit", "ms")
        if unit == "ns":
            whole, rest = np.divmod(whole, 1000)
            whole ^= rest << 54  # where no microsecond of these is
        else:
            whole = whole * _MICROSECONDS[unit]
    words: _Words = whole.view(np.uint64)
    return words


def _text(cell: Any) -> bytes:
    return json.dumps(cell, sort_keys=True, default=str).encode()


def _mixed(words: _Words) -> _Words:
    # The finalizer of splitmix64, a permutation of all words. Without it the sum of rows would be a
    # sum of cells, and the same for rows that have swapped some of them.
    mixed = words + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))
