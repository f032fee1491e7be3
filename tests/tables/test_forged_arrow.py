"""Arrow streams that stand for more than anybody can hold: refused, in little memory and time."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from chaffinch.errors import InvalidTable
from chaffinch.tables.read import open_table
from tests.disk.containers import limited, old_arrow
from tests.tiers import all_but

MOST = 2**31 - 1
ROWS = 12_345
"""A number that no other part of a small stream has."""
LONG = "x" * (10 << 20)


def stream(batches: list[pa.RecordBatch], **options: Any) -> bytes:
    sink = io.BytesIO()
    written = pa.ipc.IpcWriteOptions(**options)
    with pa.ipc.new_stream(sink, batches[0].schema, options=written) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return sink.getvalue()


def column(array: pa.Array, **options: Any) -> bytes:
    return stream([pa.record_batch({"a": array})], **options)


def said(content: bytes, number: int, other: int) -> bytes:
    """Return a stream in which a number of 64 bits is another wherever it stands."""
    before = number.to_bytes(8, "little")
    assert before in content
    return content.replace(before, other.to_bytes(8, "little", signed=True))


def one_list(values: pa.Array) -> pa.Array:
    return pa.ListArray.from_arrays(pa.array([0, len(values)], pa.int32()), values)


def gaps_without_end() -> bytes:
    return said(column(pa.nulls(ROWS)), ROWS, 1 << 40)


def batches_of_gaps() -> bytes:
    return stream([pa.record_batch({"a": pa.nulls(1 << 28)})] * 1000)


def records_without_end() -> bytes:
    return said(column(pa.StructArray.from_arrays([pa.nulls(ROWS)], ["x"])), ROWS, 1 << 40)


def no_bytes_many_times() -> bytes:
    return said(column(pa.array([None] * ROWS, pa.binary(0))), ROWS, 1 << 40)


def fewer_rows_than_none() -> bytes:
    return said(column(pa.nulls(ROWS)), ROWS, -1)


def a_long_list_of_gaps() -> bytes:
    return column(one_list(pa.nulls(MOST)))


def a_long_list_of_fixed_size() -> bytes:
    return column(pa.FixedSizeListArray.from_arrays(pa.nulls(MOST), MOST))


def a_long_list_in_a_record() -> bytes:
    return column(pa.StructArray.from_arrays([one_list(pa.nulls(MOST))], ["x"]))


def a_long_list_of_records() -> bytes:
    inner = [pa.nulls(1 << 24)] * 20
    return column(one_list(pa.StructArray.from_arrays(inner, [str(at) for at in range(20)])))


def the_same_list_many_times() -> bytes:
    starts, sizes = pa.array([0] * 1000, pa.int32()), pa.array([10_000] * 1000, pa.int32())
    return column(pa.ListViewArray.from_arrays(starts, sizes, pa.array(["x" * 1000] * 10_000)))


def a_list_in_a_dictionary() -> bytes:
    places = pa.array([0] * 100_000, pa.int32())
    return column(pa.DictionaryArray.from_arrays(places, pa.array([["x" * 1000] * 1000])))


def a_map() -> bytes:
    names = pa.array(["x"] * 10)
    return column(pa.MapArray.from_arrays(pa.array([0, 10], pa.int32()), names, names))


def a_union() -> bytes:
    return column(pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array(["x"])]))


def a_dictionary_that_grows() -> bytes:
    values: list[str] = []
    batches = []
    for _ in range(14):
        values.append(LONG)
        array = pa.DictionaryArray.from_arrays(pa.array([0], pa.int32()), pa.array(values))
        batches.append(pa.record_batch({"a": array}))
    return stream(batches, emit_dictionary_deltas=True, compression="zstd")


def many_dictionaries() -> bytes:
    array = pa.DictionaryArray.from_arrays(pa.array([0], pa.int32()), pa.array([LONG]))
    return stream(
        [pa.record_batch({f"{at}": array for at in range(30)})],
        compression="zstd",
    )


def zeros() -> bytes:
    return column(pa.array(np.zeros(1 << 27, np.int64)), compression="lz4")


def a_long_header() -> bytes:
    return b"\xff\xff\xff\xff" + (MOST - 7).to_bytes(4, "little") + bytes(1000)


def a_long_body() -> bytes:
    return said(column(pa.array(np.arange(1000))), 8000, 1 << 33)


def a_buffer_of_negative_size() -> bytes:
    """A size that is taken off again after a large one was unpacked."""
    packed = column(pa.array(np.zeros(1 << 16, np.int64)), compression="zstd")
    return said(packed, 8 << 16, -2)


def zeros_packed_in_the_old_way() -> bytes:
    return old_arrow.stream(pa.record_batch({"a": np.zeros(1 << 27, np.int64)}))


FORGED: list[Callable[[], bytes]] = [
    gaps_without_end,
    batches_of_gaps,
    records_without_end,
    no_bytes_many_times,
    fewer_rows_than_none,
    a_long_list_of_gaps,
    a_long_list_of_fixed_size,
    a_long_list_in_a_record,
    a_long_list_of_records,
    the_same_list_many_times,
    a_list_in_a_dictionary,
    a_map,
    a_union,
    a_dictionary_that_grows,
    many_dictionaries,
    zeros,
    a_long_header,
    a_long_body,
    a_buffer_of_negative_size,
    zeros_packed_in_the_old_way,
]


@pytest.mark.parametrize(
    "make",
    all_but(FORGED, a_dictionary_that_grows, a_long_list_of_fixed_size),
    ids=lambda make: make.__name__,
)
def test_a_forged_stream_is_refused(make: Callable[[], bytes], tmp_path: Path) -> None:
    (tmp_path / "a.arrow").write_bytes(make())
    assert limited.read_table(tmp_path / "a.arrow") == "invalid-table"


VERSIONS = pa.ipc.MetadataVersion


@pytest.mark.parametrize("version", [VERSIONS.V4, VERSIONS.V5])
def test_only_the_stable_version_of_the_format_is_read(version: Any) -> None:
    content = column(pa.array(["yes"]), metadata_version=version)
    if version == VERSIONS.V5:
        assert open_table(io.BytesIO(content), format="arrow").columns == ("a",)
    else:
        with pytest.raises(InvalidTable, match=r"of version 5 of the Arrow format.*another"):
            open_table(io.BytesIO(content), format="arrow")


def test_the_old_word_for_compression_is_refused() -> None:
    """Nobody reads it in a message of the stable version, and nobody writes it."""
    sink = io.BytesIO()
    batch = pa.record_batch({"a": ["yes"]})
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch, custom_metadata=old_arrow.OLD)
    table = open_table(sink, format="arrow")
    with pytest.raises(InvalidTable, match="another version"):
        list(table.batches(["a"]))
