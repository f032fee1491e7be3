"""Read batches of messages, each in one open, each proven whole before it counts.

What comes out of a source counts only after its end was reached and the digest agreed: a
changed bit, a missing end, and a file that was exchanged meanwhile are all one error.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np

from chaffinch.disk.containers.arrow import MessageHead, parse_head
from chaffinch.disk.containers.parquet import PARQUET_MARK
from chaffinch.disk.files import AnyPath
from chaffinch.disk.inputs import fitting, is_pattern
from chaffinch.disk.locations import Place, is_address
from chaffinch.disk.storage_errors import storage_fault
from chaffinch.errors import BatchRepeated, InvalidFile, InvalidInput, PlanMismatch, Unquoted
from chaffinch.wire.batch_folders import part_pages, read_manifest
from chaffinch.wire.batches import (
    BatchFacts,
    CodeCounts,
    Codes,
    digest_of,
    facts_from_texts,
    facts_to_texts,
    join_names,
)
from chaffinch.wire.message_pages import (
    MessagePages,
    check_schema,
    damaged_messages,
    reading_messages,
    wrong_messages,
)
from chaffinch.wire.message_writer import LARGEST_GROUP
from chaffinch.wire.messages import Origin, Planned

_LARGEST_READ = 1 << 26
_HINTS = {
    "encoded": "shuffle the files that encoding wrote",
    "shuffled": "shuffle the messages first",
}


class MessageReader:
    """Read one batch from a path, an address, ``"-"`` or a binary stream, once.

    A path may be that of a folder that a cluster has filled.

    ``start`` holds what a source says at its beginning, which nothing has proven yet, and of a
    stream without the number of reports. ``facts``, ``digest`` and ``counts`` are there after
    the last batch, when everything agreed.
    """

    def __init__(self, source: AnyPath | BinaryIO) -> None:
        folder = _folder_of(source)
        self._file = _open_source(source) if folder is None else _no_file(folder.name)
        self.name = self._file.label
        self.rows: int | None = None
        """How many messages a file says it holds; of a stream that is not known."""
        with self._checked():
            if folder is not None:
                self.start, self._batches = _open_folder(self, folder)
            else:
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
            raise InvalidInput(
                "facts of a batch", "asked for after its last message", Unquoted("too early")
            )
        return self._result

    def close(self) -> None:
        """Close the file, if this reader opened it."""
        self._file.close()

    def batches(self) -> Iterator[Codes]:
        """Yield the messages; do not write to the arrays.

        Whoever uses them must be able to undo it: only the end tells whether they are whole.
        """
        if self._file.closed:
            raise InvalidInput("messages", "read once", Unquoted("a second time"))
        try:
            with self._checked():
                closing: Mapping[bytes, bytes] = {}
                for column, closing in self._batches():  # noqa: B007 - the last one counts
                    if len(column):
                        yield self._numbers(column)
                facts, digest = facts_from_texts(self.name, closing)
                # A stream cannot know its number of reports when it begins; all other facts must
                # agree.
                told = replace(facts, reports=self.start.reports)
                # Facts and digest bind every message: a batch that lost or gained one ends here.
                if told != self.start or digest != digest_of(facts, self.counts):
                    raise EOFError
                self._result = facts, digest
        finally:
            self.close()

    def _numbers(self, column: Any) -> Codes:
        if column.null_count:
            raise wrong_messages(self.name, "without gaps", "a gap")
        numbers: Codes = column.to_numpy()
        try:
            self.counts.add(numbers)
        except InvalidInput:
            raise wrong_messages(
                self.name, f"below {self.start.space}", "a larger message"
            ) from None
        return numbers

    @contextmanager
    def _checked(self) -> Iterator[None]:
        """Close a source that is refused; say of a broken one its name and nothing else."""
        try:
            with reading_messages(self.name):
                yield
        except BaseException:
            self.close()
            raise


_Read = Callable[[], Iterator[tuple[Any, Any]]]
"""Yields columns of messages, each with the metadata that would close the batch."""


def _open_parquet(reader: MessageReader) -> tuple[BatchFacts, _Read]:
    file: Any = reader._file  # noqa: SLF001 - its other half
    if not file.seekable():
        raise wrong_messages(reader.name, "a file, or an Arrow stream", "Parquet from a pipe")
    pages = MessagePages(file, reader.name)
    facts, _ = facts_from_texts(reader.name, pages.metadata)
    pages.check()
    reader.rows = pages.rows

    def read() -> Iterator[tuple[Any, Any]]:
        # A file without any message has no batch, and its facts are compared all the same.
        yield np.empty(0, np.uint32), pages.metadata
        for column in pages.columns():
            yield column, pages.metadata

    return facts, read


def _open_folder(reader: MessageReader, folder: Place) -> tuple[BatchFacts, _Read]:
    manifest = read_manifest(folder)
    closing = {
        key.encode(): text.encode()
        for key, text in facts_to_texts(manifest.facts, manifest.digest).items()
    }
    reader.rows = sum(part.messages for part in manifest.parts)

    def read() -> Iterator[tuple[Any, Any]]:
        yield np.empty(0, np.uint32), closing
        for part in manifest.parts:
            with open_place(folder.inside(part.name)) as file:
                for column in part_pages(cast("BinaryIO", file), part, manifest.facts).columns():
                    yield column, closing

    return manifest.facts, read


def _open_stream(reader: MessageReader) -> tuple[BatchFacts, _Read]:
    import pyarrow as pa

    messages = pa.ipc.MessageReader.open_stream(reader._file)  # noqa: SLF001 - its other half
    first, _ = _next_message(messages, "schema")
    schema = pa.ipc.read_schema(first)
    facts, _ = facts_from_texts(reader.name, schema.metadata)
    check_schema(reader.name, schema)

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
        raise wrong_messages(reader.name, "a single batch", "more behind its end")


def _check_plain(name: str, message: Any, head: MessageHead) -> None:
    """Refuse a compressed batch, which a few bytes could blow up, before it is unpacked."""
    if head.compressed or not 4 * head.rows <= message.body.size <= 8 * LARGEST_GROUP:
        raise wrong_messages(
            name, f"in plain batches of at most {LARGEST_GROUP} messages", "another one"
        )


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
    if is_address(source):
        return open_place(Place.of(source))
    path = Path(source)
    return open_place(Place(str(source)), path.name or str(path))


def open_place(place: Place, label: str = "") -> _Bytes:
    """Return the bytes of a file, in reads of bounded size."""
    label = label or place.name
    try:
        return _Bytes(place.open(), label, owned=True)
    except FileNotFoundError:
        raise _absent(f"no file named {label!r}") from None
    except OSError as error:
        raise storage_fault(label, error, verb="read") from None


def _folder_of(source: Any) -> Place | None:
    if not isinstance(source, (str, os.PathLike)) or source == "-":
        return None
    place = Place.of(source)
    return place if place.is_folder() else None


def _no_file(label: str) -> _Bytes:
    return _Bytes(io.BytesIO(), label, owned=True)


class BatchSet:
    """Several batches that are used as one: of one plan, stage and round, none of them twice."""

    def __init__(self, plan: Planned, stage: str) -> None:
        self._plan, self._stage = plan, stage
        self.digests: dict[str, str] = {}
        self.reports = 0
        self.round = 0

    @property
    def origin(self) -> Origin:
        """Return the origin of all messages together."""
        return Origin.of(self._plan, self.round)

    @property
    def name(self) -> str:
        """Return the name of all batches together."""
        return join_names(list(self.digests))

    def check_start(self, label: str, start: BatchFacts, rows: int | None) -> None:
        """Refuse what is not of this plan, stage or round before anything of it is used."""
        plan, title = self._plan, f"message file {label!r}"
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
        if rows is not None and rows > start.reports * plan.slots:
            must_be = f"of at most {plan.slots} messages for each report"
            raise InvalidFile(title, must_be, [f"{rows} messages in {start.reports} reports"])
        self.round = start.round

    def take(self, label: str, facts: BatchFacts, digest: str) -> None:
        """Count a batch that was read to its end, unless it was here before."""
        before = self.digests.get(facts.name)
        if before == digest:
            raise BatchRepeated(f"message file {label!r}", "a batch that is there twice")
        if before is not None:
            raise damaged_messages(label)
        self.digests[facts.name] = digest
        self.reports += facts.reports


class Messages(BatchSet):
    """Batches of one plan, stage and round from several sources, read as one.

    One source is open at a time. ``digests`` (by name), ``reports`` and ``counts`` are complete
    and proven after the last batch. The same batch twice is refused, whatever path, link or
    container it comes in; so is another content under a name that was there before.
    """

    def __init__(self, sources: Sequence[Any], plan: Planned, stage: str) -> None:
        super().__init__(plan, stage)
        self._sources = source_list(sources)
        self.counts = CodeCounts(plan.codes)

    def batches(self) -> Iterator[Codes]:
        """Yield the messages of one source after the other."""
        for source in self._sources:
            reader = MessageReader(source)
            try:
                self.check_start(reader.name, reader.start, reader.rows)
                yield from reader.batches()
            finally:
                reader.close()
            self.take(reader.name, reader.facts, reader.digest)
            self.counts.merge(reader.counts)

    def check_crowd(self) -> None:
        """Refuse what is not a whole crowd, or holds more messages than its reports can."""
        self.origin.check_crowd(self.reports, self.counts.total)


def source_list(sources: Sequence[Any]) -> tuple[Any, ...]:
    """Return several sources, for a pattern those that fit it.

    A single one is refused: its letters would be taken for names.
    """
    if isinstance(sources, (str, bytes, os.PathLike)) or not sources:
        raise InvalidInput("message files", "a list of at least one path or stream", sources)
    return tuple(found for one in sources for found in (fitting(one) if is_pattern(one) else [one]))


def _absent(got: str) -> InvalidFile:
    return InvalidFile("message file", "a file", [got], hint="check the path")
