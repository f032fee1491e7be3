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

    def error_of_empty(self, place: tuple[int, ...]) -> float:
        """Return the standard error of one share of empty columns, columns being independent."""
        chosen = np.zeros(self.audience.grid)
        chosen[place] = 1.0
        return self._spread(chosen)

    def estimate(self, group: Group) -> tuple[float, float]:
        """Return the number of ids in a group and its standard error."""
        combination = -transforms.transposed_differences(
            group.members(self.audience).astype(np.float64)
        )
        used = combination != 0
        scale = self.bits / self.hashes
        logarithms = np.zeros_like(self.empty)
        np.log(self.empty, out=logarithms, where=used)
        found = -scale * float(np.sum(combination * logarithms))
        gradient = np.zeros_like(self.empty)
        np.divide(-combination, self.empty, out=gradient, where=used)
        variance = (scale * self._spread(gradient)) ** 2 - max(found, 0.0) / self.hashes
        return found, math.sqrt(max(variance, 0.0))

    def _spread(self, gradient: Floats) -> float:
        """Return the standard deviation of a combination of shares of empty columns."""
        weights = transforms.column_weights(gradient, self.audience, self.flip)
        weights = weights - float(weights @ self.shares)
        return math.sqrt(float(weights**2 @ self.shares) / self.bits)
