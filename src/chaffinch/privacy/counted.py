"""E[(X₁+…+X_N)₊] by counting, where few of the outcomes make the sum positive.

The contour method of `sums` is quick when many variables blur into one another, and slow when
a sum is positive only on a handful of isolated outcomes. There the outcomes are listed: how
often each value occurs, from the dearest to the cheapest, as long as the sum stays positive.
Values and chances are exact; everything after that is in the working float, with its error.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from chaffinch.privacy.guarantee import Bracket
from chaffinch.privacy.precision import ROUNDOFF, Wide, WideArray, down, up, wide
from chaffinch.privacy.words import Law

MOST_OUTCOMES = 60_000
_MOST_COUNT = 100_000


def counted(law: Law, count: int) -> Bracket | None:
    """Return the bracket of E[(X₁+…+X_N)₊], or None when too many outcomes are positive.

    The values have to differ.
    """
    pairs = sorted(zip(*law, strict=True), reverse=True)
    top = pairs[0][0]
    if top <= 0:
        return Bracket(0.0, 0.0)
    if count > _MOST_COUNT or 0.5 * len(pairs) > math.log2(MOST_OUTCOMES) + 4:
        return None
    # The sum is N·top less a cost for every value that is not the top; positive while cost < N.
    costs = [float((top - value) / top) for value, _ in pairs[1:]]
    table = _affordable(costs, count)
    if table is None:
        return None
    return _expectation([value / top for value, _ in pairs], [c for _, c in pairs], table, top)


def _affordable(costs: list[float], count: int) -> WideArray | None:
    """Return one row per outcome that may be positive: how often each value occurs."""
    rows = np.zeros((1, 0), dtype=np.int64)
    left, budget = np.array([count]), np.array([float(count)])
    for cost in reversed(costs):
        # Rounded up: an outcome too many has no positive part, one too few would be missed.
        most = np.floor(np.minimum(left, budget / cost * (1 + 1e-9) + 1e-6)).astype(np.int64)
        repeats = most + 1
        total = int(repeats.sum())
        if total > MOST_OUTCOMES:
            return None
        place = np.repeat(np.arange(len(rows)), repeats)
        times = np.arange(total) - np.repeat(np.cumsum(repeats) - repeats, repeats)
        rows = np.column_stack([times, rows[place]])
        left = left[place] - times
        budget = np.maximum(budget[place] - cost * times, 0.0)
    return np.column_stack([left, rows])


def _expectation(
    values: list[Fraction], chances: list[Fraction], table: WideArray, top: Fraction
) -> Bracket:
    """Add up chance times positive part over the outcomes listed, in units of ``top``.

    A sum of k terms of at most the size s is off by at most k·s roundings; where it is positive
    its terms add up to less than twice its positive ones, at most N in these units.
    """
    count = int(table[0].sum())
    logs = np.array([_log(chance) for chance in chances], dtype=Wide)
    factorials = _log_factorials(count)
    exponents = factorials[count] - factorials[table].sum(axis=1) + table @ logs
    sums = table @ np.array([wide(value) for value in values], dtype=Wide)
    size = float(factorials[count]) + count * (4.0 + float(np.max(np.abs(logs))))
    doubt = 8.0 * (len(values) + 4) * ROUNDOFF * (2.0 * size + len(table) + 16.0)
    weights = np.exp(exponents)
    slack = 8.0 * (len(values) + 4) * ROUNDOFF * count
    low = np.sum(weights * np.maximum(sums - slack, 0.0)) * (1.0 - doubt)
    high = np.sum(weights * np.maximum(sums + slack, 0.0)) * (1.0 + doubt)
    # In the last units of the scale an outcome's chance may have underflowed.
    lost = Wide(count) * len(table) * np.finfo(Wide).tiny
    scale = wide(top)
    rounding = 1.0 + 8.0 * ROUNDOFF
    return Bracket(down(low * scale / rounding), up((high + lost) * scale * rounding))


@lru_cache(maxsize=8)
def _log_factorials(count: int) -> WideArray:
    """Return ln 0!, …, ln count!, off by at most ``count`` roundings of the last."""
    table = np.zeros(count + 1, dtype=Wide)
    table[1:] = np.cumsum(np.log(np.arange(1, count + 1, dtype=Wide)))
    return table


def _log(chance: Fraction) -> Any:
    return np.log(wide(chance))
