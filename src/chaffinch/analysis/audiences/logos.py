"""Filters that belong together, stacked, and how many columns have each logo.

Whatever would make the sum of the filters a number without meaning is refused here: another
plan, key or size, a publisher that is missing or there twice, and a row that is full.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from chaffinch import checks
from chaffinch.errors import FilterFull, InvalidInput, PlanMismatch
from chaffinch.parallel import MOST_WORKERS, Progress, cores, mapped
from chaffinch.planning.audiences.plan import FULL_BELOW, ReachPlan, require_plan
from chaffinch.sampling import logo_counts
from chaffinch.wire.filter_files import Filter

_WORDS = 1 << 16
"""Words of each row that are counted at once: half a mebibyte, and four million columns."""
_ENCODE = "encode again with the plan and the key that all publishers share"


@dataclass(frozen=True, eq=False)
class Logos:
    """How many columns have each logo, from the filters of all publishers of a plan.

    Bit r of a logo is the column's bit in row r, in the order of ``Audience.row``. ``key`` is
    the fingerprint of the campaign key; ``batches`` stand in the order of the publishers.
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
    ordered = _aligned(filters, require_plan(plan))
    rows = [row for one in ordered for row in one.rows]
    counts = np.zeros(1 << len(rows), np.int64)
    done = 0
    with mapped(lambda chunk: _counted(rows, *chunk), _chunks(plan.bits), threads) as found:
        for bits, part in found:
            counts += part
            done += bits
            if progress is not None:
                progress(done, plan.bits)
    _possible(counts, plan)
    batches = tuple(one.batch for one in ordered)
    digests = tuple(one.digest for one in ordered)
    return Logos(plan.id, ordered[0].key, batches, counts, digests)


def _aligned(filters: Sequence[Filter], plan: ReachPlan) -> list[Filter]:
    """Return the filters in the order of the plan's publishers, if they belong together."""
    given: Sequence[object] = filters
    if not all(isinstance(one, Filter) for one in given):
        raise InvalidInput("filters", "a list of Filter", type(filters).__name__)
    for one in filters:
        if one.plan_id != plan.id:
            thing = f"filter of {one.publisher!r}"
            raise PlanMismatch(thing, expected=plan.id, found=one.plan_id)
    _all_there(filters, plan)
    by_name = {one.publisher: one for one in filters}
    ordered = [by_name[name] for name in plan.audience.publishers]
    first = ordered[0]
    for one in ordered:
        if one.key != first.key:
            raise InvalidInput(
                "filters",
                "made with one campaign key",
                f"another key at {one.publisher!r} than at {first.publisher!r}",
                hint=_ENCODE,
            )
        _same(one, "bits", one.bits, plan.bits)
        _same(one, "rows", one.frequencies, plan.audience.frequencies)
    return ordered


def _all_there(filters: Sequence[Filter], plan: ReachPlan) -> None:
    """Refuse what is not exactly one filter from each publisher."""
    names = [one.publisher for one in filters]
    if not names:
        raise InvalidInput("number of filters", f"{len(plan.audience.publishers)}", 0)
    for name in names:
        plan.audience.place(name)
    name, times = Counter(names).most_common(1)[0]
    if times > 1:
        raise InvalidInput("filters", "one for each publisher", f"{times} of {name!r}")
    batch, times = Counter(one.batch for one in filters).most_common(1)[0]
    if times > 1:
        both = [one.publisher for one in filters if one.batch == batch]
        raise InvalidInput("filters", "all different", f"the same batch from {both}")
    absent = [name for name in plan.audience.publishers if name not in names]
    if absent:
        raise InvalidInput(
            "filters",
            "one for each publisher",
            f"none of {', '.join(map(repr, absent))}",
            hint="wait for the missing ones, or plan again without them",
        )


def _same(one: Filter, what: str, found: int, expected: int) -> None:
    if found != expected:
        thing = f"number of {what} of the filter of {one.publisher!r}"
        raise InvalidInput(thing, f"{expected}, as in the plan", found, hint=_ENCODE)


def _chunks(bits: int) -> Iterator[tuple[int, int]]:
    """Yield where a chunk of columns starts, and how many it has."""
    for start in range(0, bits, 64 * _WORDS):
        yield start, min(64 * _WORDS, bits - start)


def _counted(
    rows: Sequence[NDArray[np.uint64]], start: int, bits: int
) -> tuple[int, NDArray[np.int64]]:
    words = slice(start // 64, -(-(start + bits) // 64))
    return bits, logo_counts([row[words] for row in rows], bits)


def _possible(counts: NDArray[np.int64], plan: ReachPlan) -> None:
    """Refuse a row that is full, and one that was never flipped.

    Of z zeros among m bits, (z/m − q)/(p − q) is the share of truly empty columns. Its
    standard error, were none empty, is √(pq/m)/(p − q): without a sure sign of an empty column
    the reach has no limit. A share far above 1 has fewer ones than flips alone make; an honest
    row of no ids at all would be refused with a chance below 1e-6.
    """
    wrong = float(plan.flip_probability)
    right = 1.0 - wrong
    error = math.sqrt(right * wrong / plan.bits) / (right - wrong)
    for row in range(plan.audience.rows):
        zeros = int(counts.reshape(-1, 2, 1 << row)[:, 0].sum())
        empty = (zeros / plan.bits - wrong) / (right - wrong)
        if not empty > FULL_BELOW * error:
            publisher = plan.audience.publishers[row // plan.audience.frequencies]
            raise FilterFull(f"filter of {publisher!r}")
        if empty > 1 + FULL_BELOW * error:
            raise InvalidInput(
                f"filter of {plan.audience.publishers[row // plan.audience.frequencies]!r}",
                "flipped as the plan says",
                "fewer set bits than flips alone make",
                hint="have it encoded again; do not use what was sent",
            )
