"""Tables that are in memory already: Arrow objects, frames, arrays, rows, columns.

Whatever offers the Arrow PyCapsule interface is read through it, without a word about who made it.
The rest is plain Python and numpy. Reading one column never fails for what is in another one.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from chaffinch.errors import InvalidInput, InvalidTable
from chaffinch.questions import is_missing
from chaffinch.sampling.counting import number_texts
from chaffinch.tables.arrays import Opened
from chaffinch.tables.cell_faults import RowNumbers

if TYPE_CHECKING:
    import pyarrow as pa

ONLY = "answers"
"""The name of the column that a plain sequence becomes."""
_ROWS = 1 << 16
"""Rows of Python objects that become Arrow columns at a time, as those of a mapping do."""


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
    if hasattr(type(source), "collect_schema") and hasattr(type(source), "collect"):
        source = _collected(source)
    if _speaks_arrow(source):
        return _frame(source) if _holds_columns(source) else _capsule(source)
    if isinstance(source, np.ndarray):
        return _array(source)
    unfit = isinstance(source, (bytes, bytearray, memoryview, AbstractSet))
    if unfit or not isinstance(source, Iterable):
        raise InvalidInput(
            "table", "a path, a stream, an Arrow object, a frame, rows or columns", type(source)
        )
    return _sequence(source)


# ----------------------------------------------------------------------------
# What speaks Arrow.


def _read_once(source: Any) -> Opened:
    waiting = [source]

    def stream(_columns: tuple[str, ...], _rows: int) -> Iterator[pa.RecordBatch]:
        if not waiting:
            raise InvalidTable("a table to be read twice", "a reader that was read already")
        yield from _safely(waiting.pop())

    return Opened(source.schema.names, None, stream)


def _holds_columns(source: Any) -> bool:
    """Return whether something has its columns in memory.

    A relation has columns, too, but no array: each reading would run its query again, which may
    give other rows.
    """
    return hasattr(type(source), "columns") and hasattr(type(source), "__array__")


def _collected(query: Any) -> Any:
    """Return the frame of a query that was not run yet; what it complains of may show cells."""
    try:
        return query.collect()
    except Exception:  # noqa: BLE001 - any library may have made it, with errors of its own
        raise _unreadable() from None


def _capsule(source: Any) -> Opened:
    """Read a stream of columns, or of one column, to its end: it may be there only once."""
    import pyarrow as pa

    streams = hasattr(type(source), "__arrow_c_stream__")
    try:
        whole = pa.chunked_array(source) if streams else pa.array(source)
    except Exception:  # noqa: BLE001 - as for a query
        # A series of objects of several kinds is no Arrow array, but it is a sequence.
        if not isinstance(source, Iterable):
            raise _unreadable() from None
        return _unnamed(_mapping({ONLY: source}))
    if pa.types.is_struct(whole.type):
        return _frame(pa.Table.from_struct_array(whole))
    return _unnamed(_frame(pa.table({ONLY: whole})))


def _frame(source: Any) -> Opened:
    """Read anything with columns that speaks Arrow, converting the chosen columns only."""
    import pyarrow as pa

    arrow = isinstance(source, (pa.Table, pa.RecordBatch))
    names = source.schema.names if arrow else [str(name) for name in source.columns]

    def stream(columns: tuple[str, ...], rows: int) -> Iterator[pa.RecordBatch]:
        reader = _reader(_chosen(source, names, columns))
        if reader is not None:
            yield from _safely(reader)
        elif not hasattr(type(source), "iloc"):
            raise _unreadable(_first_unreadable(source, names, columns))
        else:
            # A column of pandas may hold objects of any kinds, as a list does.
            places = {name: source.iloc[:, names.index(name)] for name in columns}
            yield from _mapping(places).stream(columns, rows)

    rows = source.num_rows if arrow else len(source) if hasattr(type(source), "__len__") else None
    return Opened(names, rows, stream)


def _reader(source: Any) -> Any | None:
    """Return the batches of a frame, or None where it cannot be converted."""
    import pyarrow as pa

    try:
        if hasattr(source, "__arrow_c_stream__"):
            return pa.RecordBatchReader.from_stream(source)
        return [pa.record_batch(source)]
    except Exception:  # noqa: BLE001 - as for a query
        return None


def _first_unreadable(source: Any, names: Sequence[str], columns: tuple[str, ...]) -> str | None:
    alone = ((name, _reader(_chosen(source, names, (name,)))) for name in columns)
    return next((name for name, reader in alone if reader is None), None)


def _chosen(source: Any, names: Sequence[str], columns: tuple[str, ...]) -> Any:
    import pyarrow as pa

    if isinstance(source, (pa.Table, pa.RecordBatch)):
        return source.select(list(columns))
    if hasattr(type(source), "iloc"):  # by place: a name may be a number
        return source.iloc[:, [names.index(name) for name in columns]]
    try:
        return source[list(columns)]
    except (TypeError, KeyError):
        return source  # one that cannot be narrowed is converted whole


# ----------------------------------------------------------------------------
# Arrays, and sequences of answers, of rows, or of batches.


def _array(array: np.ndarray[Any, Any]) -> Opened:
    if array.ndim != 1:
        raise InvalidTable(
            "one with a name for each column",
            f"an array of {array.ndim} dimensions",
            hint="give the columns: {'name': array[:, 0], 'other': array[:, 1]}",
        )
    if array.dtype.names is None:
        return _sequence(array)
    return _mapping({name: array[name] for name in array.dtype.names})


def _sequence(source: Iterable[Any]) -> Opened:
    """Read rows, batches, or the answers to one question; what comes once is kept."""
    held = hasattr(source, "__len__") and hasattr(source, "__getitem__")
    items = iter(source)
    start = list(islice(items, 1))
    if start and isinstance(start[0], Mapping):
        return _rows(chain(start, items))
    if start and _speaks_arrow(start[0]) and hasattr(type(start[0]), "columns"):
        return _batches(chain(start, items))
    return _unnamed(_mapping({ONLY: source if held else [*start, *items]}))


def _batches(frames: Iterator[Any]) -> Opened:
    opened = [open_object(frame) for frame in frames]
    names = opened[0].columns
    for number, one in enumerate(opened, 1):
        if set(one.columns) != set(names):
            raise InvalidTable("one whose parts have the same columns", f"others in part {number}")
    counts = [one.rows for one in opened]

    def stream(columns: tuple[str, ...], rows: int) -> Iterator[pa.RecordBatch]:
        return chain.from_iterable(one.stream(columns, rows) for one in opened)

    return Opened(names, None if None in counts else sum(filter(None, counts)), stream)


def _rows(rows: Iterator[Any]) -> Opened:
    """Read rows that are mappings. A name that a row lacks is a missing answer.

    They become columns piece by piece, so that few of them are held as Python objects.
    """
    pieces: list[tuple[int, dict[str, pa.Array | InvalidTable]]] = []
    count = 0
    while part := list(islice(rows, _ROWS)):
        for row, one in enumerate(part, count + 1):
            if not isinstance(one, Mapping):
                raise InvalidTable("made of mappings", f"another row {row - 1}, counted from 0")
        columns = {
            str(name): _column_or_fault([one.get(name) for one in part], str(name), count + 1)
            for name in dict.fromkeys(chain.from_iterable(part))
        }
        pieces.append((len(part), columns))
        count += len(part)

    def stream(columns: tuple[str, ...], _rows: int) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for size, found in pieces:
            parts = [found.get(name, pa.nulls(size)) for name in columns]
            for fault in parts:
                if isinstance(fault, InvalidTable):
                    raise fault
            yield pa.record_batch(parts, names=list(columns))

    return Opened(_checked_names(name for _, found in pieces for name in found), count, stream)


def _column_or_fault(cells: list[Any], name: str, first_row: int) -> pa.Array | InvalidTable:
    """Return a column; what is wrong with it matters only to whoever reads it."""
    try:
        return column_of(cells, name=name, first_row=first_row)
    except InvalidTable as fault:
        return fault


# ----------------------------------------------------------------------------
# Columns.


def _unnamed(opened: Opened) -> Opened:
    return replace(opened, unnamed=True)


def _mapping(source: Mapping[str, Any]) -> Opened:
    data = {str(name): _sliceable(values) for name, values in source.items()}
    if not all(hasattr(values, "__len__") for values in data.values()):
        raise InvalidInput("table", "made of columns: a sequence for each name", "single values")
    names = _checked_names(data)
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

    return Opened(names, lengths[0] if lengths else 0, stream)


def _checked_names(names: Iterable[str]) -> list[str]:
    different = list(dict.fromkeys(names))
    try:
        "".join(different).encode()
    except UnicodeEncodeError:
        raise InvalidTable("one with names of whole characters", "half of one in a name") from None
    return different


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
    if not isinstance(values, np.ndarray) or values.ndim != 1:
        return values
    if values.dtype == object:
        return values.tolist()
    # Arrow takes numbers only as this machine writes them.
    return values if values.dtype.isnative else values.astype(values.dtype.newbyteorder("="))


def column_of(
    values: Any,
    *,
    name: str,
    first_row: int,
    numbers: RowNumbers = RowNumbers.POSITIONS,
) -> pa.Array:
    """Return values as an Arrow array; kinds that do not mix become text, as in a CSV.

    The first is that of the ``first_row``, and an error counts rows by ``numbers``.
    """
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
            _text(value, name=name, row=row, numbers=numbers)
            for row, value in enumerate(values, start=first_row)
        ]
        return pa.array(texts, pa.string())


def _text(value: Any, *, name: str, row: int, numbers: RowNumbers) -> str | None:
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
        "text, a number, true or false",
        "something else",
        column=name,
        row=numbers.of(row),
        counted=numbers.counted,
    ) from None


def _safely(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield what a foreign reader yields; its own messages may repeat cells and are dropped."""
    try:
        yield from batches
    except Exception:  # noqa: BLE001 - as for a query
        raise _unreadable() from None


def _unreadable(column: str | None = None) -> InvalidTable:
    return InvalidTable(
        "readable as Arrow columns" if column is None else "readable as an Arrow column",
        "one that cannot be converted",
        column=column,
        hint="give every column one type",
    )
