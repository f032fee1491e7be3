"""Shuffle the filters of publishers: flip every bit again, and forget the order of the columns.

The shuffler is no publisher and never has the campaign key. It flips every bit of every row
itself, also those of publishers whom nobody trusts: a row that stayed as it was could mark a
column, and show where it went. Then it counts how many columns have each logo, which is all that
a uniform order of the columns leaves, and hands that over.

Whether rows are plausible is not its business. It looks at what filters say of themselves, and
never at their bits: if it refused a filter for what it holds, that would be seen.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from chaffinch.disk.files import AnyPath
from chaffinch.errors import InvalidInput
from chaffinch.reach.planning.alignment import aligned_filters, column_chunks
from chaffinch.reach.planning.plan import ReachPlan, require_plan
from chaffinch.reach.shuffler.handed_over import HandedOver
from chaffinch.sampling import Words, flip, logo_counts, secure_words
from chaffinch.tables.parallel import Progress
from chaffinch.wire.column_files import ShuffledColumns
from chaffinch.wire.filter_files import Filter, load_filter


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
    ordered = aligned_filters(opened, plan)
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
            flip(words, row, between.numerator, bits)
        logo_counts(part, bits, counts)
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
            "one whose filters go to the analyzer",
            hint="plan with --shuffled (shuffled=True)",
        )
    return plan
