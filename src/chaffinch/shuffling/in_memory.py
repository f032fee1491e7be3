"""Shuffle in this process."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from chaffinch.errors import BatchTooSmall, InvalidInput, PlanMismatch
from chaffinch.sampling import Words, permutation, positional_popcount, secure_words
from chaffinch.wire.messages import EMPTY, Counts, Origin, Report, Reports, Rows, Shuffled


def shuffle(reports: Reports | Iterable[Report]) -> Shuffled:
    """Return the messages of a batch in a uniform order, drawn with secure randomness.

    A batch below the plan's least number of reports is refused: the guarantee counts on the
    crowd. Rows of packed bits leave as the number of ones at each bit, because two bits of
    one row must not stay together.
    """
    return shuffle_with(reports, secure_words())


def shuffle_with(reports: Reports | Iterable[Report], words: Words) -> Shuffled:
    """Return a batch in an order drawn from given words: for ``shuffle`` and simulations."""
    batch = reports if isinstance(reports, Reports) else collected(reports)
    if batch.count < batch.origin.least_reports:
        raise BatchTooSmall(have=batch.count, need=batch.origin.least_reports)
    order = permutation(words, len(batch.messages))
    return Shuffled(
        batch.origin,
        batch.count,
        batch.messages[order],
        counted(batch.origin, batch.rows) if batch.rows else None,
        words.take(2).tobytes().hex(),
    )


def collected(reports: Iterable[Report]) -> Reports:
    """Return single reports as one batch, without their empty slots."""
    listed = list(reports)
    if not listed or not all(isinstance(report, Report) for report in listed):
        raise InvalidInput("reports", "at least one, all made by encoding", type(reports).__name__)
    origin = listed[0].origin
    for report in listed:
        if report.origin != origin:
            raise PlanMismatch("report", expected=origin.plan_id, found=report.origin.plan_id)
    codes = np.array([report.codes for report in listed], dtype=np.uint32).reshape(-1)
    return Reports(origin, len(listed), codes[codes != EMPTY])


def counted(origin: Origin, rows: Iterable[Rows]) -> Counts:
    """Return how many rows have a one at each code."""
    counts = np.zeros(origin.codes, np.int64)
    for block in rows:
        counts[block.first : block.first + block.bits] += positional_popcount(
            block.packed, block.bits
        )
    return counts
