"""What a publisher does: its ids go into rows of bits, every bit is flipped by chance.

Nothing but the flipped rows leaves: not the ids, not their digests, not how many there are.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chaffinch.errors import InvalidInput, InvalidTable
from chaffinch.kernels import flip, redigested, secure_words, set_columns
from chaffinch.parallel import cores, mapped
from chaffinch.privacy import Target
from chaffinch.reach.filter_file import Filter
from chaffinch.reach.ids import Digests, IdReader
from chaffinch.reach.keys import CampaignKey
from chaffinch.reach.plans import ReachPlan, checked_plan
from chaffinch.reach.repeats import Repeats
from chaffinch.tables.read import Table, open_table

Progress = Callable[[int, int | None], None]
Row = NDArray[np.uint64]


def encode(  # noqa: PLR0913
    source: Any,
    plan: ReachPlan,
    *,
    publisher: str,
    key: CampaignKey,
    column: str | None = None,
    counts: str | None = None,
    missing: str = "refuse",
    within: Target | None = None,
    progress: Progress | None = None,
) -> Filter:
    """Return the filter of one publisher's ids, under a plan that is verified first.

    ``source`` is a path or anything else that holds a table; ``column`` names the ids where
    there are several columns, and ``counts`` a column with how often each id was seen. Without
    it every row is one view. A ``missing`` id is refused, or left out with ``"skip"``.
    ``progress`` is told the rows that are done, and of how many, if that is known.
    """
    checked_plan(plan).verify(within=within)
    plan.audience.place(publisher)
    given: object = key
    if not isinstance(given, CampaignKey):
        # Whatever it is, it may be secret.
        raise InvalidInput("campaign key", "a CampaignKey", type(given).__name__)
    first, further = key.hash_keys(plan.id)
    reader = IdReader(
        source if isinstance(source, Table) else open_table(source),
        key=first,
        column=column,
        counts=counts,
        most=plan.audience.frequencies,
        missing=missing,
    )
    rows = true_rows(reader, plan, further, progress)
    for row in rows:
        flip(secure_words(), row, plan.numerator, plan.bits)
        row.flags.writeable = False
    return Filter(
        plan_id=plan.id,
        publisher=publisher,
        key=key.fingerprint(plan.id),
        batch=secrets.token_hex(16),
        bits=plan.bits,
        rows=tuple(rows),
    )


def true_rows(
    reader: IdReader, plan: ReachPlan, further: bytes, progress: Progress | None = None
) -> list[Row]:
    """Return the rows before any flip, which are as private as the ids themselves.

    Threads digest batches; one thread reads, and sets the bits.
    """
    frequencies = plan.audience.frequencies
    rows = [np.zeros(-(-plan.bits // 64), np.uint64) for _ in range(frequencies)]
    batches = ((first, batch) for first, batch in reader.batches())
    ids = 0
    with Repeats(frequencies) as repeats, mapped(_digested(reader), batches, cores()) as found:
        for done, digests in found:
            set_ids(rows[0], digests, plan, further)
            if frequencies > 1:
                repeats.add(digests)
            ids += len(digests)
            if progress is not None:
                progress(done, reader.table.rows)
        if not ids:
            raise InvalidTable("one with at least one id", "none", hint="check the column")
        for times, seen in repeats.seen():
            set_ids(rows[times - 1], seen, plan, further)
    return rows


def set_ids(row: Row, digests: Digests, plan: ReachPlan, further: bytes) -> None:
    """Set every column of each id: one for its digest, one for that digest's digest, …."""
    set_columns(row, digests, plan.bits)
    for _ in range(plan.hashes - 1):
        digests = redigested(digests, further)
        set_columns(row, digests, plan.bits)


def _digested(reader: IdReader) -> Callable[[tuple[int, Any]], tuple[int, Digests]]:
    def digested(item: tuple[int, Any]) -> tuple[int, Digests]:
        first, batch = item
        return first + batch.num_rows - 1, reader.digests(first, batch)

    return digested
