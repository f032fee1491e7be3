"""What a shuffler of filters has handed over, kept for good: one hand-over for each campaign key.

The rows of a filter flipped twice, by fresh flips, show more than was promised, and with every
time more of what is below the flips. So what was counted is written here, whole and on the disk,
before anybody gets it:

* A crash before that leaves nothing: the flips were seen by nobody, and others are drawn.
* After it, the same filters give the same bytes, however often they are asked for.
* Other filters with the same key are refused, also if all but one of them are the same.

All filters of a hand-over carry the fingerprint of one key under one plan, so that names the file.
A folder that was removed, or restored from a backup, has forgotten what it knew. Digests of the
filters stay here; they are in nothing that is handed over.
"""

from __future__ import annotations

import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from chaffinch.disk.faults import storage_fault
from chaffinch.disk.files import AnyPath, atomic, make_folder, read_small, state_folder
from chaffinch.disk.leftovers import alone_in
from chaffinch.disk.protected import Kind
from chaffinch.errors import BatchRepeated, InvalidFile, InvalidInput, StorageFault
from chaffinch.wire.column_files import ColumnsBody, ShuffledColumns
from chaffinch.wire.documents import Strict, one_line, read_document
from chaffinch.wire.filter_files import Filter

_FORMAT = "chaffinch/handed-over@1"
_LARGEST_FILE = (1 << 24) + (1 << 16)
_RULE = f"{Kind.BATCH_RECORD.value} in the format {_FORMAT}"
_Digits32 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class _Kept(Strict):
    """The filters that went in, and what came out."""

    format: Literal["chaffinch/handed-over@1"]
    id: _Digits32
    filters: list[_Digits32]
    columns: ColumnsBody


class HandedOver:
    """What was made of the filters of one key under one plan, if anything was."""

    def __init__(self, folder: AnyPath | None, plan_id: str, filters: Sequence[Filter]) -> None:
        self._folder = state_folder() / "handed-over" if folder is None else Path(folder)
        self._plan_id, self._key = plan_id, filters[0].key
        self._filters = [one.digest for one in filters]

    @property
    def path(self) -> Path:
        """Return the file of this plan and key."""
        return self._folder / f"{self._plan_id[:32]}-{self._key}.record"

    def find(self) -> ShuffledColumns | None:
        """Return what was handed over of these filters; refuse others with their key."""
        try:
            if not self.path.exists():
                return None
        except OSError as error:
            raise storage_fault(self._folder.name, error, verb="read") from None
        kept = self._read()
        if kept.filters != self._filters:
            raise BatchRepeated(
                "filters with one campaign key",
                "others than those that were shuffled before",
                hint="use the columns that were handed over then, which the same filters give "
                "again; for other filters all publishers need a new key",
            )
        return kept.columns.build()

    def keep(self, made: ShuffledColumns) -> ShuffledColumns:
        """Keep columns durably and return them, or those that another process kept first."""
        body: dict[str, Any] = {"filters": self._filters, "columns": made.body()}
        try:
            make_folder(self._folder)
        except OSError as error:
            raise storage_fault(self._folder.name, error, verb="write") from None
        with alone_in(self._folder, "shuffle"):
            # Looked at again behind the lock: another process may have been first.
            before = self.find()
            if before is not None:
                return before
            with atomic(self.path, permissions=stat.S_IRUSR | stat.S_IWUSR) as file:
                file.write(one_line(_FORMAT, body))
        return made

    def _read(self) -> _Kept:
        try:
            text = read_small(self.path, most=_LARGEST_FILE, must_be=_RULE)
            model, _ = read_document(
                text, _Kept, _FORMAT, name=self.path.name, kind=Kind.BATCH_RECORD
            )
            columns = model.columns.build()
        except (InvalidFile, InvalidInput):
            raise _damaged() from None
        if (columns.plan_id, columns.key) != (self._plan_id, self._key):
            raise _damaged()
        return model


def _damaged() -> StorageFault:
    return StorageFault(
        "The record of what was handed over must be whole. Got another file, or a damaged one.",
        hint="nothing was shuffled: these filters may have been handed over before; restore the "
        "record as it was, or collect again with a new key",
    )
