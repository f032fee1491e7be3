"""The pages of messages in a Parquet file: those that a writer of messages makes, and no others."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, BinaryIO

from chaffinch.disk.containers.parquet import (
    DATA_PAGE,
    DELTA_NUMBERS,
    PARQUET_MARK,
    PLAIN_CODEC,
    Footer,
    read_footer,
    read_pages,
)
from chaffinch.disk.containers.thrift import Thrift
from chaffinch.disk.storage_errors import storage_fault
from chaffinch.errors import InvalidFile, Reason
from chaffinch.wire.message_writer import LARGEST_GROUP, message_schema

_ROWS = 1 << 17
"""Messages that are read at once."""
_BLOCKS = b"\x80\x01\x04"
"""How a page of differences starts: blocks of 128, in four parts. How many values comes next."""
_DELTA_HEAD = 16


class MessagePages:
    """A Parquet file of messages, or some row groups of it."""

    def __init__(self, file: BinaryIO, name: str, groups: range | None = None) -> None:
        import pyarrow.parquet as pq

        self._file = file
        self._name = name
        self._footer = read_footer(self._file)
        self._found = pq.ParquetFile(
            file, page_checksum_verification=True, buffer_size=1 << 20, pre_buffer=False
        )
        self.metadata: Mapping[bytes, bytes] | None = self._found.metadata.metadata
        every = range(len(self._footer.groups))
        self._groups = every if groups is None else groups
        if not set(self._groups) <= set(every):
            raise EOFError

    @property
    def groups(self) -> list[int]:
        """Return how many messages each row group holds."""
        return [chunks[0].values for chunks in self._footer.groups]

    @property
    def rows(self) -> int:
        """Return how many messages the chosen row groups hold."""
        return sum(self._footer.groups[group][0].values for group in self._groups)

    def check(self) -> None:
        """Refuse what a writer of messages does not write."""
        check_schema(self._name, self._found.schema_arrow)
        if self._found.num_row_groups != len(self._footer.groups) or not _all_written_here(
            self._footer, self._file, self._groups
        ):
            must_be = f"as chaffinch writes it, in groups of at most {LARGEST_GROUP} messages"
            raise wrong_messages(self._name, must_be, "one that is packed in another way")

    def columns(self) -> Iterator[Any]:
        """Yield the messages of the chosen row groups."""
        groups = list(self._groups)
        for batch in self._found.iter_batches(_ROWS, row_groups=groups, use_threads=False):
            yield batch.column(0)


def _all_written_here(footer: Footer, file: BinaryIO, groups: range) -> bool:
    """Return whether row groups hold the pages that a writer of messages makes, and nothing else.

    Any other page could be compressed, or say in a few bytes what fills gigabytes.
    """
    place = len(PARQUET_MARK)
    if groups and groups[0]:
        place = footer.groups[groups[0]][0].start
    for chunks in (footer.groups[group] for group in groups):
        if len(chunks) != 1 or chunks[0].start != place or chunks[0].codec != PLAIN_CODEC:
            return False
        seen = 0
        for page in read_pages(file, chunks[0], footer.start):
            file.seek(page.start)
            packed = file.read(_DELTA_HEAD)
            if not (
                (page.kind, page.encoding) == (DATA_PAGE, DELTA_NUMBERS)
                and page.unpacked == page.packed
                and page.checked
                and packed.startswith(_BLOCKS)
                and Thrift(packed[len(_BLOCKS) :]).varint() == page.values > 0
            ):
                return False
            seen += page.values
            place = page.end
        if seen != chunks[0].values or seen > LARGEST_GROUP:
            return False
    return place == footer.start or (bool(groups) and groups[-1] + 1 < len(footer.groups))


def check_schema(name: str, found: Any) -> None:
    """Refuse other columns than the one of messages."""
    if not found.remove_metadata().equals(message_schema(), check_metadata=True):
        raise wrong_messages(name, "one column 'message' of uint32 without gaps", "other columns")


@contextmanager
def reading_messages(name: str) -> Iterator[None]:
    """Say of a broken source its name and nothing else."""
    import pyarrow as pa

    broken = (
        OSError,
        pa.ArrowException,
        EOFError,
        UnicodeError,
        struct.error,
        MemoryError,
        OverflowError,
    )
    try:
        yield
    except broken as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise storage_fault(name, error, verb="read") from None
        raise damaged_messages(name) from None


def larger_message(name: str, space: int) -> InvalidFile:
    """Return the fault of a message that the plan does not know."""
    return wrong_messages(name, f"below {space}", "a larger message")


def wrong_messages(name: str, must_be: str, *faults: str) -> InvalidFile:
    """Return the fault of messages that are not as they must be."""
    return InvalidFile(f"message file {name!r}", must_be, list(faults))


_OF_TABLES = (".csv", ".tsv", ".jsonl", ".ndjson", ".xlsx")
"""Names that no batch has: what is none is hardly a damaged one."""


def damaged_messages(name: str) -> InvalidFile:
    """Return the fault of messages that are not whole."""
    if name.lower().endswith(_OF_TABLES):
        return InvalidFile(
            f"file {name!r}",
            "a batch of messages, as `chaffinch encode` and `shuffle` write them",
            ["a file with the name of a table"],
            hint="`chaffinch run` takes a table of answers through all steps, `encode` through "
            "the first",
        )
    got = f"{name!r}, which is damaged, cut off or of another format"
    hint = "have it sent again; nothing of it was used"
    return InvalidFile("message file", "an intact file", [got], hint=hint, reason=Reason.DAMAGED)
