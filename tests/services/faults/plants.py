"""Faults that are planted into the code, each of which the sweep must find."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import stat
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

from chaffinch.disk.files import atomic
from chaffinch.ledger import Entry, Ledger
from chaffinch.reach.shuffler.filter_work import FilterRelay
from chaffinch.services.group_commit import GroupCommit
from chaffinch.shuffling.inbox import Upload
from chaffinch.shuffling.state import Change

_MOMENT = 0.05
"""Seconds by which what is told is ahead of what is done."""


def acknowledge_first() -> None:
    """Tell senders that their reports are there before they are.

    A moment before: a thread that is quick to write them would hide the fault.
    """

    async def put(self: GroupCommit, upload: Upload) -> None:
        asyncio.get_running_loop().call_later(_MOMENT, self._jobs.put, [upload])

    GroupCommit.put = put  # type: ignore[method-assign]
    GroupCommit._finish = lambda *_: None  # type: ignore[method-assign] # noqa: SLF001


def synchronous(level: str, journal: str = "") -> None:
    """Let all databases sync less than they do."""
    connect = sqlite3.connect

    class Careless(sqlite3.Connection):
        def execute(self, sql: str, *given: Any) -> sqlite3.Cursor:
            if sql == "PRAGMA synchronous = EXTRA":
                if journal:
                    super().execute(f"PRAGMA journal_mode = {journal}")
                sql = f"PRAGMA synchronous = {level}"
            return super().execute(sql, *given)

    def careless(*given: Any, **more: Any) -> sqlite3.Connection:
        return connect(*given, factory=Careless, **more)

    sqlite3.connect = cast("Any", careless)


def ignore_sync(name: str, *, folders: bool = False) -> None:
    """Let a call for a sync do nothing, for files or for folders."""
    real = getattr(os, name)

    def ignored(number: int) -> None:
        if stat.S_ISDIR(os.fstat(number).st_mode) != folders:
            real(number)

    setattr(os, name, ignored)


def test_then_insert() -> None:
    """Look for all tags first, and insert them afterwards."""

    def claim(self: Change, key: int, tags: Sequence[bytes]) -> list[bool]:
        run = self._connection.execute
        known = "SELECT 1 FROM tags WHERE key = ? AND tag = ?"
        fresh = [run(known, (key, tag)).fetchone() is None for tag in tags]
        for tag in tags:
            run("INSERT OR IGNORE INTO tags VALUES (?, ?)", (key, tag))
        return fresh

    Change.claim = claim  # type: ignore[method-assign]


def pay_then_keep() -> None:
    """Charge the ledger, and keep what it pays for when that is done."""

    def place(ledger: Ledger, subject: str) -> Path:
        return ledger._path.with_name(f"paid-{subject}")  # noqa: SLF001

    charge = Ledger.charge

    def charge_first(
        self: Ledger, *asked: Any, subject: str = "", content: bytes | None = None, **more: Any
    ) -> Entry:
        entry = charge(self, *asked, subject=subject, **more)
        kept = place(self, subject)
        if content is not None and not kept.exists():
            with atomic(kept) as file:
                file.write(content)
        return entry

    def content_of(ledger: Ledger, entry: Entry) -> bytes:
        return place(ledger, entry.subject).read_bytes()

    Ledger.charge = charge_first  # type: ignore[method-assign]
    Ledger.content_of = content_of  # type: ignore[assignment,method-assign]


def purge_first() -> None:
    """Let filters go before the batch of them is known."""
    hand_over = FilterRelay._hand_over  # noqa: SLF001

    def purged(self: FilterRelay, *given: Any) -> None:
        self._purge()
        hand_over(self, *given)

    FilterRelay._hand_over = purged  # type: ignore[assignment,method-assign] # noqa: SLF001


def hand_over_again() -> None:
    """Forget, in every new life, that the filters of a plan were handed over."""
    FilterRelay._is_known = lambda _: False  # type: ignore[assignment,method-assign] # noqa: SLF001


PLANTS: dict[str, Callable[[], None]] = {
    "acknowledged before the sync": acknowledge_first,
    "databases without syncs": lambda: synchronous("OFF"),
    "databases that sync now and then": lambda: synchronous("NORMAL", "WAL"),
    "a journal whose end is not synced": lambda: synchronous("FULL"),
    "segments without syncs": lambda: ignore_sync("fdatasync"),
    "batches without syncs": lambda: ignore_sync("fsync"),
    "names without syncs": lambda: ignore_sync("fsync", folders=True),
    "tags tested, then inserted": test_then_insert,
    "a release outside of its charge": pay_then_keep,
}
REACH_PLANTS: dict[str, Callable[[], None]] = {
    "filters without syncs": lambda: ignore_sync("fsync"),
    "filters that go before their batch is known": purge_first,
    "filters that are handed over again": hand_over_again,
}
