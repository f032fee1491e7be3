"""Stores have one owner, come up to date whole or not at all, and refuse what is newer."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from chaffinch.disk import databases, stores
from chaffinch.disk.files import make_folder
from chaffinch.disk.kill_points import kill_point
from chaffinch.disk.stores import StoreKind
from chaffinch.errors import Reason, StorageFault
from tests.services.oracle import dies_at

_FIRST = ("CREATE TABLE words (word TEXT PRIMARY KEY) WITHOUT ROWID",)
_SECOND = (
    "ALTER TABLE words ADD COLUMN length INTEGER NOT NULL DEFAULT 0",
    "UPDATE words SET length = length(word)",
)


def kind(*steps: tuple[str, ...]) -> StoreKind:
    return StoreKind("store of words", 0x43685465, steps, hint="look at it")


OLD, NEW = kind(_FIRST), kind(_FIRST, _SECOND)


@pytest.fixture(name="path")
def _path(tmp_path: Path) -> Path:
    """Return an old store with a word in it."""
    path = tmp_path / "data" / "state.sqlite"
    with OLD.open(path) as store, store.changing() as connection:
        connection.execute("INSERT INTO words VALUES ('tea')")
    return path


def version(path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        (found,) = connection.execute("PRAGMA user_version").fetchone()
        return int(found)


def test_an_old_store_is_brought_up_to_date_with_all_that_is_in_it(path: Path) -> None:
    with NEW.open(path) as store:
        assert store.rows("SELECT * FROM words") == [("tea", 3)]
    assert version(path) == 2
    with NEW.open(path) as store:
        assert list(store.each("SELECT * FROM words")) == [("tea", 3)]


def test_a_store_may_be_named_from_the_folder_in_which_one_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        with OLD.open(Path("state.sqlite")) as store:
            assert store.rows("SELECT * FROM words") == []


def test_a_step_that_fails_leaves_the_old_store(path: Path) -> None:
    broken = kind(_FIRST, (_SECOND[0], "UPDATE nothing SET length = 0"))
    with pytest.raises(StorageFault, match="nothing"):
        broken.open(path)
    assert version(path) == 1
    with OLD.open(path) as store:
        assert store.rows("SELECT * FROM words") == [("tea",)]


def test_a_newer_store_is_refused_and_left_as_it_is(path: Path) -> None:
    NEW.open(path).close()
    before = path.read_bytes()
    with pytest.raises(StorageFault, match="newer format version 2"):
        OLD.open(path)
    assert path.read_bytes() == before


def test_an_old_store_is_not_changed_by_who_only_looks(path: Path) -> None:
    with pytest.raises(StorageFault, match="older format"), NEW.looked_at(path):
        pass
    assert version(path) == 1
    with OLD.open(path), OLD.looked_at(path) as connection:
        assert connection.execute("SELECT word FROM words").fetchall() == [("tea",)]
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            connection.execute("DELETE FROM words")


def test_who_only_looks_sees_nothing_of_what_a_killed_owner_had_not_committed(path: Path) -> None:
    def half() -> None:
        with OLD.open(path) as store, store.changing() as connection:
            connection.execute("PRAGMA cache_size = 1")
            connection.executemany(
                "INSERT INTO words VALUES (?)", [(f"{number:0900}",) for number in range(99)]
            )
            kill_point("inbox.written")

    assert dies_at("inbox.written", half)
    assert path.with_name("state.sqlite-journal").exists()
    with OLD.looked_at(path) as connection:
        assert connection.execute("SELECT word FROM words").fetchall() == [("tea",)]


def test_there_is_one_owner(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "_OWNER_PATIENCE", 0.0)
    with OLD.open(path), pytest.raises(StorageFault, match=r"process owns\.\nhint: .*stop it"):
        OLD.open(path)
    OLD.open(path).close()


@pytest.mark.parametrize(
    "statement", ["PRAGMA application_id = 5", "CREATE TABLE other (x)", "PRAGMA user_version = 0"]
)
def test_another_file_is_refused(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(statement)
    with pytest.raises(StorageFault):
        OLD.open(path)


def test_a_change_is_whole_or_nothing(path: Path) -> None:
    with OLD.open(path) as store:
        with pytest.raises(ZeroDivisionError), store.changing() as connection:
            assert connection.execute("DELETE FROM words").rowcount / 0
        assert store.rows("SELECT word FROM words") == [("tea",)]
        twice = [("milk",), ("milk",)]
        with pytest.raises(StorageFault, match="UNIQUE") as caught, store.changing() as connection:
            connection.executemany("INSERT INTO words VALUES (?)", twice)
        assert caught.value.reason is Reason.UNCERTAIN
        assert store.rows("SELECT word FROM words") == [("tea",)]


def test_a_full_disk_is_told_apart_and_nothing_is_changed(path: Path) -> None:
    with OLD.open(path) as store:
        store.rows("PRAGMA max_page_count = 3")
        with pytest.raises(StorageFault) as caught, store.changing() as connection:
            connection.executemany(
                "INSERT INTO words VALUES (?)", [(f"{number:0500}",) for number in range(99)]
            )
        assert caught.value.reason is Reason.NO_SPACE
        assert store.rows("SELECT word FROM words") == [("tea",)]


def test_somebody_who_reads_for_long_is_told_apart_and_nothing_is_changed(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(databases, "_PATIENCE", 0.1)
    with OLD.open(path) as store, closing(sqlite3.connect(path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        assert reader.execute("SELECT word FROM words").fetchall() == [("tea",)]
        with pytest.raises(StorageFault) as caught, store.changing() as connection:
            connection.execute("INSERT INTO words VALUES ('milk')")
        assert caught.value.reason is Reason.BUSY
        reader.execute("COMMIT")
        assert store.rows("SELECT word FROM words") == [("tea",)]
        with store.changing() as connection:
            connection.execute("INSERT INTO words VALUES ('milk')")


def test_what_is_deleted_is_overwritten(path: Path) -> None:
    word = "never to be found"
    with OLD.open(path) as store:
        with store.changing() as connection:
            connection.execute("INSERT INTO words VALUES (?)", (word,))
        assert word.encode() in path.read_bytes()
        with store.changing() as connection:
            connection.execute("DELETE FROM words WHERE word = ?", (word,))
    assert word.encode() not in path.read_bytes()


def test_what_is_told_is_on_the_disk(path: Path) -> None:
    """Less than this loses what was told in a power cut, as no kill of a process shows."""
    with OLD.open(path) as store:
        (extra, rollback, wiped) = (
            store.rows(f"PRAGMA {name}")[0][0]
            for name in ("synchronous", "journal_mode", "secure_delete")
        )
    assert (extra, rollback, wiped) == (3, "delete", 1)


def test_a_new_folder_is_private_with_all_above_it_and_may_be_there(tmp_path: Path) -> None:
    folder = tmp_path / "data" / "inbox"
    for _ in range(2):
        make_folder(folder)
        assert [one.stat().st_mode & 0o777 for one in (folder.parent, folder)] == [0o700] * 2
