"""Confidence intervals for the ids of a group: the numbers that the columns do not reject.

Three ways, by what a group asks for:

* **one row** (a publisher's ids, a publisher's ids seen so often): the exact law of its set
  bits is inverted (``occupancy``). Proven, whatever the number of ids, also for none.
* **several rows, up to so many cells**: the law of the estimator is inverted, with all other
  cells fitted (``crowd_law``). Measured: see decision 0035.
* **more cells than that**: the delta method, for large counts, as the release then says.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from chaffinch.privacy.numerics import special
from chaffinch.privacy.numerics.roots import find_crossing, narrow_crossing
from chaffinch.reach.analyzer.crowd_law import Crowd
from chaffinch.reach.analyzer.occupancy import FULLEST, ids_of_row
from chaffinch.reach.planning.audience import Audience, Group
from chaffinch.reach.planning.estimator import Columns

_MOST_CELLS = 64
_MOST_ROWS = 12
_SHARP = 1e-3
"""How near an end is found, in half widths; always on the outer side."""
_NEAR = 0.03
"""Where many are counted, an end is no further than this from that of the delta method."""

Ends = tuple[float, float]


def intervals(
    columns: Columns, counts: NDArray[np.int64], group: Group, tails: Sequence[float]
) -> list[Ends]:
    """Return an interval for each tail, which either end misses with about that chance at most.

    ``counts`` are those of the logos, of which ``columns`` has the shares. Tails are given from
    the largest on, and each interval holds the one before.
    """
    own, asked, seen = asked_columns(columns, counts, group)
    if own.audience.rows == 1:
        found = [_of_one_row(own, int(seen[1]), tail) for tail in tails]
    else:
        estimate, error = own.estimate(asked)
        if by_delta_method(columns.audience, group):
            return [_normal(estimate, error, tail) for tail in tails]
        crowd = Crowd(own, asked)
        found = [_inverted(crowd, max(0.0, estimate), max(error, 1.0), one) for one in tails]
    # Ends that are found apart may be out of order by as much as they are rounded outwards.
    return list(
        accumulate(found, lambda one, wider: (min(one[0], wider[0]), max(one[1], wider[1])))
    )


def asked_columns(
    columns: Columns, counts: NDArray[np.int64], group: Group
) -> tuple[Columns, Group, NDArray[np.int64]]:
    """Return the columns of those rows alone that a group asks for, the group there, and counts."""
    audience, asked = _narrowed(columns.audience, group)
    seen = _counts_of(columns.audience, counts, audience, group)
    return replace(columns, audience=audience, shares=seen / columns.bits), asked, seen


def by_delta_method(audience: Audience, group: Group) -> bool:
    """Return whether a group asks for so many cells that only the delta method remains."""
    asked, _ = _narrowed(audience, group)
    return asked.rows > 1 and (math.prod(asked.grid) > _MOST_CELLS or asked.rows > _MOST_ROWS)


def _narrowed(audience: Audience, group: Group) -> tuple[Audience, Group]:
    """Return the audience of the publishers that a group names, and the group there.

    Who was seen twice or more is one row of one publisher; several publishers need all rows.
    """
    names = [name for name in audience.publishers if name in group.named]
    if len(names) == 1:
        return Audience(names), Group(any_of=tuple(names))
    return Audience(names, frequencies=audience.frequencies if group.times > 1 else 1), group


def _counts_of(
    audience: Audience, counts: NDArray[np.int64], asked: Audience, group: Group
) -> NDArray[np.int64]:
    """Return the counts of the logos of those rows alone that a group asks for."""
    levels = range(1, asked.frequencies + 1) if asked.rows > 1 else [group.times]
    rows = [audience.row(name, level) for name in asked.publishers for level in levels]
    # The last axis is the lowest bit of the logo.
    axes = [audience.rows - 1 - row for row in rows]
    others = tuple(axis for axis in range(audience.rows) if axis not in axes)
    found: NDArray[np.int64] = counts.reshape((2,) * audience.rows).sum(axis=others).reshape(-1)
    return found


def _of_one_row(columns: Columns, seen: int, tail: float) -> Ends:
    bits, hashes, flip = columns.bits, columns.hashes, columns.flip
    low, high = ids_of_row(seen, tail, bits=bits, hashes=hashes, flip=flip)
    return float(low), float(high)


def _normal(estimate: float, error: float, tail: float) -> Ends:
    reach = -float(special.ndtri(tail)) * error
    return max(estimate - reach, 0.0), max(estimate + reach, 0.0)


def _inverted(crowd: Crowd, middle: float, error: float, tail: float) -> Ends:
    """Return the ends of the numbers of ids that are not rejected, found from the middle out."""
    guess = -float(special.ndtri(tail))
    most = max(FULLEST * crowd.columns.bits / crowd.columns.hashes - middle, error)

    def end(chance_of: Callable[[float], float], sign: float, room: float) -> float:
        """Return the first number out from the middle that is rejected on one side."""
        top = room / error

        def chance(out: float) -> float:
            return chance_of(middle + sign * min(out * error, room))

        if top <= 2.0 * guess and chance(top) > tail:
            return middle + sign * room
        near, far = (1.0 - _NEAR) * guess, (1.0 + _NEAR) * guess
        if far < top and chance(near) > tail >= chance(far):
            out = narrow_crossing(chance, tail, near, far, tolerance=_SHARP)[1]
        else:
            out = find_crossing(chance, tail, top=top, tolerance=_SHARP, guess=guess)[1]
        return middle + sign * min(out * error, room)

    return end(crowd.chance_of_more, -1.0, middle), end(crowd.chance_of_less, 1.0, most)
