"""Closed forms for privacy amplification: by shuffling (2019 and 2024), by sampling (2022).

Erlingsson et al. have one. Balle, Bell, Gascón and Nissim bound δ by E[(L₁ + … + L_M)₊]/(γn) with
M ~ Bin(n, γ), γ the weight of the privacy blanket and L a bounded variable with mean −(e^ε − 1).
The number itself is what `amplification.ShuffledTable` certifies. Their closed forms put
Hoeffding's or Bennett's inequality in its place; the range and the variance of L are those of
their own program (BorjaBalle/amplification-by-shuffling), for any randomizer or for k-ary response.

The variation ratio (Wang et al.) has the parameters that its authors list. Three numbers describe
a local randomizer: p, the largest ratio of the chances that two inputs give to one output; β, the
largest total variation distance of two inputs; and q, the largest ratio of an input's chance over
anybody else's. With α = β/(p − 1) and r = αp/q the target is said to send one of two messages with
αp and α (or α and αp) and otherwise a third one; every other user sends each of the two with r and
otherwise the third. What is claimed is the hockey-stick of the numbers of the first two messages.

Bharadwaj and Cormode (2022) publish counts of sampled people that reach a threshold. With
p = α(1 − e^−ε) and K ≥ ln(1/δ)/C, C = ln(1/α) − 1/(1 + α), they show (ε, δ)-privacy. The same
constants are in the program that rolled it out (brave/brave-core, Nebula: α = 1/6).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from chaffinch.errors import InvalidInput, checks
from chaffinch.privacy.numerics.roots import find_crossing
from chaffinch.privacy.numerics.sums import positive_part_of_sum
from chaffinch.privacy.published.formula import Formula, open_delta, positive_epsilon

_LARGEST = 30.0
_TOLERANCE = 1e-9
_LEAST_USERS, _LARGEST_DELTA = 1000, 0.01


def erlingsson_epsilon(*, local_epsilon: float, users: int, delta: float) -> float:
    """Return Erlingsson et al. (2019), ε = 12 ε₀ √(ln(1/δ)/n).

    Domain: ε₀ up to 1/2, n ≥ 1000, δ below 1/100. Defect: no false case known; more than
    ten times the ε of two-value response.

    >>> round(erlingsson_epsilon(local_epsilon=0.5, users=100_000, delta=1e-6), 4)
    0.0705
    """
    local = checks.real("local epsilon", local_epsilon, least=0.0, most=0.5)
    size = checks.whole("users", users, least=_LEAST_USERS)
    wanted = open_delta(delta)
    if not wanted < _LARGEST_DELTA:
        raise InvalidInput("delta", f"below {_LARGEST_DELTA}", delta)
    return 12.0 * local * math.sqrt(-math.log(wanted) / size)


def erlingsson_delta(*, local_epsilon: float, users: int, epsilon: float) -> float:
    """Return the δ at which Erlingsson et al. claim this ε; 1 where they claim nothing."""
    local = checks.real("local epsilon", local_epsilon, least=1e-9, most=0.5)
    size = checks.whole("users", users, least=_LEAST_USERS)
    found = math.exp(-size * (positive_epsilon(epsilon) / (12.0 * local)) ** 2)
    return found if found < _LARGEST_DELTA else 1.0


@dataclass(frozen=True, slots=True)
class _Amplification:
    """What the inequalities need of L at one ε: γ, its largest value, range and second moment."""

    blanket: float
    largest: float
    range: float
    square: float


def _amplification(local: float, epsilon: float, values: int | None) -> _Amplification:
    growth, ratio = math.exp(epsilon), math.exp(local)
    if values is None:
        # No chance of an output is below e^−ε₀ times another one of it: γ is at least e^−ε₀.
        blanket = 1.0 / ratio
        return _Amplification(
            blanket,
            ratio * -math.expm1(epsilon - 2.0 * local),
            (growth + 1.0) * (ratio - 1.0 / ratio),
            ratio * (growth**2 + 1.0) - 2.0 * blanket * math.exp(epsilon - 2.0 * local),
        )
    # k-ary response is a uniform value with chance γ = k/(e^ε₀ + k − 1), else the true one.
    blanket = values / (ratio + values - 1.0)
    rest = (ratio - 1.0) / (ratio + values - 1.0)
    return _Amplification(
        blanket,
        blanket * (1.0 - growth) + rest * values,
        rest * values * (growth + 1.0),
        blanket * (2.0 - blanket) * (growth - 1.0) ** 2 + rest**2 * values * (growth**2 + 1.0),
    )


def blanket_hoeffding_delta(
    *, local_epsilon: float, users: int, epsilon: float, values: int | None = None
) -> float:
    """Return the δ of the blanket by Hoeffding: b²/(4aγn)·(1 − γ(1 − e^(−2a²/b²)))^n.

    a = e^ε − 1 and b is the range of L.
    """
    size, local, wanted = _given(local_epsilon, users, epsilon, values)
    if wanted >= local:
        return 0.0
    parts, excess = _amplification(local, wanted, values), math.expm1(wanted)
    # 1 − e^(−2a²/b²), whose digits would cancel for small a.
    drop = -math.expm1(-2.0 * excess**2 / parts.range**2)
    log = size * math.log1p(-parts.blanket * drop)
    return min(1.0, math.exp(log) * parts.range**2 / (4.0 * excess * parts.blanket * size))


def blanket_hoeffding_epsilon(
    *, local_epsilon: float, users: int, delta: float, values: int | None = None
) -> float:
    """Return the ε of the blanket by Hoeffding's inequality (Balle et al. 2019).

    ``values`` are those of k-ary response; without them it is for any randomizer with this ε₀.
    Domain: 0 < ε₀ ≤ 30. Defect: no false case known; looser than the blanket that it bounds.
    """
    return _solve(blanket_hoeffding_delta, local_epsilon, users, delta, values)


def blanket_bennett_delta(
    *, local_epsilon: float, users: int, epsilon: float, values: int | None = None
) -> float:
    """Return the δ of the blanket by Bennett: E[e^(−Mx)]·b₊/(γn ln(1 + ab₊/c)), M from 1 on."""
    size, local, wanted = _given(local_epsilon, users, epsilon, values)
    if wanted >= local:
        return 0.0
    parts, excess = _amplification(local, wanted, values), math.expm1(wanted)
    if not parts.largest > 0:
        return 0.0
    shift = excess * parts.largest / parts.square
    exponent = parts.square / parts.largest**2 * _bennett(shift)
    log = size * math.log1p(parts.blanket * math.expm1(-exponent))
    none = size * math.log1p(-parts.blanket) if parts.blanket < 1 else -math.inf
    # E[e^(−Mx); M ≥ 1]: all of the mean less the chance (1 − γ)^n of M = 0.
    some = math.exp(log) * -math.expm1(min(none - log, 0.0))
    return min(1.0, some * parts.largest / (parts.blanket * size * math.log1p(shift)))


def blanket_bennett_epsilon(
    *, local_epsilon: float, users: int, delta: float, values: int | None = None
) -> float:
    """Return the ε of the blanket by Bennett's inequality (Balle et al. 2019).

    ``values`` are those of k-ary response; without them it is for any randomizer with this ε₀.
    Domain: 0 < ε₀ ≤ 30. Defect: no false case known; looser than the blanket that it bounds.
    """
    return _solve(blanket_bennett_delta, local_epsilon, users, delta, values)


def _bennett(shift: float) -> float:
    """Return (1 + u)·ln(1 + u) − u, whose digits cancel for a small u."""
    if shift < 1e-4:
        return shift**2 / 2.0 - shift**3 / 6.0
    return (1.0 + shift) * math.log1p(shift) - shift


def _given(
    local_epsilon: float, users: int, epsilon: float, values: int | None
) -> tuple[int, float, float]:
    if values is not None:
        checks.whole("values", values, least=2)
    return (
        checks.whole("users", users, least=1),
        checks.real("local epsilon", local_epsilon, least=1e-6, most=_LARGEST),
        positive_epsilon(epsilon),
    )


def _solve(
    formula: Callable[..., float],
    local_epsilon: float,
    users: int,
    delta: float,
    values: int | None,
) -> float:
    wanted = open_delta(delta)

    def at(epsilon: float) -> float:
        # At 0 the inequalities divide by 0 and say nothing.
        if epsilon <= 0:
            return 1.0
        return formula(local_epsilon=local_epsilon, users=users, epsilon=epsilon, values=values)

    return find_crossing(at, wanted, top=local_epsilon, tolerance=_TOLERANCE)[1]


def variation_ratio_delta(
    *, local_epsilon: float, variation: float, users: int, epsilon: float
) -> float:
    """Return the δ of the variation ratio with p = q = e^ε₀, as its authors list for most schemes.

    ``variation`` is β: (e^ε₀ − 1)/(e^ε₀ + k − 1) for k-ary response. Domain: 0 < ε₀ ≤ 30,
    0 < β ≤ (e^ε₀ − 1)/(e^ε₀ + 1). Defect: no bound. Other users' third messages are taken to be
    like the target's; where they are not, they tell something. For k-ary response with k ≥ 3 it
    is below the truth; for k = 2 it is the privacy blanket.
    """
    size = checks.whole("users", users, least=1)
    local = checks.real("local epsilon", local_epsilon, least=1e-6, most=_LARGEST)
    p = Fraction(math.exp(local))
    most = (p - 1) / (p + 1)  # of any randomizer with this local epsilon
    given = checks.real("variation", variation, least=0.0, most=float(most) * (1.0 + 1e-12))
    beta = min(Fraction(given), most)
    wanted = checks.epsilon(epsilon)
    if wanted >= local or beta == 0:
        return 0.0
    e = Fraction(math.exp(wanted))
    alpha = beta / (p - 1)
    third = 1 - alpha - alpha * p
    # As the covered sum of `privacy.amplification`: Σ(R₀ − e^ε R₁)/m over messages, each user
    # drawing one from the cover m. r = αp/q = α.
    values = [p - e, 1 - e * p, third * (1 - e) / (1 - 2 * alpha)]
    masses = [alpha, alpha, 1 - 2 * alpha]
    return positive_part_of_sum(values, masses, size).upper / size


def variation_ratio_epsilon(
    *, local_epsilon: float, variation: float, users: int, delta: float
) -> float:
    """Return the ε of the variation ratio (Wang et al. 2024) at this δ, with p = q = e^ε₀.

    Domain: 0 < ε₀ ≤ 30, 0 < β ≤ (e^ε₀ − 1)/(e^ε₀ + 1). Defect: no bound for every scheme that
    its authors list: for 4-ary response with ε₀ = 1 among 100 users, δ = 1e-6, it gives 0.39253;
    the true ε is at least 0.39430.

    >>> beta = math.expm1(1) / (math.e + 3)
    >>> found = variation_ratio_epsilon(local_epsilon=1, variation=beta, users=100, delta=1e-6)
    >>> round(found, 4)
    0.3925
    """

    def at(epsilon: float) -> float:
        return variation_ratio_delta(
            local_epsilon=local_epsilon, variation=variation, users=users, epsilon=epsilon
        )

    return find_crossing(at, open_delta(delta), top=local_epsilon, tolerance=_TOLERANCE)[1]


# Sampled counts with a threshold.


def sample_and_threshold_rate(*, epsilon: float, alpha: float) -> float:
    """Return the sampling rate p = α(1 − e^−ε).

    >>> round(sample_and_threshold_rate(epsilon=1, alpha=1 / 6), 4)
    0.1054
    """
    share = checks.real("alpha", alpha, least=0.0, most=1.0)
    return share * -math.expm1(-positive_epsilon(epsilon))


def sample_and_threshold_least(*, epsilon: float, delta: float, sampling_rate: float) -> float:
    """Return Bharadwaj and Cormode (2022), K = ln(1/δ)/(ln(1/α) − 1/(1 + α)), α = p/(1 − e^−ε).

    Not rounded to a whole number. Domain: α so small that the denominator is above 0 (α < 0.51).
    Defect: no false case known; the exact δ at this K is smaller by orders of magnitude.

    >>> math.ceil(sample_and_threshold_least(epsilon=1, delta=1e-8, sampling_rate=0.105))
    20
    """
    return -math.log(open_delta(delta)) / _exponent(epsilon, sampling_rate)


def sample_and_threshold_delta(*, epsilon: float, sampling_rate: float, threshold: int) -> float:
    """Return the δ that Bharadwaj and Cormode claim, e^(−CK)."""
    least = checks.whole("threshold", threshold, least=1)
    return math.exp(-least * _exponent(epsilon, sampling_rate))


def _exponent(epsilon: float, sampling_rate: float) -> float:
    rate = checks.real("sampling rate", sampling_rate, least=0.0, most=1.0)
    if not rate > 0:
        raise InvalidInput("sampling rate", "above 0", sampling_rate)
    alpha = rate / -math.expm1(-positive_epsilon(epsilon))
    found = -math.log(alpha) - 1.0 / (1.0 + alpha)
    if not found > 0:
        raise InvalidInput(
            "sampling rate", "small enough for ln(1/alpha) > 1/(1 + alpha)", sampling_rate
        )
    return found


FORMULAS: tuple[Formula, ...] = (
    Formula(
        name="variation_ratio_epsilon",
        label="Wang et al. 2024",
        source="Wang et al. 2024, the table of parameters in the authors' program",
        equation="D(P‖Q) at δ, P and Q the numbers (A + Δ₁, C − A + Δ₂), C ~ Bin(n − 1, 2r), "
        "A ~ Bin(C, ½), target (αp, α), α = β/(p − 1), r = αp/q",
        gives="epsilon of a shuffled local randomizer",
        domain="p = q = e^ε₀, 0 < ε₀ ≤ 30, 0 < β ≤ (e^ε₀ − 1)/(e^ε₀ + 1)",
        defect="below the truth for k-ary response with k ≥ 3 "
        "(0.39253 for at least 0.39430 at n = 100, k = 4, ε₀ = 1, δ = 1e-6)",
        compute=variation_ratio_epsilon,
        claimed_delta=variation_ratio_delta,
    ),
    Formula(
        name="erlingsson_epsilon",
        label="Erlingsson et al. 2019",
        source="Erlingsson et al. 2019",
        equation="ε = 12 ε₀ √(ln(1/δ)/n)",
        gives="epsilon of a shuffled local randomizer",
        domain="ε₀ ≤ 1/2, n ≥ 1000, δ < 1/100",
        defect="no false case known; more than ten times the epsilon of two-value response",
        compute=erlingsson_epsilon,
        claimed_delta=erlingsson_delta,
    ),
    Formula(
        name="blanket_hoeffding_epsilon",
        label="Balle et al. 2019, Hoeffding",
        source="Balle et al. 2019, with the range of the authors' program",
        equation="δ = b²/(4aγn)·(1 − γ(1 − e^(−2a²/b²)))^n, a = e^ε − 1, b the range of L",
        gives="epsilon of a shuffled local randomizer",
        domain="0 < ε₀ ≤ 30",
        defect="no false case known; looser than the blanket that it bounds",
        compute=blanket_hoeffding_epsilon,
        claimed_delta=blanket_hoeffding_delta,
    ),
    Formula(
        name="blanket_bennett_epsilon",
        label="Balle et al. 2019, Bennett",
        source="Balle et al. 2019, with the range and variance of the authors' program",
        equation="δ = b₊/(γn ln(1 + u))·E[e^(−M (c/b₊²) φ(u)); M ≥ 1], u = ab₊/c, "
        "φ(u) = (1 + u)ln(1 + u) − u",
        gives="epsilon of a shuffled local randomizer",
        domain="0 < ε₀ ≤ 30",
        defect="no false case known; looser than the blanket that it bounds",
        compute=blanket_bennett_epsilon,
        claimed_delta=blanket_bennett_delta,
    ),
    Formula(
        name="sample_and_threshold_least",
        label="Bharadwaj and Cormode 2022",
        source="Bharadwaj and Cormode 2022",
        equation="K = ln(1/δ)/(ln(1/α) − 1/(1 + α)), α = p/(1 − e^−ε)",
        gives="threshold of a sampled count",
        domain="α < 0.51",
        defect="no false case known; "
        "at ε = 1, δ = 1e-8, p = 0.105 it asks for 20, where 11 is enough",
        compute=sample_and_threshold_least,
        claimed_delta=sample_and_threshold_delta,
    ),
)
