"""S3: the trade-off claims (theorems, corollaries, claims B.4 to C.1, figures)."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product
from statistics import NormalDist

import numpy as np
import pytest

from .ledger import CORRECTED, FALSE, HOLDS, claim
from .reference import (
    ONE,
    ZERO,
    Floats,
    Knots,
    Law,
    binomial,
    float_binomial,
    float_hockey_stick,
    float_neighbours,
    neighbours,
    tradeoff_at,
    tradeoff_knots,
)
from .test_s3_1_protocol import HALF, gaussian_delta, product_law, smallest_mu

NORMAL = NormalDist()
QS = (*tuple(Fraction(i, 20) for i in (1, 2, 4, 6, 8)), Fraction(1, 100))


def cumulative(law: Law) -> list[Fraction]:
    total, result = ZERO, []
    for x in law:
        total += x
        result.append(total)
    return result


def published(law: Law, k: int) -> tuple[Fraction, Fraction]:
    """(α, f(α)) with α = F(k), the right end of a step of 1 − F(F⁻¹(α) + 1)."""
    steps = cumulative(law)
    return steps[k], 1 - steps[min(k + 1, len(law) - 1)]


def curves(n: int, q: Fraction) -> list[Knots]:
    """The exact curves of every crowd, both orders."""
    found = []
    for ones in range(n):
        low, high = neighbours(ones, n - 1 - ones, q)
        found += [tradeoff_knots(low, high), tradeoff_knots(high, low)]
    return found


def excess(n: int, q: Fraction) -> Fraction:
    """How far the published curve lies above the exact one; it is largest at the step ends."""
    exact = curves(n, q)
    law = binomial(n, q)
    points = [published(law, k) for k in range(n)]
    return max(f - min(tradeoff_at(c, alpha) for c in exact) for alpha, f in points)


@claim(
    "S3",
    "Theorem 2",
    "Shuffled randomized bits are f-private with f(α) = 1 − F(F⁻¹(α) + 1), F the distribution "
    "function of Bin(n, λ/(2n)).",
    FALSE,
    correction="It compares C with C + 1 in one order; the exact curve is the lower envelope over "
    "crowds and both orders. It happens to be safe at λ = 58, n = 100, and is far off at λ = 1.",
    counter_example="n = 4, λ = 4/5 (q = 1/10), α = 0.6561: f = 0.0523, the best test reaches "
    "0.0382. None with n ≤ 3 on the grid.",
)
def test_published_curve() -> None:
    for n, q in product((1, 2, 3), QS):
        assert excess(n, q) <= 0
    tenth = Fraction(1, 10)
    alpha, value = published(binomial(4, tenth), 0)
    exact = min(tradeoff_at(c, alpha) for c in curves(4, tenth))
    assert (alpha, value) == (Fraction(6561, 10000), Fraction(523, 10000))
    assert value > exact
    assert round(float(exact), 4) == 0.0382


@claim(
    "S3",
    "Claim B.6",
    "C_λ is f-private with the same f, because its law is C plus the truthful bits outside H.",
    FALSE,
    correction="C and the set H are not independent, and the products over l in the proof bound "
    "neither error.",
    counter_example="as Theorem 2. The step itself fails at n = 1, x = 1, q = 1/4: C_λ never "
    "exceeds 1, but C plus an independent truthful bit reaches 2 with probability 1/8.",
)
def test_published_curve_for_the_sum() -> None:
    assert excess(4, Fraction(1, 10)) > 0
    quarter = Fraction(1, 4)
    rate = 2 * quarter  # λ/n
    assert binomial(1, quarter)[1] * (1 - rate) == Fraction(1, 8)
    assert len(neighbours(0, 0, quarter)[1]) == 2


@claim(
    "S3",
    "Cor. 3.2",
    "Shuffled randomized bits are μ-Gaussian private for "
    "μ ≥ max over α of Φ⁻¹(1 − α) − Φ⁻¹(1 − F(F⁻¹(α) + 1)).",
    FALSE,
    correction="The maximum is infinite for every n and λ: f vanishes before α reaches 1. The "
    "least μ is the maximum of Φ⁻¹(1 − β) − Φ⁻¹(α) over the corners of the exact curves, which is "
    "finite.",
    counter_example="n = 1: f(α) = 0 for every α > 0.",
)
def test_published_mu_is_infinite() -> None:
    for n, q in product(range(1, 9), QS):
        alpha, value = published(binomial(n, q), n - 1)
        assert value == 0
        assert alpha < 1
        with pytest.raises(ValueError, match="p must be in the range"):
            NORMAL.inv_cdf(float(value))
        if n <= 4:
            pairs = [neighbours(ones, n - 1 - ones, q) for ones in range(n)]
            assert max(map(smallest_mu, pairs)) < math.inf


@claim(
    "S3",
    "Theorem 3",
    "Real numbers encoded in r bits are private with the r-fold tensor product of that f.",
    FALSE,
    correction="True with the exact curve of one slot in place of f (composition, Theorem 1). The "
    "printed f is a step function, not a trade-off function, so its tensor product is undefined.",
    counter_example="r = 1 is Theorem 2: n = 4, λ = 4/5.",
)
def test_published_curve_of_numbers() -> None:
    tenth = Fraction(1, 10)
    assert excess(4, tenth) > 0
    # Not convex: around the jump at F(0) the middle value is the left one.
    left, right = published(binomial(4, tenth), 0), published(binomial(4, tenth), 1)
    assert left[0] < right[0]
    assert left[1] > (left[1] + right[1]) / 2


@claim(
    "S3",
    "Cor. 3.3",
    "Real numbers encoded in r bits are μ-Gaussian private for μ ≥ √r·μ*, with μ* of Cor. 3.2.",
    CORRECTED,
    correction="With the exact least μ of one slot, √r·μ is a bound. It is not the least one.",
    counter_example="μ* is infinite (Cor. 3.2).",
)
def test_root_r_rule() -> None:
    for n, q in product((2, 3, 4), (Fraction(1, 10), Fraction(3, 10))):
        pairs = [neighbours(ones, n - 1 - ones, q) for ones in range(n)]
        single = max(map(smallest_mu, pairs))
        for first, second in product(pairs, repeat=2):
            both = (product_law(first[0], second[0]), product_law(first[1], second[1]))
            assert smallest_mu(both) < math.sqrt(2) * single


@claim(
    "S3",
    "Claim B.4",
    "C_H is f-private with f(α) = 1 − F(F⁻¹(α) + 1), F the distribution function of Bin(|H|, 1/2).",
    HOLDS,
    correction="With F⁻¹(α) the least k such that F(k) ≥ α; equality at α = F(k). (With the "
    "largest k such that F(k) ≤ α it over-claims between the steps.)",
)
def test_fixed_set() -> None:
    for size in range(13):
        law = binomial(size, HALF)
        zero, one = (*law, ZERO), (ZERO, *law)
        for pair in ((zero, one), (one, zero)):
            curve = tradeoff_knots(*pair)
            for k in range(size + 1):
                alpha, value = published(law, k)
                assert tradeoff_at(curve, alpha) == value
                below = cumulative(law)[k - 1] if k else ZERO
                middle = (below + alpha) / 2
                assert tradeoff_at(curve, middle) >= value
                if 0 < k < size:
                    assert published(law, k - 1)[1] > tradeoff_at(curve, middle)


@claim(
    "S3",
    "Claim B.5",
    "C_H is μ-Gaussian private for μ ≥ max over α of Φ⁻¹(1 − α) − Φ⁻¹(1 − F(F⁻¹(α) + 1)).",
    FALSE,
    correction="No finite μ serves: the two laws have different supports, so an error-free test "
    "has positive power.",
    counter_example="|H| = 1: outcome 2 has probability 1/2 under one data set and 0 under the "
    "other.",
)
def test_fixed_set_is_not_gaussian() -> None:
    for size in range(9):
        law = binomial(size, HALF)
        at_no_error = tradeoff_at(tradeoff_knots((*law, ZERO), (ZERO, *law)), ZERO)
        assert at_no_error == ONE - HALF**size < 1


def cheu_ratio(size: float, delta: float) -> float:
    """e^ε of Claim C.1."""
    return 1 + math.sqrt(32 * math.log(4 / delta) / size)


@claim(
    "S3",
    "Claim C.1",
    "If |H| > 8 ln(4/δ), C_H is (ε, δ/2)-private with ε = ln(1 + √(32 ln(4/δ)/|H|)) "
    "< √(32 ln(4/δ)/|H|).",
    HOLDS,
    correction="Quoted from Cheu et al. 2019. δ/2 is met with a factor of at least 25 to spare.",
)
def test_cheu_bound() -> None:
    checked = 0
    for size, delta in product(range(12, 300), (0.999, 0.9, 0.7, 0.3, 0.1, 0.01, 1e-4, 1e-9)):
        if size > 8 * math.log(4 / delta):
            law = float_binomial(size, 0.5)
            zero, one = np.append(law, 0.0), np.insert(law, 0, 0.0)
            ratio = cheu_ratio(size, delta)
            assert float_hockey_stick(zero, one, ratio) <= delta / 50
            assert math.log(ratio) < ratio - 1
            checked += 1
    assert checked > 1500


def bounded_curve(alpha: Floats, ratio: float, delta: float) -> Floats:
    """The trade-off function of (ε, δ)-privacy."""
    steep, flat = 1 - delta - ratio * alpha, (1 - delta - alpha) / ratio
    result: Floats = np.maximum(0, np.maximum(steep, flat))
    return result


def float_published(law: Floats, alpha: Floats) -> Floats:
    steps = np.cumsum(law)
    index = np.minimum(np.searchsorted(steps, alpha) + 1, len(law) - 1)
    result: Floats = np.maximum(0, 1 - steps[index])
    return result


def float_exact(n: int, q: float, alpha: Floats) -> Floats:
    best = np.ones_like(alpha)
    for ones in range(n):
        low, high = float_neighbours(ones, n - 1 - ones, q)
        for null, other in ((low[::-1], high[::-1]), (high, low)):
            # The ratio other/null falls along the array, so corners come in order.
            errors = np.concatenate(([0.0], np.cumsum(null)))
            misses = 1 - np.concatenate(([0.0], np.cumsum(other)))
            best = np.minimum(best, np.interp(alpha, errors, misses))
    return best


ALPHAS: Floats = np.linspace(0.002, 0.998, 499)


def cheu_settings(lam: float) -> list[tuple[float, float]]:
    """(e^ε, δ) that Claim C.1 gives for the mixture over H at mean size λ."""
    found = []
    for delta in np.linspace(0.05, 0.9, 18):
        size = lam - math.sqrt(2 * lam * math.log(2 / delta))
        if size > 8 * math.log(4 / delta):
            found.append((cheu_ratio(size, delta), float(delta)))
    return found


@claim(
    "S3",
    "Figure 1(a)",
    "At n = 100, λ = 58 the published curve lies above the one from the earlier (ε, δ) bound.",
    HOLDS,
    correction="There the published curve is also safe (the exact one lies above it). At λ = 20 it "
    "over-claims by 0.0015, at λ = 1 by 0.088.",
)
def test_figure_1a() -> None:
    curve = float_published(float_binomial(100, 0.29), ALPHAS)
    assert len(cheu_settings(58)) > 10
    for ratio, delta in cheu_settings(58):
        assert np.all(curve >= bounded_curve(ALPHAS, ratio, delta))
    exact = float_exact(100, 0.29, ALPHAS)
    assert np.all(exact >= curve)
    assert 0.13 < np.max(exact - curve) < 0.15
    for lam, over in ((20, 0.0014), (1, 0.087)):
        q = lam / 200
        steps = np.cumsum(float_binomial(100, q))[:-1]
        alpha = np.concatenate((ALPHAS, steps[steps < 1]))
        gap = float_published(float_binomial(100, q), alpha) - float_exact(100, q, alpha)
        assert gap.max() > over


@claim(
    "S3",
    "Figure 1(b)",
    "Converted by Cor. 2.5, the result at n = 100, λ = 58 gives a smaller δ(ε) than the earlier "
    "bound.",
    CORRECTED,
    correction="The published μ is infinite, so it cannot be converted. With the exact μ = "
    "0.111388 the figure is right.",
    counter_example="μ* = ∞ (Cor. 3.2).",
)
def test_figure_1b() -> None:
    best = 0.0
    for ones in range(100):
        low, high = float_neighbours(ones, 99 - ones, 0.29)
        for null, other in ((low[::-1], high[::-1]), (high, low)):
            # The corners with α > 1/2 are those of the other order with α < 1/2.
            alphas, powers = np.cumsum(null), np.cumsum(other)
            betas = np.cumsum(other[::-1])[::-1][1:]  # small ones accurate, unlike 1 − power
            for alpha, power, beta in zip(alphas[:-1], powers[:-1], betas, strict=True):
                if 1e-300 < alpha < 0.5:
                    reach = NORMAL.inv_cdf(power) if power < 0.5 else -NORMAL.inv_cdf(beta)
                    best = max(best, reach - NORMAL.inv_cdf(alpha))
    assert round(best, 6) == 0.111388
    for ratio, delta in cheu_settings(58):
        assert gaussian_delta(math.log(ratio), best) < delta


@claim(
    "S3",
    "Figure 1(c, d)",
    "For r = 10 slots Gaussian composition is tight while (ε, δ) composition loses.",
    CORRECTED,
    correction="√r·μ is exact for Gaussian noise only; for this mechanism it is an upper bound. It "
    "does beat basic composition.",
    counter_example="n = 1, q = 1/4, r = 2: the least μ of two slots is 1.691, √2·1.349 is 1.908.",
)
def test_figure_1cd() -> None:
    pair = neighbours(0, 0, Fraction(1, 4))
    single = smallest_mu(pair)
    double = smallest_mu((product_law(pair[0], pair[0]), product_law(pair[1], pair[1])))
    assert (round(single, 3), round(double, 3)) == (1.349, 1.691)
    assert double < math.sqrt(2) * single
    # Basic composition of (ε, δ(ε)) ten times, against δ of √10·μ at 10 ε.
    for epsilon in (0.05, 0.1, 0.2):
        mu = 0.111388
        assert gaussian_delta(10 * epsilon, math.sqrt(10) * mu) < 10 * gaussian_delta(epsilon, mu)


@claim(
    "S3",
    "Figure 2(a)",
    "At |H| = 50 the curve of Claim B.4 lies above that of Claim C.1.",
    HOLDS,
)
def test_figure_2a() -> None:
    law = binomial(50, HALF)
    points = [published(law, k) for k in range(51)]
    for delta in (0.01, 0.03, 0.1, 0.3, 0.9):
        ratio = cheu_ratio(50, delta)
        assert 8 * math.log(4 / delta) < 50
        for alpha, value in points:
            bound = bounded_curve(np.array([float(alpha)]), ratio, delta / 2)[0]
            assert float(value) >= bound - 1e-15


@claim(
    "S3",
    "Figure 2(b)",
    "Converted to (ε, δ), the result for C_H at |H| = 50 is below that of Claim C.1.",
    CORRECTED,
    correction="By the exact δ(ε) of the curve, not through μ, which is infinite (Claim B.5).",
    counter_example="μ = ∞ for C_H, as for Claim B.5.",
)
def test_figure_2b() -> None:
    law = float_binomial(50, 0.5)
    zero, one = np.append(law, 0.0), np.insert(law, 0, 0.0)
    for delta in (0.01, 0.03, 0.1, 0.3, 0.9):
        ratio = cheu_ratio(50, delta)
        assert float_hockey_stick(zero, one, ratio) < delta / 2
    exact = binomial(50, HALF)
    assert tradeoff_at(tradeoff_knots((*exact, ZERO), (ZERO, *exact)), ZERO) < 1
