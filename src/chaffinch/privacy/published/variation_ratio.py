"""Wang et al. (2024): the variation ratio, with the parameters that its authors list.

Three numbers describe a local randomizer: p, the largest ratio of the chances that two inputs
give to one output; β, the largest total variation distance of two inputs; and q, the largest
ratio of an input's chance over anybody else's. With α = β/(p − 1) and r = αp/q the target is said
to send one of two messages with αp and α (or α and αp) and otherwise a third one; every other
user sends each of the two with r and otherwise the third. The bound is the hockey-stick of the
numbers of the first two messages.
"""

from __future__ import annotations

import math
from fractions import Fraction

from chaffinch.errors import checks
from chaffinch.privacy.numerics.roots import find_crossing
from chaffinch.privacy.numerics.sums import positive_part_of_sum
from chaffinch.privacy.published.formula import Formula, open_delta

_LARGEST = 30.0
_TOLERANCE = 1e-9


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
    # As the covered sum of `amplification`: Σ(R₀ − e^ε R₁)/m over messages, each user drawing
    # one from the cover m. r = αp/q = α.
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
)
