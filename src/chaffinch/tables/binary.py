"""Parquet and Arrow files: typed columns, of which only the chosen ones are decoded."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from chaffinch.errors import InvalidTable
from chaffinch.files import Source, reading

if TYPE_CHECKING:
    import pyarrow as pa

_Opened = tuple[Sequence[str], int | None, Callable[[tuple[str, ...], int], "Iterator[Any]"]]
_FILE = b"ARROW1"


def open_parquet(source: Source) -> _Opened:
    """Open a Parquet file; its table of contents is at the end, so a pipe will not do."""
    import pyarrow.parquet as pq

    if not source.seekable:
        raise InvalidTable(
            "one that can be read in order",
            f"Parquet {'under gzip' if source.zipped else 'from a pipe'}",
            hint="name a Parquet file, or pipe CSV, JSONL or an Arrow stream",
        )
    with source.open() as file, reading(source.name, "Parquet"):
        found = pq.ParquetFile(file)
        names, rows = found.schema_arrow.names, found.metadata.num_rows

    def stream(columns: tuple[str, ...], size: int) -> Iterator[pa.RecordBatch]:
        with source.open() as file, reading(source.name, "Parquet"):
            opened = pq.ParquetFile(
                file,
                buffer_size=1 << 20,
                pre_buffer=False,  # it would hold the whole file
                page_checksum_verification=True,
            )
            # One thread decodes ahead of nobody: the memory stays at one batch per column.
            yield from opened.iter_batches(size, columns=list(columns), use_threads=False)

    return names, rows, stream


def open_arrow(source: Source) -> _Opened:
    """Open an Arrow file or an Arrow stream, from a path or from a pipe."""
    import pyarrow as pa

    if not source.seekable:
        return _arrow_pipe(source)
    starter = pa.ipc.open_file if _start(source) else pa.ipc.open_stream
    with source.open() as file, reading(source.name, "Arrow"):
        names = starter(file).schema.names

    def stream(columns: tuple[str, ...], _size: int) -> Iterator[pa.RecordBatch]:
        options = pa.ipc.IpcReadOptions(included_fields=[names.index(name) for name in columns])
        with source.open() as file, reading(source.name, "Arrow"):
            opened = starter(file, options=options)
            jumps = range(getattr(opened, "num_record_batches", 0))
            yield from map(_valid, map(opened.get_batch, jumps) if _start(source) else opened)

    return names, None, stream


def _arrow_pipe(source: Source) -> _Opened:
    import pyarrow as pa

    # A file is its magic, then a stream, then a footer that ends in the magic again.
    file = source.open()
    with reading(source.name, "Arrow"):
        file.read(_start(source))
        waiting = [pa.ipc.open_stream(file)]
        names = waiting[0].schema.names

    def stream(columns: tuple[str, ...], _size: int) -> Iterator[pa.RecordBatch]:
        if not waiting:
            source.open()
        with file, reading(source.name, "Arrow"):
            for batch in waiting.pop():
                yield _valid(batch.select(list(columns)))
            if _start(source) and not file.read().endswith(_FILE):
                raise EOFError

    return names, None, stream


def _valid(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch whose offsets were checked, which the format leaves to the reader."""
    batch.validate(full=True)
    return batch


def _start(source: Source) -> int:
    return 8 if source.head.startswith(_FILE) else 0
