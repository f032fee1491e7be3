"""Records: databases that only grow and are kept for a user, whole or refused.

A record that was damaged must not pass for an empty one: it would have forgotten what it knew.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from chaffinch.disk.databases import (
    creating,
    guarded,
    has_whole_pages,
    owner_and_version,
    schema_of,
    writing,
)
from chaffinch.disk.files import make_folder
from chaffinch.errors import Reason


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
        """Refuse a file that is no record of this kind, or was damaged."""
        owner, version = owner_and_version(connection)
        if owner != self.owner:
            raise sqlite3.DatabaseError("another file, or a damaged one")
        if version != self.version:
            said = f"one of the format version {version}, where {self.version} is read"
            raise sqlite3.DatabaseError(said)
        if not has_whole_pages(connection):
            raise sqlite3.DatabaseError("a damaged file")
        if set(schema_of(connection)) != set(self.statements):
            raise sqlite3.DatabaseError("one that another version of chaffinch has made")
        if connection.execute(self.whole).fetchone() != (1,):
            raise sqlite3.DatabaseError("a damaged file")
