"""The outbox of a device: reports that are made and not yet known to have arrived.

A report is made once, for one occasion, and is here, durably, before anything of it is sent.
Whatever happens then, a crash or a lost reply, the same bytes are sent again, and an occasion
never makes a second report. When the first hop has it, the report is forgotten; that there was
the occasion is not.

One SQLite file in a folder of its own, both for their owner only. A report's life::

    made (codes) -> paid -> sealed (bytes) -> on its way -> forgotten

Who may have a copy of what was sealed decides what may be sealed anew (``Shown``). A report that
may have arrived is only sent again as it is: in another outer envelope it would be another one to
the first hop, and count twice. One that the first hop says it has refused may get another outer
envelope. What is inside of it stays: sealed anew it would be another one to all parties behind the
first hop, and if that has kept the first, they would count both. What nobody has seen is sealed
anew only for want of the keys that it was for: a copy of the outbox may have sent it meanwhile.
"""

from __future__ import annotations

import hmac
import os
import secrets
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

import numpy as np

from chaffinch.disk.databases import OUTBOX, RecordKind
from chaffinch.disk.files import AnyPath, require_private
from chaffinch.disk.locks import lock_file
from chaffinch.disk.storage_errors import storage_fault
from chaffinch.errors import InvalidFile
from chaffinch.wire.messages import EMPTY, Origin, Report

_STATEMENTS = (
    "CREATE TABLE head (secret BLOB NOT NULL CHECK (length(secret) = 32))",
    """CREATE TABLE occasions (
    id INTEGER PRIMARY KEY,
    plan TEXT NOT NULL,
    round INTEGER NOT NULL,
    key TEXT NOT NULL,
    name TEXT NOT NULL,
    paid INTEGER NOT NULL CHECK (paid IN (0, 1)),
    UNIQUE (plan, round, key)
)""",
    """CREATE TABLE reports (
    id INTEGER PRIMARY KEY,
    occasion INTEGER NOT NULL REFERENCES occasions (id),
    codes BLOB NOT NULL,
    payload BLOB,
    sealed BLOB,
    shown INTEGER NOT NULL CHECK (shown IN (0, 1, 2))
)""",
    "CREATE INDEX occasion_reports ON reports (occasion)",
    """CREATE TABLE key_lists (
    plan TEXT NOT NULL,
    identity BLOB NOT NULL,
    content BLOB NOT NULL,
    fetched REAL NOT NULL,
    PRIMARY KEY (plan, identity)
)""",
)
_KIND = RecordKind(
    "outbox",
    OUTBOX,
    version=2,
    statements=_STATEMENTS,
    whole="SELECT COUNT(*) FROM head",
    hint="reports that were made and have not arrived are kept there: restore it as it was, or "
    "give them up with it",
)
_CODE = np.dtype(">u4")


@dataclass(frozen=True)
class Occasion:
    """What reports were made for: a round of a plan, and the data where a gateway has several."""

    id: int
    round: int
    key: str
    name: str
    """A random name: what a ledger is told was handed out."""


class Shown(IntEnum):
    """Who may have a copy of what was sealed."""

    NOBODY = 0
    REFUSED = 1
    """Whoever has said that it did not take it."""
    ON_ITS_WAY = 2
    """It may have arrived."""


@dataclass(frozen=True, eq=False)
class Waiting:
    """A report that is to be sent."""

    id: int
    report: Report
    payload: bytes | None
    """What is in the outer envelope."""
    sealed: bytes | None
    """The outer envelope: the bytes that are sent."""
    shown: Shown


class Outbox:
    """The reports of one device, or of a gateway that speaks for many people."""

    def __init__(self, folder: AnyPath) -> None:
        """Open an outbox, or make one where there is none; refuse one that others can read."""
        self._folder = Path(folder).resolve()
        self._path = self._folder / "outbox.sqlite"
        _KIND.create(self._path, _fill)
        for place in (self._folder, self._path):
            require_private(place)
        with _KIND.writing(self._path):
            pass  # Looked at once as a whole; a gateway's outbox is large.

    # -------------------------------------------------------------------- making reports

    def add(self, origin: Origin, key: str, reports: Iterable[Report], *, paid: bool) -> bool:
        """Keep all reports of an occasion, durably, all or none; False if there was one before.

        ``reports`` are taken only for a new occasion, under the write lock: nobody makes them
        twice.
        """
        with self._writing() as connection:
            name = secrets.token_hex(16)
            values = (origin.plan_id, origin.round, key, name, paid)
            # The insertion is the test: of two processes that are asked for the same occasion at
            # once, only one makes reports.
            made = connection.execute(
                "INSERT OR IGNORE INTO occasions (plan, round, key, name, paid) "
                "VALUES (?, ?, ?, ?, ?)",
                values,
            )
            if not made.rowcount:
                return False
            number = made.lastrowid
            connection.executemany(
                "INSERT INTO reports (occasion, codes, shown) VALUES (?, ?, 0)",
                ((number, _packed(report)) for report in reports),
            )
            connection.execute("COMMIT")
        return True

    def has_taken(self, plan_id: str) -> bool:
        """Return whether there was an occasion of a plan."""
        with self._writing() as connection:
            query = "SELECT 1 FROM occasions WHERE plan = ? LIMIT 1"
            return connection.execute(query, (plan_id,)).fetchone() is not None

    def unpaid(self, plan_id: str) -> list[Occasion]:
        """Return the occasions of a plan whose reports no ledger has paid for yet."""
        with self._writing() as connection:
            found = connection.execute(
                "SELECT id, round, key, name FROM occasions WHERE plan = ? AND paid = 0",
                (plan_id,),
            ).fetchall()
        return [Occasion(number, at, key, name) for number, at, key, name in found]

    def mark_paid(self, occasion: Occasion) -> None:
        """Let the reports of an occasion be sent."""
        with self._writing() as connection:
            connection.execute("UPDATE occasions SET paid = 1 WHERE id = ?", (occasion.id,))
            connection.execute("COMMIT")

    def cancel(self, occasion: Occasion) -> None:
        """Forget an occasion that was not paid for, as if it had not been."""
        with self._writing() as connection:
            connection.execute(
                "DELETE FROM reports WHERE occasion IN "
                "(SELECT id FROM occasions WHERE id = ? AND paid = 0)",
                (occasion.id,),
            )
            connection.execute("DELETE FROM occasions WHERE id = ? AND paid = 0", (occasion.id,))
            connection.execute("COMMIT")

    def keyed_digest(self, content: bytes) -> str:
        """Return a name for data that tells nothing of them without this outbox."""
        with self._writing() as connection:
            (secret,) = connection.execute("SELECT secret FROM head").fetchone()
        return hmac.digest(secret, content, "sha256").hex()

    # -------------------------------------------------------------------- sending them

    def waiting(self, plan_id: str) -> dict[int, int]:
        """Return how many reports of a plan are to be sent, by round."""
        with self._writing() as connection:
            found: list[tuple[int, int]] = connection.execute(
                "SELECT round, COUNT(*) FROM reports JOIN occasions "
                "ON occasions.id = reports.occasion WHERE plan = ? AND paid GROUP BY round",
                (plan_id,),
            ).fetchall()
        return dict(found)

    def next(self, origin: Origin, most: int) -> list[Waiting]:
        """Return the first reports of a plan and round that are paid for and wait."""
        with self._writing() as connection:
            found = connection.execute(
                "SELECT reports.id, codes, payload, sealed, shown FROM reports JOIN occasions "
                "ON occasions.id = reports.occasion WHERE plan = ? AND round = ? AND paid "
                "ORDER BY reports.id LIMIT ?",
                (origin.plan_id, origin.round, most),
            ).fetchall()
        return [
            Waiting(number, _unpacked(origin, codes), payload, sealed, Shown(shown))
            for number, codes, payload, sealed, shown in found
        ]

    def keep_sealed(self, reports: Iterable[Waiting]) -> None:
        """Keep the bytes that are sent from now on; refuse for what may have arrived otherwise."""
        self._change(
            "UPDATE reports SET payload = ?, sealed = ? WHERE id = ? AND shown < 2",
            [(one.payload, one.sealed, one.id) for one in reports],
        )

    def unseal(self, reports: Sequence[Waiting]) -> None:
        """Let reports of which no copy was taken have another outer envelope."""
        self._change("UPDATE reports SET sealed = NULL WHERE id = ? AND shown < 2", _ids(reports))

    def mark_on_its_way(self, reports: Sequence[Waiting]) -> None:
        """Note that copies may arrive from now on."""
        self._change("UPDATE reports SET shown = 2 WHERE id = ?", _ids(reports))

    def mark_refused(self, reports: Sequence[Waiting], *, arrived: bool) -> None:
        """Note that the copies just sent were not taken; ``arrived``: somebody has seen them."""
        least = Shown.REFUSED if arrived else Shown.NOBODY
        values = [(max(one.shown, least), one.id) for one in reports]
        self._change("UPDATE reports SET shown = ? WHERE id = ?", values)

    def forget(self, reports: Sequence[Waiting]) -> None:
        """Forget reports that have arrived."""
        self._change("DELETE FROM reports WHERE id = ?", _ids(reports))

    # -------------------------------------------------------------------- keys of the parties

    def key_list(self, plan_id: str, identity: bytes) -> tuple[bytes, float] | None:
        """Return the newest list of a party that was seen, and when it came."""
        with self._writing() as connection:
            found: tuple[bytes, float] | None = connection.execute(
                "SELECT content, fetched FROM key_lists WHERE plan = ? AND identity = ?",
                (plan_id, identity),
            ).fetchone()
        return found

    def keep_key_lists(self, plan_id: str, lists: Mapping[bytes, bytes], fetched: float) -> None:
        """Keep the lists of all parties, by identity: together, as they were given out."""
        self._change(
            "INSERT OR REPLACE INTO key_lists (plan, identity, content, fetched) "
            "VALUES (?, ?, ?, ?)",
            [(plan_id, identity, content, fetched) for identity, content in lists.items()],
        )

    # -------------------------------------------------------------------- the file

    @contextmanager
    def sending_alone(self, patience: float) -> Iterator[None]:
        """Wait until nobody else sends from this outbox, then keep others waiting."""
        try:
            number = lock_file(self._folder / "sending.lock", patience=patience)
        except OSError as error:
            raise storage_fault("sending.lock", error, verb="lock") from None
        try:
            yield
        finally:
            os.close(number)

    def _change(self, statement: str, values: Iterable[Sequence[object]]) -> None:
        with self._writing() as connection:
            connection.executemany(statement, values)
            connection.execute("COMMIT")

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with _KIND.writing(self._path, looked_at=True) as connection:
            # What is deleted is overwritten: nobody finds earlier reports in free pages.
            connection.execute("PRAGMA secure_delete = ON")
            yield connection


def _fill(connection: sqlite3.Connection) -> None:
    connection.execute("INSERT INTO head VALUES (?)", (secrets.token_bytes(32),))


def _ids(reports: Iterable[Waiting]) -> list[tuple[int]]:
    return [(one.id,) for one in reports]


def _packed(report: Report) -> bytes:
    sent = [code for code in report.codes if code != EMPTY]
    return np.array(sent, _CODE).tobytes()


def _unpacked(origin: Origin, content: bytes) -> Report:
    codes = np.frombuffer(content, _CODE).tolist()
    if len(codes) > origin.slots:
        raise InvalidFile("outbox", "one with reports of this plan", ["a longer report"])
    return Report(origin, (*codes, *[EMPTY] * (origin.slots - len(codes))))
