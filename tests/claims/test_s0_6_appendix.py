"""S0 sections 6 to 8: ratios of sums, the recursion of the sum, the maximality proof."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from tests.tiers import thorough

from .ledger import CORRECTED, FALSE, HOLDS, claim
from .reference import (
    FLIPS,
    ZERO,
    at,
    bit_sums,
    ceiling,
    moments,
    neighbours,
    step_ratio,
)

positive = st.fractions(min_value=Fraction(1, 20), max_value=20, max_denominator=20)
signed = st.fractions(min_value=-20, max_value=20, max_denominator=20)


@claim(
    "S0",
    "Lemma 6.1 = Lemma 8.2",
    "A ratio of sums with positive denominators lies between the least and the largest of the "
    "single ratios.",
    HOLDS,
    correction="Proof: it is their average with weights b_i/Σb.",
)
@given(st.lists(st.tuples(signed, positive), min_size=1, max_size=6))
@thorough
def test_mediant(pairs: list[tuple[Fraction, Fraction]]) -> None:
    whole = sum((a for a, _ in pairs), ZERO) / sum((b for _, b in pairs), ZERO)
    ratios = [a / b for a, b in pairs]
    assert min(ratios) <= whole <= max(ratios)


def grid() -> list[tuple[Fraction, int, int]]:
    """Flip probability, records n, ones m."""
    return [(q, n, m) for q in FLIPS for n in range(1, 11) for m in range(n + 1)]


@claim(
    "S0",
    "(7.1), (7.2)",
    "The law of the sum over n records follows from that over n − 1 by conditioning on a one or "
    "on a zero.",
    HOLDS,
)
def test_recursions() -> None:
    for q, n, m in grid():
        law = bit_sums(m, n - m, q)
        for s in range(n + 1):
            if m >= 1:
                less = bit_sums(m - 1, n - m, q)
                assert law[s] == (1 - q) * at(less, s - 1) + q * at(less, s)
            if m < n:
                less = bit_sums(m, n - m - 1, q)
                assert law[s] == q * at(less, s - 1) + (1 - q) * at(less, s)


@claim(
    "S0",
    "Section 7.1, remarks",
    "Adding a zero puts each probability between two consecutive old ones, and the laws with m and "
    "m + 1 ones both lie between consecutive values of the law of n − 1 records.",
    HOLDS,
)
def test_probabilities_interlace() -> None:
    for q, n, m in grid():
        if m == n:
            continue
        old = bit_sums(m, n - m - 1, q)
        for s in range(n + 1):
            ends = sorted((at(old, s - 1), at(old, s)))
            assert ends[0] <= bit_sums(m, n - m, q)[s] <= ends[1]
            assert ends[0] <= bit_sums(m + 1, n - m - 1, q)[s] <= ends[1]


@claim(
    "S0",
    "Section 7, privacy ratio cases",
    "With x holding m ones, P[x′]/P[x] is π(s; m − 1) if the changed record was a one, and "
    "1/π(s; m) if it was a zero, π(s; m) being P_m(s)/P_(m+1)(s); and π(0; m) = p/q.",
    HOLDS,
    correction="In the orientation of S2; section 2 of S0 defines the ratio the other way up.",
)
def test_privacy_ratio_cases() -> None:
    for q, n, m in grid():
        if m == n:
            continue
        low, high = neighbours(m, n - 1 - m, q)
        assert low == bit_sums(m, n - m, q)
        assert high == bit_sums(m + 1, n - m - 1, q)
        assert low[0] / high[0] == (1 - q) / q


@claim(
    "S0",
    "Lemma 7.1, (7.3)",
    "(s + 1)P(s + 1) = [(m − s)p/q + (n − m − s)q/p]·P(s) + (n − s + 1)P(s − 1) for s < n.",
    HOLDS,
    correction="Also at s = n, where the left side is 0.",
)
def test_three_term_recursion() -> None:
    for q, n, m in grid():
        law, p = bit_sums(m, n - m, q), 1 - q
        for s in range(n + 1):
            factor = (m - s) * p / q + (n - m - s) * q / p
            right = factor * law[s] + (n - s + 1) * at(law, s - 1)
            assert (s + 1) * at(law, s + 1) == right


@claim(
    "S0",
    "(7.4), form of γ",
    "ρ(s + 1) = η(s)/ρ(s) + γ_m(s) with ρ(1) = γ_m(0), and "
    "(s + 1)γ_m(s) = (μ_m − s)/(pq) − n + 2s.",
    HOLDS,
)
def test_ratio_recursion() -> None:
    for q, n, m in grid():
        p = 1 - q
        mean = n * q + m * (p - q)
        for s in range(n):
            gamma = ((m - s) * p / q + (n - m - s) * q / p) / (s + 1)
            assert (s + 1) * gamma == (mean - s) / (p * q) - n + 2 * s
            following, here = step_ratio(n, m, q, s + 1), step_ratio(n, m, q, s)
            if s == 0:
                assert following == gamma
            else:
                assert here is not None
                assert following == Fraction(n - s + 1, s + 1) / here + gamma


@claim(
    "S0",
    "Section 7.2, properties of ρ",
    "The probability ratio falls in s and rises in m.",
    HOLDS,
)
def test_ratio_monotone() -> None:
    for q, n, m in grid():
        for s in range(1, n + 1):
            here = step_ratio(n, m, q, s)
            assert here is not None
            if s < n:
                after = step_ratio(n, m, q, s + 1)
                assert after is not None
                assert after < here
            if m < n:
                more = step_ratio(n, m + 1, q, s)
                assert more is not None
                assert more > here


@claim(
    "S0",
    "Section 7.3, rounding",
    "With s_m(δ) = max(0, ⌈μ_m − δ⌉): s_m(δ + 1) = max(0, s_m(δ) − 1), and R_m(δ) = ρ(s_m(δ); m) "
    "does not fall as δ grows.",
    HOLDS,
    correction="ρ(0) counts as infinite.",
)
def test_rounded_ratio_monotone() -> None:
    for q, n, m in grid():
        mean = n * q + m * (1 - 2 * q)
        indices = [max(0, ceiling(mean - Fraction(i, 4))) for i in range(4 * n + 8)]
        assert all(indices[i + 4] == max(0, indices[i] - 1) for i in range(4 * n + 4))
        ratios = [step_ratio(n, m, q, s) for s in indices if s >= 1]
        finite = [r for r in ratios if r is not None]
        assert finite == sorted(finite)


@claim(
    "S0",
    "Section 7.3, tail remark",
    "The probability at a given left deviation is largest for the zeros: "
    "P_m(μ_m − δ) ≤ P_0(μ_0 − δ) (marked as perhaps unnecessary).",
    FALSE,
    correction="Nothing else uses it; far out the zeros, skewed to the right, have the lighter "
    "left tail.",
    counter_example="n = 5, q = 1/4, m = 2, δ = 1/4: P_2(2) = 414/1024, P_0(1) = 405/1024. Within "
    "the range of Prop. 7.1: n = 6, q = 2/5, m = 5, δ = 12/5: P_5(1) = 784/15625, "
    "P_0(0) = 729/15625. None with n ≤ 4 where both arguments are integers.",
)
def test_left_tail_probability() -> None:
    def exceeded(n: int, q: Fraction) -> list[tuple[int, int]]:
        found = []
        for m in range(1, n + 1):
            shift = m * (1 - 2 * q)
            if shift.denominator == 1:
                zeros, law = bit_sums(0, n, q), bit_sums(m, n - m, q)
                found += [
                    (m, s) for s in range(ceiling(n * q)) if at(law, s + int(shift)) > zeros[s]
                ]
        return found

    fractions = {Fraction(i, k) for k in (3, 4, 5, 6, 8, 10, 20) for i in range(1, k) if 2 * i < k}
    assert all(not exceeded(n, q) for n in range(1, 5) for q in fractions)
    assert (2, 1) in exceeded(5, Fraction(1, 4))
    assert (5, 0) in exceeded(6, Fraction(2, 5))
    assert bit_sums(2, 3, Fraction(1, 4))[2] == Fraction(414, 1024)
    # δ = 12/5 exceeds σ₀ + 1 = √(36/25) + 1 = 11/5.
    assert moments(bit_sums(0, 6, Fraction(2, 5)))[1] == Fraction(6, 5) ** 2


def rounded_ratio(n: int, m: int, q: Fraction, delta: Fraction) -> Fraction | None:
    mean = n * q + m * (1 - 2 * q)
    return step_ratio(n, m, q, max(0, ceiling(mean - delta)))


@claim(
    "S0",
    "Prop. 7.1",
    "R_m(δ) ≤ R_0(δ + 2) for every m, provided δ > √(npq) + 1.",
    HOLDS,
    correction="The proof is complete where s_0(δ) ≥ 3; below, R_0(δ + 2) counts as infinite. On "
    "the grid the condition on δ is not needed.",
)
def test_maximality_of_zeros() -> None:
    compared = 0
    for n, q in product((8, 15, 24, 32), (Fraction(i, 20) for i in (3, 5, 7, 9))):
        for quarter in range(1, 4 * n):
            delta = Fraction(quarter, 4)
            bound = rounded_ratio(n, 0, q, delta + 2)
            if bound is None:
                continue
            for m in range(n + 1):
                ratio = rounded_ratio(n, m, q, delta)
                assert ratio is not None
                assert ratio <= bound
                compared += 1
    assert compared > 3000


@claim(
    "S0",
    "(7.5)–(7.7)",
    "The differences of η and of the mixed products ηγ have the closed forms used in the proof, "
    "and R_0(δ + 1) − 1 = (δ_0 + q + 1)/(p(μ_0 − δ_0 − 1)).",
    HOLDS,
)
def test_identities_of_the_proof() -> None:
    for q, n, m in product(FLIPS, (3, 6, 9), (1, 2, 3)):
        p = 1 - q
        mean0, mean = n * q, n * q + m * (p - q)

        def eta(s: int, n: int = n) -> Fraction:
            return Fraction(n - s + 1, s + 1)

        def gamma(s: int, mu: Fraction, n: int = n, q: Fraction = q) -> Fraction:
            return ((mu - s) / (q * (1 - q)) - n + 2 * s) / (s + 1)

        for s0, sm in product(range(n), repeat=2):
            below = (s0 + 1) * (sm + 1)
            assert eta(sm) - eta(s0) == Fraction(-(n + 2) * (sm - s0), below)
            mixed = eta(s0) * gamma(sm, mean) - eta(sm) * gamma(s0, mean0)
            slope = (mean0 * sm - mean * s0 + (n + 1) * (mean - mean0 - (sm - s0))) / (p * q)
            assert mixed == ((n + 2) * (sm - s0) + slope) / below
        for s in range(1, n + 1):
            ratio = step_ratio(n, 0, q, s)
            assert ratio is not None
            shift = mean0 - s - 1  # δ_0
            assert ratio - 1 == (shift + q + 1) / (p * (mean0 - shift - 1))


@claim(
    "S0",
    "(8.1)–(8.3), (8.6)",
    "Adding a one to both collections keeps the ratio at S between the old ratios at S − 1 and S, "
    "and lowers the distribution function.",
    HOLDS,
    correction="Under a heading that says to ignore it.",
)
def test_adding_a_one() -> None:
    for q, n, m in grid():
        low, high = neighbours(m, n - m, q)
        low1, high1 = neighbours(m + 1, n - m, q)
        for s in range(1, n + 2):
            assert low[s - 1] / high[s - 1] >= low1[s] / high1[s] >= low[s] / high[s]
        for s in range(n + 2):
            assert sum(low1[: s + 1], ZERO) <= sum(low[: s + 1], ZERO)


@claim(
    "S0",
    "Lemma 8.1",
    "The loss ratio falls in S from its maximum at 0 to its minimum at N.",
    CORRECTED,
    correction="As Lemma 4.1: if N counts the others, the minimum is at N + 1.",
    counter_example="no others, as for Lemma 4.1.",
)
def test_loss_ratio_falls_again() -> None:
    for q, n, m in grid():
        low, high = neighbours(m, n - m, q)
        ratios = [x / y for x, y in zip(low, high, strict=True)]
        assert ratios == sorted(ratios, reverse=True)
        assert ratios[n + 1] < ratios[n]


@claim(
    "S0",
    "Property 1, (8.7), (8.8)",
    "Below the mean the probability ratio exceeds 1 and is increasing.",
    CORRECTED,
    correction="It exceeds 1 and is decreasing, as its own display says.",
    counter_example="n = 4, m = 4, q = 1/4 (mean 3): ρ(1) = 12 > ρ(2) = 9/2.",
)
def test_ratio_below_the_mean() -> None:
    for q, n, m in grid():
        mean = n * q + m * (1 - 2 * q)
        ratios = [step_ratio(n, m, q, s) for s in range(1, n + 1) if s < mean]
        finite = [r for r in ratios if r is not None]
        assert all(r > 1 for r in finite)
        assert finite == sorted(finite, reverse=True)
        assert len(set(finite)) == len(finite)
    assert step_ratio(4, 4, Fraction(1, 4), 1) == 12
    assert step_ratio(4, 4, Fraction(1, 4), 2) == Fraction(9, 2)


@claim(
    "S0",
    "(8.9), (8.10)",
    "The probability ratios of a collection with one more 1 or one more 0 are the ratios of the "
    "conditioned sums.",
    HOLDS,
)
def test_ratios_after_adding() -> None:
    for q, n, m in grid():
        law, p = bit_sums(m, n - m, q), 1 - q
        for s in range(1, n + 2):
            up = p * at(law, s - 1) + q * at(law, s)
            assert step_ratio(n + 1, m + 1, q, s) == up / (p * at(law, s - 2) + q * at(law, s - 1))
            flat = q * at(law, s - 1) + p * at(law, s)
            assert step_ratio(n + 1, m, q, s) == flat / (q * at(law, s - 2) + p * at(law, s - 1))
