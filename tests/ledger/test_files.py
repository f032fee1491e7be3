"""Only a whole ledger that has forgotten nothing is opened."""

from __future__ import annotations

import json
import math
import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from chaffinch import privacy
from chaffinch.disk import databases
from chaffinch.errors import InvalidInput, LedgerRolledBack, Reason, StorageFault
from chaffinch.ledger import Charge, Entry, Ledger, chain, schema
from chaffinch.ledger.schema import _STATEMENTS
from tests.cases import each_case
from tests.ledger import made
from tests.ledger.made import BIT, CAP, ONE


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the folder of a ledger with three charges."""
    ledger = made.create(tmp_path)
    for key in ("a", "b", "c"):
        ledger.charge(ONE, key)
    return tmp_path


def change(folder: Path, *statements: str) -> None:
    with closing(sqlite3.connect(folder / "ledger")) as connection, connection:
        for statement in statements:
            connection.execute(statement)


def unlocked(name: str, *statements: str) -> tuple[str, ...]:
    """Return statements between taking a trigger away and putting it back."""
    trigger = next(sql for sql in _STATEMENTS if f"TRIGGER {name} " in sql)
    return (f"DROP TRIGGER {name}", *statements, trigger)


def inserted(how: str, values: str) -> str:
    tail = "subject, replace(hash, 'a', 'b') FROM charges LIMIT 1"
    return f"{how} SELECT {values}, {tail}"


@pytest.mark.parametrize("role", ["client", "analyzer"])
def test_a_ledger_comes_back_as_it_was(tmp_path: Path, role: str) -> None:
    cap = privacy.Target(0.1 + 0.2 + 3, 1e-7 / 3)
    ledger = made.create(tmp_path, role=role, cap=cap)
    entry = ledger.charge(Charge("plan", BIT, 2), "key", subject="digest")
    again = made.reopen(tmp_path)
    assert (again.role, again.cap, again.entries()) == (role, cap, (entry,))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ledger", "mark"]
    assert (tmp_path / "ledger").stat().st_mode & 0o077 == 0
    assert (tmp_path / "mark").stat().st_mode & 0o077 == 0


@each_case("epsilon", [0.0, -0.0, -1.0, math.nan, math.inf, True, "1"])
def test_caps_are_refused_never_mended(tmp_path: Path, epsilon: Any) -> None:
    with pytest.raises(InvalidInput):
        made.create(tmp_path, cap=privacy.Target(epsilon, 1e-6))
    assert list(tmp_path.iterdir()) == []


def test_other_nonsense_makes_no_ledger(tmp_path: Path) -> None:
    number: Any = 1.0
    for wrong in ({"cap": number}, {"cap": privacy.Target(1, 1.0)}, {"role": "shuffler"}):
        with pytest.raises(InvalidInput):
            made.create(tmp_path, **wrong)
    with pytest.raises(InvalidInput, match="mark"):
        Ledger.create(tmp_path / "x", role="client", cap=CAP, mark=tmp_path / "y" / ".." / "x")
    assert list(tmp_path.iterdir()) == []


def test_an_existing_file_is_never_made_anew(folder: Path) -> None:
    with pytest.raises(InvalidInput, match="free"):
        made.create(folder)
    with pytest.raises(InvalidInput, match="free"):
        Ledger.create(folder / "another", role="client", cap=CAP, mark=folder / "mark")
    with pytest.raises(InvalidInput, match="free"):
        Ledger.create(folder / "ledger", role="client", cap=CAP, mark=folder / "other mark")
    assert sorted(path.name for path in folder.iterdir()) == ["ledger", "mark"]
    (folder / "ledger").unlink()
    with pytest.raises(InvalidInput, match="unspent"):
        made.create(folder)
    assert [path.name for path in folder.iterdir()] == ["mark"]


def test_a_ledger_that_another_process_made_first_is_not_taken_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create = schema.create

    def too_late(path: Path, head: schema.Head) -> None:
        path.write_bytes(b"another")
        create(path, head)

    monkeypatch.setattr(schema, "create", too_late)
    with pytest.raises(InvalidInput, match="free"):
        made.create(tmp_path)
    assert (tmp_path / "ledger").read_bytes() == b"another"


def test_a_cap_may_be_small(tmp_path: Path) -> None:
    assert made.create(tmp_path, cap=privacy.Target(1e-3, 1e-9)).remaining() == 1e-3


def test_an_interrupted_creation_is_finished(tmp_path: Path) -> None:
    made.create(tmp_path)
    (tmp_path / "ledger").unlink()
    with pytest.raises(InvalidInput):
        made.create(tmp_path, role="analyzer")
    made.create(tmp_path).charge(ONE, "a")
    assert made.keys(made.reopen(tmp_path)) == ["a"]


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE charges SET times = 1",
        "DELETE FROM charges",
        "UPDATE head SET epsilon = '0x1p+9'",
        "DELETE FROM head",
        "INSERT INTO head SELECT * FROM head",
        "INSERT OR REPLACE INTO charges SELECT * FROM charges WHERE sequence = 3",
        inserted("INSERT OR REPLACE INTO charges", "4, key, plan, mechanism, times"),
        inserted("INSERT INTO charges", "9, 'x', plan, mechanism, times"),
        inserted("INSERT INTO charges", "4, 'x', plan, mechanism, -1"),
        inserted("INSERT INTO charges", "4, 'x', plan, mechanism, 0.5"),
        inserted("INSERT INTO charges", "4, '', plan, mechanism, 1"),
    ],
)
def test_the_database_itself_only_grows(folder: Path, statement: str) -> None:
    with pytest.raises(sqlite3.IntegrityError):
        change(folder, statement)
    assert made.keys(made.reopen(folder)) == ["a", "b", "c"]


CHANGES = {
    "fewer times": unlocked("charges_stay", "UPDATE charges SET times = 2 WHERE sequence = 2"),
    "another key": unlocked("charges_stay", "UPDATE charges SET key = 'x' WHERE sequence = 1"),
    "another subject": unlocked("charges_stay", "UPDATE charges SET subject = 'x'"),
    "another hash": unlocked("charges_stay", "UPDATE charges SET hash = replace(hash, 'a', 'b')"),
    "another mechanism": unlocked(
        "charges_stay", "UPDATE charges SET mechanism = replace(mechanism, '20', '21')"
    ),
    "no mechanism": unlocked("charges_stay", "UPDATE charges SET mechanism = '{}'"),
    "no JSON": unlocked("charges_stay", "UPDATE charges SET mechanism = '['"),
    "deep JSON": unlocked(
        "charges_stay", "UPDATE charges SET mechanism = replace(hex(zeroblob(9999)), '0', '[')"
    ),
    "the middle gone": unlocked("charges_remain", "DELETE FROM charges WHERE sequence = 2"),
    "a larger cap": unlocked("head_stays", "UPDATE head SET epsilon = '0x1.0000000000000p+9'"),
    "a cap in another spelling": unlocked(
        "head_stays", "UPDATE head SET epsilon = replace(epsilon, '0x', '0X')"
    ),
    "a nonsense cap": unlocked("head_stays", "UPDATE head SET epsilon = 'nan'"),
    "no cap": unlocked("head_stays", "UPDATE head SET delta = 'much'"),
    "another role": unlocked("head_stays", "UPDATE head SET role = 'analyzer'"),
    "no head": unlocked("head_remains", "DELETE FROM head"),
    "no trigger": ("DROP TRIGGER charges_stay",),
    "another table": ("CREATE TABLE notes (words TEXT)",),
    "a new version": ("PRAGMA user_version = 2",),
    "another program": ("PRAGMA application_id = 7",),
}


@pytest.mark.parametrize("statements", CHANGES.values(), ids=list(CHANGES))
def test_a_changed_ledger_is_not_opened(folder: Path, statements: tuple[str, ...]) -> None:
    used = made.reopen(folder)
    change(folder, *statements)
    for use in (lambda: made.reopen(folder), lambda: used.charge(ONE, "d"), used.spent):
        with pytest.raises(StorageFault) as refused:
            use()
        assert refused.value.code in {"storage-fault", "ledger-rolled-back"}


@pytest.mark.parametrize("name", ["charges_stay", "charges_remain", "head_stays", "head_remains"])
def test_putting_a_trigger_back_alone_changes_nothing(folder: Path, name: str) -> None:
    # So it is the change, and not how it was made, that is refused above.
    change(folder, *unlocked(name))
    assert made.keys(made.reopen(folder)) == ["a", "b", "c"]


def test_a_last_row_taken_away_is_a_rollback(folder: Path) -> None:
    change(folder, *unlocked("charges_remain", "DELETE FROM charges WHERE sequence = 3"))
    with pytest.raises(LedgerRolledBack):
        made.reopen(folder)


def test_a_gap_with_good_hashes_is_refused(folder: Path) -> None:
    history = schema.History(made.reopen(folder)._head, made.reopen(folder).entries())  # noqa: SLF001
    row: list[str | int] = [9, "x", ONE.plan_id, ONE.document, ONE.times, ""]
    values = [*row, chain.link(history.mark.hash, row)]
    with closing(sqlite3.connect(folder / "ledger")) as connection, connection:
        before, after = unlocked("charges_follow")
        connection.execute(before)
        connection.execute("INSERT INTO charges VALUES (?, ?, ?, ?, ?, ?, ?)", values)
        connection.execute(after)
    with pytest.raises(StorageFault, match="row 4"):
        made.reopen(folder)


def ruined(write: Callable[[Path], object]) -> Callable[[Path], None]:
    def ruin(path: Path) -> None:
        path.unlink()
        write(path)

    return ruin


def other_database(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE charges (sequence INTEGER)")


@pytest.mark.parametrize("name", ["ledger", "mark"])
@pytest.mark.parametrize(
    "ruin",
    [
        Path.unlink,
        ruined(Path.touch),
        ruined(Path.mkdir),
        ruined(lambda path: path.write_text("once upon a time" * 999)),
        ruined(lambda path: path.write_text("{}")),
        ruined(lambda path: path.write_bytes(b"\xff\xfe\x00")),
        ruined(other_database),
    ],
    ids=["missing", "empty", "folder", "story", "json", "bytes", "database"],
)
def test_other_files_are_refused_with_one_error(
    folder: Path, name: str, ruin: Callable[[Path], None]
) -> None:
    used = made.reopen(folder)
    ruin(folder / name)
    with pytest.raises(StorageFault):
        made.reopen(folder)
    with pytest.raises(StorageFault):
        used.charge(ONE, "d")


def test_a_cut_file_is_refused(folder: Path) -> None:
    whole = (folder / "ledger").read_bytes()
    for length in range(0, len(whole), 1024):
        (folder / "ledger").write_bytes(whole[:length])
        with pytest.raises(StorageFault):
            made.reopen(folder)


def test_no_changed_byte_changes_the_story(folder: Path) -> None:
    # A byte that nobody reads may change; what is opened must be what was written.
    story = made.reopen(folder).entries()
    whole = (folder / "ledger").read_bytes()
    refused = 0
    for place in range(0, len(whole), 53):
        spoiled = bytearray(whole)
        spoiled[place] ^= 0x55
        (folder / "ledger").write_bytes(spoiled)
        try:
            assert made.reopen(folder).entries() == story
        except StorageFault:
            refused += 1
    assert refused > 50


@pytest.mark.parametrize(
    "change_of",
    [
        {"sequence": 4},
        {"sequence": -1},
        {"sequence": True},
        {"sequence": 3.0},
        {"hash": "0" * 64},
        {"hash": 7},
        {"ledger": "0" * 32},
        {"more": 1},
        {"format": "chaffinch/ledger-mark@2"},
    ],
)
def test_a_changed_mark_is_refused(folder: Path, change_of: dict[str, object]) -> None:
    fields = json.loads((folder / "mark").read_text(encoding="utf-8"))
    (folder / "mark").write_text(json.dumps({**fields, **change_of}), encoding="utf-8")
    with pytest.raises(StorageFault):
        made.reopen(folder)


def copies(folder: Path) -> list[tuple[bytes, bytes]]:
    """Return ledger and mark as they are before and after each of three charges."""
    ledger = made.create(folder)
    kept = []
    for key in ("a", "b", "c", "d"):
        kept.append(((folder / "ledger").read_bytes(), (folder / "mark").read_bytes()))
        ledger.charge(ONE, key)
    return kept


def test_every_older_copy_is_refused(tmp_path: Path) -> None:
    old = copies(tmp_path)
    used = made.reopen(tmp_path)
    for database, _ in old:
        (tmp_path / "ledger").write_bytes(database)
        with pytest.raises(LedgerRolledBack) as refused:
            made.reopen(tmp_path)
        assert refused.value.code == "ledger-rolled-back"
        # Also under the hands of a process that had it open, whatever it asks.
        for use in (lambda: used.charge(ONE, "e"), lambda: used.charge(ONE, "a"), used.entries):
            with pytest.raises(LedgerRolledBack):
                use()


def test_an_older_copy_that_went_another_way_is_refused(tmp_path: Path) -> None:
    old = copies(tmp_path)
    mark = (tmp_path / "mark").read_bytes()
    (tmp_path / "ledger").write_bytes(old[2][0])
    (tmp_path / "mark").write_bytes(old[2][1])
    other_way = made.reopen(tmp_path)
    for key in ("x", "y", "z"):
        other_way.charge(ONE, key)
    (tmp_path / "mark").write_bytes(mark)
    with pytest.raises(LedgerRolledBack):
        made.reopen(tmp_path)


def test_a_mark_left_behind_by_a_crash_catches_up(tmp_path: Path) -> None:
    old = copies(tmp_path)
    for _, mark in old:
        (tmp_path / "mark").write_bytes(mark)
        ledger = made.reopen(tmp_path)
        assert made.keys(ledger) == ["a", "b", "c", "d"]
        # To repeat a key is to acknowledge it: from here on the row must not get lost.
        assert ledger.charge(ONE, "d").replayed
        assert chain.Mark.read(tmp_path / "mark").sequence == 4


def test_what_the_mark_cannot_see(tmp_path: Path) -> None:
    # Both files restored together look like the past; the module says so.
    database, mark = copies(tmp_path)[1]
    (tmp_path / "ledger").write_bytes(database)
    (tmp_path / "mark").write_bytes(mark)
    assert made.keys(made.reopen(tmp_path)) == ["a"]
    assert "restored together" in " ".join((chain.__doc__ or "").split())


def test_two_live_copies_refuse_each_other(tmp_path: Path) -> None:
    first = made.create(tmp_path)
    shutil.copy(tmp_path / "ledger", tmp_path / "copy")
    second = Ledger.open(tmp_path / "copy", mark=tmp_path / "mark")
    first.charge(ONE, "a")
    with pytest.raises(LedgerRolledBack):
        second.charge(ONE, "b")


def test_a_commit_reaches_the_disk_before_it_returns(folder: Path) -> None:
    # EXTRA (3): syncs the file, and the folder once the journal is gone. No killed process
    # shows the lack of it, only a power cut does.
    with databases.connected(folder / "ledger") as connection:
        assert connection.execute("PRAGMA synchronous").fetchone() == (3,)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)


def test_a_mark_reaches_the_disk_before_its_name_does(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []

    def noted(name: str, real: Callable[..., object]) -> Callable[..., object]:
        def step(*arguments: object) -> object:
            steps.append(name)
            return real(*arguments)

        return step

    for name in ("fsync", "replace"):
        monkeypatch.setattr(os, name, noted(name, getattr(os, name)))
    chain.Mark.read(folder / "mark").replace(folder / "mark")
    assert steps == ["fsync", "replace", "fsync"]


def test_a_mark_is_never_written_through_a_link(folder: Path, tmp_path_factory: Any) -> None:
    precious = tmp_path_factory.mktemp("other") / "precious"
    precious.write_text("kept", encoding="utf-8")
    (folder / f".mark.{'0a' * 8}.part").symlink_to(precious)
    made.reopen(folder).charge(ONE, "d")
    assert precious.read_text(encoding="utf-8") == "kept"
    assert not (folder / "mark").is_symlink()
    assert made.keys(made.reopen(folder)) == ["a", "b", "c", "d"]


def test_what_a_crash_left_beside_the_mark_is_removed(folder: Path) -> None:
    left = folder / f".mark.{'0a' * 8}.part"
    left.write_bytes((folder / "mark").read_bytes())
    others = [
        folder / name for name in ("mark.part", ".mark.old.part", "mark.0a0a0a0a0a0a0a0a.part")
    ]
    for other in others:
        other.touch()
    made.reopen(folder).charge(ONE, "d")
    assert not left.exists()
    assert all(other.exists() for other in others)
    assert made.keys(made.reopen(folder)) == ["a", "b", "c", "d"]


def test_a_mark_that_cannot_be_moved_leaves_nothing_behind(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "full")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(StorageFault):
        made.reopen(folder).charge(ONE, "d")
    assert sorted(path.name for path in folder.iterdir()) == ["ledger", "mark"]


def test_the_chain_is_what_it_always_was() -> None:
    # Files hold these hashes: a change here is a new format.
    head = schema.Head("0" * 32, "client", privacy.Target(1.0, 1e-6))
    assert head.genesis == "17b4a71d728d3316733f82866909dd7ae3b67afc82c7e6ab04172be10caacb1a"
    entry = schema.History(head, ()).after(Charge("plan", BIT, 2), "key", "subject")
    expected = "4f6a4e5e30629ff7ee9c9a57c5e442bb958b58eb264442628649ce6b59a4ced2"
    assert entry == Entry(1, "key", Charge("plan", BIT, 2), "subject", expected)


def run_sql(*statements: str) -> Callable[[Path], None]:
    """Return what changes a database behind the ledger's back."""

    def change(path: Path) -> None:
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("PRAGMA writable_schema = ON")
            for statement in statements:
                connection.execute(statement)
            connection.commit()

    return change


def fill(start: int, end: int) -> Callable[[Path], None]:
    """Return what puts garbage into a file."""

    def change(path: Path) -> None:
        content = bytearray(path.read_bytes())
        content[start:end] = bytes((37 * place + 11) % 256 for place in range(start, end))
        path.write_bytes(content)

    return change


def put(content: bytes) -> Callable[[Path], None]:
    """Return what puts other bytes in the place of a file."""

    def change(path: Path) -> None:
        path.write_bytes(content)

    return change


NO_TRIGGERS = [f"DROP TRIGGER charges_{name}" for name in ("follow", "stay", "remain")]
DAMAGE: dict[str, tuple[Callable[[Path], None], str]] = {
    "no table": (run_sql("DROP TABLE charges"), "no table charges"),
    "no head": (run_sql("DROP TABLE head"), "no table head"),
    "no column": (
        run_sql(*NO_TRIGGERS, "ALTER TABLE charges DROP COLUMN subject"),
        "another table charges",
    ),
    "no trigger": (run_sql("DROP TRIGGER charges_stay"), "Got no trigger charges_stay"),
    "a table more": (run_sql("CREATE TABLE more (a)"), "something added"),
    "of another program": (run_sql("PRAGMA application_id = 5"), "Got another file"),
    "of another version": (run_sql("PRAGMA user_version = 9"), "Got another file"),
    "a schema of nonsense": (
        run_sql("UPDATE sqlite_master SET sql = 'CREATE TABLE x' WHERE name = 'charges'"),
        "damaged pages",
    ),
    "a garbage head": (fill(0, 100), "damaged pages"),
    "a garbage schema": (fill(200, 4096), "damaged pages"),
    "a garbage page": (fill(4096, 8192), "damaged pages"),
    "a text": (put(b"hello"), "damaged pages"),
    "empty": (put(b""), "Got another file"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damage_is_told_in_one_clear_error(damage: str, folder: Path) -> None:
    change, words = DAMAGE[damage]
    path = next(one for one in folder.iterdir() if one.read_bytes().startswith(b"SQLite format 3"))
    mark = next(one for one in folder.iterdir() if one != path)
    change(path)
    with pytest.raises(StorageFault, match=words) as caught:
        Ledger.open(path, mark=mark)
    assert type(caught.value) is StorageFault
    assert caught.value.reason is Reason.DAMAGED


@pytest.mark.parametrize("charging", [False, True])
def test_what_goes_wrong_with_a_ledger_is_told_as_such(*, charging: bool) -> None:
    def fault(code: int) -> StorageFault:
        error = sqlite3.OperationalError("what it says")
        error.sqlite_errorcode = code
        with pytest.raises(StorageFault) as caught, schema.guarded(charging=charging):
            raise error
        return caught.value

    busy, full = fault(sqlite3.SQLITE_BUSY), fault(sqlite3.SQLITE_FULL)
    said = "The ledger's storage must be whole and within reach. Got what it says."
    assert (busy.message, full.message) == (said, said)
    assert (busy.reason, full.reason) == (Reason.BUSY, Reason.UNCERTAIN if charging else None)
    damaged = fault(sqlite3.SQLITE_CORRUPT)
    said = "The ledger must be a whole database. Got damaged pages, or another file."
    assert (damaged.message, damaged.reason) == (said, Reason.DAMAGED)


def test_a_charge_of_an_unknown_mechanism_is_named(folder: Path) -> None:
    renamed = "UPDATE charges SET mechanism = replace(mechanism, 'flipped-bits', 'unheard-of')"
    change(folder, *unlocked("charges_stay", f"{renamed} WHERE sequence = 2"))
    with pytest.raises(StorageFault, match="Got 'unheard-of'") as caught:
        made.reopen(folder)
    assert "mechanisms that are known here" in caught.value.message
    assert "register that protocol first" in caught.value.hint


def test_what_is_handed_out_for_a_charge_is_in_the_mark(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that died between row and mark is finished by the next; no old copy passes then."""
    shutil.copy(folder / "ledger", folder / "older")
    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "_move_mark", lambda *_: None)  # it died here
        made.reopen(folder).charge(ONE, "d", subject="s")
    assert Ledger.open(folder / "older", mark=folder / "mark").entries()
    assert made.reopen(folder).is_charged("d", "s")
    with pytest.raises(LedgerRolledBack):
        Ledger.open(folder / "older", mark=folder / "mark")
    assert not made.reopen(folder).is_charged("d", "other")
    assert not made.reopen(folder).is_charged("e", "s")


def test_what_a_killed_creation_left_is_removed(tmp_path: Path) -> None:
    """A database and its journal, as a kill in the first transaction leaves them."""
    left = tmp_path / f".chaffinch-staging.{'0a' * 8}.part"
    left.mkdir()
    for name in ("ledger", "ledger-journal"):
        (left / name).write_bytes(b"half")
    made.create(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ledger", "mark"]
    left.mkdir()
    with pytest.raises(InvalidInput, match="free"):
        made.create(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ledger", "mark"]


def test_a_schema_that_is_no_text_is_one_clear_error(folder: Path) -> None:
    """SQLite quotes a damaged schema in what it says, whatever bytes are in it."""
    content = (folder / "ledger").read_bytes()
    for place in range(content.index(b"CREATE TABLE head"), content.index(b"ledger TEXT")):
        spoiled = content[:place] + b"\xff" + content[place + 1 :]
        (folder / "ledger").write_bytes(spoiled)
        with pytest.raises(StorageFault, match="ledger must be"):
            made.reopen(folder)
