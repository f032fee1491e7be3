"""Small exact references for the claims: laws as lists of fractions, slow and plain."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from functools import cache
from itertools import combinations_with_replacement, pairwise
from math import comb

import numpy as np
from numpy.typing import NDArray

Law = tuple[Fraction, ...]
Floats = NDArray[np.float64]
Table = tuple[Law, ...]
MultisetLaw = dict[tuple[int, ...], Fraction]
Knots = list[tuple[Fraction, Fraction]]

ZERO = Fraction(0)
ONE = Fraction(1)
FLIPS = tuple(Fraction(*pair) for pair in ((1, 100), (1, 10), (1, 4), (1, 3), (9, 20), (49, 100)))
RATIOS = tuple(Fraction(*pair) for pair in ((11, 10), (3, 2), (2, 1), (5, 1), (50, 1)))


def binomial(trials: int, chance: Fraction) -> Law:
    """Return the exact binomial law on 0..trials."""
    miss = 1 - chance
    return tuple(comb(trials, i) * chance**i * miss ** (trials - i) for i in range(trials + 1))


def convolve(first: Sequence[Fraction], second: Sequence[Fraction]) -> Law:
    """Return the law of the sum of two independent counts."""
    total = [ZERO] * (len(first) + len(second) - 1)
    for i, x in enumerate(first):
        for j, y in enumerate(second):
            total[i + j] += x * y
    return tuple(total)


@cache
def bit_sums(ones: int, zeros: int, flip: Fraction) -> Law:
    """Return the law of Bin(ones, p) + Bin(zeros, q)."""
    return convolve(binomial(ones, 1 - flip), binomial(zeros, flip))


def at(law: Sequence[Fraction], index: int) -> Fraction:
    """Return a probability, zero outside the support."""
    return law[index] if 0 <= index < len(law) else ZERO


def neighbours(ones: int, zeros: int, flip: Fraction, copies: int = 1) -> tuple[Law, Law]:
    """Return the laws of the sum when the target holds 0 and when it holds 1."""
    crowd = bit_sums(copies * ones, copies * zeros, flip)
    silent, set_bit = binomial(copies, flip), binomial(copies, 1 - flip)
    return convolve(crowd, silent), convolve(crowd, set_bit)


def hockey_stick(
    first: Iterable[Fraction], second: Iterable[Fraction], ratio: Fraction
) -> Fraction:
    """Return the exact δ at e^ε = ratio, one direction."""
    return sum((max(ZERO, x - ratio * y) for x, y in zip(first, second, strict=True)), ZERO)


def pointwise(first: Iterable[Fraction], second: Iterable[Fraction], ratio: Fraction) -> Fraction:
    """Return the exact P[loss > ε] under the first law at e^ε = ratio."""
    return sum((x for x, y in zip(first, second, strict=True) if x > ratio * y), ZERO)


def worst_deltas(users: int, flip: Fraction, ratio: Fraction, copies: int = 1) -> list[Fraction]:
    """Return δ in the worse direction for every number of ones among the others."""
    deltas = []
    for ones in range(users):
        low, high = neighbours(ones, users - 1 - ones, flip, copies)
        deltas.append(max(hockey_stick(low, high, ratio), hockey_stick(high, low, ratio)))
    return deltas


def moments(law: Sequence[Fraction]) -> tuple[Fraction, Fraction]:
    """Return mean and variance."""
    mean = sum((i * x for i, x in enumerate(law)), ZERO)
    return mean, sum(((i - mean) ** 2 * x for i, x in enumerate(law)), ZERO)


def ceiling(value: Fraction) -> int:
    """Return the least integer not below the value."""
    return -((-value.numerator) // value.denominator)


def step_ratio(records: int, ones: int, flip: Fraction, index: int) -> Fraction | None:
    """Return P(s)/P(s−1), or None where P(s−1) is zero."""
    law = bit_sums(ones, records - ones, flip)
    below = at(law, index - 1)
    return at(law, index) / below if below else None


# Floating point, for crowds where fractions are too slow and the margins are wide.


def float_binomial(trials: int, chance: float) -> Floats:
    """Return the binomial law in floating point."""
    logs = np.concatenate(([0.0], np.cumsum(np.log(np.arange(1, trials + 1)))))
    i = np.arange(trials + 1)
    choose = logs[trials] - logs[i] - logs[trials - i]
    law: Floats = np.exp(choose + i * np.log(chance) + (trials - i) * np.log1p(-chance))
    return law


def float_neighbours(ones: int, zeros: int, flip: float) -> tuple[Floats, Floats]:
    """Return the two laws of the sum in floating point."""
    crowd = np.convolve(float_binomial(ones, 1 - flip), float_binomial(zeros, flip))
    return np.convolve(crowd, [1 - flip, flip]), np.convolve(crowd, [flip, 1 - flip])


def float_hockey_stick(first: Floats, second: Floats, ratio: float) -> float:
    """Return δ, one direction."""
    return float(np.maximum(first - ratio * second, 0).sum())


def float_pointwise(first: Floats, second: Floats, ratio: float) -> float:
    """Return P[loss > ε] under the first law."""
    return float(first[first > ratio * second].sum())


# Whole records: multisets of vectors.


@cache
def flip_table(length: int, flip: Fraction) -> Table:
    """Return P[vector i is reported as vector j] for vectors of ``length`` bits."""
    size = 2**length
    distance = [[(i ^ j).bit_count() for j in range(size)] for i in range(size)]
    return tuple(tuple(flip**h * (1 - flip) ** (length - h) for h in row) for row in distance)


def add_record(law: MultisetLaw, row: Sequence[Fraction]) -> MultisetLaw:
    """Return the law of the histogram after one more record with the given output row."""
    total: MultisetLaw = {}
    for histogram, weight in law.items():
        for j, chance in enumerate(row):
            if chance:
                key = (*histogram[:j], histogram[j] + 1, *histogram[j + 1 :])
                total[key] = total.get(key, ZERO) + weight * chance
    return total


def multiset_law(records: Iterable[int], table: Table) -> MultisetLaw:
    """Return the law of the histogram of reported records."""
    law: MultisetLaw = {(0,) * len(table[0]): ONE}
    for record in records:
        law = add_record(law, table[record])
    return law


def multiset_delta(first: MultisetLaw, second: MultisetLaw, ratio: Fraction) -> Fraction:
    """Return the exact δ between two histogram laws, one direction."""
    return sum((max(ZERO, x - ratio * second.get(key, ZERO)) for key, x in first.items()), ZERO)


def crowds(size: int, kinds: int) -> Iterator[tuple[int, ...]]:
    """Yield every multiset of ``size`` records among ``kinds``."""
    return combinations_with_replacement(range(kinds), size)


# Trade-off functions.


def tradeoff_knots(null: Sequence[Fraction], alternative: Sequence[Fraction]) -> Knots:
    """Return the corners (type I, type II) of the Neyman–Pearson curve, left to right."""
    order = sorted(
        range(len(null)),
        key=lambda i: (null[i] == 0, alternative[i] / null[i] if null[i] else ONE),
        reverse=True,
    )
    alpha, beta = ZERO, ONE
    knots = [(alpha, beta)]
    for i in order:
        alpha, beta = alpha + null[i], beta - alternative[i]
        knots.append((alpha, beta))
    return knots


def tradeoff_at(knots: Knots, alpha: Fraction) -> Fraction:
    """Return the least type II error at type I error alpha, randomized tests allowed."""
    best = ONE
    for (a0, b0), (a1, b1) in pairwise(knots):
        if a1 <= alpha:
            best = min(best, b1)
        elif a0 <= alpha:
            best = min(best, b0 + (b1 - b0) * (alpha - a0) / (a1 - a0))
    return best
