"""Identifying the data of a run in the record of releases, and detecting changes during the run.

A file is identified by its bytes, a table in memory by its rows over all of its columns, and every
table, also one from a pipe, by the rows and the answers that are asked once they have been read.
So the record recognizes a data frame that was released from a file. All names are keyed digests:
without the key, which only the record has, they reveal nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chaffinch.disk.storage_errors import storage_fault
from chaffinch.errors import InvalidInput, Unquoted
from chaffinch.ledger.release_record import ReleaseRecord
from chaffinch.tables.fingerprint import Fingerprint, answers_in

if TYPE_CHECKING:
    from chaffinch.tables.checking import AnswerColumns
    from chaffinch.tables.parallel import Progress
    from chaffinch.tables.read import Table


@dataclass(frozen=True)
class SourceState:
    """The content of a table at one moment: a digest, and the times and identity of its file."""

    kind: str
    """``file``, ``memory``, or empty where there is no digest."""
    digest: str
    """Empty for a table that can be read only once."""
    changed: tuple[int, ...] = ()

    @classmethod
    def of_file(cls, source: object) -> SourceState:
        """Return the state of a file; for anything else a state without a digest."""
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

    def names_in(self, record: ReleaseRecord) -> tuple[str, ...]:
        """Return the name of this content in the record, if there is a digest."""
        return (record.name_of(self.kind, self.digest.encode()),) if self.digest else ()


@dataclass(frozen=True)
class KnownData:
    """The data of a run with the names that are known so far, and the record of releases."""

    record: ReleaseRecord
    source: Any = field(repr=False)
    state: SourceState
    names: tuple[str, ...]
    """The names of the data in the record; the one by their rows is the last."""
    seen: Mapping[str, Fingerprint]
    """Fingerprints of what was last read of the table: its answers, then its rows."""
    answers: bytes | None = None
    """The fingerprint of the answers at the check, for a table that is read again later."""

    @classmethod
    def of(cls, source: object) -> KnownData:
        """Return the data of a table that was not opened yet: only a file has a name already."""
        record, state = ReleaseRecord(), SourceState.of_file(source)
        return cls(record, source, state, state.names_in(record), {})

    def opened(self, table: Table, progress: Progress) -> KnownData:
        """Return the data of an open table in memory, with its name.

        The name covers all columns, as that of a file covers all bytes: other questions to the same
        table concern the same people. A column that cannot be read is left out, since it answers no
        question.
        """
        seen = Fingerprint(self.record.key)
        seen.read_all(table, progress)
        state = SourceState("memory", seen.value.hex())
        return replace(self, state=state, names=state.names_in(self.record))

    @property
    def can_be_recognized(self) -> bool:
        """Return whether the same table is recognized before its rows are read."""
        return bool(self.state.digest)

    def watch(self, table: Table, places: Mapping[str, AnswerColumns]) -> tuple[Table, KnownData]:
        """Return the same table and data, which take a fingerprint whenever the table is read."""
        rows = Fingerprint(self.record.key)
        answers = Fingerprint(self.record.key, answers_in(places))
        watched = answers.watch(rows.watch(table))
        return watched, replace(self, seen={"answers": answers, "rows": rows})

    def after_check(self) -> KnownData:
        """Return the data with the names by rows and answers, after they were read to the end."""
        return replace(self._by_rows(), answers=self.seen["answers"].value)

    def after_encoding(self) -> KnownData:
        """Return the data with all names, after the last reading; refuse a table that changed.

        If it changed, it is unknown which content was checked and which was encoded.
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
        """Return a name for everything that determines a release: the table, and ``facts``.

        The table is named in every way that is known by now. The name is stored beside a staged
        release, so it is keyed: whoever knows all rows but one could otherwise try all values of
        that one.
        """
        content = json.dumps([self.names, *facts], sort_keys=True).encode()
        return self.record.name_of("request", content)
