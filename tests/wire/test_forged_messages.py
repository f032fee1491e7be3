"""Message files that say in a few bytes what fills gigabytes: refused before a page is read."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from chaffinch.errors import InvalidFile
from chaffinch.wire.batches import BatchFacts, CodeCounts, digest_of, facts_to_texts
from chaffinch.wire.message_reader import MessageReader
from chaffinch.wire.message_writer import LARGEST_GROUP, message_schema
from tests.disk.containers import forged, limited, old_arrow

LARGE = 1 << 30
WORD, UNSIGNED = 1, 13
"""How a schema calls whole numbers of 32 bits, and those without a sign."""
FACTS = BatchFacts("ab" * 32, "encoded", 7, 1000, 1, "01" * 16)
COLUMN = forged.column("message", WORD) | {6: UNSIGNED}


def honest() -> dict[str, str]:
    counts = CodeCounts(FACTS.space)
    counts.add(np.zeros(LARGEST_GROUP, np.uint32))
    return facts_to_texts(FACTS, digest_of(FACTS, counts))


def parquet(*pages: bytes, values: int = LARGEST_GROUP, **options: Any) -> bytes:
    chunk = forged.chunk(pages, values, kind=WORD, path="message", **options)
    group = forged.group(chunk, rows=values)
    return forged.file(pages, [COLUMN], [group], honest())


def a_compressed_page() -> bytes:
    return parquet(forged.page(b"", LARGEST_GROUP, zeros=LARGE))


def a_compressed_page_of_differences() -> bytes:
    head = b"\x80\x01\x04" + forged.varint(LARGEST_GROUP) + b"\0"
    page = forged.page(head, LARGEST_GROUP, zeros=LARGE, encoding=forged.DELTA_NUMBERS)
    return parquet(page)


def a_compressed_page_that_says_it_is_plain() -> bytes:
    """The footer tells how pages are packed; one of them says nothing of it."""
    return parquet(forged.page(b"", LARGEST_GROUP, zeros=LARGE), codec="none")


def a_large_dictionary() -> bytes:
    listed = forged.page(b"", LARGE // 4, zeros=LARGE, dictionary=True)
    places = forged.page(b"\1\2\0", 1, encoding=forged.DICTIONARY)
    return parquet(listed, places, values=1, listed=True)


def differences_in_wide_blocks() -> bytes:
    """A page whose blocks are said to have two milliards of values."""
    blocks = forged.varint(1 << 31) + forged.varint(1 << 26)
    head = blocks + forged.varint(LARGEST_GROUP) + b"\0" + bytes(64)
    page = forged.page(head, LARGEST_GROUP, encoding=forged.DELTA_NUMBERS, codec="none")
    return parquet(page, codec="none")


def groups_of_messages_that_are_not_there() -> bytes:
    group = forged.group(forged.chunk([b""], LARGEST_GROUP, path="message"), rows=LARGEST_GROUP)
    return forged.file([], [COLUMN], forged.Times(group, 100_000), honest())


def stream(batch: pa.RecordBatch, **options: Any) -> bytes:
    sink = io.BytesIO()
    schema = batch.schema.with_metadata(honest())
    with pa.ipc.new_stream(sink, schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_batch(batch)
        writer.write_batch(batch.slice(0, 0), custom_metadata=honest())
    return sink.getvalue()


def zeros(count: int) -> pa.RecordBatch:
    return pa.record_batch([pa.array(np.zeros(count, np.uint32))], schema=message_schema())


def a_compressed_stream() -> bytes:
    return stream(zeros(LARGE // 16), compression="zstd")


def a_stream_with_a_long_header() -> bytes:
    """The length of its first message is a lie."""
    return b"\xff\xff\xff\xff" + (forged.MOST - 7).to_bytes(4, "little") + bytes(1000)


def a_stream_with_a_long_body() -> bytes:
    """The body of its batch is said to have some milliards of bytes."""
    content = stream(zeros(1000))
    body = (4000).to_bytes(8, "little")
    assert content.count(body) > 1
    return content.replace(body, (LARGE * 4).to_bytes(8, "little"))


def a_stream_packed_in_the_old_way() -> bytes:
    schema = message_schema().with_metadata(honest())
    content = old_arrow.stream(zeros(LARGE // 4), schema)
    # Ten messages, says the batch, so that its body seems large enough for them.
    return content.replace((LARGE // 4).to_bytes(8, "little"), (10).to_bytes(8, "little"))


FORGED: list[Callable[[], bytes]] = [
    a_compressed_page,
    a_compressed_page_of_differences,
    a_compressed_page_that_says_it_is_plain,
    a_large_dictionary,
    differences_in_wide_blocks,
    groups_of_messages_that_are_not_there,
    a_compressed_stream,
    a_stream_with_a_long_header,
    a_stream_with_a_long_body,
    a_stream_packed_in_the_old_way,
]


@pytest.mark.parametrize("make", FORGED, ids=lambda make: make.__name__)
def test_forged_messages_are_refused(make: Callable[[], bytes], tmp_path: Path) -> None:
    content = make()
    assert len(content) < 20 << 20
    (tmp_path / "messages").write_bytes(content)
    assert limited.read_messages(tmp_path / "messages") == "invalid-file"


def test_what_is_forged_well_is_read(tmp_path: Path) -> None:
    """The files above are refused for what they say, and not for how they were made."""
    (tmp_path / "messages").write_bytes(stream(zeros(LARGEST_GROUP)))
    assert limited.read_messages(tmp_path / "messages") == "read"


def test_a_stream_of_an_old_version_is_refused() -> None:
    content = stream(zeros(10), metadata_version=pa.ipc.MetadataVersion.V4)
    with pytest.raises(InvalidFile, match="an intact file"):
        MessageReader(io.BytesIO(content))
