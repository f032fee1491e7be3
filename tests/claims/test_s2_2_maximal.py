"""S2 sections 3.1.4 to 6: order of the privacy ratio, quantiles, maximal collections, lemmas."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from tests.tiers import thorough

from .ledger import CORRECTED, HOLDS, claim
from .reference import (
    FLIPS,
    ZERO,
    Law,
    at,
    bit_sums,
    flip_table,
    moments,
    neighbours,
    step_ratio,
)
from .test_s2_1_ratio import distribution, grid

Columns = tuple[list[Fraction], list[Fraction]]


positive = st.fractions(min_value=Fraction(1, 20), max_value=20, max_denominator=20)
natural = st.fractions(min_value=0, max_value=20, max_denominator=20)


def privacy_ratio(n: int, m: int, q: Fraction, s: int) -> Fraction:
    return bit_sums(m, n - m, q)[s] / bit_sums(m + 1, n - m - 1, q)[s]


@claim(
    "S2",
    "Section 3.1.4, order",
    "The privacy ratio π(s; m) falls in s, rises in m, and falls when both rise by one.",
    HOLDS,
    correction="Weakly in m, where it is constant at s = 0 and s = n. Proof of the last: A_n(m + "
    "1) − 1 is A′ − Ber(q) where A_n(m) is A′ + Ber(q), and A′ is log-concave.",
)
def test_order_of_the_ratio() -> None:
    for q, n, m in grid():
        if m == n:
            continue
        for s in range(n + 1):
            here = privacy_ratio(n, m, q, s)
            if s < n:
                assert here > privacy_ratio(n, m, q, s + 1)
            if m + 1 < n:
                assert here <= privacy_ratio(n, m + 1, q, s)
                assert (here == privacy_ratio(n, m + 1, q, s)) == (s in (0, n))
                if s < n:
                    assert here > privacy_ratio(n, m + 1, q, s + 1)


@claim(
    "S2",
    "Section 3.1.4, reduction",
    "A larger probability ratio of the crowd means a larger privacy ratio, across all s and m.",
    HOLDS,
)
def test_ratio_follows_probability_ratio() -> None:
    for q, n in product(FLIPS, range(2, 8)):
        points = []
        for m, s in product(range(n), range(1, n)):
            rho = step_ratio(n - 1, m, q, s)
            assert rho is not None
            points.append((rho, privacy_ratio(n, m, q, s)))
        points.sort()
        assert [pi for _, pi in points] == sorted(pi for _, pi in points)


@claim(
    "S2",
    "Section 3.1.4, second form",
    "π(s; m)/π(s; m − 1) equals the quotient of 1 + (p − q)[P_(n−1)(s − 1) − P_(n−1)(s)]/P_n(s) at "
    "m − 1 and at m.",
    HOLDS,
)
def test_second_form() -> None:
    for q, n, m in grid():
        if not 1 <= m < n:
            continue
        for s in range(n + 1):

            def factor(ones: int, s: int = s, n: int = n, q: Fraction = q) -> Fraction:
                small = bit_sums(ones, n - 1 - ones, q)
                return (
                    1
                    + (1 - 2 * q)
                    * (at(small, s - 1) - at(small, s))
                    / bit_sums(ones, n - ones, q)[s]
                )

            quotient = privacy_ratio(n, m, q, s) / privacy_ratio(n, m - 1, q, s)
            assert quotient == factor(m - 1) / factor(m)


def quantile(n: int, m: int, q: Fraction, level: Fraction) -> int:
    return next(x for x in range(n + 1) if distribution(n, m, q, x) >= level)


LEVELS = tuple(Fraction(i, 40) for i in (1, 4, 10, 20, 33, 39, 40))


@claim(
    "S2",
    "Section 3.1.5, claim",
    "One more one leaves a quantile where it is or raises it by one; it stays exactly when "
    "F_(m−1)(τ) − α ≥ (p − q)P_(n−1,m−1)(τ).",
    HOLDS,
)
def test_quantiles() -> None:
    for (q, n, m), level in product(grid(), LEVELS):
        if m == 0:
            continue
        before, after = quantile(n, m - 1, q, level), quantile(n, m, q, level)
        assert after in (before, before + 1)
        drop = (1 - 2 * q) * at(bit_sums(m - 1, n - m, q), before)
        assert (after == before) == (distribution(n, m - 1, q, before) - level >= drop)


@claim(
    "S2",
    "Section 3.1.7",
    "The mean nq + m(p − q) is linear in m and the variance npq is constant, while the law passes "
    "from right-skewed at m = 0 to left-skewed at m = n.",
    HOLDS,
    correction="The third central moment is (n − 2m)pq(p − q). The announced bound on "
    "F_m(x) ≈ F_0(x − m(p − q)) is not given.",
)
def test_location_family() -> None:
    for q, n, m in grid():
        law = bit_sums(m, n - m, q)
        mean, variance = moments(law)
        assert mean == n * q + m * (1 - 2 * q)
        assert variance == n * q * (1 - q)
        third = sum(((s - mean) ** 3 * x for s, x in enumerate(law)), ZERO)
        assert third == (n - 2 * m) * q * (1 - q) * (1 - 2 * q)


@claim(
    "S2",
    "Section 4.1, claim (4.1)",
    "For every s the ratio P(s)/P(s − 1) is largest for the collection of ones.",
    HOLDS,
    correction="So if the target held 1, ones make the ratio largest at each outcome. The case "
    "left open, a target that held 0, is the mirror image: there it is the zeros. Neither says "
    "which collection is worst for δ.",
)
def test_ones_maximise_the_ratio() -> None:
    for q, n in product(FLIPS, range(1, 10)):
        for s in range(1, n + 1):
            ratios = [step_ratio(n, m, q, s) for m in range(n + 1)]
            finite = [r for r in ratios if r is not None]
            assert max(finite) == finite[n]
        # The open case: with the target moving from 0 to 1, zeros maximise at each s.
        for s in range(n + 1):
            reverse = []
            for m in range(n):
                low, high = neighbours(m, n - 1 - m, q)
                reverse.append(high[s] / low[s])
            assert max(reverse) == reverse[0]


@claim(
    "S2",
    "(4.2)–(4.5)",
    "The steps of that induction: p/q ≥ q/p at n = 1; the conditioned ratios are ordered as the "
    "ratios of the ones; and a further one raises the ratio of ones at least as much as a zero.",
    HOLDS,
)
def test_steps_of_the_induction() -> None:
    for q, n in product(FLIPS, range(1, 9)):
        p = 1 - q
        ones = bit_sums(n, 0, q)
        for s in range(1, n + 2):
            here, below, lowest = (at(ones, s - j) for j in range(3))
            up = (q * here + p * below) / (q * below + p * lowest)
            flat = (p * here + q * below) / (p * below + q * lowest)
            assert up >= flat
            for m in range(n + 1):
                law = bit_sums(m, n - m, q)
                for keep in (p, q):
                    top = keep * at(law, s) + (1 - keep) * at(law, s - 1)
                    bottom = keep * at(law, s - 1) + (1 - keep) * at(law, s - 2)
                    assert top / bottom <= (up if keep == q else flat)


@claim(
    "S2",
    "Lemma 5.1",
    "A ratio of sums with positive denominators is at most the largest single ratio.",
    HOLDS,
)
@given(st.lists(st.tuples(natural.map(lambda x: x - 10), positive), min_size=1, max_size=6))
@thorough
def test_mediant(pairs: list[tuple[Fraction, Fraction]]) -> None:
    whole = sum((a for a, _ in pairs), ZERO) / sum((b for _, b in pairs), ZERO)
    assert whole <= max(a / b for a, b in pairs)


def weighted(weights: list[Fraction], top: list[Fraction], bottom: list[Fraction]) -> Fraction:
    upper = sum((w * x for w, x in zip(weights, top, strict=True)), ZERO)
    return upper / sum((w * x for w, x in zip(weights, bottom, strict=True)), ZERO)


def falling_ratios(size: int) -> st.SearchStrategy[Columns]:
    """Pairs of positive lists whose quotients fall with the index."""
    column = st.lists(positive, min_size=size, max_size=size)
    return st.tuples(column, column).map(
        lambda pair: (
            [r * b for r, b in zip(sorted(pair[0], reverse=True), pair[1], strict=True)],
            pair[1],
        )
    )


@claim(
    "S2",
    "Lemma 5.2",
    "If λ_i/μ_i and a_i/a′_i both fall with i, then Σaλ/Σaμ ≥ Σa′λ/Σa′μ; likewise if both rise.",
    HOLDS,
    correction="Proof: the double sum in the text, which the source prints under Cor. 5.1.",
)
@given(st.integers(1, 5).flatmap(lambda n: st.tuples(falling_ratios(n), falling_ratios(n))))
@thorough
def test_rearrangement(
    pairs: tuple[tuple[list[Fraction], ...], tuple[list[Fraction], ...]],
) -> None:
    (lam, mu), (a, b) = pairs
    assert weighted(a, lam, mu) >= weighted(b, lam, mu)
    reverse = slice(None, None, -1)
    assert weighted(a[reverse], lam[reverse], mu[reverse]) >= weighted(
        b[reverse], lam[reverse], mu[reverse]
    )


@claim(
    "S2",
    "Cor. 5.1",
    "(qa_1 + pa_2)/(pa_1 + qa_2) does not fall as a_2/a_1 rises, for q < p.",
    HOLDS,
)
@given(positive, positive, positive, positive, st.sampled_from(FLIPS))
@thorough
def test_two_term_case(a1: Fraction, a2: Fraction, b1: Fraction, b2: Fraction, q: Fraction) -> None:
    p = 1 - q
    first = (q * a1 + p * a2) / (p * a1 + q * a2)
    second = (q * b1 + p * b2) / (p * b1 + q * b2)
    assert (first >= second) == (a2 / a1 >= b2 / b1)


@claim(
    "S2",
    "Lemma 5.3",
    "(aλ + bμ)/(cλ + aμ) ≥ (a′λ + b′μ)/(c′λ + a′μ) if ac′ ≥ a′c, ab′ ≤ a′b and bc′ ≥ b′c.",
    HOLDS,
    correction="The third condition follows from the first two.",
)
@given(st.tuples(*[positive] * 4), st.tuples(*[natural] * 4))
@thorough
def test_shared_middle_term(middle: tuple[Fraction, ...], ends: tuple[Fraction, ...]) -> None:
    a, a1, lam, mu = middle
    b1, more_b, c, more_c = ends
    b = a * b1 / a1 + more_b  # so that ab′ ≤ a′b
    c1 = a1 * c / a + more_c  # so that ac′ ≥ a′c
    assert b * c1 >= b1 * c
    left = (a * lam + b * mu) / (c * lam + a * mu)
    assert left >= (a1 * lam + b1 * mu) / (c1 * lam + a1 * mu)


@claim(
    "S2",
    "Section 6",
    "Without shuffling the privacy condition is P[x] ≤ ε·P[x′] for single records.",
    CORRECTED,
    correction="e^ε in place of ε; the ratio of the whole is that of the changed record.",
    counter_example="ε = 1/2, q = 49/100: the ratio p/q = 1.04 ≤ e^ε, but 0.51 > 0.49/2.",
)
def test_unshuffled_condition() -> None:
    for q in FLIPS:
        table: tuple[Law, ...] = flip_table(1, q)
        for s in product((0, 1), repeat=3):
            first = table[0][s[0]] * table[1][s[1]] * table[1][s[2]]
            second = table[1][s[0]] * table[1][s[1]] * table[1][s[2]]
            assert first / second == table[0][s[0]] / table[1][s[0]]
    q = Fraction(49, 100)
    assert 1 - q > Fraction(1, 2) * q
    assert float((1 - q) / q) < 1.05 < 2.718281828**0.5
