"""How many columns have each logo: counted in the filters of publishers, or by a shuffler.

A row that is full is refused here, and one that was never flipped: its numbers would mean nothing.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from chaffinch.errors import FilterFull, InvalidInput, PlanMismatch, Unquoted, checks
from chaffinch.reach.planning.alignment import aligned_filters, column_chunks
from chaffinch.reach.planning.reach_plan import FULL_BELOW, ReachPlan, require_plan
from chaffinch.sampling import logo_counts
from chaffinch.tables.parallel import MOST_WORKERS, Progress, cores, mapped
from chaffinch.wire.filter_files import Filter, FilterFacts, ShuffledColumns


@dataclass(frozen=True, eq=False)
class Logos:
    """How many columns have each logo, from the filters of all publishers of a plan.

    Bit r of a logo is the column's bit in row r, in the order of ``Audience.row``. ``key`` is
    the fingerprint of the campaign key; ``batches`` stand in the order of the publishers, or are
    the one batch of a shuffler.
    """

    plan_id: str
    key: str
    batches: tuple[str, ...]
    counts: NDArray[np.int64] = field(repr=False)
    digests: tuple[str, ...] = ()
    """Those of the filters, in the same order."""

    @property
    def digest(self) -> str:
        """Return the SHA-256 of what was counted: the filters and the counts themselves.

        A release is charged by it. So filters with other rows under the names that were paid
        for are another release, and so are other counts.
        """
        known = ["chaffinch/logos@1", self.plan_id, self.key, self.batches, self.digests]
        found = hashlib.sha256(json.dumps(known, separators=(",", ":")).encode())
        found.update(np.ascontiguousarray(self.counts, "<i8").data)
        return found.hexdigest()


def count_logos(
    filters: Sequence[Filter],
    plan: ReachPlan,
    *,
    workers: int | None = None,
    progress: Progress | None = None,
) -> Logos:
    """Return the logos of one filter from each publisher, given in any order.

    ``progress`` is told how many columns are done, and of how many.
    """
    threads = cores() if workers is None else workers
    checks.whole("number of workers", threads, least=1, most=MOST_WORKERS)
    if require_plan(plan).shuffler is not None:
        raise not_shuffled()
    ordered = aligned_filters(filters, plan)
    rows = [row for one in ordered for row in one.rows]
    counts = np.zeros(1 << len(rows), np.int64)
    done = 0
    with mapped(lambda chunk: _counted(rows, *chunk), column_chunks(plan.bits), threads) as found:
        for bits, part in found:
            counts += part
            done += bits
            if progress is not None:
                progress(done, plan.bits)
    return logos_of([one.facts for one in ordered], counts, plan)


def logos_of(ordered: Sequence[FilterFacts], counts: NDArray[np.int64], plan: ReachPlan) -> Logos:
    """Return what was counted in filters that belong together, in the order of the plan."""
    _refuse_impossible(counts, plan)
    batches = tuple(one.batch for one in ordered)
    digests = tuple(one.digest for one in ordered)
    return Logos(plan.id, ordered[0].key, batches, counts, digests)


def read_columns(columns: ShuffledColumns, plan: ReachPlan) -> Logos:
    """Return the logos that the shuffler of a plan has counted and handed over."""
    if columns.plan_id != require_plan(plan).id:
        raise PlanMismatch("shuffled columns", expected=plan.id, found=columns.plan_id)
    if plan.shuffler is None:
        raise not_filters()
    if (columns.bits, columns.rows) != (plan.bits, plan.audience.rows):
        rule = f"{plan.bits} of {plan.audience.rows} rows, as in the plan"
        raise InvalidInput(
            "shuffled columns", rule, Unquoted(f"{columns.bits} of {columns.rows} rows")
        )
    _refuse_impossible(columns.counts, plan)
    return Logos(plan.id, columns.key, (columns.batch,), columns.counts, (columns.digest,))


def not_shuffled() -> InvalidInput:
    """Return what is wrong with publishers' filters under a plan with a shuffler."""
    return InvalidInput(
        "filters",
        "shuffled columns, for a plan with a shuffler",
        Unquoted("filters of publishers"),
        hint="they are for the shuffler alone: `chaffinch reach shuffle` makes columns of them",
    )


def not_filters() -> InvalidInput:
    """Return what is wrong with shuffled columns under a plan without a shuffler."""
    rule = "filters of publishers, for a plan without a shuffler"
    return InvalidInput("filters", rule, Unquoted("shuffled columns"))


def _counted(
    rows: Sequence[NDArray[np.uint64]], start: int, bits: int
) -> tuple[int, NDArray[np.int64]]:
    words = slice(start // 64, -(-(start + bits) // 64))
    return bits, logo_counts([row[words] for row in rows], bits)


def _refuse_impossible(counts: NDArray[np.int64], plan: ReachPlan) -> None:
    # Of z zeros among m bits, (z/m − q)/(p − q) estimates the share of truly empty columns. Its
    # standard error, were none empty, is √(pq/m)/(p − q).
    wrong = float(plan.all_flips)
    right = 1.0 - wrong
    error = math.sqrt(right * wrong / plan.bits) / (right - wrong)
    for row in range(plan.audience.rows):
        # The middle axis is bit ``row`` of the logo, so its first half has the zeros of that row.
        zeros = int(counts.reshape(-1, 2, 1 << row)[:, 0].sum())
        empty = (zeros / plan.bits - wrong) / (right - wrong)
        if not empty > FULL_BELOW * error:
            # Without a sure sign of an empty column the reach has no upper limit.
            publisher = plan.audience.publishers[row // plan.audience.frequencies]
            raise FilterFull(f"filter of {publisher!r}")
        if empty > 1 + FULL_BELOW * error:
            # The flips alone make more ones than this, so the row was never flipped. An honest row
            # without any id is refused here with a chance below 1e-6.
            raise InvalidInput(
                f"filter of {plan.audience.publishers[row // plan.audience.frequencies]!r}",
                "flipped as the plan says",
                Unquoted("fewer set bits than flips alone make"),
                hint="have the filter encoded again; do not use this one",
            )
