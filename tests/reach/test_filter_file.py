"""Filter files: what comes back is what was saved, or one clear error."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaffinch.errors import InvalidFile, InvalidInput, StorageFault
from chaffinch.reach.filter_file import Filter, load_filter
from tests.reach.publishing import made_up, small_plan

PLAN = small_plan(frequencies=2)
SAMPLE = made_up(PLAN, "daily")
FACTS = ("plan_id", "publisher", "key", "batch", "bits")


def same(one: Filter, other: Filter) -> bool:
    """Return whether two filters agree in everything."""
    facts = all(getattr(one, fact) == getattr(other, fact) for fact in FACTS)
    rows = zip(one.rows, other.rows, strict=True)
    return facts and all((first == second).all() for first, second in rows)


@given(st.integers(64, 700), st.integers(1, 5), st.text("añ-_ z", min_size=1, max_size=9))
def test_what_is_saved_comes_back(
    tmp_path_factory: pytest.TempPathFactory, bits: int, frequencies: int, publisher: str
) -> None:
    name = f"x{publisher}x"
    filter_ = made_up(small_plan([name], frequencies=frequencies, bits=bits), name)
    path = tmp_path_factory.mktemp("filters") / "one.filter"
    filter_.save(path)
    assert same(load_filter(path), filter_)


def test_rows_are_read_where_they_lie(tmp_path: Path) -> None:
    plan = small_plan(["daily"], bits=1 << 23)
    made_up(plan, "daily").save(tmp_path / "a.filter")
    before = pa.total_allocated_bytes()
    found = load_filter(tmp_path / "a.filter")
    assert pa.total_allocated_bytes() - before < 1 << 16
    (row,) = found.rows
    assert not row.flags.owndata
    assert not row.flags.writeable
    assert row.ctypes.data % 8 == 0


def test_a_mapped_filter_outlives_its_file(tmp_path: Path) -> None:
    path = tmp_path / "a.filter"
    SAMPLE.save(path)
    found = load_filter(path)
    made_up(PLAN, "radio").save(path)
    assert same(found, SAMPLE)
    assert load_filter(path).publisher == "radio"


def test_a_failed_save_leaves_what_was_there(tmp_path: Path) -> None:
    with pytest.raises(StorageFault):
        SAMPLE.save(tmp_path / "nowhere" / "a.filter")
    assert not list(tmp_path.iterdir())


# ------------------------------------------------------------------------------ damage


@pytest.fixture
def content(tmp_path: Path) -> bytes:
    SAMPLE.save(tmp_path / "whole.filter")
    return (tmp_path / "whole.filter").read_bytes()


def test_a_file_cut_anywhere_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "cut.filter"
    for length in range(len(content)):
        path.write_bytes(content[:length])
        with pytest.raises(InvalidFile, match=r"cut\.filter"):
            load_filter(path)


def accepted(path: Path, content: bytes) -> bool:
    """Return whether a file is taken; if it is, it must be the sample itself."""
    path.write_bytes(content)
    try:
        found = load_filter(path)
    except InvalidFile:
        return False
    assert same(found, SAMPLE)
    return True


@pytest.mark.parametrize("change", [0x01, 0x80, 0xFF])
def test_a_damaged_byte_is_refused_or_makes_no_difference(
    tmp_path: Path, content: bytes, change: int
) -> None:
    path = tmp_path / "damaged.filter"
    refused = 0
    for place in range(len(content)):
        damaged = bytearray(content)
        damaged[place] ^= change
        refused += not accepted(path, bytes(damaged))
    # The rest is padding, or in parts of the table of contents that nobody needs.
    assert refused > len(content) // 2


@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), min_size=1, max_size=8))
def test_several_damaged_bytes_crash_nothing(
    tmp_path_factory: pytest.TempPathFactory, changes: list[tuple[int, int]]
) -> None:
    folder = tmp_path_factory.mktemp("damage")
    SAMPLE.save(folder / "whole.filter")
    damaged = bytearray((folder / "whole.filter").read_bytes())
    for place, byte in changes:
        damaged[place % len(damaged)] = byte
    accepted(folder / "damaged.filter", bytes(damaged))


@pytest.mark.parametrize("bit", [0, 63, 64, 999, 1000])
def test_a_single_damaged_bit_of_a_row_is_noticed(tmp_path: Path, content: bytes, bit: int) -> None:
    start = content.index(SAMPLE.rows[0].tobytes())
    damaged = bytearray(content)
    damaged[start + bit // 8] ^= 1 << bit % 8
    (tmp_path / "a.filter").write_bytes(damaged)
    with pytest.raises(InvalidFile, match="damaged content" if bit < 1000 else "of 1000 bits"):
        load_filter(tmp_path / "a.filter")


@pytest.mark.parametrize("content", [b"", b"ARROW1", b"PAR1" * 100, b"id\na\n", b"\0" * 5000])
def test_files_of_other_kinds_are_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.filter").write_bytes(content)
    with pytest.raises(InvalidFile, match="chaffinch/filter@1"):
        load_filter(tmp_path / "a.filter")


def test_what_is_not_there_or_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StorageFault, match="no such file"):
        load_filter(tmp_path / "nowhere.filter")
    with pytest.raises(InvalidFile, match="no file"):
        load_filter(tmp_path)
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe")
        with pytest.raises(InvalidFile, match="no file"):
            load_filter(tmp_path / "pipe")


# ------------------------------------------------------------------------------ lies


def facts_of(path: Path) -> dict[bytes, bytes]:
    with pa.ipc.open_file(path) as file:
        return dict(file.schema.metadata)


def written(
    path: Path,
    *,
    columns: Mapping[str, Any] | None = None,
    batches: int = 1,
    nullable: bool = False,
    compression: str | None = None,
    change: Mapping[bytes, bytes | None] | None = None,
) -> Path:
    """Write the sample by other means, with something amiss."""
    SAMPLE.save(path)
    facts = facts_of(path)
    for name, value in (change or {}).items():
        if value is None:
            del facts[name]
        else:
            facts[name] = value
    chosen = columns or {f"seen_{at}": pa.array(row) for at, row in enumerate(SAMPLE.rows, 1)}
    fields = [pa.field(name, column.type, nullable) for name, column in chosen.items()]
    schema = pa.schema(fields, metadata=facts)
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_file(path, schema, options=options) as writer:
        for _ in range(batches):
            writer.write_batch(pa.record_batch(list(chosen.values()), schema=schema))
    return path


ROW = pa.array(SAMPLE.rows[0])
NARROW, WIDE = pa.array(SAMPLE.rows[0][:-1]), pa.array(np.append(SAMPLE.rows[0], np.uint64(0)))
GAPS = pa.array([None, *SAMPLE.rows[0][1:].tolist()], pa.uint64())

LIES: dict[str, tuple[dict[str, Any], str]] = {
    "another format": ({"change": {b"format": b"chaffinch/plan@1"}}, "something else"),
    "another version": ({"change": {b"format": b"chaffinch/filter@2"}}, "another version"),
    "no format": ({"change": {b"format": None}}, "something else"),
    "a fact too many": ({"change": {b"ids": b"12"}}, "unknown names"),
    "no number": ({"change": {b"bits": b"many"}}, "a number of bits that is none"),
    "zero bits": ({"change": {b"bits": b"0"}}, "a number of bits that is none"),
    "many bits": ({"change": {b"bits": b"9999999999"}}, "size that does not fit"),
    "a few more bits": ({"change": {b"bits": b"1001"}}, "damaged content"),
    "more words": ({"change": {b"bits": b"1025"}}, "17 words"),
    "another plan": ({"change": {b"plan_id": b"0" * 64}}, "damaged content"),
    "no plan": ({"change": {b"plan_id": b"\xff" * 64}}, "plan id"),
    "another publisher": ({"change": {b"publisher": b"radio"}}, "damaged content"),
    "a line end in a name": ({"change": {b"publisher": b"ra\ndio"}}, "name of a publisher"),
    "another key": ({"change": {b"key": b"0" * 32}}, "damaged content"),
    "another batch": ({"change": {b"batch": b"0" * 32}}, "damaged content"),
    "another sum": ({"change": {b"sha256": b"0" * 64}}, "damaged content"),
    "one row": ({"columns": {"seen_1": ROW}}, "damaged content"),
    "no rows": ({"columns": {"seen_2": ROW}}, "other columns"),
    "short rows": ({"columns": {"seen_1": NARROW, "seen_2": NARROW}}, "16 words"),
    "long rows": ({"columns": {"seen_1": WIDE, "seen_2": WIDE}}, "16 words"),
    "21 rows": ({"columns": {f"seen_{at}": ROW for at in range(1, 22)}}, "other columns"),
    "other numbers": ({"columns": {"seen_1": ROW.cast(pa.int64(), safe=False)}}, "other columns"),
    "a dictionary": ({"columns": {"seen_1": ROW.dictionary_encode()}}, "other columns"),
    "possible gaps": ({"nullable": True}, "other columns"),
    "gaps": ({"columns": {"seen_1": GAPS, "seen_2": ROW}}, "gaps"),
    "two batches": ({"batches": 2}, "2 batches"),
    "no batches": ({"batches": 0}, "0 batches"),
    "lz4": ({"compression": "lz4"}, "as they are"),
    "zstd": ({"compression": "zstd"}, "as they are"),
}


@pytest.mark.parametrize("lie", LIES)
def test_files_that_lie_are_refused(tmp_path: Path, lie: str) -> None:
    options, words = LIES[lie]
    path = written(tmp_path / "a.filter", **options)
    with pytest.raises(InvalidFile, match=words):
        load_filter(path)


def test_the_truth_written_by_other_means_is_accepted(tmp_path: Path) -> None:
    assert same(load_filter(written(tmp_path / "a.filter")), SAMPLE)


@pytest.mark.parametrize("fact", [*FACTS, "sha256"])
def test_a_missing_fact_is_named(tmp_path: Path, fact: str) -> None:
    path = written(tmp_path / "a.filter", change={fact.encode(): None})
    with pytest.raises(InvalidFile, match=f"no fact '{fact}'"):
        load_filter(path)


def test_small_compressed_files_cannot_grow(tmp_path: Path) -> None:
    # A hundred million zeros take next to nothing when compressed.
    zeros = pa.array(np.zeros(1 << 20, np.uint64))
    path = written(
        tmp_path / "a.filter",
        columns={"seen_1": zeros},
        compression="zstd",
        change={b"bits": str(1 << 26).encode()},
    )
    with pytest.raises(InvalidFile, match="size that does not fit"):
        load_filter(path)


# ------------------------------------------------------------------------------ in memory


@pytest.mark.parametrize(
    ("fact", "value"),
    [
        ("plan_id", "A" * 64),
        ("plan_id", "a" * 63),
        ("publisher", ""),
        ("key", "0" * 31),
        ("batch", "0" * 33),
        ("bits", 63),
        ("bits", 10**9 + 1),
        ("bits", 1000.0),
        ("rows", ()),
        ("rows", SAMPLE.rows * 11),
        ("rows", (SAMPLE.rows[0].astype(np.int64),)),
        ("rows", (SAMPLE.rows[0][:-1],)),
        ("rows", (SAMPLE.rows[0].reshape(2, -1),)),
        ("rows", (np.full(16, 2**64 - 1, np.uint64),)),
    ],
)
def test_what_is_no_filter_is_never_made(fact: str, value: Any) -> None:
    with pytest.raises(InvalidInput):
        replace(SAMPLE, **{fact: value})
