"""What a shuffler of filters hands over: how many columns have each logo, and the file of it.

Columns in a uniform order that nobody knows tell how many of them have each logo, and nothing
else; so these counts are all that is handed over. The order is not hidden, it is not there. The
file says nothing of the filters that went in: no digest or name of theirs, and not who sent when.
It is a JSON document with a SHA-256 over all of it, which tells damage; it is no signature.
"""

from __future__ import annotations

import stat
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from chaffinch.disk.files import AnyPath, atomic, read_small
from chaffinch.disk.protected import Kind
from chaffinch.errors import InvalidFile, InvalidInput
from chaffinch.wire.documents import Strict, digest, one_line, read_document
from chaffinch.wire.filter_files import LEAST_BITS, MOST_BITS, MOST_ROWS

_FORMAT = "chaffinch/columns@1"
_RULE = f"{Kind.COLUMNS.value} in the format {_FORMAT}"
_LARGEST_FILE = 1 << 24
"""A million counts of up to nine digits."""
_Digits16 = Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
_Digits32 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class ColumnsBody(Strict):
    """What is handed over."""

    plan_id: _Digits32
    key: _Digits16
    batch: _Digits16
    bits: Annotated[int, Field(ge=LEAST_BITS, le=MOST_BITS)]
    rows: Annotated[int, Field(ge=1, le=MOST_ROWS)]
    counts: list[Annotated[int, Field(ge=0, le=MOST_BITS)]]

    def build(self) -> ShuffledColumns:
        """Return the columns."""
        counts = np.array(self.counts, np.int64)
        counts.flags.writeable = False
        return ShuffledColumns(self.plan_id, self.key, self.batch, self.bits, self.rows, counts)


class _ColumnsFile(ColumnsBody):
    format: Literal["chaffinch/columns@1"]
    id: _Digits32


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
        return digest(_FORMAT, self.body())

    def body(self) -> dict[str, Any]:
        """Return what stands in a file, but for format and id."""
        return {
            "plan_id": self.plan_id,
            "key": self.key,
            "batch": self.batch,
            "bits": self.bits,
            "rows": self.rows,
            "counts": self.counts.tolist(),
        }

    def content(self) -> bytes:
        """Return the bytes of its file: always the same ones."""
        return one_line(_FORMAT, self.body())

    def save(self, path: AnyPath) -> None:
        """Write a file that is there in full or not at all, and for its owner only."""
        with atomic(path, permissions=stat.S_IRUSR | stat.S_IWUSR) as file:
            file.write(self.content())


def load_columns(path: AnyPath) -> ShuffledColumns:
    """Return what a shuffler handed over in a file; refuse one with anything amiss."""
    text = read_small(Path(path), most=_LARGEST_FILE, must_be=_RULE)
    return columns_from(text, name=Path(path).name)


def columns_from(content: bytes, *, name: str = "columns") -> ShuffledColumns:
    """Return what a shuffler handed over; refuse a content with anything amiss."""
    model, _ = read_document(content, _ColumnsFile, _FORMAT, name=name, kind=Kind.COLUMNS)
    try:
        return model.build()
    except InvalidInput as error:
        faults = [f"{error.parameter} that are not {error.must_be}"]
        raise InvalidFile(f"file {name}", _RULE, faults) from None
