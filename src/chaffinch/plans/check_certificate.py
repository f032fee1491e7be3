#!/usr/bin/env python3
"""Check the privacy promise of a plan from its certificate, trusting nobody who wrote it.

    python3 check_certificate.py plan.certificate.json [plan.json]

Exit code 0: the promise is proven; 1: it is not, or the file is no certificate. Given the plan
too, its id and its parameters must be those of the certificate. Only whole numbers and the
standard library are used, so nothing is rounded that is not rounded on purpose, here:

* A law is a list of *lower* ends of its masses, in units of 2^-bits. True masses add up to 1, so
  1 minus the sum of the list is at least everything that the list lacks, tails and roundings
  alike. For two laws P, Q with lists p, q the hockey-stick is therefore at most

      sum over s of max(0, P(s) - e·Q(s))  <=  sum over s of max(0, p(s) - e·q(s)) + 1 - sum p.

* e^epsilon is used as a smaller rational, a partial sum of its series: delta only falls in it.
* Records more never hurt: a view with more of them can be made from one with fewer. Every crowd
  with l to u ones among its N records is therefore at least as private as one with l ones and
  N - u zeros, so a few runs [l, u] that leave out no number of ones cover all crowds.
* Exchanging zeros and ones mirrors a sum, so what holds of all crowds in one direction holds of
  all crowds in the other.
* Whoever changes from one value to another leaves one sum and joins another. Seen in the mirror,
  leaving is joining, so a choice shows two independent sums, each a collection of one bit.
* Signed decoys: the difference D of two geometric numbers of messages is independent of the
  smaller one [chaffinch, docs/concepts/signed-decoys.md], so the view of one changed answer is a
  sum over D of hockey-sticks of one law W against W moved by a few places.
* Where each of the others is honest with a chance h alone, R people have the promised number of
  honest ones but for the chance that Bin(R - 1, h) is below it less one. Who is honest does not
  depend on the answers, so delta grows by no more than that chance in each round.
* Weighted numbers: one changed answer moves independent floods of codes and links by at most one,
  changes parities of single units, and moves a few tops [chaffinch, docs/concepts/
  weighted-numbers.md]. The worst two numbers are found digit by digit.
* What holds for two laws that are below a convex profile holds, over several rounds, for the
  pair of laws that has just this profile [Zhu, Dong, Wang 2022, theorem 10].
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cmp_to_key
from itertools import accumulate, pairwise
from math import isqrt
from pathlib import Path
from typing import Any, NoReturn

Law = tuple[int, list[int]]
"""The first place and the masses from there on."""

FORMAT = "chaffinch/certificate@1"
CLAIMED = ("epsilon", "delta", "neighbours", "view", "crowd", "rounds")
LARGEST_FILE = 16 << 20
FINE = 160
UNIT = 1 << FINE
"""Growth factors such as e^epsilon are whole numbers of 1/UNIT."""
MOST_PLACES = 200_000
"""How many masses the law of pairs of signed decoys may have."""
MOST_BURSTS = 1_000
"""Beside ten times their mean, how many bursts the table of a device knows at most."""
STEPS, LEFT, RIGHT = 576, 2, 5
"""Of weighted numbers: so many steps to the largest loss of the sum's noise, and how often that
the powers reach below 1 and above it."""
DOUBT = 1 << 80
"""More than a power of a growth factor is off by, in 1/UNIT: e^28 is the largest."""
MOST_WORK = 60_000_000
"""How many masses of up to 64 bits may be computed before a check is refused as too long."""
LEAST_DELTA = Fraction(1, 10**300)
"""A smaller delta would need masses of many thousand bits."""


class Refused(Exception):
    """Why a certificate proves nothing."""


class Work:
    """How much was computed so far: a certificate must not keep its reader busy for ever."""

    done = 0

    @classmethod
    def spend(cls, masses: int, bits: int) -> None:
        """Count masses of so many bits before they are computed."""
        cls.done += masses * -(-bits // 64)
        if cls.done > MOST_WORK:
            raise Refused("it takes too long to check")


def need(holds: object, reason: str) -> None:
    """Refuse a certificate unless something holds."""
    if not holds:
        raise Refused(reason)


# ---------------------------------------------------------------- laws: lower ends of masses


class Precision:
    """Masses are whole numbers of 2^-bits; those below 2^-keep of the largest are left out."""

    def __init__(self, smallest: Fraction) -> None:
        self.keep = (smallest.denominator // smallest.numerator).bit_length() + 40
        self.bits = self.keep + 40
        self.one = 1 << self.bits

    def binomial(self, count: int, chance: Fraction) -> Law:
        """Return the first place and the masses of Bin(count, chance).

        From the mode outwards by the ratio of neighbours, which is at most 1: rounding down
        costs at most one unit a step. Behind the last weight they fall faster than a geometric
        series. Divided by no less than the sum of all, every mass is a lower end.
        """
        hit, miss = chance.numerator, chance.denominator - chance.numerator
        if count == 0 or hit == 0 or miss == 0:
            return (0 if hit == 0 else count), [self.one]
        mode = (count + 1) * hit // (hit + miss)
        least, total = self.one >> self.keep, self.one
        # About how far out weights reach that are not small, before any of them is computed.
        spread = count * hit * miss // (hit + miss) ** 2
        Work.spend(2 * (isqrt(2 * self.keep * spread) + self.keep), self.bits)
        above: list[int] = []
        below: list[int] = []
        weight, place = self.one, mode
        while place < count and weight > least:
            weight = weight * ((count - place) * hit) // ((place + 1) * miss)
            place += 1
            above.append(weight)
        rise, fall = (count - place) * hit, (place + 1) * miss
        total += sum(above) + tail_of(weight + len(above), rise, fall, len(above))
        weight, place = self.one, mode
        while place > 0 and weight > least:
            weight = weight * (place * miss) // ((count + 1 - place) * hit)
            place -= 1
            below.append(weight)
        rise, fall = place * miss, (count + 1 - place) * hit
        total += sum(below) + tail_of(weight + len(below), rise, fall, len(below))
        weights = [*reversed(below), self.one, *above]
        return mode - len(below), [weight * self.one // total for weight in weights]

    def convolve(self, first: Law, second: Law) -> Law:
        """Return the law of a sum: one product of two numbers whose digits are the masses."""
        masses = [mass >> self.bits for mass in product(first[1], second[1], self.bits)]
        return self.trim(first[0] + second[0], masses)

    def trim(self, start: int, masses: list[int]) -> Law:
        """Leave out what is small at either end: it is then missing from the sum of the list."""
        least, first, last = self.one >> self.keep, 0, len(masses)
        while first < last - 1 and masses[first] < least:
            first += 1
        while last - 1 > first and masses[last - 1] < least:
            last -= 1
        return start + first, masses[first:last]

    def flipped(self, ones: int, zeros: int, flip: Fraction) -> Law:
        """Return the sum of so many flipped ones and zeros."""
        return self.convolve(self.binomial(ones, 1 - flip), self.binomial(zeros, flip))


def tail_of(weight: int, rise: int, fall: int, steps: int) -> int:
    """Return what lies behind a weight, and what rounding down has cost before it."""
    # The next ratio is rise/fall < 1, and ratios fall: a geometric series is above the tail.
    return steps * steps + (-(-weight * rise // (fall - rise)) if rise else 0)


def product(first: list[int], second: list[int], bits: int) -> list[int]:
    """Return the coefficients of the product of two polynomials with coefficients below 2^bits."""
    short, long = sorted((len(first), len(second)))
    # Twice as many bits are as much work as twice as many masses.
    words = -(-bits // 64)
    Work.spend(long * words + long * words * isqrt(short * words) // 8, 64)
    slot = (2 * bits + short.bit_length() + 8) // 8
    whole = pack(first, slot) * pack(second, slot)
    count = len(first) + len(second) - 1
    raw = whole.to_bytes(slot * (count + 1), "little")
    return [int.from_bytes(raw[i * slot : (i + 1) * slot], "little") for i in range(count)]


def pack(numbers: list[int], slot: int) -> int:
    """Return a number whose digits are these."""
    return int.from_bytes(b"".join(n.to_bytes(slot, "little") for n in numbers), "little")


class Pair:
    """Two laws over the same outcomes, which are sorted by falling ratio of their masses."""

    def __init__(self, first: Law, second: Law, one: int) -> None:
        low = min(first[0], second[0])
        high = max(first[0] + len(first[1]), second[0] + len(second[1]))
        places = [(at(first, s), at(second, s)) for s in range(low, high)]
        # Outcomes without any mass have no ratio to be sorted by.
        places = [masses for masses in places if masses != (0, 0)]
        self.atoms = sorted(places, key=cmp_to_key(fall_of_ratio))
        self.sums = [(0, 0)]
        for mass, other in self.atoms:
            before = self.sums[-1]
            self.sums.append((before[0] + mass, before[1] + other))
        self.missing = one - self.sums[-1][0]
        self.bits = one.bit_length()
        Work.spend(len(places), self.bits)

    def excess(self, growth: int) -> int:
        """Return UNIT times the hockey-stick at growth/UNIT, in units of a mass."""
        low, high = 0, len(self.atoms)
        while low < high:
            middle = (low + high) // 2
            if self.atoms[middle][0] * UNIT > growth * self.atoms[middle][1]:
                low = middle + 1
            else:
                high = middle
        first, second = self.sums[low]
        return first * UNIT - growth * second + self.missing * UNIT

    def excess_with(self, other: Pair, growth: int, one: int) -> int:
        """Return the same, times ``one``, for this pair and an independent other one together."""
        Work.spend(len(self.atoms), self.bits)
        total, place = 0, len(other.atoms)
        for mass, beside in self.atoms:
            here, there = mass * UNIT, beside * growth
            # Ratios fall here, so the outcomes of the other pair that count become fewer.
            while place and here * other.atoms[place - 1][0] <= there * other.atoms[place - 1][1]:
                place -= 1
            total += here * other.sums[place][0] - there * other.sums[place][1]
        return total + (one * one - self.sums[-1][0] * other.sums[-1][0]) * UNIT


def fall_of_ratio(one: tuple[int, int], other: tuple[int, int]) -> int:
    """Return below 0 where the first of two outcomes has the larger ratio of its masses."""
    return other[0] * one[1] - one[0] * other[1]


def at(law: Law, place: int) -> int:
    """Return the mass at a place."""
    index = place - law[0]
    return law[1][index] if 0 <= index < len(law[1]) else 0


# ---------------------------------------------------------------- mechanisms


class Bits:
    """A sum of flipped bits: ``last`` others of ``step`` equal bits, a target of ``copies``."""

    def __init__(
        self, flip: Fraction, copies: int, step: int, last: int, runs: list[list[int]]
    ) -> None:
        self.flip, self.copies, self.step, self.last = flip, copies, step, last
        self.runs = runs
        need(covers(runs, last), "its runs leave out crowds, or name some that do not exist")

    def pairs(self, precision: Precision) -> Iterator[Pair]:
        """Return for each run the pair of the smallest crowd: what all its crowds have."""
        zero = precision.binomial(self.copies, self.flip)
        one = precision.binomial(self.copies, 1 - self.flip)
        for low, high in self.runs:
            others = precision.flipped(low * self.step, (self.last - high) * self.step, self.flip)
            yield Pair(
                precision.convolve(others, zero), precision.convolve(others, one), precision.one
            )

    def profile(self, growths: list[int], precision: Precision) -> list[int]:
        """Return upper ends of delta at each growth factor, over all crowds."""
        worst = [0] * len(growths)
        for pair in self.pairs(precision):
            Work.spend(2 * len(growths), precision.bits)
            worst = [max(w, pair.excess(g)) for w, g in zip(worst, growths, strict=True)]
        return [-(-w // UNIT) for w in worst]

    def twice(self, growth: int, precision: Precision) -> int:
        """Return the upper end of delta of two rounds, in whatever two crowds."""
        pairs = list(self.pairs(precision))
        worst = max(
            pair.excess_with(other, growth, precision.one)
            for place, pair in enumerate(pairs)
            for other in pairs[: place + 1]
        )
        return -(-worst // (UNIT * precision.one))


class Decoys:
    """Clear values among uniform ones: T ~ Bin(senders, chance) of them on the two in question.

    Given T the view is 1 + Bin(T, 1/2) against Bin(T, 1/2), and its mirror image.
    """

    def __init__(self, senders: int, chance: Fraction) -> None:
        self.senders, self.chance = senders, chance

    def profile(self, growths: list[int], precision: Precision) -> list[int]:
        """Return upper ends of delta at each growth factor, over all T."""
        start, masses = precision.binomial(self.senders, self.chance)
        totals = [0] * len(growths)
        for count, mass in enumerate(masses, start):
            first, law = precision.binomial(count, Fraction(1, 2))
            pair = Pair((first + 1, law), (first, law), precision.one)
            Work.spend(2 * len(growths), precision.bits)
            excesses = [pair.excess(g) for g in growths]
            totals = [t + mass * e for t, e in zip(totals, excesses, strict=True)]
        missing = precision.one - sum(masses)
        return [-(-total // (UNIT << precision.bits)) + missing for total in totals]


class Signed:
    """Clear answers among signed decoys: geometric noise of both signs, and bursts of pairs.

    W is the smaller number of both signs, geometric with ratio², and ``flood[k - 1]`` bursts of
    k pairs on average. Only places where plus is ahead count: elsewhere W moved by m places is
    at least ratio^2m times W, and e^epsilon is at least 1. That is not so where noise of one sign
    is doubled: there all places count.
    """

    def __init__(
        self,
        ratio: Fraction,
        flood: list[Fraction],
        steps: int,
        *,
        choice: bool,
        doubled: bool = False,
    ) -> None:
        self.ratio, self.flood, self.steps, self.choice = ratio, flood, steps, choice
        self.unit = 2 if doubled else 1

    def cover(self, precision: Precision) -> list[int]:
        """Return lower ends of P[W = u], u = 0, 1, …, until they are small for good."""
        # A unit lost at one place grows to at most e^rates units: so many more are needed.
        rates = sum(self.flood, Fraction(0))
        more = int(rates * 3 / 2) + 2 * FINE
        one = precision.one << more
        steps = [k * rate for k, rate in enumerate(self.flood, start=1)]
        factors = [(rate.numerator << FINE) // rate.denominator for rate in steps]
        bursts, masses = [one * UNIT // exponential_above(rates)], [0] * self.unit
        square = self.ratio**2
        stay, leave = (
            (part.numerator << FINE) // part.denominator for part in (square, 1 - square)
        )
        least, rest = one >> precision.keep, one
        while rest > least and len(masses) <= MOST_PLACES:
            # A long number times a short one takes less than its length says.
            Work.spend(1 + len(factors) // 4, precision.bits + more // 16)
            place = len(bursts)
            masses.append((stay * masses[-self.unit] + leave * bursts[-1]) >> FINE)
            rest -= masses[-1]
            recent = bursts[: -len(factors) - 1 : -1]
            total = sum(a * b for a, b in zip(factors, recent, strict=False))
            bursts.append(total // (place << FINE))
        return [mass >> more for mass in masses[self.unit :]]

    def profile(self, growths: list[int], precision: Precision) -> list[int]:
        """Return upper ends of delta at each growth factor."""
        law = self.cover(precision)
        if self.choice:
            return self.profile_of_choice(law, growths, precision)
        # Where plus is k ahead, an answer moves W by k, and D has the odds ratio^2k, or ratio^k
        # where it counts twos.
        places = [
            (
                Pair((0, law), (k, law), precision.one),
                int(self.ratio ** (2 * k // self.unit) * UNIT),
            )
            for k in range(1, self.steps + 1)
        ]
        behind = Pair((1, law), (0, law), precision.one)
        up, down = self.ratio.numerator, self.ratio.denominator
        found = []
        for growth in growths:
            Work.spend(2 * len(places), precision.bits)
            sums = [pair.excess(growth * odds >> FINE) for pair, odds in places]
            if self.unit == 2:
                sums[0] -= -behind.excess(growth * down // up) * up // down
            found.append(-(-self.worst(sums) // UNIT))
        return found

    def worst(self, sums: list[int]) -> int:
        """Return the largest delta over all changes of the answer by 1, 2, … steps."""
        ratio, before, worst = self.ratio, Fraction(0), Fraction(0)
        for excess in sums:
            # P[D = 0] is (1 - ratio)/(1 + ratio), and P[D >= 0] is 1/(1 + ratio).
            worst = max(worst, (before * (1 - ratio) + excess) / (1 + ratio))
            before = Fraction(int((before + excess) * ratio) + 1)
        return int(worst) + 1

    def profile_of_choice(
        self, law: list[int], growths: list[int], precision: Precision
    ) -> list[int]:
        """Return the same for one value that gains an answer and one that loses it."""
        # Places with plus ahead share one ratio; the others show W, moved by one with the answer.
        share = 1 / (1 + self.ratio)
        here = [int(share * precision.one), *(int(share * self.ratio * mass) for mass in [0, *law])]
        there = [int(share * self.ratio * precision.one), *(int(share * mass) for mass in law), 0]
        gains = Pair((0, here), (0, there), precision.one)
        loses = Pair((0, there), (0, here), precision.one)
        found = []
        for growth in growths:
            excess = gains.excess_with(loses, growth, precision.one)
            found.append(-(-excess // (UNIT * precision.one)))
        return found


class Weighted:
    """Numbers of ``tops``·2^levels steps in clear codes, among noise that cancels.

    Proved in docs/concepts/weighted-numbers.md: a changed answer moves floods of codes by one, up
    and down, links by at most one, the parity of an odd level's single units, and a few tops. The
    worst two numbers are found from the top down. What is followed is delta as a function of what
    is left of epsilon, at the powers of one growth factor from ``LEFT`` to ``RIGHT``; the worse of
    two digits is taken point by point. ``codes`` has the floods of codes, each with how often it
    moves up and down.
    """

    def __init__(
        self,
        sign: Signed,
        tops: int,
        smoothing: list[Fraction],
        links: list[Fraction],
        codes: list[tuple[list[Fraction], int]],
    ) -> None:
        self.sign, self.tops, self.smoothing = sign, tops, smoothing
        self.links, self.codes = links, codes
        self.key = repr((sign.ratio, sign.flood, tops, smoothing, links, codes))

    def profile(self, growths: list[int], precision: Precision) -> list[int]:
        """Return upper ends of delta at each growth factor, for the worst change of an answer."""
        ladder = Ladder(self.tops * logarithm(1 / self.sign.ratio), precision)
        found = self.moved_tops(ladder)
        links = ladder.flood(self.links)
        for level in reversed(range(len(self.smoothing))):
            found = self.below(level, found, links, ladder)
        left = worst_of([carried[1] for carried in found.values()])
        for flood, times in self.codes:
            for losses in ladder.flood(flood).values():
                for _ in range(times):
                    left = ladder.after(losses, left)
        return [ladder.read(left, growth) << ladder.coarser for growth in growths]

    def moved_tops(self, ladder: Ladder) -> Found:
        """Return what the tops cost, by the digits that are not known yet of two numbers."""
        law = self.sign.cover(ladder.precision)
        kept: dict[tuple[int, int], list[int]] = {}
        found: Found = {}
        level, most = len(self.smoothing), self.tops
        blocks = []
        for top in range(-most - 2, most + 3):
            block = self.block(top * (-2) ** level, level)
            blocks += [] if block is None else [(top, block)]
        for old, before in blocks:
            for new, after in blocks:
                plus, minus = max(new, 0) - max(old, 0), max(-new, 0) - max(-old, 0)
                carried = []
                for units in (-1, 0, 1):
                    # Both signs have one law: it does not matter which of them moved.
                    pair = max(plus + units, minus), min(plus + units, minus)
                    if pair not in kept:
                        kept[pair] = self.moved_top(law, *pair, ladder)
                    carried.append(kept[pair])
                take_worst(found, (before, after), carried)
        return found

    def moved_top(self, law: list[int], plus: int, minus: int, ladder: Ladder) -> list[int]:
        """Return delta of tops moved so, with Y their difference and W the opposite pairs.

        Y moves by plus - minus, and W by min(max(Y, 0) + plus, max(-Y, 0) + minus). The first and
        the last Y stand for all beyond, which have the same ratios.
        """
        if abs(plus - minus) > self.tops:
            # No two numbers are farther apart: no path leads here.
            return [0] * len(ladder.places)
        ratio, moved = self.sign.ratio, plus - minus
        reach = abs(moved) + max(abs(plus), abs(minus)) + 1
        one, bits = ladder.precision.one, ladder.precision.bits
        atoms: list[tuple[int, int]] = []
        # Where a large flood begins there is next to nothing.
        seen = (place for place, mass in enumerate(law) if mass >> (bits - ladder.bits))
        start = next(seen, len(law))
        for y in range(-reach, reach + 1):
            ends = 1 / (1 - ratio) if abs(y) == reach else Fraction(1)
            here, there = (
                int((1 - ratio) / (1 + ratio) * ratio ** abs(place) * ends * one)
                for place in (y, y + moved)
            )
            shift = min(max(y, 0) + plus, max(-y, 0) + minus)
            Work.spend(len(law) - start, bits)
            for place, mass in enumerate(law[start:], start):
                other = place + shift
                beside = law[other] if 0 <= other < len(law) else 0
                atoms.append((here * mass >> bits, there * beside >> bits))
        return ladder.deltas(ladder.losses(atoms))

    def below(self, level: int, above: Found, links: dict[int, Losses], ladder: Ladder) -> Found:
        """Return what is left below a level, from what is left above it."""
        found: Found = {}
        odd, even, moved_up, moved_down = ladder.parity(self.smoothing[level])
        one = ladder.one
        for (first, second), carried in above.items():
            # So many links up carry as many units less to the level above.
            linked = {by: ladder.after(links[by], carried[1 - by]) for by in (1, -1)}
            linked[0] = carried[1]
            costs: dict[int, list[int]] = {units: linked[units // 2] for units in (-2, 0, 2)}
            for units in (-1, 1):
                up, down = linked[(units - 1) // 2], linked[(units + 1) // 2]
                Work.spend(4 * len(up), ladder.bits)
                to_odd, to_even = (
                    [-(-(a * x + b * y) // one) for x, y in zip(up, down, strict=True)]
                    for a, b in ((moved_up, moved_down), (moved_down, moved_up))
                )
                sums = zip(ladder.after(odd, to_odd), ladder.after(even, to_even), strict=True)
                costs[units] = [x + y for x, y in sums]
            for digit, other in ((0, 0), (0, 1), (1, 0), (1, 1)):
                pair = self.deeper(first, digit, level), self.deeper(second, other, level)
                if pair[0] is not None and pair[1] is not None:
                    units = other - digit
                    passed = [costs[units + carry] for carry in (-1, 0, 1)]
                    take_worst(found, (pair[0], pair[1]), passed)
        return found

    def deeper(self, block: Block, digit: int, level: int) -> Block | None:
        """Return the numbers of a block that have this digit, if any are in the range."""
        return block if block[1] else self.block(block[0] + digit * (-2) ** level, level)

    def block(self, prefix: int, level: int) -> Block | None:
        """Return the numbers with this sum of digits from a level up, if any are in the range.

        The second part says whether all are, whatever the digits below: then nothing else matters.
        """
        end = (self.tops << len(self.smoothing)) // 2
        low = prefix + sum((-2) ** lower for lower in range(1, level, 2))
        high = prefix + sum((-2) ** lower for lower in range(0, level, 2))
        if high < -end or low > end:
            return None
        return (0, True) if -end <= low and high <= end else (prefix, False)


Block = tuple[int, bool]
Found = dict[tuple[Block, Block], list[list[int]]]
"""By two blocks of numbers what is left where -1, 0 or 1 units come from below."""
Losses = tuple[int, list[int], int]
"""The place of the first of some losses, their masses, and the mass of infinite loss."""


def take_worst(found: Found, pair: tuple[Block, Block], carried: list[list[int]]) -> None:
    """Keep the worse of what is known of two blocks and what is new, at every point."""
    known = found.get(pair)
    found[pair] = (
        carried
        if known is None
        else [worst_of([*both]) for both in zip(known, carried, strict=True)]
    )


def worst_of(functions: list[list[int]]) -> list[int]:
    """Return the largest of some functions, point by point."""
    Work.spend(len(functions) * len(functions[0]), 64)
    return [max(values) for values in zip(*functions, strict=True)]


class Ladder:
    """The powers of a growth factor, and functions on them: delta by what is left of epsilon.

    Functions are upper ends in units of 2^-bits. A loss between two powers is split between them
    so that both laws keep their mass, which only makes hockey-sticks larger.
    """

    def __init__(self, scale: Fraction, precision: Precision) -> None:
        need(precision.bits <= FINE, "delta is too small for weighted numbers")
        self.precision, self.bits = precision, precision.keep
        self.one, self.coarser = 1 << self.bits, precision.bits - self.bits
        step = min(max(scale, Fraction(1, 1000)), Fraction(4)) / STEPS
        # A growth factor of few digits: its powers are those of a loss that is near the step.
        self.growth = 1 + Fraction((exponential(step) - UNIT) >> (FINE - 64), 1 << 64)
        self.places = range(-LEFT * STEPS, RIGHT * STEPS + 1)
        self.far = len(self.places)
        rising, falling = [UNIT], [UNIT]
        up, down = self.growth.numerator, self.growth.denominator
        Work.spend(2 * self.far, 2 * FINE)
        for _ in range(self.far):
            rising.append(rising[-1] * up // down)
            falling.append(falling[-1] * down // up)
        self.powers = falling[:0:-1] + rising
        """Lower ends of the powers from -far to far; each is off by less than DOUBT."""

    def losses(self, atoms: list[tuple[int, int]], total: int | None = None) -> Losses:
        """Return losses that dominate two laws, of lower ends, on the same outcomes.

        What the first law lacks of its ``total``, by default one, is infinite loss.
        """
        Work.spend(2 * len(atoms), self.precision.bits)
        up, apart = self.growth.numerator, self.growth.numerator - self.growth.denominator
        masses = [0] * (2 * self.far + 2)
        counted, least = 0, self.precision.one >> self.precision.keep
        for here, there in atoms:
            if here <= least:
                continue
            # Beyond all powers a loss is as good as infinite: what is not counted is that.
            if here * UNIT >= there * self.powers[-1]:
                continue
            counted += here
            place = bisect_right(self.powers, here * UNIT // there) - 1
            if place < 0:
                masses[0] += here
                continue
            above = (here * UNIT - there * self.powers[place]) * up
            share = min(-(-above // (apart * UNIT)), here)
            masses[place] += here - share
            masses[place + 1] += share
        first, last = 0, len(masses)
        while first < last - 1 and not masses[first]:
            first += 1
        while last - 1 > first and not masses[last - 1]:
            last -= 1
        kept = [self.rounded(mass) for mass in masses[first:last]]
        total = self.precision.one if total is None else total
        return first - self.far, kept, self.rounded(total - counted)

    def rounded(self, mass: int) -> int:
        """Return a mass in units of a function, rounded up."""
        return -(-mass >> self.coarser)

    def flood(self, rates: list[Fraction]) -> dict[int, Losses]:
        """Return the losses of a flood with one atom more, and one fewer, against the flood."""
        law = Signed(Fraction(0), rates, 1, choice=False).cover(self.precision)
        pairs = [*zip([0, *law], [*law, 0], strict=True)]
        return {1: self.losses(pairs), -1: self.losses([(b, a) for a, b in pairs])}

    def parity(self, rate: Fraction) -> tuple[Losses, Losses, int, int]:
        """Return the losses of single units that become odd and even, and the chances of moves.

        P[even] is (1 + g)/2 with g = e^-2·rate, and units go up with the chance 1/2 + 2·rate·g/(1 -
        g²) if they were even; that, and the chance to go down, are upper ends.
        """
        bits, one = self.precision.bits, self.precision.one
        low = UNIT * UNIT // exponential_above(2 * rate)
        high = -(-UNIT * UNIT // exponential(2 * rate))
        need(high < UNIT, "a rate of single units is too small")
        most, rest = (UNIT + low) >> (FINE - bits + 1), (UNIT - high) >> (FINE - bits + 1)
        # The two outcomes stand apart: what the first law lacks is counted with one of them.
        pair = self.losses([(most, rest)], one - rest), self.losses([(rest, most)], rest)

        def chance(gap: int, sign: int) -> Fraction:
            drift = 2 * rate * Fraction(gap, UNIT) / (1 - Fraction(gap, UNIT) ** 2)
            return Fraction(1, 2) + sign * drift

        moved_up = int(chance(high, 1) * self.one) + 1
        moved_down = max(int(chance(low, -1) * self.one) + 1, 0)
        return *pair, moved_up, moved_down

    def deltas(self, losses: Losses) -> list[int]:
        """Return the delta of these losses alone: at a power, Σ mass·(1 - power/loss) above it."""
        first, masses, infinite = losses
        Work.spend(4 * (len(masses) + self.far), 2 * FINE)
        found, sums, shares, place = [], 0, 0, len(masses) - 1
        for power in reversed(self.places):
            while place >= 0 and first + place > power:
                sums += masses[place]
                # Rounded down, with the power above the true one: less is taken away.
                shares += masses[place] * UNIT // (self.powers[self.far + first + place] + DOUBT)
                place -= 1
            taken = shares * self.powers[self.far + power] // UNIT
            found.append(min(max(sums - taken, 0) + infinite, self.one))
        return found[::-1]

    def after(self, losses: Losses, left: list[int]) -> list[int]:
        """Return what is left after a loss: the sum of mass·left(epsilon - loss), rounded up.

        Left of all powers delta counts as 1, and right of them as what it is at the last: it falls.
        """
        first, masses, infinite = losses
        last = first + len(masses) - 1
        above, below = max(last, 0), max(-first, 0)
        padded = [self.one] * above + left + [left[-1]] * below
        begin = above - first
        if len(masses) == 2:
            Work.spend(2 * len(left), self.bits)
            near, far = masses
            window = padded[begin - 1 : begin + len(left)]
            sums = [near * b + far * a for a, b in pairwise(window)]
        else:
            sums = product(padded, masses, self.bits + 2)[begin : begin + len(left)]
        return [min(-(-one >> self.bits) + infinite, self.one) for one in sums]

    def read(self, left: list[int], growth: int) -> int:
        """Return a function between two powers: it is convex, so that a chord lies above it."""
        place = bisect_right(self.powers, growth - DOUBT) - 1
        index = place - self.far - self.places[0]
        if index < 0:
            return self.one
        if index + 1 >= len(left):
            return left[-1]
        gap = self.powers[place + 1] + DOUBT - self.powers[place]
        share = max(growth - self.powers[place] - DOUBT, 0)
        return left[index] - (left[index] - left[index + 1]) * share // gap


Mechanism = Bits | Decoys | Signed | Weighted
Counted = list[tuple[Mechanism, int]]
"""Mechanisms, and how often each is seen."""


def covers(runs: list[list[int]], last: int) -> bool:
    """Return whether runs [l, u] follow one another without a gap from 0 to ``last``."""
    following = 0
    for low, high in runs:
        if low != following or high < low:
            return False
        following = high + 1
    return following == last + 1


# ---------------------------------------------------------------- several rounds


def compose(parts: Counted, growth: Fraction, nodes: int, precision: Precision) -> tuple[Law, int]:
    """Return the law of the total loss, as upper ends, and how much of it is infinite.

    Place i stands for a ratio that is below growth^i, rounded down, by no more than i/UNIT of it.
    """
    growths: list[int] = []
    power = UNIT
    for _ in range(nodes + 1):
        growths.append(power)
        power = power * growth.numerator // growth.denominator
        need(power >> 1024 < UNIT, "its grid reaches too far")
    total: Law = (0, [precision.one])
    infinite, known = 0, dict[object, tuple[Law, int]]()
    for mechanism, times in parts:
        # Numbers that are alike are worked out once.
        key = mechanism.key if isinstance(mechanism, Weighted) else mechanism
        if key not in known:
            deltas = mechanism.profile(growths, precision)
            known[key] = dominating_losses(growths, deltas, precision.one)
        losses, lost = known[key]
        infinite += times * lost
        left = times
        while left:
            if left & 1:
                total, lost = add_losses(total, losses, precision)
                infinite += lost
            left >>= 1
            if left:
                losses, lost = add_losses(losses, losses, precision)
                infinite += lost * left
    return total, infinite


def dominating_losses(growths: list[int], deltas: list[int], one: int) -> tuple[Law, int]:
    """Return the losses of the pair that has this profile, and how much of them is infinite.

    The profile is convex and its own mirror image, h(x) = 1 - x + x·h(1/x), so its value at 1 is
    below every chord to a mirrored point. Its lower hull is the profile of a pair whose second
    law has the jumps of the slope as masses, the first x times that, and both mirrored.
    """
    deltas[0] = min(
        -(-((g - UNIT) * one + 2 * delta * UNIT) // (g + UNIT))
        for g, delta in zip(growths, deltas, strict=True)
    )
    # A profile only falls, whatever order upper ends are in.
    deltas = list(accumulate(deltas, min))
    corners = lower_hull(growths, deltas)
    size = len(growths) - 1
    masses = [0] * (2 * size + 1)
    slopes: list[Fraction] = []
    for before, after in pairwise(corners):
        run, drop = growths[after] - growths[before], deltas[before] - deltas[after]
        slopes.append(Fraction(drop * UNIT, run))
    middle = one - deltas[corners[-1]]
    for place, (left, right) in zip(corners[1:], pairwise([*slopes, Fraction(0)]), strict=True):
        below = left - right
        above = below * growths[place] / UNIT
        masses[size + place] = int(above) + 1
        masses[size - place] = int(below) + 1
        middle -= int(above) + int(below)
    masses[size] = max(middle, 0)
    return (-size, masses), deltas[corners[-1]]


def lower_hull(x: list[int], y: list[int]) -> list[int]:
    """Return which points are the corners of the largest convex function below all of them."""
    corners: list[int] = []
    for new in range(len(x)):
        while len(corners) > 1:
            a, b = corners[-2:]
            if (x[b] - x[a]) * (y[new] - y[a]) > (y[b] - y[a]) * (x[new] - x[a]):
                break
            corners.pop()
        corners.append(new)
    return corners


def add_losses(first: Law, second: Law, precision: Precision) -> tuple[Law, int]:
    """Return the law of a sum of losses, and how much of it became infinite.

    Upper ends: a positive mass gets a unit more. Small masses at the top become infinite, small
    ones at the bottom move up: both only make delta larger.
    """
    raw = product(first[1], second[1], precision.bits + 1)
    masses = [-(-mass >> precision.bits) for mass in raw]
    least, bottom, top = precision.one >> precision.keep, 0, len(masses)
    lost = 0
    while top > 1 and masses[top - 1] < least:
        top -= 1
        lost += masses[top]
    while bottom < top - 1 and masses[bottom] < least:
        masses[bottom + 1] += masses[bottom]
        bottom += 1
    return (first[0] + second[0] + bottom, masses[bottom:top]), lost


def total_delta(losses: Law, growth: Fraction, goal: int) -> int:
    """Return the upper end of delta: the sum of mass·(1 - goal/ratio) where that is positive."""
    total, ratio = 0, UNIT
    for place in range(losses[0] + len(losses[1])):
        if ratio > goal:
            total += at(losses, place) * (ratio - goal) // ratio + 1
        # Rounded up: a larger ratio is a larger loss.
        ratio = -(-ratio * growth.numerator // growth.denominator)
    return total


# ---------------------------------------------------------------- the promise


def exponential(epsilon: Fraction) -> int:
    """Return a whole number of 1/UNIT below e^epsilon: a partial sum, squared again and again."""
    halvings = (epsilon.numerator // epsilon.denominator).bit_length() + 8
    x = (epsilon.numerator << FINE) // (epsilon.denominator << halvings)
    total, term, k = UNIT, UNIT, 1
    while term:
        term = term * x // (k << FINE)
        total, k = total + term, k + 1
    for _ in range(halvings):
        total = total * total >> FINE
    return total


def exponential_above(power: Fraction) -> int:
    """Return a whole number of 1/UNIT above e^power, the same way."""
    halvings = (power.numerator // power.denominator).bit_length() + 8
    # Squaring doubles the relative error: as many bits more are kept.
    fine = FINE + 2 * halvings
    x = -(-(power.numerator << fine) // (power.denominator << halvings))
    total, term, k = 1 << fine, 1 << fine, 1
    while term > 1:
        term = -(-term * x // (k << fine))
        total, k = total + term, k + 1
    # Terms fall by more than one half: what is left out is below the last of them.
    total += term + 1
    for _ in range(halvings):
        total = -(-total * total >> fine)
    return -(-total >> (fine - FINE))


def local_growth(parts: Counted, most: int) -> int | None:
    """Return the largest ratio that one person's own reports can have, or None if above ``most``.

    Who sees a clear report sees the value: its ratio has no bound.
    """
    total = UNIT
    for mechanism, times in parts:
        if isinstance(mechanism, Decoys | Signed | Weighted):
            return None
        ratio = -(-(1 - mechanism.flip) * UNIT // mechanism.flip)
        for _ in range(mechanism.copies * times):
            total = -(-total * ratio >> FINE)
            if total > most:
                return None
            Work.spend(1, FINE)
    return total


def cut_chance(
    flip: Fraction, values: int, slots: int, records: int, smallest: Fraction
) -> Fraction:
    """Return an upper end of the chance that any record sets more bits than it has slots.

    More than K set bits need at least K among the values - 1 that were not set.
    """
    if slots >= values:
        return Fraction(0)
    precision = Precision(smallest / records)
    start, masses = precision.binomial(values - 1, flip)
    kept = sum(masses[: max(slots - start, 0)])
    return min(Fraction(precision.one - kept, precision.one) * records, Fraction(1))


def bursts_above(noise: Signed) -> Fraction:
    """Return an upper end of the rate of all bursts, of both signs and of pairs."""
    ratio, bits = noise.ratio, 2 * FINE
    # -ln(1 - ratio) from above: terms of its series, and a geometric series for the others.
    term, total, k = 1 << bits, 0, 0
    while term >> 40:
        Work.spend(1, bits)
        k += 1
        term = -(-term * ratio.numerator // ratio.denominator)
        total += -(-term // k)
        need(k < MOST_PLACES, "a ratio is too close to 1")
    total += int(term / (1 - ratio)) + 1
    return 2 * Fraction(total, 1 << bits) + sum(noise.flood)


def dropped_chance(
    noises: list[Signed],
    share: Fraction,
    room: int,
    others: dict[int, Fraction] | None = None,
    drawn: int = 0,
) -> Fraction:
    """Return an upper end of how far the noise of one report may be from its law.

    It is dropped where it does not fit: 1 minus lower ends of P[N = n], n = 0 … room, where N
    counts messages. Bursts of k of one sign, of 2k if doubled, come at the rate share·ratio^k/k,
    twice, and bursts of k pairs at share·flood[k - 1]; n·P(n) is the sum over bursts of
    size·rate·P(n - size). The bursts of several digits come side by side, and so do ``others``:
    rates by the size, of ``drawn`` kinds. And it is drawn from tables of whole numbers of 2^-128,
    with one entry for every number of bursts and one for every kind of burst; each is rounded down
    by less than two units.
    """
    others = others or {}
    mean = share * (sum(bursts_above(noise) for noise in noises) + sum(others.values()))
    factors = [0] * room
    for size, rate in others.items():
        if size <= room:
            factors[size - 1] += int(size * share * rate * UNIT)
    for noise in noises:
        power = UNIT
        for place in range(room):
            Work.spend(1, 2 * FINE)
            power = power * noise.ratio.numerator // noise.ratio.denominator
            size = noise.unit * (place + 1)
            if size <= room:
                factors[size - 1] += 2 * noise.unit * power * share.numerator // share.denominator
        for pairs, rate in enumerate(noise.flood[: room // 2], start=1):
            factors[2 * pairs - 1] += int(2 * pairs * share * rate * UNIT)
    masses = [(UNIT << FINE) // exponential_above(mean)]
    for place in range(1, room + 1):
        Work.spend(1 + place // 4, 2 * FINE)
        found = sum(a * b for a, b in zip(factors, reversed(masses), strict=False))
        masses.append(found // (place << FINE))
    kinds = drawn + sum(2 * room + len(noise.flood) for noise in noises)
    entries = MOST_BURSTS + int(mean) * 10 + kinds * (int(mean) + 1)
    return Fraction(UNIT - sum(masses), UNIT) + Fraction(2 * entries + 1, 1 << 128)


def power_above(ratio: Fraction, exponent: int) -> tuple[int, int]:
    """Return m and e such that m·2^e is above ratio^exponent: squares, rounded up."""

    def short(number: int, power: int) -> tuple[int, int]:
        spare = max(number.bit_length() - 2 * FINE, 0)
        return -(-number >> spare), power + spare

    found, power = 1, 0
    square, twice = short(-(-(ratio.numerator << 4 * FINE) // ratio.denominator), -4 * FINE)
    while exponent:
        if exponent & 1:
            found, power = short(found * square, power + twice)
        square, twice = short(square * square, 2 * twice)
        exponent >>= 1
    return found, power


def short_crowd(users: int, reports: int, share: Fraction) -> Fraction:
    """Return an upper end of the chance that fewer than ``users`` of ``reports`` are honest.

    Chernoff: P[Bin(m, h) <= s] is at most (h·m/s)^s·((1 - h)·m/(m - s))^(m - s) for s < h·m, where
    m and s are those without the one who is protected. A hop that splits a pool may try that
    again with half as many parts, which are twice as large: then the square of it is added, and so
    on. The sum is at most x/(1 - x).
    """
    if users == 1:
        return Fraction(0)
    others, few = reports - 1, users - 2
    if share * others <= few:
        return Fraction(1)
    hits, by = power_above(share * others / few, few) if few else (1, 0)
    rest, more = power_above((1 - share) * others / (others - few), others - few)
    # A smaller chance is called that.
    found, power = hits * rest, max(by + more, -(1 << 13))
    once = found * Fraction(2) ** power
    return once / (1 - once) if 2 * once < 1 else Fraction(1)


def reached_delta(
    parts: Counted,
    cut: Fraction,
    grid: tuple[Fraction, int] | None,
    epsilon: Fraction,
    delta: Fraction,
    *,
    short: Fraction = Fraction(0),
) -> Fraction:
    """Return the upper end of delta at epsilon; refuse where nothing can be said.

    ``cut`` is the chance of messages that are cut, ``short`` that of too few honest people.
    """
    goal, rounds = exponential(epsilon), sum(times for _, times in parts)
    if local_growth(parts, goal) is not None:
        # Whatever a sender cuts off an own report is a sender's doing, too; and whoever lies has
        # no part in it.
        return Fraction(0)
    precision = Precision(delta / rounds)
    if grid is not None:
        growth, nodes = grid
        losses, infinite = compose(parts, growth, nodes, precision)
        # The ratios of all rounds together were rounded down by less than this.
        safe = goal - (goal // UNIT + 1) * 2 * nodes * rounds
        reached = total_delta(losses, growth, safe) + infinite
    else:
        mechanism, times = parts[0]
        if rounds == 1:
            (reached,) = mechanism.profile([goal], precision)
        elif times == rounds == 2 and isinstance(mechanism, Bits):
            reached = mechanism.twice(goal, precision)
        else:
            raise Refused("several rounds need a grid of losses")
    return Fraction(reached, precision.one) + cut * (1 + Fraction(goal, UNIT)) + short


# ---------------------------------------------------------------- the document


def read(path: str) -> Any:
    """Return a JSON document without floats and without a key that is there twice."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        need(len(dict(pairs)) == len(pairs), "a key is there twice")
        return dict(pairs)

    def refuse(text: str) -> NoReturn:
        raise Refused(f"{text[:20]!r} is no whole number")

    try:
        with Path(path).open("rb") as file:
            text = file.read(LARGEST_FILE + 1)
    except OSError as fault:
        raise Refused(f"{path} cannot be read ({fault.strerror})") from None
    need(len(text) <= LARGEST_FILE, "the file is too long")
    try:
        return json.loads(text, object_pairs_hook=unique, parse_float=refuse, parse_constant=refuse)
    except (ValueError, RecursionError):
        raise Refused("the file is no JSON document") from None


def check_id(document: Any, form: str) -> None:
    """Refuse a document that was changed: its id is the SHA-256 of all the rest."""
    need(isinstance(document, dict) and document.get("format") == form, f"it is not a {form}")
    body = {key: value for key, value in document.items() if key != "id"}
    canonical = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    try:
        found = hashlib.sha256(canonical.encode()).hexdigest()
    except UnicodeEncodeError:
        raise Refused("a text has half a character") from None
    need(document.get("id") == found, "its content does not match its id")


def take(document: Any, where: str, *names: str) -> list[Any]:
    """Return the fields of a table that has these and no others."""
    need(isinstance(document, dict) and set(document) == set(names), f"{where} has other fields")
    return [document[name] for name in names]


def if_any(document: Any, *names: str) -> tuple[str, ...]:
    """Return the names of fields that a table has or has not, all of them if it has the last."""
    return names if isinstance(document, dict) and names[-1] in document else ()


def whole(value: Any, name: str, least: int, most: int) -> int:
    """Return a whole number within bounds."""
    fits = isinstance(value, int) and not isinstance(value, bool) and least <= value <= most
    need(fits, f"the {name} is not a whole number from {least} to {most}")
    return int(value)


def matching(value: Any, name: str, pattern: str) -> re.Match[str]:
    """Return the match of a text that is written as it must be."""
    found = re.fullmatch(pattern, value, re.ASCII) if isinstance(value, str) else None
    if found is None:
        raise Refused(f"the {name} is not written as it must be")
    return found


def real(value: Any, name: str) -> Fraction:
    """Return a positive decimal exactly."""
    matching(value, name, r"[0-9]{1,25}(\.[0-9]{1,25})?(e[+-]?[0-9]{1,3})?")
    number = Fraction(value)
    need(number > 0, f"the {name} is not above 0")
    return number


def chance(value: Any, name: str, most: Fraction) -> Fraction:
    """Return a probability k/2^64 as a device draws it."""
    found = matching(value, name, r"([1-9][0-9]{0,19})/2\^64")
    number = Fraction(int(found[1]), 1 << 64)
    need(number <= most, f"the {name} is too large")
    return number


def rates_of(value: Any, most: int = 700) -> list[Fraction]:
    """Return the rates of a flood, whole numbers of 2^-64."""
    need(isinstance(value, list) and len(value) <= 10_000, "a flood is no list of rates")
    found = [matching(one, "rate", r"(0|[1-9][0-9]{0,22})/2\^64") for one in value]
    rates = [Fraction(int(one[1]), 1 << 64) for one in found]
    need(sum(rates) <= most, "a flood is too large")
    return rates


def flip_of(value: Any) -> Fraction:
    """Return a flip probability, which is below one half."""
    return chance(value, "flip probability", Fraction((1 << 63) - 1, 1 << 64))


KNOWN = {
    ("flips", "bit"): "bits",
    ("flips", "flags"): "bits",
    ("flips", "choice"): "choice",
    ("flipped-decoys", "choice"): "decoyed_choice",
    ("decoys", "bit"): "clear",
    ("decoys", "choice"): "clear",
    ("encoded", "number"): "number",
    ("signed-decoys", "bit"): "signed",
    ("signed-decoys", "flags"): "signed",
    ("signed-decoys", "choice"): "signed",
    ("signed-decoys", "number"): "signed",
    ("weighted", "number"): "weighted",
}
"""Which protocols are known for which questions, and the method of a part that reads them."""


class Part:
    """One question: a mechanism, how often it is seen, and the chance that messages were cut."""

    def __init__(self, document: Any, users: int, smallest: Fraction) -> None:
        names = ("name", "question", "answers", "protocol", "parameters", "runs")
        self.name, shape, answers, kind, self.parameters, runs = take(document, "a part", *names)
        need(isinstance(self.name, str), "a name is no text")
        self.shape = shape
        self.answers = whole(answers, "number of answers", 0, 10**6)
        self.users, self.smallest, self.cut = users, smallest, Fraction(0)
        builder = KNOWN.get((str(kind), str(shape)))
        need(isinstance(runs, list) and len(runs) <= 10**5, "runs are no list")
        for run in runs:
            need(isinstance(run, list) and [type(end) for end in run] == [int, int], "no run")
        if builder is None:
            raise Refused("it has a protocol or a question that is not known here")
        self.finer: list[Signed] = []
        build: Callable[[list[list[int]]], tuple[Mechanism, int]] = getattr(self, builder)
        self.mechanism, self.times = build(runs)

    def counted(self, rounds: int) -> Counted:
        """Return what is seen of it, and how often: all digits of a number change at once."""
        seen = [self.mechanism, *self.finer]
        return [(mechanism, self.times * rounds) for mechanism in seen]

    def take(self, *names: str) -> list[Any]:
        """Return the parameters of the protocol."""
        return take(self.parameters, "a protocol", *names)

    def bits(self, runs: list[list[int]]) -> tuple[Bits, int]:
        """Return flipped bits: one, or as many rounds of one as there are flags."""
        flip, copies = self.take("flip_probability", "copies")
        whole(copies, "number of copies", 1, 10_000)
        flags = whole(self.answers, "number of flags", 1, 64) if self.shape == "flags" else 1
        return Bits(flip_of(flip), copies, copies, self.users - 1, runs), flags

    def choice(self, runs: list[list[int]]) -> tuple[Bits, int]:
        """Return two rounds of one bit: the sums at the value that is left and at the other."""
        flip, copies, slots = self.take("flip_probability", "copies", "slots")
        whole(copies, "number of copies", 1, 1)
        return self.two_sums(flip_of(flip), slots, runs, self.users)

    def decoyed_choice(self, runs: list[list[int]]) -> tuple[Bits, int]:
        """Return the same; decoys, given where they fell, are users of some value."""
        flip, decoys, slots = self.take("flip_probability", "decoys", "slots")
        records = self.users * (1 + whole(decoys, "number of decoys", 1, 1_000))
        return self.two_sums(flip_of(flip), slots, runs, records)

    def two_sums(
        self, flip: Fraction, slots: Any, runs: list[list[int]], records: int
    ) -> tuple[Bits, int]:
        """Return two rounds of one bit among so many records, each cut to its slots."""
        whole(slots, "number of slots", 1, 10**6)
        whole(self.answers, "number of answers", 2, 10**6)
        self.cut = cut_chance(flip, self.answers, slots, records, self.smallest)
        return Bits(flip, 1, 1, records - 1, runs), 2

    def clear(self, runs: list[list[int]]) -> tuple[Decoys, int]:
        """Return clear values among decoys; a user fills each of the slots by chance."""
        slots, rate = self.take("decoy_slots", "decoy_rate")
        need(runs == [], "clear values have no crowds to cover")
        whole(self.answers, "number of answers", 2, 10**6)
        senders = self.users * whole(slots, "number of decoy slots", 1, 10**6)
        rate = chance(rate, "decoy rate", Fraction(1))
        return Decoys(senders, rate * Fraction(2, self.answers)), 1

    def number(self, runs: list[list[int]]) -> tuple[Bits, int]:
        """Return a number in bits: their total, or each of them as a round of its own.

        The more of its bits differ, the farther apart are two numbers: 0 and 1 are the worst.
        """
        flip, resolution, together = self.take("flip_probability", "resolution", "together")
        whole(resolution, "resolution", 1, 1_000)
        need(type(together) is bool, "together is neither true nor false")
        if together:
            last = resolution * (self.users - 1)
            return Bits(flip_of(flip), resolution, 1, last, runs), 1
        return Bits(flip_of(flip), 1, 1, self.users - 1, runs), resolution

    def signed(self, runs: list[list[int]]) -> tuple[Signed, int]:
        """Return signed decoys of one value, for as many rounds as there are flags.

        Those of a number may have digits behind the first, each with noise of its own.
        """
        number = self.shape == "number"
        names = ["ratio", "flood", "cut_for", "room", *(("steps",) if number else ())]
        names += if_any(self.parameters, "finer" if number else "doubled")
        ratio, flood, cut_for, room, *steps = self.take(*names)
        digits, doubled = number and len(steps) > 1, not number and bool(steps)
        need(
            not doubled or (steps[0] is True and self.shape != "choice"),
            "doubled is not true of yes or no",
        )
        need(runs == [], "signed decoys have no crowds to cover")
        share = Fraction(1, whole(cut_for, "number of users that noise is cut for", 1, self.users))
        whole(room, "room for noise", 0, 10**4)
        values = 1 if self.shape in ("bit", "number") else whole(self.answers, "answers", 1, 10**6)
        found = signed_of(ratio, flood, steps[0] if number else 1, choice=self.shape == "choice")
        found.unit = 2 if doubled else 1
        if digits:
            need(isinstance(steps[1], list) and 0 < len(steps[1]) <= 9, "digits are no short list")
            tables = (take(one, "a digit", "ratio", "flood", "steps") for one in steps[1])
            self.finer = [signed_of(*table, choice=False) for table in tables]
        dropped = dropped_chance([found, *self.finer], share * values, room)
        self.cut = min(dropped * self.users, Fraction(1))
        return found, values if self.shape == "flags" else 1

    def weighted(self, runs: list[list[int]]) -> tuple[Weighted, int]:
        """Return a number as weighted codes."""
        tops, levels, ratio, codes, links, pairs, cut_for, room, *single = self.take(
            *WEIGHTED, *if_any(self.parameters, "whole_flood")
        )
        need(runs == [], "weighted numbers have no crowds to cover")
        share = Fraction(1, whole(cut_for, "number of users that noise is cut for", 1, self.users))
        whole(room, "room for noise", 0, 10**4)
        whole(tops, "number of tops", 1, 64)
        sizes = sizes_of(levels)
        need(sum(sizes) <= 24 and tops << sum(sizes) <= 1 << 20, "there are too many steps")
        smoothing = [rate for group in levels for rate in rates_of(group)]
        fine = all(Fraction(1, 1 << 16) <= rate <= 64 for rate in smoothing)
        need(fine, "a rate of single units is too small or too large")
        sign = signed_of(ratio, pairs, 1, choice=False, most=5_000)
        floods = [rates_of(flood, 5_000) for flood in (codes, links, *single)]
        others: dict[int, Fraction] = defaultdict(Fraction)
        for size, times in code_sizes(tops, sizes).items():
            for count, rate in enumerate(floods[0], start=1):
                others[count * size] += times * rate
        for count, rate in enumerate(floods[1], start=1):
            others[3 * count] += len(smoothing) * rate
        for flood in floods[2:]:
            for count, rate in enumerate(flood, start=1):
                others[(1 + len(sizes)) * count] += ((tops << len(smoothing)) + 1) * rate
        others[1] += sum(smoothing)
        drawn = len(smoothing) + sum(map(len, floods))
        dropped = dropped_chance([sign], share, room, others, drawn)
        self.cut = min(dropped * self.users, Fraction(1))
        moved = [(floods[0], len(sizes)), *((flood, 1) for flood in floods[2:])]
        return Weighted(sign, tops, smoothing, floods[1], moved), 1


WEIGHTED = ("tops", "levels", "ratio", "code_flood", "link_flood", "top_flood", "cut_for", "room")


def sizes_of(levels: Any) -> list[int]:
    """Return how many levels each code of an answer has."""
    need(isinstance(levels, list) and 0 < len(levels) <= 24, "levels are no short list")
    need(all(isinstance(one, list) and one for one in levels), "levels are no lists")
    return [len(one) for one in levels]


def groups_of(tops: int, sizes: list[int]) -> list[tuple[int, int, int]]:
    """Return of the codes of each group the smallest weight, how many there are, and their gap."""
    steps, level = tops << sum(sizes), 0
    low, high = -(steps // 2), steps - steps // 2
    found = []
    for size in sizes[:-1]:
        signs = [-((-2) ** (level + digit)) for digit in range(size)]
        least = sum(weight for weight in signs if weight < 0)
        found.append((least, 1 << size, 1 << level))
        level += size
        low, high = ((end - least) >> level << level for end in (low, high))
    return [*found, (low, ((high - low) >> level) + 1, 1 << level)]


def code_sizes(tops: int, sizes: list[int]) -> Counter[int]:
    """Return how many codes there are whose atom has so many messages: it, and units against it."""
    found, levels = Counter[int](), sum(sizes)
    for least, number, gap in groups_of(tops, sizes):
        Work.spend(number * levels // 4, 64)
        for place in range(number):
            left, size = -(least + place * gap), 1
            for _ in range(levels):
                size, left = size + (left & 1), (left - (left & 1)) // -2
            found[size + abs(left)] += 1
    return found


def signed_of(ratio: Any, flood: Any, steps: Any, *, choice: bool, most: int = 700) -> Signed:
    """Return signed decoys of one value or digit, as they are written."""
    # Farther from 1 than any noise that fits: a nearer ratio would only take long.
    near = chance(ratio, "ratio", Fraction((1 << 20) - 1, 1 << 20))
    return Signed(
        near, rates_of(flood, most), whole(steps, "number of steps", 1, 1_000), choice=choice
    )


def check(document: Any) -> str:
    """Return the line that says what is proven."""
    Work.done = 0
    check_id(document, FORMAT)
    names = ("format", "id", "plan", "claim", "parts", "grid")
    _, _, plan, claim, parts, grid = take(document, "the certificate", *names)
    matching(plan, "id of the plan", "[0-9a-f]{64}")
    users, rounds, promise, short = check_claim(claim)
    need(isinstance(parts, list) and 0 < len(parts) <= 100, "it has no parts, or too many")
    smallest = promise[1] / (rounds * 10**6)
    found = [Part(part, users, smallest) for part in parts]
    counted = [one for part in found for one in part.counted(rounds)]
    cut = sum((part.cut for part in found), Fraction(0)) * rounds
    reached = reached_delta(counted, cut, read_grid(grid), *promise, short=short * rounds)
    need(reached <= promise[1], f"delta is only proven to be at most {text_of(reached)}")
    epsilon, delta, neighbours, view = (claim[name] for name in CLAIMED[:4])
    honest = claim.get("honest")
    words = (
        f" of {claim['reports']}, each honest with a chance of {honest['share']}" if honest else ""
    )
    return (
        f"({epsilon}, {delta})-differentially private ({neighbours}; view: {view}; "
        f"crowd: {users}{words}; rounds: {rounds}): delta is at most {text_of(reached)}"
    )


def check_claim(claim: Any) -> tuple[int, int, tuple[Fraction, Fraction], Fraction]:
    """Return the crowd, the rounds, epsilon and delta of a claim that can be checked.

    And the chance that in one round fewer people are honest than the crowd counts on.
    """
    liars = if_any(claim, "reports", "honest")
    claimed = take(claim, "the claim", *CLAIMED, *liars)
    (epsilon, delta, neighbours, view, users, rounds), among = claimed[:6], claimed[6:]
    promise = real(epsilon, "epsilon"), real(delta, "delta")
    need(promise[0] <= 700 and promise[1] <= 1, "epsilon or delta is too large")
    need(promise[1] >= LEAST_DELTA, "delta is too small: it takes too long to check")
    whole(users, "crowd", 1, 10**9)
    whole(rounds, "number of rounds", 1, 10**6)
    seen = "messages" if users > 1 else "one report"
    need(neighbours == "replace-one" and view == seen, "it is about other neighbours or views")
    short = short_crowd(users, *honest_of(*among)) if among else Fraction(0)
    return users, rounds, promise, short


def honest_of(reports: Any, honest: Any) -> tuple[int, Fraction]:
    """Return how many people send reports, and the chance of each of the others to be honest."""
    share, reading = take(honest, "the honest share", "share", "reading")
    need(reading == "independent", "the honest share is meant in a way that is not known here")
    part = exact(share, "honest share")
    need(Fraction(1, 1000) <= part < 1, "the honest share is not at least 0.001 and below 1")
    return whole(reports, "number of reports", 1, 10**12), part


def read_grid(document: Any) -> tuple[Fraction, int] | None:
    """Return the growth from node to node of the grid of losses, and how many nodes it has."""
    if document is None:
        return None
    growth, nodes = take(document, "the grid", "growth", "nodes")
    found = matching(growth, "growth", "([1-9][0-9]{0,11})/([1-9][0-9]{0,11})")
    factor = Fraction(int(found[1]), int(found[2]))
    need(1 < factor <= 2, "the growth is not above 1 and at most 2")
    return factor, whole(nodes, "number of nodes", 1, 20_000)


# ---------------------------------------------------------------- the plan


CLEAR = ("decoys", "signed-decoys", "weighted")
"""Protocols that send answers in clear, in reports of no fixed number of messages."""


def check_plan(plan: Any, certificate: Any) -> str:
    """Refuse a plan that is not the certificate's; return what it says that is not checked here.

    Every field is known, and what follows from the parameters is what follows. A field that is
    not known here could mean anything: also that people report more often.
    """
    check_id(plan, "chaffinch/plan@1")
    need(plan["id"] == certificate["plan"], "the certificate is about another plan")
    fields = ("title", "crowd", "questions", "guarantee", "honest_shares", "messages")
    title, _, questions, _, shares, messages = take(plan, "the plan", "format", "id", *fields)[2:]
    need(isinstance(title, str), "the plan's title is no text")
    check_promise(plan, certificate)
    parts = certificate["parts"]
    need(len(questions) == len(parts), "the plan has other questions")
    check_answered(questions)
    for asked, part in zip(questions, parts, strict=True):
        named = {name: value for name, value in part.items() if name != "runs"}
        need(same(part_of(asked), named), "the plan has other questions, protocols or parameters")
    need(len({part["name"] for part in parts}) == len(parts), "the plan asks a question twice")
    sizes = [messages_of(part) for part in parts]
    sent: Any = {"slots": sum(size[0] for size in sizes), "codes": sum(size[1] for size in sizes)}
    varying = [part["name"] for part in parts if part["protocol"] in CLEAR]
    sent |= {"varying": varying} if varying else {}
    need(same(messages, sent), "the plan sends other messages")
    return check_shares(shares, real(plan["guarantee"]["epsilon"], "epsilon"))


def check_promise(plan: Any, certificate: Any) -> None:
    """Refuse a plan that promises something else, or counts on people that it does not have."""
    claim, parts = certificate["claim"], certificate["parts"]
    sizes = ("users", "reports", "counted_on", "rounds")
    liars = if_any(plan["crowd"], "honest")
    crowd = take(plan["crowd"], "the plan's crowd", *sizes, *liars)
    users, reports, counted, rounds = (whole(size, "size", 1, 10**12) for size in crowd[:4])
    need(counted <= users <= reports, "the plan counts on more people than it has")
    texts = ("epsilon", "delta", "neighbours", "view")
    words = ("crowd", "local_epsilon", "method")
    promise = take(plan["guarantee"], "the plan's guarantee", *texts, *words)
    stated = {**dict(zip(texts, promise, strict=False)), "crowd": counted, "rounds": rounds}
    stated |= {"reports": reports, "honest": crowd[4]} if liars else {}
    need(same(stated, claim), "the plan promises something else")
    people, local, method = promise[4:]
    apart = any(part["protocol"] in ("signed-decoys", "weighted") for part in parts)
    hop = " and a first hop that does not work with the analyzer" if apart else ""
    among = ""
    if liars:
        share = crowd[4]["share"]
        among = (
            f" (of {reports} people, each honest with a chance of {share}, independently of one "
            "another and of the answers)"
        )
    own = "nobody but oneself" if counted == 1 else f"{counted} honest users{among}{hop}"
    need(people == own, "the plan counts on another crowd in its words")
    need(method in ("exact", "upper-bound"), "the plan's method is not known here")
    if local != "infinite":
        clear = any(part["protocol"] in CLEAR for part in parts)
        need(not clear, "the plan has clear values, and no local guarantee")
        least = sum((local_loss(part) for part in parts), Fraction(0)) * rounds
        need(real(local, "local epsilon") >= least, "the plan's local epsilon is too small")


def check_shares(shares: Any, epsilon: Fraction) -> str:
    """Refuse shares that cannot be true; return that they are not proven, where there are any."""
    need(isinstance(shares, list), "honest shares are no list")
    before, infinite = Fraction(1), False
    for one in shares:
        share, reached = take(one, "an honest share", "share", "epsilon")
        part = exact(share, "honest share")
        infinite = infinite or reached == "infinite"
        later = epsilon if infinite else real(reached, "epsilon of a share")
        fits = 0 < part < before and later >= epsilon and (reached == "infinite") == infinite
        need(fits, "honest shares do not fall, with rising epsilons")
        before, epsilon = part, later
    return "; what the plan says of smaller honest shares is not checked here" if shares else ""


def same(one: Any, other: Any) -> bool:
    """Return whether two documents are the same to the letter: true is not 1."""
    first, second = (json.dumps(document, sort_keys=True) for document in (one, other))
    return first == second


def check_answered(questions: Any) -> None:
    """Refuse a number without the parts behind it: who answered, and squares for its spread."""
    name: Any = None
    wanted: list[str] = []
    for asked in questions:
        need(isinstance(asked, dict), "a question is no table")
        question, kind = asked.get("question"), wanted.pop(0) if wanted else None
        needed = name if kind else None
        need(asked.get("answers_to") == needed, "who answered, or a square, is lost")
        need(isinstance(question, dict), "a question is no table")
        bit = same(question, {"kind": "bit", "missing": "refuse"})
        squares = question.get("kind") == "number" and not question.get("spread")
        need(kind != "bit" or bit, "no bit")
        need(kind != "squares" or (squares and question.get("missing") == "refuse"), "no squares")
        if kind is None and question.get("kind") == "number":
            name = asked.get("name")
            wanted = ["bit"] * (question.get("missing") == "count")
            wanted += ["squares"] * (question.get("spread") is True)
    need(not wanted, "who answered, or a square, is lost")


def part_of(asked: Any) -> dict[str, Any]:
    """Return a question of a plan as a certificate writes it."""
    fields = ("name", "question", "protocol", *(["answers_to"] if "answers_to" in asked else []))
    name, question, protocol = take(asked, "a question", *fields)[:3]
    shape, answers = shape_of(question)
    parameters = parameters_of(protocol)
    if isinstance(parameters.get("finer"), list):
        parameters["finer"] = [parameters_of(digit) for digit in parameters["finer"]]
    return {
        "name": name,
        "question": shape,
        "answers": answers,
        "protocol": protocol["kind"],
        "parameters": parameters,
    }


def parameters_of(table: Any) -> dict[str, Any]:
    """Return the parameters of a protocol or a digit of a plan as a certificate writes them."""
    need(isinstance(table, dict), "a protocol or a digit is no table")
    parameters = {key: value for key, value in table.items() if key != "kind"}
    for key in ("flip_probability", "decoy_rate", "ratio"):
        if key in parameters:
            parameters[key] = in_grains(parameters[key], key)
    for key in ("flood", "code_flood", "link_flood", "top_flood", "whole_flood"):
        if isinstance(parameters.get(key), list):
            parameters[key] = [in_grains(rate, "rate of a flood") for rate in parameters[key]]
    if "levels" in parameters:
        sizes_of(parameters["levels"])
        parameters["levels"] = [
            [in_grains(rate, "rate of single units") for rate in group]
            for group in parameters["levels"]
        ]
    return parameters


def in_grains(value: Any, name: str) -> str:
    """Return a decimal of a plan as a certificate writes it, a whole number of 2^-64."""
    grains = exact(value, name) * (1 << 64)
    need(grains.denominator == 1, f"the {name} is not a whole number of 2^-64")
    return f"{grains}/2^64"


def exact(value: Any, name: str) -> Fraction:
    """Return a decimal as a plan writes it, with or without a sign."""
    return Fraction(matching(value, name, r"-?[0-9]{1,25}(\.[0-9]{1,75})?(e[+-]?[0-9]{1,3})?")[0])


def shape_of(question: Any) -> tuple[str, int]:
    """Return what an answer looks like, and how many named answers there are."""
    kind = question["kind"]
    need(kind in ("bit", "choice", "flags", "number"), "a kind of question is not known here")
    missing = question["missing"]
    if kind == "bit":
        take(question, "a bit", "kind", "missing")
        need(missing in ("no", "yes", "count", "refuse"), "a missing answer is not known here")
        return ("choice", 3) if missing == "count" else ("bit", 2)
    if kind == "choice":
        _, _, values, unknown = take(question, "a choice", "kind", "missing", "values", "unknown")
        first, size = listed(values)
        known = [missing] if missing not in ("count", "refuse") else []
        for value in [*known, *([] if unknown is None else [unknown])]:
            need(is_value(value, values, first, size), "an answer stands for a value not asked for")
        return kind, size + (missing == "count")
    if kind == "flags":
        (names,) = take(question, "flags", "kind", "missing", "names")[2:]
        need(missing in ("none", "count", "refuse"), "a missing answer is not known here")
        return kind, listed(names)[1] + (missing == "count")
    bounds = ("low", "high", "unit", "clip", "quantiles")
    more = ("spread",) if "spread" in question else ()
    low, high, unit, *switches = take(question, "a number", "kind", "missing", *bounds, *more)[2:]
    ends = exact(low, "lower bound"), exact(high, "upper bound")
    named = missing in ("count", "refuse")
    inside = named or ends[0] <= exact(missing, "missing answer") <= ends[1]
    need(ends[0] < ends[1] and inside, "the bounds of a number are not in order")
    plain = isinstance(unit, str) and {type(switch) for switch in switches} == {bool}
    need(plain, "a number is not written as it must be")
    return kind, 0


def listed(values: Any) -> tuple[int, int]:
    """Return the first of a range of values (0 of a list), and how many there are."""
    if isinstance(values, list):
        texts = all(isinstance(value, str) for value in values)
        need(texts and len(set(values)) == len(values), "values are no different texts")
        return 0, len(values)
    ends = take(values, "a range", "first", "last")
    first, last = (whole(end, "end of a range", -(10**15), 10**15) for end in ends)
    return first, last - first + 1


def is_value(value: Any, values: Any, first: int, size: int) -> bool:
    """Return whether a text names one of the values."""
    if isinstance(values, list):
        return value in values
    return first <= int(matching(value, "value", "-?[0-9]{1,16}")[0]) < first + size


def messages_of(part: Any) -> tuple[int, int]:
    """Return how many slots of a report a question has, and how many codes fill them."""
    own, answers = part["parameters"], part["answers"]
    if part["protocol"] == "encoded":
        return own["resolution"], 1 if own["together"] else own["resolution"]
    if part["protocol"] == "decoys":
        return 1 + own["decoy_slots"], answers
    if part["protocol"] == "signed-decoys":
        values = answers if part["question"] in ("choice", "flags") else 1
        sent = values if part["question"] == "flags" else own.get("steps", 1)
        finer = own.get("finer", [])
        sent += sum(digit["steps"] for digit in finer)
        return sent + own["room"], 2 * values * (1 + len(finer))
    if part["protocol"] == "weighted":
        sizes = sizes_of(own["levels"])
        single, steps = "whole_flood" in own, own["tops"] << sum(sizes)
        codes = sum(number for _, number, _ in groups_of(own["tops"], sizes))
        codes += sum(sizes) + 2 + (steps + 1) * single
        return (1 if single else len(sizes)) + own["room"], codes
    if part["question"] == "choice":
        return min(own["slots"], answers) * (1 + own.get("decoys", 0)), answers
    bits = 1 if part["question"] == "bit" else answers
    return own["copies"] * bits, bits


def local_loss(part: Any) -> Fraction:
    """Return an upper end of what one report of flipped bits can lose, whoever shuffles it."""
    own, bits = part["parameters"], 2
    if part["protocol"] == "encoded":
        bits = own["resolution"]
    elif part["question"] != "choice":
        bits = own["copies"] * (part["answers"] if part["question"] == "flags" else 1)
    flip = flip_of(own["flip_probability"])
    return bits * logarithm((1 - flip) / flip)


def logarithm(ratio: Fraction) -> Fraction:
    """Return a number above ln(ratio): what `exponential`, which is too small, takes there."""
    low, high = 0, 64 * UNIT
    while low < high:
        middle = (low + high) // 2
        if exponential(Fraction(middle, UNIT)) * ratio.denominator < ratio.numerator * UNIT:
            low = middle + 1
        else:
            high = middle
    return Fraction(low, UNIT)


def text_of(value: Fraction) -> str:
    """Return a positive number in four digits, rounded up."""
    if value == 0:
        return "0"
    exponent = 0
    while value < 1:
        value, exponent = value * 10, exponent - 1
    digits = -(-value.numerator * 1000 // value.denominator)
    if digits == 10_000:
        digits, exponent = 1000, exponent + 1
    return f"{digits // 1000}.{digits % 1000:03d}e{exponent}"


def main(arguments: list[str]) -> int:
    """Check a certificate, and perhaps its plan; print one line."""
    if arguments in (["--help"], ["-h"]) or len(arguments) not in (1, 2):
        print("usage: check_certificate.py CERTIFICATE [PLAN]")
        return 0 if arguments[:1] in (["--help"], ["-h"]) else 1
    try:
        certificate = read(arguments[0])
        words = check(certificate)
        name = certificate["plan"][:16]
        line = f"proven of these parameters, not checked to be those of plan {name}: {words}"
        if len(arguments) == 2:
            try:
                unchecked = check_plan(read(arguments[1]), certificate)
                line = f"proven: plan {name} is {words}{unchecked}"
            except (AttributeError, KeyError, TypeError, ValueError):
                raise Refused("the plan is not written as plans are") from None
    except Refused as reason:
        print(f"not proven: {reason}")
        return 1
    print(line)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
