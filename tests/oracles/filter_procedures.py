"""S4's procedures with rationals: coefficients, one filter, several filters, the search.

Everything is written from the corrected document and shares no code with the package. q is the
flip probability here (S4 calls it p).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from math import comb

from mpmath import mp, mpf

from tests.oracles import exact, exact_views, filters

Atoms = list[tuple[Fraction, Fraction, Fraction]]
"""Values of the loss ratio R with their chances under D and under D′, R rising."""


def centred_coefficients(
    counts: Sequence[int], flip: Fraction, here: int, there: int
) -> list[Fraction]:
    """Return the c with Bc = P'(e_here − e_there) whose entries sum to zero."""
    count = (len(counts) - 1).bit_length()
    table = filters.transition(count, flip)
    size = range(len(counts))
    signal = [table[here][j] - table[there][j] for j in size]
    seen = [sum((counts[r] * table[r][i] for r in size), Fraction(0)) for i in size]
    cover = [
        [
            (seen[i] if i == j else Fraction(0))
            - sum((counts[r] * table[r][i] * table[r][j] for r in size), Fraction(0))
            for j in size
        ]
        for i in size
    ]
    answer = [*filters.solve([row[:-1] for row in cover[:-1]], signal[:-1]), Fraction(0)]
    mean = sum(answer, Fraction(0)) / len(answer)
    return [value - mean for value in answer]


def terminating_series(a: int, b: int, c: int, z: Fraction) -> Fraction:
    """Return 2F1(a, b; c; z) for whole a and b below 1 and c above 0: the sum ends."""
    total = term = Fraction(1)
    for n in range(-max(a, b)):
        term *= Fraction((a + n) * (b + n), (c + n) * (n + 1)) * z
        total += term
    return total


def series_quotient(a: int, b: int, c: int, z: Fraction) -> Fraction:
    """Return 2F1(a+1, b; c+1; z) / 2F1(a, b; c; z): Gauss's continued fraction."""
    return terminating_series(a + 1, b, c + 1, z) / terminating_series(a, b, c, z)


def large_ratio(columns: int, set_before: int, shown: int, flip: Fraction, digits: int) -> mpf:
    """Return R(y_x | y_d) for large filters: two sums of positive terms, many digits."""
    with mp.workdps(digits + 20):
        odds = (mpf(flip.denominator - flip.numerator) / flip.numerator) ** 2

        def total(ones: int) -> mpf:
            first, last = max(0, ones + shown - columns), min(ones, shown)
            term = mpf(comb(ones, first)) * comb(columns - ones, shown - first) * odds**first
            out = term
            for i in range(first, last):
                up = (ones - i) * (shown - i)
                term = term * up / ((i + 1) * (columns - ones - shown + i + 1)) * odds
                out += term
            return out

        return total(set_before + 1) / total(set_before) / mp.sqrt(odds)


def one_filter_atoms(columns: int, set_before: int, flip: Fraction) -> Atoms:
    """Return the loss ratio of one more set bit with its two laws."""
    rows = []
    for shown in range(columns + 1):
        plain = filters.shown_chance(columns, set_before, shown, flip)
        moved = filters.shown_chance(columns, set_before + 1, shown, flip)
        rows.append((moved / plain, plain, moved))
    return gathered(rows)


def filters_atoms(count: int, columns: int, flip: Fraction) -> Atoms:
    """Return R between all columns empty and one full, from the law of whole multisets."""
    pair = exact_views.assumed_pair(columns, count, flip)
    rows = [
        (Fraction(moved, plain), Fraction(plain, pair.total), Fraction(moved, pair.total))
        for plain, moved in zip(pair.first, pair.second, strict=True)
    ]
    return gathered(rows)


def gathered(rows: Atoms) -> Atoms:
    """Return the rows in rising order of R, equal values put together."""
    found: dict[Fraction, list[Fraction]] = {}
    for ratio, plain, moved in rows:
        both = found.setdefault(ratio, [Fraction(0), Fraction(0)])
        both[0] += plain
        both[1] += moved
    return [(ratio, found[ratio][0], found[ratio][1]) for ratio in sorted(found)]


def quantile(atoms: Atoms, side: int, level: Fraction) -> Fraction:
    """Return the least R whose chance of not being exceeded is at least ``level``."""
    total = Fraction(0)
    for row in atoms:
        total += row[side]
        if total >= level:
            return row[0]
    return atoms[-1][0]


def quantile_ratio(atoms: Atoms, delta: Fraction, slack: Fraction = Fraction(0)) -> Fraction:
    """Return e^epsilon of S4's last step, sign corrected; ``slack`` shifts both levels outward.

    A positive slack looks further into both tails, a negative one less far.
    """
    low = quantile(atoms, 1, max(delta - slack, Fraction(0)))
    high = quantile(atoms, 2, min(1 - delta + slack, Fraction(1)))
    return max(1 / low, high, Fraction(1))


def assumed_delta(count: int, columns: int, flip: Fraction, ratio: Fraction) -> Fraction:
    """Return the hockey-stick of S4's pair at e^epsilon = ratio, the larger direction."""
    return exact.worst_delta([exact_views.assumed_pair(columns, count, flip)], ratio)


def worst_delta(count: int, columns: int, flip: Fraction, ratio: Fraction) -> Fraction:
    """Return the largest hockey-stick over all crowds and all pairs of columns."""
    triples = exact_views.vectors_pairs(columns, count, flip)
    return exact.worst_delta((pair for *_, pair in triples), ratio)


def least_flip(
    reached: Callable[[Fraction], Fraction], delta: Fraction, steps: int
) -> tuple[Fraction, Fraction]:
    """Return flips next to each other, the first with more than ``delta``, the second not.

    More flipping is post-processing, so the hockey-stick falls and halving finds the place.
    """
    low, high = Fraction(0), Fraction(1, 2)
    for _ in range(steps):
        middle = (low + high) / 2
        low, high = (low, middle) if reached(middle) <= delta else (middle, high)
    return low, high


def skewed_counts(count: int, base: int) -> tuple[int, ...]:
    """Return base^(k − y) columns on every logo with y set bits: the skewed family, scaled."""
    return tuple(base ** (count - logo.bit_count()) for logo in range(1 << count))


def moves(count: int) -> Iterator[tuple[int, int]]:
    """Yield every pair of logos once, the smaller first."""
    for there in range(1 << count):
        for here in range(there):
            yield here, there
