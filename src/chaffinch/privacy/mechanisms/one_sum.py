"""Mechanisms of which the analyzer sees one sum of flipped bits.

The target adds Bin(copies, q) or Bin(copies, p); the others add Bin(ones, p) + Bin(zeros, q).
Which others is not known, so every number is a maximum over crowds (see ``crowds``), in
both directions: swapping the roles of ones and zeros mirrors the sum.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from chaffinch import checks
from chaffinch.errors import GuaranteeNotProven, InvalidInput
from chaffinch.privacy.guarantee import Bracket, Method
from chaffinch.privacy.mechanism import Mechanism
from chaffinch.privacy.numerics import crowds
from chaffinch.privacy.numerics.laws import DIRECT_PRODUCTS, Law, sum_of_flips, target_bits
from chaffinch.privacy.numerics.loss import Knots, knots_of_sum, loss_tail
from chaffinch.privacy.numerics.precision import (
    LARGEST_EXPONENT,
    LEAST_TAIL,
    Floats,
    Wide,
    exp_minus_one,
    log_of_power,
)
from chaffinch.privacy.tradeoff import TradeOff, levels_of, local_mu, lower_hull

SMALLEST_DELTA = 1e-300
LEAST_EPSILON = 1e-9
"""Below this an epsilon is as good as none: only its upper end is kept tight."""
MOST_ENUMERATED = 10_000
COARSE = 0.02
"""A relative width of delta that costs about a thousandth of epsilon."""
FEW_CROWDS = 300
"""How many boxes of crowds a short search may look at."""
_MOST_CORNERS = 50
_DELTA_WIDTH = {True: 1e-9, False: 1e-4}
_EPSILON_WIDTH = {True: 1e-9, False: 4e-6}


class SumMechanism(Mechanism):
    """A mechanism whose view is one sum: everything follows from its ``family``."""

    method: Method = "exact"

    @property
    @abstractmethod
    def family(self) -> Family:
        """Return the crowds this collection may have."""

    @property
    def local_epsilon(self) -> float:
        """Return copies · ln(p/q), rounded up."""
        return self.family.steepest

    def delta(self, epsilon: float, *, relative_width: float | None = None) -> Bracket:
        """Return the bracket of the worst hockey-stick delta over all crowds.

        Promises   lower ≤ truth ≤ upper; the relative width is at most ``relative_width``
                   (1e-9 up to 10⁴ others, 1e-4 beyond) or GuaranteeNotProven is raised.
                   Below 1e-300 only the upper end is kept tight.
        """
        epsilon = checks.epsilon(epsilon)
        width = self._width(relative_width, _DELTA_WIDTH)
        if epsilon >= self.family.steepest:
            return Bracket(0.0, 0.0)
        tail, aim = self._tail(epsilon, width)
        search = crowds.find_worst(
            self.family.roots,
            self.family.asking(delta_of(epsilon), tail, aim),
            width=width / 2,
            floor=SMALLEST_DELTA,
        )
        return _checked("delta", search, width, floor=SMALLEST_DELTA)

    def delta_bound(self, epsilon: float) -> float:
        """Return what a short search proves: a few percent above delta where crowds differ."""
        epsilon = checks.epsilon(epsilon)
        if epsilon >= self.family.steepest:
            return 0.0
        tail, aim = self._tail(epsilon, COARSE)
        search = crowds.find_worst(
            self.family.roots,
            self.family.asking(delta_of(epsilon), tail, aim),
            width=COARSE / 2,
            floor=SMALLEST_DELTA,
            most_evaluations=FEW_CROWDS,
        )
        return min(float(search.upper[0]), 1.0)

    def epsilon(self, delta: float, *, relative_width: float | None = None) -> Bracket:
        """Return the bracket of the smallest epsilon that holds with ``delta`` for every crowd."""
        delta = checks.delta(delta)
        width = self._width(relative_width, _EPSILON_WIDTH)
        # A test is judged by its level, about delta·e^−epsilon: the tail must not show there.
        about = Crowd(self.family, 0).epsilon(delta).upper
        tail = max(Wide(delta) * width * 1e-4 * np.exp(Wide(-about)), LEAST_TAIL)

        def ask(knots: Knots, spread: float) -> tuple[Floats, Floats]:
            return one(knots.epsilon(delta, spread=spread))

        search = crowds.find_worst(
            self.family.roots,
            self.family.asking(ask, tail, delta),
            width=width / 2,
            floor=LEAST_EPSILON,
        )
        return _checked("epsilon", search, width, floor=LEAST_EPSILON)

    def profile(
        self, epsilons: Floats, *, relative_width: float = 1e-3, steady: bool = False
    ) -> tuple[Floats, Floats]:
        """Return both ends of the worst delta at many epsilons, from one search.

        The width is ``relative_width`` where delta is largest and grows with its logarithm, so
        that it stays about even in epsilon; with ``steady`` it is the same everywhere. Below
        1e-17 (1e-13 beyond 10⁴ others) only the upper end is kept, and not tight.
        """
        search = self._profile_search(epsilons, relative_width, steady=steady)
        return search.lower, search.upper

    def profile_bound(self, epsilons: Floats) -> Floats:
        """Return what a short search proves of delta at many epsilons."""
        return self._profile_search(epsilons, COARSE, steady=False, most=FEW_CROWDS).upper

    def _profile_search(
        self, epsilons: Floats, relative_width: float, *, steady: bool, most: int = 5_000
    ) -> crowds.Search:
        nodes = np.array([checks.epsilon(float(e)) for e in epsilons])

        def ask(knots: Knots, spread: float) -> tuple[Floats, Floats]:
            return knots.deltas(nodes, spread=spread)

        def even(base: Floats) -> Floats:
            widths: Floats = relative_width * (1.0 + 2.0 * np.log(base.max() / base))
            return widths

        return crowds.find_worst(
            self.family.roots,
            self.family.asking(ask, 1e-24),
            width=relative_width if steady else even,
            floor=self.profile_floor,
            most_evaluations=most,
        )

    @property
    def profile_floor(self) -> float:  # type: ignore[override]
        """Return the delta below which the profile is not followed."""
        return 1e-17 if self.family.last <= SMALL_CROWD else 1e-13

    @property
    def profile_nodes(self) -> int:  # type: ignore[override]
        """Return how many epsilons to describe the profile by: fewer where they cost more."""
        return 257 if self.family.last <= SMALL_CROWD else 65

    def pointwise(self, epsilon: float) -> Bracket:
        """Return the worst P[loss > epsilon] by asking every crowd.

        It is not monotone in the crowd (adding a record can raise it), so nothing but
        enumeration proves a maximum: refused above 10 000 others.
        """
        epsilon = checks.epsilon(epsilon)
        family = self.family
        if family.last > MOST_ENUMERATED:
            raise InvalidInput(
                "number of others",
                f"at most {MOST_ENUMERATED} for the point-wise quantity",
                family.last,
                hint="ask a given crowd instead: mechanism.crowd(ones=…).pointwise(epsilon)",
            )
        ends = [self.crowd(ones=ones).pointwise(epsilon) for ones in range(family.last + 1)]
        return Bracket(max(e.lower for e in ends), max(e.upper for e in ends))

    def gaussian_mu(self, *, relative_width: float = 1e-6) -> Bracket:
        """Return the bracket of the smallest mu with mu-GDP for every crowd (S3, corrected)."""

        def ask(knots: Knots, _: float) -> tuple[Floats, Floats]:
            return one(knots.mu())

        tail = self.family.mu_tail()
        if tail <= LEAST_TAIL:
            lower = Crowd(self.family, 0).ends(ask, 1e-30, with_miss=True)[0][0]
            raise GuaranteeNotProven(
                "mu",
                asked=relative_width,
                lower=float(lower),
                upper=local_mu(self.family.steepest),
                hint="in crowds this large mu is decided by outcomes rarer than 1e-4000; "
                "ask for delta and epsilon instead",
            )
        search = crowds.find_worst(
            self.family.roots,
            self.family.asking(ask, tail, with_miss=True),
            width=relative_width / 2,
            floor=1e-300,
            most_evaluations=5_000,
        )
        return _checked("mu", search, relative_width, floor=1e-300)

    def tradeoff(self, alphas: Floats) -> TradeOff:
        """Return both ends of the exact trade-off curve at the levels ``alphas``.

        The lower end is the largest line 1 − delta − e^epsilon·alpha over the slopes that
        matter (worst crowd, both orders), a lower convex envelope by construction; the
        upper end is what the best tests achieve against the worst crowds seen.
        """
        levels = levels_of(alphas)
        family, tail = self.family, 1e-20

        def ask(knots: Knots, _: float) -> tuple[Floats, Floats]:
            return knots.power(levels)

        width = 1e-9 if family.last <= SMALL_CROWD else 1e-4
        search = crowds.find_worst(
            family.roots, family.asking(ask, tail), width=width, most_evaluations=2000
        )
        seen = {crowd.low[0] for crowd in search.best}
        while True:
            corners = [
                family.knots(ones, ones, mirrored=mirrored, tail=tail).vertices()
                for ones in seen
                for mirrored in (False, True)
            ]
            x, y = lower_hull(*(np.concatenate(part) for part in zip(*corners, strict=True)))
            nodes = _hull_slopes(x, y, levels, family.steepest)
            proven = self._profile_search(nodes, width, steady=True)
            new = {crowd.low[0] for crowd in proven.best} - seen
            if not new or len(seen) > _MOST_CORNERS:
                break
            seen |= new
        return TradeOff.from_profile(levels, nodes, proven.upper, upper=np.interp(levels, x, y))

    def instance(self) -> tuple[Floats, Floats]:
        """Return the laws of the sum when nobody else holds a one."""
        others = self.family.others(0, 0, mirrored=False, tail=1e-19, aim=1.0)
        target = target_bits(self.family.copies, self.family.flip)
        zero, one = np.convolve(others.mass, target.zero), np.convolve(others.mass, target.one)
        # At the ends of the window the ratio is not that of the whole law, nor worth anything.
        kept = np.minimum(zero, one) > 1e-21 if others.missing else zero > 0
        return zero[kept].astype(np.float64), one[kept].astype(np.float64)

    def crowd(self, *, ones: int) -> Crowd:
        """Return the same questions for one given crowd instead of the worst."""
        return Crowd(self.family, checks.whole("number of ones", ones, most=self.family.last))

    def _width(self, asked: float | None, default: dict[bool, float]) -> float:
        if asked is None:
            return default[self.family.last <= SMALL_CROWD]
        return checks.real("relative width", asked, least=1e-12, most=1.0)

    def _tail(self, epsilon: float, width: float) -> tuple[Any, Any]:
        """Return a tail too small to be seen beside delta, and a guess of delta, by trying."""
        ratio = exp_minus_one(min(epsilon, LARGEST_EXPONENT)) + 1
        tail, aim = Wide(1e-30), Wide(1.0)
        while True:
            low, high = Crowd(self.family, 0).ends(delta_of(epsilon), tail, aim)
            enough = Wide(low[0]) * width * 1e-3 / ratio
            if tail <= enough or tail == LEAST_TAIL or high[0] < SMALLEST_DELTA * 1e-6:
                return tail, max(Wide(low[0]), Wide(SMALLEST_DELTA))
            aim = min(Wide(high[0]), aim)
            tail = max(enough * 0.1 if enough > 0 else tail**2, LEAST_TAIL)


def _hull_slopes(x: Floats, y: Floats, levels: Floats, steepest: float) -> Floats:
    """Return the |log slopes| of the hull's edges around each level, as epsilons to ask at."""
    runs = np.maximum(np.diff(x), 1e-300)
    slopes = np.abs(np.log(np.maximum(-np.diff(y), 1e-300) / runs))
    right = np.clip(np.searchsorted(x, levels, side="right") - 1, 0, len(slopes) - 1)
    left = np.clip(np.searchsorted(x, levels, side="left") - 1, 0, len(slopes) - 1)
    return np.unique(np.minimum(np.concatenate([slopes[right], slopes[left], [0.0]]), steepest))


def _checked(quantity: str, search: crowds.Search, width: float, *, floor: float) -> Bracket:
    lower, upper = float(search.lower[0]), float(search.upper[0])
    if math.isnan(upper) or (upper > floor and upper - lower > width * upper):
        raise GuaranteeNotProven(quantity, asked=width, lower=lower, upper=upper)
    return Bracket(lower, upper)


# ----------------------------------------------------------------------------
# The crowds a collection of flipped bits may have, and what can be asked of one of them.

Question = Callable[[Knots, float], tuple[Floats, Floats]]
"""Something to ask of a pair (and a spread): both ends of one or several numbers."""

SMALL_CROWD = 10_000
_FEW_PRODUCTS = 100_000
"""Large crowds are asked for less relative width, which an FFT can give and sooner."""


@dataclass(frozen=True)
class Family:
    """All crowds of one collection: ``last`` others, each worth ``step`` bits of one kind."""

    flip: Fraction
    copies: int
    step: int
    last: int
    fixed_zeros: int = 0

    @property
    def steepest(self) -> float:
        """Return a float at or above the largest log ratio any outcome can have."""
        return log_of_power((1 - self.flip) / self.flip, self.copies)

    def others(self, ones: int, kept: int, *, mirrored: bool, tail: Any, aim: Any) -> Law:
        """Return the sum of a crowd with ``ones`` ones and the zeros left beside ``kept`` ones."""
        plus = ones * self.step
        zeros = (self.last - kept) * self.step + self.fixed_zeros
        if mirrored:
            plus, zeros = zeros, plus
        products = DIRECT_PRODUCTS if self.last <= SMALL_CROWD else _FEW_PRODUCTS
        return sum_of_flips(plus, zeros, self.flip, tail, aim, most_products=products)

    def knots(
        self,
        ones: int,
        kept: int,
        *,
        mirrored: bool,
        tail: Any,
        aim: Any = 1.0,
        with_miss: bool = False,
    ) -> Knots:
        """Return the best tests of value 0 against value 1 in that crowd."""
        others = self.others(ones, kept, mirrored=mirrored, tail=tail, aim=aim)
        target = target_bits(self.copies, self.flip)
        return knots_of_sum(others, target, self.steepest, with_miss=with_miss)

    def mu_tail(self) -> Any:
        """Return a tail so far out that no knot beyond it can decide mu.

        A knot at level a is worth about steepest / √(2 ln(1/a)); the middle of the curve is
        worth about copies·(p − q)/√(bits·p·q), a guess that only steers the effort.
        """
        flip = max(float(self.flip), 1e-300)
        bits = self.last * self.step + self.fixed_zeros + self.copies
        middle = self.copies * (1 - 2 * flip) / math.sqrt(bits * flip * (1 - flip))
        logarithm = min((self.steepest / (0.8 * middle)) ** 2 / 2 + 60.0, 11_000.0)
        return max(np.exp(Wide(-logarithm)), LEAST_TAIL)

    @property
    def directions(self) -> tuple[bool, ...]:
        """Return which mirrors are needed: without fixed zeros one order covers both."""
        return (False, True) if self.fixed_zeros else (False,)

    @property
    def roots(self) -> list[crowds.Box]:
        """Return the boxes that hold every crowd."""
        return [crowds.Box((0,), (self.last,), mirrored) for mirrored in self.directions]

    def asking(
        self, ask: Question, tail: Any, aim: Any = 1.0, *, with_miss: bool = False
    ) -> Callable[[crowds.Box], crowds.Ends]:
        """Return the bound of a question over a box of crowds.

        Inside a box lie records of unknown kind; whatever they hold, each of their bits has
        variance p·q, which the question may use.
        """
        variance = float(self.flip * (1 - self.flip)) * self.step * (1 - 2.0**-50)

        def bound(box: crowds.Box) -> crowds.Ends:
            (ones,), (kept,) = box.low, box.high
            knots = self.knots(
                ones, kept, mirrored=box.mirrored, tail=tail, aim=aim, with_miss=with_miss
            )
            return ask(knots, variance * (kept - ones))

        return bound


@dataclass(frozen=True)
class Crowd:
    """One given crowd: ``ones`` of the others hold a one. Both directions are covered."""

    family: Family
    ones: int

    def ends(
        self, ask: Question, tail: Any, aim: Any = 1.0, *, with_miss: bool = False
    ) -> tuple[Floats, Floats]:
        """Return both ends of an answer, the larger of the two directions."""
        answers = []
        for mirrored in (False, True):
            knots = self.family.knots(
                self.ones, self.ones, mirrored=mirrored, tail=tail, aim=aim, with_miss=with_miss
            )
            answers.append(ask(knots, 0.0))
        return (
            np.maximum(answers[0][0], answers[1][0]),
            np.maximum(answers[0][1], answers[1][1]),
        )

    def delta(self, epsilon: float) -> Bracket:
        """Return the bracket of delta for this crowd."""
        epsilon = checks.epsilon(epsilon)
        if epsilon >= self.family.steepest:
            return Bracket(0.0, 0.0)
        tail, aim = Wide(1e-30), Wide(1.0)
        while True:
            low, high = self.ends(delta_of(epsilon), tail, aim)
            if high[0] - low[0] <= 1e-9 * high[0] or tail == LEAST_TAIL:
                return Bracket(float(low[0]), float(high[0]))
            tail, aim = max(tail**2, LEAST_TAIL), min(Wide(high[0]), aim)

    def epsilon(self, delta: float) -> Bracket:
        """Return the bracket of the smallest epsilon for this crowd."""
        delta = checks.delta(delta)

        def ask(knots: Knots, _: float) -> tuple[Floats, Floats]:
            return one(knots.epsilon(delta))

        low, high = self.ends(ask, max(Wide(delta) * 1e-14, LEAST_TAIL), delta)
        return Bracket(float(low[0]), float(high[0]))

    def pointwise(self, epsilon: float) -> Bracket:
        """Return P[loss > epsilon] for this crowd, the larger of the two directions."""
        epsilon = checks.epsilon(epsilon)
        target = target_bits(self.family.copies, self.family.flip)
        ends = [
            loss_tail(
                self.family.others(self.ones, self.ones, mirrored=mirrored, tail=1e-25, aim=1.0),
                target,
                epsilon,
            )
            for mirrored in (False, True)
        ]
        return Bracket(max(low for low, _ in ends), max(high for _, high in ends))

    def gaussian_mu(self) -> Bracket:
        """Return the bracket of mu for this crowd."""
        low, high = self.ends(
            lambda knots, _: one(knots.mu()), self.family.mu_tail(), with_miss=True
        )
        return Bracket(float(low[0]), float(high[0]))

    def tradeoff(self, alphas: Floats) -> TradeOff:
        """Return the trade-off curve of this crowd: the smaller of the two orders."""
        levels = levels_of(alphas)
        low, high = self.ends(lambda knots, _: knots.power(levels), 1e-25)
        upper = np.minimum(1.0 - low + 2.0**-52, 1.0)
        return TradeOff(levels, np.maximum(1.0 - high - 2.0**-52, 0.0), upper)


def delta_of(epsilon: float) -> Question:
    """Return the question for delta at one epsilon."""

    def ask(knots: Knots, spread: float) -> tuple[Floats, Floats]:
        return one(knots.delta(epsilon, spread=spread))

    return ask


def one(ends: tuple[float, float]) -> tuple[Floats, Floats]:
    """Return the ends of one number as arrays."""
    return np.array([ends[0]]), np.array([ends[1]])
