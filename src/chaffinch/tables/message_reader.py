"""Messages read back, from one file or several, a batch at a time."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from chaffinch.errors import InvalidFile, InvalidInput, InvalidTable, PlanMismatch
from chaffinch.tables.facts import MessageFacts, facts_from
from chaffinch.tables.faults import reading
from chaffinch.tables.message_writer import schema
from chaffinch.tables.sources import Source, from_path, from_stream, standard_input

_ROWS = 1 << 17
_Numbers = NDArray[np.uint32]


class MessageReader:
    """Read messages from a path, ``"-"`` or a binary stream.

    ``start`` holds the facts known at once; ``facts`` holds all of them, which for an Arrow
    stream is after the last batch, where the number of reports is.
    """

    def __init__(self, source: str | os.PathLike[str] | BinaryIO) -> None:
        with _as_file():
            self._source = _source(source)
        self.name = self._source.name
        parquet = self._source.head.startswith(b"PAR1")
        opened = _open_parquet if parquet else _open_stream
        with _as_file(), reading(self.name, "message"):
            self.start, self._batches = opened(self._source)
        self._facts = self.start if parquet else None

    @property
    def facts(self) -> MessageFacts:
        """Return all facts."""
        if self._facts is None:
            raise InvalidInput("facts of a stream", "asked for after its last batch", "too early")
        return self._facts

    def batches(self) -> Iterator[_Numbers]:
        """Yield the messages; do not write to the arrays."""
        with _as_file(), reading(self.name, "message"):
            for column, closing in self._batches():
                if closing is not None:
                    self._facts = facts_from(self.name, closing)
                    _agree(self.name, self._facts, self.start)
                if column.null_count:
                    raise _wrong(self.name, "without gaps", "a gap")
                numbers: _Numbers = column.to_numpy()
                if len(numbers) and int(numbers.max()) >= self.start.space:
                    raise _wrong(self.name, f"below {self.start.space}", "a larger message")
                if len(numbers):
                    yield numbers


class Messages:
    """Messages of one plan from several files, read as one."""

    def __init__(self, readers: Sequence[MessageReader]) -> None:
        self._readers = tuple(readers)
        for reader in self._readers[1:]:
            _agree(reader.name, reader.start, self._readers[0].start)
        self.start = self._readers[0].start

    @property
    def facts(self) -> MessageFacts:
        """Return the facts with the reports of all files together."""
        found = [reader.facts for reader in self._readers]
        reports = sum(facts.reports for facts in found)
        return replace(found[0], reports=reports, batch=_together([f.batch for f in found]))

    def batches(self) -> Iterator[_Numbers]:
        """Yield the messages of one file after the other."""
        for reader in self._readers:
            yield from reader.batches()


def open_messages(sources: Sequence[Any]) -> Messages:
    """Open files and streams whose messages belong together, none of them twice."""
    if isinstance(sources, (str, os.PathLike)) or not sources:
        raise InvalidInput("message files", "a list of at least one path or stream", sources)
    places = [place_of(source) for source in sources]
    if len(set(places)) < len(places):
        raise InvalidInput("message files", "all different", "one of them twice")
    return Messages([MessageReader(source) for source in sources])


def place_of(source: Any) -> object:
    """Return what tells one source from another."""
    if not isinstance(source, (str, os.PathLike)):
        return id(source)
    return source if source == "-" else os.path.realpath(source)


def _together(batches: Sequence[str]) -> str:
    """Return one name for several batches, whatever their order; none if one has none."""
    if len(batches) == 1 or not all(batches):
        return batches[0] if all(batches) else ""
    return hashlib.sha256(" ".join(sorted(batches)).encode()).hexdigest()[:32]


def _source(source: Any) -> Source:
    if not isinstance(source, (str, os.PathLike)):
        return from_stream(source)
    return standard_input() if source == "-" else from_path(Path(source))


_Read = Callable[[], Iterator[tuple[Any, Any]]]


def _open_parquet(source: Source) -> tuple[MessageFacts, _Read]:
    import pyarrow.parquet as pq

    if not source.seekable:
        raise _wrong(source.name, "a file, or an Arrow stream", "Parquet from a pipe")
    with source.open() as file:
        found = pq.ParquetFile(file)
        facts = facts_from(source.name, found.metadata.metadata)
        _check(source.name, found.schema_arrow)

    def read() -> Iterator[tuple[Any, Any]]:
        with source.open() as file:
            opened = pq.ParquetFile(
                file, page_checksum_verification=True, buffer_size=1 << 20, pre_buffer=False
            )
            for batch in opened.iter_batches(_ROWS, use_threads=False):
                yield batch.column(0), None

    return facts, read


def _open_stream(source: Source) -> tuple[MessageFacts, _Read]:
    import pyarrow as pa

    with ExitStack() as stack:
        file = stack.enter_context(source.open())
        stream = pa.ipc.open_stream(file)
        facts = facts_from(source.name, stream.schema.metadata)
        _check(source.name, stream.schema)
        waiting = []
        if not source.seekable:
            # What comes through a pipe cannot be opened again.
            waiting.append((file, stream))
            stack.pop_all()

    def read() -> Iterator[tuple[Any, Any]]:
        if not waiting:
            again = source.open()
            waiting.append((again, pa.ipc.open_stream(again)))
        file, stream = waiting.pop()
        closing = None
        with file:
            while closing is None:
                try:
                    batch, closing = stream.read_next_batch_with_custom_metadata()
                except StopIteration:
                    raise EOFError from None
                yield batch.column(0), closing

    return facts, read


def _check(name: str, found: Any) -> None:
    if not found.remove_metadata().equals(schema()):
        raise _wrong(name, "one column 'message' of uint32 without gaps", "other columns")


def _agree(name: str, found: MessageFacts, first: MessageFacts) -> None:
    if found.plan_id != first.plan_id:
        raise PlanMismatch(f"message file {name!r}", expected=first.plan_id, found=found.plan_id)
    faults = [
        f"another {fact}"
        for fact in ("stage", "space")
        if getattr(found, fact) != getattr(first, fact)
    ]
    if faults:
        raise _wrong(name, "like the files before it", *faults)


def _wrong(name: str, must_be: str, *faults: str) -> InvalidFile:
    return InvalidFile(f"message file {name!r}", must_be, list(faults))


@contextmanager
def _as_file() -> Iterator[None]:
    """Call a damaged table what it is here: a damaged file of messages."""
    try:
        yield
    except InvalidTable as error:
        got = error.message.rpartition("Got ")[2]
        raise InvalidFile("message file", "an intact file", [got], hint=error.hint) from None
