"""What is saved can be read again, is safe to open, and is there in full or not at all."""

from __future__ import annotations

import csv
import json
import math
import os
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaffinch.disk import leftovers
from chaffinch.disk.protected import RELEASE_FACTS
from chaffinch.errors import InvalidInput, StorageFault
from chaffinch.release.export import _harmless_text, json_bytes
from chaffinch.release.publication import _SUFFIXES
from chaffinch.release.surveys import Release, ReleaseRow, load_release
from tests.release import survey_releases as releases


def fail(word: str) -> None:
    raise AssertionError(word)


@pytest.fixture
def release() -> Release:
    return releases.release()


@pytest.mark.parametrize("local", [4.5, math.inf])
def test_json_is_json_and_comes_back_the_same(local: float, tmp_path: Path) -> None:
    release = releases.release(local=local)
    release.save(tmp_path / "r.json")
    document = json.loads((tmp_path / "r.json").read_bytes(), parse_constant=fail)
    assert document == release.document()
    assert document["guarantee"]["local_epsilon"] == ("infinite" if math.isinf(local) else 4.5)
    again = load_release(tmp_path / "r.json")
    assert again.table() == release.table()
    assert again.guarantee == release.guarantee
    assert again.batch == release.batch
    assert again.answers[1].summary == release.answers[1].summary
    assert again == release


def test_releases_are_equal_if_their_documents_are(release: Release) -> None:
    assert release == releases.release()
    assert release != releases.release(title="another")
    assert release != release.document()


def test_a_number_has_rows_for_its_sum_and_quantiles() -> None:
    mean, total, tenth, median = releases.release(releases.number()).table()
    assert (mean.value, total.value, median.value) == ("mean", "sum", "median")
    assert total.estimate == 72810.5
    assert mean.standard_error is not None
    assert total[7:11] == tuple(5000 * number for number in mean[7:11])
    unit = "min<utes>"
    tenth_name = "10% are at most"
    expected = ("minutes", "quantile", "", "", tenth_name, 1.5, None, 0.0, 6.0, 0.0, 6.0, unit)
    assert tenth == expected
    assert median[5:] == (10.5, None, 6.0, 15.0, 6.0, 15.0, unit)


def test_json_has_a_line_for_each_value(release: Release) -> None:
    lines = json_bytes(release.document()).decode().splitlines()
    for row in (row for answer in release.answers for row in answer.rows()):
        start = f'{{"value": {json.dumps(row.value, ensure_ascii=False)}, '
        assert sum(line.strip().startswith(start) for line in lines) == 1


def test_json_never_holds_what_is_no_number() -> None:
    answer = releases.counted("q", ["a", "b"])
    answer.estimates[0] = math.nan
    with pytest.raises(ValueError, match="not JSON compliant"):
        json_bytes(releases.release(answer).document())


def plain_numbers(cells: list[str]) -> list[float | None]:
    assert all(re.fullmatch(r"(-?[0-9.]+(e[+-]?[0-9]+)?)?", cell) for cell in cells)
    return [float(cell) if cell else None for cell in cells]


def texts_of(cells: list[str]) -> list[str]:
    return [cell.removeprefix("'") for cell in cells]


def test_csv_has_the_rows_of_the_table(release: Release, tmp_path: Path) -> None:
    release.save(tmp_path / "r.csv")
    with (tmp_path / "r.csv").open(encoding="utf-8", newline="") as file:
        head, *rows = csv.reader(file)
    assert tuple(head) == ReleaseRow._fields
    read = [(*texts_of(row[:5]), *plain_numbers(row[5:11]), *texts_of(row[11:])) for row in rows]
    assert read == release.table()


def test_csv_leaves_the_error_of_a_quantile_empty(tmp_path: Path) -> None:
    releases.release(releases.number()).save(tmp_path / "r.csv")
    *_, median = (tmp_path / "r.csv").read_text(encoding="utf-8").splitlines()
    # Not "": some readers would take the whole column for text.
    numbers = "10.5,,6.0,15.0,6.0,15.0"
    assert median == f'"minutes","quantile","","","median",{numbers},"min<utes>"'


def test_csv_starts_no_formula(release: Release, tmp_path: Path) -> None:
    release.save(tmp_path / "r.csv")
    with (tmp_path / "r.csv").open(encoding="utf-8", newline="") as file:
        texts = [cell for row in csv.reader(file) for cell in (*row[:5], *row[11:])]
    begin = [text for text in texts if text.startswith(("=", "+", "-", "@"))]
    assert begin == ["-5"] * 2


@given(st.text(max_size=20))
def test_a_harmless_text_is_harmless_and_can_be_taken_back(text: str) -> None:
    safe = _harmless_text(text)
    assert safe.removeprefix("'") == text
    if not re.fullmatch(r"-?[0-9]+(\.[0-9]+)?", safe):
        assert not re.match(r"\s*[=+\-@＝＋－＠]", safe)


def test_parquet_has_typed_columns_and_says_what_it_is(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    release = releases.release(local=math.inf)
    release.save(tmp_path / "r.parquet")
    table = parquet.read_table(tmp_path / "r.parquet")
    kinds = ["string"] * 5 + ["double"] * 6 + ["string"]
    assert [str(field.type) for field in table.schema] == kinds
    assert [ReleaseRow(**row) for row in table.to_pylist()] == release.table()
    facts = json.loads(table.schema.metadata[RELEASE_FACTS], parse_constant=fail)
    assert facts["plan"] == release.plan_id
    assert facts["version"] == release.version
    assert facts["guarantee"]["local_epsilon"] == "infinite"
    assert facts["sentence"] == str(release.guarantee)


@pytest.mark.parametrize("name", ["r.xlsx", "r", "r.html.gz", ".json"])
def test_other_suffixes_are_refused(name: str, release: Release, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"ends in \.json, \.csv, \.parquet, \.html"):
        release.save(tmp_path / name)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("suffix", [*_SUFFIXES, ".JSON"])
def test_a_full_disk_leaves_the_old_file_and_nothing_else(
    suffix: str, release: Release, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / f"r{suffix}"
    path.write_bytes(b"old")
    real = os.open

    def full(place: Any, flags: int, mode: int = 0o777) -> int:
        # The new file is made, and what is written to it goes to a disk that is full.
        number = real(place, flags, mode)
        if str(place).endswith(".part"):
            device = real("/dev/full", os.O_WRONLY)
            os.dup2(device, number)
            os.close(device)
        return number

    monkeypatch.setattr(os, "open", full)
    monkeypatch.setattr(leftovers, "holds_new", lambda *_: True)
    with pytest.raises(StorageFault, match="no space"):
        release.save(path)
    assert [place.name for place in tmp_path.iterdir()] == [path.name]
    assert path.read_bytes() == b"old"
    monkeypatch.undo()
    release.save(path)
    assert path.read_bytes() != b"old"
