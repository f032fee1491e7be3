"""What is saved of a reach can be read again, and is there in full or not at all."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path

import pytest
from pyarrow import parquet

from chaffinch.disk.protected import RELEASE_FACTS
from chaffinch.errors import InvalidInput, StorageFault
from chaffinch.reach.release import ReachRow
from chaffinch.reach.release import load_release as load_reach_release
from chaffinch.release.export import json_bytes
from chaffinch.release.publication import _SUFFIXES
from tests.release import reach_releases as releases


@pytest.mark.parametrize("left", [15.1, math.inf])
@pytest.mark.parametrize("publishers", [("daily", "radio"), releases.NASTY])
def test_json_comes_back_the_same(left: float, publishers: tuple[str, ...], tmp_path: Path) -> None:
    release = releases.release(publishers, colluding=left)
    release.save(tmp_path / "r.json")
    assert json.loads((tmp_path / "r.json").read_bytes()) == release.document()
    assert load_reach_release(tmp_path / "r.json") == release


def test_json_has_a_line_for_each_group() -> None:
    release = releases.release()
    lines = json_bytes(release.document()).decode().splitlines()
    for row in release.rows:
        assert sum(line.strip().startswith(f'{{"group": "{row.group}", ') for line in lines) == 1


def test_csv_has_every_row_to_the_last_digit(tmp_path: Path) -> None:
    release = releases.release(releases.NASTY)
    release.save(tmp_path / "r.csv")
    with (tmp_path / "r.csv").open(encoding="utf-8", newline="") as file:
        head, *rows = csv.reader(file)
    assert tuple(head) == ReachRow._fields
    assert [row[0] for row in rows] == [
        f"'{row.group}" if row.group.startswith("=") else row.group for row in release.rows
    ]
    assert [tuple(map(float, row[2:])) for row in rows] == [row[2:] for row in release.rows]


def test_parquet_has_rows_types_and_the_guarantee(tmp_path: Path) -> None:
    release = releases.release()
    release.save(tmp_path / "r.parquet")
    table = parquet.read_table(tmp_path / "r.parquet")
    assert [ReachRow(**row) for row in table.to_pylist()] == list(release.rows)
    facts = json.loads(table.schema.metadata[RELEASE_FACTS])
    assert facts["colluding_epsilon"] == 15.1
    assert "proven (upper-bound)" in facts["sentence"]
    assert "groups" not in facts


def test_the_suffix_decides(tmp_path: Path) -> None:
    for suffix in _SUFFIXES:
        releases.release().save(tmp_path / f"r{suffix.upper()}")
        assert (tmp_path / f"r{suffix.upper()}").stat().st_size
    with pytest.raises(InvalidInput, match=r"\.json, \.csv, \.parquet, \.html"):
        releases.release().save(tmp_path / "r.xlsx")
    with pytest.raises(StorageFault):
        releases.release().save(tmp_path / "none" / "r.json")
    assert not list(tmp_path.glob("*.xlsx"))
