"""S0 section 5.1: one value out of d, in clear, with decoys."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import numpy as np

from .ledger import CORRECTED, FALSE, HOLDS, claim
from .reference import (
    bit_sums,
    float_binomial,
    float_hockey_stick,
    float_pointwise,
    moments,
    multiset_law,
)

EPSILONS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 20.0)
DELTAS = (0.999, 0.9, 0.5, 0.1, 0.01, 1e-3, 1e-6)


def decoys_per_value(epsilon: float, delta: float) -> float:
    """The m/d that (5.10) asks for; also the qm of (5.26)."""
    odds = (math.exp(epsilon) + 1) / (math.exp(epsilon) - 1)
    return 3 * math.log(4 / delta) * odds**2


@claim(
    "S0",
    "Section 5.1, loss",
    "With clear reports and uniform decoys the loss is ln((ĥ_ℓ + 1)/ĥ_ℓ′), ĥ being the decoy "
    "counts of the two values of the target.",
    HOLDS,
)
def test_clear_report_loss() -> None:
    for values, decoys in ((2, 3), (3, 4)):
        uniform = tuple(Fraction(1, values) for _ in range(values))
        counts = multiset_law([0] * decoys, (uniform,))
        for h, weight in counts.items():
            if h[1] == 0:
                continue
            moved = (h[0] + 1, h[1] - 1, *h[2:])
            assert weight / counts[moved] == Fraction(h[0] + 1, h[1])


@claim(
    "S0",
    "(5.2)",
    "A decoy count deviates from m/d by more than √(3(m/d) ln(4/δ)) with probability at most δ/2.",
    CORRECTED,
    correction="If m/d ≥ 3 ln(4/δ), so that t ≤ 1; (5.10) implies it.",
    counter_example="m = 1, d = 20, δ = 2/25: the deviation 0.95 exceeds 0.766 with probability "
    "0.05 > 0.04.",
)
def test_decoy_chernoff() -> None:
    for delta, d in product(DELTAS, (2, 3, 10, 100)):
        for scale in (1.0, 1.5, 4.0):
            m = math.ceil(scale * 3 * math.log(4 / delta) * d)
            width = math.sqrt(3 * m / d * math.log(4 / delta))
            law = float_binomial(m, 1 / d)
            assert law[np.abs(np.arange(m + 1) - m / d) > width].sum() <= delta / 2
    assert math.sqrt(3 / 20 * math.log(50)) < 0.95
    assert 1 / 20 > 0.08 / 2


def printed_slack(epsilon: float, delta: float, share: float) -> float:
    """Left side of (5.5) at m/d = share."""
    grow = math.exp(epsilon)
    return share * (grow - 1) - math.sqrt(3 * share * math.log(4 / delta)) * (grow + 1) - 1


@claim(
    "S0",
    "(5.5) to (5.6)",
    "The condition m/d(e^ε − 1) − √(3(m/d) ln(4/δ))(e^ε + 1) − 1 ≥ 0 may be replaced by the same "
    "without the −1.",
    FALSE,
    correction="Dropping the −1 weakens the condition. The sufficient form is √(m/d) ≥ "
    "[b + √(b² + 4c)]/(2c) with b = √(3 ln(4/δ))(e^ε + 1) and c = e^ε − 1. (5.10) is sound all "
    "the same, since the Chernoff step is loose.",
    counter_example="every (ε, δ): at equality in (5.10) the left side of (5.5) is −1.",
)
def test_dropped_one() -> None:
    for epsilon, delta in product(EPSILONS, DELTAS):
        share = decoys_per_value(epsilon, delta)
        size = share * math.expm1(epsilon)
        assert math.isclose(printed_slack(epsilon, delta, share), -1, abs_tol=1e-9 * size)
        b = math.sqrt(3 * math.log(4 / delta)) * (math.exp(epsilon) + 1)
        c = math.expm1(epsilon)
        enough = ((b + math.sqrt(b * b + 4 * c)) / (2 * c)) ** 2
        assert enough > share
        assert printed_slack(epsilon, delta, enough * (1 + 1e-9)) >= 0


def decoy_deltas(decoys: int, values: int, ratio: float) -> tuple[float, float]:
    """δ and point-wise δ of one clear report among uniform decoys."""
    total, exceeded = 0.0, 0.0
    hits = float_binomial(decoys, 2 / values) if values > 2 else np.eye(1, decoys + 1, decoys)[0]
    for t in np.flatnonzero(hits > 1e-300):
        half = float_binomial(int(t), 0.5)
        with_one, without = np.insert(half, 0, 0.0), np.append(half, 0.0)
        total += hits[t] * float_hockey_stick(with_one, without, ratio)
        exceeded += hits[t] * float_pointwise(with_one, without, ratio)
    return total, exceeded


@claim(
    "S0",
    "(5.10)",
    "Clear reports are (ε, δ)-private with m/d ≥ 3 ln(4/δ)((e^ε + 1)/(e^ε − 1))² uniform decoys.",
    HOLDS,
    correction="Also point-wise. δ is met with a factor of at least 70 to spare.",
)
def test_clear_reports_bound() -> None:
    checked = 0
    for epsilon, delta, values in product(EPSILONS, DELTAS, (2, 3, 5, 20)):
        decoys = math.ceil(values * decoys_per_value(epsilon, delta))
        if decoys <= 1200:
            private, exceeded = decoy_deltas(decoys, values, math.exp(epsilon))
            assert private <= delta / 70
            assert exceeded <= delta
            checked += 1
    assert checked > 100


@claim(
    "S0",
    "Section 5.1, lower bound",
    "Where the bound on the loss from above is met, the one from below is met too.",
    HOLDS,
    correction="Proof: (x + w)/(x − w + 1) < (x + w + 1)/(x − w) whenever x > w ≥ 0.",
)
def test_lower_loss_bound() -> None:
    for x, w in product(range(1, 40), range(40)):
        if x > w:
            assert Fraction(x + w, x - w + 1) < Fraction(x + w + 1, x - w)


@claim(
    "S0",
    "Section 5.1, error",
    "The count of a value has standard error √((m/d)(1 − 1/d)), which at equality in (5.10) is "
    "((e^ε + 1)/(e^ε − 1))·√(3 ln(4/δ)(1 − 1/d)).",
    HOLDS,
)
def test_clear_reports_error() -> None:
    for decoys, values in product(range(1, 9), (2, 3, 10)):
        mean, variance = moments(bit_sums(0, decoys, Fraction(1, values)))
        assert mean == Fraction(decoys, values)
        assert variance == Fraction(decoys, values) * (1 - Fraction(1, values))
    for epsilon, delta, values in product(EPSILONS, DELTAS, (2, 10)):
        share = decoys_per_value(epsilon, delta)
        odds = (math.exp(epsilon) + 1) / (math.exp(epsilon) - 1)
        closed = odds * math.sqrt(3 * math.log(4 / delta) * (1 - 1 / values))
        assert math.isclose(math.sqrt(share * (1 - 1 / values)), closed)
