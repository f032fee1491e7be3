"""Small text files that take long, or much memory: read quickly, or refused."""

from __future__ import annotations

import gzip
import io
import json
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from chaffinch.errors import InvalidTable
from chaffinch.tables import limits
from chaffinch.tables.read import open_table
from tests.cases import each_case
from tests.disk.containers import limited
from tests.tiers import all_but, nightly

SECONDS = 2
"""Of one core, for what takes less than half of one."""
BLANK = b"\n" * (1 << 20)


def zipped(start: bytes, block: bytes, times: int) -> bytes:
    file = io.BytesIO()
    with gzip.open(file, "wb", compresslevel=9) as packed:
        packed.write(start)
        for _ in range(times):
            packed.write(block)
        packed.write(start)
    return file.getvalue()


def rows_of(content: bytes, kind: str, columns: int = 1) -> int:
    table = open_table(io.BytesIO(content), format=kind)
    return sum(batch.num_rows for batch in table.batches(table.columns[:columns]))


def keys(count: int) -> bytes:
    """Return a line of JSON with so many keys."""
    return json.dumps({f"{number:x}": 0 for number in range(count)}).encode() + b"\n"


BLANKS: dict[str, tuple[str, bytes, bytes, int]] = {
    "empty lines of JSON": ("jsonl", b'{"a": 1}\n', BLANK, 64),
    "lines of spaces": ("jsonl", b'{"a": 1}\n', b" \r\n" * (1 << 18), 64),
    "a line of spaces": ("jsonl", b'{"a": 1}\n', b" " * (1 << 20), 64),
    "empty lines of CSV": ("csv", b"a,b\n", BLANK, 64),
    "empty lines of CSV between quotes": ("csv", b"a,b\n", b'"x",y\n' + BLANK, 64),
    "empty lines of another end": ("csv", b"a,b\n", b"\r\n" * (1 << 19), 64),
}


@pytest.mark.parametrize(
    "case", all_but(BLANKS, "empty lines of CSV", "empty lines of another end")
)
def test_blank_lines_are_skipped_quickly(case: str) -> None:
    kind, line, block, times = BLANKS[case]
    content = zipped(line, block, times)
    begun = time.process_time()
    rows = rows_of(content, kind)
    assert time.process_time() - begun < SECONDS
    assert rows == (2 if kind == "jsonl" else 1 + times * (b"x" in block))


def test_rows_that_end_as_on_windows_take_little_longer() -> None:
    """Two bytes that end a line are no gap between rows."""

    def seconds(end: bytes) -> float:
        content = b"a,b" + end + (b"1,0" + end) * 500_000
        begun = time.process_time()
        assert rows_of(content, "csv") == 500_000
        return time.process_time() - begun

    plain, longer = (min(seconds(end) for _ in range(3)) for end in (b"\n", b"\r\n"))
    assert longer < 3 * plain


@each_case("gap", [b"\n\n", b"\r\n\r\n", b"\r\n\n", b"\n\r\n", b"\r\r\n", b"\r\r"])
def test_every_gap_is_found(gap: bytes) -> None:
    content = b"a,b\n" + (b"1,0" + gap * 3) * 100_000
    assert rows_of(content, "csv") == 100_000


def test_many_keys_and_many_lines_are_opened_quickly() -> None:
    content = keys(9990) + b"{}\n" * 22_000
    begun = time.process_time()
    assert rows_of(content, "jsonl") == 22_001
    assert time.process_time() - begun < SECONDS


BOMBS: dict[str, Callable[[], bytes]] = {
    "records of different keys": lambda: json.dumps(
        {"a": [{f"{number:x}": 1} for number in range(14_000)]}
    ).encode(),
    "rows of different keys": lambda: b"".join(
        json.dumps({"a": {f"{number:x}": 1}}).encode() + b"\n" for number in range(14_000)
    ),
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_nested_cells_do_not_fill_the_memory(bomb: str, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(BOMBS[bomb]())
    assert limited.read_table(tmp_path / "a.jsonl") == "invalid-table"


@pytest.mark.long
def test_many_keys_and_many_lines_are_read_in_parts() -> None:
    """Every key that a line lacks is a cell that is held."""
    table = open_table(io.BytesIO(keys(1000) + b"{}\n" * 10_000), format="jsonl")
    sizes = [batch.num_rows for batch in table.batches(table.columns)]
    assert sum(sizes) == 10_001
    assert max(sizes) * 1000 < 5 << 20


NESTED = {
    "a record": {"tea": True},
    "a list of records": [{"tea": True}],
    "a list of lists": [["tea"]],
    "a list of numbers": [1, 2],
    "a list with a gap": ["tea", None],
}


@pytest.mark.parametrize("case", NESTED)
def test_a_cell_is_a_scalar_or_a_list_of_texts(case: str) -> None:
    lines = [["tea", "milk"], [], "tea", 1, True, None, NESTED[case]]
    content = b"".join(json.dumps({"a": cell, "b": 1}).encode() + b"\n" for cell in lines)
    table = open_table(io.BytesIO(content), format="jsonl")
    assert sum(batch.num_rows for batch in table.batches(["b"])) == len(lines)
    with pytest.raises(
        InvalidTable, match=r"'a', row 7, counted from 1, must be .* or a list of texts"
    ):
        list(table.batches(["a"]))


@pytest.mark.parametrize("depth", [2, 50, 500, 900, 5000])
def test_deep_cells_are_refused(depth: int) -> None:
    content = b'{"a": ' + b"[" * depth + b"]" * depth + b"}\n"
    with pytest.raises(InvalidTable):
        rows_of(content, "jsonl")


@pytest.fixture
def little_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a file take what its size allows, and little beyond."""
    monkeypatch.setattr(limits, "_WORK", 1 << 24)


REPEATED: dict[str, tuple[str, Callable[[], bytes], int]] = {
    "empty lines of CSV": ("csv", lambda: zipped(b"a,b\n", BLANK, 64), 1),
    "gaps of one column": ("csv", lambda: zipped(b"a\n", BLANK, 64), 1),
    "empty lines of JSON": ("jsonl", lambda: zipped(b'{"a": 1}\n', BLANK, 64), 1),
    "empty objects": ("jsonl", lambda: zipped(b'{"a": 1}\n', b"{}\n" * (1 << 16), 64), 1),
    "many columns of JSON": ("jsonl", lambda: zipped(keys(5000), b"{}\n" * 20_000, 1), 5000),
    "many columns of CSV": (
        "csv",
        lambda: zipped(
            b",".join(b"%d" % at for at in range(9990)) + b"\n", b"," * 9989 + b"\n", 900
        ),
        9990,
    ),
}


@pytest.mark.usefixtures("little_work")
@pytest.mark.parametrize(
    "case", all_but(REPEATED, "many columns of CSV", "many columns of JSON", "gaps of one column")
)
def test_text_that_is_little_but_repetitions_is_refused(case: str) -> None:
    kind, make, columns = REPEATED[case]
    with pytest.raises(InvalidTable, match="almost nothing but repetitions"):
        rows_of(make(), kind, columns)


@pytest.mark.usefixtures("little_work")
@pytest.mark.parametrize("kind", ["csv", nightly("jsonl")])
def test_answers_are_worth_their_bytes(kind: str) -> None:
    """One in a hundred people says yes, and all of them are read."""
    draw = random.Random(1)
    answers = ["yes" if draw.random() < 0.01 else "no" for _ in range(400_000)]
    lines: list[Any] = [json.dumps({"answer": answer}) for answer in answers]
    if kind == "csv":
        lines = ["answer,age", *(f"{answer},30" for answer in answers)]
    packed = gzip.compress("\n".join(lines).encode())
    assert rows_of(packed, kind) == len(answers)
