"""Filters and their files: an Arrow file of one batch, one column of words for each row.

The file is read where it lies, without a copy. A SHA-256 over the facts and the rows tells a
damaged bit, which nothing else would: any row of bits is a row that chance could have made.
It is no signature; who may send a filter is for the channel to know.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from chaffinch import checks
from chaffinch.errors import ChaffinchError, InvalidFile, InvalidInput
from chaffinch.planning.questions import label
from chaffinch.reach.audience import MOST_ROWS
from chaffinch.reach.plans import LEAST_BITS, MOST_BITS
from chaffinch.tables.faults import storage_fault
from chaffinch.tables.write import atomic

if TYPE_CHECKING:
    import pyarrow as pa

FORMAT = "chaffinch/filter@1"
_RULE = f"a filter in the format {FORMAT}"
_FACTS = ("plan_id", "publisher", "key", "batch", "bits")
_SUM = "sha256"
_AROUND = 1 << 16
"""Bytes that a file may have beside its rows."""
_HEAD = 8
"""Bytes of an Arrow file before the messages in it."""


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
        _digits("plan id", self.plan_id, 64)
        label("name of a publisher", self.publisher)
        _digits("fingerprint of the key", self.key, 32)
        _digits("batch", self.batch, 32)
        checks.whole("number of bits", self.bits, least=LEAST_BITS, most=MOST_BITS)
        checks.whole("number of rows", len(self.rows), least=1, most=MOST_ROWS)
        words = -(-self.bits // 64)
        for row in self.rows:
            if row.dtype != np.uint64 or row.shape != (words,):
                raise InvalidInput("row", f"{words} words of 64 bits", row.shape)
            if self.bits % 64 and int(row[-1]) >> self.bits % 64:
                raise InvalidInput("row", f"of {self.bits} bits", "others set behind them")

    @property
    def frequencies(self) -> int:
        """Return how far views are counted."""
        return len(self.rows)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the filter to a file, which is there in full or not at all."""
        import pyarrow as pa

        facts = {name: str(getattr(self, name)) for name in _FACTS}
        facts = {"format": FORMAT, **facts, _SUM: _checksum(facts, self.rows)}
        schema = _schema(self.frequencies).with_metadata(facts)
        columns = [pa.array(row, pa.uint64()) for row in self.rows]
        with atomic(path) as file, pa.ipc.new_file(file, schema) as writer:
            writer.write_batch(pa.record_batch(columns, schema=schema))


def load_filter(path: str | os.PathLike[str]) -> Filter:
    """Return the filter in a file, mapped into memory; refuse one with anything amiss."""
    import pyarrow as pa

    name = f"filter file {Path(path).name!r}"
    with _reading(name, path):
        status = Path(path).stat()
        if not stat.S_ISREG(status.st_mode):
            raise _wrong(name, "something that is no file")
        if not status.st_size:
            raise _wrong(name, "an empty file")
        file = pa.memory_map(os.fspath(path))
        schema = _opened_schema(name, file)
        facts = _facts(name, schema.metadata)
        _check_shape(name, schema, facts, status.st_size)
        rows = _rows(name, file, schema)
    found = _built(name, facts, rows)
    if _checksum({one: facts[one] for one in _FACTS}, rows) != facts[_SUM]:
        raise _wrong(name, "damaged content")
    return found


def _opened_schema(name: str, file: Any) -> pa.Schema:
    """Return the schema of a file that is one to its end."""
    import pyarrow as pa

    opened = pa.ipc.open_file(file)
    if opened.num_record_batches != 1:
        raise _wrong(name, f"{opened.num_record_batches} batches instead of one")
    return opened.schema


def _facts(name: str, metadata: Mapping[bytes, bytes] | None) -> dict[str, str]:
    found = {
        key.decode("utf-8", "replace"): value.decode("utf-8", "replace")
        for key, value in (metadata or {}).items()
    }
    if found.get("format") != FORMAT:
        known = found.get("format", "").startswith("chaffinch/filter@")
        raise _wrong(name, "one of another version" if known else "something else")
    wanted = {"format", *_FACTS, _SUM}
    faults = [f"no fact {fact!r}" for fact in sorted(wanted - set(found))]
    if set(found) - wanted:
        faults.append("facts of unknown names")
    if "bits" in found and not re.fullmatch(r"[1-9][0-9]{0,9}", found["bits"]):
        faults.append("a number of bits that is none")
    if faults:
        raise _wrong(name, *faults)
    return found


def _check_shape(name: str, schema: pa.Schema, facts: Mapping[str, str], size: int) -> None:
    """Refuse other columns, and a size that the facts cannot explain."""
    rows = len(schema)
    if not (1 <= rows <= MOST_ROWS and schema.remove_metadata().equals(_schema(rows))):
        raise _wrong(name, "other columns than those of a filter")
    expected = rows * 8 * -(-int(facts["bits"]) // 64)
    if not expected < size < expected + _AROUND:
        raise _wrong(name, "a size that does not fit its number of bits")


def _rows(name: str, file: Any, schema: pa.Schema) -> tuple[NDArray[np.uint64], ...]:
    """Return the rows of the only batch, as they lie in the file."""
    import pyarrow as pa

    file.seek(_HEAD)
    messages = pa.ipc.MessageReader.open_stream(file)
    messages.read_next_message()
    message = messages.read_next_message()
    if message.type != "record batch" or _is_compressed(message.metadata.to_pybytes()):
        # What is compressed could grow to any size.
        raise _wrong(name, "rows that do not lie in it as they are")
    batch = pa.ipc.read_record_batch(message, schema)
    batch.validate(full=True)
    if any(column.null_count for column in batch.columns):
        raise _wrong(name, "rows with gaps")
    return tuple(column.to_numpy(zero_copy_only=True) for column in batch.columns)


def _is_compressed(metadata: bytes) -> bool:
    """Return whether the head of an Arrow batch names a compression.

    It is a flatbuffer: the third field of the message is the batch, whose fourth field is the
    compression. A field that is not there has the offset 0, or is beyond the end of its table.
    """

    def field_of(table: int, number: int) -> int:
        fields = table - struct.unpack_from("<i", metadata, table)[0]
        (length,) = struct.unpack_from("<H", metadata, fields)
        place = 4 + 2 * number
        found = struct.unpack_from("<H", metadata, fields + place)[0] if place < length else 0
        return table + found if found else 0

    (root,) = struct.unpack_from("<I", metadata, 0)
    header = field_of(root, 2)
    if not header:
        return True
    (further,) = struct.unpack_from("<I", metadata, header)
    return field_of(header + further, 3) != 0


def _built(name: str, facts: Mapping[str, str], rows: tuple[NDArray[np.uint64], ...]) -> Filter:
    try:
        return Filter(
            plan_id=facts["plan_id"],
            publisher=facts["publisher"],
            key=facts["key"],
            batch=facts["batch"],
            bits=int(facts["bits"]),
            rows=rows,
        )
    except InvalidInput as error:
        raise _wrong(name, f"a {error.parameter} that is not {error.must_be}") from None


def _schema(rows: int) -> pa.Schema:
    import pyarrow as pa

    names = [f"seen_{times}" for times in range(1, rows + 1)]
    return pa.schema([pa.field(name, pa.uint64(), nullable=False) for name in names])


def _checksum(facts: Mapping[str, str], rows: tuple[NDArray[np.uint64], ...]) -> str:
    """Return the SHA-256 of the facts, a line each, and of the rows."""
    found = hashlib.sha256("".join(f"{facts[name]}\n" for name in _FACTS).encode())
    for row in rows:
        found.update(np.ascontiguousarray(row, "<u8").data)
    return found.hexdigest()


def _digits(parameter: str, value: object, count: int) -> None:
    if not (isinstance(value, str) and re.fullmatch(f"[0-9a-f]{{{count}}}", value)):
        raise InvalidInput(parameter, f"{count} hexadecimal digits", value)


@contextmanager
def _reading(name: str, path: str | os.PathLike[str]) -> Iterator[None]:
    """Turn what a reader raises into one error."""
    import pyarrow as pa

    try:
        yield
    except ChaffinchError:
        raise
    except OSError as error:
        if error.errno is not None:
            raise storage_fault(Path(path).name, error, verb="read") from None
        raise _wrong(name, "a damaged file") from None
    except (pa.ArrowException, ValueError, KeyError, StopIteration, EOFError, struct.error):
        raise _wrong(name, "a damaged file, or none of this format") from None


def _wrong(name: str, *faults: str) -> InvalidFile:
    return InvalidFile(name, _RULE, list(faults), hint="have the publisher send its filter again")
