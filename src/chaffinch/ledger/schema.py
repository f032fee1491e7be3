"""The ledger's file: one SQLite database that only grows, checked whole whenever it is read.

It is of version 1 until it keeps something that was handed out; the charge that brings the first
such content makes it version 2, with a table more, in its own transaction. The hash of a charge
covers the digest of its content, if there is one, so the chain of version 1 goes on as it is.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from chaffinch.disk import databases
from chaffinch.disk.databases import LEDGER, creating, has_whole_pages, owner_and_version, schema_of
from chaffinch.disk.kill_points import kill_point
from chaffinch.errors import InvalidInput, Reason, StorageFault
from chaffinch.ledger.chain import Mark, genesis, link
from chaffinch.ledger.charge import Charge, Entry, charge_from
from chaffinch.privacy import Target
from chaffinch.privacy.mechanism_documents import UnknownMechanism

ROLES = ("client", "analyzer")
_VERSION, _WITH_CONTENTS = 1, 2

# typeof() is spelled out because SQLite stores any type anywhere unless told not to. The insert
# triggers also stop INSERT OR REPLACE, which removes rows without asking the delete trigger.
_STATEMENTS = (
    """CREATE TABLE head (
    ledger TEXT NOT NULL CHECK (typeof(ledger) = 'text' AND length(ledger) = 32),
    role TEXT NOT NULL CHECK (role IN ('client', 'analyzer')),
    epsilon TEXT NOT NULL CHECK (typeof(epsilon) = 'text'),
    delta TEXT NOT NULL CHECK (typeof(delta) = 'text')
)""",
    """CREATE TABLE charges (
    sequence INTEGER PRIMARY KEY CHECK (sequence >= 1),
    key TEXT NOT NULL UNIQUE CHECK (typeof(key) = 'text' AND length(key) BETWEEN 1 AND 200),
    plan TEXT NOT NULL CHECK (typeof(plan) = 'text' AND length(plan) BETWEEN 1 AND 200),
    mechanism TEXT NOT NULL CHECK (typeof(mechanism) = 'text'),
    times INTEGER NOT NULL CHECK (typeof(times) = 'integer' AND times BETWEEN 1 AND 1000000),
    subject TEXT NOT NULL CHECK (typeof(subject) = 'text' AND length(subject) <= 200),
    hash TEXT NOT NULL UNIQUE CHECK (typeof(hash) = 'text' AND length(hash) = 64)
)""",
    """CREATE TRIGGER one_head BEFORE INSERT ON head
WHEN EXISTS (SELECT 1 FROM head)
BEGIN SELECT RAISE(ABORT, 'a ledger has one head'); END""",
    """CREATE TRIGGER head_stays BEFORE UPDATE ON head
BEGIN SELECT RAISE(ABORT, 'a ledger keeps its head'); END""",
    """CREATE TRIGGER head_remains BEFORE DELETE ON head
BEGIN SELECT RAISE(ABORT, 'a ledger keeps its head'); END""",
    """CREATE TRIGGER charges_follow BEFORE INSERT ON charges
WHEN NEW.sequence IS NOT (SELECT COALESCE(MAX(sequence), 0) + 1 FROM charges)
    OR EXISTS (SELECT 1 FROM charges WHERE key = NEW.key OR hash = NEW.hash)
BEGIN SELECT RAISE(ABORT, 'a ledger grows at its end'); END""",
    """CREATE TRIGGER charges_stay BEFORE UPDATE ON charges
BEGIN SELECT RAISE(ABORT, 'a ledger only grows'); END""",
    """CREATE TRIGGER charges_remain BEFORE DELETE ON charges
BEGIN SELECT RAISE(ABORT, 'a ledger only grows'); END""",
)
_CONTENT_STATEMENTS = (
    """CREATE TABLE contents (
    sequence INTEGER PRIMARY KEY REFERENCES charges (sequence),
    digest TEXT NOT NULL CHECK (typeof(digest) = 'text' AND length(digest) = 64),
    content BLOB NOT NULL CHECK (typeof(content) = 'blob')
)""",
    """CREATE TRIGGER contents_follow BEFORE INSERT ON contents
WHEN NEW.sequence IS NOT (SELECT MAX(sequence) FROM charges)
    OR EXISTS (SELECT 1 FROM contents WHERE sequence = NEW.sequence)
BEGIN SELECT RAISE(ABORT, 'a content comes with its charge'); END""",
    """CREATE TRIGGER contents_stay BEFORE UPDATE ON contents
BEGIN SELECT RAISE(ABORT, 'a ledger only grows'); END""",
    """CREATE TRIGGER contents_remain BEFORE DELETE ON contents
BEGIN SELECT RAISE(ABORT, 'a ledger only grows'); END""",
)
_ROWS = "SELECT sequence, key, plan, mechanism, times, subject, hash, {} FROM charges {}"
_CHARGES = {
    _VERSION: _ROWS.format("''", "ORDER BY sequence"),
    _WITH_CONTENTS: _ROWS.format(
        "COALESCE(digest, '')", "LEFT JOIN contents USING (sequence) ORDER BY sequence"
    ),
}
_Row = tuple[int, str, str, str, int, str, str, str]


@dataclass(frozen=True)
class Head:
    """What a ledger is, fixed when it is made."""

    ledger: str
    role: str
    cap: Target

    @property
    def row(self) -> tuple[str, str, str, str]:
        """Return the head as stored: the cap's floats exactly, as hexadecimal text."""
        return self.ledger, self.role, self.cap.epsilon.hex(), self.cap.delta.hex()

    @property
    def genesis(self) -> str:
        """Return the hash before the first row."""
        return genesis(*self.row)


@dataclass(frozen=True)
class History:
    """Everything a ledger held at one moment, with an unbroken chain."""

    head: Head
    entries: tuple[Entry, ...]

    @property
    def mark(self) -> Mark:
        """Return the mark that stands for exactly this history."""
        return Mark(self.head.ledger, len(self.entries), self.hash_at(len(self.entries)))

    @property
    def charges(self) -> tuple[Charge, ...]:
        """Return what was charged."""
        return tuple(entry.charge for entry in self.entries)

    def hash_at(self, sequence: int) -> str:
        """Return the hash of the row with this number; of the head for 0."""
        return self.entries[sequence - 1].hash if sequence else self.head.genesis

    def find(self, key: str) -> Entry | None:
        """Return the entry with this key."""
        return next((entry for entry in self.entries if entry.key == key), None)

    def find_content(self, charge: Charge, subject: str) -> Entry | None:
        """Return the first entry that was charged for this subject, whatever its key."""
        same = (one for one in self.entries if (one.charge, one.subject) == (charge, subject))
        return next(same, None)

    def after(self, charge: Charge, key: str, subject: str, content: bytes | None = None) -> Entry:
        """Return the entry that would follow."""
        sequence = len(self.entries) + 1
        kept = "" if content is None else _content_digest(content)
        return _entry(self.mark.hash, (sequence, key, charge, subject), kept)


def guarded(*, charging: bool = False) -> AbstractContextManager[None]:
    """Turn what the disk, the system or SQLite complain about into StorageFault.

    While a charge is written (``charging``) it is not known how far it came.
    """
    hint = "check both files and their folders; nothing was charged"
    if charging:
        hint = "nothing was acknowledged; a charge may be tried again with the same key"
    return databases.guarded(
        "ledger's storage",
        hint=hint,
        reason=Reason.UNCERTAIN if charging else None,
        reasons={sqlite3.SQLITE_BUSY: Reason.BUSY},
        damaged=_broken("a whole database", "damaged pages, or another file"),
    )


def create(path: Path, head: Head) -> None:
    """Make an empty ledger, durably; FileExistsError where a file is."""
    with creating(path, LEDGER, _VERSION, _STATEMENTS) as connection:
        connection.execute("INSERT INTO head VALUES (?, ?, ?, ?)", head.row)


def append(connection: sqlite3.Connection, entry: Entry, content: bytes | None = None) -> None:
    """Add a row and what is handed out for it, and commit both: then the charge is durable."""
    if content is not None:
        _make_room(connection)
    row = _row(entry.sequence, entry.key, entry.charge, entry.subject)
    connection.execute("INSERT INTO charges VALUES (?, ?, ?, ?, ?, ?, ?)", (*row, entry.hash))
    if content is not None:
        kept = (entry.sequence, entry.content, content)
        connection.execute("INSERT INTO contents VALUES (?, ?, ?)", kept)
    # Charge and content are one transaction: after a kill both are there, or neither.
    kill_point("ledger.written")
    connection.execute("COMMIT")
    kill_point("ledger.charged")


def _make_room(connection: sqlite3.Connection) -> None:
    """Let a ledger of version 1 keep contents, within the transaction that needs it."""
    if owner_and_version(connection) == (LEDGER, _VERSION):
        for statement in _CONTENT_STATEMENTS:
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {_WITH_CONTENTS}")


def _content_digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def content_of(connection: sqlite3.Connection, entry: Entry) -> bytes | None:
    """Return what was handed out for a charge, if it is kept; refuse what was changed."""
    if not entry.content:
        return None
    rows = connection.execute("SELECT content FROM contents WHERE sequence = ?", (entry.sequence,))
    ((content,),) = rows.fetchall()
    if _content_digest(content) != entry.content:
        raise _broken("whole", f"another content of row {entry.sequence}")
    return bytes(content)


def check_pages(connection: sqlite3.Connection) -> None:
    """Read every page of the file once."""
    if not has_whole_pages(connection):
        raise _broken("a whole database", "a damaged one")


def read(connection: sqlite3.Connection) -> History:
    """Return all that the file holds, or raise StorageFault when anything is amiss."""
    owner, version = owner_and_version(connection)
    if owner != LEDGER or version not in _CHARGES:
        raise _broken("a chaffinch ledger of version 1 or 2", "another file")
    more = _CONTENT_STATEMENTS if version == _WITH_CONTENTS else ()
    _check_schema(schema_of(connection), (*_STATEMENTS, *more))
    heads = connection.execute("SELECT ledger, role, epsilon, delta FROM head").fetchall()
    if len(heads) != 1:
        raise _broken("whole", "no head")
    rows = connection.execute(_CHARGES[version]).fetchall()
    try:
        head = _head(heads[0])
        return History(head, tuple(_chained(head, rows)))
    except UnknownMechanism as unknown:
        raise StorageFault(
            "The ledger must hold charges of mechanisms that are known here. "
            f"Got {unknown.name[:40]!r}.",
            hint=unknown.hint,
        ) from None
    except (InvalidInput, ValueError, RecursionError):
        raise _broken("whole", "a row that says nothing") from None


def _check_schema(found: list[str], statements: tuple[str, ...]) -> None:
    missing = [statement for statement in statements if statement not in found]
    names = [" ".join(statement.split()[1:3]).lower() for statement in missing]
    kept = {" ".join(statement.split()[1:3]).lower() for statement in found}
    faults = [f"another {name}" if name in kept else f"no {name}" for name in names]
    if not faults and len(found) > len(statements):
        faults = ["something added"]
    if faults:
        raise _broken("as it was made", ", ".join(faults))


def _head(row: tuple[str, str, str, str]) -> Head:
    ledger, role, epsilon, delta = row
    head = Head(ledger, role, Target(float.fromhex(epsilon), float.fromhex(delta)))
    if head.row != row or role not in ROLES:
        raise ValueError(role)
    return head


def _chained(head: Head, rows: list[_Row]) -> Iterator[Entry]:
    previous = head.genesis
    for place, (sequence, key, plan, mechanism, times, *told) in enumerate(rows, 1):
        subject, stored, kept = told
        charge = charge_from(plan, mechanism, times)
        entry = _entry(previous, (sequence, key, charge, subject), kept)
        # A hash covers the one before it: a row that was changed, moved or removed breaks here.
        if sequence != place or entry.hash != stored:
            raise _broken("an unbroken chain", f"a break at row {place}")
        previous = stored
        yield entry


def _entry(previous: str, occasion: tuple[int, str, Charge, str], kept: str = "") -> Entry:
    linked = _row(*occasion) + ([kept] if kept else [])
    return Entry(*occasion, hash=link(previous, linked), content=kept)


def _row(sequence: int, key: str, charge: Charge, subject: str) -> list[str | int]:
    return [sequence, key, charge.plan_id, charge.document, charge.times, subject]


def _broken(rule: str, got: str) -> StorageFault:
    return StorageFault(
        f"The ledger must be {rule}. Got {got}.",
        hint="a ledger that cannot be trusted is not used; find out what changed the file",
        reason=Reason.DAMAGED,
    )
