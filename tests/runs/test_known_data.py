"""Data are known by their bytes, rows and answers, and a change during a run is noticed."""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from chaffinch.encoding.bulk import find_columns
from chaffinch.errors import InvalidInput, StorageFault
from chaffinch.ledger.release_record import ReleaseRecord
from chaffinch.questions import Bit
from chaffinch.runs.known_data import KnownData, SourceState
from chaffinch.tables.fingerprint import Fingerprint, answers_in
from chaffinch.tables.read import Table, open_table

ROWS: dict[str, list[Any]] = {"tea": ["yes", "no", "no"], "cups": [1, 2, 3]}


def read(table: Table) -> None:
    for _ in table.batches(list(table.columns)):
        pass


# ------------------------------------------------------------------ the state of a source


def test_the_state_of_a_file_has_its_bytes_and_its_times(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(b"tea\nyes\n")
    digest, found = hashlib.sha256(b"tea\nyes\n").hexdigest(), path.stat()
    times = (found.st_dev, found.st_ino, found.st_mtime_ns, found.st_ctime_ns)
    for source in (path, str(path)):
        assert SourceState.of_file(source) == SourceState("file", digest, times)


def test_what_is_no_file_has_no_state_of_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("-").write_text("tea\nyes\n")
    for source in ("-", "gone.csv", tmp_path, ROWS, io.BytesIO(b"tea\n"), None):
        assert SourceState.of_file(source) == SourceState("", "")


def test_a_file_that_cannot_be_read_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EIO, "")

    path = tmp_path / "t.csv"
    path.write_text("tea\nyes\n")
    monkeypatch.setattr(hashlib, "file_digest", refuse)
    with pytest.raises(StorageFault, match=r"t\.csv.*read|read.*t\.csv"):
        SourceState.of_file(path)


def opened(source: object, columns: object = None) -> KnownData:
    """Return the data of a table in memory, which is opened with the same columns or others."""
    table = open_table(source if columns is None else columns)
    return KnownData.of(source).opened(table, lambda *_: None)


def test_a_table_in_memory_is_called_by_its_rows_over_all_columns() -> None:
    data = opened(ROWS)
    seen = Fingerprint(data.record.key)
    seen.read_all(open_table(ROWS), lambda *_: None)
    assert data.state == SourceState("memory", seen.value.hex())
    assert opened(pa.table(ROWS)).state == data.state
    assert opened(dict(reversed(ROWS.items()))).state == data.state
    turned = {name: cells[::-1] for name, cells in ROWS.items()}
    assert opened(turned).state == data.state, "rows have no order"
    for other in (
        ROWS | {"cups": [1, 2, 4]},
        ROWS | {"cups": [3, 2, 1]},
        {"tea": ROWS["tea"]},
        {"coffee": ROWS["tea"], "cups": ROWS["cups"]},
    ):
        assert opened(other).state.digest != data.state.digest


def test_a_column_that_cannot_be_read_is_left_out() -> None:
    pandas = pytest.importorskip("pandas")
    odd = pandas.DataFrame({"odd": [{"x": 1}, object(), 1]} | ROWS)
    assert opened(odd).state == opened(ROWS).state


# ------------------------------------------------------------------ names


def test_data_are_called_by_their_bytes_or_their_columns(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("tea\nyes\n")
    record = ReleaseRecord()
    for source, data in ((path, KnownData.of(path)), (ROWS, opened(ROWS))):
        assert (data.record.id, data.source) == (record.id, source)
        assert data.names == (record.name_of(data.state.kind, data.state.digest.encode()),)
        assert data.can_be_recognized
    for once in (io.BytesIO(b"tea\nyes\n"), pa.table(ROWS).to_reader(), "-"):
        pipe = KnownData.of(once)
        assert (pipe.names, pipe.state, pipe.can_be_recognized) == ((), SourceState("", ""), False)


def watched(source: Any) -> tuple[Table, KnownData]:
    """Return a table with a question for its first column, watched while it is read."""
    table = open_table(source)
    questions = {"tea": Bit(missing="refuse")}
    places = dict(zip(questions, find_columns(questions, table, None), strict=True))
    data = opened(source) if isinstance(source, dict) else KnownData.of(source)
    return data.watch(table, places)


def names_of(data: KnownData, rows: dict[str, list[Any]]) -> tuple[str, str]:
    """Return what data of these rows are called by their answers and by their rows."""
    table = open_table(pa.table(rows))
    questions = {"tea": Bit(missing="refuse")}
    places = dict(zip(questions, find_columns(questions, table, None), strict=True))
    record = data.record
    answers, whole = Fingerprint(record.key, answers_in(places)), Fingerprint(record.key)
    read(answers.watch(table))
    read(whole.watch(table))
    return record.name_of("answers", answers.value), record.name_of("rows", whole.value)


def test_what_was_read_is_called_by_its_answers_and_its_rows() -> None:
    table, data = watched(ROWS)
    read(table)
    checked = data.after_check()
    assert checked.names == (*data.names, *names_of(data, ROWS))
    spelled = ROWS | {"tea": ["1", "0", "0"]}
    assert names_of(data, spelled)[0] == checked.names[1]
    assert names_of(data, spelled)[1] != checked.names[2]
    read(table)
    assert checked.after_encoding() is checked


def test_a_pipe_is_called_by_what_was_read_once() -> None:
    table, data = watched(pa.table(ROWS).to_reader())
    read(table)
    assert data.after_encoding().names == names_of(data, ROWS)


# ------------------------------------------------------------------ changes


def test_answers_that_change_between_two_readings_are_noticed() -> None:
    table, data = watched(ROWS)
    read(table)
    checked = data.after_check()
    changed, later = watched(ROWS | {"tea": ["no", "no", "no"]})
    read(changed)
    with pytest.raises(InvalidInput, match="same from the beginning to the end") as refused:
        replace(checked, seen=later.seen).after_encoding()
    assert "changed meanwhile" in str(refused.value)


@pytest.mark.parametrize("again", [False, True])
def test_a_file_that_changes_is_noticed_whatever_it_holds_now(tmp_path: Path, again: bool) -> None:  # noqa: FBT001
    path = tmp_path / "t.csv"
    path.write_text("tea,cups\nyes,1\nno,2\n")
    table, data = watched(path)
    read(table)
    if again:
        data = data.after_check()
    assert data.after_encoding().names[1:] == data.after_check().names[-2:]
    os.utime(path, ns=(1, 1))
    with pytest.raises(InvalidInput, match="changed meanwhile"):
        data.after_encoding()


# ------------------------------------------------------------------ requests


def test_a_request_is_called_by_all_names_of_the_table_and_all_facts() -> None:
    table, data = watched(ROWS)
    read(table)
    checked = data.after_check()
    content = json.dumps([checked.names, "plan", {"a": 1, "b": 2}]).encode()
    name = checked.request(["plan", {"b": 2, "a": 1}])
    assert name == data.record.name_of("request", content)
    others = [
        checked.request(["plan"]),
        data.request(["plan", {"a": 1, "b": 2}]),
        opened({"tea": ["yes"]}).request(["plan", {"a": 1, "b": 2}]),
    ]
    assert name not in others
