"""One guard turns what SQLite and the disk complain about into faults of ours."""

from __future__ import annotations

import ast
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from chaffinch.disk.databases import connect, guarded
from chaffinch.errors import Reason, StorageFault
from tests.meta import repository

BROKEN = StorageFault("The thing must be whole. Got another.", reason=Reason.DAMAGED)


def refused(error: Exception, *, damaged: StorageFault | None = None) -> StorageFault:
    reasons = {sqlite3.SQLITE_BUSY: Reason.BUSY, sqlite3.SQLITE_ERROR: Reason.NO_SPACE}
    with (
        pytest.raises(StorageFault) as caught,
        guarded("thing", hint="h", reason=Reason.UNCERTAIN, reasons=reasons, damaged=damaged),
    ):
        raise error
    return caught.value


def sqlite_error(code: int) -> sqlite3.Error:
    error = sqlite3.OperationalError("what it says")
    error.sqlite_errorcode = code
    return error


def test_each_complaint_has_its_reason_and_its_words() -> None:
    undecodable = UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid")
    extended_busy = sqlite3.SQLITE_BUSY | (2 << 8)
    for error, said, reason in (
        (sqlite_error(sqlite3.SQLITE_BUSY), "what it says", Reason.BUSY),
        (sqlite_error(extended_busy), "what it says", Reason.BUSY),
        (sqlite_error(sqlite3.SQLITE_CORRUPT), "what it says", Reason.UNCERTAIN),
        (sqlite3.DatabaseError("another file"), "another file", Reason.UNCERTAIN),
        (OSError("no disk"), "no disk", Reason.UNCERTAIN),
        (undecodable, "a damaged file", Reason.UNCERTAIN),
    ):
        fault = refused(error)
        assert fault.message == f"The thing must be whole and within reach. Got {said}."
        assert (fault.reason, fault.hint) == (reason, "h")


def test_damage_has_words_of_its_own_where_they_are_given() -> None:
    undecodable = UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid")
    for error in (
        sqlite_error(sqlite3.SQLITE_CORRUPT),
        sqlite_error(sqlite3.SQLITE_NOTADB),
        undecodable,
    ):
        assert refused(error, damaged=BROKEN) is BROKEN
    assert refused(sqlite_error(sqlite3.SQLITE_FULL), damaged=BROKEN) is not BROKEN


def test_other_errors_pass_and_faults_of_ours_stay_as_they_are() -> None:
    with pytest.raises(ZeroDivisionError), guarded("thing", hint="h"):
        raise ZeroDivisionError
    assert refused(BROKEN) is BROKEN


def test_a_connection_waits_for_others_as_long_as_it_is_told(tmp_path: Path) -> None:
    path = tmp_path / "some.database"
    path.touch()
    for patience, milliseconds in ((None, 60_000), (0.25, 250), (0.0, 0)):
        with closing(connect(path, patience)) as connection:
            assert connection.execute("PRAGMA busy_timeout").fetchone() == (milliseconds,)


def test_errors_of_sqlite_are_caught_in_the_room_of_the_disk_alone() -> None:
    catching = {
        path.relative_to(repository.SOURCE).as_posix()
        for path in repository.SOURCE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ExceptHandler) and node.type is not None
        if "sqlite3." in ast.unparse(node.type)
    }
    assert catching == {"disk/databases.py", "disk/stores.py"}
