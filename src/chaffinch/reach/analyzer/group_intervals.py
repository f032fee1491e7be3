"""Confidence intervals for the ids of a group: the numbers that the columns do not reject.

Three ways, by what a group asks for:

* **one row** (a publisher's ids, a publisher's ids seen so often): the exact law of its set
  bits is inverted (``occupancy``). Proven, whatever the number of ids, also for none.
* **several rows, up to so many cells**: the law of the estimator is inverted, with all other
  cells fitted (``Crowd``). Measured: see decision 0035.
* **more cells than that**: the delta method, for large counts, as the release then says.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from chaffinch.privacy.numerics import special
from chaffinch.privacy.numerics.roots import find_crossing, narrow_crossing
from chaffinch.protocols.noise import Floats
from chaffinch.reach.analyzer.occupancy import FULLEST, ids_of_row
from chaffinch.reach.planning.audience import Audience, Group
from chaffinch.reach.planning.estimator import Columns, column_weights, seen_law

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
    the largest on, and each interval holds the one before. None ends before one standard error:
    where columns reject every number, also 0, what is left must not look like certainty.
    """
    own, asked, seen = asked_columns(columns, counts, group)
    estimate, error = own.estimate(asked)
    if own.audience.rows == 1:
        found = [_of_one_row(own, int(seen[1]), tail) for tail in tails]
    elif by_delta_method(columns.audience, group):
        found = [_normal(estimate, error, tail) for tail in tails]
    else:
        crowd = Crowd(own, asked)
        found = [_inverted(crowd, max(0.0, estimate), max(error, 1.0), one) for one in tails]
    # Ends that are found apart may be out of order by as much as they are rounded outwards.
    kept = accumulate(found, lambda one, wider: (min(one[0], wider[0]), max(one[1], wider[1])))
    return [(low, max(high, error)) for low, high in kept]


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
    """Return the audience of the publishers that a group names, and the group there."""
    # One publisher has a row of its own for those seen twice or more; several need all rows.
    names = [name for name in audience.publishers if name in group.named]
    if len(names) == 1:
        return Audience(names), Group(any_of=tuple(names))
    return Audience(names, frequencies=audience.frequencies if group.times > 1 else 1), group


def _counts_of(
    audience: Audience, counts: NDArray[np.int64], asked: Audience, group: Group
) -> NDArray[np.int64]:
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


# ----------------------------------------------------------------------------
# What the columns of several rows say of a group, if it holds so many ids.
#
# The counts of the logos depend on all cells of the audience (how many ids were seen so often at
# each publisher), of which a group adds up some. To ask whether t ids can be in the group, the
# other cells are set to what fits the counts best under that condition (``Crowd.with_group``),
# and the statistic is the estimator's own first order there,
#
#     S = Σ_columns (ψ(logo) − E ψ),    ψ = what one column adds to the estimate,
#
# which has mean 0 whatever was fitted, and moves with the other cells in second order alone. Its
# law is that of independent columns, given how many balls the group threw. Since the estimate
# follows every ball of the group by 1/h and no other ball, S less (balls − their mean)/h is
# uncorrelated with all of them; its cumulants are those of one column, and a ball of the group
# weighs e^(−u/h) in them (``_Column.cumulants``). The best combination at each u (the double
# saddlepoint, Skovgaard 1987) has smaller cumulants, so this one errs towards heavier tails.
#
# No column is taken to be normal, and logos that are expected less than once are counted with.
# That the fitted cells stand for the true ones is not proven; it is measured
# (``tests/reach/test_coverage.py``).

_ROUNDS = 3
"""So many steps of Fisher scoring: further ones change no chance by a hundredth of itself."""
_HEAVY = 1e4
"""The condition on the group weighs so much more than any count; it is then met exactly."""
_LEAST_SHARE = 1e-16
_MOST_EXPONENT = 60.0


@dataclass(frozen=True, eq=False)
class Crowd:
    """All crowds that may stand behind some columns, and a group of their ids.

    A crowd is an array of loads: how many balls each cell throws into a column on average.
    """

    columns: Columns
    group: Group

    @cached_property
    def members(self) -> NDArray[np.bool_]:
        """Return which cells are in the group; the cell of nobody is left out."""
        return self.group.members(self.columns.audience).reshape(-1)[1:]

    @cached_property
    def best(self) -> Floats:
        """Return the crowd that fits the counts best."""
        cells = len(self.members)
        load = max(-math.log(max(float(self.columns.empty.flat[0]), 1e-9)), 1e-9)
        return self._fitted(np.full(cells, load / cells), None)

    def with_group(self, ids: float) -> Floats:
        """Return the crowd that fits the counts best among those with so many in the group."""
        return self._fitted(self.best, self.columns.hashes * ids / self.columns.bits)

    def shares_if(self, loads: Floats) -> tuple[Floats, Floats]:
        """Return the shares of empty columns on the grid, and those of all logos."""
        empty = np.exp(-self._above @ loads)
        # A difference of numbers that are nearly the same may be rounded below 0.
        return empty, np.maximum(self._spread @ empty, _LEAST_SHARE)

    @cached_property
    def _above(self) -> Floats:
        """Return, for every v of the grid and every cell, whether its ids were seen more than v."""
        seen = np.indices(self.columns.audience.grid).reshape(self.columns.empty.ndim, -1).T
        return np.asarray((seen[None, 1:] > seen[:, None]).any(axis=2), dtype=np.float64)

    @cached_property
    def _spread(self) -> Floats:
        """Return the matrix from shares of empty columns to shares of seen logos."""
        audience, flip = self.columns.audience, self.columns.flip
        return np.stack([seen_law(one, audience, flip) for one in self._units], axis=1)

    @cached_property
    def _units(self) -> Floats:
        size = self.columns.empty.size
        return np.eye(size).reshape(size, *self.columns.audience.grid)

    def _fitted(self, loads: Floats, wanted: float | None) -> Floats:
        """Return loads by Fisher scoring, not negative; the group's add up to ``wanted``."""
        from scipy.optimize import nnls

        free = ~self.members if wanted == 0.0 else np.ones_like(self.members)
        found = np.where(free, loads, 0.0)
        for _ in range(_ROUNDS if free.any() else 0):
            # Linearized at the loads found so far: new shares ≈ shares + slopes·(new − found).
            empty, shares = self.shares_if(found)
            slopes = -self._spread @ (empty[:, None] * self._above)
            # A count varies about as much as is expected of it, so its row is divided by √share.
            sizes = np.sqrt(shares)
            left = (slopes / sizes[:, None])[:, free]
            right = (self.columns.shares - shares + slopes @ found) / sizes
            if wanted:
                heavy = _HEAVY * float(np.abs(left).max())
                left = np.vstack([left, heavy * self.members])
                right = np.append(right, heavy * wanted)
            # Where that goes round in circles the crowd before serves: any may be fitted.
            with suppress(RuntimeError):
                found[free] = nnls(left, right, maxiter=100 * len(found))[0]
            if wanted:
                total = float(found[self.members].sum())
                # Where nothing at all was fitted, all cells of the group alike.
                found[self.members] += 0.0 if total > 0 else 1.0
                found[self.members] *= wanted / float(found[self.members].sum())
        return found

    # ------------------------------------------------------------------------ the test

    # Half of the largest step of S is given away on either side, for S moves in steps.

    def chance_of_more(self, ids: float) -> float:
        """Return how likely columns that say as many or more are, if the group has ``ids``."""
        column = self._columns_if(ids)
        place = column.seen(self.columns.shares) - column.step / 2.0
        return tail_chance(column.cumulants, place, column.most)

    def chance_of_less(self, ids: float) -> float:
        """Return how likely columns that say as few or fewer are, if the group has ``ids``."""
        column = self._columns_if(ids)
        place = -column.seen(self.columns.shares) - column.step / 2.0
        return tail_chance(lambda u: _mirrored(column.cumulants(-u)), place, column.most)

    def _columns_if(self, ids: float) -> _Column:
        if ids not in self._fits:
            self._fits[ids] = self._column(self.with_group(ids))
        return self._fits[ids]

    @cached_property
    def _fits(self) -> dict[float, _Column]:
        return {}

    def _column(self, loads: Floats) -> _Column:
        empty, shares = self.shares_if(loads)
        gradient = -self.columns.combination(self.group).reshape(-1) / empty / self.columns.hashes
        return _Column(
            adds=column_weights(
                gradient.reshape(self.columns.audience.grid),
                self.columns.audience,
                self.columns.flip,
            ),
            shares=shares,
            spread=self._spread,
            inside=self._above[:, self.members] @ loads[self.members],
            outside=self._above[:, ~self.members] @ loads[~self.members],
            load=float(loads[self.members].sum()),
            bits=self.columns.bits,
            hashes=self.columns.hashes,
        )


def _mirrored(cumulants: Cumulants) -> Cumulants:
    value, slope, curve = cumulants
    return value, -slope, curve


@dataclass(frozen=True, eq=False)
class _Column:
    """One column of a crowd, and what it adds to the statistic."""

    adds: Floats
    """ψ, for each logo."""
    shares: Floats
    spread: Floats
    inside: Floats
    """The load of the group's cells above every v of the grid, and that of the others."""
    outside: Floats
    load: float
    bits: int
    hashes: int

    @property
    def step(self) -> float:
        return float(self.adds.max() - self.adds.min())

    @property
    def most(self) -> float:
        return _MOST_EXPONENT / max(self.step, 1.0 / self.hashes)

    def seen(self, shares: Floats) -> float:
        return self.bits * float(self.adds @ (shares - self.shares))

    def cumulants(self, u: float) -> Cumulants:
        """Return the cumulant function of S less (balls of the group − their mean)/h, at u."""
        # A ball of the group weighs w = e^(−u/h): loads of the group become w times theirs, and
        # the column as a whole weighs e^(load·(w − 1)).
        step = 1.0 / self.hashes
        weight = math.exp(-u * step)
        empty = np.exp(-self.outside - weight * self.inside)
        first = weight * step * self.inside
        moved = np.stack([empty, empty * first, empty * (first * first - step * first)], axis=1)
        law = self.spread @ moved
        # The largest exponent is taken out of the sums, so that none of them overflows.
        top = float((u * self.adds).max())
        tilted = np.exp(u * self.adds - top)
        total = float(tilted @ law[:, 0])
        slope = float(tilted @ (law[:, 1] + self.adds * law[:, 0])) / total
        curve = float(tilted @ (law[:, 2] + self.adds * (2.0 * law[:, 1] + self.adds * law[:, 0])))
        mean = float(self.adds @ self.shares) - self.load * step
        thrown = self.load * weight
        return (
            self.bits * (math.log(total) + top + thrown - self.load - u * mean),
            self.bits * (slope - thrown * step - mean),
            self.bits * (curve / total - slope * slope + thrown * step * step),
        )


# ----------------------------------------------------------------------------
# The tail of a sum from its cumulant function, by the formula of Lugannani and Rice (1980).

Cumulants = tuple[float, float, float]
"""ln E[e^(uS)] at some u, its slope and its second derivative."""

_STEPS = 80
_EXACT = 1e-6
"""The slope is found to so many standard deviations."""
_MIDDLE = 0.1
"""Nearer to the mean, in standard deviations, the two terms of the formula cancel. Nobody asks
there for more than that the chance is not small."""


def tail_chance(cumulants: Callable[[float], Cumulants], place: float, most: float) -> float:
    """Return about P[S ≥ place] for a sum S of mean 0; ``most`` bounds the tilt u.

    Near the mean it is one half, and at most one half above it.

    >>> normal = lambda u: (u * u / 2, u, 1.0)
    >>> round(tail_chance(normal, 1.959964, 100.0), 6)
    0.025
    """
    tilt = _tilt(cumulants, place, most)
    value, _, curve = cumulants(tilt)
    if curve <= 0.0:
        # Tilted so far the sum has one value alone: what is left is Chernoff's bound, which
        # bounds this tail for a positive tilt and says nothing of it for a negative one.
        return math.exp(min(value - tilt * place, 0.0)) if tilt > 0.0 else 1.0
    # With r = ±√(2·(u·s − K(u))): P[S ≥ s] ≈ 1 − Φ(r) + φ(r)·(1/(u·√K″(u)) − 1/r).
    root = math.copysign(math.sqrt(max(2.0 * (tilt * place - value), 0.0)), tilt)
    if abs(root) < _MIDDLE:
        return float(special.ndtr(-root))
    normal = float(special.ndtr(-root))
    density = math.exp(-0.5 * root * root) / math.sqrt(2.0 * math.pi)
    found = normal + density * (1.0 / (tilt * math.sqrt(curve)) - 1.0 / root)
    return min(max(found, 0.0), 1.0)


def _tilt(cumulants: Callable[[float], Cumulants], place: float, most: float) -> float:
    """Return the u at which the slope is ``place``, by Newton's steps between two bounds."""
    deviation = math.sqrt(max(cumulants(0.0)[2], 1e-100))
    left, right = -most, most
    tilt = min(max(place / deviation**2, left / 2), right / 2)
    for _ in range(_STEPS):
        _, slope, curve = cumulants(tilt)
        if abs(slope - place) < _EXACT * deviation:
            break
        left, right = (left, tilt) if slope > place else (tilt, right)
        further = max(2.0 * abs(tilt), 2.0 / deviation)
        step = (place - slope) / curve if curve > 0.0 else math.copysign(further, place - slope)
        tilt += min(max(step, -further), further)
        if not left < tilt < right:
            tilt = 0.5 * (left + right)
    return tilt
