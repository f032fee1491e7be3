"""S0 section 4, bounds: Chernoff tails, the flip probability, the estimator, fake bits."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from .ledger import CORRECTED, HOLDS, claim
from .reference import (
    FLIPS,
    bit_sums,
    float_binomial,
    float_hockey_stick,
    float_neighbours,
    float_pointwise,
    moments,
)

EPSILONS = (0.05, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 20.0)
DELTAS = (0.999, 0.9, 0.5, 0.1, 0.01, 1e-3, 1e-6)


def lemma_4_3(epsilon: float, delta: float) -> float:
    """The product nq that (4.36) asks for."""
    return 3 * math.log(2 / delta) / (1 - math.exp(-epsilon)) ** 2


def proposition_4_5(epsilon: float, delta: float) -> float:
    """The product nq that (4.48) asks for."""
    return lemma_4_3(epsilon, delta) + 4 / (1 - math.exp(-epsilon))


def crowd_sizes(product: float) -> list[int]:
    """Sizes from the least with q ≤ 1/2 upwards, as far as the test has time for."""
    least = math.ceil(2 * product)
    return [n for n in sorted({least, least + 1, least + 5, 2 * least, 10 * least}) if n <= 3000]


def spread(others: int) -> list[int]:
    """All crowds when there are few, else both ends and a dozen between."""
    if others <= 40:
        return list(range(others + 1))
    return sorted({0, 1, 2, others, others - 1, *range(0, others, others // 12)})


@claim(
    "S0",
    "(4.20)",
    "For zeros only, P(|s − μ| > tμ) ≤ 2 exp(−t²μ/3).",
    CORRECTED,
    correction="For 0 < t ≤ 1 only. Where it is used, (4.36) makes t ≤ 1.",
    counter_example="n = 1, q = 1/20, t = 18: 0.05 against 0.0090.",
)
def test_chernoff_zeros() -> None:
    for n in (1, 2, 3, 5, 10, 40):
        for flip in (0.001, 0.01, 0.1, 0.3, 0.49):
            law = float_binomial(n, flip)
            distance = np.abs(np.arange(n + 1) - n * flip)
            for t in np.linspace(0.01, 1, 34):
                tail = law[distance > t * n * flip].sum()
                assert tail <= 2 * math.exp(-(t**2) * n * flip / 3)
    assert float(bit_sums(0, 1, Fraction(1, 20))[1]) == 0.05 > 2 * math.exp(-(18**2) / 60)
    assert Fraction(19, 20) > 18 * Fraction(1, 20)


@claim(
    "S0",
    "(4.21)",
    "For zeros only, P(|s − μ| > √(3nq ln(2/δ))) ≤ δ.",
    CORRECTED,
    correction="If nq ≥ 3 ln(2/δ), which keeps t ≤ 1.",
    counter_example="n = 1, q = 1/20, δ = 1/25: the deviation 0.95 exceeds 0.766 with "
    "probability 0.05.",
)
def test_chernoff_zeros_at_delta() -> None:
    for delta in DELTAS:
        for n in (10, 40, 200, 1000):
            for flip in (0.01, 0.1, 0.3, 0.49):
                if n * flip < 3 * math.log(2 / delta):
                    continue
                width = math.sqrt(3 * n * flip * math.log(2 / delta))
                distance = np.abs(np.arange(n + 1) - n * flip)
                assert float_binomial(n, flip)[distance > width].sum() <= delta
    assert math.sqrt(3 * 0.05 * math.log(50)) < 0.95
    assert Fraction(1, 20) > Fraction(1, 25)


@claim(
    "S0",
    "(4.25)–(4.35), (4.37)–(4.40)",
    "R ≤ e^ε at μ − l when l ≤ (1 − e^−ε)npq/(p − q), 1/R ≤ e^ε at μ + l when "
    "l ≤ (e^ε − 1)npq/(p − q), and the q of (4.36) satisfies both.",
    HOLDS,
)
def test_interval_algebra() -> None:
    for flip in FLIPS:
        keep = 1 - flip
        for n in (1, 3, 10, 100):
            for step in range(-8, 9):
                shift = Fraction(step, 4)
                i = n * flip - shift
                reciprocal = (n - i) / n * flip / keep + i / n * keep / flip
                assert reciprocal == 1 - shift / n * (keep - flip) / (keep * flip)
    for epsilon in EPSILONS:
        assert math.expm1(epsilon) >= -math.expm1(-epsilon)
        for delta in DELTAS:
            for n in crowd_sizes(lemma_4_3(epsilon, delta)):
                q = lemma_4_3(epsilon, delta) / n
                width = math.sqrt(3 * n * q * math.log(2 / delta)) * (1 - 2 * q)
                assert width <= -math.expm1(-epsilon) * n * q * (1 - q) * (1 + 1e-12)


def settings_of(kind: str) -> Iterator[tuple[float, float, int, float]]:
    asked = {"zeros": lemma_4_3, "any": proposition_4_5}[kind]
    for epsilon in EPSILONS:
        for delta in DELTAS:
            for n in crowd_sizes(asked(epsilon, delta)):
                yield epsilon, delta, n, asked(epsilon, delta) / n


@claim(
    "S0",
    "Lemma 4.3, (4.36)",
    "For a collection of n zeros, q ≥ 3 ln(2/δ)/(n(1 − e^−ε)²) gives (ε, δ)-privacy.",
    HOLDS,
    correction="Both directions, also point-wise; δ is met with a factor of at least 15 to spare.",
)
def test_flip_probability_for_zeros() -> None:
    checked = 0
    for epsilon, delta, n, q in settings_of("zeros"):
        low, high = float_neighbours(0, n - 1, q)
        for first, second in ((low, high), (high, low)):
            assert float_hockey_stick(first, second, math.exp(epsilon)) <= delta / 15
            assert float_pointwise(first, second, math.exp(epsilon)) <= delta
        checked += 1
    assert checked > 150


@claim(
    "S0",
    "Prop. 4.5, (4.48) = (4.57)",
    "For any n bits, q ≥ 3 ln(2/δ)/(n(1 − e^−ε)²) + 4/(n(1 − e^−ε)) gives (ε, δ)-privacy.",
    HOLDS,
    correction="All crowds where n ≤ 41, a spread of crowds above; also point-wise. It asks for "
    "far too much: δ is met with a factor of at least 300 to spare.",
)
def test_flip_probability_for_any_bits() -> None:
    checked = 0
    for epsilon, delta, n, q in settings_of("any"):
        for ones in spread(n - 1):
            low, high = float_neighbours(ones, n - 1 - ones, q)
            for first, second in ((low, high), (high, low)):
                assert float_hockey_stick(first, second, math.exp(epsilon)) <= delta / 300
                assert float_pointwise(first, second, math.exp(epsilon)) <= delta
        checked += 1
    assert checked > 100


@claim(
    "S0",
    "(4.50)–(4.57)",
    "The q of (4.48) makes l + 2 ≤ (1 − e^−ε)npq/(p − q) for l = √(3nq ln(2/δ)).",
    HOLDS,
    correction="The step to (4.56) drops a +4 on the safe side.",
)
def test_main_bound_algebra() -> None:
    for epsilon, delta, n, q in settings_of("any"):
        width = math.sqrt(3 * n * q * math.log(2 / delta))
        assert (width + 2) * (1 - 2 * q) <= -math.expm1(-epsilon) * n * q * (1 - q)


def log_chernoff(n: int, m: int, q: float, alpha: float) -> float:
    """ln of E[e^{ts}]/e^{t(1+α)μ} at t = ln(1 + α) for m ones among n."""
    p = 1 - q
    mean = m * p + (n - m) * q
    growth = m * math.log1p(p * alpha) + (n - m) * math.log1p(q * alpha)
    return growth - (1 + alpha) * mean * math.log1p(alpha)


@claim(
    "S0",
    "Prop. 4.2",
    "The Chernoff bound of the right tail of the zeros bounds the right tail of every crowd.",
    CORRECTED,
    correction="True, but the displays after (4.45) are not: the ratio of the bounds is "
    "[(1 + α)^((1 + α)(p − q))·(1 + qα)/(1 + pα)]^m, and it is ≥ 1 because its logarithm vanishes "
    "at α = 0 and has derivative (p − q)[1 + ln(1 + α) − 1/((1 + pα)(1 + qα))] ≥ 0.",
    counter_example="printed ratio at m = 1, q = 1/4, α = 1: 2·e^(2 + 1/2)·(5/7) = 17.4; "
    "true 2·(5/7) = 1.43.",
)
def test_right_tail_chernoff() -> None:
    for q in (0.01, 0.1, 0.25, 0.4, 0.49):
        p = 1 - q
        for alpha in (0.01, 0.1, 0.5, 1.0, 3.0, 10.0):
            base = (1 + alpha) ** ((1 + alpha) * (p - q)) * (1 + q * alpha) / (1 + p * alpha)
            assert base >= 1
            for n, m in ((1, 1), (5, 2), (12, 12), (12, 5)):
                gap = log_chernoff(n, 0, q, alpha) - log_chernoff(n, m, q, alpha)
                assert math.isclose(gap, m * math.log(base), rel_tol=1e-9, abs_tol=1e-12)
                law = bit_sums(m, n - m, Fraction(q))
                edge = (1 + Fraction(alpha)) * moments(law)[0]
                tail = float(sum(x for s, x in enumerate(law) if s > edge))
                assert tail <= math.exp(log_chernoff(n, 0, q, alpha))
    printed = 2 * math.exp(2) * math.exp(0.5) * 1.25 / 1.75
    true = math.exp(log_chernoff(1, 0, 0.25, 1) - log_chernoff(1, 1, 0.25, 1))
    assert printed > 17
    assert math.isclose(true, 2 * 1.25 / 1.75)


@claim(
    "S0",
    "Prop. 4.3",
    "The Chernoff bound of the left tail of the ones bounds the left tail of every crowd.",
    CORRECTED,
    correction="If the deviation is a multiple of the mirrored mean μ_(n−m), not of μ_m; it is "
    "then the mirror image of Prop. 4.2.",
    counter_example="read with the deviation (1 − t)μ_m: n = 10, q = 1/4, m = 0, t = 9/10: "
    "P(s = 0) = 0.0563 against exp(−t²np/2) = 0.0480.",
)
def test_left_tail_chernoff() -> None:
    for q in (0.01, 0.1, 0.25, 0.4, 0.49):
        for alpha in (0.01, 0.1, 0.5, 1.0, 3.0):
            for n, m in ((1, 0), (5, 2), (12, 12), (12, 5)):
                law = bit_sums(m, n - m, Fraction(q))
                mean = moments(law)[0]
                edge = mean - Fraction(alpha) * (n - mean)
                tail = float(sum(x for s, x in enumerate(law) if s < edge))
                assert tail <= math.exp(log_chernoff(n, 0, q, alpha))
    assert float(bit_sums(0, 10, Fraction(1, 4))[0]) > math.exp(-0.81 * 7.5 / 2)


@claim(
    "S0",
    "Prop. 4.4, (4.46)",
    "For every crowd, P(|s − μ_m| > tμ_m) ≤ 2 exp(−t²nq/3).",
    CORRECTED,
    correction="For 0 < t ≤ 1, where it follows from the usual Chernoff bound and μ_m ≥ nq.",
    counter_example="n = 1, m = 0, q = 1/20, t = 18, as for (4.20).",
)
def test_chernoff_any_crowd() -> None:
    for n in (1, 2, 5, 12, 30):
        for q in (0.01, 0.1, 0.3, 0.49):
            for m in range(n + 1):
                low = np.convolve(float_binomial(m, 1 - q), float_binomial(n - m, q))
                mean = m * (1 - q) + (n - m) * q
                for t in np.linspace(0.01, 1, 20):
                    tail = low[np.abs(np.arange(n + 1) - mean) > t * mean].sum()
                    assert tail <= 2 * math.exp(-(t**2) * n * q / 3)
    assert 2 * math.exp(-(18**2) * 0.05 / 3) < 0.05


@claim(
    "S0",
    "(4.47), (4.49)",
    "For every crowd, P(|s − μ_m| > tμ_0) ≤ 2 exp(−t²nq/3), because μ_0 is the smaller mean.",
    CORRECTED,
    correction="For 0 < t ≤ 3/2, but not for that reason, which makes the event larger. Proof: "
    "Bernstein with variance npq gives the exponent t²nq/(2(p + t/3)), and p + t/3 ≤ 3/2.",
    counter_example="n = 1, m = 0, q = 1/20, t = 18, as for (4.20).",
)
def test_chernoff_absolute_width() -> None:
    for n in (1, 2, 5, 12, 30, 100):
        for q in (0.001, 0.01, 0.1, 0.3, 0.49):
            for m in spread(n):
                low = np.convolve(float_binomial(m, 1 - q), float_binomial(n - m, q))
                distance = np.abs(np.arange(n + 1) - m * (1 - q) - (n - m) * q)
                for t in np.linspace(0.01, 1.5, 20):
                    assert low[distance > t * n * q].sum() <= 2 * math.exp(-(t**2) * n * q / 3)
    assert 2 * math.exp(-(18**2) * 0.05 / 3) < 0.05


@claim(
    "S0",
    "Section 4.3, estimator",
    "(s − nq)/(p − q) is unbiased for the number of ones, with variance npq/(p − q)² whatever "
    "that number is.",
    HOLDS,
)
def test_estimator_moments() -> None:
    for q in FLIPS:
        for n in range(1, 9):
            for m in range(n + 1):
                mean, variance = moments(bit_sums(m, n - m, q))
                assert (mean - n * q) / (1 - 2 * q) == m
                assert variance == n * q * (1 - q)


@claim(
    "S0",
    "(4.58)–(4.60)",
    "At the q of (4.48) the variance of the count is [3 ln(2/δ)/(1 − e^−ε)² + 4/(1 − e^−ε)]·"
    "p/(p − q)², which tends to a constant, so the error of the proportion falls like 1/n.",
    HOLDS,
)
def test_variance_at_the_bound() -> None:
    for epsilon in EPSILONS:
        for delta in DELTAS:
            asked = proposition_4_5(epsilon, delta)
            for n in (10**6, 10**9):
                q = asked / n
                p = 1 - q
                if q >= 0.5:
                    continue
                variance = n * p * q / (p - q) ** 2
                assert math.isclose(variance, asked * p / (p - q) ** 2, rel_tol=1e-12)
                if n == 10**9:
                    assert math.isclose(variance, asked, rel_tol=1e-3)


@claim(
    "S0",
    "Section 4.4, fake bits",
    "With k extra flipped zeros, (4.48) with n + k for n still gives privacy, and "
    "(s − (n + k)q)/(p − q) still estimates the number of ones, with variance (n + k)pq/(p − q)².",
    HOLDS,
)
def test_fake_bits() -> None:
    checked = 0
    for epsilon, delta, total, q in settings_of("any"):
        for users in {1, 2, total // 3}:
            for ones in spread(users - 1)[:: 1 + users // 40]:
                low, high = float_neighbours(ones, total - 1 - ones, q)
                worst = max(
                    float_hockey_stick(low, high, math.exp(epsilon)),
                    float_hockey_stick(high, low, math.exp(epsilon)),
                )
                assert worst <= delta
                checked += 1
    assert checked > 500
    for flip in FLIPS:
        for n, k in ((1, 3), (3, 2), (4, 5)):
            for m in range(n + 1):
                mean, variance = moments(bit_sums(m, n - m + k, flip))
                assert (mean - (n + k) * flip) / (1 - 2 * flip) == m
                assert variance == (n + k) * flip * (1 - flip)


@claim(
    "S0",
    "(4.61), (4.62)",
    "With fake bits the standard deviation is √p/(p − q) times [3 ln(2/δ)/(1 − e^−ε)² + "
    "4/(1 − e^−ε)].",
    CORRECTED,
    correction="Times the square root of that bracket; (4.61) is right.",
    counter_example="ε = 1, δ = 1e-6, n + k = 1000: √((n + k)pq)/(p − q) = 13.1, printed 141.",
)
def test_deviation_with_fake_bits() -> None:
    asked, total = proposition_4_5(1, 1e-6), 1000
    q = asked / total
    p = 1 - q
    deviation = math.sqrt(total * p * q) / (p - q)
    assert math.isclose(deviation, math.sqrt(p) / (p - q) * math.sqrt(asked))
    assert round(deviation, 1) == 13.1
    assert round(math.sqrt(p) / (p - q) * asked) == 141
