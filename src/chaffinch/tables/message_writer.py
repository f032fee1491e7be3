"""Messages between encoding, shuffling and analysis: one column, and a few facts beside it.

A file is Parquet with the facts in its footer. A stream is Arrow: its schema holds what is
known at the start, and a last, empty batch holds the number of reports. A stream without
that batch was cut off, and is refused.
"""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, BinaryIO, Self

import numpy as np
from numpy.typing import NDArray

from chaffinch import checks
from chaffinch.errors import InvalidInput
from chaffinch.tables.facts import LARGEST_REPORTS, MessageFacts
from chaffinch.tables.faults import storage_fault
from chaffinch.tables.write import atomic

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
