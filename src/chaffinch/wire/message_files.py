"""Messages between encoding, shuffling and analysis: one column, and a few facts beside it.

A file is Parquet with the facts in its footer. A stream is Arrow: its schema holds what is
known at the start, and a last, empty batch holds the number of reports. A stream without
that batch was cut off, and is refused.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, BinaryIO, Self

import numpy as np
from numpy.typing import NDArray

from chaffinch import checks
from chaffinch.errors import InvalidFile, InvalidInput, InvalidTable, PlanMismatch, Reason
from chaffinch.files import (
    Source,
    atomic,
    from_path,
    from_stream,
    reading,
    standard_input,
    storage_fault,
)

if TYPE_CHECKING:
    import pyarrow as pa

COLUMN = "message"
_GROUP = 1 << 20


class MessageWriter:
    """Write messages to a Parquet file, or as an Arrow stream to a pipe (``"-"``).

    A file takes its name only when all went well; a stream that did not end well lacks its
    closing record, and no reader accepts it.
    """

    def __init__(
        self,
        target: str | os.PathLike[str] | BinaryIO,
        *,
        plan_id: str,
        stage: str,
        space: int,
        format: str | None = None,  # noqa: A002
    ) -> None:
        self.facts = MessageFacts(plan_id, stage, 0, space, secrets.token_hex(16))
        self._target = target
        self._format = checks.choice("format", format or _usual(target), tuple(_SINKS))
        self._context: AbstractContextManager[None] | None = None
        self._sink: Any = None
        self._rows = np.empty(_GROUP, np.uint32)
        self._held = 0

    def write(self, codes: NDArray[np.uint32], reports: int) -> None:
        """Add messages that make up so many reports."""
        if self._sink is None:
            raise InvalidInput("writer", "opened with `with` first", "a closed one")
        if codes.dtype != np.uint32 or codes.ndim != 1:
            raise InvalidInput("messages", "a flat array of uint32", codes.dtype)
        if len(codes) and int(codes.max()) >= self.facts.space:
            raise InvalidInput("messages", f"below {self.facts.space}", "a larger one")
        more = checks.whole("number of reports", reports, most=LARGEST_REPORTS)
        self.facts = replace(self.facts, reports=self.facts.reports + more)
        while len(codes):
            part = codes[: _GROUP - self._held]
            self._rows[self._held : self._held + len(part)] = part
            self._held += len(part)
            codes = codes[len(part) :]
            if self._held == _GROUP:
                self._flush()

    def __enter__(self) -> Self:
        self._context = self._opened()
        self._context.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._context is not None:
            self._context.__exit__(kind, error, trace)

    @contextmanager
    def _opened(self) -> Iterator[None]:
        with _file(self._target) as file:
            self._sink = _SINKS[self._format](file, self.facts)
            try:
                yield
                self._flush()
                self._sink.finish(self.facts)
            except BaseException:
                # Without its facts, whatever this still writes is accepted by nobody.
                with suppress(Exception):
                    self._sink.writer.close()
                raise
            finally:
                self._sink = None

    def _flush(self) -> None:
        if self._held:
            self._sink.write(_batch(self._rows[: self._held]))
            self._held = 0


class _ParquetSink:
    """A Parquet file of one flat column.

    Differences packed in bits take 0.07 (space 2) to 0.67 (space 2**20) of the plain size and
    about twice its time, which is less than any general compression takes. Every page carries
    a checksum.
    """

    def __init__(self, file: Any, facts: MessageFacts) -> None:
        import pyarrow.parquet as pq

        del facts
        self.writer = pq.ParquetWriter(
            file,
            schema(),
            compression="none",
            use_dictionary=False,
            column_encoding={COLUMN: "DELTA_BINARY_PACKED"},
            write_statistics=False,
            write_page_checksum=True,
        )

    def write(self, batch: pa.RecordBatch) -> None:
        self.writer.write_batch(batch, row_group_size=_GROUP)

    def finish(self, facts: MessageFacts) -> None:
        self.writer.add_key_value_metadata(facts.metadata())
        self.writer.close()


class _StreamSink:
    """An Arrow stream that ends with an empty batch holding the facts."""

    def __init__(self, file: Any, facts: MessageFacts) -> None:
        import pyarrow as pa

        self.writer = pa.ipc.new_stream(file, schema().with_metadata(facts.metadata()))

    def write(self, batch: pa.RecordBatch) -> None:
        self.writer.write_batch(batch)

    def finish(self, facts: MessageFacts) -> None:
        self.writer.write_batch(_batch(np.empty(0, np.uint32)), custom_metadata=facts.metadata())
        self.writer.close()


_SINKS = {"parquet": _ParquetSink, "arrow": _StreamSink}


def schema() -> pa.Schema:
    """Return the schema of messages: one column of uint32 without gaps."""
    import pyarrow as pa

    return pa.schema([pa.field(COLUMN, pa.uint32(), nullable=False)])


def _batch(codes: NDArray[np.uint32]) -> pa.RecordBatch:
    import pyarrow as pa

    return pa.record_batch([pa.array(codes, pa.uint32())], schema=schema())


def _usual(target: object) -> str:
    path = isinstance(target, (str, os.PathLike)) and target != "-"
    streamed = not path or Path(os.fspath(target)).suffix in {".arrow", ".arrows", ".ipc"}  # type: ignore[call-overload]
    return "arrow" if streamed else "parquet"


@contextmanager
def _file(target: Any) -> Iterator[Any]:
    if isinstance(target, (str, os.PathLike)) and target != "-":
        with atomic(target) as file:
            yield file
        return
    file = sys.stdout.buffer if target == "-" else target
    try:
        yield file
        file.flush()
    except OSError as error:
        raise storage_fault(str(getattr(file, "name", "stream")), error, verb="write") from None


# ----------------------------------------------------------------------------
# Messages read back, from one file or several, a batch at a time.

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
        raise InvalidFile(
            "message file",
            "an intact file",
            [f"{error.got}."],
            hint=error.hint,
            reason=Reason.DAMAGED,
        ) from None


# ----------------------------------------------------------------------------
# What is known of a batch of messages without reading them, and how a file says so.

LARGEST_SPACE = 2**32
LARGEST_REPORTS = 10**12
STAGES = ("encoded", "shuffled")
_PREFIX = "chaffinch."
_VERSION = "1"


@dataclass(frozen=True)
class MessageFacts:
    """Which plan made the messages, how far they came, and how many reports they are.

    ``space`` is the number of different messages that the plan knows.
    """

    plan_id: str
    stage: str
    reports: int
    space: int
    batch: str = field(default="", compare=False)
    """A random name of this file's content: two batches never have the same one."""

    def __post_init__(self) -> None:
        plan: object = self.plan_id
        if not (isinstance(plan, str) and plan.isascii() and plan.isprintable() and plan):
            raise InvalidInput("plan id", "a text of printable ASCII characters", plan)
        checks.choice("stage of the messages", self.stage, STAGES)
        if not re.fullmatch(r"([0-9a-f]{32})?", self.batch):
            raise InvalidInput("batch", "32 hexadecimal digits", self.batch)
        checks.whole("number of reports", self.reports, most=LARGEST_REPORTS)
        checks.whole("number of possible messages", self.space, least=1, most=LARGEST_SPACE)

    def metadata(self) -> dict[str, str]:
        """Return the facts as texts, the way files keep them."""
        texts = {name: str(value) for name, value in asdict(self).items()}
        return {f"{_PREFIX}{name}": text for name, text in ({"messages": _VERSION} | texts).items()}


def facts_from(name: str, metadata: Mapping[bytes, bytes] | None) -> MessageFacts:
    """Return the facts that a file keeps; a file with any fact amiss is refused."""
    texts = {
        key.decode("utf-8", "replace").removeprefix(_PREFIX): value.decode("utf-8", "replace")
        for key, value in (metadata or {}).items()
    }
    version = texts.get("messages")
    if version != _VERSION:
        fault = "no mark of one" if version is None else "one of another version"
        raise InvalidFile(_title(name), "a file of chaffinch messages", [f"{fault}."])
    faults = [
        f"no {fact!r}"
        for fact in ("plan_id", "stage", "reports", "space", "batch")
        if fact not in texts
    ]
    faults += [
        f"a {fact!r} that is no number"
        for fact in ("reports", "space")
        if fact in texts and not (texts[fact].isdecimal() and len(texts[fact]) < 16)
    ]
    if not faults:
        try:
            return MessageFacts(
                texts["plan_id"],
                texts["stage"],
                int(texts["reports"]),
                int(texts["space"]),
                texts["batch"],
            )
        except InvalidInput as error:
            faults = [f"another {error.parameter}"]
    raise InvalidFile(_title(name), "one with all facts of its messages", faults)


def _title(name: str) -> str:
    return f"message file {name!r}"


# ----------------------------------------------------------------------------
# The files and streams of messages between encoding, shuffling and analysis.

__all__ = ["MessageFacts", "MessageReader", "MessageWriter", "Messages", "open_messages"]
