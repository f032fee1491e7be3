"""A durable budget: charge first, release afterwards.

On a client the ledger says what this device has already answered; at an analyzer, what has
been released. Both are the same: a cap, and charges whose composition is proven to stay below it.
"""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from chaffinch.disk.databases import connected, writing
from chaffinch.disk.files import AnyPath
from chaffinch.disk.leftovers import remove_leftovers
from chaffinch.errors import (
    BudgetExhausted,
    InvalidInput,
    LedgerRolledBack,
    StorageFault,
    Unquoted,
    checks,
)
from chaffinch.ledger import schema
from chaffinch.ledger.chain import Mark
from chaffinch.ledger.charge import Charge, Entry, fits, promised, total, word
from chaffinch.ledger.schema import ROLES, Head, History, guarded
from chaffinch.privacy import Guarantee, Target

TRIES = 4
"""How often a verdict is worked out without the lock before it is worked out with it."""


class Ledger:
    """Charges in a file, with a cap that their composition is proven not to exceed.

    A charge is granted only when all charges together are proven to stay
    within the cap. It is on disk before anything is told to the caller.

    >>> import tempfile
    >>> from chaffinch.privacy import FlippedBits, Target
    >>> folder = Path(tempfile.mkdtemp())
    >>> ledger = Ledger.create(
    ...     folder / "ledger", role="analyzer", cap=Target(1.0, 1e-6), mark=folder / "mark"
    ... )
    >>> ledger
    <Ledger 'ledger', analyzer, cap=Target(epsilon=1.0, delta=1e-06)>
    >>> asked = Charge("browsers", FlippedBits(users=1000, flip_probability="0.1"))
    >>> with ledger.charging(asked, "november", subject="digest of the batch") as entry:
    ...     entry.sequence, entry.replayed
    (1, False)
    >>> ledger.spent().epsilon < ledger.would_spend(asked).epsilon < 1
    True
    """

    def __init__(self, path: Path, mark: Path, head: Head) -> None:
        """Use ``create`` or ``open``: they check the files."""
        self._path = path
        self._mark = mark
        self._head = head

    def __repr__(self) -> str:
        return f"<Ledger {self._path.name!r}, {self._head.role}, cap={self._head.cap!r}>"

    @classmethod
    def create(cls, path: AnyPath, *, role: str, cap: Target, mark: AnyPath) -> Ledger:
        """Make a new, empty ledger with its mark; refuse files that exist.

        The mark is written first. When a crash leaves only that, making the same ledger again
        goes on from it: such a mark has seen no charge. A mark that has seen one is refused,
        because a lost database must not turn into a fresh budget.
        """
        checks.choice("role", role, ROLES)
        if not isinstance(cap, Target):
            raise InvalidInput("cap", "a Target", cap)
        if not (cap.epsilon > 0 and cap.delta < 1):
            raise InvalidInput("cap", "an epsilon above 0 and a delta below 1", cap)
        place, beside = _two_paths(path, mark)
        remove_leftovers(place.parent)
        with guarded():
            if place.exists():
                raise _taken(place)
            head = _adopted(beside, role, cap)
            try:
                schema.create(place, head)
            except FileExistsError:
                raise _taken(place) from None
        return cls(place, beside, head)

    @classmethod
    def open(cls, path: AnyPath, *, mark: AnyPath) -> Ledger:
        """Open a ledger; refuse it when database, schema, hash chain or mark disagree."""
        place, beside = _two_paths(path, mark)
        with guarded(), connected(place) as connection:
            schema.check_pages(connection)
            history = schema.read(connection)
            for entry in history.entries:
                schema.content_of(connection, entry)
            ledger = cls(place, beside, history.head)
        ledger._history()
        return ledger

    def of(self, role: str) -> Ledger:
        """Return the ledger if it is of that role: a wrong file must not pay."""
        if self.role != role:
            raise InvalidInput(
                "ledger", f"one of the role {role}", Unquoted(f"one of the role {self.role}")
            )
        return self

    @property
    def id(self) -> str:
        """Return the ledger's own name, drawn at random when it was made."""
        return self._head.ledger

    @property
    def role(self) -> str:
        """Return whose budget it is: ``client`` or ``analyzer``."""
        return self._head.role

    @property
    def cap(self) -> Target:
        """Return what all charges together may cost."""
        return self._head.cap

    def entries(self) -> tuple[Entry, ...]:
        """Return every charge so far, the first one first."""
        return self._history().entries

    def spent(self) -> Guarantee:
        """Return the guarantee of everything charged so far, at the cap's delta."""
        return self._promised(self._history().charges)

    def would_spend(self, charge: Charge) -> Guarantee:
        """Return the guarantee of everything so far and ``charge``, without charging it."""
        return self._promised((*self._history().charges, _check_charge(charge)))

    def remaining(self) -> float:
        """Return the cap's epsilon minus the spent one, for people to read.

        Epsilons do not add up: what a charge would really cost is told by ``would_spend``.
        """
        return max(0.0, self.cap.epsilon - self.spent().epsilon)

    def charge(
        self,
        charge: Charge,
        key: str,
        *,
        subject: str = "",
        by_subject: bool = False,
        content: bytes | None = None,
    ) -> Entry:
        """Charge durably and return the entry, or raise and hand out nothing.

        ``key`` names the occasion. The same key with the same charge and subject charges
        nothing and returns the first entry, flagged ``replayed``; with anything else it is
        refused. ``subject`` is a digest of what is handed out for the charge (the batch that
        is released, the messages that are sent), so that a repeated key cannot be used for
        other data. An analyzer cannot repeat a key without one. On a client a replayed entry
        without a subject pays for the messages made then: send those again, make no new ones.

        With ``by_subject`` the key is only a name: if the subject was charged before under any
        key, with the same charge, that entry is returned. This is for what is the same to
        the last bit whenever it is handed out.

        ``content`` is what is handed out. It is kept in the same transaction: after a crash
        both are there, or neither. Whoever asks again gets what was kept then (``content_of``),
        also if it would be made in another way by now.

        After a StorageFault it is not known whether the charge was written; trying again with
        the same key and subject settles it without charging twice.
        """
        _check_charge(charge)
        word("key", key)
        word("subject", subject, least=1 if by_subject else 0)

        def earlier(history: History) -> Entry | None:
            same = history.find_content(charge, subject) if by_subject else None
            return same or history.find(key)

        with guarded(charging=True):
            entry = self._granted(charge, key, subject, earlier, content)
            if entry.replayed:
                # Whoever charged first may have been killed before it moved the mark.
                self._move_mark()
        return entry

    def is_charged(self, key: str, subject: str) -> bool:
        """Return whether an occasion was charged for this very subject, durably.

        A process that died between row and mark has left the mark behind. It is moved up
        here, because whoever asks hands something out for that row, and no older copy of the
        ledger may pass without it.
        """
        found = any((entry.key, entry.subject) == (key, subject) for entry in self.entries())
        if found:
            with guarded():
                self._move_mark()
        return found

    def content_of(self, entry: Entry) -> bytes | None:
        """Return what was handed out for a charge, if the ledger keeps it."""
        with guarded(), connected(self._path) as connection:
            return schema.content_of(connection, entry)

    @contextmanager
    def charging(
        self, charge: Charge, key: str, *, subject: str = "", by_subject: bool = False
    ) -> Iterator[Entry]:
        """Charge, then run the block that releases: it starts only when the charge is durable.

        A crash or an error in the block leaves the charge in place: what may have been seen
        is paid for. To finish such a release later, repeat it with the same key and subject;
        without a subject a repeated key never starts the block.
        """
        entry = self.charge(charge, key, subject=subject, by_subject=by_subject)
        if entry.replayed and not entry.subject:
            raise _reused(key)
        yield entry

    # A verdict is a proof about one list of rows and the new charge, and depends on nothing else.
    # Rows are only ever added, and every row changes the last hash, so an unchanged hash means
    # the very rows that the verdict is about. That is looked up again under BEGIN IMMEDIATE,
    # which admits one writer at a time, and the new row is committed under the same lock:
    # between the look and the commit nobody can add a row. Hence the slow work needs no lock.
    # If the ledger has moved on, the verdict is about the past: it is worked out anew, and after
    # some tries under the lock, so that a slow process is not overtaken for ever.
    # What was charged before is looked up there as well, for the same reason.
    def _granted(
        self,
        charge: Charge,
        key: str,
        subject: str,
        earlier: Callable[[History], Entry | None],
        content: bytes | None,
    ) -> Entry:
        for tries_left in reversed(range(TRIES)):
            seen = self._history()
            if earlier(seen) is None:
                fits(total((*seen.charges, charge)), self.cap)  # slow, and remembered
            with writing(self._path) as connection:
                now = self._history_in(connection, Mark.read(self._mark))
                before = earlier(now)
                if before is not None:
                    return self._repeated(before, charge, subject)
                if now.mark != seen.mark and tries_left:
                    continue
                if self._allows(seen, now, charge):
                    entry = now.after(charge, key, subject, content)
                    return self._append(connection, entry, content)
            break
        raise self._exhausted(now, charge)

    def _append(self, connection: sqlite3.Connection, entry: Entry, content: bytes | None) -> Entry:
        # In the order that ``chain`` explains: the new mark is written beside the old one, the row
        # is committed, the mark is moved. A full disk fails in the first step and costs nothing.
        ahead = Mark(self._head.ledger, entry.sequence, entry.hash)
        with ahead.prepared(self._mark) as move:
            schema.append(connection, entry, content)
            self._move_mark(move)
        return entry

    def _allows(self, seen: History, now: History, charge: Charge) -> bool:  # noqa: ARG002
        """Return whether a charge fits on top of what the ledger holds now (``seen`` is stale)."""
        return fits(total((*now.charges, charge)), self.cap)

    def _repeated(self, before: Entry, charge: Charge, subject: str) -> Entry:
        same = before.charge == charge and before.subject == subject
        if not same or (self.role == "analyzer" and not subject):
            raise _reused(before.key)
        return replace(before, replayed=True)

    def _exhausted(self, now: History, charge: Charge) -> BudgetExhausted:
        spent = self._promised(now.charges).epsilon
        return BudgetExhausted(
            cap=self.cap.epsilon,
            delta=self.cap.delta,
            asked=self._promised((*now.charges, charge)).epsilon,
            spent=spent,
            remaining=max(0.0, self.cap.epsilon - spent),
        )

    def _move_mark(self, move: Callable[[Mark], None] | None = None) -> None:
        # Under the write lock: another process may have moved it further, and it never moves back.
        with writing(self._path) as connection:
            mark = Mark.read(self._mark)
            reached = self._history_in(connection, mark).mark
            if reached != mark:
                move = move or (lambda last: last.replace(self._mark))
                move(reached)

    def _promised(self, charges: tuple[Charge, ...]) -> Guarantee:
        return promised(total(charges), self.cap)

    def _history(self) -> History:
        """Return what the ledger holds. The mark comes first: a later one may be further on."""
        with guarded():
            mark = Mark.read(self._mark)
            with connected(self._path) as connection:
                return self._history_in(connection, mark)

    def _history_in(self, connection: sqlite3.Connection, mark: Mark) -> History:
        # The chain must pass through the mark: the row with the number of the mark has its hash.
        # More rows may follow, where a process was killed before it moved the mark.
        history = schema.read(connection)
        if history.head != self._head or mark.ledger != self._head.ledger:
            raise StorageFault(
                "The ledger and its high-water mark must belong together. "
                "Got those of two ledgers.",
                hint="every ledger has a mark of its own",
            )
        reached = len(history.entries)
        if not (0 <= mark.sequence <= reached and history.hash_at(mark.sequence) == mark.hash):
            raise LedgerRolledBack(
                f"The ledger must hold the {mark.sequence} charges that its mark has seen. "
                f"Got {reached}, or others.",
                hint="this is an older copy: bring back the newest one, or give the budget up",
            )
        return history


def _taken(place: Path) -> InvalidInput:
    return InvalidInput(
        "path of a new ledger",
        "free",
        str(place),
        hint="a ledger is never replaced, as its charges would be forgotten: use the one that is "
        "there, or name another file",
    )


def _two_paths(path: AnyPath, mark: AnyPath) -> tuple[Path, Path]:
    place, beside = Path(path).resolve(), Path(mark).resolve()
    if place == beside:
        raise InvalidInput("mark", "a file of its own", str(beside))
    return place, beside


def _adopted(mark: Path, role: str, cap: Target) -> Head:
    """Return the head of a new ledger, with its mark on disk; go on from an unused mark."""
    fresh = Head(secrets.token_hex(16), role, cap)
    try:
        Mark(fresh.ledger, 0, fresh.genesis).create(mark)
    except FileExistsError:
        found = Mark.read(mark)
        fresh = Head(found.ledger, role, cap)
        if found != Mark(fresh.ledger, 0, fresh.genesis):
            raise InvalidInput(
                "mark of a new ledger",
                "free",
                str(mark),
                hint="it belongs to another ledger; a lost ledger does not come back unspent",
            ) from None
    return fresh


def _check_charge(charge: Charge) -> Charge:
    if not isinstance(charge, Charge):
        raise InvalidInput("charge", "a Charge", charge)
    return charge


def _reused(key: str) -> InvalidInput:
    return InvalidInput(
        "key",
        "new, or repeated with the same charge and the same subject",
        key,
        hint="an occasion is charged once; give what is handed out as subject to repeat it",
    )
