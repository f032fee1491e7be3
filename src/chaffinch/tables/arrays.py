"""Arrow arrays as their plain values, in parts of bounded size, and what every format gives.

An array can stand for far more than it takes up: a dictionary, a run or a view holds a long
value once and is pointed to from a million rows. So batches are cut by the bytes that their
plain values will take, not by rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from chaffinch.errors import InvalidTable
from chaffinch.tables.limits import BATCH_BYTES

if TYPE_CHECKING:
    import pyarrow as pa

_DECIMAL_BITS = 128
Stream = Callable[[tuple[str, ...], int], "Iterator[pa.RecordBatch]"]


@dataclass(frozen=True)
class Opened:
    """What a format knows of a table."""

    columns: Sequence[str]
    rows: int | None
    stream: Stream
    notes: Sequence[str] = ()
    """What was guessed, in words."""
    separator: str | None = None
    """What stands between the cells of a text."""
    groups: tuple[int, ...] = ()
    """The rows of each group of them that can be read apart from the others."""
    unnamed: bool = False
    """Whether it is one column that nobody has named."""


def check_kinds(schema: pa.Schema) -> None:
    """Refuse columns that can say the same values over and over and cannot be cut.

    What a view of lists, or a dictionary of lists, stands for is known only when it is unfolded.
    """
    for field in schema:
        if not _can_be_cut(field.type):
            raise InvalidTable(
                "of texts, numbers, truth values, or lists or records of these",
                "a column of another kind",
                column=field.name,
                hint="write the column in another way",
            )


def _can_be_cut(kind: pa.DataType) -> bool:
    import pyarrow as pa

    types = pa.types
    if isinstance(kind, pa.BaseExtensionType):
        return _can_be_cut(kind.storage_type)
    if types.is_dictionary(kind) or types.is_run_end_encoded(kind):
        return not types.is_nested(kind.value_type)
    views = types.is_list_view(kind) or types.is_large_list_view(kind)
    if views or types.is_union(kind) or types.is_map(kind):
        return False
    inner = range(kind.num_fields if types.is_nested(kind) else 0)
    return all(_can_be_cut(kind.field(number).type) for number in inner)


def cut_batch(batch: pa.RecordBatch, rows: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a batch in parts of at most ``rows``, and of a bounded size."""
    for start in range(0, batch.num_rows, rows):
        waiting = [batch.slice(start, rows)]
        while waiting:
            part = waiting.pop()
            size = sum(_plain_size(column) for column in part.columns)
            if size <= BATCH_BYTES:
                yield part
            elif part.num_rows == 1:
                raise InvalidTable(
                    f"one with rows of at most {BATCH_BYTES >> 20} MiB",
                    "a row that takes up more",
                    hint="an answer is short: check what the column holds",
                )
            else:
                half = part.num_rows // 2
                waiting += [part.slice(half), part.slice(0, half)]


def _plain_size(array: pa.Array) -> int:
    import numpy as np
    import pyarrow as pa

    kind = array.type
    if isinstance(kind, pa.BaseExtensionType):
        return _plain_size(array.storage)
    if pa.types.is_dictionary(kind):
        sizes = _value_sizes(array.dictionary)
        places = array.indices.fill_null(0).to_numpy(zero_copy_only=False)
        return int(sizes[places].sum()) if len(sizes) else 0
    if pa.types.is_run_end_encoded(kind):
        sizes = _value_sizes(array.values)
        return int(sizes.max(initial=0)) * len(array)
    if pa.types.is_string_view(kind) or pa.types.is_binary_view(kind):
        return int(_value_sizes(array).sum(dtype=np.int64))
    if pa.types.is_nested(kind):
        # Lists and records become Python objects, of which each takes a pointer and more.
        inside = array.flatten() if pa.types.is_struct(kind) else [array.flatten()]
        return sum(_plain_size(values) + 64 * len(values) for values in inside)
    return int(array.nbytes)


def _value_sizes(array: pa.Array) -> Any:
    import numpy as np
    import pyarrow as pa
    from pyarrow import compute

    kind = array.type
    if isinstance(kind, pa.BaseExtensionType):
        return _value_sizes(array.storage)
    if pa.types.is_string_view(kind) or pa.types.is_binary_view(kind):
        # The lengths of views stand in their first four bytes; asking Arrow would copy them all.
        views = np.frombuffer(array.buffers()[1], np.int32).reshape(-1, 4)
        return views[array.offset : array.offset + len(array), 0].astype(np.int64)
    try:
        lengths = compute.binary_length(array)
    except pa.ArrowNotImplementedError:
        return np.full(len(array), array.nbytes if len(array) else 0, np.int64)
    return lengths.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)


def is_text(kind: pa.DataType) -> bool:
    """Return whether plain values of a type are texts."""
    import pyarrow as pa

    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def plain_array(array: pa.Array) -> pa.Array:
    """Return an array without dictionary, run-end, view or extension types around it.

    Short decimals, with which Arrow can do little, become long ones.

    >>> import pyarrow as pa
    >>> plain_array(pa.array(["tea", None, "tea"]).dictionary_encode()).to_pylist()
    ['tea', None, 'tea']
    """
    import pyarrow as pa
    from pyarrow import compute

    kind = array.type
    if isinstance(kind, pa.BaseExtensionType):
        return plain_array(array.storage)
    if pa.types.is_dictionary(kind):
        # Arrow cannot decode every kind of value, but it can take them all.
        return plain_array(array.dictionary).take(array.indices)
    if pa.types.is_run_end_encoded(kind):
        return plain_array(compute.run_end_decode(array))
    if pa.types.is_string_view(kind):
        return array.cast(pa.large_string())
    if pa.types.is_decimal(kind) and kind.bit_width < _DECIMAL_BITS:
        return array.cast(pa.decimal128(38, kind.scale))
    return array.cast(pa.large_binary()) if pa.types.is_binary_view(kind) else array


class Unreadable:
    """In the place of a cell that Python cannot hold, such as a time of the year 10000."""

    def __repr__(self) -> str:
        return "<Unreadable>"


UNREADABLE = Unreadable()
"""It is no answer, and nobody's name."""


def values_of(array: pa.Array) -> list[Any]:
    """Return the values of an array as Python objects.

    What Arrow raises where there is none would show the cell.

    >>> import pyarrow as pa
    >>> values_of(pa.array([1, None])), values_of(pa.array([2**40], pa.timestamp("s")))
    ([1, None], [<Unreadable>])
    """
    import pyarrow as pa

    def value_of(cell: pa.Scalar) -> Any:
        try:
            return cell.as_py()
        except (pa.ArrowException, ArithmeticError, ValueError):
            return UNREADABLE

    try:
        return list(array.to_pylist())
    except (pa.ArrowException, ArithmeticError, ValueError):
        return [value_of(cell) for cell in array]


def rows_of(batch: pa.RecordBatch, keep: Any) -> pa.RecordBatch:
    """Return the rows of a batch that ``keep`` is true of, an array of truth values.

    Arrow cannot take some rows of every kind of column, such as the texts of polars, but of what
    they stand for it can.

    >>> import pyarrow as pa
    >>> views = pa.record_batch({"tea": pa.array(["yes", "no"], pa.string_view())})
    >>> rows_of(views, [False, True]).to_pydict()
    {'tea': ['no']}
    """
    import pyarrow as pa

    columns = [
        column if pa.types.is_dictionary(column.type) else plain_array(column)
        for column in batch.columns
    ]
    return pa.record_batch(columns, names=batch.schema.names).filter(pa.array(keep))
