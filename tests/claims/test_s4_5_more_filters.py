"""S4 parts II and III line by line, misprints among it. Here q is the flip probability."""

from __future__ import annotations

from fractions import Fraction
from itertools import permutations, product
from math import comb, factorial, prod

import pytest

from .ledger import CORRECTED, HOLDS, claim
from .reference import (
    FLIPS,
    ONE,
    ZERO,
    bit_sums,
    flip_table,
    hockey_stick,
    multiset_law,
    neighbours,
)
from .test_s4_2_one_filter import CASES, gauss, loss, power_mean, quantile

QUARTER = Fraction(1, 4)


@claim(
    "S4",
    "II.1, definition of R",
    "P(A(d′) = x)/P(A(d) = x) is f(y_x | A(d′))/f(y_x | A(d)): only the number of set bits counts.",
    HOLDS,
    correction="Proof: after the shuffle all orders of the same bits have the same chance.",
)
def test_only_the_count_matters() -> None:
    for q, m in product(FLIPS, (1, 2, 3, 4)):
        for yd in range(m):
            laws = []
            for ones in (yd, yd + 1):
                bits = (1,) * ones + (0,) * (m - ones)
                orders = list(permutations(bits))
                law = {}
                for x in product((0, 1), repeat=m):
                    chances = (
                        prod(q if s != t else 1 - q for s, t in zip(order, x, strict=True))
                        for order in orders
                    )
                    law[x] = sum(chances, ZERO) / len(orders)
                laws.append(law)
            for x, plain in laws[0].items():
                assert laws[1][x] / plain == loss(m, yd, sum(x), q)


@claim(
    "S4",
    "II.1, one more bit",
    "f(y_x | x = A(d)) is obtained by replacing y_d with y_d + 1.",
    CORRECTED,
    correction="f(y_x | x = A(d′)) is; the displayed formula below it says so.",
    counter_example="m = 1, y_d = 0, y_x = 0, q = 1/4: f is 3/4 for d and 1/4 for d′.",
)
def test_one_more_bit() -> None:
    assert bit_sums(0, 1, QUARTER)[0] == 1 - QUARTER
    assert bit_sums(1, 0, QUARTER)[0] == QUARTER
    for q, m, yd in CASES:
        p = 1 - q
        for yx in range(m + 1):
            lead = comb(m, yx) * q ** (yd + 1 + yx) * p ** (m - yd - 1 - yx)
            more = lead * power_mean(m, yd + 1, yx, (p / q) ** 2)
            assert more == bit_sums(yd + 1, m - yd - 1, q)[yx]


def ratios(m: int, yd: int, q: Fraction) -> list[Fraction]:
    return [loss(m, yd, yx, q) for yx in range(m + 1)]


@claim(
    "S4",
    "II.1, step (1)",
    "It is enough to simulate y_x = Bin(y_d, p) + Bin(m − y_d, q) for both quantiles of step (3).",
    CORRECTED,
    correction="The second one needs y′_x = Bin(y_d + 1, p) + Bin(m − y_d − 1, q), which step (1) "
    "does not draw.",
    counter_example="m = 2, y_d = 0, q = 1/4, δ = 1/10: the 0.9-quantile of R is 5/3 under d, 3 "
    "under d′. None with m = 1.",
)
def test_both_laws_are_needed() -> None:
    values, level = ratios(2, 0, QUARTER), Fraction(9, 10)
    assert quantile(values, bit_sums(0, 2, QUARTER), level) == Fraction(5, 3)
    assert quantile(values, bit_sums(1, 1, QUARTER), level) == 3
    for (q, m, yd), delta in product(CASES, (Fraction(1, 10), Fraction(1, 5))):
        values = ratios(m, yd, q)
        here = quantile(values, bit_sums(yd, m - yd, q), 1 - delta)
        assert here <= quantile(values, bit_sums(yd + 1, m - yd - 1, q), 1 - delta)


@claim(
    "S4",
    "II.1, remark on δ",
    "The second quantile is that of ln R(y′_x | y′_d).",
    CORRECTED,
    correction="Of ln R(y′_x | y_d): the output of d′, in the same ratio of d′ over d. With y′_d = "
    "y_d + 1 the ratio would be that of y_d + 2 set bits over y_d + 1.",
    counter_example="m = 2, y_d = 0, q = 1/4, δ = 1/5: 3/5 as printed, 5/3 in truth. With m = 1 "
    "there is no second bit to set.",
)
def test_the_second_ratio_is_the_first() -> None:
    law, level = bit_sums(1, 1, QUARTER), Fraction(4, 5)
    assert quantile(ratios(2, 1, QUARTER), law, level) == Fraction(3, 5)
    assert quantile(ratios(2, 0, QUARTER), law, level) == Fraction(5, 3)


@claim(
    "S4",
    "II.2, the helper it calls",
    "₂F₁(a, b; c; z)/₂F₁(a + 1, b; c + 1; z) comes from evaluate_privacy_of_one_bloom_filter.",
    CORRECTED,
    correction="From one over evaluate_gauss_continued_fraction, which returns the quotient the "
    "other way up; the function named is the one that calls this one, so they would call one "
    "another for ever. (The heading spells it ratio_of_hyergeometric_mgf.)",
    counter_example="m = 3, y_d = 0, y_x = 1, z = 9: the ratio of expectations is 11/3; with the "
    "quotient as the helper returns it, 4/33.",
)
def test_the_quotient_is_turned_over() -> None:
    def helper(yd: int, yx: int, m: int, z: Fraction) -> Fraction:
        over, under = gauss(-yd, -yx, m - yx - yd + 1, z), gauss(-yd - 1, -yx, m - yx - yd, z)
        assert over is not None
        assert under is not None
        return over / under

    nine = Fraction(9)
    assert power_mean(3, 1, 1, nine) / power_mean(3, 0, 1, nine) == Fraction(11, 3)
    assert Fraction(2, 3) / helper(0, 1, 3, nine) == Fraction(11, 3)
    assert Fraction(2, 3) * helper(0, 1, 3, nine) == Fraction(4, 33)


@claim(
    "S4",
    "II.2, moment-generating function",
    "Hypergeometric(N, K, n) has the generating function C(N − K, n)·₂F₁(−n, −K; N − K − n + 1; "
    "e^t)/C(N, n), which gives both expectations with their factorials.",
    CORRECTED,
    correction="For n ≤ N − K. Beyond, the binomial coefficient is 0 and the series divides by "
    "zero: so y_x ≤ m − y_d − 1 for ξ₁, y_x ≤ m − y_d for ξ₂.",
    counter_example="N = K = n = 1: the function is e^t, the formula 0 times an undefined series.",
)
def test_generating_function() -> None:
    for total in range(1, 8):
        for marked, drawn in product(range(total + 1), repeat=2):
            for z in (Fraction(1, 9), ONE, Fraction(9)):
                series = gauss(-drawn, -marked, total - marked - drawn + 1, z)
                if drawn > total - marked:
                    assert series is None
                    assert comb(total - marked, drawn) == 0
                    continue
                assert series is not None
                left = total - marked
                lead = Fraction(
                    factorial(left) * factorial(total - drawn),
                    factorial(total) * factorial(left - drawn),
                )
                assert lead == Fraction(comb(left, drawn), comb(total, drawn))
                assert lead * series == power_mean(total, marked, drawn, z)


def backward(
    abc: tuple[int, int, int], z: Fraction, terms: int, unused: Fraction = ZERO
) -> Fraction:
    """Return 1/f_0 by S4's procedure; ``unused`` stands for k_T."""
    a, b, c = abc
    factors = []
    for i in range(terms):
        half = (i + 1) // 2
        top = (b - c - half) * (a + half) if i % 2 else (a - c - half) * (b + half)
        factors.append(Fraction(top, (c + i) * (c + i + 1)))
    factors.append(unused)
    value = ONE
    for i in range(terms - 1, -1, -1):
        value = 1 + factors[i] * z / value
    return 1 / value


@claim(
    "S4",
    "II.3, bounds of the loops",
    "k_i is computed for i = 0, …, T, and any T that is large enough will do.",
    CORRECTED,
    correction="k_T is never used. What lies behind the first k_i = 0 is not harmless: it can "
    "be 0 itself, and the recursion then divides by zero, so stop at the end of the fraction.",
    counter_example="m = 6, y_d = y_x = 0, q = 1/4 (z = 9): the ratio is 1; with T = 3 the "
    "procedure finds f_2 = 0 and divides by it.",
)
def test_bounds_of_the_loops() -> None:
    nine = Fraction(9)
    assert gauss(-1, 0, 6, nine) == gauss(0, 0, 7, nine) == 1
    assert backward((-1, 0, 6), nine, 2) == 1
    with pytest.raises(ZeroDivisionError):
        backward((-1, 0, 6), nine, 3)
    for a, b, c in product(range(-4, 0), range(-4, 1), (1, 2, 7)):
        enough = min(-2 * a, 1 - 2 * b)
        top, bottom = gauss(a + 1, b, c + 1, nine), gauss(a, b, c, nine)
        assert top is not None
        assert bottom is not None
        for unused in (ZERO, Fraction(-7)):
            assert backward((a, b, c), nine, enough, unused) == top / bottom


@claim(
    "S4",
    "III.1, law of A(D)",
    "Pr[A(D) = f] is the multinomial term of m draws from p_(0→0), …, p_(0→2^k−1).",
    HOLDS,
)
def test_law_of_empty_columns() -> None:
    for q, (filters, columns) in product(FLIPS, ((1, 4), (2, 3), (3, 2))):
        table = flip_table(filters, q)
        for key, weight in multiset_law([0] * columns, table).items():
            ways = Fraction(factorial(columns), prod(map(factorial, key)))
            assert weight == ways * prod(w**n for w, n in zip(table[0], key, strict=True))


@claim(
    "S4",
    "III.1, coefficient in the law of A(D′)",
    "It is the multinomial coefficient of m − 1 over f_0, …, f_(2^k−1), times f_j.",
    CORRECTED,
    correction="The f_i sum to m, so there is no such coefficient. Meant is (m − 1)!/Πf_i!·f_j, "
    "the coefficient of m − 1 over f with f_j less one.",
    counter_example="k = 1, m = 1, f = (1, 0): 0 objects cannot be split into (1, 0); (m − "
    "1)!/Πf_i!·f_0 = 1.",
)
def test_coefficient_of_one_full_column() -> None:
    for m in range(1, 6):
        for key in (f for f in product(range(m + 1), repeat=3) if sum(f) == m):
            assert sum(key) != m - 1
            for j, count in enumerate(key):
                if count:
                    less = (*key[:j], count - 1, *key[j + 1 :])
                    meant = Fraction(factorial(m - 1), prod(map(factorial, key))) * count
                    assert meant == factorial(m - 1) // prod(map(factorial, less))


@claim(
    "S4",
    "III.1, distance of two logos",
    "H(i, j) = y₁ + y₂ − 2ξ, ξ the positions where both have a one, and ξ is Hypergeometric(k, y₁, "
    "y₂).",
    HOLDS,
    correction="Over all pairs of logos with y₁ and y₂ set bits, each pair counted once.",
)
def test_distance_of_logos() -> None:
    for filters in (1, 2, 3, 4):
        logos = range(2**filters)
        found: dict[tuple[int, int], list[int]] = {}
        for i, j in product(logos, repeat=2):
            both = (i & j).bit_count()
            assert (i ^ j).bit_count() == i.bit_count() + j.bit_count() - 2 * both
            found.setdefault((i.bit_count(), j.bit_count()), []).append(both)
        for (one, two), shared in found.items():
            for both in range(filters + 1):
                ways = comb(one, both) * comb(filters - one, two - both) if both <= two else 0
                share = Fraction(ways, comb(filters, two))
                assert Fraction(shared.count(both), len(shared)) == share


@claim(
    "S4",
    "III.2, what is given",
    "The target is the privacy parameter ε; the flip probability is searched for it.",
    CORRECTED,
    correction="ε together with δ, the number of filters and the number of bits: the answer "
    "depends on all four.",
    counter_example="k = 1, E = 2, flips in hundredths: 0.32 for m = 1, δ = 1/20; 0.27 for δ = "
    "1/5; 0.31 for m = 2, δ = 1/20.",
)
def test_the_target_needs_a_delta() -> None:
    def least(m: int, delta: Fraction) -> Fraction:
        for q in (Fraction(i, 100) for i in range(1, 50)):
            low, high = neighbours(0, m - 1, q)
            two = Fraction(2)
            if max(hockey_stick(low, high, two), hockey_stick(high, low, two)) <= delta:
                return q
        raise AssertionError

    twentieth, fifth = Fraction(1, 20), Fraction(1, 5)
    assert least(1, twentieth) == Fraction(32, 100)
    assert least(1, fifth) == Fraction(27, 100)
    assert least(2, twentieth) == Fraction(31, 100)
