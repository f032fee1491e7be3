"""What a shuffler has put into a batch, remembered on disk: nothing goes into two.

The batches A and A with one report more, both released, show that report in clear. So every
name that goes into a shuffle is written here first, and refused when it comes again.

Order of writing, for every shuffle:

1. everything is read and proven whole, and the crowd is counted; nothing is written so far;
2. the names, the name of the batch they make and its digest are committed here, durably;
3. the batch is written, and takes its place;
4. the batch is marked as finished here.

* A crash before 2 leaves nothing. A crash between 2 and 4 leaves names that are taken and a
  batch that may have been seen, in part or in full. Exactly the same inputs may then be
  shuffled again: they make the batch of the same name and the same digest, so whoever has seen
  both learns nothing from the second, counts it once, and is charged once. Any other set of
  inputs with one of these names in it is refused.
* Two shuffles at once are put in order by the database: one of them finds the names taken.

What this cannot prevent: a record that was removed, or restored from a backup, has forgotten
what it knew; two shufflers that get the same inputs do not know of one another; and whoever
can write a file of messages can give it a new name, as a digest has no key.

Names of inputs stay here. They are in no batch, message or error.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

from chaffinch.disk.databases import BATCH_RECORD, RecordKind
from chaffinch.disk.files import AnyPath, state_folder
from chaffinch.errors import (
    BatchRepeated,
    InvalidFile,
    InvalidInput,
    Reason,
    StorageFault,
    Unquoted,
)
from chaffinch.wire.batches import BatchFacts, CodeCounts, digest_of, new_name

_STATEMENTS = (
    """CREATE TABLE batches (
    name TEXT PRIMARY KEY CHECK (typeof(name) = 'text' AND length(name) = 32),
    digest TEXT NOT NULL CHECK (typeof(digest) = 'text' AND length(digest) = 64),
    inputs INTEGER NOT NULL CHECK (typeof(inputs) = 'integer' AND inputs >= 1),
    finished INTEGER NOT NULL CHECK (finished IN (0, 1))
)""",
    """CREATE TABLE inputs (
    name TEXT PRIMARY KEY CHECK (typeof(name) = 'text' AND length(name) = 32),
    batch TEXT NOT NULL REFERENCES batches (name)
)""",
)
_RECORD = RecordKind(
    "record of the shuffler",
    BATCH_RECORD,
    version=1,
    statements=_STATEMENTS,
    whole="SELECT COALESCE(SUM(inputs), 0) = (SELECT COUNT(*) FROM inputs) FROM batches",
    hint="nothing was shuffled; if it cannot be reached, change that; if it is damaged, nobody "
    "knows which reports were shuffled, and another record would let the same people into two "
    "batches: restore it as it was after the last shuffle, or collect new reports",
)


def usual_record(plan_id: str) -> Path:
    """Return where this user's record for a plan is, whatever the working folder.

    A record in the folder of the input or the output would be another one as soon as somebody
    works in another folder.
    """
    return state_folder() / "shuffled" / f"{plan_id[:32]}.record"


class Record:
    """The names that one shuffler has put into batches, in a file that only grows."""

    def __init__(self, path: AnyPath) -> None:
        self._path = Path(path).absolute()

    def claim(
        self,
        names: Sequence[str],
        facts: BatchFacts,
        counts: CodeCounts,
        *,
        instead_of: str | None = None,
    ) -> BatchFacts:
        """Take names for a batch, durably, and return its facts with its name.

        ``facts`` and ``counts`` are those of the batch that is to be written. Names that were
        taken before are refused, unless they are exactly those of a batch that was not
        finished: then it is that batch again. Only that one may replace the batch of the name
        ``instead_of``, which stands where it is to go.
        """
        with self._writing() as connection:
            begun = self._begun(connection, names, instead_of)
            if begun is None:
                return self._insert(connection, names, facts, counts)
        name, digest = begun
        again = replace(facts, name=name)
        if digest_of(again, counts) != digest:
            raise _changed()
        return again

    def refuse_repeated(self, names: Sequence[str], *, instead_of: str | None = None) -> None:
        """Refuse what ``claim`` would refuse for its names, before anything is read for it."""
        if self._path.exists():
            with self._writing() as connection:
                self._begun(connection, names, instead_of)
        elif instead_of is not None:
            raise _other_batch()

    def _begun(
        self, connection: sqlite3.Connection, names: Sequence[str], instead_of: str | None
    ) -> tuple[str, str] | None:
        """Return the name and digest of the unfinished batch of exactly these names, if any."""
        taken = self._taken(connection, names)
        batches = set(taken.values())
        if instead_of is not None and batches != {instead_of}:
            raise _other_batch()
        if not batches:
            return None
        # Names of two batches, or new ones beside them: A, and A with one more.
        if len(batches) > 1 or len(taken) < len(names):
            raise _repeated(len(taken), len(names))
        (name,) = batches
        digest, inputs, finished = connection.execute(
            "SELECT digest, inputs, finished FROM batches WHERE name = ?", (name,)
        ).fetchone()
        # Fewer names than that batch had would make another batch.
        if finished or inputs != len(names):
            raise _repeated(len(taken), len(names))
        return name, digest

    def is_unfinished(self, batch: str) -> bool:
        """Return whether a batch of this name was begun here and not finished."""
        if not self._path.exists():
            return False
        with self._writing() as connection:
            row = connection.execute(
                "SELECT finished FROM batches WHERE name = ?", (batch,)
            ).fetchone()
        return bool(row == (0,))

    def finish(self, batch: str) -> None:
        """Mark a batch as written in full: its inputs are not shuffled again."""
        try:
            with self._writing() as connection:
                connection.execute("UPDATE batches SET finished = 1 WHERE name = ?", (batch,))
                connection.execute("COMMIT")
        except StorageFault as fault:
            raise StorageFault(
                f"{fault.message} The batch itself is written in full.",
                hint="keep the batch; or make this record reachable and run the same command "
                "again, which makes the same batch; another record would count people twice",
                details=fault.details,
            ) from None

    def _insert(
        self,
        connection: sqlite3.Connection,
        names: Sequence[str],
        facts: BatchFacts,
        counts: CodeCounts,
    ) -> BatchFacts:
        # One transaction: neither names without their batch nor a batch without its names.
        made = replace(facts, name=new_name())
        connection.execute(
            "INSERT INTO batches VALUES (?, ?, ?, 0)",
            (made.name, digest_of(made, counts), len(names)),
        )
        connection.executemany(
            "INSERT INTO inputs VALUES (?, ?)", [(name, made.name) for name in names]
        )
        connection.execute("COMMIT")
        return made

    def _taken(self, connection: sqlite3.Connection, names: Sequence[str]) -> dict[str, str]:
        taken = {}
        for name in names:
            row = connection.execute("SELECT batch FROM inputs WHERE name = ?", (name,)).fetchone()
            if row is not None:
                taken[name] = row[0]
        return taken

    def _writing(self) -> AbstractContextManager[sqlite3.Connection]:
        # The write lock also for what only reads: between the look-up of names and their insertion
        # no other process may claim one of them.
        _RECORD.create(self._path)
        return _RECORD.writing(self._path)


def _repeated(taken: int, given: int) -> BatchRepeated:
    return BatchRepeated(
        "message files of a shuffle",
        f"{taken} of {given} that went into an earlier shuffle",
        hint="use the batch that was made then, and make one of the new files alone; a shuffle "
        "that was cut short may be run again with exactly the files it had",
    )


def _other_batch() -> InvalidInput:
    return InvalidInput(
        "target",
        "another file than that of another batch",
        Unquoted("one with the batch of other message files"),
        hint="name another file: a batch cannot be made again",
    )


def _changed() -> InvalidFile:
    return InvalidFile(
        "message files of a shuffle",
        "as they were when this shuffle was started first",
        ["the same names with other messages"],
        reason=Reason.DAMAGED,
    )
