"""What the data of a run are called in the record of releases, and that they stayed as they were.

A file is known by its bytes, a table in memory by its columns, and both, like what comes through
a pipe, by their rows and their answers once these were read. So a frame is found again in a file
with the same rows. All names are keyed: without the record they say nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chaffinch.disk.faults import storage_fault
from chaffinch.errors import ChaffinchError, InvalidInput, Unquoted
from chaffinch.ledger.release_record import ReleaseRecord
from chaffinch.tables.fingerprint import Fingerprint, answers_in
from chaffinch.tables.read import open_table

if TYPE_CHECKING:
    from chaffinch.tables.checking import AnswerColumns
    from chaffinch.tables.read import Table


@dataclass(frozen=True)
class SourceState:
    """What a table held at a moment: a digest of its content, and when its file was changed."""

    kind: str
    """What the digest is of: a file, a table in memory, or nothing."""
    digest: str
    """Empty for what can be read once only."""
    changed: tuple[int, ...] = ()

    @classmethod
    def of_file(cls, source: object) -> SourceState:
        """Return the state of a file now; of anything else, that it is none."""
        path = Path(source) if isinstance(source, (str, os.PathLike)) else None
        if path is None or source == "-" or not path.is_file():
            return cls("", "")
        try:
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
                found = os.fstat(file.fileno())
        except OSError as error:
            raise storage_fault(path.name, error, verb="read") from None
        # A file that was changed and changed back has the same bytes, but not the same time.
        times = (found.st_dev, found.st_ino, found.st_mtime_ns, found.st_ctime_ns)
        return cls("file", digest, times)

    @classmethod
    def of_memory(cls, source: object, key: bytes) -> SourceState:
        """Return the state of a table in memory; of what is read once, that nobody knows it.

        All of its columns count, as do all bytes of a file: other questions to the same table are
        asked of the same people. One that cannot be read at all answers no question.
        """
        named = isinstance(source, (str, os.PathLike))
        if named or hasattr(source, "read") or hasattr(source, "read_next_batch"):
            return cls("", "")
        table, found = open_table(source), {}
        for name in table.columns:
            seen = Fingerprint(key)
            try:
                for _ in seen.watch(table).batches([name]):
                    pass
            except ChaffinchError:
                continue
            found[name] = seen.value.hex()
        return cls("memory", hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest())


@dataclass(frozen=True)
class KnownData:
    """The data of a run by all names that are known so far, and the record that holds them."""

    record: ReleaseRecord
    source: Any = field(repr=False)
    state: SourceState
    names: tuple[str, ...]
    """What the data are called; by their rows last."""
    seen: Mapping[str, Fingerprint]
    """What was last read of the table: its answers, then its rows."""
    answers: bytes | None = None
    """What the answers were when every cell was checked, of a table that is read again."""

    @classmethod
    def of(cls, source: object) -> KnownData:
        """Return the data of a table by its content; those in a pipe have no name yet."""
        file = SourceState.of_file(source)
        record = ReleaseRecord()
        state = file if file.digest else SourceState.of_memory(source, record.key)
        names = (record.name_of(state.kind, state.digest.encode()),) if state.digest else ()
        return cls(record, source, state, names, {})

    @property
    def can_be_recognized(self) -> bool:
        """Return whether the same table is known to be the same before it is read."""
        return bool(self.state.digest)

    def watch(self, table: Table, places: Mapping[str, AnswerColumns]) -> tuple[Table, KnownData]:
        """Return the same table, and the data that know its rows and answers once it is read."""
        rows = Fingerprint(self.record.key)
        answers = Fingerprint(self.record.key, answers_in(places))
        watched = answers.watch(rows.watch(table))
        return watched, replace(self, seen={"answers": answers, "rows": rows})

    def after_check(self) -> KnownData:
        """Return the data by their rows and answers, which were read for the first time."""
        return replace(self._by_rows(), answers=self.seen["answers"].value)

    def after_encoding(self) -> KnownData:
        """Return the data after they were read for the last time; refuse those that have changed.

        Nobody knows what was read of a table that is another one now.
        """
        again = self.answers is not None
        if self.state.kind == "file":
            same = SourceState.of_file(self.source) == self.state
        else:
            same = not again or self.seen["answers"].value == self.answers
        if not same:
            raise InvalidInput(
                "table",
                "the same from the beginning to the end of a run",
                Unquoted("one that was changed meanwhile"),
                hint="nothing was charged: run the same command again when it is complete",
            )
        return self if again else self._by_rows()

    def _by_rows(self) -> KnownData:
        names = [self.record.name_of(kind, one.value) for kind, one in self.seen.items()]
        return replace(self, names=(*self.names, *names))

    def request(self, facts: Sequence[object]) -> str:
        """Return a name for all that a release follows from: the table, and ``facts``.

        Keyed, as it waits beside the release: who knows all rows but one could try that one.
        """
        content = json.dumps([self.state.digest, *facts], sort_keys=True).encode()
        return self.record.name_of("request", content)
