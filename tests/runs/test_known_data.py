"""Data are known by their bytes, rows and answers, and a change during a run is noticed."""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
from collections.abc import Mapping
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
KEY = b"key"


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


def memory(columns: Mapping[str, object], key: bytes = KEY) -> SourceState:
    return SourceState.of_memory(pa.table(dict(columns)), key)


def test_the_state_of_a_table_in_memory_has_all_columns() -> None:
    state = memory(ROWS)
    found = {}
    for name, cells in ROWS.items():
        seen = Fingerprint(KEY)
        read(seen.watch(open_table(pa.table({name: cells}))))
        found[name] = seen.value.hex()
    text = json.dumps(dict(sorted(found.items())))
    assert state == SourceState("memory", hashlib.sha256(text.encode()).hexdigest())
    assert SourceState.of_memory(ROWS, KEY) == state
    assert memory(dict(reversed(ROWS.items()))) == state
    for other in (
        memory(ROWS | {"cups": [1, 2, 4]}),
        memory({"tea": ROWS["tea"]}),
        memory({"coffee": ROWS["tea"], "cups": ROWS["cups"]}),
        memory(ROWS, b"another"),
    ):
        assert other.digest != state.digest


def test_a_column_that_cannot_be_read_is_left_out() -> None:
    pandas = pytest.importorskip("pandas")
    odd = pandas.DataFrame({"odd": [{"x": 1}, object(), 1]} | ROWS)
    assert SourceState.of_memory(odd, KEY) == memory(ROWS)


def test_what_can_be_read_once_has_no_state_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("tea\nyes\n")
    once = (pa.table(ROWS).to_reader(), io.BytesIO(b"tea\nyes\n"), path, str(path), "-")
    for source in once:
        assert SourceState.of_memory(source, KEY) == SourceState("", "")


# ------------------------------------------------------------------ names


def test_data_are_called_by_their_bytes_or_their_columns(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("tea\nyes\n")
    record = ReleaseRecord()
    for source, state in (
        (path, SourceState.of_file(path)),
        (ROWS, SourceState.of_memory(ROWS, record.key)),
    ):
        data = KnownData.of(source)
        assert (data.record.id, data.source, data.state) == (record.id, source, state)
        assert data.names == (record.name_of(state.kind, state.digest.encode()),)
        assert data.can_be_recognized
    pipe = KnownData.of(io.BytesIO(b"tea\nyes\n"))
    assert (pipe.names, pipe.state, pipe.can_be_recognized) == ((), SourceState("", ""), False)


def watched(source: Any) -> tuple[Table, KnownData]:
    """Return a table with a question for its first column, watched while it is read."""
    table = open_table(source)
    questions = {"tea": Bit(missing="refuse")}
    places = dict(zip(questions, find_columns(questions, table, None), strict=True))
    return KnownData.of(source).watch(table, places)


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


def test_a_request_is_called_by_the_table_and_all_facts() -> None:
    data = KnownData.of(ROWS)
    content = json.dumps([data.state.digest, "plan", {"a": 1, "b": 2}]).encode()
    name = data.request(["plan", {"b": 2, "a": 1}])
    assert name == data.record.name_of("request", content)
    others = [data.request(["plan"]), KnownData.of({"tea": ["yes"]}).request(["plan", {"a": 1}])]
    assert name not in others
