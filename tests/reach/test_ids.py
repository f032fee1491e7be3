"""Ids from tables: one id is one digest, whatever the table is kept in."""

from __future__ import annotations

import datetime as dt
import decimal
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import compute

from chaffinch.errors import InvalidInput, InvalidTable
from chaffinch.reach.publisher.ids import IdReader, Spelled
from chaffinch.tables.read import Table, open_table
from tests.cases import each_case
from tests.reach.publishing import siphash

KEY = bytes(range(16))
CANARY = "canary@example.org"


def digests_of(source: Any, **options: Any) -> list[int]:
    """Return the digests of all ids of a table."""
    table = source if isinstance(source, Table) else open_table(source)
    reader = IdReader(table, key=KEY, **options)
    found, what = [], Spelled()
    for batch in reader.batches():
        digests, part = reader.digests(*batch)
        found += digests.tolist()
        what = what.followed_by(part)
    reader.refuse_faults(what)
    return found


def expected(ids: list[bytes]) -> list[int]:
    return [siphash(KEY, one) for one in ids]


def csv(text: str) -> Table:
    return open_table(io.BytesIO(text.encode()), format="csv")


NUMBERS = [0, 7, 123, -5, 10**15, 2**62]
TEXTS = ["ann", "Ann", " ann", "zoë", "名前", "x" * 300, "0123", CANARY]


def parquet(column: pa.Array, path: Path, **options: Any) -> Path:
    pq.write_table(pa.table({"id": column}), path, **options)
    return path


def arrow(column: pa.Array, path: Path) -> Path:
    table = pa.table({"id": column})
    with pa.ipc.new_file(path, table.schema) as writer:
        writer.write_table(table, max_chunksize=2)
    return path


def test_whole_numbers_are_their_digits_everywhere(tmp_path: Path) -> None:
    wanted = expected([str(one).encode() for one in NUMBERS])
    column = pa.array(NUMBERS)
    lines = "\n".join(f'{{"id": {one}}}' for one in NUMBERS)
    sources: list[Any] = [
        csv("id\n" + "".join(f"{one}\n" for one in NUMBERS)),
        open_table(io.BytesIO(lines.encode()), format="jsonl"),
        parquet(column, tmp_path / "a.parquet"),
        parquet(column.dictionary_encode(), tmp_path / "b.parquet"),
        arrow(column, tmp_path / "a.arrow"),
        NUMBERS,
        np.array(NUMBERS),
        [str(one) for one in NUMBERS],
        pa.chunked_array([column[:2], column[2:]]),
        pa.table({"id": column.cast(pa.decimal128(20, 0))}),
    ]
    for source in sources:
        assert digests_of(source) == wanted


def test_texts_are_their_bytes_everywhere(tmp_path: Path) -> None:
    wanted = expected([one.encode() for one in TEXTS])
    column = pa.array(TEXTS)
    kinds: list[Callable[[pa.Array], pa.Array]] = [
        lambda one: one,
        lambda one: one.cast(pa.large_string()),
        lambda one: one.cast(pa.string_view()),
        lambda one: one.cast(pa.binary()),
        lambda one: one.cast(pa.large_binary()),
        lambda one: one.cast(pa.binary()).cast(pa.binary_view()),
        lambda one: one.dictionary_encode(),
        compute.run_end_encode,
    ]
    for kind in kinds:
        assert digests_of(pa.table({"id": kind(column)})) == wanted
    sources: list[Any] = [
        TEXTS,
        parquet(column, tmp_path / "a.parquet"),
        parquet(column.cast(pa.large_string()), tmp_path / "b.parquet"),
        arrow(column, tmp_path / "a.arrow"),
        arrow(column.cast(pa.string_view()), tmp_path / "b.arrow"),
        np.array(TEXTS),
    ]
    for source in sources:
        assert digests_of(source) == wanted


@pytest.mark.parametrize("ids", [NUMBERS, TEXTS])
def test_frames_of_pandas_hold_the_same_ids(ids: list[Any]) -> None:
    pandas = pytest.importorskip("pandas")
    wanted = expected([str(one).encode() for one in ids])
    texts = [str(one) for one in ids]
    columns = [ids, texts, pandas.Categorical(ids), pandas.array(texts, dtype="string")]
    for column in columns:
        assert digests_of(pandas.DataFrame({"id": column})) == wanted
    assert digests_of(pandas.Series(ids, index=range(5, 5 + len(ids)))) == wanted


@pytest.mark.parametrize("ids", [NUMBERS, TEXTS])
def test_frames_of_polars_hold_the_same_ids(ids: list[Any]) -> None:
    polars = pytest.importorskip("polars")
    wanted = expected([str(one).encode() for one in ids])
    texts = [str(one) for one in ids]
    columns = [ids, texts, polars.Series(texts, dtype=polars.Categorical)]
    for column in columns:
        assert digests_of(polars.DataFrame({"id": column})) == wanted
        assert digests_of(polars.Series(column)) == wanted


def test_binary_of_one_length_is_its_bytes() -> None:
    ids = [bytes([one] * 16) for one in range(5)]
    assert digests_of(pa.table({"id": pa.array(ids, pa.binary(16))})) == expected(ids)
    assert digests_of(np.array(ids, dtype="S16")[1:]) == expected(ids[1:])


@each_case(
    "kind", [pa.int8(), pa.int16(), pa.int32(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
)
def test_numbers_of_every_width_are_alike(kind: pa.DataType) -> None:
    ids = [1, 100, 127]
    assert digests_of(pa.table({"id": pa.array(ids, kind)})) == expected([b"1", b"100", b"127"])


def test_the_largest_number_is_whole() -> None:
    assert digests_of([2**64 - 1]) == expected([str(2**64 - 1).encode()])


@given(
    st.lists(st.one_of(st.none(), st.text(max_size=20)), min_size=1, max_size=40),
    st.integers(0, 39),
    st.integers(1, 40),
    st.sampled_from([pa.string(), pa.large_string(), pa.string_view()]),
)
def test_slices_and_gaps_are_read_right(
    texts: list[str | None], start: int, count: int, kind: pa.DataType
) -> None:
    part = pa.array(texts, kind).slice(start % len(texts), count)
    wanted = [one.encode() for one in part.to_pylist() if one]
    found = digests_of(pa.record_batch([part], names=["id"]), missing="skip")
    assert found == expected(wanted)


def test_a_null_with_bytes_behind_it_is_no_id() -> None:
    offsets = pa.py_buffer(np.array([0, 3, 6], np.int32))
    gaps = pa.py_buffer(b"\x01")
    column = pa.Array.from_buffers(pa.string(), 2, [gaps, offsets, pa.py_buffer(b"annbob")])
    assert digests_of(pa.table({"id": column}), missing="skip") == expected([b"ann"])


def test_batches_keep_their_order_and_their_rows() -> None:
    ids = list(range(200_000))
    reader = IdReader(open_table(np.array(ids)), key=KEY)
    firsts = [first for first, _ in reader.batches()]
    assert firsts == [1, 65_537, 131_073, 196_609]
    assert digests_of(np.array(ids))[65_536] == siphash(KEY, b"65536")


@each_case(
    ("source", "row"),
    [
        (["a", None, "b"], 1),
        (["a", "b", ""], 2),
        ([1, 2, 3, None], 3),
        (pa.table({"id": pa.array(["a", None]).dictionary_encode()}), 1),
        (csv("id\na\n\nb\n"), 3),
        (csv('id,more\na,1\n"",2\n'), 3),
        (pa.chunked_array([pa.array(["x"] * 70_000), pa.array([None], pa.string())]), 70_000),
    ],
)
def test_a_missing_id_is_refused_by_its_row(source: Any, row: int) -> None:
    column = "id" if isinstance(source, Table) and len(source.columns) > 1 else None
    with pytest.raises(InvalidTable, match=f"Got none in row {row}, "):
        digests_of(source, column=column)


def test_all_missing_ids_are_told_at_once() -> None:
    with pytest.raises(InvalidTable, match=r"Got none in 2 rows: 0, 1, counted from 0\."):
        digests_of([None, ""])
    gaps = pa.chunked_array([["x", None] * 40_000, [None]])
    with pytest.raises(InvalidTable, match="Got none in 40,001 rows: 1, 3, 5, 7, 9, …, counted"):
        digests_of(gaps)


@each_case(
    "column",
    [
        pa.array([1.5, 2.0]),
        pa.array([1.0], pa.float32()),
        pa.array([True, False]),
        pa.array([dt.date(2020, 1, 1)]),
        pa.array([dt.datetime(2020, 1, 1)]),  # noqa: DTZ001
        pa.array([dt.timedelta(1)]),
        pa.array([dt.time(1)]),
        pa.array([decimal.Decimal("1.50")]),
        pa.array([[1, 2]]),
        pa.array([{CANARY: 1}]),
        pa.array([b"0" * 16], pa.binary(16)).cast(pa.uuid()),
        pa.array([1.5]).dictionary_encode(),
    ],
)
def test_kinds_with_more_than_one_spelling_are_refused(column: pa.Array) -> None:
    with pytest.raises(InvalidTable, match="texts, whole numbers or binary") as caught:
        digests_of(pa.table({"person": column}))
    assert caught.value.column == "person"
    assert "convert it to text" in caught.value.hint
    assert CANARY not in str(caught.value)


def test_numbers_that_pandas_made_floats_are_refused() -> None:
    pandas = pytest.importorskip("pandas")
    with pytest.raises(InvalidTable, match="Got the type double"):
        digests_of(pandas.DataFrame({"id": [1, None]}))
    with pytest.raises(InvalidTable, match="Got none in row 1"):
        digests_of(pandas.DataFrame({"id": ["a", None]}))


def test_the_column_is_named_where_there_are_several() -> None:
    table = {"id": ["a"], "other": ["b"], "more": ["c"]}
    with pytest.raises(InvalidInput, match="column must be named where a table has several"):
        digests_of(table)
    assert digests_of(table, column="other") == expected([b"b"])
    with pytest.raises(InvalidTable, match="no column of that name"):
        digests_of(table, column="person")


def test_counts_are_in_another_column_of_the_table() -> None:
    table = {"id": ["1"], "other": ["b"]}
    with pytest.raises(InvalidTable, match="column 'views' must be in the table"):
        digests_of(table, counts="views")
    with pytest.raises(InvalidInput, match="another column than the ids"):
        digests_of(table, column="id", counts="id")


def test_the_column_beside_the_counts_holds_the_ids() -> None:
    assert digests_of({"n": [1], "id": ["a"]}, counts="n") == expected([b"a"])


@pytest.mark.parametrize(
    "first", ["123", "5f1d7a84db00d2fce00b31a7fc73224f", CANARY, "0b9c3c1e-5d1f-4f0a-9a55-0e7c"]
)
def test_a_first_line_that_is_an_id_is_no_name(first: str) -> None:
    with pytest.raises(InvalidTable, match="looks like an id") as caught:
        digests_of(csv(f"{first}\nann\n"))
    assert first not in str(caught.value)


def test_a_first_line_that_nobody_asked_for_is_not_shown() -> None:
    with pytest.raises(InvalidTable) as caught:
        digests_of(csv("Canary Miller\nann\n\n"))
    assert "Canary" not in str(caught.value)


@pytest.mark.parametrize(
    "views",
    [
        [3, 1, 2],
        ["3", "1", "2"],
        np.array([3, 1, 2], np.uint64),
        pa.array([3, 1, 2], pa.int8()),
        pa.array(["3", "1", "2"]).dictionary_encode(),
    ],
)
def test_an_id_comes_as_often_as_it_was_seen(views: Any) -> None:
    table = pa.table({"id": ["a", "b", "c"], "views": views})
    wanted = expected([b"a", b"a", b"a", b"b", b"c", b"c"])
    assert digests_of(table, column="id", counts="views", most=5) == wanted
    short = expected([b"a", b"a", b"b", b"c", b"c"])
    assert digests_of(table, column="id", counts="views", most=2) == short


def test_huge_counts_take_no_room() -> None:
    table = {"id": ["a"], "views": [2**63 - 1]}
    assert len(digests_of(table, counts="views", most=3)) == 3


@each_case(
    "views",
    [[1, 0], [1, -1], [1, None], ["1", "x"], ["1", "1.0"], ["1", "-1"], ["1", "9" * 30], ["1", ""]],
)
def test_a_count_that_is_none_is_refused_by_its_row(views: list[Any]) -> None:
    with pytest.raises(InvalidTable, match="Got something else in row 1, ") as caught:
        digests_of({"id": ["a", "b"], "views": views}, counts="views")
    assert caught.value.column == "views"


@pytest.mark.parametrize("views", [[1.0, 2.0], [True, False], [[1], [2]]])
def test_counts_of_other_kinds_are_refused(views: list[Any]) -> None:
    with pytest.raises(InvalidTable, match="whole numbers of at least 1"):
        digests_of({"id": ["a", "b"], "views": views}, counts="views")


def test_a_skipped_id_needs_no_count() -> None:
    table = {"id": ["a", None], "views": [2, None]}
    found = digests_of(table, counts="views", most=2, missing="skip")
    assert found == expected([b"a", b"a"])


def test_missing_is_refused_or_skipped_and_nothing_else() -> None:
    with pytest.raises(InvalidInput, match="'refuse', 'skip'"):
        digests_of(["a"], missing="ignore")


def test_the_key_is_not_shown() -> None:
    reader = IdReader(open_table(["a"]), key=b"canary key bytes")
    assert "canary" not in repr(reader)


def test_ids_that_came_through_floats_are_refused() -> None:
    table = open_table({"id": ["12.0", "13.0", None]})
    reader = IdReader(table, key=bytes(16), missing="skip")
    with pytest.raises(InvalidTable, match=r"texts such as 12\.0"):
        [reader.digests(*batch) for batch in reader.batches()]
    for others in (["12.0", "", "nan"], ["1.2e+06", "12."], ["1.0"] * 19 + ["x"]):
        reader = IdReader(open_table({"id": others}), key=bytes(16), missing="skip")
        with pytest.raises(InvalidTable, match=r"texts such as 12\.0"):
            [reader.digests(*batch) for batch in reader.batches()]
    mixed = IdReader(open_table({"id": ["12.0", "x"]}), key=bytes(16))
    assert [len(mixed.digests(*batch)[0]) for batch in mixed.batches()] == [2]


def test_columns_are_named_not_given() -> None:
    with pytest.raises(InvalidInput, match="the name of a column"):
        IdReader(open_table({"id": ["a"]}), key=bytes(16), counts=[1])  # type: ignore[arg-type]
