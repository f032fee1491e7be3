"""What a ledger keeps of what it paid for: with its charge, as it was, and for ever."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from chaffinch.errors import BudgetExhausted, LedgerRolledBack, StorageFault
from chaffinch.ledger import Ledger
from chaffinch.ledger.schema import _CONTENT_STATEMENTS
from tests.ledger import made
from tests.ledger.made import ONE
from tests.ledger.test_kept import ASKED, KEPT


def version(folder: Path) -> int:
    with closing(sqlite3.connect(folder / "ledger")) as connection:
        found: int = connection.execute("PRAGMA user_version").fetchone()[0]
        return found


def change(folder: Path, *statements: str) -> None:
    with closing(sqlite3.connect(folder / "ledger")) as connection, connection:
        for statement in statements:
            connection.execute(statement)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a ledger with three charges, of which the second and the third have a content."""
    ledger = made.create(tmp_path)
    ledger.charge(ONE, "a")
    ledger.charge(ONE, "b", subject="s", content=b"first release")
    ledger.charge(ONE, "c", content=b"")
    return tmp_path


def test_a_content_comes_back_as_it_was(folder: Path) -> None:
    ledger = made.reopen(folder)
    found = [ledger.content_of(entry) for entry in ledger.entries()]
    assert found == [None, b"first release", b""]


def test_whoever_asks_again_gets_what_was_kept_first(folder: Path) -> None:
    ledger = made.reopen(folder)
    again = ledger.charge(ONE, "x", subject="s", by_subject=True, content=b"another release")
    assert (again.key, again.replayed) == ("b", True)
    assert ledger.content_of(again) == b"first release"
    # A charge that was made without one does not get one later: its hash says so.
    again = ledger.charge(ONE, "a", content=b"too late")
    assert (again.replayed, ledger.content_of(again)) == (True, None)


def test_what_does_not_fit_keeps_nothing(tmp_path: Path) -> None:
    ledger = made.create(tmp_path)
    for number in range(made.GRANTS):
        ledger.charge(ONE, str(number))
    with pytest.raises(BudgetExhausted):
        ledger.charge(ONE, "more", content=b"release")
    assert version(tmp_path) == 1


def test_a_ledger_is_of_the_first_version_until_it_keeps_a_content(tmp_path: Path) -> None:
    ledger = made.create(tmp_path)
    ledger.charge(ONE, "a")
    before = ledger.entries()
    assert version(tmp_path) == 1
    ledger.charge(ONE, "b", content=b"release")
    assert version(tmp_path) == 2
    # The chain goes on: what was charged before has the hashes that it had.
    assert made.reopen(tmp_path).entries()[:1] == before


def test_a_ledger_of_an_earlier_chaffinch_keeps_contents_from_now_on(tmp_path: Path) -> None:
    for name in ("ledger", "mark"):
        shutil.copy(KEPT / f"format-1.{name}", tmp_path / name)
    ledger = made.reopen(tmp_path)
    before = ledger.entries()
    entry = ledger.charge(ASKED, "new", subject="01" * 32, content=b"release")
    again = made.reopen(tmp_path)
    assert again.entries() == (*before, entry)
    assert again.content_of(entry) == b"release"
    assert version(tmp_path) == 2


def test_an_older_copy_is_refused_after_the_change_of_version(folder: Path) -> None:
    shutil.copy(folder / "ledger", folder / "older")
    made.reopen(folder).charge(ONE, "d", content=b"second release")
    with pytest.raises(LedgerRolledBack):
        Ledger.open(folder / "older", mark=folder / "mark")


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE contents SET content = x'00'",
        "UPDATE contents SET digest = replace(digest, 'a', 'b')",
        "DELETE FROM contents",
        "INSERT INTO contents SELECT 1, digest, content FROM contents LIMIT 1",
        "INSERT INTO contents SELECT 9, digest, content FROM contents LIMIT 1",
        "INSERT OR REPLACE INTO contents SELECT * FROM contents",
    ],
)
def test_contents_only_grow_with_charges(folder: Path, statement: str) -> None:
    with pytest.raises(sqlite3.IntegrityError):
        change(folder, statement)
    made.reopen(folder)


CHANGES = {
    "another content": ("contents_stay", "UPDATE contents SET content = x'00' WHERE sequence = 2"),
    "another digest": ("contents_stay", "UPDATE contents SET digest = hex(zeroblob(32))"),
    "a content gone": ("contents_remain", "DELETE FROM contents WHERE sequence = 2"),
    "a content added": (
        "contents_follow",
        "INSERT INTO contents SELECT 1, digest, content FROM contents WHERE sequence = 2",
    ),
    "contents swapped": ("contents_stay", "UPDATE contents SET sequence = 1 WHERE sequence = 2"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_changed_content_is_noticed(folder: Path, name: str) -> None:
    trigger, statement = CHANGES[name]
    again = next(sql for sql in _CONTENT_STATEMENTS if f"TRIGGER {trigger} " in sql)
    change(folder, f"DROP TRIGGER {trigger}", statement, again)
    with pytest.raises(StorageFault):
        made.reopen(folder)


def test_a_file_of_version_2_without_its_table_is_refused(folder: Path) -> None:
    change(folder, "DROP TABLE contents")
    with pytest.raises(StorageFault, match="no table contents"):
        made.reopen(folder)
