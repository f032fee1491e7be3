"""The shuffler's step: flip every bit of all filters again, forget the order, and do it once.

The shuffler is no publisher and never has the campaign key. It flips every bit of every row
itself, also those of publishers whom nobody trusts: a row that stayed as it was could mark a
column, and show where it went. Then it counts how many columns have each logo, which is all that
a uniform order of the columns leaves, and hands that over.

Whether rows are plausible is not its business. It looks at what filters say of themselves, and
never at their bits: if it refused a filter for what it holds, that would be seen.
"""

from __future__ import annotations

import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import numpy as np

from chaffinch import sampling
from chaffinch.disk.file_kinds import Kind
from chaffinch.disk.files import AnyPath, atomic, make_folder, read_small, state_folder
from chaffinch.disk.leftovers import alone_in
from chaffinch.disk.storage_errors import storage_fault
from chaffinch.errors import BatchRepeated, InvalidFile, InvalidInput, StorageFault, Unquoted
from chaffinch.reach.planning.alignment import aligned_filters, column_chunks
from chaffinch.reach.planning.reach_plan import ReachPlan, require_plan
from chaffinch.sampling import Words, secure_words
from chaffinch.tables.parallel import Progress
from chaffinch.wire.document_forms import Form, Hex64
from chaffinch.wire.documents import one_line, read_document
from chaffinch.wire.filter_files import ColumnsForm, Filter, ShuffledColumns, load_filter


def shuffle(
    filters: Sequence[Filter | AnyPath],
    plan: ReachPlan,
    *,
    record: AnyPath | None = None,
    progress: Progress | None = None,
) -> ShuffledColumns:
    """Return the columns of one filter from each publisher, flipped again and without an order.

    This is done once for each campaign key: what was handed over is kept in the folder ``record``
    (one for this user, if none is given) before anybody gets it. The same filters again give the
    very same columns; other filters with that key are refused, because the same rows flipped a
    second time would show more than is promised. ``progress`` is told how many columns are done.
    """
    _check_plan(plan).verify()
    opened = [one if isinstance(one, Filter) else load_filter(one) for one in filters]
    ordered = aligned_filters(opened, plan, sources=filters)
    kept = HandedOver(record, plan.id, ordered)
    before = kept.find()
    if before is not None:
        return before
    return kept.keep(shuffle_with(ordered, plan, secure_words(), progress=progress))


def shuffle_with(
    filters: Sequence[Filter],
    plan: ReachPlan,
    words: Words,
    *,
    progress: Progress | None = None,
) -> ShuffledColumns:
    """Return the columns as ``shuffle`` does, by given words alone, and kept in no record."""
    between = _check_plan(plan).shuffler
    assert between is not None  # noqa: S101 - the plan was checked
    ordered = aligned_filters(filters, plan)
    rows = [row for one in ordered for row in one.rows]
    counts = np.zeros(1 << len(rows), np.int64)
    for start, bits in column_chunks(plan.bits):
        place = slice(start // 64, -(-(start + bits) // 64))
        # Copies, as flips are made in place: the filters are their publishers', and signed by them.
        part = [row[place].copy() for row in rows]
        for row in part:
            sampling.flip(words, row, between.numerator, bits)
        sampling.logo_counts(part, bits, counts)
        if progress is not None:
            progress(start + bits, plan.bits)
    counts.flags.writeable = False
    name = words.take(2).astype("<u8").tobytes().hex()
    return ShuffledColumns(plan.id, ordered[0].key, name, plan.bits, len(rows), counts)


def _check_plan(plan: ReachPlan) -> ReachPlan:
    if require_plan(plan).shuffler is None:
        raise InvalidInput(
            "plan",
            "one with a shuffler",
            Unquoted("one whose filters go to the analyzer"),
            hint="plan with --shuffled (shuffled=True)",
        )
    return plan


# ----------------------------------------------------------------------------
# What was handed over, kept for good: one hand-over for each campaign key.
#
# The rows of a filter flipped twice, by fresh flips, show more than was promised, and with every
# time more of what is below the flips. So what was counted is written here, whole and on the disk,
# before anybody gets it:
#
# * A crash before that leaves nothing: the flips were seen by nobody, and others are drawn.
# * After it, the same filters give the same bytes, however often they are asked for.
# * Other filters with the same key are refused, also if all but one of them are the same.
#
# All filters of a hand-over carry the fingerprint of one key under one plan, so that names the
# file. A folder that was removed, or restored from a backup, has forgotten what it knew. Digests of
# the filters stay here; they are in nothing that is handed over.

_FORMAT = "chaffinch/handed-over@1"
_LARGEST_FILE = (1 << 24) + (1 << 16)
_RULE = f"{Kind.BATCH_RECORD.value} in the format {_FORMAT}"


class _Kept(Form):
    filters: list[Hex64]
    columns: Annotated[ShuffledColumns, ColumnsForm.written()]


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
        return kept.columns

    def keep(self, made: ShuffledColumns) -> ShuffledColumns:
        """Keep columns durably and return them, or those that another process kept first."""
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
                file.write(one_line(_FORMAT, _Kept.as_tuple().write((self._filters, made))))
        return made

    def _read(self) -> _Kept:
        try:
            text = read_small(self.path, most=_LARGEST_FILE, must_be=_RULE)
            model, _ = read_document(
                text, _Kept, _FORMAT, name=self.path.name, kind=Kind.BATCH_RECORD
            )
        except (InvalidFile, InvalidInput):
            raise _damaged() from None
        if (model.columns.plan_id, model.columns.key) != (self._plan_id, self._key):
            raise _damaged()
        return model


def _damaged() -> StorageFault:
    return StorageFault(
        "The record of what was handed over must be whole. Got another file, or a damaged one.",
        hint="nothing was shuffled: these filters may have been handed over before; restore the "
        "record as it was, or collect again with a new key",
    )
