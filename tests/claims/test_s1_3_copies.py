"""S1 section 5: every bit randomized and sent k times."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

from .ledger import CORRECTED, FALSE, HOLDS, claim
from .reference import FLIPS, ZERO, binomial, bit_sums, moments, neighbours

CASES = tuple(product(FLIPS, (1, 2, 3, 4), (1, 2, 3, 4)))


def rule(ratio: float, records: int, copies: int) -> float:
    """The flip probability of (5.24)."""
    step = ratio ** (1 / copies) - 1
    return 0.5 * (1 - 1 / math.sqrt(1 + 36 / (step**2 * copies * records)))


def deviation(records: int, copies: int, q: float) -> float:
    return math.sqrt(q * (1 - q) * records / copies) / (1 - 2 * q)


@claim(
    "S1",
    "Section 5, promise",
    "At the same privacy guarantee, k copies raise the precision in proportion to √k, while the "
    "flip probability has to rise only slightly.",
    FALSE,
    correction="By (5.23) the deviation is 3/(k(λ^(1/k) − 1)), which rises with k from 3/(λ − 1) "
    "to 3/ln λ. At fixed exact (ε, δ) copies help, but only down to the Gaussian mechanism.",
    counter_example="N = 1000, λ = 2: deviation 3 at k = 1, 3.62 at k = 2, 4.18 at k = 10; q rises "
    "from 0.0088 to 0.1164 at k = 10.",
)
def test_copies_do_not_help_by_the_rule() -> None:
    for ratio, records in product((1.1, 2.0, 10.0), (100, 1000, 10**6)):
        deviations = []
        for copies in (1, 2, 4, 10, 100):
            found = deviation(records, copies, rule(ratio, records, copies))
            assert math.isclose(found, 3 / (copies * (ratio ** (1 / copies) - 1)), rel_tol=1e-6)
            deviations.append(found)
        assert deviations == sorted(deviations)
        assert deviations[-1] < 3 / math.log(ratio)
    assert round(deviation(1000, 2, rule(2, 1000, 2)), 2) == 3.62
    assert round(deviation(1000, 10, rule(2, 1000, 10)), 2) == 4.18
    assert round(rule(2, 1000, 1), 4) == 0.0088
    assert round(rule(2, 1000, 10), 4) == 0.1164


@claim(
    "S1",
    "(5.1)–(5.4)",
    "(S − qkN)/(k(p − q)) is unbiased with variance qpN/(k²(p − q)²) = qpN/(k(p − q)²).",
    CORRECTED,
    correction="The first form lacks a k in its numerator: qpkN/(k²(p − q)²). At fixed q the "
    "deviation does fall like 1/√k.",
    counter_example="N = 1, k = 2, q = 1/4: variance 3/8, the first printed form 3/16.",
)
def test_estimator_with_copies() -> None:
    for q, n, k in CASES:
        for t in range(n + 1):
            mean, variance = moments(bit_sums(k * t, k * (n - t), q))
            scale = k * (1 - 2 * q)
            assert (mean - q * k * n) / scale == t
            assert variance / scale**2 == q * (1 - q) * n / (k * (1 - 2 * q) ** 2)
    quarter = Fraction(1, 4)
    assert moments(bit_sums(2, 0, quarter))[1] / (2 * Fraction(1, 2)) ** 2 == Fraction(3, 8)
    assert quarter * Fraction(3, 4) / (4 * Fraction(1, 4)) == Fraction(3, 16)


@claim(
    "S1",
    "Section 5.2, (5.5)",
    "With k copies the ratio at each outcome still grows strictly with the number of ones, because "
    "the coefficients of a power are products of the coefficients of the base.",
    CORRECTED,
    correction="It does not fall (constant at the two extreme outcomes), by k applications of "
    "Theorem 4.1; the coefficients of a power are sums of products, so the printed reason fails.",
    counter_example="N = 2, any k, outcome 0: the ratio is (p/q)^k for one and for two ones.",
)
def test_worst_ratio_with_copies() -> None:
    for q, n, k in CASES:
        for j in range(k * n + 1):
            ratios = [
                bit_sums(k * (m - 1), k * (n - m + 1), q)[j] / bit_sums(k * m, k * (n - m), q)[j]
                for m in range(1, n + 1)
            ]
            assert ratios == sorted(ratios)
            if j == 0:
                assert set(ratios) == {((1 - q) / q) ** k}


def hypergeometric_ratio(n: int, k: int, s: int, q: Fraction) -> Fraction:
    """The ratio of (5.9)."""
    odds = (1 - q) / q
    total = ZERO
    for i in range(k + 1):
        if 0 <= s - i <= k * (n - 1):
            weight = Fraction(math.comb(k * (n - 1), s - i) * math.comb(k, i), math.comb(k * n, s))
            total += weight * odds ** (k - 2 * i)
    return total


@claim(
    "S1",
    "(5.6)–(5.9)",
    "For ones only the ratio is Σ_i C(k(N − 1), s − i)C(k, i)/C(kN, s)·(p/q)^(k−2i).",
    HOLDS,
)
def test_ratio_with_copies() -> None:
    for q, n, k in CASES:
        changed, ones = neighbours(n - 1, 0, q, k)
        assert ones == binomial(k * n, 1 - q)
        for s in range(k * n + 1):
            assert changed[s] / ones[s] == hypergeometric_ratio(n, k, s, q)


def falling(value: int, length: int) -> int:
    return math.prod(value - j for j in range(length))


@claim(
    "S1",
    "(5.10)",
    "C(k(N − 1), s − i)/C(kN, s) is a quotient of falling products.",
    HOLDS,
)
def test_binomial_quotient() -> None:
    for n, k in product(range(1, 6), range(1, 5)):
        for s, i in product(range(k * n + 1), range(k + 1)):
            inside = 0 <= s - i <= k * (n - 1)
            left = math.comb(k * (n - 1), s - i) if inside else 0
            right = Fraction(falling(s, i) * falling(k * n - s, k - i), falling(k * n, k))
            assert Fraction(left, math.comb(k * n, s)) == right


@claim(
    "S1",
    "(5.11)",
    "(A − e)/(B − e) < A/B for positive A < B and e.",
    CORRECTED,
    correction="For 0 < e < B.",
    counter_example="A = 1, B = 2, e = 3: 2 > 1/2.",
)
def test_shrinking_a_ratio() -> None:
    for a, b, e in product(range(1, 9), range(2, 10), range(1, 10)):
        if a < b and e < b:
            assert Fraction(a - e, b - e) < Fraction(a, b)
    assert Fraction(1 - 3, 2 - 3) == 2 > Fraction(1, 2)


@claim(
    "S1",
    "(5.12)",
    "Each quotient of falling products is below s^i(kN − s)^(k−i)/(kN)^k.",
    FALSE,
    correction="The two products in the numerator start afresh while the denominator goes on "
    "falling. Only the sum over i obeys the bound: (5.13).",
    counter_example="N = 1, k = 2, i = 1, s = 1: 1/2 against 1/4. None with k = 1.",
)
def test_term_by_term_bound() -> None:
    assert Fraction(falling(1, 1) * falling(1, 1), falling(2, 2)) == Fraction(1, 2) > Fraction(1, 4)
    for n in range(1, 12):
        for s, i in product(range(n + 1), (0, 1)):
            left = Fraction(falling(s, i) * falling(n - s, 1 - i), n)
            assert left <= Fraction(s**i * (n - s) ** (1 - i), n)


def binomial_ratio(n: int, k: int, s: int, q: Fraction) -> Fraction:
    """The right side of (5.13)."""
    odds, share = (1 - q) / q, Fraction(s, k * n)
    weights = binomial(k, share)
    return sum((w * odds ** (k - 2 * i) for i, w in enumerate(weights)), ZERO)


@claim(
    "S1",
    "(5.13)",
    "The ratio is below the same sum with binomial in place of hypergeometric weights.",
    CORRECTED,
    correction="Not above: equal at k = 1, s = 0 and s = kN. True although (5.12) is false, since "
    "sampling without replacement never raises the mean of a convex function (Hoeffding 1963).",
    counter_example="k = 1: both sides are (4.32).",
)
def test_binomial_bound() -> None:
    for q, n, k in CASES:
        for s in range(k * n + 1):
            left, right = hypergeometric_ratio(n, k, s, q), binomial_ratio(n, k, s, q)
            assert left <= right
            assert (left == right) == (k == 1 or s in (0, k * n))


@claim(
    "S1",
    "(5.14)–(5.20)",
    "At s = pkN − 3σ the binomial sum is (1 + 3(p − q)/√(pqkN))^k.",
    HOLDS,
)
def test_three_sigma_with_copies() -> None:
    # q = 1/5 and kN a square make every term rational.
    q = Fraction(1, 5)
    p = 1 - q
    for k, n in ((1, 16), (2, 8), (4, 4), (4, 16), (3, 12)):
        sigma = Fraction(2, 5) * math.isqrt(k * n)
        share = (p * k * n - 3 * sigma) / (k * n)
        odds = p / q
        total = sum((w * odds ** (k - 2 * i) for i, w in enumerate(binomial(k, share))), ZERO)
        assert total == (1 + 3 * (p - q) / sigma) ** k


@claim(
    "S1",
    "(5.21)–(5.24)",
    "The ratio is below λ for all s at or above pkN − 3σ when "
    "q ≥ ½(1 − 1/√(1 + 36/((λ^(1/k) − 1)²kN))).",
    HOLDS,
    correction="For ones only and in that direction; as a guarantee it fails like (4.45).",
)
def test_rule_with_copies() -> None:
    for ratio, n, k in product((1.5, 2.0, 5.0), (5, 20, 60), (1, 2, 3)):
        q = rule(ratio, n, k)
        edge = (1 - q) * k * n - 3 * math.sqrt(q * (1 - q) * k * n)
        for s in range(max(0, math.ceil(edge)), k * n + 1):
            assert float(hypergeometric_ratio(n, k, s, Fraction(q))) <= ratio * (1 + 1e-9)
        step = ratio ** (1 / k) - 1
        assert math.isclose(q * (1 - q) * k * n / (1 - 2 * q) ** 2, 9 / step**2, rel_tol=1e-9)
