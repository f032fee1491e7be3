"""The hash chain over the rows of a ledger, and the high-water mark outside of it.

Every row carries SHA-256 over the hash before it and its own content, so the last hash
stands for all rows, their order, the cap and the role. A chain alone cannot tell an old copy
of the file from the newest: both are whole. The mark, a small file on another path, remembers
how far the ledger has come.

Order of writing, for every charge:

1. the new mark is written beside the old one, so that a full disk fails here and costs nothing;
2. the row is committed to the database, durably;
3. the mark is moved to it, durably (never backwards: under the database's write lock);
4. the charge is acknowledged to the caller.

A ledger is accepted when its chain passes through the mark: it has a row with the mark's
number, and that row has the mark's hash.

* A crash before 2 leaves ledger and mark as they were. A crash between 2 and 3 leaves the
  ledger ahead of the mark, which is accepted. The mark is never ahead of a durable row, so
  no crash locks an honest ledger out.
* What was acknowledged is in the mark (3 comes before 4). An older copy lacks that row or has
  another in its place, and is refused. What an old copy can lose unnoticed is only a
  row whose charge was never acknowledged, so nothing was released for it.

What this cannot detect: ledger and mark restored together (keep the mark on another disk or
machine, out of the same backup), or both rewritten by someone who may write to both: the
hashes have no key. Two copies of a ledger in use at once with one mark refuse each other from
the first charge on, except when both charge in the same instant.
"""

from __future__ import annotations

import hashlib
import json
import re
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from chaffinch.disk.files import Draft, sync_folder
from chaffinch.errors import StorageFault

_FORMAT = "chaffinch/ledger@1"
_MARK_FORMAT = "chaffinch/ledger-mark@1"
_LARGEST_MARK = 1000
_OWNER_ONLY = stat.S_IRUSR | stat.S_IWUSR
_HEX = re.compile(r"[0-9a-f]{64}")


def genesis(ledger: str, role: str, epsilon: str, delta: str) -> str:
    """Return the hash that stands before the first row: it binds role and cap."""
    return _digest([_FORMAT, ledger, role, epsilon, delta])


def link(previous: str, row: list[str | int]) -> str:
    """Return the hash of a row that follows the row with hash ``previous``."""
    return _digest([previous, *row])


def _digest(content: list[str | int]) -> str:
    # JSON quotes strings, so no two different rows have the same bytes.
    return hashlib.sha256(json.dumps(content, separators=(",", ":")).encode()).hexdigest()


@dataclass(frozen=True)
class Mark:
    """How far a ledger has come: the number and the hash of its last acknowledged row."""

    ledger: str
    sequence: int
    hash: str

    @classmethod
    def read(cls, path: Path) -> Mark:
        """Return the mark in a file, or raise StorageFault."""
        with path.open("rb") as file:
            content = file.read(_LARGEST_MARK)
        try:
            fields = json.loads(content)
            whole = fields.pop("format") == _MARK_FORMAT
            mark = cls(**fields)
            whole = whole and type(mark.sequence) is int and bool(_HEX.fullmatch(mark.hash))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            whole = False
        if not whole:
            raise StorageFault(
                f"The high-water mark must be a whole {_MARK_FORMAT} file. Got something else.",
                hint="restore the newest mark; a ledger is not used without one",
            )
        return mark

    @contextmanager
    def prepared(self, path: Path) -> Iterator[Callable[[Mark], None]]:
        """Write this mark beside the one in ``path``, durably, and yield what moves it there.

        That is told how far the ledger has come by then: if another has charged meanwhile,
        the mark of that charge is written instead. Only the holder of the ledger's write lock
        calls it, so that no mark moves back.
        """
        with Draft(path, _OWNER_ONLY) as draft:
            draft.write(self._content())

            def move(reached: Mark) -> None:
                if reached != self:
                    reached.replace(path)
                    return
                draft.put_in_place()
                sync_folder(path.parent)

            yield move

    def replace(self, path: Path) -> None:
        """Put this mark in the place of the one in ``path``: all of it or nothing, durably."""
        with self.prepared(path) as move:
            move(self)

    def create(self, path: Path) -> None:
        """Write this mark where there is no file yet, durably; FileExistsError otherwise."""
        with Draft(path, _OWNER_ONLY) as draft:
            draft.write(self._content())
            draft.put_in_place(overwrite=False)
        sync_folder(path.parent)

    def _content(self) -> bytes:
        return json.dumps({"format": _MARK_FORMAT, **asdict(self)}).encode() + b"\n"
