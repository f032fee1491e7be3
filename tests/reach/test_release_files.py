"""What is saved of a reach can be read again, and is there in full or not at all."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet

from chaffinch.errors import InvalidFile, InvalidInput, StorageFault
from chaffinch.release.audience_documents import load_release, release_from, release_schema
from chaffinch.release.audience_files import FORMATS, json_file
from chaffinch.release.audience_release import ReachRow
from chaffinch.release.files import METADATA
from tests.reach import releases


@pytest.mark.parametrize("left", [15.1, math.inf])
@pytest.mark.parametrize("publishers", [("daily", "radio"), releases.NASTY])
def test_json_comes_back_the_same(left: float, publishers: tuple[str, ...], tmp_path: Path) -> None:
    release = releases.release(publishers, colluding=left)
    release.save(tmp_path / "r.json")
    assert json.loads((tmp_path / "r.json").read_bytes()) == release.document()
    assert load_release(tmp_path / "r.json") == release


def test_json_has_a_line_for_each_group() -> None:
    release = releases.release()
    lines = json_file(release).decode().splitlines()
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
    facts = json.loads(table.schema.metadata[METADATA])
    assert facts["colluding_epsilon"] == 15.1
    assert "proven (upper-bound)" in facts["sentence"]
    assert "groups" not in facts


def test_the_suffix_decides(tmp_path: Path) -> None:
    for suffix in FORMATS:
        releases.release().save(tmp_path / f"r{suffix.upper()}")
        assert (tmp_path / f"r{suffix.upper()}").stat().st_size
    with pytest.raises(InvalidInput, match=r"\.json, \.csv, \.parquet, \.html"):
        releases.release().save(tmp_path / "r.xlsx")
    with pytest.raises(StorageFault):
        releases.release().save(tmp_path / "none" / "r.json")
    assert not list(tmp_path.glob("*.xlsx"))


def changed(change: Callable[[dict[str, Any]], object]) -> str:
    document = releases.release().document()
    change(document)
    return json.dumps(document)


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (lambda d: d.update(format="chaffinch/release@1"), "format 'chaffinch/release@1'"),
        (lambda d: d.pop("key"), "key"),
        (lambda d: d.update(more=1), "more"),
        (lambda d: d.update(level=2), "level"),
        (lambda d: d.update(colluding_epsilon="lots"), "colluding_epsilon"),
        (lambda d: d["groups"][0].update(low=-1.0), "low"),
        (lambda d: d["groups"][0].update(kind="new"), "kind"),
        (lambda d: d["groups"].clear(), "groups"),
        (lambda d: d["groups"][0].update(low=9e9), "contradicts itself"),
        (lambda d: d["groups"][1].update(kind="reach"), "contradicts itself"),
        (lambda d: d["groups"].reverse(), "contradicts itself"),
        (lambda d: d.update(publishers=["a", "a"]), "contradicts itself"),
        (lambda d: d["filters"].update(frequencies=99), "contradicts itself"),
    ],
)
def test_any_fault_is_one_clear_error(
    change: Callable[[dict[str, Any]], object], fault: str
) -> None:
    with pytest.raises(InvalidFile, match=fault) as caught:
        release_from(changed(change))
    assert "chaffinch/reach-release@1" in caught.value.message


@pytest.mark.parametrize("text", ["", "[]", "{", '{"format": NaN}', "null", "[" * 100_000])
def test_what_is_no_release_is_refused(text: str) -> None:
    with pytest.raises(InvalidFile):
        release_from(text)


def test_the_schema_knows_every_field() -> None:
    assert set(release_schema()["properties"]) == set(releases.release().document())
