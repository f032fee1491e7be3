"""S4 part III: several filters, the assumed worst pair, and the search for a flip probability."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from math import comb, factorial, isnan, prod

from scipy.stats import binom

from .ledger import CORRECTED, FALSE, HOLDS, claim
from .reference import (
    FLIPS,
    ONE,
    ZERO,
    Law,
    MultisetLaw,
    add_record,
    binomial,
    crowds,
    flip_table,
    hockey_stick,
    multiset_delta,
    multiset_law,
    neighbours,
)

CASES = tuple(product(FLIPS, ((1, 4), (2, 3), (3, 2))))


def laws(filters: int, columns: int, q: Fraction) -> tuple[MultisetLaw, MultisetLaw]:
    """All columns empty, and one column full."""
    table = flip_table(filters, q)
    crowd = multiset_law([0] * (columns - 1), table)
    return add_record(crowd, table[0]), add_record(crowd, table[-1])


def by_weight(key: tuple[int, ...], filters: int) -> tuple[int, ...]:
    counts = [0] * (filters + 1)
    for v, s in enumerate(key):
        counts[v.bit_count()] += s
    return tuple(counts)


@claim(
    "S4",
    "III.1, steps (1) and (2)",
    "With P_0 = binom.pmf(k, p, y) and P_k = binom.pmf(k, q, y), the counts g of columns by number "
    "of set bits are Multinomial(m, P_0), and g′ is one draw from P_k plus m − 1 from P_0.",
    CORRECTED,
    correction="The laws are right; the arguments of the library call are in the wrong order, it "
    "is binom.pmf(y, k, ·).",
    counter_example="k = 1, y = 0, flip probability 1/4: P_0(0) = 3/4; read in the library's order "
    "the printed call asks for one success in a quarter of a trial.",
)
def test_counts_by_weight() -> None:
    for q, (filters, columns) in CASES:
        empty, full = laws(filters, columns, q)
        base, other = binomial(filters, q), binomial(filters, 1 - q)
        found: dict[tuple[int, ...], Fraction] = {}
        moved: dict[tuple[int, ...], Fraction] = {}
        for key in empty:
            g = by_weight(key, filters)
            found[g] = found.get(g, ZERO) + empty[key]
            moved[g] = moved.get(g, ZERO) + full[key]
        assert found == multiset_law([0] * columns, (base,))
        assert moved == multiset_law([0] * (columns - 1) + [1], (base, other))
    assert binom.pmf(0, 1, 0.25) == 0.75 == binomial(1, Fraction(1, 4))[0]
    assert isnan(binom.pmf(1, 0.25, 0))


@claim(
    "S4",
    "III.1, loss",
    "Between all columns empty and one full, the loss is R(g) = (1/m)Σ_y (p/q)^(2y−k)g_y, so g is "
    "sufficient.",
    HOLDS,
)
def test_loss_of_the_pair() -> None:
    for q, (filters, columns) in CASES:
        empty, full = laws(filters, columns, q)
        odds = (1 - q) / q
        for key, weight in empty.items():
            g = by_weight(key, filters)
            mean = sum((s * odds ** (2 * y - filters) for y, s in enumerate(g)), ZERO) / columns
            assert full[key] / weight == mean


@claim(
    "S4",
    "III.1, derivation",
    "Pr[A(D′) = f] and the loss are sums over j = 0..m, and p_(0→j) = q^j p^(k−j).",
    CORRECTED,
    correction="Sums over the logos j = 0..2^k − 1, and p_(0→j) = q^y(j) p^(k−y(j)).",
    counter_example="k = 1, m = 1: with j = 0..m both agree; k = 2, m = 1: the logos 2 and 3 are "
    "left out, and j = 3 would have p_(0→3) = q³/p.",
)
def test_sum_over_logos() -> None:
    for q, (filters, columns) in CASES:
        table = flip_table(filters, q)
        _, full = laws(filters, columns, q)
        for key, weight in full.items():
            total = ZERO
            for j, s in enumerate(key):
                arrange = Fraction(factorial(columns - 1), prod(map(factorial, key))) * s
                spread = prod(w**n for w, n in zip(table[0], key, strict=True))
                total += table[-1][j] * arrange * spread / table[0][j]
            assert total == weight
        for j in range(2**filters):
            y = j.bit_count()
            assert table[0][j] == q**y * (1 - q) ** (filters - y)
    q = Fraction(1, 4)
    assert flip_table(2, q)[0][3] == q**2 != q**3 / (1 - q)
    assert sum(flip_table(2, q)[0][:2]) < ONE


def weight_step(filters: int, start: int, end: int, q: Fraction) -> Fraction:
    """Σ over i, j with the given numbers of set bits of p_(i→j)."""
    table = flip_table(filters, q)
    size = range(2**filters)
    return sum(
        (
            table[i][j]
            for i, j in product(size, repeat=2)
            if (i.bit_count(), j.bit_count()) == (start, end)
        ),
        ZERO,
    )


@claim(
    "S4",
    "III.1, matrix π",
    "π_(y₁→y₂), the sum of p_(i→j) over all logos with y₁ and y₂ set bits, is the transition "
    "matrix of the number of set bits, and the sum of (q/p)^H over them is (k − "
    "1)!·(q/p)^(y₁+y₂)·E[(p/q)^(2ξ)].",
    CORRECTED,
    correction="Divide by C(k, y₁) to get transition probabilities; the factor is C(k, y₁)C(k, "
    "y₂), not (k − 1)!. The two cases used, y₁ = 0 and y₁ = k, are right.",
    counter_example="k = 2, y₁ = y₂ = 1: factor 4, printed 1; the row y₁ = 1 of π sums to 2.",
)
def test_matrix_of_weights() -> None:
    for q, filters in product(FLIPS, (1, 2, 3)):
        z = (1 - q) / q
        for start in range(filters + 1):
            row = [weight_step(filters, start, end, q) for end in range(filters + 1)]
            assert sum(row) == comb(filters, start)
            for end, value in enumerate(row):
                ways = comb(filters, start) * comb(filters, end)
                mean = sum(
                    (
                        Fraction(
                            comb(start, x) * comb(filters - start, end - x), comb(filters, end)
                        )
                        * z ** (2 * x)
                        for x in range(max(0, start + end - filters), min(start, end) + 1)
                    ),
                    ZERO,
                )
                assert value == (1 - q) ** filters * ways * z ** -(start + end) * mean
        for y in range(filters + 1):
            assert weight_step(filters, 0, y, q) == binomial(filters, q)[y]
            assert weight_step(filters, filters, y, q) == binomial(filters, 1 - q)[y]


def smallest_ratio(first: Law, second: Law, delta: Fraction) -> Fraction:
    """The least e^ε with point-wise failure at most δ under the first law."""
    total = ZERO
    for ratio, weight in sorted(
        ((x / y, x) for x, y in zip(first, second, strict=True)), reverse=True
    ):
        total += weight
        if total > delta:
            return ratio
    return ZERO


@claim(
    "S4",
    "III.1, output (4)",
    "The privacy parameter is the larger of the δ-quantile of ln R(g) and the (1 − δ)-quantile of "
    "ln R(g′).",
    CORRECTED,
    correction="Minus the δ-quantile; both are quantiles of samples, so the result is an estimate "
    "of the point-wise quantity, not a bound.",
    counter_example="k = 1, m = 2, q = 1/4, δ = 1/5: e^ε = 5/3 as printed, 3 in truth.",
)
def test_quantile_sign() -> None:
    q, delta = Fraction(1, 4), Fraction(1, 5)
    empty, full = laws(1, 2, q)
    ratios = sorted((full[key] / empty[key], empty[key], full[key]) for key in empty)
    assert [r for r, _, _ in ratios] == [Fraction(1, 3), Fraction(5, 3), 3]

    def quantile(side: int, level: Fraction) -> Fraction:
        sums = [sum((row[side] for row in ratios[: i + 1]), ZERO) for i in range(len(ratios))]
        return ratios[next(i for i, total in enumerate(sums) if total >= level)][0]

    low, high = quantile(1, delta), quantile(2, 1 - delta)
    assert (low, high) == (Fraction(1, 3), Fraction(5, 3))
    assert max(low, high) == Fraction(5, 3) < max(1 / low, high) == 3
    assert smallest_ratio(*neighbours(0, 1, q), delta) == 3


def pair_deltas(
    filters: int, columns: int, q: Fraction, ratio: Fraction
) -> tuple[Fraction, Fraction]:
    """δ of the assumed pair, and of the worst pair over all crowds."""
    table = flip_table(filters, q)
    size = len(table)
    assumed = worst = ZERO
    for crowd in crowds(columns - 1, size):
        base = multiset_law(crowd, table)
        found = [add_record(base, row) for row in table]
        for x, y in product(range(size), repeat=2):
            delta = multiset_delta(found[x], found[y], ratio)
            worst = max(worst, delta)
            if not any(crowd) and {x, y} == {0, size - 1}:
                assumed = max(assumed, delta)
    return assumed, worst


@claim(
    "S4",
    "III.1, worst pair",
    "It is enough to evaluate the pair “all columns empty” against “one column full”.",
    FALSE,
    correction="That pair has the largest SNR, not always the largest δ. A guarantee needs a bound "
    "over all inputs, such as the privacy blanket of the flip table.",
    counter_example="k = 2, m = 3, q = 1/4, E = 3: with the others (00, 11) δ = 141/1024 = 0.1377, "
    "for the assumed pair 243/2048 = 0.1187. For k = 1: m = 3, q = 1/4, E = 11/10. None with m ≤ 2 "
    "on the grid.",
)
def test_assumed_pair() -> None:
    quarter = Fraction(1, 4)
    assert pair_deltas(2, 3, quarter, Fraction(3)) == (Fraction(243, 2048), Fraction(141, 1024))
    assumed, worst = pair_deltas(1, 3, quarter, Fraction(11, 10))
    assert worst > assumed
    for filters, columns in ((1, 1), (1, 2), (2, 1), (2, 2)):
        for q, ratio in product(FLIPS, (Fraction(11, 10), Fraction(2), Fraction(5))):
            assumed, worst = pair_deltas(filters, columns, q, ratio)
            assert assumed == worst


@claim(
    "S4",
    "III.2, estimate_flip_prob",
    "Binary search finds the flip probability for a target, the privacy parameter falling as the "
    "flip probability rises.",
    CORRECTED,
    correction="The hockey-stick δ(ε) falls (more flipping is post-processing), so binary search "
    "is right for it. The point-wise parameter that the source searches is not monotone.",
    counter_example="k = 1, m = 4, δ = 1/5: e^ε rises from 1.198 at q = 0.35 to 1.474 at q = 0.36. "
    "None with m ≤ 3 for δ in {1/20, 1/10, 1/5} and q in hundredths.",
)
def test_search_needs_monotonicity() -> None:
    def parameter(m: int, q: Fraction, delta: Fraction) -> Fraction:
        low, high = neighbours(0, m - 1, q)
        return max(smallest_ratio(low, high, delta), smallest_ratio(high, low, delta))

    hundredths = [Fraction(i, 100) for i in range(1, 50)]
    for m, delta in product((1, 2, 3), (Fraction(1, 20), Fraction(1, 10), Fraction(1, 5))):
        values = [parameter(m, q, delta) for q in hundredths]
        assert values == sorted(values, reverse=True)
    fifth = Fraction(1, 5)
    assert round(float(parameter(4, hundredths[34], fifth)), 3) == 1.198
    assert round(float(parameter(4, hundredths[35], fifth)), 3) == 1.474
    for m, ratio in product((1, 3, 6), (Fraction(11, 10), Fraction(3))):
        pairs = [neighbours(0, m - 1, q) for q in hundredths[::4]]
        for first, second in ((0, 1), (1, 0)):
            deltas = [hockey_stick(pair[first], pair[second], ratio) for pair in pairs]
            assert deltas == sorted(deltas, reverse=True)
