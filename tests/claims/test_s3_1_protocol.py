"""S3: definitions, algorithms and the claims about laws (sections 2 and 3, appendices A and B)."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations, product
from statistics import NormalDist

from hypothesis import given, settings
from hypothesis import strategies as st

from .ledger import CORRECTED, HOLDS, claim
from .reference import (
    FLIPS,
    ZERO,
    Law,
    binomial,
    bit_sums,
    convolve,
    hockey_stick,
    moments,
    neighbours,
    tradeoff_at,
    tradeoff_knots,
)

NORMAL = NormalDist()
HALF = Fraction(1, 2)
SEARCH = settings(max_examples=60, deadline=None, derandomize=True)


def normalised(weights: list[int]) -> Law:
    return tuple(Fraction(w, sum(weights)) for w in weights)


laws = st.lists(st.integers(0, 9), min_size=4, max_size=4).filter(any).map(normalised)


@claim(
    "S3",
    "Definition 2.4, G_μ",
    "The trade-off function of N(0, 1) against N(μ, 1) is Φ(Φ⁻¹(1 − α) − μ).",
    HOLDS,
)
def test_gaussian_tradeoff() -> None:
    for shift, threshold in product((0.1, 1.0, 3.0), (-2.0, 0.0, 0.7, 3.0)):
        # The likelihood ratio is increasing, so the best tests reject above a threshold.
        alpha = 1 - NORMAL.cdf(threshold)
        beta = NormalDist(shift).cdf(threshold)
        assert math.isclose(beta, NORMAL.cdf(NORMAL.inv_cdf(1 - alpha) - shift), rel_tol=1e-9)


def gaussian_delta(epsilon: float, mu: float) -> float:
    """δ(ε) of Corollary 2.5."""
    first = NORMAL.cdf(-epsilon / mu + mu / 2)
    return first - math.exp(epsilon) * NORMAL.cdf(-epsilon / mu - mu / 2)


def smallest_mu(pair: tuple[Law, Law]) -> float:
    """The least μ with G_μ below the curves of both orders, from their corners."""
    best = 0.0
    for first, second in (pair, pair[::-1]):
        for alpha, beta in tradeoff_knots(first, second)[1:-1]:
            gap = NORMAL.inv_cdf(float(1 - beta)) - NORMAL.inv_cdf(float(alpha))
            best = max(best, gap)
    return best


@claim(
    "S3",
    "Cor. 2.5",
    "μ-Gaussian privacy is the same as (ε, δ(ε))-privacy for all ε ≥ 0 with "
    "δ(ε) = Φ(−ε/μ + μ/2) − e^ε Φ(−ε/μ − μ/2).",
    HOLDS,
    correction="With both orders of the neighbours; for one order negative ε count too.",
)
def test_gaussian_profile() -> None:
    for q, (ones, zeros) in product(FLIPS, ((0, 0), (0, 3), (2, 3))):
        pair = neighbours(ones, zeros, q)
        mu = smallest_mu(pair)
        top = float((1 - q) / q)
        ratios = [Fraction(1 + (top - 1) * i / 400) for i in range(400)]

        def worst(ratio: Fraction, pair: tuple[Law, Law] = pair) -> float:
            return float(max(hockey_stick(*pair, ratio), hockey_stick(*pair[::-1], ratio)))

        gaps = [worst(r) - gaussian_delta(math.log(r), mu) for r in ratios]
        assert max(gaps) <= 1e-9
        assert any(worst(r) > gaussian_delta(math.log(r), 0.99 * mu) for r in ratios)


def product_law(first: Law, second: Law) -> Law:
    return tuple(x * y for x in first for y in second)


@claim(
    "S3",
    "Theorem 1",
    "Composing mechanisms, each private with f_i whatever came before, is private with the tensor "
    "product of the f_i.",
    HOLDS,
    correction="Quoted by the source. Checked for a second round whose flip probability depends on "
    "the outcome of the first.",
)
def test_adaptive_composition() -> None:
    weakest = Fraction(1, 10)
    floor_pair = neighbours(0, 0, weakest)
    for q, (ones, zeros) in product(FLIPS[1:], ((0, 1), (1, 1))):
        first = neighbours(ones, zeros, q)
        rounds = [neighbours(0, 0, weakest + Fraction(i, 10)) for i in range(len(first[0]))]
        adaptive = tuple(
            tuple(x * y for i, x in enumerate(first[side]) for y in rounds[i][side])
            for side in (0, 1)
        )
        tensor = [product_law(first[side], floor_pair[side]) for side in (0, 1)]
        for a, b in ((0, 1), (1, 0)):
            floor = tradeoff_knots(tensor[a], tensor[b])
            for alpha, beta in tradeoff_knots(adaptive[a], adaptive[b]):
                assert beta >= tradeoff_at(floor, alpha)


@claim(
    "S3",
    "Section 3.1, text",
    "A random set of λ users answers at random and the other n − λ truthfully.",
    CORRECTED,
    correction="The number of random answers is Bin(n, λ/n): λ in the mean.",
    counter_example="n = 2, λ = 1: 0, 1 or 2 users with probabilities 1/4, 1/2, 1/4.",
)
def test_number_of_random_answers() -> None:
    assert binomial(2, HALF) == (Fraction(1, 4), HALF, Fraction(1, 4))
    for n in range(1, 8):
        assert moments(binomial(n, Fraction(1, n + 1)))[0] == n * Fraction(1, n + 1)


@claim(
    "S3",
    "Algorithm 1",
    "Answering at random with probability λ/n gives the unbiased count "
    "(n/(n − λ))(Σy − λ/2), a natural number.",
    CORRECTED,
    correction="Unbiased, and the same as flipping with q = λ/(2n); but the estimate is neither an "
    "integer nor positive in general.",
    counter_example="n = 1, λ = 1/2: the estimates are −1/2 and 3/2.",
)
def test_boolean_protocol() -> None:
    for n, lam in product(range(1, 7), (Fraction(1, 3), HALF, Fraction(9, 10))):
        rate = lam / n
        answer = {x: rate * HALF + (1 - rate) * x for x in (0, 1)}
        assert answer[0] == rate / 2 == 1 - answer[1]
        for ones in range(n + 1):
            mean, _ = moments(bit_sums(ones, n - ones, rate / 2))
            assert Fraction(n) / (n - lam) * (mean - lam / 2) == ones
    assert [1 / (1 - HALF) * (y - HALF / 2) for y in (0, 1)] == [-HALF, 3 * HALF]


@claim(
    "S3",
    "Definition 3.1",
    "C ~ Bin(s, 1/2) with s ~ Bin(n, λ/n) has P(C = k) = Σ_l C(l, k)C(n, l)(λ/2n)^l(1 − "
    "λ/n)^(n−l).",
    HOLDS,
    correction="It is simply Bin(n, λ/(2n)).",
)
def test_compound_binomial() -> None:
    for n, lam in product(range(1, 9), (Fraction(1, 3), HALF, Fraction(9, 10))):
        for k in range(n + 1):
            total = sum(
                (
                    math.comb(r, k)
                    * math.comb(n, r)
                    * (lam / (2 * n)) ** r
                    * (1 - lam / n) ** (n - r)
                    for r in range(k, n + 1)
                ),
                ZERO,
            )
            assert total == binomial(n, lam / (2 * n))[k]


def encode(x: Fraction, r: int) -> list[Fraction]:
    """P[bit j is set] for the encoder of Algorithm 2."""
    unit = -((-x * r) // 1)
    chance = x * r - unit + 1
    return [Fraction(1) if j < unit else chance if j == unit else ZERO for j in range(1, r + 1)]


@claim(
    "S3",
    "Algorithm 2",
    "The r bits that encode x in [0, 1] have mean x.",
    HOLDS,
    correction="At x = 0 no bit is set (the bit to draw would be bit 0). The variance of the mean "
    "is at most 1/(4r²).",
)
def test_encoder() -> None:
    for r, step in product(range(1, 7), range(25)):
        x = Fraction(step, 24)
        chances = encode(x, r)
        assert all(0 <= c <= 1 for c in chances)
        assert sum(chances, ZERO) / r == x
        assert sum((c * (1 - c) for c in chances), ZERO) / r**2 <= Fraction(1, 4 * r**2)
    assert encode(ZERO, 3) == [0, 0, 0]
    assert encode(Fraction(1), 3) == [1, 1, 1]


@claim(
    "S3",
    "Algorithm 3",
    "(n/(r(n − λ)))(ΣΣy − λr/2) is an unbiased estimate of the sum and lies in [0, n].",
    CORRECTED,
    correction="Unbiased; it ranges over [−λn/(2(n − λ)), n + λn/(2(n − λ))].",
    counter_example="n = 1, r = 1, λ = 1/2: −1/2.",
)
def test_real_protocol() -> None:
    for n, r, lam in product((1, 2), (1, 2, 3), (Fraction(1, 3), Fraction(9, 10))):
        q = lam / (2 * n)
        scale = Fraction(n) / (r * (n - lam))
        for xs in product((ZERO, Fraction(1, 3), Fraction(5, 8), Fraction(1)), repeat=n):
            reported = [q + (1 - 2 * q) * c for x in xs for c in encode(x, r)]
            assert scale * (sum(reported, ZERO) - lam * r / 2) == sum(xs, ZERO)
        edge = lam * n / (2 * (n - lam))
        assert scale * (0 - lam * r / 2) == -edge < 0
        assert scale * (n * r - lam * r / 2) == n + edge > n


def chosen_set_law(bits: tuple[int, ...], lam: Fraction) -> Law:
    """Algorithm 4: choose the size, then the set, then add Bin(size, 1/2)."""
    n = len(bits)
    total = [ZERO] * (n + 1)
    for size, weight in enumerate(binomial(n, lam / n)):
        sets = list(combinations(range(n), size))
        for chosen in sets:
            kept = sum(bit for i, bit in enumerate(bits) if i not in chosen)
            for extra, chance in enumerate(binomial(size, HALF)):
                total[kept + extra] += weight / len(sets) * chance
    return tuple(total)


@claim(
    "S3",
    "Claim B.1, Algorithms 4 and 5",
    "Choosing the random answerers as a set first (C_λ, a mixture of C_H) gives the law of the sum "
    "of independently randomized bits.",
    HOLDS,
)
def test_set_first() -> None:
    for n, lam in product(range(1, 6), (Fraction(1, 3), Fraction(9, 10))):
        for bits in product((0, 1), repeat=n):
            ones = sum(bits)
            assert chosen_set_law(bits, lam) == bit_sums(ones, n - ones, lam / (2 * n))


@claim(
    "S3",
    "Claim B.2",
    "Privacy of C_λ carries over to the shuffled reports: a random string with the given number of "
    "ones has the law of the shuffled reports.",
    HOLDS,
)
def test_sum_is_enough() -> None:
    for n, lam in product(range(1, 5), (Fraction(1, 3), Fraction(9, 10))):
        q = lam / (2 * n)
        for ones in range(n + 1):
            chances = [1 - q] * ones + [q] * (n - ones)
            strings = {
                y: math.prod(c if b else 1 - c for b, c in zip(y, chances, strict=True))
                for y in product((0, 1), repeat=n)
            }
            sums = bit_sums(ones, n - ones, q)
            for z in strings:
                same = [weight for y, weight in strings.items() if sum(y) == sum(z)]
                # A uniform shuffle spreads the weight of all strings with this sum evenly.
                shuffled = sum(same, start=ZERO) / len(same)
                assert shuffled == sums[sum(z)] / math.comb(n, sum(z))


@claim(
    "S3",
    "Lemma B.3",
    "Post-processing never lowers the trade-off function.",
    HOLDS,
)
@given(laws, laws, st.lists(laws, min_size=4, max_size=4))
@SEARCH
def test_post_processing(first: Law, second: Law, kernel: list[Law]) -> None:
    after = [
        tuple(sum((law[i] * kernel[i][j] for i in range(4)), ZERO) for j in range(4))
        for law in (first, second)
    ]
    before = tradeoff_knots(first, second)
    for alpha, beta in tradeoff_knots(after[0], after[1]):
        assert beta >= tradeoff_at(before, alpha)


@claim(
    "S3",
    "Appendix A, Neyman–Pearson",
    "Rejecting for a small likelihood ratio is the most powerful test at its level.",
    HOLDS,
    correction="At the levels it attains; between them on finite spaces it must be randomized.",
)
@given(laws, laws)
@SEARCH
def test_most_powerful_test(first: Law, second: Law) -> None:
    curve = tradeoff_knots(first, second)
    for size in range(5):
        for region in combinations(range(4), size):
            alpha = sum((first[i] for i in region), ZERO)
            beta = 1 - sum((second[i] for i in region), ZERO)
            assert beta >= tradeoff_at(curve, alpha)


@claim(
    "S3",
    "Claim B.4, likelihood ratio",
    "For B ~ Bin(|H|, 1/2), P(B = k + 1)/P(B = k) = (|H| − k)/(k + 1), and moving a truthful bit "
    "outside H shifts the law of C_H by one.",
    HOLDS,
)
def test_shift_by_one() -> None:
    for size, kept in product(range(7), range(3)):
        law = binomial(size, HALF)
        for k in range(size):
            assert law[k + 1] / law[k] == Fraction(size - k, k + 1)
        certain = (*[ZERO] * kept, Fraction(1))
        assert convolve(law, (*certain[:-1], ZERO, Fraction(1))) == (ZERO, *convolve(law, certain))
