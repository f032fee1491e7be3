"""How many ids are in a group, and how surely: one estimator and one error for everything.

h balls for each id fall into m columns. With Z_v the number of columns without anybody seen
more than v (times, at each publisher), the number of ids seen more than v somewhere is

    L_v = −(m/h) · ln(Z_v / m)

(linear counting [Whang, Vander-Zanden and Taylor 1990], on every union of rows), and the ids
of any group are a fixed combination Σ c_v L_v of these: differences of "at most v" give
"exactly v", and the group adds some of them up. So there is one formula for unions, overlaps,
what one publisher adds, and frequencies.

The delta method gives the error: to first order the estimate moves by a weight w for each
column, so with columns that fall independently its variance is m·Var(w). They nearly do: the
number of balls is fixed, which takes N/h off again (N ids in the group), because the estimate
follows every ball of the group by 1/h.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from chaffinch.reach import transforms
from chaffinch.reach.audience import Audience, Group
from chaffinch.reach.transforms import Floats

ENOUGH = 6.0
"""A share of empty columns is counted by when it is at least so many standard errors."""


@dataclass(frozen=True, eq=False)
class Columns:
    """What is known of all columns: the share of each logo, seen or expected.

    ``shares`` are counts divided by ``bits``. Nothing here checks them: ``analyze`` does.
    """

    audience: Audience
    bits: int
    hashes: int
    flip: float
    shares: Floats

    @cached_property
    def empty(self) -> Floats:
        """Return the share of columns that are truly empty, for every v on the grid."""
        return transforms.empty_columns(self.shares, self.audience, self.flip)

    def countable(self, group: Group) -> bool:
        """Return whether enough columns are empty for the logarithms of this group to mean much.

        The least share of empty columns that it uses must stand well above its own error.
        """
        used = self._combination(group) != 0
        place = np.unravel_index(np.argmin(np.where(used, self.empty, np.inf)), used.shape)
        chosen = np.zeros(self.audience.grid)
        chosen[place] = 1.0
        return bool(self.empty[place] > ENOUGH * self._spread(chosen))

    def estimate(self, group: Group) -> tuple[float, float]:
        """Return the number of ids in a group and its standard error."""
        combination = self._combination(group)
        used = combination != 0
        scale = self.bits / self.hashes
        logarithms = np.zeros_like(self.empty)
        np.log(self.empty, out=logarithms, where=used)
        found = -scale * float(np.sum(combination * logarithms))
        gradient = np.zeros_like(self.empty)
        np.divide(-combination, self.empty, out=gradient, where=used)
        variance = (scale * self._spread(gradient)) ** 2 - max(found, 0.0) / self.hashes
        return found, math.sqrt(max(variance, 0.0))

    def _combination(self, group: Group) -> Floats:
        """Return the factors c_v of the logarithms that make up a group."""
        members = group.members(self.audience).astype(np.float64)
        factors = -transforms.transposed_differences(members)
        # Nothing is asked of a column that may hold anything: its logarithm is 0.
        factors[(-1,) * factors.ndim] = 0.0
        return factors

    def _spread(self, gradient: Floats) -> float:
        """Return the standard deviation of a combination of shares of empty columns."""
        weights = transforms.column_weights(gradient, self.audience, self.flip)
        weights = weights - float(weights @ self.shares)
        return math.sqrt(float(weights**2 @ self.shares) / self.bits)
