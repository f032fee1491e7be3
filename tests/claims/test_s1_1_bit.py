"""S1 sections 2 to 4: one flipped bit, its worst collection, the three-sigma rule."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from tests.tiers import thorough

from .ledger import CORRECTED, HOLDS, claim
from .reference import (
    FLIPS,
    ONE,
    ZERO,
    at,
    binomial,
    bit_sums,
    flip_table,
    moments,
    neighbours,
)


@claim(
    "S1",
    "Section 2, remarks",
    "Flipping with q is randomized response with f = 2q, and at q = 1/2 the report does not depend "
    "on the bit.",
    HOLDS,
)
def test_randomized_response() -> None:
    for q in (*FLIPS, Fraction(1, 2)):
        f = 2 * q
        assert (1 - f) + f / 2 == 1 - q
        assert flip_table(1, q)[0][1] == f / 2
    half = flip_table(1, Fraction(1, 2))
    assert half[0] == half[1]


@claim(
    "S1",
    "Section 2, law of R(v)",
    "P[R(v) = s] = q^(L − a)·p^a with a the number of agreeing bits, largest at s = v and least at "
    "the complement; P[s occurs] = 1 − Π(1 − P[R(v) = s]).",
    HOLDS,
)
def test_vector_law() -> None:
    for q, length in product(FLIPS, (1, 2, 3)):
        table = flip_table(length, q)
        size = 2**length
        for v, row in enumerate(table):
            # Bit by bit, without the Hamming distance.
            for s, chance in enumerate(row):
                each = [1 - q if (v ^ s) >> b & 1 == 0 else q for b in range(length)]
                assert chance == math.prod(each)
            assert max(row) == row[v]
            assert min(row) == row[size - 1 - v]
        first, second = table[0], table[size - 1]
        for s in range(size):
            seen = sum(
                (first[a] * second[b] for a, b in product(range(size), repeat=2) if s in (a, b)),
                ZERO,
            )
            assert seen == 1 - (1 - first[s]) * (1 - second[s])


@claim(
    "S1",
    "Section 3, definition",
    "Privacy asks P[S] ≤ ε·P′[S].",
    CORRECTED,
    correction="e^ε·P′[S]; as printed ε < 1 could never hold for the set of all outcomes. (The "
    "logarithmic form further down is right.)",
    counter_example="S the set of all outcomes, ε = 1/2: 1 ≤ 1/2.",
)
def test_printed_definition() -> None:
    low, high = neighbours(0, 1, Fraction(1, 4))
    assert sum(low) > Fraction(1, 2) * sum(high)
    assert float(sum(low)) <= math.exp(0.5) * float(sum(high))


@claim(
    "S1",
    "Section 3, independent records",
    "If records are randomized independently and not shuffled, the ratio is that of the changed "
    "record alone, and a set's ratio is at most the largest single ratio.",
    HOLDS,
)
def test_unshuffled_ratio() -> None:
    for q in FLIPS:
        table = flip_table(1, q)
        for s in product((0, 1), repeat=3):
            first = table[0][s[0]] * table[1][s[1]] * table[0][s[2]]
            second = table[1][s[0]] * table[1][s[1]] * table[0][s[2]]
            assert first / second == table[0][s[0]] / table[1][s[0]]
        # A set of outcomes of the changed record: its ratio is at most the largest single one.
        largest = max(x / y for x, y in zip(table[0], table[1], strict=True))
        assert sum(table[0]) / sum(table[1]) < largest


@claim(
    "S1",
    "(4.1)–(4.4)",
    "(S − qN)/(p − q) is unbiased for the number T of ones, with variance qpN/(p − q)².",
    HOLDS,
    correction="The line above (4.1) writes the expectation of S as S.",
)
def test_estimator() -> None:
    for q, n in product(FLIPS, range(1, 8)):
        for t in range(n + 1):
            mean, variance = moments(bit_sums(t, n - t, q))
            assert (mean - q * n) / (1 - 2 * q) == t
            assert variance / (1 - 2 * q) ** 2 == q * (1 - q) * n / (1 - 2 * q) ** 2


@claim(
    "S1",
    "Theorem 4.1",
    "For every number i of reported ones, the ratio P(i | one fewer)/P(i) is largest for the "
    "collection of ones, and grows strictly with the number of ones.",
    CORRECTED,
    correction="It does not fall, and is constant at i = 0 and i = N. It orders ratios at one i; "
    "it does not make the ones the worst collection for δ, since the law of i changes too.",
    counter_example="N = 2, i = 0: the ratio is p/q for one and for two ones.",
)
def test_worst_ratio_at_each_outcome() -> None:
    for q, n in product(FLIPS, range(1, 9)):
        for i in range(n + 1):
            ratios = [
                bit_sums(m - 1, n - m + 1, q)[i] / bit_sums(m, n - m, q)[i] for m in range(1, n + 1)
            ]
            assert ratios == sorted(ratios)
            assert (len(set(ratios)) == len(ratios)) == (0 < i < n or n == 1)


@claim(
    "S1",
    "(4.7)–(4.12)",
    "The generating functions are (p + qx)^m(p + qx)^(N−m) and split off a common factor Q.",
    CORRECTED,
    correction="(q + px)^m(p + qx)^(N−m); (4.10) to (4.15) are right.",
    counter_example="N = m = 1, q = 1/4: the law of a flipped one is (1/4, 3/4), printed (3/4, "
    "1/4).",
)
def test_generating_functions() -> None:
    assert bit_sums(1, 0, Fraction(1, 4)) == (Fraction(1, 4), Fraction(3, 4))
    for q, n in product(FLIPS, range(2, 8)):
        p = 1 - q
        for m in range(1, n):
            b = bit_sums(m - 1, n - m - 1, q)
            for i in range(n + 1):
                x, y, z = at(b, i), at(b, i - 1), at(b, i - 2)
                assert bit_sums(m + 1, n - m - 1, q)[i] == x * q**2 + 2 * p * q * y + z * p**2
                assert bit_sums(m, n - m, q)[i] == (x + z) * p * q + (p**2 + q**2) * y
                assert bit_sums(m - 1, n - m + 1, q)[i] == x * p**2 + 2 * p * q * y + z * q**2


@claim(
    "S1",
    "Theorem 4.1, identity",
    "a_i(m)² − a_i(m − 1)a_i(m + 1) = (p² − q²)²(b_i² − b_(i+1)b_(i−1)).",
    CORRECTED,
    correction="(p² − q²)²(b_(i−1)² − b_i b_(i−2)): the index is one lower.",
    counter_example="N = 2, m = 1, i = 0 (b = (1)): left 0, printed (p² − q²)².",
)
def test_log_concavity_identity() -> None:
    for q, n in product(FLIPS, range(2, 8)):
        p = 1 - q
        for m, i in product(range(1, n), range(n + 1)):
            b = bit_sums(m - 1, n - m - 1, q)
            left = bit_sums(m, n - m, q)[i] ** 2
            left -= bit_sums(m - 1, n - m + 1, q)[i] * bit_sums(m + 1, n - m - 1, q)[i]
            right = at(b, i - 1) ** 2 - at(b, i) * at(b, i - 2)
            assert left == (p**2 - q**2) ** 2 * right
            if (n, m, i) == (2, 1, 0):
                assert left == 0 != (p**2 - q**2) ** 2 * (at(b, 0) ** 2 - at(b, 1) * at(b, -1))


roots = st.lists(st.fractions(min_value=0, max_value=9, max_denominator=6), min_size=1, max_size=6)


def coefficients(values: list[Fraction]) -> list[Fraction]:
    result = [ONE]
    for r in values:
        result = [r * at(result, i) + at(result, i - 1) for i in range(len(result) + 1)]
    return result


@claim(
    "S1",
    "Lemma 1",
    "A polynomial whose roots are all real and not positive has log-concave coefficients.",
    HOLDS,
    correction="The statement is Newton's; for its proof see the next row.",
)
@given(roots)
@thorough
def test_log_concave_coefficients(values: list[Fraction]) -> None:
    a = coefficients(values)
    assert all(a[i] ** 2 >= at(a, i - 1) * at(a, i + 1) for i in range(len(a)))


@claim(
    "S1",
    "(4.22)–(4.29)",
    "In the induction the middle term is r(b_i b_(i−1) − b_(i+1)b_(i−1)), and it is not negative.",
    CORRECTED,
    correction="The term is r(b_i b_(i−1) − b_(i+1)b_(i−2)), and that is not negative; the printed "
    "one can be.",
    counter_example="(x + 1/10)²: b = (1/100, 1/5, 1) has b_1 b_0 < b_2 b_0.",
)
@given(roots, st.fractions(min_value=0, max_value=9, max_denominator=6))
@thorough
def test_induction_step(values: list[Fraction], r: Fraction) -> None:
    b = coefficients(values)
    a = coefficients([*values, r])
    for i in range(len(a)):
        middle = at(b, i) * at(b, i - 1) - at(b, i + 1) * at(b, i - 2)
        assert middle >= 0
        outer = at(b, i) ** 2 - at(b, i + 1) * at(b, i - 1)
        inner = at(b, i - 1) ** 2 - at(b, i) * at(b, i - 2)
        assert a[i] ** 2 - at(a, i + 1) * at(a, i - 1) == r**2 * outer + r * middle + inner
    small = coefficients([Fraction(1, 10), Fraction(1, 10)])
    assert small[1] * small[0] < small[2] * small[0]


@claim(
    "S1",
    "(4.30)–(4.32)",
    "For ones only, P(i | D_m) = C(N − 1, i)p^(i+1)q^(N−i) + C(N − 1, i − 1)p^(i−1)q^(N−i+1) and "
    "R_i = ((N − i)/N)(p/q) + (i/N)(q/p).",
    CORRECTED,
    correction="The first exponent of q is N − 1 − i; (4.32) is right.",
    counter_example="N = 1, i = 0, q = 1/4: P = p = 3/4, printed pq = 3/16.",
)
def test_ratio_for_ones() -> None:
    for q, n in product(FLIPS, range(1, 10)):
        p = 1 - q
        changed, ones = neighbours(n - 1, 0, q)
        for i in range(n + 1):
            first = math.comb(n - 1, i) * p ** (i + 1) * q ** (n - 1 - i) if i < n else ZERO
            second = math.comb(n - 1, i - 1) * p ** (i - 1) * q ** (n - i + 1) if i else ZERO
            assert changed[i] == first + second
            assert changed[i] / ones[i] == Fraction(n - i, n) * p / q + Fraction(i, n) * q / p
    assert neighbours(0, 0, Fraction(1, 4))[0][0] == Fraction(3, 4) != Fraction(3, 16)


@claim(
    "S1",
    "Section 4.3, range of R",
    "R falls from p/q at i = 0 to q/p at i = N, and is 1 at i = pN.",
    HOLDS,
)
def test_range_of_the_ratio() -> None:
    for q in FLIPS:
        p, n = 1 - q, 12
        ratios = [Fraction(n - i, n) * p / q + Fraction(i, n) * q / p for i in range(n + 1)]
        assert ratios == sorted(ratios, reverse=True)
        assert (ratios[0], ratios[n]) == (p / q, q / p)
        assert (1 - p) * p / q + p * q / p == 1


@claim(
    "S1",
    "Section 4.3, example q^100",
    "With q = 0.3 the chance that 100 ones are all reported as zeros is about 5e-53.",
    HOLDS,
)
def test_example_all_flipped() -> None:
    chance = binomial(100, Fraction(7, 10))[0]
    assert Fraction(515, 10**55) < chance < Fraction(516, 10**55)


@claim(
    "S1",
    "(4.33)–(4.40)",
    "At i = pN − 3σ the ratio is 1 + 3(p − q)/√(pqN), so it is at most λ exactly when "
    "pqN/(p − q)² ≥ 9/(λ − 1)².",
    CORRECTED,
    correction="(4.35) prints pN + 3√(pqN) in its second term; (4.36) on is right.",
    counter_example="q = 1/5, N = 16 (σ = 8/5): the ratio is 17/8, printed 91/40.",
)
def test_three_sigma_algebra() -> None:
    q, n, sigma = Fraction(1, 5), 16, Fraction(8, 5)
    p = 1 - q
    i = p * n - 3 * sigma
    true = (n - i) / n * p / q + i / n * q / p
    printed = (n - i) / n * p / q + (p * n + 3 * sigma) / n * q / p
    assert true == 1 + 3 * (p - q) / sigma == Fraction(17, 8)
    assert printed == Fraction(91, 40)
