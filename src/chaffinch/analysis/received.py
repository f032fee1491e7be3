"""What the analyzer knows of the batches it got: one SQLite file with one owner.

A batch is *waiting* as long as only its file is there. It is *opened* by one transaction: its
tags and its tally are in the file together, or neither is. After a crash before that, the same
file gives the same tally; after it, the file is not opened again. Then it is *released*, or
*refused* for ever, or *unpaid* as long as the ledger has no room for it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chaffinch.analysis.opening import Counted, OpenedBatch
from chaffinch.errors import Reason, StorageFault
from chaffinch.storage.databases import (
    ANALYZER_STATE,
    connected,
    creating,
    has_whole_pages,
    owner_and_version,
    schema_of,
)
from chaffinch.storage.failpoints import reach
from chaffinch.wire.messages import Tally

_VERSION = 1
_STATEMENTS = (
    # Every item of a batch is accounted for: SQLite refuses a row in which one is missing.
    """CREATE TABLE batches (
    id TEXT PRIMARY KEY CHECK (typeof(id) = 'text' AND length(id) = 64),
    plan TEXT NOT NULL CHECK (length(plan) = 64),
    round INTEGER NOT NULL CHECK (round >= 1),
    reports INTEGER NOT NULL CHECK (reports >= 0),
    items INTEGER NOT NULL CHECK (items = counted + dummies + replayed + rejected),
    counted INTEGER NOT NULL CHECK (counted >= 0),
    dummies INTEGER NOT NULL CHECK (dummies >= 0),
    replayed INTEGER NOT NULL CHECK (replayed >= 0),
    rejected INTEGER NOT NULL CHECK (rejected >= 0),
    codes INTEGER NOT NULL CHECK (codes >= 1),
    counts BLOB NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('opened', 'unpaid', 'refused', 'released')),
    why TEXT NOT NULL,
    release BLOB CHECK ((release IS NOT NULL) = (state = 'released'))
)""",
    """CREATE TABLE tags (
    key INTEGER NOT NULL,
    tag BLOB NOT NULL CHECK (length(tag) = 16),
    PRIMARY KEY (key, tag)
) WITHOUT ROWID""",
    """CREATE TRIGGER verdicts_stay BEFORE UPDATE ON batches
WHEN OLD.state IN ('refused', 'released')
BEGIN SELECT RAISE(ABORT, 'what was decided stays'); END""",
    """CREATE TRIGGER batches_remain BEFORE DELETE ON batches
BEGIN SELECT RAISE(ABORT, 'batches are never forgotten'); END""",
)
_FACTS = (
    "SELECT id, plan, round, reports, items, counted, dummies, replayed, rejected, state, why "
    "FROM batches "
)


@dataclass(frozen=True)
class KnownBatch:
    """A batch that was opened, and what became of its items."""

    id: str
    plan_id: str
    round: int
    reports: int
    items: int
    counted: int
    dummies: int
    replayed: int
    rejected: int
    state: str
    """``opened``, ``unpaid`` (the ledger had no room for it), ``refused`` or ``released``."""
    why: str
    """What speaks against a release, if anything does."""

    @property
    def fresh(self) -> int:
        """Return how many of its messages were not opened before and are of the plan."""
        return self.counted + self.dummies


class Received:
    """The batches that were opened, their tallies and releases, and all replay tags."""

    def __init__(self, path: Path) -> None:
        """Open the file, or make it where there is none; refuse one that is damaged or newer."""
        self._path = path.absolute()
        with _guarded(self._path):
            if not self._path.exists():
                self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                # If another process was first, its file is as good.
                with (
                    suppress(FileExistsError),
                    creating(self._path, ANALYZER_STATE, _VERSION, _STATEMENTS),
                ):
                    pass
            with connected(self._path) as connection:
                _check_whole(connection)

    def find(self, batch_id: str) -> KnownBatch | None:
        """Return what is known of a batch; None if it was not opened."""
        rows = self._select(_FACTS + "WHERE id = ?", batch_id)
        return KnownBatch(*rows[0]) if rows else None

    def batches(self) -> list[KnownBatch]:
        """Return all that were opened, by their ids."""
        return [KnownBatch(*row) for row in self._select(_FACTS + "ORDER BY id")]

    def tally(self, batch_id: str) -> Tally:
        """Return what was counted of a batch that was opened."""
        ((plan, number, reports, codes, packed),) = self._select(
            "SELECT plan, round, reports, codes, counts FROM batches WHERE id = ?", batch_id
        )
        pairs = np.frombuffer(packed, "<i8").reshape(-1, 2)
        counts = np.zeros(codes, np.int64)
        counts[pairs[:, 0]] = pairs[:, 1]
        return Tally(plan, reports, counts, batch_id[:32], number)

    def release(self, batch_id: str) -> bytes | None:
        """Return the release of a batch, the same bytes for ever; None if there is none."""
        rows = self._select("SELECT release FROM batches WHERE id = ?", batch_id)
        return rows[0][0] if rows else None

    def add(self, batch: OpenedBatch) -> Counted:
        """Take the tags and the tally of a batch, in one transaction."""
        head = batch.head
        with self._writing() as connection:
            counted = batch.count(_claim(connection, batch))
            reach("analyzer.counted")
            pairs = np.stack(counted.counts.pairs(), axis=1).astype("<i8").tobytes()
            facts = (batch.id, head.plan_id, head.round, head.reports, head.items)
            fates = (counted.counted, counted.dummies, counted.replayed, counted.rejected)
            connection.execute(
                "INSERT INTO batches VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'opened', '', NULL)",
                (*facts, *fates, counted.counts.space, pairs),
            )
            connection.execute("COMMIT")
        reach("analyzer.opened")
        return counted

    def decide(
        self, batch_id: str, state: str, *, why: str = "", release: bytes | None = None
    ) -> None:
        """Note what became of a batch; a release or a refusal is the last word."""
        with self._writing() as connection:
            connection.execute(
                "UPDATE batches SET state = ?, why = ?, release = ? WHERE id = ?",
                (state, why, release, batch_id),
            )
            connection.execute("COMMIT")

    def forget_tags(self, keys: Iterable[int]) -> None:
        """Forget the tags of keys that were destroyed: nothing opens their envelopes again."""
        with self._writing() as connection:
            connection.executemany("DELETE FROM tags WHERE key = ?", [(key,) for key in keys])
            connection.execute("COMMIT")

    def _select(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        with _guarded(self._path), connected(self._path) as connection:
            return connection.execute(query, values).fetchall()

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """Yield the one writer; undone unless it commits itself."""
        with _guarded(self._path, changing=True), connected(self._path) as connection:
            connection.execute("PRAGMA secure_delete = ON")
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")


def _claim(connection: sqlite3.Connection, batch: OpenedBatch) -> NDArray[np.bool_]:
    """Take the tags of a batch; return for each item whether nobody had taken its tag.

    Only the insertion itself tells: whoever looked first and inserted then could be overtaken.
    Rising tags go into neighbouring pages.
    """
    fresh = np.zeros(len(batch.codes), np.bool_)
    insert, key = "INSERT OR IGNORE INTO tags VALUES (?, ?)", batch.key_id
    cursor = connection.cursor()
    for place in batch.in_order().tolist():
        fresh[place] = cursor.execute(insert, (key, batch.tag(place))).rowcount
    return fresh


@contextmanager
def _guarded(path: Path, *, changing: bool = False) -> Iterator[None]:
    """Turn what the disk or SQLite complain about into StorageFault."""
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        full = getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL
        reason = Reason.NO_SPACE if full else Reason.UNCERTAIN if changing else None
        raise StorageFault(
            f"The state {path.name!r} of the analyzer must be whole and within reach. "
            f"Got: {error}.",
            hint="nothing was told to anybody; the same step is taken again after a restart",
            reason=reason,
        ) from None


def _check_whole(connection: sqlite3.Connection) -> None:
    owner, version = owner_and_version(connection)
    if owner == ANALYZER_STATE and version > _VERSION:
        raise sqlite3.DatabaseError(f"version {version}, which a newer chaffinch has written")
    made = set(schema_of(connection)) == set(_STATEMENTS)
    if (owner, version) != (ANALYZER_STATE, _VERSION) or not made:
        raise sqlite3.DatabaseError("another file, or a damaged one")
    if not has_whole_pages(connection):
        raise sqlite3.DatabaseError("a damaged file")
