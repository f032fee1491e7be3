"""Exact rationals: the released view, outcome by outcome, with integer weights.

Nothing here rounds. A flip probability is a Fraction, e^epsilon is a Fraction ``ratio``;
for a float epsilon ``exp_bounds`` gives two ratios that enclose e^epsilon to 60 digits, and
delta falls with the ratio, so the truth is enclosed as well.

This file holds the tools, one bit (math: one bit, copies, fake bits) and clear values with
decoys; ``exact_views`` holds the views with more than one sum.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from itertools import pairwise
from math import comb

Point = tuple[Fraction, Fraction]


@dataclass(frozen=True, slots=True)
class Pair:
    """Two laws on the same outcomes: integer weights that both sum to ``total``."""

    first: tuple[int, ...]
    second: tuple[int, ...]
    total: int

    def __post_init__(self) -> None:
        assert sum(self.first) == sum(self.second) == self.total

    def reversed(self) -> Pair:
        """Return the same two laws in the other order."""
        return Pair(self.second, self.first, self.total)

    def delta(self, ratio: Fraction) -> Fraction:
        """Return the hockey-stick: the sum of max(0, first - ratio * second)."""
        over, under = ratio.numerator, ratio.denominator
        excess = 0
        for one, two in zip(self.first, self.second, strict=True):
            difference = under * one - over * two
            if difference > 0:
                excess += difference
        return Fraction(excess, under * self.total)

    def pointwise(self, ratio: Fraction) -> Fraction:
        """Return P[loss > epsilon] under the first law."""
        over, under = ratio.numerator, ratio.denominator
        both = zip(self.first, self.second, strict=True)
        return Fraction(sum(one for one, two in both if under * one > over * two), self.total)

    def knots(self) -> list[Point]:
        """Return the corners (alpha, beta) of the trade-off curve, from (0, 1) to (1, 0).

        The null hypothesis is the first law. Neyman-Pearson: reject in the order of
        falling second/first; between corners the test is randomized.
        """
        both = [(o, t) for o, t in zip(self.first, self.second, strict=True) if o or t]
        infinite = sum(t for o, t in both if o == 0)
        finite = sorted(
            ((o, t) for o, t in both if o), key=lambda ot: Fraction(ot[1], ot[0]), reverse=True
        )
        alpha, power = 0, infinite
        corners = [(Fraction(0), Fraction(1)), (Fraction(0), 1 - Fraction(power, self.total))]
        for one, two in finite:
            alpha, power = alpha + one, power + two
            corners.append((Fraction(alpha, self.total), 1 - Fraction(power, self.total)))
        return corners


def product(one: Pair, two: Pair) -> Pair:
    """Return the pair that shows an outcome of both, independently."""
    return Pair(
        tuple(a * b for a in one.first for b in two.first),
        tuple(a * b for a in one.second for b in two.second),
        one.total * two.total,
    )


def worst_delta(pairs: Iterable[Pair], ratio: Fraction) -> Fraction:
    """Return the largest hockey-stick over pairs and both orders."""
    return max(max(pair.delta(ratio), pair.reversed().delta(ratio)) for pair in pairs)


def worst_pointwise(pairs: Iterable[Pair], ratio: Fraction) -> Fraction:
    """Return the largest P[loss > epsilon] over pairs and both orders."""
    return max(max(pair.pointwise(ratio), pair.reversed().pointwise(ratio)) for pair in pairs)


def envelope(pairs: Iterable[Pair]) -> list[Point]:
    """Return the corners of the lower convex envelope of all trade-off curves, both orders."""
    points: set[Point] = set()
    for pair in pairs:
        points.update(pair.knots())
        points.update(pair.reversed().knots())
    hull: list[Point] = []
    for point in sorted(points):
        if hull and point[0] == hull[-1][0]:
            continue  # sorted: the lower one at this alpha came first
        while len(hull) > 1 and _turn(hull[-2], hull[-1], point) <= 0:
            hull.pop()
        hull.append(point)
    return hull


def _turn(a: Point, b: Point, c: Point) -> Fraction:
    """Return a positive number when a, b, c turn upward."""
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])


def curve_at(corners: Sequence[Point], alpha: Fraction) -> Fraction:
    """Return the height of a piecewise linear convex curve at ``alpha``."""
    heights = [beta for at, beta in corners if at == alpha]
    if heights:
        return min(heights)
    for (left, high), (right, low) in pairwise(corners):
        if left < alpha < right:
            return high + (low - high) * (alpha - left) / (right - left)
    raise ValueError(f"alpha {alpha} is outside the curve")


def exp_bounds(epsilon: float, digits: int = 60) -> tuple[Fraction, Fraction]:
    """Return rationals just below and just above e^epsilon (for the float as it is)."""
    context = Context(prec=digits, Emax=10**9, Emin=-(10**9))
    if epsilon == 0.0:
        return Fraction(1), Fraction(1)
    near = context.exp(Decimal(epsilon))  # correctly rounded, so one step either way encloses
    return Fraction(context.next_minus(near)), Fraction(context.next_plus(near))


# --- polynomials with integer coefficients -------------------------------------------------


def times(one: Sequence[int], two: Sequence[int]) -> list[int]:
    """Return the product of two polynomials: the law of a sum of two independent counts."""
    out = [0] * (len(one) + len(two) - 1)
    for i, a in enumerate(one):
        for j, b in enumerate(two):
            out[i + j] += a * b
    return out


def count_weights(likely: int, unlikely: int, flip: Fraction) -> list[int]:
    """Return weights of Bin(likely, p) + Bin(unlikely, q), over denominator^(both)."""
    wrong, right = flip.numerator, flip.denominator - flip.numerator
    ones = [comb(likely, s) * right**s * wrong ** (likely - s) for s in range(likely + 1)]
    zeros = [comb(unlikely, s) * wrong**s * right ** (unlikely - s) for s in range(unlikely + 1)]
    return times(ones, zeros)


# --- one bit -------------------------------------------------------------------------------


def bits_pair(ones: int, zeros: int, flip: Fraction, copies: int = 1) -> Pair:
    """Return the laws of the sum with the target holding 0 (first) or 1 (second).

    ``ones`` and ``zeros`` count the other users; each bit is sent ``copies`` times.
    """
    return loose_bits_pair(copies * ones, copies * zeros, flip, copies)


def loose_bits_pair(ones: int, zeros: int, flip: Fraction, copies: int) -> Pair:
    """Return the same for any number of other one *messages* (numbers, slots together)."""
    others = count_weights(ones, zeros, flip)
    first = times(others, count_weights(0, copies, flip))
    second = times(others, count_weights(copies, 0, flip))
    return Pair(tuple(first), tuple(second), flip.denominator ** (ones + zeros + copies))


def bits_pairs(users: int, flip: Fraction, copies: int = 1, decoys: int = 0) -> Iterator[Pair]:
    """Yield the pair of every crowd: ones = 0..users-1, decoys are more zeros."""
    for ones in range(users):
        yield bits_pair(ones, users - 1 - ones + decoys, flip, copies)


# --- clear values with decoys --------------------------------------------------------------


def compositions(total: int, parts: int) -> Iterator[tuple[int, ...]]:
    """Yield all ways to write ``total`` as an ordered sum of ``parts`` counts."""
    if parts == 1:
        yield (total,)
        return
    for head in range(total + 1):
        for tail in compositions(total - head, parts - 1):
            yield (head, *tail)


def orders(counts: Sequence[int]) -> int:
    """Return the multinomial coefficient of ``counts``."""
    left, ways = sum(counts), 1
    for count in counts:
        ways *= comb(left, count)
        left -= count
    return ways


def decoyed_pair(
    others: Sequence[int],
    decoys: int,
    rate: Fraction = Fraction(1),
    target: tuple[int, int] = (0, 1),
) -> Pair:
    """Return the laws of the whole histogram, from scratch.

    ``others`` are the clear counts of the other users; each of ``decoys`` possible decoys is
    sent with ``rate`` and is uniform over the values. The target holds ``target[0]`` or [1].
    """
    values = len(others)
    sent, kept = rate.numerator, rate.denominator - rate.numerator
    weights: dict[tuple[int, ...], list[int]] = {}
    for number in range(decoys + 1):
        scale = comb(decoys, number) * sent**number * kept ** (decoys - number)
        scale *= values ** (decoys - number)
        for fallen in compositions(number, values):
            for side in (0, 1):
                shown = [a + b for a, b in zip(others, fallen, strict=True)]
                shown[target[side]] += 1
                weights.setdefault(tuple(shown), [0, 0])[side] += scale * orders(fallen)
    total = (values * rate.denominator) ** decoys
    return _pair_of(weights.values(), total)


def decoyed_delta(
    decoys: int, values: int, ratio: Fraction, rate: Fraction = Fraction(1)
) -> Fraction:
    """Return the formula: T ~ Bin(decoys, 2 rate / values) fall in the two affected values."""
    hit = 2 * rate / values
    answer = Fraction(0)
    for fallen in range(decoys + 1):
        chance = comb(decoys, fallen) * hit**fallen * (1 - hit) ** (decoys - fallen)
        halves = [0, *(comb(fallen, a) for a in range(fallen + 1)), 0]
        excess = (halves[a] - ratio * halves[a + 1] for a in range(fallen + 2))
        answer += chance * sum(x for x in excess if x > 0) / 2**fallen
    return answer


def _pair_of(weights: Iterable[Sequence[int]], total: int) -> Pair:
    """Return the pair whose outcomes carry these (first, second) weights."""
    rows = [row for row in weights if row[0] or row[1]]
    return Pair(tuple(row[0] for row in rows), tuple(row[1] for row in rows), total)
