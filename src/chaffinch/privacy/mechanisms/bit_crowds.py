"""The possible crowds of a collection of flipped bits, and what can be asked of one crowd.

The target adds Bin(copies, q) or Bin(copies, p) to the sum that the analyzer sees; the others
add Bin(ones, p) + Bin(zeros, q). How many of them hold a one is not known, so a box of
possible numbers is bounded by the smaller crowd that all of them contain (see `crowds`).
Swapping the roles of ones and zeros mirrors the sum: that is the other direction of a pair.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from chaffinch.errors import checks
from chaffinch.privacy.guarantee import Bracket
from chaffinch.privacy.numerics.crowds import Box, Ends
from chaffinch.privacy.numerics.laws import (
    DIRECT_PRODUCTS,
    Law,
    TargetBits,
    half_width,
    sum_of_flips,
    target_bits,
)
from chaffinch.privacy.numerics.loss import Knots, knots_of_sum, loss_tail
from chaffinch.privacy.numerics.precision import (
    LEAST_TAIL,
    Floats,
    Wide,
    down,
    log_of_power,
    up,
)
from chaffinch.privacy.numerics.ridge import OffTheRidge, RidgeCrowds, is_placeable, worst_on_ridge
from chaffinch.privacy.progress import count_step
from chaffinch.privacy.tradeoff import TradeOff, check_levels, log_gap

_Ask = Callable[[Knots, float], Ends]
"""A question to a pair (and a spread): the answer is both ends of one or several numbers."""

SMALL_CROWD = 10_000
"""Up to so many others every width is asked for in full; beyond, time counts."""
_WIDE = 90.0
"""A sum with at least this variance is followed along its ridge."""
_RARE, _WIDE_IF_RARE = Fraction(1, 100), 250.0
"""Of rarer flips a sum must be this wide: of a narrower one few crowds matter."""
_WIDE_IF_COPIED = 1_000.0
"""Of copies a sum must be this wide: they need more proof."""
_FIRST_TAIL = 1e-30
"""A window that shows something of mu, and says how far out another one has to reach."""
_ALL_PRODUCTS = 10**18
_FEW_PRODUCTS = 100_000
"""Large crowds are asked for less relative width, which an FFT can give and sooner."""


@dataclass(frozen=True)
class BitCrowds:
    """All crowds of one collection: ``last`` others, each worth ``step`` bits of one kind."""

    flip: Fraction
    copies: int
    step: int
    last: int
    fixed_zeros: int = 0
    order: bool | None = None
    """Where only one order of each pair is asked for: whether it is the mirrored one."""

    @property
    def sides(self) -> tuple[BitCrowds, BitCrowds]:
        """Return crowds in one order, and the same crowds in the other.

        Every crowd, in either order, is one of the first, or its order the other way round: with
        nothing but users among the bits, a crowd with more ones than zeros is the mirror image
        of one with fewer, so that half of them are enough.
        """
        most = self.last if self.fixed_zeros else self.last // 2
        zeros = self.fixed_zeros + (self.last - most) * self.step
        one, two = (
            replace(self, last=most, fixed_zeros=zeros, order=order) for order in (False, True)
        )
        return one, two

    @cached_property
    def steepest(self) -> float:
        """Return a float at or above the largest log ratio any outcome can have."""
        return log_of_power((1 - self.flip) / self.flip, self.copies)

    @cached_property
    def target(self) -> TargetBits:
        """Return what the target adds to the sum."""
        return target_bits(self.copies, self.flip)

    def others(
        self, ones: int, kept: int, *, mirrored: bool, tail: Any, aim: Any, direct: bool = False
    ) -> Law:
        """Return the sum of a crowd with ``ones`` ones and the zeros left beside ``kept`` ones.

        A ``direct`` sum has no noise, however long it takes.
        """
        plus = ones * self.step
        zeros = (self.last - kept) * self.step + self.fixed_zeros
        # Seen from the other end a one is a zero: the same law with the numbers swapped.
        if mirrored:
            plus, zeros = zeros, plus
        # Large crowds ask for less width, which an FFT gives sooner.
        products = DIRECT_PRODUCTS if self.last <= SMALL_CROWD else _FEW_PRODUCTS
        products = _ALL_PRODUCTS if direct else products
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
        # The noise of a transform would hide every test far out, and any of them may decide mu.
        others = self.others(ones, kept, mirrored=mirrored, tail=tail, aim=aim, direct=with_miss)
        return knots_of_sum(others, self.target, self.steepest, with_miss=with_miss)

    def guess_epsilon(self, delta: float) -> float:
        """Return about the epsilon of this delta, from a Gaussian tail: it proves nothing."""
        flip = float(self.flip)
        bits = self.last * self.step + self.fixed_zeros + self.copies
        shift = self.copies * (1 - 2 * flip) / math.sqrt(bits * flip * (1 - flip))
        # ``shift`` is the move of one person in standard deviations: ε is near shift·√(2·ln(1/δ)).
        return shift * math.sqrt(2.0 * math.log(1.0 / max(delta, 1e-300)) + 1.0) / 1.2

    def mu_tail(self, seen: float) -> Any:
        """Return a tail so far out that no test behind it can be worth more than ``seen``.

        A test at level a is worth about steepest/√(2·ln(1/a)) at most. This only steers the
        effort: what a window leaves out is bounded by its own level (`Knots.mu`).
        """
        logarithm = (self.steepest / max(seen, 1e-9)) ** 2 / 2 + self.steepest + 30.0
        return max(np.exp(Wide(-min(logarithm, 11_000.0))), LEAST_TAIL)

    def products(self, tail: Any) -> int:
        """Return about how many products the longest sum of two kinds of others takes."""
        bits = (self.last * self.step + self.fixed_zeros) // 2 + 1
        return min(2 * half_width(self.variance / 2, tail), bits) ** 2

    def fewer(self, share: float) -> BitCrowds:
        """Return the crowds with such a share of the records, rounded down."""
        # Down: fewer records are never more private.
        last, zeros = (math.floor(size * share) for size in (self.last, self.fixed_zeros))
        return replace(self, last=last, fixed_zeros=zeros)

    def added_up(self, times: int) -> BitCrowds:
        """Return crowds that are the same in so many rounds, of which the total is seen."""
        return replace(
            self,
            copies=self.copies * times,
            step=self.step * times,
            fixed_zeros=self.fixed_zeros * times,
        )

    @property
    def corner_mu(self) -> float:
        """Return a lower end of mu: what outcome 0 is worth in a crowd of zeros.

        It has the level q^copies·p^zeros, whatever floats hold of that, and e^steepest times
        that as power. Nothing is said of the mirrored order alone.
        """
        if self.order:
            return 0.0
        zeros = self.last * self.step + self.fixed_zeros
        keep = math.log1p(-float(self.flip))
        # A mu rises with the level and with the loss: both are made smaller.
        loss = self.steepest * (1 - 1e-12)
        level = (zeros * keep + self.copies * keep - self.steepest) * (1 + 1e-12)
        return max(float(log_gap(np.array(level), np.array(level + loss), side=-1)), 0.0)

    @property
    def directions(self) -> tuple[bool, ...]:
        """Return which mirrors are needed: without fixed zeros one order covers both."""
        if self.order is not None:
            return (self.order,)
        return (False, True) if self.fixed_zeros else (False,)

    @property
    def boxes(self) -> list[Box]:
        """Return the boxes that hold every crowd."""
        return [Box((0,), (self.last,), mirrored) for mirrored in self.directions]

    @cached_property
    def is_wide(self) -> bool:
        """Return whether the sum scatters so much that its ridge is the faster way (`ridge`)."""
        least = _WIDE if self.flip >= _RARE else _WIDE_IF_RARE
        least = least if self.copies == 1 else _WIDE_IF_COPIED
        return self.variance >= least and is_placeable(self.last * self.step + self.fixed_zeros)

    @cached_property
    def variance(self) -> float:
        """Return the variance of the others' sum, which is the same for every crowd."""
        bits = self.last * self.step + self.fixed_zeros
        return bits * float(self.flip * (1 - self.flip))

    def ridge_logs(self, epsilon: float, width: float) -> tuple[float, float, int] | None:
        """Return logarithms of both ends of the worst delta, and a crowd that has it.

        The ends are about ``width`` apart. None is returned where the ridge does not hold it.
        """
        count_step("points along the ridge")
        bits = self.last * self.step + self.fixed_zeros
        found = []
        for mirrored in self.directions:
            # In the mirror fixed zeros are ones, and every crowd has them.
            first = self.fixed_zeros if mirrored else 0
            crowds = RidgeCrowds(self.flip, bits, self.copies, first, self.step, self.last)
            try:
                worst = worst_on_ridge(crowds, epsilon, width=width)
            except OffTheRidge:
                return None
            # Seen from the other end a crowd of zeros is one of ones.
            found.append((worst, self.last - worst.crowd if mirrored else worst.crowd))
        lower, crowd = max((worst.lower, crowd) for worst, crowd in found)
        return lower, max(worst.upper for worst, _ in found), crowd

    def ridge_delta(self, epsilon: float, width: float) -> tuple[Bracket, int] | None:
        """Return the worst delta and a crowd that has it, or None where the ridge does not hold.

        The ends are about ``width`` apart, as a share; below 1e-300 only the upper end is kept.
        """
        found = self.ridge_logs(epsilon, width)
        if found is None:
            return None
        # A tiny delta underflows to 0, which is a lower end; and `up` of 0 is above 0.
        lower = down(math.exp(min(found[0], 0.0)))
        upper = min(up(math.exp(min(found[1], 1.0))), 1.0)
        return Bracket(min(lower, upper), upper), found[2]

    def bound_of(
        self, ask: _Ask, tail: Any, aim: Any = 1.0, *, with_miss: bool = False
    ) -> Callable[[Box], Ends]:
        """Return the bound of a question over a box of crowds.

        Inside a box lie records of unknown kind; whatever they hold, each of their bits has
        variance p·q, which the question may use.
        """
        # Rounded down: less variance than there is only makes the bound weaker.
        variance = float(self.flip * (1 - self.flip)) * self.step * (1 - 2.0**-50)

        def bound(box: Box) -> Ends:
            (ones,), (kept,) = box.low, box.high
            knots = self.knots(
                ones, kept, mirrored=box.mirrored, tail=tail, aim=aim, with_miss=with_miss
            )
            # Of kept − ones others it is not known what they hold, but each of their bits adds
            # variance.
            return ask(knots, variance * (kept - ones))

        return bound


@dataclass(frozen=True)
class Crowd:
    """One given crowd: ``ones`` of the others hold a one. Both directions are covered."""

    among: BitCrowds
    ones: int

    def ends(self, ask: _Ask, tail: Any, aim: Any = 1.0, *, with_miss: bool = False) -> Ends:
        """Return both ends of an answer, the larger of the two directions."""
        answers = []
        for mirrored in (False, True):
            knots = self.among.knots(
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
        if epsilon >= self.among.steepest:
            return Bracket(0.0, 0.0)
        tail, aim = Wide(1e-30), Wide(1.0)
        while True:
            low, high = self.ends(ask_delta(epsilon), tail, aim)
            if high[0] - low[0] <= 1e-9 * high[0] or tail == LEAST_TAIL:
                return Bracket(float(low[0]), float(high[0]))
            # What the window misses still shows: a narrower tail, and an aim closer to delta.
            tail, aim = max(tail**2, LEAST_TAIL), min(Wide(high[0]), aim)

    def epsilon(self, delta: float) -> Bracket:
        """Return the bracket of the smallest epsilon for this crowd."""
        delta = checks.delta(delta)

        def ask(knots: Knots, _: float) -> Ends:
            return as_arrays(knots.epsilon(delta))

        low, high = self.ends(ask, max(Wide(delta) * 1e-14, LEAST_TAIL), delta)
        return Bracket(float(low[0]), float(high[0]))

    def pointwise(self, epsilon: float) -> Bracket:
        """Return P[loss > epsilon] for this crowd, the larger of the two directions."""
        epsilon = checks.epsilon(epsilon)
        ends = [
            loss_tail(
                self.among.others(self.ones, self.ones, mirrored=mirrored, tail=1e-25, aim=1.0),
                self.among.target,
                epsilon,
            )
            for mirrored in (False, True)
        ]
        return Bracket(max(low for low, _ in ends), max(high for _, high in ends))

    def gaussian_mu(self) -> Bracket:
        """Return the bracket of mu for this crowd; its upper end may be far up in large ones."""
        seen = float(self.ends(ask_mu, Wide(_FIRST_TAIL), with_miss=True)[0][0])
        low, high = self.ends(ask_mu, self.among.mu_tail(seen), with_miss=True)
        return Bracket(float(low[0]), float(high[0]))

    def tradeoff(self, alphas: Floats) -> TradeOff:
        """Return the trade-off curve of this crowd: the smaller of the two orders."""
        levels = check_levels(alphas)
        low, high = self.ends(lambda knots, _: knots.power(levels), 1e-25)
        # 1 − power is rounded once: one unit of 2⁻⁵² either way.
        upper = np.minimum(1.0 - low + 2.0**-52, 1.0)
        return TradeOff(levels, np.maximum(1.0 - high - 2.0**-52, 0.0), upper)


def ask_delta(epsilon: float) -> _Ask:
    """Return the question for delta at one epsilon."""

    def ask(knots: Knots, spread: float) -> Ends:
        return as_arrays(knots.delta(epsilon, spread=spread))

    return ask


def ask_mu(knots: Knots, _: float) -> Ends:
    """Answer the question for mu; of records of unknown kind nothing is known."""
    return as_arrays(knots.mu())


def as_arrays(ends: tuple[float, float]) -> Ends:
    """Return the ends of one number as arrays."""
    return np.array([ends[0]]), np.array([ends[1]])
