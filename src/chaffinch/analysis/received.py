"""The state of the analyzer: the batches that it has opened, in one SQLite file with one owner.

A batch is *waiting* as long as only its file is there. It is *opened* by one transaction: its
tags and its tally are in the file together, or neither is. After a crash before that, the same
file gives the same tally; after it, the file is not opened again. Then it is *released*, or
*refused* for ever, or *unpaid* as long as the ledger has no room for it.

A batch in which too few messages are somebody's is *short*. Several of them are *joined*, in one
transaction, when they have enough together: what they had in them is another batch from then on,
which is opened.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chaffinch.analysis.open_batches import Counted, OpenedBatch, OpenedItem
from chaffinch.disk.databases import ANALYZER_STATE
from chaffinch.disk.kill_points import kill_point
from chaffinch.disk.stores import StoreKind
from chaffinch.wire.batches import CodeCounts
from chaffinch.wire.messages import Tally
from chaffinch.wire.sealed_batches import BatchHead

# What is long comes last: whoever asks for the rest does not read through it.
# Every item of a batch is accounted for: SQLite refuses a row in which one is missing.
_BATCHES = """CREATE TABLE batches (
    id TEXT PRIMARY KEY CHECK (typeof(id) = 'text' AND length(id) = 64),
    plan TEXT NOT NULL CHECK (length(plan) = 64),
    round INTEGER NOT NULL CHECK (round >= 1),
    reports INTEGER NOT NULL CHECK (reports >= 0),
    items INTEGER NOT NULL CHECK (items = counted + dummies + replayed + rejected),
    counted INTEGER NOT NULL CHECK (counted >= 0),
    dummies INTEGER NOT NULL CHECK (dummies >= 0),
    replayed INTEGER NOT NULL CHECK (replayed >= 0),
    rejected INTEGER NOT NULL CHECK (rejected >= 0),
    state TEXT NOT NULL CHECK (state IN ({states})),
    why TEXT NOT NULL,
    codes INTEGER NOT NULL CHECK (codes >= 1),
    counts BLOB NOT NULL,
    release BLOB CHECK ((release IS NOT NULL) = (state = 'released'))
)"""
_VERDICTS_STAY = """CREATE TRIGGER verdicts_stay BEFORE UPDATE ON batches
WHEN OLD.state IN ({states})
BEGIN SELECT RAISE(ABORT, 'what was decided stays'); END"""
_BATCHES_REMAIN = """CREATE TRIGGER batches_remain BEFORE DELETE ON batches
BEGIN SELECT RAISE(ABORT, 'batches are never forgotten'); END"""
_FIRST = (
    _BATCHES.format(states="'opened', 'unpaid', 'refused', 'released'"),
    """CREATE TABLE tags (
    key INTEGER NOT NULL,
    tag BLOB NOT NULL CHECK (length(tag) = 16),
    PRIMARY KEY (key, tag)
) WITHOUT ROWID""",
    _VERDICTS_STAY.format(states="'refused', 'released'"),
    _BATCHES_REMAIN,
)
# Version 2 has two states more. SQLite changes no CHECK, so the table is made anew.
_SECOND = (
    "DROP TRIGGER verdicts_stay",
    "DROP TRIGGER batches_remain",
    "ALTER TABLE batches RENAME TO batches_before",
    _BATCHES.format(states="'opened', 'unpaid', 'short', 'refused', 'released', 'joined'"),
    "INSERT INTO batches SELECT * FROM batches_before",
    "DROP TABLE batches_before",
    _VERDICTS_STAY.format(states="'refused', 'released', 'joined'"),
    _BATCHES_REMAIN,
)
_STATE = StoreKind(
    "state of the analyzer",
    ANALYZER_STATE,
    steps=(_FIRST, _SECOND),
    hint="nothing was lost by this: batches stay where they are; if the file is damaged, see "
    "Backup in the guide of services: a copy of it does not know what was counted since",
)
_FACTS = (
    "SELECT id, plan, round, reports, items, counted, dummies, replayed, rejected, state, why "
    "FROM batches "
)

_INSERT = "INSERT INTO batches VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 'opened', '', ?, ?, NULL)"
_JOINED = b"chaffinch joined batches\0"
"""What the ids of batches stand behind where another id is made of them."""
_AT_ONCE = 1 << 16
"""Places that are numbers of Python at a time: of a large batch they would take much memory."""


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
    """``opened``, ``unpaid`` (the ledger had no room for it), ``short`` (it waits for others),
    ``joined`` (what was in it is in another one now), ``refused`` or ``released``."""
    why: str
    """What speaks against a release, if anything does."""

    @property
    def fresh(self) -> int:
        """Return how many of its messages were not opened before and are of the plan."""
        return self.counted + self.dummies


class KnownBatches:
    """What is known of batches, for anybody who only reads; nothing where there is no file yet.

    A change of the owner is waited for, for so many seconds of ``patience``; without them for a
    minute.
    """

    def __init__(self, path: Path, *, patience: float | None = None) -> None:
        self._path, self._patience = path, patience

    def find(self, batch_id: str) -> KnownBatch | None:
        """Return what is known of a batch; None if it was not opened."""
        rows = self._rows(_FACTS + "WHERE id = ?", batch_id)
        return KnownBatch(*rows[0]) if rows else None

    def known(self, batch_id: str) -> KnownBatch:
        """Return what is known of a batch that was opened: none is ever forgotten."""
        ((*row,),) = self._rows(_FACTS + "WHERE id = ?", batch_id)
        return KnownBatch(*row)

    def all(self) -> list[KnownBatch]:
        """Return all that were opened, by their ids."""
        return [KnownBatch(*row) for row in self._rows(_FACTS + "ORDER BY id")]

    def tally(self, batch_id: str) -> Tally:
        """Return what was counted of a batch that was opened."""
        ((plan, number, reports, codes, packed),) = self._rows(
            "SELECT plan, round, reports, codes, counts FROM batches WHERE id = ?", batch_id
        )
        # Pairs of a code and its count: most codes of a large plan were never sent.
        pairs = np.frombuffer(packed, "<i8").reshape(-1, 2)
        counts = np.zeros(codes, np.int64)
        counts[pairs[:, 0]] = pairs[:, 1]
        return Tally(plan, reports, counts, batch_id[:32], number)

    def content(self, batch_id: str) -> bytes:
        """Return what was in a batch of one item."""
        ((content,),) = self._rows("SELECT counts FROM batches WHERE id = ?", batch_id)
        return bytes(content)

    def release(self, batch_id: str) -> bytes | None:
        """Return the release of a batch, the same bytes for ever; None if there is none."""
        rows = self._rows("SELECT release FROM batches WHERE id = ?", batch_id)
        return rows[0][0] if rows else None

    def _rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        if not self._path.exists():
            return []
        with _STATE.looked_at(self._path, patience=self._patience) as connection:
            return connection.execute(query, values).fetchall()


class Received(KnownBatches):
    """The batches that were opened, with all replay tags, for their one owner."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._store = _STATE.open(path)
        self._all: list[KnownBatch] | None = None

    def close(self) -> None:
        """Let another process be the owner."""
        self._store.close()

    def all(self) -> list[KnownBatch]:
        """Return all that were opened, by their ids; nobody else changes them, so once is enough.

        The worker asks for them many times a minute, however many there are.
        """
        if self._all is None:
            self._all = super().all()
        return self._all

    def add(self, batch: OpenedBatch) -> Counted:
        """Take the tags and the tally of a batch, in one transaction."""
        head = batch.head
        # Forgotten before the change: whatever comes of it, the next question reads the file.
        self._all = None
        with self._store.changing(spills=False) as connection:
            counted = batch.count(_claim(connection, batch))
            kill_point("analyzer.counted")
            pairs = np.stack(counted.counts.pairs(), axis=1).astype("<i8").tobytes()
            fates = (counted.counted, counted.dummies, counted.replayed, counted.rejected)
            _insert(connection, batch.id, head, (*fates, counted.counts.space, pairs))
        kill_point("analyzer.opened")
        return counted

    def add_item(self, batch: OpenedItem) -> None:
        """Take the tag and the content of a batch of one item, in one transaction."""
        opened = batch.content is not None
        self._all = None
        with self._store.changing() as connection:
            insert = "INSERT OR IGNORE INTO tags VALUES (?, ?)"
            tag = (batch.head.key_id, batch.tag)
            fresh = opened and connection.execute(insert, tag).rowcount == 1
            kill_point("analyzer.counted")
            content = batch.content if fresh else b""
            fates = (int(fresh), 0, int(opened and not fresh), int(not opened))
            _insert(connection, batch.id, batch.head, (*fates, batch.codes, content))
        kill_point("analyzer.opened")

    def decide(
        self, batch_id: str, state: str, *, why: str = "", release: bytes | None = None
    ) -> None:
        """Note what became of a batch; a release or a refusal is the last word."""
        self._all = None
        with self._store.changing() as connection:
            connection.execute(
                "UPDATE batches SET state = ?, why = ?, release = ? WHERE id = ?",
                (state, why, release, batch_id),
            )

    def join(self, batches: Sequence[KnownBatch], *, reports: int) -> str:
        """Make one batch of several of one plan and round, in one transaction; return its id.

        Its id follows from theirs. They stay known, each with the id of what has become of it.
        """
        ids, (first, *_) = sorted(one.id for one in batches), batches
        joined = hashlib.sha256(_JOINED + bytes.fromhex("".join(ids))).hexdigest()
        counts = CodeCounts(len(self.tally(first.id).counts))
        for one in ids:
            counts.add_counts(np.asarray(self.tally(one).counts, np.int64))
        pairs = np.stack(counts.pairs(), axis=1).astype("<i8").tobytes()
        names = ("items", "counted", "dummies", "replayed", "rejected")
        sums = (sum(getattr(one, name) for one in batches) for name in names)
        self._all = None
        with self._store.changing() as connection:
            facts = (joined, first.plan_id, first.round, reports, *sums, counts.space, pairs)
            connection.execute(_INSERT, facts)
            connection.executemany(
                "UPDATE batches SET state = 'joined', why = ? WHERE id = ?",
                [(f"what was in it is in batch {joined}", one) for one in ids],
            )
        kill_point("analyzer.joined")
        return joined

    def forget_tags(self, keys: Iterable[int]) -> None:
        """Forget the tags of keys that were destroyed: nothing opens their envelopes again."""
        with self._store.changing() as connection:
            connection.executemany("DELETE FROM tags WHERE key = ?", [(key,) for key in keys])

    def _rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        return self._store.rows(query, values)


def _insert(
    connection: sqlite3.Connection, batch_id: str, head: BatchHead, counted: tuple[Any, ...]
) -> None:
    facts = (batch_id, head.plan_id, head.round, head.reports, head.items)
    connection.execute(_INSERT, (*facts, *counted))


def _claim(connection: sqlite3.Connection, batch: OpenedBatch) -> NDArray[np.bool_]:
    """Take the tags of a batch; return for each item whether nobody had taken its tag.

    Only the insertion itself tells: whoever looked first and inserted then could be overtaken.
    Rising tags go into neighbouring pages.
    """
    fresh = np.zeros(len(batch.codes), np.bool_)
    insert, key = "INSERT OR IGNORE INTO tags VALUES (?, ?)", batch.key_id
    cursor, order = connection.cursor(), batch.in_order()
    for start in range(0, len(order), _AT_ONCE):
        for place in order[start : start + _AT_ONCE].tolist():
            # One row where the tag was new, none where somebody had it.
            fresh[place] = cursor.execute(insert, (key, batch.tag(place))).rowcount
    return fresh
