"""The possible crowds of a choice among random decoys, and bounds for all of them.

The others hold the first value, the second, or neither; how many is not known, so a box of
possible numbers is bounded by the records that all its crowds have (see `crowds`). What the
decoys add is a law of its own, the same for every crowd (see `decoyed_sums`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from chaffinch.privacy.numerics.crowds import Box
from chaffinch.privacy.numerics.decoyed_sums import (
    Group,
    Table,
    TwoViews,
    UniformDecoys,
    flips,
    two_views,
)
from chaffinch.privacy.numerics.laws import Law, binomial, convolve, target_bits
from chaffinch.privacy.numerics.loss import Knots, knots_of_sum
from chaffinch.privacy.numerics.precision import Floats, Wide, up
from chaffinch.privacy.numerics.roots import find_crossing
from chaffinch.privacy.progress import count_step

_UNSEEN = 1e-4
"""The share of delta that a window may leave out: it does not show beside the other widths."""
_LEAST_TAIL = Wide(1e-120)
"""Products of so rare outcomes still are ordinary doubles."""
_EXCESS, _GROWTH = 0.02, 0.7
"""How far above the worst crowd seen a proven delta may be, and how that grows as delta falls."""
_COVERING, _HURRY = 0.6, 5.0
"""The share of work for a whole curve, and how much looser what is left is proven at its end."""
_STEPS = ((0.004, 0.25), (0.016, 3.0), (0.04, 1.0))
"""So far above the epsilon of the worst crowd seen a proof is tried, with such shares of work."""
_TOLERANCE = 1e-4
_MOST_WORK = 1.2e10
"""So many multiplications a proof may take: two seconds, about."""
_BOXES = 100.0
"""So many boxes, about, times the square of the share of the noise that hangs on the crowd."""
_FEWEST_BOXES, _TOO_MUCH = 4.0, 5.0
"""Tables for so many boxes at least; not begun where that is so many times the most work."""
_TABLE, _PLACE = 4e5, 4.0
"""What a table costs besides its multiplications, and what a place of it costs at an epsilon."""
_WIDE = 2_500.0
"""Of sums with this variance the difference alone shows as much as both, and sooner."""
_MOST_REFUSALS = 6
_GROUPING, _STEEPNESS = 0.06, 12.0
"""What groups of decoys may cost, as a share of delta, which falls like so high a power of V."""
_DIGITS = 10**60
_FAR = Wide(1e-30)
"""What a window of the difference may leave out: that lower end is for wide sums only."""
_FEWEST_VALUES = 4
_ADDING = 1e-13
"""Room for the roundings of a sum over groups."""


@dataclass(frozen=True)
class ValueCrowds:
    """``others`` people with a value each, among ``decoys``."""

    others: int
    decoys: UniformDecoys

    @property
    def root(self) -> Box:
        """Return the box of all crowds: how many hold the first value and the second."""
        return Box((0, 0), (self.others, self.others))

    @property
    def corners(self) -> list[tuple[int, int]]:
        """Return crowds that are often the worst: all on one value, or all elsewhere."""
        last = self.others
        if last == 0:
            return [(0, 0)]
        return [(last, 0), (0, last)] if self.decoys.values == 2 else [(last, 0), (0, 0)]

    @property
    def _corner(self) -> Box:
        return Box(self.corners[0], self.corners[0])

    def clip(self, box: Box) -> Box | None:
        """Cut off what no crowd can be; None if nothing is left."""
        return clip_box(box, self.others, self.decoys.values)

    @cached_property
    def variances(self) -> tuple[float, float]:
        """Return about the variances of a sum: of all flips, and of the coins of the decoys."""
        flip, count = float(self.decoys.flip), self.decoys.count
        coins = (1 - 2 * flip) ** 2 * count / 2 / self.decoys.values
        return (self.others + count) * flip * (1 - flip), coins

    @cached_property
    def step(self) -> float:
        """Return how many standard deviations of their number decoys are grouped by."""
        noise, coins = self.variances
        number = 2 * self.decoys.count / self.decoys.values
        slope = _STEEPNESS * coins / (noise + coins) / math.sqrt(number)
        # Near q = 1/2 the decoys change nothing.
        return 3.0 if 3 * slope <= _GROUPING else max(_GROUPING / slope, 0.2)

    @cached_property
    def work(self) -> float:
        """Return about how many multiplications the tables of one box take."""
        # Rows and columns of the table, and those of the coins alone, for a delta of 1e-6.
        noise, coins = self.variances
        side, inner = (13 * math.sqrt(v) + 10 for v in (noise + coins, noise / 2 + coins))
        groups = len(self.decoys.groups(self.step, Wide(1e-10)).fine)
        return side * inner * (side + inner) * groups

    @property
    def is_too_wide(self) -> bool:
        """Return whether tables of both sums for all boxes that are needed would take too long."""
        return self._whole_work > _TOO_MUCH * _MOST_WORK

    @property
    def _whole_work(self) -> float:
        noise, coins = self.variances
        hanging = noise * self.others / (self.others + self.decoys.count) / (noise + coins)
        return self.work * (_FEWEST_BOXES + _BOXES * hanging**2)

    @property
    def is_wide(self) -> bool:
        """Return whether the difference of the sums shows as much as both, to a thousandth."""
        return sum(self.variances) >= _WIDE

    def tail(self, delta: float) -> Any:
        """Return what windows may leave out beside a delta."""
        return max(Wide(delta) * _UNSEEN, _LEAST_TAIL)

    def two_sums(self, crowd: tuple[int, int], tail: Any) -> TwoViews:
        """Return the laws of the two sums alone, for one crowd: less than what is seen."""
        count_step("crowds")
        return self.views(Box(crowd, crowd), self.decoys.anywhere(tail), 0, tail)

    def views(self, box: Box, decoys: Table, zeros: int, tail: Any) -> TwoViews:
        """Return the laws of both sums: the records of a box, decoys, and so many known zeros."""
        first, second = (
            flips(low, self.others - high + zeros, self.decoys.flip, tail)
            for low, high in zip(box.low, box.high, strict=True)
        )
        return two_views(decoys, first, second, self.decoys.flip, tail)

    def upper_deltas(self, box: Box, epsilons: Floats, tail: Any) -> Floats:
        """Return upper ends of delta for all crowds of a box, at rising epsilons."""
        return _Grouped(self, box, tail).upper_deltas(epsilons)

    def profile(self, epsilons: Floats) -> tuple[Floats, Floats]:
        """Return both ends of the worst delta at rising epsilons; 1 is an upper end of any."""
        tail = Wide(1e-20)
        if self.is_too_wide:
            return self.lower_deltas(epsilons, tail, set()), np.ones(len(epsilons))
        while True:
            # The smallest delta is not known before: the tail follows it down.
            least = self.upper_deltas(self._corner, epsilons[-1:], tail)[0]
            if tail <= least * _UNSEEN * 10 or tail <= _LEAST_TAIL:
                break
            tail = max(tail**2, _LEAST_TAIL)
        tail = max(tail, min(self.tail(least), Wide(1e-16)))
        proven, worst = self._cover(epsilons, tail)
        return self.lower_deltas(epsilons, tail, worst), proven

    def _cover(self, epsilons: Floats, tail: Any) -> tuple[Floats, set[tuple[int, int]]]:
        """Return upper ends of the worst delta at rising epsilons, and crowds that are bad there.

        Boxes are cut until each is proven to be hardly worse than some crowd that was seen.
        """
        count = len(epsilons)
        worst = set(self.corners)
        seen = np.zeros(count)
        # Upper ends of single crowds: boxes are cut until their bounds are close to these.
        for crowd in self.corners:
            seen = np.maximum(seen, self.upper_deltas(Box(crowd, crowd), epsilons, tail))
        coarseness = _Grouped(self, self._corner, tail).coarseness(epsilons)
        proven, work, open_boxes = seen.copy(), 0.0, [self.root]
        while open_boxes:
            box = self.clip(open_boxes.pop())
            if box is None:
                continue
            count_step("crowds")
            spent = work / (_COVERING * _MOST_WORK)
            # The more work was spent, the more may be given away: any width is proven, and the
            # search ends.
            looser = _EXCESS * (1 + _HURRY * spent**2)
            excess = looser * (1 - _GROWTH * np.log(np.maximum(seen, float(tail))))
            grouped = _Grouped(self, box, tail)
            upper = grouped.bound(epsilons, seen * (1 + excess), coarseness)
            # What takes too long is not cut any further and counts with what is proven of it.
            if upper is None and (box.is_crowd or spent > 1):
                upper = grouped.upper_deltas(epsilons)
            work += grouped.work
            if upper is None:
                open_boxes += box.halves()
                continue
            proven = np.maximum(proven, upper)
            if box.is_crowd and (upper > seen).any():
                seen = np.maximum(seen, upper)
                worst.add((box.low[0], box.low[1]))
        return np.minimum(proven, 1.0), worst

    def lower_epsilon(self, delta: float, *, top: float) -> float:
        """Return an epsilon that is not enough for some crowd, or 0."""
        if self.is_wide:
            return max(self.difference(crowd).epsilon(delta)[0] for crowd in self._all_on_one_value)
        tail, best = self.tail(delta), 0.0
        for crowd in self.corners:
            views = self.two_sums(crowd, tail)
            best = max(best, _crossing(views.lower_deltas, delta, top=top)[0])
        return best

    def lower_deltas(self, epsilons: Floats, tail: Any, worst: set[tuple[int, int]]) -> Floats:
        """Return lower ends of delta at rising epsilons, of crowds thought to be bad."""
        found = []
        if self.is_wide:
            for crowd in self._all_on_one_value:
                knots = self.difference(crowd)
                found.append(np.array([knots.delta(float(epsilon))[0] for epsilon in epsilons]))
        else:
            found = [self.two_sums(crowd, tail).lower_deltas(epsilons) for crowd in worst]
        return np.asarray(np.max(found, axis=0))

    def upper_epsilon(self, delta: float, *, safe: float) -> float:
        """Return an epsilon that is proven for all crowds: ``safe`` if no smaller one is found."""
        tail = self.tail(delta)
        start = max(self._crowd_epsilon(crowd, delta, tail, safe) for crowd in self.corners)
        # What a long proof takes is not spent on the closest one.
        for step, share in _STEPS[self._whole_work > _MOST_WORK :]:
            for _ in range(_MOST_REFUSALS):
                place = up(start * (1 + step))
                if place >= safe:
                    return safe
                holds, refusing = self._holds(place, delta, tail, share * _MOST_WORK)
                if holds:
                    return place
                if refusing is None:
                    break
                # A crowd that is worse than those at the corners.
                start = max(start, self._crowd_epsilon(refusing, delta, tail, safe))
        return safe

    def _crowd_epsilon(self, crowd: tuple[int, ...], delta: float, tail: Any, safe: float) -> float:
        grouped = _Grouped(self, Box(crowd, crowd), tail)
        return _crossing(grouped.upper_deltas, delta, top=safe)[1]

    def _holds(
        self, epsilon: float, delta: float, tail: Any, most: float
    ) -> tuple[bool, tuple[int, ...] | None]:
        """Return whether delta is proven at epsilon for every crowd, or a crowd that refuses it."""
        at, allowed = np.array([epsilon]), np.array([delta])
        coarseness = _Grouped(self, self._corner, tail).coarseness(at)
        open_boxes, work = [self.root], 0.0
        while open_boxes:
            box = self.clip(open_boxes.pop())
            if box is None:
                continue
            count_step("crowds")
            grouped = _Grouped(self, box, tail)
            if grouped.bound(at, allowed, coarseness) is None:
                if box.is_crowd:
                    # A single crowd cannot be cut: this one is not proven to keep delta.
                    return False, box.low
                open_boxes += box.halves()
            work += grouped.work
            if work > most:
                return False, None
        return True, None

    def difference(self, crowd: tuple[int, int]) -> Knots:
        """Return the best tests of the first sum less the second, for one crowd.

        Less than what is seen: a lower end, for sums of any size. With the bits of the second sum
        turned round the difference is a sum of bits, of which the target has two. A decoy's
        part is 1, 0 or −1, with the same chance w of 1 and −1. Where a(1 − a) = w that is the
        law of one bit of chance a less another one; there is such an a where w ≤ 1/4, which is so
        from four values on. Of fewer values the first sum alone is looked at.
        """
        count_step("crowds")
        decoys, (first, second) = self.decoys, crowd
        flip, right = decoys.flip, 1 - decoys.flip
        if decoys.values < _FEWEST_VALUES:
            chances = [flip + (right - flip) / decoys.values]
            ones, bits = first, 1
        else:
            share = Fraction(1, decoys.values)
            either = share * (flip**2 + right**2) + (1 - 2 * share) * flip * right
            root = _square_root(1 - 4 * either)
            chances = [(1 + root) / 2, (1 - root) / 2]
            ones, bits = self.others + first - second, 2
        laws = [binomial(ones, right, _FAR), binomial(bits * self.others - ones, flip, _FAR)]
        laws += [binomial(decoys.count, chance, _FAR) for chance in chances]
        knots = knots_of_sum(_sum_of(laws), target_bits(bits, flip), math.inf)
        # A root is off by 1/_DIGITS at most, and so much of every decoy's law may be wrong.
        wrong = Wide(4.0 * decoys.count) / _DIGITS
        return replace(
            knots, gain_noise=knots.gain_noise + wrong, level_noise=knots.level_noise + wrong
        )

    @property
    def _all_on_one_value(self) -> set[tuple[int, int]]:
        # Two crowds, each the other one with the direction of the pair reversed.
        return {(self.others, 0), (0, self.others)}


class _Grouped:
    """The records that all crowds of a box have, group by group of decoys on the two values."""

    def __init__(self, among: ValueCrowds, box: Box, tail: Any) -> None:
        self.among, self.box, self.tail = among, box, tail
        self.groups = among.decoys.groups(among.step, tail)
        self.views: dict[Group, TwoViews] = {}
        self.work = 0.0

    def upper_deltas(self, epsilons: Floats) -> Floats:
        total = self._sum(self.groups.fine, epsilons, np.full(len(epsilons), np.inf))
        return np.ones(len(epsilons)) if total is None else np.minimum(total, 1.0)

    def coarseness(self, epsilons: Floats) -> Floats:
        """Return how many times as much a few groups prove of delta as many do."""
        coarse = self._sum(self.groups.coarse, epsilons, np.full(len(epsilons), np.inf))
        return np.asarray(coarse / np.maximum(self.upper_deltas(epsilons), 1e-300))

    def bound(self, epsilons: Floats, allowed: Floats, coarseness: Floats) -> Floats | None:
        """Return upper ends of delta if they are proven to be allowed; a few groups often do.

        Where a few groups are so far above that more of them will hardly do, only a single
        crowd is asked again.
        """
        total = self._sum(self.groups.coarse, epsilons, allowed * coarseness)
        if total is not None and (total <= allowed).all():
            return total
        if total is None and not self.box.is_crowd:
            return None
        return self._sum(self.groups.fine, epsilons, allowed)

    def _sum(self, groups: list[Group], epsilons: Floats, allowed: Floats) -> Floats | None:
        total = np.full(len(epsilons), self.groups.missing * (1 + _ADDING))
        for group in groups:
            views = self._views(group)
            self.work += _PLACE * views.stay.size * len(epsilons)
            total += group.chance * (1 + _ADDING) * views.upper_deltas(epsilons)
            # All groups add: what is above already stays above.
            if (total > allowed).any():
                return None
        return total

    def _views(self, group: Group) -> TwoViews:
        if group not in self.views:
            coins = self.among.decoys.coins(group.fewest, self.tail)
            # So many decoys are on neither value in all of the group.
            elsewhere = self.among.decoys.count - group.most
            views = self.among.views(self.box, coins, elsewhere, self.tail)
            side = len(coins.mass)
            self.work += len(views.stay) * side * (side + len(views.stay)) + _TABLE
            self.views[group] = views
        return self.views[group]


def clip_box(box: Box, others: int, values: int) -> Box | None:
    """Cut off what no crowd of so many others can be; None if nothing is left."""
    spare = [others - box.low[1], others - box.low[0]]
    # Whoever holds the one value does not hold the other: h₁ + h₂ ≤ others.
    high = tuple(min(h, s) for h, s in zip(box.high, spare, strict=True))
    low = box.low
    if values == 2:
        # There is no third value: who is not on the one is on the other.
        low = (max(low[0], others - high[1]), max(low[1], others - high[0]))
    if any(h < least for h, least in zip(high, low, strict=True)):
        return None
    return Box(low, high)


def _crossing(
    deltas: Callable[[Floats], Floats], delta: float, *, top: float
) -> tuple[float, float]:
    return find_crossing(
        lambda epsilon: float(deltas(np.array([epsilon]))[0]), delta, top=top, tolerance=_TOLERANCE
    )


def _sum_of(laws: Sequence[Law]) -> Law:
    # `convolve` carries no noise on, so it is kept apart and added at the end.
    total, noise = laws[0], Wide(0)
    for law in laws[1:]:
        total = convolve(replace(total, noise=None), law)
        # Masses add up to one: what one of them is off by moves no mass of the sum by more.
        noise = noise * (1 + 2 * law.relative)
        if total.noise is not None:
            noise += total.noise.max()
    if noise == 0:
        return total
    return replace(total, noise=np.full(len(total.mass), noise, dtype=Wide))


def _square_root(value: Fraction) -> Fraction:
    """Return a rational root, too small by 1/_DIGITS at most."""
    scaled = value * _DIGITS**2
    return Fraction(math.isqrt(scaled.numerator // scaled.denominator), _DIGITS)
