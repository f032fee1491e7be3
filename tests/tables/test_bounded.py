"""A table is never held whole: streams without end give batches, large files small ones."""

from __future__ import annotations

import io
from itertools import islice
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from chaffinch.tables.read import open_table
from chaffinch.wire.message_reader import MessageReader
from chaffinch.wire.message_writer import MessageWriter


class Endless(io.RawIOBase):
    """A stream that starts with some bytes and then repeats others for ever."""

    def __init__(self, start: bytes, then: bytes) -> None:
        self.waiting, self.then, self.taken = start, then * 4096, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        self.waiting = self.waiting or self.then
        part = self.waiting[: len(buffer)]
        self.waiting = self.waiting[len(part) :]
        buffer[: len(part)] = part
        self.taken += len(part)
        return len(part)


def arrow_parts() -> tuple[bytes, bytes]:
    """Return an Arrow stream's schema, and one of its batches, which may be repeated."""
    sink = io.BytesIO()
    batch = pa.record_batch({"a": np.arange(1000), "b": np.arange(1000)})
    writer = pa.ipc.new_stream(sink, batch.schema)
    writer.write_batch(batch)
    middle = len(sink.getvalue())
    writer.write_batch(batch)
    both = sink.getvalue()
    size = len(both) - middle
    return both[: middle - size], both[middle:]


@pytest.mark.parametrize(
    ("kind", "start", "then"),
    [
        ("csv", b"a,b\n", b"x,y\n"),
        ("jsonl", b"", b'{"a":1,"b":2}\n'),
        ("arrow", *arrow_parts()),
    ],
    ids=["csv", "jsonl", "arrow"],
)
def test_a_stream_without_end_gives_batches(kind: str, start: bytes, then: bytes) -> None:
    raw = Endless(start, then)
    table = open_table(io.BufferedReader(raw), format=kind)
    batches = table.batches(["a"], rows=1000)
    assert [batch.num_rows for batch in islice(batches, 5)] == [1000] * 5
    cast("Any", batches).close()
    assert raw.taken < 200 << 20


def test_a_large_row_group_is_not_decoded_at_once(tmp_path: Path) -> None:
    rows = 2_000_000
    path = tmp_path / "t.parquet"
    pq.write_table(
        pa.table({"a": np.arange(rows), "b": np.arange(rows)}), path, row_group_size=rows
    )
    before = pa.total_allocated_bytes()
    most = 0
    for batch in open_table(path).batches(["a"]):
        most = max(most, pa.total_allocated_bytes() - before)
        del batch
    assert 0 < most < rows * 8 / 2


def test_messages_are_written_and_read_in_groups(tmp_path: Path) -> None:
    path = tmp_path / "m.parquet"
    codes = np.random.default_rng(0).integers(0, 10**7, 1 << 20, dtype=np.uint32)
    before = pa.total_allocated_bytes()
    most = 0
    with MessageWriter(path, plan_id="x", stage="encoded", space=10**7) as writer:
        for _ in range(8):
            writer.write(codes, 1)
            most = max(most, pa.total_allocated_bytes() - before)
    for batch in MessageReader(path).batches():
        most = max(most, pa.total_allocated_bytes() - before)
        assert not batch.flags.writeable
        del batch
    assert most < 4 * codes.nbytes
