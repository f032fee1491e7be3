"""Write a batch of messages: one column, the facts beside it, and the digest at the end.

A file is Parquet with facts and digest in its footer. A stream is Arrow: its schema holds what
is known at the start, and a last, empty batch holds all facts and the digest.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, BinaryIO, Self

import numpy as np
from numpy.typing import NDArray

from chaffinch.disk.files import AnyPath, Check, atomic
from chaffinch.disk.storage_errors import storage_fault
from chaffinch.errors import InvalidInput, StorageFault, Unquoted, checks
from chaffinch.wire.batches import (
    LARGEST_REPORTS,
    BatchFacts,
    CodeCounts,
    Codes,
    digest_of,
    facts_to_texts,
    new_name,
)

if TYPE_CHECKING:
    import pyarrow as pa

COLUMN = "message"
LARGEST_GROUP = 1 << 20
"""Messages in a row group of Parquet or a batch of a stream; more at once are refused."""
PERMISSIONS = {"encoded": 0o600, "shuffled": 0o666}
"""Who may read messages of either stage: before the shuffle, their owner only."""


class MessageWriter:
    """Write a batch to a Parquet file, or as an Arrow stream to a pipe (``"-"``).

    A file takes its name only when all went well; a stream that did not end well lacks its
    closing record, and no reader accepts it. Messages that are not shuffled yet can be read
    by their owner only. ``check`` refuses to replace what stands in the place of the file.
    """

    def __init__(
        self,
        target: AnyPath | BinaryIO,
        *,
        plan_id: str,
        stage: str,
        space: int,
        round: int = 1,  # noqa: A002
        name: str | None = None,
        format: str | None = None,  # noqa: A002
        check: Check | None = None,
    ) -> None:
        self.facts = BatchFacts(plan_id, stage, 0, space, round, name or new_name())
        self.digest = ""
        self._target = target
        self._check = check
        self._format = checks.choice("format", format or _usual_format(target), tuple(_SINKS))
        self._context: AbstractContextManager[None] | None = None
        self._sink: Any = None
        self._counts = CodeCounts(space)
        self._rows = np.empty(LARGEST_GROUP, np.uint32)
        self._held = 0

    def write(self, codes: NDArray[np.uint32], reports: int) -> None:
        """Add messages that make up so many reports."""
        if self._sink is None:
            raise InvalidInput("writer", "opened with `with` first", Unquoted("a closed one"))
        if codes.dtype != np.uint32 or codes.ndim != 1:
            raise InvalidInput("messages", "a flat array of uint32", codes.dtype)
        if len(codes) and int(codes.max()) >= self.facts.space:
            raise InvalidInput("messages", f"below {self.facts.space}", Unquoted("a larger one"))
        more = checks.whole("number of reports", reports, most=LARGEST_REPORTS)
        self.facts = replace(self.facts, reports=self.facts.reports + more)
        self._counts.add(codes)
        while len(codes):
            part = codes[: LARGEST_GROUP - self._held]
            self._rows[self._held : self._held + len(part)] = part
            self._held += len(part)
            codes = codes[len(part) :]
            if self._held == LARGEST_GROUP:
                self._flush()

    def expect(self, digest: str) -> None:
        """Refuse, before the batch is finished, to write another one than was meant."""
        if digest_of(self.facts, self._counts) != digest:
            raise StorageFault(
                "The messages that are written must be those that were read. Got others.",
                hint="check the disk that temporary files are on; nothing was written",
            )

    def __enter__(self) -> Self:
        self._context = self._open()
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
    def _open(self) -> Iterator[None]:
        with self._open_target() as file:
            self._sink = _SINKS[self._format](file, self.facts)
            try:
                yield
                self._flush()
                self.digest = digest_of(self.facts, self._counts)
                self._sink.finish(facts_to_texts(self.facts, self.digest))
            except BaseException:
                # Without its digest, whatever this still writes is accepted by nobody.
                with suppress(Exception):
                    self._sink.writer.close()
                raise
            finally:
                self._sink = None

    def _open_target(self) -> AbstractContextManager[Any]:
        target = self._target
        if not isinstance(target, (str, os.PathLike)) or target == "-":
            return _open_stream(sys.stdout.buffer if target == "-" else target)
        return atomic(target, check=self._check, permissions=PERMISSIONS[self.facts.stage])

    def _flush(self) -> None:
        if self._held:
            self._sink.write(_record_batch(self._rows[: self._held]))
            self._held = 0


class _ParquetSink:
    """A Parquet file of one flat column.

    Differences packed in bits take 0.07 (space 2) to 0.67 (space 2**20) of the plain size and
    about twice its time, which is less than any general compression takes.
    """

    def __init__(self, file: Any, _facts: BatchFacts | None = None) -> None:
        import pyarrow.parquet as pq

        self.writer = pq.ParquetWriter(
            file,
            message_schema(),
            compression="none",
            use_dictionary=False,
            column_encoding={COLUMN: "DELTA_BINARY_PACKED"},
            write_statistics=False,
            write_page_checksum=True,
            store_schema=False,
        )

    def write(self, batch: pa.RecordBatch) -> None:
        self.writer.write_batch(batch, row_group_size=LARGEST_GROUP)

    def finish(self, metadata: Mapping[str, str]) -> None:
        self.writer.add_key_value_metadata(metadata)
        self.writer.close()


class _StreamSink:
    """An Arrow stream that ends with an empty batch holding the facts and the digest."""

    def __init__(self, file: Any, facts: BatchFacts) -> None:
        import pyarrow as pa

        self.writer = pa.ipc.new_stream(
            file, message_schema().with_metadata(facts_to_texts(facts, ""))
        )

    def write(self, batch: pa.RecordBatch) -> None:
        self.writer.write_batch(batch)

    def finish(self, metadata: Mapping[str, str]) -> None:
        self.writer.write_batch(_record_batch(np.empty(0, np.uint32)), custom_metadata=metadata)
        self.writer.close()


_SINKS = {"parquet": _ParquetSink, "arrow": _StreamSink}


def write_parquet(file: Any, codes: Codes, texts: Mapping[str, str]) -> None:
    """Write messages that are all there, with some texts beside them."""
    sink = _ParquetSink(file)
    for start in range(0, len(codes), LARGEST_GROUP):
        sink.write(_record_batch(codes[start : start + LARGEST_GROUP]))
    sink.finish(texts)


def message_schema() -> pa.Schema:
    """Return the schema of messages: one column of uint32 without gaps."""
    import pyarrow as pa

    return pa.schema([pa.field(COLUMN, pa.uint32(), nullable=False)])


def _record_batch(codes: Codes) -> pa.RecordBatch:
    import pyarrow as pa

    return pa.record_batch([pa.array(codes, pa.uint32())], schema=message_schema())


def _usual_format(target: object) -> str:
    path = isinstance(target, (str, os.PathLike)) and target != "-"
    streamed = not path or Path(os.fspath(target)).suffix in {".arrow", ".arrows", ".ipc"}  # type: ignore[call-overload]
    return "arrow" if streamed else "parquet"


@contextmanager
def _open_stream(file: Any) -> Iterator[Any]:
    try:
        yield file
        file.flush()
    except OSError as error:
        raise storage_fault(str(getattr(file, "name", "stream")), error, verb="write") from None
