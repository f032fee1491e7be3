"""SQLite files: a change is durable before it is acknowledged, and a new file appears whole.

Errors of SQLite and of the disk become a StorageFault in one place, ``guarded``. Three kinds of
database use it: records (``RecordKind``), stores that a service owns (``stores``), and the ledger.

A record only grows, and is kept for one user. A damaged record is refused: if it passed for an
empty one, it would have forgotten what it knew.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from chaffinch.disk.files import give_name, make_folder, sync_folder
from chaffinch.disk.leftovers import staging_folder
from chaffinch.errors import Reason, StorageFault

# Whose file it is, which SQLite keeps in the four bytes at OWNER_AT.
LEDGER = 0x43684C67
BATCH_RECORD = 0x43685368
RUN_RECORD = 0x43685275
OUTBOX = 0x43684F62
ANALYZER_STATE = 0x4368416E
SHUFFLER_STATE = 0x43685374
OWNER_AT = 68

DURABLE = (
    # FULL, and the folder is synced after the journal is removed: otherwise a power cut could
    # bring the journal back, and it would undo what was told to be done.
    "PRAGMA synchronous = EXTRA",
    "PRAGMA fullfsync = ON",
    "PRAGMA trusted_schema = OFF",
)
"""What every connection that writes sets first."""
_PATIENCE = 60.0
"""Seconds to wait for others at the same file."""
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_NONE: Mapping[int, Reason] = MappingProxyType({})


@contextmanager
def guarded(
    name: str,
    *,
    hint: str,
    reason: Reason | None = None,
    reasons: Mapping[int, Reason] = _NONE,
    damaged: StorageFault | None = None,
) -> Iterator[None]:
    """Turn errors of SQLite and of the disk into a StorageFault.

    ``reasons`` maps error codes of SQLite to the reason of the fault; any other error has
    ``reason``. If the file is damaged or no database, ``damaged`` is raised instead, if given.
    """
    try:
        yield
    except (sqlite3.Error, OSError, UnicodeError) as error:
        # What SQLite says of a damaged schema can hold bytes that are no text.
        undecodable = isinstance(error, UnicodeError)
        # The lower byte of an extended code is the plain one.
        code = (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF
        if damaged is not None and (undecodable or code in _DAMAGED):
            raise damaged from None
        got = "a damaged file" if undecodable else error
        raise StorageFault(
            f"The {name} must be whole and within reach. Got {got}.",
            hint=hint,
            reason=reasons.get(code, reason),
        ) from None


def connect(path: Path, patience: float | None = None) -> sqlite3.Connection:
    """Return a connection to a file that is there, which waits so many seconds for others."""
    address = f"{path.absolute().as_uri()}?mode=rw"
    seconds = _PATIENCE if patience is None else patience
    return sqlite3.connect(address, uri=True, timeout=seconds, isolation_level=None)


@contextmanager
def connected(path: Path) -> Iterator[sqlite3.Connection]:
    """Yield a connection for one job, which may write.

    No connection outlives its job, so databases may be shared by threads and across forks.
    """
    with closing(connect(path)) as connection:
        for pragma in DURABLE:
            connection.execute(pragma)
        yield connection


@contextmanager
def holding(connection: sqlite3.Connection) -> Iterator[None]:
    """Hold the write lock for a block; what the block does not commit is rolled back."""
    # Not at the first write, which is SQLite's own way: what is read before it is still true then.
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        if connection.in_transaction:
            # On a full disk SQLite may have rolled back already.
            with suppress(sqlite3.Error):
                connection.execute("ROLLBACK")


@contextmanager
def writing(path: Path) -> Iterator[sqlite3.Connection]:
    """Yield a connection that holds the only write lock; undone unless it commits itself."""
    with connected(path) as connection, holding(connection):
        yield connection


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
        # The connection is closed by now, so no journal belongs to the file any more.
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


@dataclass(frozen=True)
class RecordKind:
    """What all records of one kind have in common."""

    name: str
    owner: int
    version: int
    statements: tuple[str, ...]
    """What makes its tables."""
    whole: str
    """A query that gives one row, 1, where the rows of all tables fit together."""
    hint: str
    """What can be done about a record that is damaged or out of reach."""

    def create(
        self, path: Path, fill: Callable[[sqlite3.Connection], object] | None = None
    ) -> None:
        """Make a record where there is none; it appears whole, filled, and for its owner only."""
        with self._guarded(adding=False):
            if path.exists():
                return
            make_folder(path.parent)
            # If another process was first, its record is as good.
            with (
                suppress(FileExistsError),
                creating(path, self.owner, self.version, self.statements) as connection,
            ):
                if fill is not None:
                    fill(connection)

    @contextmanager
    def writing(
        self, path: Path, *, adding: bool = False, looked_at: bool = False
    ) -> Iterator[sqlite3.Connection]:
        """Yield a connection that holds the only write lock; undone unless it commits itself.

        Of what is being added it is not known, if that fails, how far it came. Every page is
        read first, unless this process has ``looked_at`` them before.
        """
        with self._guarded(adding=adding), writing(path) as connection:
            if not looked_at:
                self._check_whole(connection)
            yield connection

    def _guarded(self, *, adding: bool) -> AbstractContextManager[None]:
        reason = Reason.UNCERTAIN if adding else None
        return guarded(self.name, hint=self.hint, reason=reason)

    def _check_whole(self, connection: sqlite3.Connection) -> None:
        owner, version = owner_and_version(connection)
        if owner != self.owner:
            raise sqlite3.DatabaseError("another file, or a damaged one")
        if version != self.version:
            said = f"one of the format version {version}, where {self.version} is read"
            raise sqlite3.DatabaseError(said)
        # The cheap questions come first: only a file of this kind is read to its end.
        if not has_whole_pages(connection):
            raise sqlite3.DatabaseError("a damaged file")
        if set(schema_of(connection)) != set(self.statements):
            raise sqlite3.DatabaseError("one that another version of chaffinch has made")
        if connection.execute(self.whole).fetchone() != (1,):
            raise sqlite3.DatabaseError("a damaged file")
