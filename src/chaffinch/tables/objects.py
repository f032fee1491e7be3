"""Tables that are in memory already: Arrow objects, frames, mappings, plain sequences."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from chaffinch.errors import InvalidInput, InvalidTable
from chaffinch.questions import is_missing
from chaffinch.sampling.counting import number_texts
from chaffinch.tables.arrays import Opened

if TYPE_CHECKING:
    import pyarrow as pa

ONLY = "answers"
"""The name of the column that a plain sequence becomes."""


def form_of(source: Any) -> Literal["path", "stream", "reader", "memory"]:
    """Return how a table is given: at a path, as bytes, as batches to be read once, in memory.

    What a frame has is asked of its type: its own attributes may be columns of these names.
    """
    if isinstance(source, (str, os.PathLike)):
        return "path"
    if hasattr(type(source), "read_next_batch"):
        return "reader"
    if isinstance(source, Mapping) or _speaks_arrow(source):
        return "memory"
    # A temporary file hands this on to the file that it wraps, so its type does not have it.
    return "stream" if hasattr(source, "read") else "memory"


def _speaks_arrow(source: Any) -> bool:
    kind = type(source)
    return hasattr(kind, "__arrow_c_stream__") or hasattr(kind, "__arrow_c_array__")


def open_object(source: Any) -> Opened:
    """Return the columns, the number of rows and the reader of something in memory."""
    if form_of(source) == "reader":
        return _read_once(source)
    if isinstance(source, Mapping):
        return _mapping(source)
    if _speaks_arrow(source):
        return _frame(source) if hasattr(type(source), "columns") else _series(source)
    sized = hasattr(source, "__len__") and hasattr(source, "__getitem__")
    if not sized or isinstance(source, (bytes, bytearray)):
        raise InvalidInput(
            "table", "a path, a stream, an Arrow object, a frame or sequences", type(source)
        )
    return _mapping({ONLY: source})


def _read_once(source: Any) -> Opened:
    waiting = [source]

    def stream(_columns: tuple[str, ...], _rows: int) -> Iterator[pa.RecordBatch]:
        if not waiting:
            raise InvalidTable("a table to be read twice", "a reader that was read already")
        yield from _safely(waiting.pop())

    return Opened(source.schema.names, None, stream)


def _frame(source: Any) -> Opened:
    """Read anything with columns that speaks Arrow, converting the chosen columns only."""
    import pyarrow as pa

    arrow = isinstance(source, (pa.Table, pa.RecordBatch))
    names = source.schema.names if arrow else [str(name) for name in source.columns]

    def stream(columns: tuple[str, ...], _rows: int) -> Iterator[pa.RecordBatch]:
        def read() -> Iterator[pa.RecordBatch]:
            chosen = _chosen(source, columns)
            if hasattr(chosen, "__arrow_c_stream__"):
                yield from pa.RecordBatchReader.from_stream(chosen)
            else:
                yield pa.record_batch(chosen)

        yield from _safely(read())

    rows = source.num_rows if arrow else len(source) if hasattr(type(source), "__len__") else None
    return Opened(names, rows, stream)


def _chosen(source: Any, columns: tuple[str, ...]) -> Any:
    import pyarrow as pa

    if isinstance(source, (pa.Table, pa.RecordBatch)):
        return source.select(list(columns))
    try:
        return source[list(columns)]
    except (TypeError, KeyError):
        return source  # one that cannot be narrowed is converted whole


def _series(source: Any) -> Opened:
    import pyarrow as pa

    try:
        whole = source if isinstance(source, pa.Array) else pa.chunked_array(source)
    except (pa.ArrowException, TypeError, ValueError, ArithmeticError):
        raise _unreadable() from None
    table = pa.table({ONLY: whole})
    return _frame(table)


def _mapping(source: Mapping[str, Any]) -> Opened:
    data = {str(name): _sliceable(values) for name, values in source.items()}
    if not all(hasattr(values, "__len__") for values in data.values()):
        raise InvalidInput("table", "made of columns: a sequence for each name", "single values")
    try:
        "".join(data).encode()
    except UnicodeEncodeError:
        raise InvalidTable("one with names of whole characters", "half of one in a name") from None
    lengths = sorted({len(values) for values in data.values()})
    if len(lengths) > 1:
        raise InvalidTable("one with columns of the same length", f"lengths {lengths[:5]}")

    def stream(columns: tuple[str, ...], rows: int) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for start in range(0, lengths[0], rows):
            parts = [
                column_of(_part(data[name], start, rows, name=name), name=name, first_row=start + 1)
                for name in columns
            ]
            yield pa.record_batch(parts, names=list(columns))

    return Opened(list(data), lengths[0] if lengths else 0, stream)


def _part(values: Any, start: int, rows: int, *, name: str) -> Any:
    try:
        return values[start : start + rows]
    except (TypeError, LookupError):
        raise InvalidTable(
            "a list, or another sequence that can be cut",
            f"a {type(values).__name__}",
            column=name,
        ) from None


def _sliceable(values: Any) -> Any:
    # A pandas series is sliced by its labels, an array by places. Arrow's own has neither.
    if hasattr(values, "to_numpy") and hasattr(values, "iloc"):
        values = values.to_numpy()
    objects = isinstance(values, np.ndarray) and values.dtype == object and values.ndim == 1
    return values.tolist() if objects else values


def column_of(values: Any, *, name: str, first_row: int) -> pa.Array:
    """Return values as an Arrow array; kinds that do not mix become text, as in a CSV."""
    import pyarrow as pa

    if isinstance(values, (pa.Array, pa.ChunkedArray)):
        return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    try:
        numbered = number_texts(values) if isinstance(values, list) else None
        if numbered is not None:
            places, different = numbered
            return pa.DictionaryArray.from_arrays(places, pa.array(different, pa.string()))
        made = pa.array(values, from_pandas=True)
        return made.combine_chunks() if isinstance(made, pa.ChunkedArray) else made
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        texts = [
            _text(value, name=name, row=row) for row, value in enumerate(values, start=first_row)
        ]
        return pa.array(texts, pa.string())


def _text(value: Any, *, name: str, row: int) -> str | None:
    if is_missing(value, gaps=()):
        return None
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool):
        return "true" if value else "false"
    try:
        if isinstance(value, (str, int, float)):
            str(value).encode()
            return str(value)
    except ValueError:
        pass  # half a character, or digits without end
    raise InvalidTable(
        "text, a number, true or false", "something else", column=name, row=row
    ) from None


def _safely(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield what a foreign reader yields; its own messages may repeat cells and are dropped."""
    import pyarrow as pa

    try:
        yield from batches
    except (pa.ArrowException, OSError, TypeError, ValueError, ArithmeticError):
        raise _unreadable() from None


def _unreadable() -> InvalidTable:
    return InvalidTable(
        "readable as Arrow columns",
        "one that cannot be converted",
        hint="give every column one type",
    )
