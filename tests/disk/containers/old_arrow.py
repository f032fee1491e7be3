"""Streams as Arrow 0.17 wrote them: a batch says among its own metadata how it is compressed."""

from __future__ import annotations

import io
import struct

import pyarrow as pa

_RECORDS = 3
OLD = {"ARROW:experimental_compression": "zstd"}


def stream(batch: pa.RecordBatch, schema: pa.Schema | None = None) -> bytes:
    """Return a stream of one batch, compressed in the old way."""
    sink = io.BytesIO()
    old = pa.ipc.MetadataVersion.V4
    options = pa.ipc.IpcWriteOptions(compression="zstd", metadata_version=old)
    with pa.ipc.new_stream(sink, schema or batch.schema, options=options) as writer:
        writer.write_batch(batch, custom_metadata=OLD)
    return _without_compression(bytearray(sink.getvalue()))


def _without_compression(content: bytearray) -> bytes:
    """Return a stream whose batches leave out the field that tells of compression."""

    def number(kind: str, place: int) -> int:
        value: int = struct.unpack_from(f"<{kind}", content, place)[0]
        return value

    def place_of(table: int, field: int) -> tuple[int, int]:
        """Return where a table keeps how far away a field is, and where the field is."""
        fields = table - number("i", table)
        kept = fields + 4 + 2 * field
        far = number("H", kept) if kept < fields + number("H", fields) else 0
        return kept, table + far if far else 0

    start = 0
    while size := number("I", start + 4):
        header = start + 8
        root = header + number("I", header)
        kind, pointer, body = (place_of(root, field)[1] for field in (1, 2, 3))
        if content[kind] == _RECORDS:
            kept, compression = place_of(pointer + number("I", pointer), 3)
            assert compression
            content[kept : kept + 2] = bytes(2)
        start = header + size + (number("q", body) if body else 0)
    return bytes(content)
