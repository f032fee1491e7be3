"""A fingerprint that is the same for tables with the same rows, in any file and any order.

A cell gets a number of 64 bits under a key, a row is the sum of its cells, mixed so that no cell
can change rows unnoticed, and a table is the sum of its rows, which has no order.

- Of a table that is watched, a cell is its text, so that it is the same in every file, or the
  answer that it is read as (``answers_in``), which has neither a spelling nor a column.
- Of a table in memory (``read_all``), a cell is its value. Numbers of equal value count alike,
  however they are held, and so do a date and its midnight; otherwise cells of two kinds differ.
  NaN counts as a gap.
- Lists and records count by their values in both. The items of a list have no order, because a
  set becomes a list in an order of its own.
- A gap counts as nothing, and so does an empty text or binary.

The number of a text is the sum of its bytes, each times a secret word for its column and place;
other values are added to secrets for column and kind, and mixed. Two given tables whose cells
differ in this sense have the same number with a chance of about 2^-56, over the key, as far as
the mixing is like a random permutation, which nobody has proven. It is for finding mistakes:
whoever knows the key can make tables that agree.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from chaffinch.errors import ChaffinchError
from chaffinch.tables.arrays import cut_batch, is_text, plain_array
from chaffinch.tables.checking import AnswerColumns, read_answers
from chaffinch.tables.parallel import Progress
from chaffinch.tables.read import Table

if TYPE_CHECKING:
    import pyarrow as pa

_Words = NDArray[np.uint64]
_Places = NDArray[np.int64]
_Mask = NDArray[np.bool_]
_MICROSECONDS = {"s": 10**6, "ms": 10**3}
_TOP = 2**63
_ROWS = 1 << 16
_LONG = 32
"""Texts of more bytes are hashed one by one: few are so long, and their sums take memory."""


@dataclass
class _Values:
    """The values of a column as words; only within a kind do these tell values apart."""

    words: _Words
    kind: str
    others: dict[str, _Mask] = field(default_factory=dict)
    """Where the values are of another kind."""


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
                read = self._column(table, name)
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

    def _column(self, table: Table, name: str) -> list[_Words]:
        read: list[_Words] = []
        kinds: set[pa.DataType] = set()
        for one in table.batches([name]):
            column = plain_array(one.column(0))
            read.append(self._values(name, column))
            kinds.add(column.type)
        if len(kinds) < 2:
            return read
        # Where cells that do not mix meet in a piece of a list, all of the piece is read as texts.
        # Where they meet follows from the order of the rows; in one piece they always do.
        whole = table.batches([name], rows=table.rows or _ROWS)
        parts = (part for one in whole for part in cut_batch(one, _ROWS))
        return [self._values(name, part.column(0)) for part in parts]

    def _values(self, name: str, column: pa.Array) -> _Words:
        import pyarrow as pa

        plain = plain_array(column)
        nested = self._nested(name, plain)
        if nested is not None:
            return nested
        values = _read_values(plain, self._key)
        if values is not None:
            return self._tagged(name, values, plain.is_null(nan_is_null=True))
        if is_text(plain.type) or pa.types.is_null(plain.type):
            return self.words(name, plain)
        return self._words(_label(name, "bytes" if _is_binary(plain.type) else "other"), plain)

    def _tagged(self, name: str, values: _Values, gaps: pa.Array) -> _Words:
        # Secrets before and after mixing: no two given values have a known difference. That after
        # it is another one for each kind, so values of two kinds have none, either.
        before = self._secrets(_label(name))[-2]
        after = self._secrets(_label(name, values.kind))[-1]
        for kind, where in values.others.items():
            after = np.where(where, self._secrets(_label(name, kind))[-1], after)
        words: _Words = _mixed(_mixed(values.words + before) + after)
        words[gaps.to_numpy(zero_copy_only=False)] = 0
        return words

    def _nested(self, name: str, column: pa.Array) -> _Words | None:
        """Return words of lists and records, made of those of their values; None for others."""
        import pyarrow as pa
        from pyarrow import compute

        if pa.types.is_struct(column.type):
            sums = np.zeros(len(column), np.uint64)
            for part, values in zip(column.type, column.flatten(), strict=True):
                sums += self._values(f"{name}\0{part.name}", values)
            return self._tagged(name, _Values(sums, "record"), column.is_null())
        if not _is_list(column.type):
            return None
        items = _mixed(self._values(f"{name}\0", column.flatten()))
        lengths = compute.list_value_length(column).fill_null(0).to_numpy(zero_copy_only=False)
        ends = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
        sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(items, dtype=np.uint64)])
        whole = _Values(sums[ends[1:]] - sums[ends[:-1]], "list")
        return self._tagged(name, whole, column.is_null())

    def _secrets(self, label: bytes) -> _Words:
        """Return a secret word for each place of a text in a column, and two for other values."""
        start = hashlib.shake_256(self._key + label)
        return np.frombuffer(start.digest(8 * (_LONG + 2)), np.uint64)

    def words(self, name: str, column: pa.Array) -> _Words:
        """Return a word for the text of each cell; it is 0 for a gap, and for an empty text."""
        plain = plain_array(column)
        nested = self._nested(name, plain)
        return self._words(_label(name), plain) if nested is None else nested

    def _words(self, label: bytes, plain: pa.Array) -> _Words:
        import pyarrow as pa

        try:
            coded = plain.dictionary_encode()
            texts = coded.dictionary
            if not _is_binary(plain.type):
                texts = texts.cast(pa.large_string())
            texts = texts.cast(pa.large_binary())
            places = coded.indices.fill_null(len(texts)).to_numpy()
        except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
            # A time has no text where its zone is unknown.
            held = plain.cast(pa.int64()) if pa.types.is_timestamp(plain.type) else plain
            cells = [None if one is None else _text(one) for one in held.to_pylist()]
            texts = pa.array(cells, pa.large_binary())
            places = np.arange(len(texts))
        words: _Words = np.append(self._texts(label, texts), np.uint64(0))[places]
        return words

    def _texts(self, label: bytes, texts: pa.Array) -> _Words:
        ends = np.frombuffer(texts.buffers()[1], np.int64)[texts.offset :][: len(texts) + 1]
        content = np.frombuffer(texts.buffers()[2] or b"", np.uint8)
        lengths = np.diff(ends)
        words = np.zeros(len(texts), np.uint64)
        short = np.flatnonzero(lengths <= _LONG)
        words[short] = self._short_texts(label, content, ends[short], lengths[short])
        for place in np.flatnonzero(lengths > _LONG).tolist():
            long = hashlib.blake2b(label + b"\0", key=self._key, digest_size=8)
            long.update(content[ends[place] : ends[place + 1]].data)
            words[place] = int.from_bytes(long.digest())
        return words

    def _short_texts(
        self, label: bytes, content: NDArray[np.uint8], starts: _Places, lengths: _Places
    ) -> _Words:
        ends = np.concatenate([[0], np.cumsum(lengths)])
        places = np.arange(ends[-1]) - np.repeat(ends[:-1], lengths)
        held = content[np.repeat(starts, lengths) + places]
        secret = self._secrets(label)
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


def _label(name: str, kind: str = "") -> bytes:
    # No name has this byte. Texts and whole numbers, which have two words each, need no kind.
    return name.encode() + (b"\xff" + kind.encode() if kind else b"")


def _is_list(kind: pa.DataType) -> bool:
    import pyarrow as pa

    types = pa.types  # no view and no map, which no table may have
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _is_binary(kind: pa.DataType) -> bool:
    import pyarrow as pa

    types = pa.types
    fixed = types.is_fixed_size_binary(kind)
    return bool(types.is_binary(kind) or types.is_large_binary(kind) or fixed)


def _read_values(column: pa.Array, key: bytes) -> _Values | None:
    """Return numbers, truth values and times by their value; None for other columns."""
    import pyarrow as pa

    kind, types = column.type, pa.types
    if types.is_floating(kind):
        return _reals(column.cast(pa.float64()).fill_null(0).to_numpy(zero_copy_only=False))
    if types.is_decimal(kind):
        return _decimals(column, key)
    if types.is_uint64(kind):
        words: _Words = column.fill_null(0).to_numpy()
        above = words >= _TOP
        return _Values(words, "", {"above": above} if above.any() else {})
    times = types.is_temporal(kind) and not types.is_interval(kind)
    if not (times or types.is_integer(kind) or types.is_boolean(kind)):
        return None
    small = types.is_date32(kind) or types.is_time32(kind)
    held = (column.cast(pa.int32()) if small else column).cast(pa.int64())
    whole = held.fill_null(0).to_numpy()
    if times:
        return _times(whole, kind)
    return _Values(whole.view(np.uint64), "truth" if types.is_boolean(kind) else "")


def _reals(reals: NDArray[np.float64]) -> _Values:
    near = np.abs(reals) < _TOP
    with np.errstate(invalid="ignore"):
        whole = reals.astype(np.int64)
    same = near & (whole == reals)
    if same.all():
        return _Values(whole.view(np.uint64), "")
    words = np.where(same, whole.view(np.uint64), reals.view(np.uint64))
    if near.all():
        return _Values(words, "real", {"": same})
    # What else an integer can be equal to: it has the kind of that one.
    least, above = reals == -_TOP, (reals >= _TOP) & (reals < 2 * _TOP)
    words[least] = _TOP
    words[above] = reals[above].astype(np.uint64)
    return _Values(words, "real", {"": same | least, "above": above})


def _decimals(column: pa.Array, key: bytes) -> _Values:
    coded = column.dictionary_encode()
    different: list[Decimal] = coded.dictionary.to_pylist()
    found = _reals(np.array([*map(float, different), 0.0]))  # the last one for gaps
    kinds = np.full(len(found.words), found.kind, object)
    for kind, where in found.others.items():
        kinds[where] = kind
    for place, number in enumerate(different):
        if Decimal(float(number)) == number:
            continue
        if number == int(number) and -_TOP <= number < 2 * _TOP:
            found.words[place], kinds[place] = int(number) % 2**64, "above" * (number >= _TOP)
        else:
            text = f"{number:f}"
            text = text.rstrip("0") if "." in text else text
            digest = hashlib.blake2b(text.rstrip(".").encode(), key=key, digest_size=8)
            found.words[place], kinds[place] = int.from_bytes(digest.digest()), "decimal"
    places = coded.indices.fill_null(len(different)).to_numpy()
    kinds = kinds[places]
    return _Values(found.words[places], "", {one: kinds == one for one in set(kinds.tolist())})


def _times(whole: _Places, kind: pa.DataType) -> _Values:
    """Return times in microseconds, if they are whole ones and not too far away."""
    import pyarrow as pa

    types = pa.types
    name = "duration" if types.is_duration(kind) else "time" if types.is_time(kind) else "instant"
    unit = "s" if types.is_date32(kind) else getattr(kind, "unit", "ms")
    whole = whole * 86_400 if types.is_date32(kind) else whole
    if unit == "us":
        return _Values(whole.view(np.uint64), name)
    if unit == "ns":
        micros, rest = np.divmod(whole, 1000)
        fine = rest != 0
        words = np.where(fine, whole, micros).view(np.uint64)
        return _Values(words, name, {f"{name} ns": fine} if fine.any() else {})
    most = (_TOP - 1) // _MICROSECONDS[unit]
    far = (whole > most) | (whole < -most)
    words = (whole * _MICROSECONDS[unit]).view(np.uint64)
    if not far.any():
        return _Values(words, name)
    if unit == "s":
        return _Values(np.where(far, whole.view(np.uint64), words), name, {f"{name} s": far})
    seconds, rest = np.divmod(whole, 1000)
    held = np.where(rest == 0, seconds, whole).view(np.uint64)
    others = {f"{name} s": far & (rest == 0), f"{name} ms": far & (rest != 0)}
    return _Values(np.where(far, held, words), name, others)


def _text(cell: Any) -> bytes:
    return json.dumps(cell, sort_keys=True, default=str).encode()


def _mixed(words: _Words) -> _Words:
    # The finalizer of splitmix64, a permutation of all words. Without it the sum of rows would be a
    # sum of cells, and the same for rows that have swapped some of them.
    mixed = words + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))
