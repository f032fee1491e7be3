"""Read batches of messages, each in one open, each proven whole before it counts.

What comes out of a source counts only after its end was reached and the digest agreed: a
changed bit, a missing end, and a file that was exchanged meanwhile are all one error.
"""

from __future__ import annotations

import io
import os
import struct
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from chaffinch.containers.arrow import MessageHead, parse_head
from chaffinch.containers.parquet import (
    DATA_PAGE,
    DELTA_NUMBERS,
    PARQUET_MARK,
    PLAIN_CODEC,
    Footer,
    read_footer,
    read_pages,
)
from chaffinch.containers.thrift import Thrift
from chaffinch.errors import BatchRepeated, InvalidFile, InvalidInput, PlanMismatch, Reason
from chaffinch.storage.faults import storage_fault
from chaffinch.storage.files import AnyPath
from chaffinch.wire.batches import (
    BatchFacts,
    CodeCounts,
    Codes,
    digest_of,
    facts_from_texts,
    join_names,
)
from chaffinch.wire.message_writer import LARGEST_GROUP, message_schema
from chaffinch.wire.messages import Origin, Planned

_ROWS = 1 << 17
"""Messages that are read at once."""
_LARGEST_READ = 1 << 26
_BLOCKS = b"\x80\x01\x04"
"""How a page of differences starts: blocks of 128, in four parts. How many values comes next."""
_DELTA_HEAD = 16
_HINTS = {
    "encoded": "shuffle the files that encoding wrote",
    "shuffled": "shuffle the messages first",
}


class MessageReader:
    """Read one batch from a path, ``"-"`` or a binary stream, once.

    ``start`` holds what a source says at its beginning, which nothing has proven yet, and of a
    stream without the number of reports. ``facts``, ``digest`` and ``counts`` are there after
    the last batch, when everything agreed.
    """

    def __init__(self, source: AnyPath | BinaryIO) -> None:
        self._file = _open_source(source)
        self.name = self._file.label
        self.rows: int | None = None
        """How many messages a file says it holds; of a stream that is not known."""
        with self._checked():
            parquet = self._file.starts_with(PARQUET_MARK)
            self.start, self._batches = (_open_parquet if parquet else _open_stream)(self)
        self._result: tuple[BatchFacts, str] | None = None
        self.counts = CodeCounts(self.start.space)

    @property
    def facts(self) -> BatchFacts:
        """Return all facts, which agree with what was read."""
        return self._proven[0]

    @property
    def digest(self) -> str:
        """Return the digest, which agrees with what was read."""
        return self._proven[1]

    @property
    def _proven(self) -> tuple[BatchFacts, str]:
        if self._result is None:
            raise InvalidInput("facts of a batch", "asked for after its last message", "too early")
        return self._result

    def close(self) -> None:
        """Close the file, if this reader opened it."""
        self._file.close()

    def batches(self) -> Iterator[Codes]:
        """Yield the messages; do not write to the arrays.

        Whoever uses them must be able to undo it: only the end tells whether they are whole.
        """
        if self._file.closed:
            raise InvalidInput("messages", "read once", "a second time")
        try:
            with self._checked():
                closing: Mapping[bytes, bytes] = {}
                for column, closing in self._batches():  # noqa: B007 - the last one counts
                    if len(column):
                        yield self._numbers(column)
                facts, digest = facts_from_texts(self.name, closing)
                told = replace(facts, reports=self.start.reports)
                if told != self.start or digest != digest_of(facts, self.counts):
                    raise EOFError
                self._result = facts, digest
        finally:
            self.close()

    def _numbers(self, column: Any) -> Codes:
        if column.null_count:
            raise _wrong(self.name, "without gaps", "a gap")
        numbers: Codes = column.to_numpy()
        try:
            self.counts.add(numbers)
        except InvalidInput:
            raise _wrong(self.name, f"below {self.start.space}", "a larger message") from None
        return numbers

    @contextmanager
    def _checked(self) -> Iterator[None]:
        """Close a source that is refused; say of a broken one its name and nothing else."""
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
            self.close()
            if isinstance(error, OSError) and error.errno is not None:
                raise storage_fault(self.name, error, verb="read") from None
            raise _damaged(self.name) from None
        except BaseException:
            self.close()
            raise


_Read = Callable[[], Iterator[tuple[Any, Any]]]
"""Yields columns of messages, each with the metadata that would close the batch."""


def _open_parquet(reader: MessageReader) -> tuple[BatchFacts, _Read]:
    import pyarrow.parquet as pq

    file: Any = reader._file  # noqa: SLF001 - its other half
    if not file.seekable():
        raise _wrong(reader.name, "a file, or an Arrow stream", "Parquet from a pipe")
    footer = read_footer(file)
    found = pq.ParquetFile(
        file, page_checksum_verification=True, buffer_size=1 << 20, pre_buffer=False
    )
    metadata = found.metadata.metadata
    facts, _ = facts_from_texts(reader.name, metadata)
    _check_schema(reader.name, found.schema_arrow)
    if found.num_row_groups != len(footer.groups) or not _all_written_here(footer, file):
        must_be = f"as chaffinch writes it, in groups of at most {LARGEST_GROUP} messages"
        raise _wrong(reader.name, must_be, "one that is packed in another way")
    reader.rows = sum(chunk.values for (chunk,) in footer.groups)

    def read() -> Iterator[tuple[Any, Any]]:
        yield np.empty(0, np.uint32), metadata
        for batch in found.iter_batches(_ROWS, use_threads=False):
            yield batch.column(0), metadata

    return facts, read


def _all_written_here(footer: Footer, file: BinaryIO) -> bool:
    """Return whether a file holds the pages that a writer of messages makes, and nothing else.

    Any other page could be compressed, or say in a few bytes what fills gigabytes.
    """
    place = len(PARQUET_MARK)
    for chunks in footer.groups:
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
    return place == footer.start


def _open_stream(reader: MessageReader) -> tuple[BatchFacts, _Read]:
    import pyarrow as pa

    messages = pa.ipc.MessageReader.open_stream(reader._file)  # noqa: SLF001 - its other half
    first, _ = _next_message(messages, "schema")
    schema = pa.ipc.read_schema(first)
    facts, _ = facts_from_texts(reader.name, schema.metadata)
    _check_schema(reader.name, schema)

    def read() -> Iterator[tuple[Any, Any]]:
        while True:
            message, head = _next_message(messages, "record batch")
            _check_plain(reader.name, message, head)
            if not message.body.size:
                break
            batch = pa.ipc.read_record_batch(message, schema)
            batch.validate()
            yield batch.column(0), None
        # Only a stream reader gives the metadata of a batch, so the last one becomes a stream.
        both = first.serialize().to_pybytes() + message.serialize().to_pybytes()
        batch, closing = pa.ipc.open_stream(both).read_next_batch_with_custom_metadata()
        _check_end(messages, reader)
        yield batch.column(0), closing

    return facts, read


def _next_message(messages: Any, kind: str) -> tuple[Any, MessageHead]:
    """Return the next message and what its head says, of a version that has one reading."""
    try:
        message = messages.read_next_message()
    except StopIteration:
        raise EOFError from None
    if message.type != kind:
        raise EOFError
    return message, parse_head(message.metadata.to_pybytes())


def _check_end(messages: Any, reader: MessageReader) -> None:
    """Refuse what follows a closing record: it would be lost, as in two streams in one file."""
    with suppress(StopIteration):
        messages.read_next_message()
        raise EOFError
    if reader._file.read(1):  # noqa: SLF001 - its other half
        raise _wrong(reader.name, "a single batch", "more behind its end")


def _check_plain(name: str, message: Any, head: MessageHead) -> None:
    """Refuse a compressed batch, which a few bytes could blow up, before it is unpacked."""
    if head.compressed or not 4 * head.rows <= message.body.size <= 8 * LARGEST_GROUP:
        raise _wrong(name, f"in plain batches of at most {LARGEST_GROUP} messages", "another one")


def _check_schema(name: str, found: Any) -> None:
    if not found.remove_metadata().equals(message_schema(), check_metadata=True):
        raise _wrong(name, "one column 'message' of uint32 without gaps", "other columns")


class _Bytes(io.RawIOBase):
    """The one open file of a reader: from its start, in reads of bounded size."""

    def __init__(self, file: BinaryIO, label: str, *, owned: bool) -> None:
        self.label = label
        self._file = file
        self._owned = owned
        self._head = b""
        self._seekable = bool(file.seekable())

    def starts_with(self, mark: bytes) -> bool:
        if self._seekable:
            self._file.seek(0)
        head = self.read(len(mark))
        if self._seekable:
            self._file.seek(0)
        else:
            self._head = head
        return head == mark

    def read(self, size: int = -1, /) -> bytes:
        if not 0 <= size <= _LARGEST_READ:
            raise EOFError  # A length that no whole file has: not allocated, not read.
        parts, self._head = [self._head[:size]], self._head[size:]
        left = size - len(parts[0])
        while left and (part := self._file.read(left)):
            parts.append(part)
            left -= len(part)
        return b"".join(parts)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return self._seekable

    def seek(self, offset: int, whence: int = 0, /) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def close(self) -> None:
        if self._owned and not self.closed:
            self._file.close()
        super().close()


def _open_source(source: Any) -> _Bytes:
    if not isinstance(source, (str, os.PathLike)):
        label = os.path.basename(str(getattr(source, "name", "") or "stream"))  # noqa: PTH119
        return _Bytes(source, label, owned=False)
    if source == "-":
        return _Bytes(sys.stdin.buffer, "standard input", owned=False)
    path = Path(source)
    label = path.name or str(path)
    try:
        return _Bytes(path.open("rb", buffering=1 << 20), label, owned=True)
    except FileNotFoundError:
        raise _absent(f"no file named {label!r}") from None
    except IsADirectoryError:
        raise _absent(f"the folder {label!r}") from None
    except OSError as error:
        raise storage_fault(label, error, verb="read") from None


class Messages:
    """Batches of one plan, stage and round from several sources, read as one.

    One source is open at a time. ``digests`` (by name), ``reports`` and ``counts`` are complete
    and proven after the last batch. The same batch twice is refused, whatever path, link or
    container it comes in; so is another content under a name that was there before.
    """

    def __init__(self, sources: Sequence[Any], plan: Planned, stage: str) -> None:
        if isinstance(sources, (str, bytes, os.PathLike)) or not sources:
            raise InvalidInput("message files", "a list of at least one path or stream", sources)
        self._sources = tuple(sources)
        self._plan, self._stage = plan, stage
        self.digests: dict[str, str] = {}
        self.reports = 0
        self.round = 0
        self.counts = CodeCounts(plan.codes)

    def batches(self) -> Iterator[Codes]:
        """Yield the messages of one source after the other."""
        for source in self._sources:
            reader = MessageReader(source)
            try:
                self._check_start(reader)
                yield from reader.batches()
            finally:
                reader.close()
            self._take(reader)

    @property
    def origin(self) -> Origin:
        """Return the origin of all messages together."""
        return Origin.of(self._plan, self.round)

    @property
    def name(self) -> str:
        """Return the name of all batches together."""
        return join_names(list(self.digests))

    def check_crowd(self) -> None:
        """Refuse what is not a whole crowd, or holds more messages than its reports can."""
        self.origin.check_crowd(self.reports, self.counts.total)

    def _check_start(self, reader: MessageReader) -> None:
        """Refuse what is not of this plan, stage or round before anything of it is used."""
        plan, start, title = self._plan, reader.start, f"message file {reader.name!r}"
        if start.plan_id != plan.id:
            raise PlanMismatch(title, expected=plan.id, found=start.plan_id)
        if start.stage != self._stage:
            must_be = f"of {self._stage} messages"
            raise InvalidFile(title, must_be, [start.stage], hint=_HINTS[self._stage])
        if start.space != plan.codes:
            raise InvalidFile(title, f"of {plan.codes} possible messages", [str(start.space)])
        if not (start.round == (self.round or start.round) and start.round <= plan.rounds):
            must_be = f"of round {self.round}" if self.round else f"of at most {plan.rounds} rounds"
            raise InvalidFile(title, must_be, [f"one of round {start.round}"])
        if reader.rows is not None and reader.rows > start.reports * plan.slots:
            must_be = f"of at most {plan.slots} messages for each report"
            raise InvalidFile(
                title, must_be, [f"{reader.rows} messages in {start.reports} reports"]
            )
        self.round = start.round

    def _take(self, reader: MessageReader) -> None:
        """Count a batch that was read to its end, unless it was here before."""
        before = self.digests.get(reader.facts.name)
        if before == reader.digest:
            raise BatchRepeated(f"message file {reader.name!r}", "a batch that is there twice")
        if before is not None:
            raise _damaged(reader.name)
        self.digests[reader.facts.name] = reader.digest
        self.reports += reader.facts.reports
        self.counts.merge(reader.counts)


def _wrong(name: str, must_be: str, *faults: str) -> InvalidFile:
    return InvalidFile(f"message file {name!r}", must_be, list(faults))


def _damaged(name: str) -> InvalidFile:
    got = f"{name!r}, which is damaged, cut off or of another format"
    hint = "have it sent again; nothing of it was used"
    return InvalidFile("message file", "an intact file", [got], hint=hint, reason=Reason.DAMAGED)


def _absent(got: str) -> InvalidFile:
    return InvalidFile("message file", "a file", [got], hint="check the path")
