"""SQLite files: a change is on the disk when it is told, and a new file appears whole."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from chaffinch.disk.files import give_name, sync_folder
from chaffinch.disk.leftovers import staging_folder

# Whose file it is, which SQLite keeps in the four bytes at OWNER_AT.
LEDGER = 0x43684C67
BATCH_RECORD = 0x43685368
RUN_RECORD = 0x43685275
OUTBOX = 0x43684F62
ANALYZER_STATE = 0x4368416E
SHUFFLER_STATE = 0x43685374
OWNER_AT = 68

_PATIENCE = 60.0
"""Seconds to wait for another writer."""


@contextmanager
def connected(path: Path) -> Iterator[sqlite3.Connection]:
    """Yield a connection for one job.

    No connection outlives its job, so databases may be shared by threads and across forks.
    EXTRA is FULL that also syncs the folder after the journal is removed: otherwise a power
    cut could bring the journal back, and it would undo what was told to be done.
    """
    address = f"{path.absolute().as_uri()}?mode=rw"
    with closing(
        sqlite3.connect(address, uri=True, timeout=_PATIENCE, isolation_level=None)
    ) as connection:
        connection.execute("PRAGMA synchronous = EXTRA")
        connection.execute("PRAGMA fullfsync = ON")
        connection.execute("PRAGMA trusted_schema = OFF")
        yield connection


@contextmanager
def writing(path: Path) -> Iterator[sqlite3.Connection]:
    """Yield a connection that holds the only write lock; undone unless it commits itself."""
    with connected(path) as connection:
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield connection
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")


@contextmanager
def creating(
    path: Path, owner: int, version: int, statements: Sequence[str]
) -> Iterator[sqlite3.Connection]:
    """Yield a connection to a new database, for its owner only, with tables and no rows.

    Afterwards it appears as ``path``, whole and durable; FileExistsError where a file is.
    """
    # In a folder of its own, which goes with all that is in it, such as the journal.
    with staging_folder(path.parent) as folder:
        unfinished = folder / path.name
        os.close(os.open(unfinished, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        with writing(unfinished) as connection:
            connection.execute(f"PRAGMA application_id = {owner}")
            connection.execute(f"PRAGMA user_version = {version}")
            for statement in statements:
                connection.execute(statement)
            yield connection
            connection.execute("COMMIT")
        give_name(unfinished, path, overwrite=False)
    sync_folder(path.parent)


def owner_and_version(connection: sqlite3.Connection) -> tuple[int, int]:
    """Return whose file a database is, and of which version."""
    (owner,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return owner, version


def schema_of(connection: sqlite3.Connection) -> list[str]:
    """Return the statements that made what is in a database."""
    found = connection.execute("SELECT sql FROM sqlite_master WHERE sql NOT NULL").fetchall()
    return [str(sql) for (sql,) in found]


def has_whole_pages(connection: sqlite3.Connection) -> bool:
    """Read every page once; return whether all of them are in order."""
    found: list[tuple[str]] = connection.execute("PRAGMA integrity_check").fetchall()
    return found == [("ok",)]
