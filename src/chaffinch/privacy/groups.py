"""Group privacy: one person holds several records of a batch and may replace all of them.

A mechanism says what replacing one record changes, in every crowd. From one person's records to
any others it is a chain of such steps, and a test of level α has after each of them a power of at
most T(level before): T∘…∘T(α) after all, where T(α) = min over ε of δ(ε) + e^ε·α is the power
that the profile of one record allows. That is far more than composition over the records would
say: the losses of a chain do not average out, because all steps go in one direction.

Source     group privacy of trade-off functions [Dong, Roth, Su 2022, theorem 2.14], T = 1 − f.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from chaffinch.errors import InvalidInput, checks
from chaffinch.privacy import forms
from chaffinch.privacy.composition import Composition, full_profile
from chaffinch.privacy.guarantee import MOST_RECORDS, Bracket, Method, bound_of
from chaffinch.privacy.mechanism import Mechanism
from chaffinch.privacy.numerics.loss_grids import convex_profiles, lower_hull_corners
from chaffinch.privacy.numerics.precision import Floats, up
from chaffinch.privacy.numerics.roots import find_crossing

_LEVELS = np.geomspace(1e-60, 1.0, 6000)
"""Where chains of lines are laid on. Each chain is a proof, whatever level it was found at."""
_FEW_NODES = 33
"""So many epsilons describe a profile well enough for a quick answer."""
_STEEPEST = 600.0
"""Steeper lines than e^600 are left out: products of slopes must stay doubles."""
_FLATTEST = 1e-300
"""A local epsilon below this is called that."""
_ROUNDOFF = 1e-15
"""Room for the roundings of one step of a chain, that of an exponential among them."""

_EQUAL_ROUNDOFF = 1e-11
"""Room for the roundings of a sum of at most 1000 exponentials of at most 600."""


@dataclass(frozen=True)
class Grouped(Mechanism):
    """``inner`` for people who each hold ``records`` of its records and may change all of them.

    The users of ``inner`` are records here, of all people together.

    >>> from chaffinch.privacy import FlippedBits
    >>> one = FlippedBits(users=10_000, flip_probability="0.003")
    >>> two = Grouped(one, records=2)
    >>> one.epsilon(1e-6).upper < 1.1 < 2.43 < two.epsilon(1e-6).upper < 2.46
    True
    """

    inner: Mechanism
    records: int
    document_name = "grouped"

    def __post_init__(self) -> None:
        inner: object = self.inner
        if not isinstance(inner, Mechanism) or isinstance(inner, Grouped):
            raise InvalidInput("inner mechanism", "a mechanism of single records", inner)
        checks.whole("records of a person", self.records, least=1, most=MOST_RECORDS)

    def written(self, document_of: Callable[[Mechanism], dict[str, Any]]) -> dict[str, Any]:
        """Return how many records are replaced, and the document of a single one."""
        return {"records": self.records, "inner": document_of(self.inner)}

    @classmethod
    def from_written(
        cls, fields: dict[str, Any], mechanism_of: Callable[[object], Mechanism]
    ) -> Grouped:
        """Return the mechanism with these parameters."""
        forms.check_fields(cls.__name__, fields, ("records", "inner"))
        return cls(mechanism_of(fields["inner"]), fields["records"])

    @property
    def method(self) -> Method:  # type: ignore[override]
        """Return ``upper-bound``: a chain of steps, each of them the worst there is."""
        return bound_of([self.inner.method])

    @property
    def neighbours(self) -> str:  # type: ignore[override]
        """Return the neighbours of the inner mechanism, where one is a person and not a record."""
        return self.inner.neighbours

    @property
    def view(self) -> str:  # type: ignore[override]
        """Return the view of the inner mechanism."""
        return self.inner.view

    @property
    def takes_minutes(self) -> bool:
        """Return whether the inner mechanism has no quick way."""
        return self.inner.takes_minutes

    @property
    def crowd_words(self) -> str:
        """Return the crowd of the inner mechanism, and how much of it is one person."""
        return f"{self.inner.crowd_words}, {self.records} of each person"

    @property
    def local_epsilon(self) -> float:
        """Return the sum of the local guarantees of a person's records."""
        return up(self.records * self.inner.local_epsilon)

    def delta(self, epsilon: float) -> Bracket:
        """Return the bracket of delta; its lower end is that of one record."""
        lower, upper = self.profile(np.array([checks.epsilon(epsilon)]))
        return Bracket(float(lower[0]), float(upper[0]))

    def delta_bound(self, epsilon: float) -> float:
        """Return an upper end of delta, from a profile that was searched only shortly."""
        return float(self.profile_bound(np.array([checks.epsilon(epsilon)]))[0])

    def profile(self, epsilons: Floats) -> tuple[Floats, Floats]:
        """Return both ends of delta at many epsilons."""
        each = self.inner.profile(epsilons / self.records)[1]
        upper = self._deltas(self._lines, each, epsilons)
        # Whoever may change several records may change one of them.
        return np.minimum(self.inner.profile(epsilons)[0], upper), upper

    def profile_end(self) -> float:
        """Return about the epsilon where delta falls below the profile's floor."""
        return find_crossing(
            self.delta_bound, self.profile_floor, top=self.local_epsilon, tolerance=1e-2
        )[1]

    def profile_bound(self, epsilons: Floats) -> Floats:
        """Return upper ends of delta at many epsilons, quickly."""
        each = self._quick_inner.profile_bound(epsilons / self.records)
        return self._deltas(self._quick_lines, each, epsilons)

    def _deltas(self, lines: tuple[Floats, Floats], each: Floats, epsilons: Floats) -> Floats:
        """Return upper ends from lines that were laid on, or where all steps take an equal share.

        Shares are equal at the best where a profile has a sharp bend, which no node may have met:
        ``each`` step then leaves delta(ε/records), and e^(ε/records) times that after the next.
        """
        slopes, heights = lines
        # Any mixture of two lines above a curve is above it: the hull of (slope, height) is proven.
        found: Floats = np.interp(np.exp(np.minimum(epsilons, _STEEPEST)), slopes, heights)
        # Behind the steepest line nothing is proven by equal shares.
        each = np.where(epsilons <= _STEEPEST, each, 1.0)
        step = np.minimum(epsilons, _STEEPEST) / self.records
        # δ(ε) ≤ δ₁(ε/k)·(1 + e^(ε/k) + … + e^((k−1)ε/k)), one record after the other.
        later = np.exp(np.arange(self.records)[:, None] * step)
        equal = each * later.sum(axis=0) * (1 + _EQUAL_ROUNDOFF)
        return np.where(epsilons >= self.local_epsilon, 0.0, np.minimum(found, equal))

    @cached_property
    def _quick_inner(self) -> Mechanism:
        rounds = self.inner.rounds
        return self.inner if rounds == ((self.inner, 1),) else Composition(rounds)

    @cached_property
    def _lines(self) -> tuple[Floats, Floats]:
        return _chained_lines(full_profile(self.inner), self.inner.local_epsilon, self.records)

    @cached_property
    def _quick_lines(self) -> tuple[Floats, Floats]:
        nodes = self._quick_inner.quick_nodes()
        few = nodes[np.unique(np.linspace(0, len(nodes) - 1, _FEW_NODES).astype(np.int64))]
        upper = self._quick_inner.profile_bound(few)
        return _chained_lines((few, upper), self.inner.local_epsilon, self.records)


def _chained_lines(
    profile: tuple[Floats, Floats], local: float, records: int
) -> tuple[Floats, Floats]:
    """Return slopes and heights of lines c + s·α that lie above the power after all steps.

    Of every line of T that is used the height is rounded up; what rounding does to slopes is
    made good by calling them steeper than they are.
    """
    heights, logarithms = _power_lines(*profile, local)
    slopes = np.exp(logarithms)
    # Of lines whose slopes round to the same number the first one, the lowest, stands for all.
    falling = np.concatenate([[True], np.diff(slopes) < 0])
    heights, logarithms, slopes = heights[falling], logarithms[falling], slopes[falling]
    # The line with the next smaller slope takes over from here on. Which one is taken decides
    # only how good the bound is, never whether it holds.
    breaks = np.maximum.accumulate(np.diff(heights) / -np.diff(slopes))
    levels = np.concatenate([_LEVELS, breaks[(breaks > 0) & (breaks < 1)]])
    height, growth = np.zeros_like(levels), np.zeros_like(levels)
    for _ in range(records):
        line = np.searchsorted(breaks, levels)
        # A line of T put upon c′ + s′·α is a line again: c + s·c′ + s·s′·α.
        height = (heights[line] + slopes[line] * height) * (1 + _ROUNDOFF)
        growth = growth + logarithms[line]
        # A roundoff of the sum so far comes with every step, and one of an exponential.
        growth = growth + _ROUNDOFF * (1.0 + np.abs(growth))
        levels = np.minimum(heights[line] + slopes[line] * levels, 1.0)
    kept = growth <= _STEEPEST
    order = np.argsort(growth[kept], kind="stable")
    # Before all others the line that always holds: a power of 1, whatever the level.
    steep = np.concatenate([[0.0], np.exp(growth[kept][order]) * (1 + _ROUNDOFF)])
    high = np.minimum.accumulate(np.concatenate([[1.0], height[kept][order]]))
    corners = lower_hull_corners(steep, high)
    return steep[corners], np.minimum(high[corners] * (1 + 8 * _ROUNDOFF), 1.0)


def _power_lines(nodes: Floats, upper: Floats, local: float) -> tuple[Floats, Floats]:
    """Return heights of lines above the power T of one record, and logarithms of their slopes.

    The steepest first. Both orders of a pair have the profile: P ≤ e^ε·Q + δ, and with the
    complement of an event P ≤ 1 − e^−ε·(1 − δ − Q).
    """
    ends = np.minimum.accumulate(upper)
    if local < _STEEPEST:
        # What holds at the local epsilon holds at a larger one, whose reciprocal is a float.
        local = max(local, _FLATTEST)
        before = nodes < local
        nodes, ends = np.append(nodes[before], local), np.append(ends[before], 0.0)
    nodes, ends = convex_profiles(nodes, ends, ends)[0]
    # The second bound as a line in Q: its height, rounded up, and below the slope e^−ε.
    flat = 1.0 - np.exp(-nodes[1:]) * (1.0 - ends[1:]) + _ROUNDOFF
    return np.concatenate([ends[::-1], flat]), np.concatenate([nodes[::-1], -nodes[1:]])
