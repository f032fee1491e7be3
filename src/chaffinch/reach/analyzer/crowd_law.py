"""What the columns of several rows say of a group, if it holds so many ids.

The counts of the logos depend on all cells of the audience (how many ids were seen so often at
each publisher), of which a group adds up some. To ask whether t ids can be in the group, the
other cells are set to what fits the counts best under that condition (``Crowd.with_group``),
and the statistic is the estimator's own first order there,

    S = Σ_columns (ψ(logo) − E ψ),    ψ = what one column adds to the estimate,

which has mean 0 whatever was fitted, and moves with the other cells in second order alone. Its
law is that of independent columns, given how many balls the group threw. Since the estimate
follows every ball of the group by 1/h and no other ball, S less (balls − their mean)/h is
uncorrelated with all of them; its cumulants are those of one column, and a ball of the group
weighs e^(−u/h) in them (``_Column.cumulants``). The best combination at each u (the double
saddlepoint, Skovgaard 1987) has smaller cumulants, so this one errs towards heavier tails.

No column is taken to be normal, and logos that are expected less than once are counted with.
That the fitted cells stand for the true ones is not proven; it is measured
(``tests/reach/test_coverage.py``).
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from chaffinch.protocols.noise import Floats
from chaffinch.reach.analyzer.saddlepoint import Cumulants, tail_chance
from chaffinch.reach.planning.audience import Group
from chaffinch.reach.planning.estimator import Columns, column_weights, seen_law

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
        """Return non-negative loads by Fisher scoring, those of the group adding up to ``wanted``.

        Each step is least squares for the counts, weighted by what is expected of them.
        """
        from scipy.optimize import nnls

        free = ~self.members if wanted == 0.0 else np.ones_like(self.members)
        found = np.where(free, loads, 0.0)
        for _ in range(_ROUNDS if free.any() else 0):
            empty, shares = self.shares_if(found)
            slopes = -self._spread @ (empty[:, None] * self._above)
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
        """Return what is fitted; it is kept, for searches come back to a place."""
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
        """Return the largest step that one column makes."""
        return float(self.adds.max() - self.adds.min())

    @property
    def most(self) -> float:
        """Return the largest tilt that is tried."""
        return _MOST_EXPONENT / max(self.step, 1.0 / self.hashes)

    def seen(self, shares: Floats) -> float:
        """Return the statistic of columns with these shares of the logos."""
        return self.bits * float(self.adds @ (shares - self.shares))

    def cumulants(self, u: float) -> Cumulants:
        """Return the cumulant function of S less (balls of the group − their mean)/h, at u.

        A ball of the group weighs w = e^(−u/h): loads of the group become w times theirs, and
        the column as a whole weighs e^(load·(w − 1)).
        """
        step = 1.0 / self.hashes
        weight = math.exp(-u * step)
        empty = np.exp(-self.outside - weight * self.inside)
        first = weight * step * self.inside
        moved = np.stack([empty, empty * first, empty * (first * first - step * first)], axis=1)
        law = self.spread @ moved
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
