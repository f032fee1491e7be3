"""Claims about a shuffled bit: of S1 (*K-Randomization*, 2016), and of S3 (Chen and Long, 2021).

S1 has a three-sigma rule, for a bit that is sent once or k times.

S3 writes λ for the expected number of users who answer at random; a bit is then reported
wrongly with q = λ/(2n), and F is the distribution function of Bin(n, q). It claims a trade-off
function and a Gaussian parameter.

Claim C.1 quotes Cheu, Smith, Ullman, Zeber and Zhilyaev (2019): a set H of the users answers
at random, the others truthfully. For a fixed H that leaves the target out, the sum is hidden
by Bin(|H|, ½). When everybody flips with q the size of H is Bin(n, 2q), so a Chernoff bound for
it turns the claim into one about q.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from chaffinch.errors import InvalidInput, checks
from chaffinch.privacy.numerics import special
from chaffinch.privacy.numerics.precision import Floats
from chaffinch.privacy.numerics.roots import bisect_real
from chaffinch.privacy.published.formula import (
    Formula,
    flip,
    flip_from,
    open_delta,
    positive_epsilon,
    refuse,
)

_LARGEST = 10**6


def three_sigma_flip_probability(*, epsilon: float, users: int) -> float:
    """Return S1 (4.45), q = ½(1 − 1/√(1 + 36/((λ−1)²N))) with λ = e^ε.

    Domain: any ε > 0, any crowd. Defect: it speaks of no δ, and looks at outcomes three
    standard deviations away in one direction only. At N = 1000, λ = 2 it promises 99.98 % of
    the outcomes; the true failure is 6.3 % for a crowd of equals and 8.1 % for the worst.

    >>> round(three_sigma_flip_probability(epsilon=math.log(2), users=1000), 6)
    0.008764
    """
    return three_sigma_copies_flip_probability(epsilon=epsilon, users=users, copies=1)


def three_sigma_epsilon(*, users: int, flip_probability: float) -> float:
    """Return the ε that S1 (4.45) claims, ln(1 + 3(p−q)/√(pqN)) by (4.39)."""
    return three_sigma_copies_epsilon(users=users, flip_probability=flip_probability, copies=1)


def three_sigma_copies_flip_probability(*, epsilon: float, users: int, copies: int) -> float:
    """Return S1 (5.24), q = ½(1 − 1/√(1 + 36/((λ^{1/k}−1)²kN))) with λ = e^ε.

    Domain: any ε > 0, any crowd, any k ≥ 1. Defect: as for (4.45); and the precision gained
    by copies at fixed privacy, √k in the text, is not there: by its own (5.23) the standard
    deviation 3/(k(λ^{1/k}−1)) rises with k.
    """
    size = checks.whole("users", users, least=1) * checks.whole("copies", copies, least=1)
    rise = math.expm1(positive_epsilon(epsilon) / copies)
    # ½(1 − 1/√(1+x)) = ½·x/(√(1+x)·(1 + √(1+x))): the difference would cancel for small x.
    x = 36.0 / (rise * rise * size)
    root = math.sqrt(1.0 + x)
    return 0.5 * x / (root * (1.0 + root))


def three_sigma_copies_epsilon(*, users: int, flip_probability: float, copies: int) -> float:
    """Return the ε that S1 (5.22) claims, k·ln(1 + 3(p−q)/√(pqkN))."""
    size = checks.whole("users", users, least=1) * checks.whole("copies", copies, least=1)
    q = flip(flip_probability)
    return copies * math.log1p(3.0 * (1.0 - 2.0 * q) / math.sqrt(q * (1.0 - q) * size))


def shifted_binomial_tradeoff(alphas: ArrayLike, *, users: int, flip_probability: float) -> Floats:
    """Return S3 Theorem 2, f(α) = 1 − F(F⁻¹(α) + 1), at each α.

    F⁻¹(α) is the least k with F(k) ≥ α, and −1 at α = 0. Domain: 0 ≤ α ≤ 1, up to a million
    users. Defect: not a guarantee. It compares a binomial with itself shifted by one, in one
    order, at the knots only; the protocol is less private than that for small λ (at n = 100,
    λ = 1 the claim is too good by 0.088 at α = 0.6) and more private for large λ.
    """
    levels = _levels(alphas)
    return _shifted(levels, _cumulative(users, flip(flip_probability), "users"))


def shifted_binomial_mu(
    *, users: int, flip_probability: float, alphas: ArrayLike | None = None
) -> float:
    """Return S3 Corollary 3.2, μ* = max over α of Φ⁻¹(1−α) − Φ⁻¹(1 − F(F⁻¹(α)+1)).

    Domain: up to a million users. Defect: over the whole interval, as printed, it is infinite,
    because f(α) = 0 from α = F(n−1) < 1 on. Give ``alphas`` to see what a figure that stops
    short of there would show.

    >>> shifted_binomial_mu(users=100, flip_probability=0.29)
    inf
    """
    if alphas is None:
        checks.whole("users", users, least=1, most=_LARGEST)
        flip(flip_probability)
        return math.inf
    levels = _inner_levels(alphas)
    beta = shifted_binomial_tradeoff(levels, users=users, flip_probability=flip_probability)
    return _mu_of(levels, beta)


def _levels(alphas: ArrayLike) -> Floats:
    levels = np.atleast_1d(np.asarray(alphas, dtype=np.float64))
    if not (np.all(levels >= 0.0) and np.all(levels <= 1.0)):
        raise InvalidInput("alphas", "numbers from 0 to 1", alphas)
    return levels


def _inner_levels(alphas: ArrayLike) -> Floats:
    levels = _levels(alphas)
    if levels.size == 0 or not (np.all(levels > 0.0) and np.all(levels < 1.0)):
        raise InvalidInput("alphas", "at least one number above 0 and below 1", alphas)
    return levels


def _mu_of(alphas: Floats, betas: Floats) -> float:
    return float(np.max(-special.ndtri(alphas) - special.ndtri(betas)))


def _shifted(levels: Floats, distribution: Floats) -> Floats:
    """Return 1 − F(F⁻¹(α) + 1)."""
    # F⁻¹(α) is the least k with F(k) ≥ α, and −1 at α = 0.
    index = np.searchsorted(distribution, levels) - (levels == 0.0)
    index = np.minimum(index, len(distribution) - 1)
    reached = np.append(distribution, 1.0)[index + 1]
    return np.asarray(1.0 - reached, dtype=np.float64)


def _cumulative(trials: int, chance: float, parameter: str) -> Floats:
    """Return F(0), …, F(n) of Bin(n, chance)."""
    size = checks.whole(parameter, trials, least=1, most=_LARGEST)
    wrong = np.arange(size, dtype=np.float64)
    # P[Bin(n, q) ≤ k] = I_p(n − k, k + 1), the regularised incomplete beta function.
    below = special.betainc(size - wrong, wrong + 1.0, 1.0 - chance)
    return np.append(np.maximum.accumulate(below), 1.0)


def random_responders_tradeoff(alphas: ArrayLike, *, responders: int) -> Floats:
    """Return S3 Claim B.4, f(α) = 1 − F(F⁻¹(α) + 1) with F of Bin(|H|, ½), at each α.

    F⁻¹ as in Theorem 2. Domain: 0 ≤ α ≤ 1, up to a million responders. Defect: none; it is exact
    where α is a value of F and too careful between these.
    """
    levels = _levels(alphas)
    return _shifted(levels, _cumulative(responders, 0.5, "responders"))


def random_responders_mu(*, responders: int, alphas: ArrayLike | None = None) -> float:
    """Return S3 Claim B.5, the μ of Claim B.4's curve.

    Domain: up to a million responders. Defect: as Corollary 3.2, infinite over the whole
    interval as printed; give ``alphas`` to leave its ends out.
    """
    if alphas is None:
        checks.whole("responders", responders, least=1, most=_LARGEST)
        return math.inf
    levels = _inner_levels(alphas)
    return _mu_of(levels, random_responders_tradeoff(levels, responders=responders))


def random_responders_epsilon(*, responders: int, delta: float) -> float:
    """Return S3 Claim C.1, ε = ln(1 + √(32 ln(2/δ)/|H|)).

    ``delta`` is the δ of the guarantee; the claim writes δ/2 for it. Domain: |H| > 8 ln(2/δ).
    Defect: no false case is known; it claims an ε 1.4 to 12 times the exact one
    (|H| from 120 to 100,000, δ = 1e-6 and 1e-3).
    """
    size = checks.whole("responders", responders, least=1)
    log_term = math.log(2.0 / open_delta(delta))
    if not size > 8.0 * log_term:
        rule = f"above 8 ln(2/delta) = {8.0 * log_term:.6g}"
        raise InvalidInput("responders", rule, responders)
    return math.log1p(math.sqrt(32.0 * log_term / size))


def random_responders_delta(*, responders: int, epsilon: float) -> float:
    """Return the δ that S3 Claim C.1 claims; 1 where it claims nothing."""
    size = checks.whole("responders", responders, least=1)
    rise = math.expm1(min(positive_epsilon(epsilon), math.log(3.0)))
    # From ε = ln 3 on it is the condition |H| > 8 ln(2/δ) that decides.
    return min(1.0, 2.0 * math.exp(-size * rise * rise / 32.0))


def binary_sum_flip_probability(*, epsilon: float, delta: float, users: int) -> float:
    """Return the q at which Claim C.1 and a Chernoff bound for |H| together give (ε, δ).

    With λ = 2nq, |H| ≥ λ − √(2λ ln(2/δ)) but for a chance of δ/2; the other δ/2 goes to the
    claim. Domain: a crowd large enough for q < 1/2. Defect: no false case is known; it asks for
    3.3 to 16 times too many flips (ε from 0.1 to 2, δ = 1e-6 and 1e-8).
    """
    size = checks.whole("users", users, least=1)
    wanted = open_delta(delta)
    rise = math.expm1(min(positive_epsilon(epsilon), math.log(3.0)))
    needed = 32.0 * math.log(4.0 / wanted) / rise**2
    slack = 2.0 * math.log(2.0 / wanted)
    # The root √λ of λ − √(slack·λ) = needed.
    root = 0.5 * (math.sqrt(slack) + math.sqrt(slack + 4.0 * needed))
    return flip_from(0.5 * root * root, size, "users")


def binary_sum_epsilon(*, users: int, flip_probability: float, delta: float) -> float:
    """Return the ε that Claim C.1 and the Chernoff bound give for this crowd and q."""
    wanted = open_delta(delta)
    expected = 2.0 * checks.whole("users", users, least=1) * flip(flip_probability)
    sure = expected - math.sqrt(2.0 * expected * math.log(2.0 / wanted))
    if not sure >= 8.0 * math.log(4.0 / wanted) * (1.0 - 1e-12):  # the edge itself is allowed
        raise refuse(users, "users")
    return math.log1p(math.sqrt(32.0 * math.log(4.0 / wanted) / sure))


def binary_sum_delta(*, users: int, flip_probability: float, epsilon: float) -> float:
    """Return the δ at which the same two bounds give ε; 1 where they give none."""
    expected = 2.0 * checks.whole("users", users, least=1) * flip(flip_probability)
    rise = math.expm1(min(positive_epsilon(epsilon), math.log(3.0)))

    def holds(x: float) -> bool:
        # λ − √(2λ(x − ln 2)) ≥ 32x/rise², x = ln(4/δ): the left side falls in x, the right rises.
        sure = expected - math.sqrt(2.0 * expected * (x - math.log(2.0)))
        return sure >= 32.0 * x / rise**2

    least = math.log(4.0)
    return min(1.0, 4.0 * math.exp(-bisect_real(holds, good=least, bad=expected + least)))


FORMULAS: tuple[Formula, ...] = (
    Formula(
        name="three_sigma_flip_probability",
        label="Zhilyaev and Zeber 2016a (4.45)",
        source="S1 (4.45)",
        equation="q = ½ (1 − 1/√(1 + 36/((e^ε − 1)² N)))",
        gives="flip probability of one bit",
        domain="ε > 0, N ≥ 1",
        defect="no δ; looks at three standard deviations in one direction only: "
        "fails for 6.3 to 8.1 % of outcomes where 0.02 % is promised (N = 1000, ε = ln 2)",
        compute=three_sigma_flip_probability,
        claimed_epsilon=three_sigma_epsilon,
    ),
    Formula(
        name="three_sigma_copies_flip_probability",
        label="Zhilyaev and Zeber 2016a (5.24)",
        source="S1 (5.24)",
        equation="q = ½ (1 − 1/√(1 + 36/((e^(ε/k) − 1)² k N)))",
        gives="flip probability of one bit sent k times",
        domain="ε > 0, N ≥ 1, k ≥ 1",
        defect="as (4.45); the promised gain of √k in precision is not there",
        compute=three_sigma_copies_flip_probability,
        claimed_epsilon=three_sigma_copies_epsilon,
    ),
    Formula(
        name="shifted_binomial_tradeoff",
        label="Chen and Long 2021, Theorem 2",
        source="S3 Theorem 2",
        equation="f(α) = 1 − F(F⁻¹(α) + 1), F of Bin(n, λ/2n)",
        gives="trade-off function of one bit",
        domain="0 ≤ α ≤ 1, n up to a million",
        defect="not a guarantee: over-claims for small λ (by 0.088 at n = 100, λ = 1, α = 0.6)",
        compute=shifted_binomial_tradeoff,
    ),
    Formula(
        name="shifted_binomial_mu",
        label="Chen and Long 2021, Corollary 3.2",
        source="S3 Corollary 3.2",
        equation="μ = max over α of Φ⁻¹(1 − α) − Φ⁻¹(f(α))",
        gives="Gaussian parameter of one bit",
        domain="n up to a million",
        defect="infinite as printed: the two laws have different supports",
        compute=shifted_binomial_mu,
    ),
    Formula(
        name="random_responders_tradeoff",
        label="Chen and Long 2021, Claim B.4",
        source="S3 Claim B.4",
        equation="f(α) = 1 − F(F⁻¹(α) + 1), F of Bin(|H|, ½)",
        gives="trade-off function when exactly |H| users answer at random",
        domain="0 ≤ α ≤ 1, |H| up to a million",
        defect="none; exact at the values of F, too careful between them",
        compute=random_responders_tradeoff,
    ),
    Formula(
        name="random_responders_mu",
        label="Chen and Long 2021, Claim B.5",
        source="S3 Claim B.5",
        equation="μ = max over α of Φ⁻¹(1 − α) − Φ⁻¹(f(α))",
        gives="Gaussian parameter when exactly |H| users answer at random",
        domain="|H| up to a million",
        defect="infinite as printed: the two laws have different supports",
        compute=random_responders_mu,
    ),
    Formula(
        name="random_responders_epsilon",
        label="Cheu et al. 2019",
        source="Cheu et al. 2019, as S3 Claim C.1",
        equation="ε = ln(1 + √(32 ln(2/δ) / |H|))",
        gives="epsilon when exactly |H| users answer at random",
        domain="|H| > 8 ln(2/δ)",
        defect="no false case known; 1.4 to 12 times the exact epsilon",
        compute=random_responders_epsilon,
        claimed_delta=random_responders_delta,
    ),
    Formula(
        name="binary_sum_flip_probability",
        label="Cheu et al. 2019",
        source="Cheu et al. 2019, as S3 Claim C.1, with |H| from Bin(n, λ/n)",
        equation="λ − √(2λ ln(2/δ)) = 32 ln(4/δ) / (e^ε − 1)², q = λ/2n",
        gives="flip probability of one bit",
        domain="ε counts up to ln 3; n large enough for q < 1/2",
        defect="no false case known; asks for 3.3 to 16 times too many flips",
        compute=binary_sum_flip_probability,
        claimed_epsilon=binary_sum_epsilon,
        claimed_delta=binary_sum_delta,
    ),
)
