"""Filter files: what comes back is what was saved, or one clear error."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from chaffinch.errors import InvalidFile, InvalidInput, StorageFault
from chaffinch.wire.filter_files import Filter, load_filter
from tests.cases import each_case
from tests.reach.publishing import made_up, small_plan

Row = NDArray[np.uint64]
PLAN = small_plan(frequencies=2)
SAMPLE = made_up(PLAN, "daily", bits=1000)
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
    filter_ = made_up(small_plan([name], frequencies=frequencies), name, bits=bits)
    path = tmp_path_factory.mktemp("filters") / "one.filter"
    filter_.save(path)
    assert same(load_filter(path), filter_)


def test_the_digest_is_that_of_the_content(tmp_path: Path) -> None:
    SAMPLE.save(tmp_path / "a.filter")
    assert load_filter(tmp_path / "a.filter").digest == SAMPLE.digest
    assert SAMPLE.digest.encode() in (tmp_path / "a.filter").read_bytes()[:1000]
    changed = SAMPLE.rows[0].copy()
    changed[0] ^= np.uint64(1)
    others = [
        replace(SAMPLE, rows=(changed, *SAMPLE.rows[1:])),
        replace(SAMPLE, batch="ab" * 16),
        replace(SAMPLE, publisher="radio"),
    ]
    assert len({SAMPLE.digest, *(one.digest for one in others)}) == 4
    assert "array" not in repr(SAMPLE)


def test_only_its_owner_can_read_a_filter(tmp_path: Path) -> None:
    SAMPLE.save(tmp_path / "a.filter")
    if os.name == "posix":
        assert (tmp_path / "a.filter").stat().st_mode & 0o077 == 0


def test_a_filter_outlives_its_file(tmp_path: Path) -> None:
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


@pytest.mark.parametrize("change", [0x01, 0x20, 0x80, 0xFF])
def test_every_damaged_byte_is_refused(tmp_path: Path, content: bytes, change: int) -> None:
    path = tmp_path / "damaged.filter"
    for place in range(len(content)):
        damaged = bytearray(content)
        damaged[place] ^= change
        path.write_bytes(damaged)
        with pytest.raises(InvalidFile, match=r"damaged\.filter"):
            load_filter(path)


@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), min_size=1, max_size=8))
def test_several_damaged_bytes_crash_nothing(
    tmp_path_factory: pytest.TempPathFactory, changes: list[tuple[int, int]]
) -> None:
    folder = tmp_path_factory.mktemp("damage")
    SAMPLE.save(folder / "whole.filter")
    damaged = bytearray((folder / "whole.filter").read_bytes())
    for place, byte in changes:
        damaged[place % len(damaged)] = byte
    if bytes(damaged) != (folder / "whole.filter").read_bytes():
        (folder / "damaged.filter").write_bytes(damaged)
        with pytest.raises(InvalidFile):
            load_filter(folder / "damaged.filter")


@pytest.mark.parametrize("bit", [0, 63, 64, 999, 1000])
def test_a_single_damaged_bit_of_a_row_is_noticed(tmp_path: Path, content: bytes, bit: int) -> None:
    start = content.index(SAMPLE.rows[0].tobytes())
    damaged = bytearray(content)
    damaged[start + bit // 8] ^= 1 << bit % 8
    (tmp_path / "a.filter").write_bytes(damaged)
    with pytest.raises(InvalidFile, match="damaged content"):
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


def written(
    path: Path,
    *,
    change: Mapping[str, Any] | None = None,
    rows: Sequence[Row] = SAMPLE.rows,
    first: bytes = b"chaffinch/filter@1",
    honest: bool = True,
) -> Path:
    """Write the sample by other means, with something amiss; ``honest``: with a true checksum."""
    facts = {name: getattr(SAMPLE, name) for name in FACTS} | {"rows": len(SAMPLE.rows)}
    facts = {name: value for name, value in (facts | dict(change or {})).items() if value != DROP}
    body = b"".join(row.tobytes() for row in rows)
    text = json.dumps(facts, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    checksum = hashlib.sha256(text + body).hexdigest() if honest else "0" * 64
    facts = {"sha256": checksum} | facts
    text = json.dumps(facts, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    head = first + b"\n" + text + b"\n"
    path.write_bytes(head + bytes(-len(head) % 64) + body)
    return path


DROP = object()
ONE = SAMPLE.rows[0]

LIES: dict[str, tuple[dict[str, Any], str]] = {
    "another format": ({"first": b"chaffinch/plan@1"}, "something else"),
    "another version": ({"first": b"chaffinch/filter@2"}, "another version"),
    "a fact too many": ({"change": {"ids": 12}}, "ids: is not known here"),
    "no number": ({"change": {"bits": "1000"}}, "bits: must be a whole number"),
    "zero bits": ({"change": {"bits": 0}}, "bits: must be 64 or more"),
    "many bits": ({"change": {"bits": 2**29}}, "size that does not fit"),
    "too many bits": ({"change": {"bits": 2**29 + 1}}, "bits: must be 536870912 or less"),
    "fewer bits": ({"change": {"bits": 961}}, "others|of 961 bits"),
    "more words": ({"change": {"bits": 1025}}, "size that does not fit"),
    "no plan": ({"change": {"plan_id": "x" * 64}}, "plan_id: String should match"),
    "a line end in a name": ({"change": {"publisher": "ra\ndio"}}, "name of a publisher"),
    "no checksum": ({"honest": False}, "damaged content"),
    "one row": ({"rows": (ONE,)}, "size that does not fit"),
    "no rows": ({"change": {"rows": 0}, "rows": ()}, "rows: must be 1 or more"),
    "21 rows": ({"change": {"rows": 21}, "rows": (ONE,) * 21}, "rows: must be 20 or less"),
    "short rows": ({"rows": (ONE[:-1], ONE[:-1])}, "size that does not fit"),
    "long rows": ({"rows": (ONE, ONE, ONE[:1])}, "size that does not fit"),
    "bits behind the last": ({"rows": (ONE, np.full(16, 2**64 - 1, np.uint64))}, "of 1000 bits"),
    "a number in another form": ({"change": {"bits": 1e3}}, "bits: must be a whole number|one way"),
    "a name without end": ({"change": {"publisher": "a" * 5000}}, "Invalid JSON|JSON"),
}


@each_case("lie", LIES)
def test_files_that_lie_are_refused(tmp_path: Path, lie: str) -> None:
    options, words = LIES[lie]
    path = written(tmp_path / "a.filter", **options)
    with pytest.raises(InvalidFile, match=words):
        load_filter(path)


def test_the_truth_written_by_other_means_is_accepted(tmp_path: Path) -> None:
    assert same(load_filter(written(tmp_path / "a.filter")), SAMPLE)
    SAMPLE.save(tmp_path / "b.filter")
    assert (tmp_path / "a.filter").read_bytes() == (tmp_path / "b.filter").read_bytes()


@each_case("fact", [*FACTS, "rows"])
def test_a_missing_fact_is_named(tmp_path: Path, fact: str) -> None:
    path = written(tmp_path / "a.filter", change={fact: DROP})
    with pytest.raises(InvalidFile, match=f"{fact}: must be there"):
        load_filter(path)


def test_a_fact_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "a.filter")
    first, facts, rest = path.read_bytes().split(b"\n", 2)
    path.write_bytes(first + b"\n" + facts[:-1] + b',"bits":1000}\n' + rest)
    with pytest.raises(InvalidFile, match="one way"):
        load_filter(path)


# ------------------------------------------------------------------------------ in memory


@each_case(
    ("fact", "value"),
    [
        ("plan_id", "A" * 64),
        ("plan_id", "a" * 63),
        ("publisher", ""),
        ("key", "0" * 31),
        ("batch", "0" * 33),
        ("bits", 63),
        ("bits", 2**29 + 1),
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


def test_a_filter_over_an_open_file_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "a.filter"
    path.write_bytes(b"")
    path.chmod(0o644)
    SAMPLE.save(path)
    if os.name == "posix":
        assert path.stat().st_mode & 0o077 == 0
