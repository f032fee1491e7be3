"""From rows to people: everybody has the same number of rows, and each row the same chance."""

from __future__ import annotations

import errno
import json
import tempfile
from collections import Counter
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from chaffinch.errors import InvalidCells, InvalidInput, InvalidTable, StorageFault
from chaffinch.questions import Choice, Number
from chaffinch.tables import people, text
from chaffinch.tables.checking import AnswerColumns
from chaffinch.tables.dialect import settings_from
from chaffinch.tables.people import People, sample_people
from chaffinch.tables.read import open_table

VALUES = Choice(range(10_000), missing="count")
PLACES = [AnswerColumns(VALUES, ("x",), "x")]


def sample(source: Any, contributions: int = 1) -> People:
    return sample_people(open_table(source), "who", contributions, places=PLACES)


def cells(found: People) -> list[Any]:
    return [cell for part in found.table.batches(["x"]) for cell in part["x"].to_pylist()]


def test_everybody_has_one_row() -> None:
    who = ["a", "b", "a", " b ", "c", "a"]
    found = sample({"who": who, "x": [0, 1, 2, 3, 4, 5]})
    assert (found.people, found.rows, found.table.rows) == (3, 6, 3)
    owners = sorted(who[cell].strip() for cell in cells(found))
    assert owners == ["a", "b", "c"]


def test_who_has_fewer_rows_gets_empty_ones() -> None:
    found = sample({"who": ["a", "a", "a", "b"], "x": [0, 1, 2, 3]}, 2)
    kept = cells(found)
    assert found.table.rows == len(kept) == 4
    assert kept.count(None) == 1
    assert 3 in kept
    assert len({0, 1, 2} & set(kept)) == 2


def test_every_row_of_a_person_is_drawn_equally_often() -> None:
    """Two of five rows of 4,000 people; the test is wrong once in a million."""
    who = [f"u{row // 5}" for row in range(20_000)]
    counts = Counter(cells(sample({"who": who, "x": [row % 5 for row in range(20_000)]}, 2)))
    assert sum(counts.values()) == 8_000
    seen = [counts[row] for row in range(5)]
    # Draws without replacement vary less than independent ones, so the test is on the safe side;
    # the first two rows every time would fail it by far.
    assert stats.chisquare(seen).pvalue > 1e-6
    assert stats.chisquare([4_000, 4_000, 0, 0, 0]).pvalue < 1e-6


def test_draws_are_new_every_time() -> None:
    table = {"who": ["a"] * 1_000, "x": list(range(1_000))}
    assert len({cells(sample(table))[0] for _ in range(20)}) > 10


def test_a_table_that_is_dealt_into_buckets_has_the_same_people(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(people, "_ROWS", 500)
    rng = np.random.default_rng(3)
    who = rng.integers(0, 700, 9_000)
    found = sample(pa.table({"who": who, "x": np.arange(9_000)}), 3)
    kept = [cell for cell in cells(found) if cell is not None]
    owned = Counter(int(who[cell]) for cell in kept)
    assert owned == {name: min(count, 3) for name, count in Counter(who.tolist()).items()}
    assert len(set(kept)) == len(kept)
    assert found.table.rows == 3 * len(owned) == len(cells(found))


def test_it_can_be_read_again() -> None:
    found = sample({"who": ["a", "b"], "x": [1, 2]})
    assert sorted(cells(found)) == sorted(cells(found)) == [1, 2]


def test_two_may_read_it_at_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(people, "_ROWS", 10)
    found = sample({"who": [f"u{row}" for row in range(1_000)], "x": list(range(1_000))})
    both = zip(found.table.batches(["x"]), found.table.batches(["x"]), strict=True)
    assert sum(one.num_rows + two.num_rows for one, two in both) == 2_000


def test_rows_without_a_person_are_refused_with_all_other_faults() -> None:
    with pytest.raises(InvalidCells) as caught:
        sample({"who": ["a", None, "", "b"], "x": ["1", "2", "3", "private"]})
    told = str(caught.value)
    assert "2 cells of column 'who' must be the name of a person: rows 1, 2" in told
    assert "column 'x'" in told
    assert "row 3" in told
    assert "private" not in told.replace("is private and not shown", "")


def test_whole_numbers_name_the_same_people_as_floats_and_as_text() -> None:
    found = sample({"who": pa.array([3.0, 3.0, 4.0]), "x": [0, 1, 2]})
    assert found.people == 2
    assert sample({"who": ["3", "3 ", "4"], "x": [0, 1, 2]}).people == 2


def test_cells_of_several_types(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """JSON lines may hold numbers here and texts there; batches then differ in type."""
    monkeypatch.setattr(people, "_ROWS", 1)
    lines = [{"who": str(row % 4), "x": row if row < 70_000 else str(row)} for row in range(9)]
    lines[5]["x"] = "5"
    path = tmp_path / "mixed.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))
    kept = cells(sample(path, 2))
    assert len(kept) == 8
    assert {int(cell) for cell in kept} <= set(range(9))


@pytest.fixture
def line_by_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every line of a file be a batch by itself, and all of them come together again."""
    monkeypatch.setattr(text, "_TEXT_BYTES", 1)
    monkeypatch.setattr(people, "_BUCKETS", 1)


def written(path: Path, *lines: Mapping[str, object]) -> Path:
    path.write_text("\n".join(map(json.dumps, lines)))
    return path


@pytest.mark.usefixtures("line_by_line")
def test_only_a_column_of_several_types_becomes_text(tmp_path: Path) -> None:
    path = written(
        tmp_path / "mixed.jsonl",
        {"who": "a", "x": 1, "y": 7, "z": None},
        {"who": "b", "x": "2", "y": 8, "z": 4},
        {"who": "c", "x": None, "y": 9, "z": 5},
    )
    places = [AnswerColumns(VALUES, (name,), name) for name in "xyz"]
    found = sample_people(open_table(path), "who", places=places)
    rows = [row for part in found.table.batches(["x", "y", "z"]) for row in part.to_pylist()]
    assert sorted(rows, key=lambda row: row["y"]) == [
        {"x": "1", "y": 7, "z": None},
        {"x": "2", "y": 8, "z": 4},
        {"x": None, "y": 9, "z": 5},
    ]


@pytest.mark.usefixtures("line_by_line")
def test_whole_numbers_and_others_are_numbers_together(tmp_path: Path) -> None:
    lines = ({"who": str(row), "x": number} for row, number in enumerate([1, 2.5, None]))
    places = [AnswerColumns(Number(0, 3, missing="count"), ("x",), "x")]
    found = sample_people(open_table(written(tmp_path / "x.jsonl", *lines)), "who", places=places)
    assert sorted(cells(found), key=str) == [1.0, 2.5, None]


@pytest.mark.usefixtures("line_by_line")
def test_rows_are_counted_over_all_batches(tmp_path: Path) -> None:
    good: list[dict[str, object]] = [{"who": str(row % 2), "x": row} for row in range(5)]
    told: list[tuple[int, int | None]] = []
    table = open_table(written(tmp_path / "good.jsonl", *good))
    found = sample_people(table, "who", places=PLACES, progress=lambda *done: told.append(done))
    assert (found.people, found.rows) == (2, 5)
    assert told == [(done, None) for done in range(1, 6)]
    bad: list[dict[str, object]] = [{"who": None, "x": 5}, {"who": "1", "x": "private"}]
    with pytest.raises(InvalidCells) as caught:
        sample(written(tmp_path / "bad.jsonl", *good, *bad))
    assert {(one.column, one.rows) for one in caught.value.faults} == {("who", (6,)), ("x", (6,))}


def test_a_table_that_can_be_read_once_can_be_read_again_afterwards() -> None:
    batch = pa.record_batch({"who": ["a", "b"], "x": [1, 2]})
    source = open_table(pa.RecordBatchReader.from_batches(batch.schema, [batch]))
    assert not source.readable_again
    found = sample_people(source, "who", places=PLACES)
    assert found.table.readable_again
    assert sorted(cells(found)) == sorted(cells(found)) == [1, 2]


def test_names_of_columns_are_no_first_line_any_more(tmp_path: Path) -> None:
    path = tmp_path / "visits.csv"
    path.write_text("who,x\na,1\nb,2\n")
    source = open_table(path)
    assert source.named_by_first_line
    assert not sample_people(source, "who", places=PLACES).table.named_by_first_line


def test_a_column_of_answers_tells_nobody_apart() -> None:
    with pytest.raises(InvalidInput, match="column of people"):
        sample_people(open_table({"x": [1, 2]}), "x", places=PLACES)


def test_an_unknown_column() -> None:
    with pytest.raises(InvalidTable, match="whom"):
        sample_people(open_table({"who": ["a"], "x": [1]}), "whom", places=PLACES)


def test_what_is_missing_is_said_of_people_too() -> None:
    rows = {"who": ["a", "unknown", "NA"], "x": [1, 2, 3]}
    table = open_table(rows, settings=settings_from({"missing_values": ["unknown"]}))
    with pytest.raises(InvalidCells, match="column 'who', row 1"):
        sample_people(table, "who", places=PLACES)


def test_columns_may_have_any_names() -> None:
    places = [AnswerColumns(VALUES, (name,), name) for name in ("person", "drawn")]
    table = open_table({"who": ["a", "a"], "person": [1, 1], "drawn": [2, 2]})
    (batch,) = sample_people(table, "who", places=places).table.batches(["drawn", "person"])
    assert batch.to_pydict() == {"drawn": [2], "person": [1]}


def test_times_that_python_cannot_hold_name_nobody() -> None:
    times = pa.array([*range(2), 2**61, 2**61 + 1], pa.timestamp("s"))
    with pytest.raises(InvalidCells, match="name of a person: rows 2, 3") as refused:
        sample(pa.table({"who": times, "x": range(4)}))
    assert str(2**61)[:6] not in str(refused.value)


def test_decimals_of_any_width_are_the_same_people() -> None:
    for kind in (pa.decimal32(9, 1), pa.decimal128(9, 1), pa.decimal256(50, 1)):
        names = pa.array([Decimal(1), Decimal(1), Decimal(2)], kind)
        assert sample(pa.table({"who": names, "x": range(3)})).people == 2


def test_lists_tell_nobody_apart() -> None:
    with pytest.raises(InvalidTable, match="tell people apart"):
        sample({"who": [["a"], ["b"]], "x": [1, 2]})


def test_whole_numbers_written_with_a_point_are_whole() -> None:
    assert sample({"who": ["17", "17.0", "18.50"], "x": [0, 1, 2]}).people == 2
    assert sample({"who": ["1000000000000001", "1000000000000001.0"], "x": [0, 1]}).people == 1
    assert sample({"who": pa.array([1e16, 1e16]), "x": [0, 1]}).people == 1


def test_it_is_told_how_rows_became_people() -> None:
    rows = {"who": ["a", "b", "a"], "x": [0, 1, 2]}
    assert sample(rows).words == "2 people have 3 rows; 1 row of each, drawn at random"
    assert sample(rows, 2).words == (
        "2 people have 3 rows; 2 rows of each, drawn at random, empty ones where there are fewer"
    )


def test_everybody_has_a_row_at_least() -> None:
    with pytest.raises(InvalidInput, match="contributions"):
        sample({"who": ["a"], "x": [0]}, 0)


def test_what_is_left_is_a_table_of_the_answers_alone() -> None:
    found = sample({"who": ["a", "b"], "x": [0, 1], "more": [2, 3]}).table
    assert found.columns == ("x",)
    assert found.readable_again
    assert not found.named_by_first_line


def test_rows_stay_in_their_old_order() -> None:
    """That of people would tell who is who."""
    found = cells(
        sample({"who": [f"u{row * 7 % 400}" for row in range(1000)], "x": range(1000)}, 2)
    )
    rows = [cell for cell in found if cell is not None]
    assert rows == sorted(rows)
    assert found[: len(rows)] == rows, "rows without answers come last"


def test_the_rows_of_a_bucket_are_looked_at_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(people, "_ROWS", 10)
    who = [f"u{row % 40}" for row in range(200)]
    told: list[tuple[int, int | None]] = []
    found = sample_people(
        open_table({"who": who, "x": range(200)}),
        "who",
        places=PLACES,
        progress=lambda done, total: told.append((done, total)),
    )
    assert found.people == 40
    assert sorted(who[cell] for cell in cells(found)) == sorted(set(who))
    assert told[-1] == (200, 200)


@pytest.mark.parametrize("verb", ["make", "write"])
def test_a_full_disk_is_told_and_where_to_go(verb: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def full() -> None:
        raise OSError(errno.ENOSPC, "full")

    def device() -> IO[bytes]:
        return Path("/dev/full").open("wb")

    monkeypatch.setattr(tempfile, "TemporaryFile", full if verb == "make" else device)
    with pytest.raises(StorageFault, match=f"temporary file.*{verb}.*no space") as caught:
        sample({"who": ["a"], "x": [0]})
    assert "TMPDIR" in caught.value.hint
