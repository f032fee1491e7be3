"""Stores: databases that one process owns for as long as a service runs.

A store has a format version. An older one is brought up to date when it is opened, all steps in
one transaction; a newer one, or a file that is none, is refused and left as it is.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from chaffinch.disk.databases import (
    DURABLE,
    connect,
    creating,
    guarded,
    holding,
    owner_and_version,
    schema_of,
)
from chaffinch.disk.files import make_folder
from chaffinch.disk.locks import lock_file
from chaffinch.errors import Reason, StorageFault

_OWNER_PATIENCE = 5.0
"""Seconds to wait for the owner before, who may be on its way out."""
_UNDONE = {sqlite3.SQLITE_FULL: Reason.NO_SPACE, sqlite3.SQLITE_BUSY: Reason.BUSY}
"""What SQLite undoes all of a change for."""
_PRAGMAS = (
    *DURABLE,
    # What is deleted is overwritten: a purged report must not be left in a free page.
    "PRAGMA secure_delete = ON",
    # 16 MiB. With SQLite's own 2 MiB a batch that leaves the pool spills, and syncs many times.
    "PRAGMA cache_size = -16384",
)


@dataclass(frozen=True)
class StoreKind:
    """What all stores of one kind have in common."""

    name: str
    owner: int
    steps: tuple[tuple[str, ...], ...]
    """What makes each version of the one before; the first step makes version 1 of nothing."""
    hint: str
    """What can be done about a store that is damaged or out of reach."""

    @property
    def version(self) -> int:
        """Return the newest version, which is the only one that is worked with."""
        return len(self.steps)

    def open(self, path: Path) -> Store:
        """Return the store for its one owner; it is made where there is none."""
        with self.guarded():
            make_folder(path.parent)
            # Before the first look: two that start at once must not both make the file.
            lock = self._locked(path.with_suffix(".lock"))
            try:
                if not path.exists():
                    made = tuple(statement for step in self.steps for statement in step)
                    with creating(path, self.owner, self.version, made):
                        pass
                connection = connect(path)
                try:
                    for pragma in _PRAGMAS:
                        connection.execute(pragma)
                    self._bring_up_to_date(connection)
                except BaseException:
                    connection.close()
                    raise
            except BaseException:
                os.close(lock)
                raise
        return Store(self, connection, lock)

    def _locked(self, path: Path) -> int:
        try:
            return lock_file(path, patience=_OWNER_PATIENCE)
        except BlockingIOError:
            raise StorageFault(
                f"The {self.name} must be free. Got one that another process owns.",
                hint="another process works on this folder: stop it, or name another folder",
                reason=Reason.UNCERTAIN,
            ) from None

    @contextmanager
    def looked_at(
        self, path: Path, *, patience: float | None = None
    ) -> Iterator[sqlite3.Connection]:
        """Yield a connection for somebody who only reads, beside the owner.

        A change of the owner is waited for, for so many seconds; without them for a minute.
        It may write in one case: what a killed owner had not committed is undone by SQLite.
        """
        with self.guarded(changing=False), closing(connect(path, patience)) as connection:
            connection.execute("PRAGMA query_only = ON")
            if self._version_of(connection) < self.version:
                raise sqlite3.DatabaseError("one of an older format, which its owner brings up")
            yield connection

    @contextmanager
    def guarded(self, *, changing: bool = True) -> Iterator[None]:
        """Turn what the disk or SQLite complain about into StorageFault.

        After a change that failed nobody knows what is on the disk, unless SQLite says that it was
        full, or that somebody else has held the file for all of the time that it waits.
        """
        reason = Reason.UNCERTAIN if changing else None
        with guarded(self.name, hint=self.hint, reason=reason, reasons=_UNDONE):
            yield

    def _bring_up_to_date(self, connection: sqlite3.Connection) -> None:
        version = self._version_of(connection)
        if version < self.version:
            with holding(connection):
                for step in self.steps[version:]:
                    for statement in step:
                        connection.execute(statement)
                connection.execute(f"PRAGMA user_version = {self.version}")
                connection.execute("COMMIT")
        if sorted(schema_of(connection)) != self._schema():
            raise sqlite3.DatabaseError("a file with other tables")

    def _schema(self) -> list[str]:
        with closing(sqlite3.connect(":memory:")) as connection:
            for step in self.steps:
                for statement in step:
                    connection.execute(statement)
            return sorted(schema_of(connection))

    def _version_of(self, connection: sqlite3.Connection) -> int:
        owner, version = owner_and_version(connection)
        if owner != self.owner or version < 1:
            raise sqlite3.DatabaseError("another file")
        if version > self.version:
            raise sqlite3.DatabaseError(f"one of the newer format version {version}")
        return version


class Store:
    """An open store; one thread of the owner uses it."""

    def __init__(self, kind: StoreKind, connection: sqlite3.Connection, lock: int) -> None:
        self._kind, self._connection, self._lock = kind, connection, lock

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let another process be the owner."""
        # In this order: the next owner must find no connection of this one.
        self._connection.close()
        os.close(self._lock)

    @contextmanager
    def changing(self, *, spills: bool = True) -> Iterator[sqlite3.Connection]:
        """Do all of a block or nothing; it is on the disk when the block has ended.

        A large change spills to the disk before its end, and from then on nobody else can read.
        One that takes long must not: all of it is held in memory.
        """
        try:
            # Before the transaction: inside of one SQLite takes no notice.
            self._connection.execute(f"PRAGMA cache_spill = {'ON' if spills else 'OFF'}")
            with holding(self._connection):
                yield self._connection
                self._connection.execute("COMMIT")
        # Only what SQLite says: the block may raise errors of its own, which are no faults of the
        # store.
        except sqlite3.Error:
            with self._kind.guarded():
                raise

    def rows(self, query: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of a query."""
        with self._kind.guarded():
            return self._connection.execute(query, values).fetchall()

    def each(self, query: str, values: Sequence[Any] = ()) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a query, one after the other."""
        with self._kind.guarded():
            rows = self._connection.execute(query, values)
        while True:
            with self._kind.guarded():
                row = rows.fetchone()
            if row is None:
                return
            yield row
