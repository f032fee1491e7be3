"""Whether two tables hold the same rows: in whatever file, order and batches."""

from __future__ import annotations

import datetime as dt
import itertools
import math
import os
import random
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaffinch.encoding.bulk import find_columns
from chaffinch.questions import Choice, Flags, Number, Question
from chaffinch.tables.fingerprint import Fingerprint, answers_in
from chaffinch.tables.read import open_table
from tests.tiers import nightly

ROWS: dict[str, list[Any]] = {
    "id": [f"user-{number}" for number in range(300)],
    "drink": ["tea", "coffee", None] * 100,
    "age": [number % 70 for number in range(300)],
    "story": ["x" * (number % 90) for number in range(300)],
}


def fingerprint(source: Any, *, key: bytes = b"key", rows: int = 64) -> bytes:
    seen = Fingerprint(key)
    table = seen.watch(open_table(source))
    for _ in table.batches(list(table.columns), rows=rows):
        pass
    return seen.value


@pytest.fixture(scope="module")
def table() -> pa.Table:
    return pa.table(ROWS)


def test_order_batches_columns_and_container_do_not_count(table: pa.Table, tmp_path: Path) -> None:
    expected = fingerprint(table)
    order = random.Random(1).sample(range(300), 300)
    assert fingerprint(table.take(order)) == expected
    assert fingerprint(table, rows=7) == expected
    assert fingerprint(table.select(["story", "age", "id", "drink"])) == expected
    pc.write_csv(table, tmp_path / "t.csv")
    pq.write_table(table, tmp_path / "t.parquet")
    for name in ("t.csv", "t.parquet"):
        assert fingerprint(tmp_path / name) == expected
    coded = table.set_column(1, "drink", table["drink"].combine_chunks().dictionary_encode())
    assert fingerprint(coded) == expected
    assert fingerprint(table.slice(100)) == fingerprint(table.take(list(range(100, 300))))


@pytest.mark.parametrize(
    ("row", "column", "cell"),
    [(0, "drink", "coffee"), (2, "drink", "tea"), (299, "age", 0), (89, "story", "y" * 89)],
)
def test_one_cell_counts(table: pa.Table, row: int, column: str, cell: object) -> None:
    changed = {name: list(cells) for name, cells in ROWS.items()}
    changed[column][row] = cell
    assert fingerprint(pa.table(changed)) != fingerprint(table)


def test_cells_belong_to_their_row_and_column_and_rows_are_counted() -> None:
    one = {"a": ["x", "y"], "b": ["p", "q"]}
    others: list[dict[str, list[str]]] = [
        {"a": ["x", "y"], "b": ["q", "p"]},
        {"a": ["p", "q"], "b": ["x", "y"]},
        {"a": ["x", "y", "y"], "b": ["p", "q", "q"]},
        {"c": ["x", "y"], "b": ["p", "q"]},
        {"a": ["xp", "y"], "b": ["", "q"]},
    ]
    seen = {fingerprint(table) for table in [one, *others]}
    assert len(seen) == 1 + len(others)


def test_another_key_tells_nothing(table: pa.Table) -> None:
    assert fingerprint(table) != fingerprint(table, key=b"another")


def test_lists_and_a_second_reading(tmp_path: Path) -> None:
    table = pa.table({"flags": [["a", "b"], [], None, ["b"]]})
    assert fingerprint(table) == fingerprint(table.take([3, 2, 1, 0]))
    assert fingerprint(table) == fingerprint(pa.table({"flags": [["b", "a"], [], None, ["b"]]}))
    for other in ([["a"], [], None, ["b"]], [["a", "b", "b"], [], None, ["b"]]):
        assert fingerprint(table) != fingerprint(pa.table({"flags": other}))
    assert fingerprint(table) != fingerprint(pa.table({"flags": [["a", "b"], None, None, ["b"]]}))
    (tmp_path / "t.csv").write_text("a\n1\n2\n")
    seen = Fingerprint(b"key")
    watched = seen.watch(open_table(tmp_path / "t.csv"))
    values = []
    for _ in range(2):
        for _ in watched.batches(["a"]):
            pass
        values.append(seen.value)
    assert values[0] == values[1] == fingerprint(tmp_path / "t.csv")


def answers_fingerprint(columns: dict[str, list[Any]], **named: str) -> bytes:
    questions: dict[str, Question] = {
        "drink": Choice(["tea", "coffee"], missing="count"),
        "age": Number(0, 100, unit="years"),
        "likes": Flags([f"thing {number}" for number in range(63)], missing="count"),
    }
    table = open_table(pa.table(columns))
    places = dict(zip(questions, find_columns(questions, table, named or None), strict=True))
    seen = Fingerprint(b"key", answers_in(places))
    for _ in seen.watch(table).batches([one.columns[0] for one in places.values()], rows=64):
        pass
    return seen.value


def test_answers_have_no_spelling_and_no_column() -> None:
    likes = [["thing 7", "thing 62"], ["thing 1"], ["thing 62"]] * 100
    columns: dict[str, list[Any]] = {"drink": ROWS["drink"], "age": ROWS["age"], "likes": likes}
    expected = answers_fingerprint(columns)
    spaced = [None if cell is None else f" {cell} " for cell in ROWS["drink"]]
    assert answers_fingerprint(columns | {"drink": spaced}) == expected
    assert (
        answers_fingerprint(columns | {"age": [f"{cell}.0" for cell in columns["age"]]}) == expected
    )
    written = ["; ".join(reversed(cell)) for cell in likes]
    assert answers_fingerprint(columns | {"likes": written}) == expected
    renamed = {"likes": likes, "Getränk": ROWS["drink"], "age": ROWS["age"], "id": ROWS["id"]}
    assert answers_fingerprint(renamed, drink="Getränk") == expected
    for name, cell in (("drink", "coffee"), ("age", 1), ("likes", ["thing 61", "thing 7"])):
        changed = [cell, *columns[name][1:]]
        assert answers_fingerprint(columns | {name: changed}) != expected, name


def test_times_of_an_unknown_zone_differ() -> None:
    columns = [pa.array([one], pa.timestamp("s", "no/where")) for one in (1, 2, None)]
    assert len({fingerprint(pa.table({"a": one})) for one in columns}) == len(columns)


def whole_fingerprint(columns: dict[str, Any]) -> bytes:
    seen = Fingerprint(b"key")
    seen.read_all(open_table(columns), lambda *_: None)
    return seen.value


def test_all_columns_of_a_table_in_memory_count_by_row_and_by_value() -> None:
    """Of every two tables here a cell differs, or which cells share a row."""
    far = 2**53
    tables: list[dict[str, Any]] = [
        {"a": [1, 2], "b": [1, 2]},
        {"a": [1, 2], "b": [2, 1]},
        {"b": [1, 2], "a": [1, 3]},
        {"a": [1, 2, 2], "b": [1, 2, 2]},
        {"a": [1, 2], "c": [1, 2]},
        {"a": [1, 2], "b": [1, None]},
        {"a": [1, 2], "b": [1, 0]},
        {"a": [1, 2], "b": [1, -2]},
        {"a": [1, 2], "b": [1, 2.5]},
        {"a": [1, 2], "b": [1, math.inf]},
        {"a": [1, 2], "b": [1, far]},
        {"a": [1, 2], "b": [1, far + 1]},
        {"a": [1, 2], "b": ["1", "2"]},
        {"a": [1, 2], "b": pa.array([1, 2], pa.timestamp("s"))},
        {"a": [1, 2], "b": pa.array([1_000_000_001, 2_000_000_000], pa.timestamp("ns"))},
        {"a": [1, 2], "b": pa.array([1, 2], pa.date32())},
    ]
    assert len({whole_fingerprint(one) for one in tables}) == len(tables)
    same: list[dict[str, Any]] = [
        {"b": [2, 1], "a": [2, 1]},
        {"a": [1.0, 2.0], "b": pa.array([1, 2], pa.int8())},
        {"a": [1, 2], "b": pa.array([1, 2], pa.uint64()).dictionary_encode()},
        {"a": [1, 2], "b": [1, 2], "gaps": [None, math.nan], "sets": {1, 2}},
    ]
    assert {whole_fingerprint(one) for one in same} == {whole_fingerprint(tables[0])}
    days = {
        pa.date32(): [1, 2],
        pa.date64(): [86_400_000, 172_800_000],
        pa.timestamp("ms"): [86_400_000, 172_800_000],
        pa.timestamp("ns", "UTC"): [86_400 * 10**9, 172_800 * 10**9],
    }
    found = {whole_fingerprint({"a": pa.array(held, kind)}) for kind, held in days.items()}
    assert len(found) == 1


# ------------------------------------------------------------------ kinds of cells

WIDE = st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 3).map(lambda whole: whole * 10**9)
SMALL = st.integers(-(2**31), 2**31 - 1)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
REALS = st.floats() | st.sampled_from([1.0, -(2.0**63), 2.0**63, 2.0**64, 0.5, -0.0])
DIGITS = st.integers(-(10**9) + 1, 10**9 - 1)
UNITS = ("s", "ms", "us", "ns")
DECIMALS: dict[pa.DataType, st.SearchStrategy[Any]] = {
    kind: st.builds(lambda whole, scale=kind.scale: Decimal(whole).scaleb(-scale), DIGITS)
    for kind in (
        pa.decimal64(12, 2),
        pa.decimal128(9, 2),
        pa.decimal128(38, 0),
        pa.decimal256(76, 30),
    )
}
PLAIN: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.null(): st.none(),
    pa.bool_(): st.booleans(),
    pa.int8(): st.integers(-128, 127),
    pa.int64(): WIDE,
    pa.uint32(): st.integers(0, 2**32 - 1),
    pa.uint64(): st.integers(0, 2**64 - 1) | st.integers(0, 3),
    pa.float16(): st.floats(width=16),
    pa.float32(): st.floats(width=32),
    pa.float64(): REALS,
    **DECIMALS,
    pa.date32(): SMALL,
    pa.date64(): WIDE,
    pa.time32("ms"): st.integers(0, 86_399_999),
    pa.time64("ns"): st.integers(0, 86_399_999_999_999),
    **{pa.timestamp(unit): WIDE for unit in UNITS},
    pa.timestamp("ns", "UTC"): WIDE,
    pa.timestamp("s", "no/where"): WIDE,
    **{pa.duration(unit): WIDE for unit in UNITS},
    pa.month_day_nano_interval(): st.tuples(SMALL, SMALL, WIDE),
    pa.string(): TEXTS,
    pa.large_string(): TEXTS,
    pa.string_view(): TEXTS,
    pa.binary(): st.binary(max_size=40),
    pa.large_binary(): st.binary(max_size=40),
    pa.binary_view(): st.binary(max_size=40),
    pa.binary(2): st.binary(min_size=2, max_size=2),
}
Cells = tuple[pa.DataType, st.SearchStrategy[Any]]


def nested(inner: Cells) -> st.SearchStrategy[Cells]:
    kind, cells = inner
    items = st.lists(st.none() | cells, max_size=3)
    two = st.tuples(st.none() | cells, cells).map(list)
    record = pa.struct([pa.field("a", kind), pa.field("b", pa.uint64())])
    ways: list[Cells] = [
        (pa.list_(kind), items),
        (pa.large_list(kind), items),
        (pa.list_(kind, 2), two),
        (
            record,
            st.fixed_dictionaries({"a": st.none() | cells, "b": st.none() | PLAIN[pa.uint64()]}),
        ),
    ]
    return st.sampled_from(ways)


KINDS: st.SearchStrategy[Cells] = st.recursive(
    st.sampled_from(list(PLAIN.items())), lambda inner: inner.flatmap(nested), max_leaves=3
)


@st.composite
def two_orders(draw: st.DrawFn) -> tuple[pa.ChunkedArray, pa.ChunkedArray]:
    """Draw the same cells twice: in one piece, and in another order and in pieces."""
    kind, strategy = draw(KINDS)
    cells = draw(st.lists(st.none() | strategy, min_size=1, max_size=12))
    mixed = draw(st.permutations(cells))
    cuts = [0, *sorted(draw(st.lists(st.integers(0, len(cells)), max_size=4))), len(cells)]
    pieces = [pa.array(mixed[a:b], kind) for a, b in itertools.pairwise(cuts)]
    return pa.chunked_array([pa.array(cells, kind)]), pa.chunked_array(pieces, kind)


@given(two_orders())
def test_neither_pieces_nor_the_order_of_rows_count(orders: tuple[Any, Any]) -> None:
    one, two = ({"a": each} for each in orders)
    expected = whole_fingerprint(pa.table(one))
    assert int.from_bytes(expected[:8]) == len(orders[0]), "a column that was read"
    assert whole_fingerprint(pa.table(two)) == expected
    assert fingerprint(pa.table(one)) == fingerprint(pa.table(two))


@pytest.mark.parametrize(
    "kind", [kind if place % 3 == 0 else nightly(kind) for place, kind in enumerate(PLAIN)], ids=str
)
@given(data=st.data())
def test_pieces_and_order_of_each_plain_kind(kind: pa.DataType, data: st.DataObject) -> None:
    cells = data.draw(st.lists(st.none() | PLAIN[kind], min_size=1, max_size=8))
    mixed = data.draw(st.permutations(cells))
    whole = pa.array(cells, kind)
    pieces = pa.chunked_array([pa.array([cell], kind) for cell in mixed], kind)
    expected = whole_fingerprint(pa.table({"a": whole}))
    assert int.from_bytes(expected[:8]) == len(cells), "a column that was read"
    assert whole_fingerprint(pa.table({"a": pieces})) == expected
    assert fingerprint(pa.table({"a": pieces})) == fingerprint(pa.table({"a": whole}))


@pytest.mark.parametrize(
    ("many", "one"),
    [(1, "x"), (1, 2**70), (1, True), (1.5, "x"), (-1, 2**63), (1.5, 2**53 + 1), (None, "x")],
    ids=str,
)
def test_a_list_of_cells_that_do_not_mix_may_have_any_order(many: object, one: object) -> None:
    """It is read in pieces, and cells that do not mix as texts: all of them, in every piece."""
    rest = [many] * 70_000
    found = [whole_fingerprint({"a": cells}) for cells in ([*rest, one], [one, *rest])]
    assert found[0] == found[1]
    assert whole_fingerprint({"a": [*rest, None]}) != found[0]


@given(WIDE.filter(bool))
def test_kinds_of_the_same_bits_differ(bits: int) -> None:
    held = pa.array([bits])
    kinds = [pa.float64(), *map(pa.timestamp, UNITS), *map(pa.duration, UNITS), pa.time64("ns")]
    columns = [held, *(held.view(kind) for kind in kinds)]
    values = {repr((column.type.id, cell_of(column))): column for column in columns}
    above = [pa.array([bits % 2**64], pa.uint64())] if bits < 0 else []
    made = [
        *values.values(),
        *above,
        pa.array([str(bits)]),
        pa.array([str(bits).encode()]),
        pa.array([[bits]]),
        pa.array([[[bits]]]),
        pa.array([[str(bits)]]),
        pa.array([f"[{bits}]"]),
        pa.array([{"a": bits}]),
        pa.array([f'{{"a": {bits}}}']),
    ]
    assert len({whole_fingerprint(pa.table({"a": one})) for one in made}) == len(made)


def cell_of(column: pa.Array) -> object:
    """Return a value of which equal ones are those that count alike, within a kind."""
    kind, bits = column.type, column.view(pa.int64())[0].as_py()
    if pa.types.is_integer(kind):
        return bits
    if pa.types.is_floating(kind):
        real = column[0].as_py()
        return ("nothing",) if math.isnan(real) else real
    unit = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}[kind.unit]
    return bits * unit


@pytest.mark.parametrize(
    "columns",
    [
        [pa.array([2**62]), pa.array([2**62], pa.uint64()), pa.array([2.0**62])],
        [pa.array([2**63], pa.uint64()), pa.array([2.0**63]), [Decimal(2**63)]],
        [pa.array([-(2**63)]), pa.array([-(2.0**63)]), [Decimal(-(2**63))]],
        [pa.array([2**53 + 1]), [Decimal(2**53 + 1)], pa.array([2**53 + 1], pa.uint64())],
        [[0.5], [Decimal("0.5")], pa.array([Decimal("0.5")], pa.decimal128(20, 9))],
        [[Decimal("0.1")], pa.array([Decimal("0.1")], pa.decimal256(50, 7))],
        [[1e30], [Decimal(int(1e30))]],
        [[[1, 2]], [[2.0, 1.0]], pa.array([[1, 2]], pa.list_(pa.uint8(), 2))],
        [[{"a": 1, "b": None}], [{"a": 1.0}]],
        [
            pa.array([b"tea"]),
            pa.array([b"tea"], pa.binary(3)),
            pa.array([b"tea"], pa.binary_view()),
        ],
        [pa.array(["tea"]), pa.array(["tea"], pa.string_view()), ["tea"]],
        [pa.array([2**60], pa.timestamp("s")), pa.array([2**60], pa.timestamp("s", "UTC"))],
        [pa.array([2**31 - 1], pa.date32()), pa.array([86_400 * (2**31 - 1)], pa.timestamp("s"))],
        [pa.array([10**15], pa.timestamp("s")), pa.array([10**18], pa.timestamp("ms"))],
        [pa.array([5], pa.duration("s")), pa.array([5 * 10**9], pa.duration("ns"))],
    ],
    ids=lambda columns: str(columns[0])[:20],
)
def test_equal_values_count_alike(columns: list[Any]) -> None:
    assert len({whole_fingerprint(pa.table({"a": pa.array(one)})) for one in columns}) == 1


def test_unequal_values_differ_although_their_bits_can_agree() -> None:
    made: list[pa.Array] = [
        *(pa.array([one]) for one in (0, 1, -1, 0.5, math.inf, -math.inf, 2.0**64, True, False)),
        pa.array([2**64 - 1], pa.uint64()),
        pa.array([4602678819172646912]),  # the bits of a half
        pa.array([10**6]),
        pa.array([1], pa.duration("s")),
        pa.array([1], pa.timestamp("s")),
        pa.array([1], pa.time32("s")),
        pa.array([0], pa.date32()),
        pa.array([2**58], pa.timestamp("s")),  # whose microseconds are 0 modulo 2^64
        pa.array([2**58], pa.timestamp("ms")),
        pa.array([2**62 + 1], pa.timestamp("ms")),
        pa.array([(1 << 54) + 1], pa.timestamp("us")),
        pa.array([1001], pa.timestamp("ns")),
        pa.array([1.5, 1.5])[:1],
        pa.array([[0.5]]),
        pa.array([[]], pa.list_(pa.int64())),
        pa.array([{}], pa.struct([])),
        pa.array([Decimal("0.1")]),
        pa.array([0.1]),
        pa.array([Decimal("1e70")], pa.decimal256(76, 0)),
        pa.array([b"\xff"]),
        pa.array([dt.date(1970, 1, 2)]),
        pa.array([None], pa.int64()),
    ]
    assert len({whole_fingerprint(pa.table({"a": one})) for one in made}) == len(made)


SETS = """
from chaffinch.tables.fingerprint import Fingerprint
from chaffinch.tables.read import open_table
cells = [{"xa", "yb", "zc", "wd"}, {"wd", "xa"}, set(), None]
print(list(cells[0]), end=";")
for table in ({"a": cells}, {"a": [None if one is None else [one] for one in cells]}):
    seen = Fingerprint(b"key")
    seen.read_all(open_table(table), print)
    print(seen.value.hex())
    for _ in seen.watch(open_table(table)).batches(["a"]):
        pass
    print(seen.value.hex())
"""


def test_sets_are_the_same_in_another_process() -> None:
    said = [
        subprocess.run(
            [sys.executable, "-c", SETS],
            env=os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split(";")
        for seed in ("1", "2")
    ]
    assert said[0][0] != said[1][0], "sets that are in the same order show nothing"
    assert said[0][1] == said[1][1]
