"""S1 section 4.3, second half: the three-sigma rule, its example, and what it is worth."""

from __future__ import annotations

import math
from itertools import product

from .ledger import CORRECTED, FALSE, HOLDS, claim
from .reference import float_hockey_stick, float_neighbours, float_pointwise

RATIO, RECORDS = 2.0, 1000


def rule(ratio: float, records: int) -> float:
    """The flip probability of (4.45)."""
    return 0.5 * (1 - 1 / math.sqrt(1 + 36 / ((ratio - 1) ** 2 * records)))


def deviation(records: int, q: float) -> float:
    return math.sqrt(records * q * (1 - q)) / (1 - 2 * q)


@claim(
    "S1",
    "(4.41)–(4.45)",
    "The rule puts the standard deviation of the estimate at 3/(λ − 1) or more, that is "
    "q ≥ ½(1 − 1/√(1 + 36/((λ − 1)²N))).",
    HOLDS,
    correction="As algebra. It restates the rule and is no privacy guarantee: see the last row of "
    "this section.",
)
def test_rule_algebra() -> None:
    for ratio, records in product((1.01, 1.5, 2.0, 10.0), (1, 10, 1000, 10**6)):
        q = rule(ratio, records)
        assert 0 < q < 0.5
        assert math.isclose(deviation(records, q), 3 / (ratio - 1), rel_tol=1e-6)
        assert deviation(records, q * 0.99) < 3 / (ratio - 1) < deviation(records, (q + 0.5) / 2)


@claim(
    "S1",
    "Section 4.3, example q",
    "For λ = 2 and N = 1000 the rule gives q = 0.009; without a crowd ε = ln 2 needs q = 1/3.",
    HOLDS,
    correction="0.008764, rounded.",
)
def test_example_flip_probability() -> None:
    assert round(rule(RATIO, RECORDS), 3) == 0.009
    assert round(rule(RATIO, RECORDS), 6) == 0.008764
    assert math.isclose((1 - 1 / 3) / (1 / 3), RATIO)


@claim(
    "S1",
    "Section 4.3, example gain",
    "The noise falls 37 times and the precision grows 10 fold, from a deviation of 44.7 to 3.",
    CORRECTED,
    correction="44.7 and 3 are right, so the precision grows 14.9 fold; the noise falls 38 times "
    "(37 with the rounded q).",
    counter_example="√2000/3 = 14.9, not 10.",
)
def test_example_gain() -> None:
    assert round(deviation(RECORDS, 1 / 3), 1) == 44.7
    assert round(deviation(RECORDS, rule(RATIO, RECORDS)), 9) == 3
    assert round(deviation(RECORDS, 1 / 3) / 3, 1) == 14.9
    assert int(0.333 / 0.009) == 37
    assert round(1 / 3 / rule(RATIO, RECORDS)) == 38


def interval(q: float, ones: int) -> tuple[float, float]:
    mean = (1 - q) * ones + q * (RECORDS - ones)
    width = 3 * math.sqrt(RECORDS * q * (1 - q))
    return round(mean - width, 2), round(mean + width, 2)


@claim(
    "S1",
    "(4.48)–(4.53)",
    "At q = 0.333 the three-sigma intervals of S and S_m are [621.98, 711.42] and "
    "[621.65, 711.09].",
    CORRECTED,
    correction="Those are the intervals at q = 0.3333.",
    counter_example="at q = 0.333 the first is [622.29, 711.71].",
)
def test_example_intervals_without_crowd() -> None:
    assert interval(0.3333, 1000) == (621.98, 711.42)
    assert interval(0.3333, 999) == (621.65, 711.09)
    assert interval(0.333, 1000) == (622.29, 711.71)


@claim(
    "S1",
    "(4.54), (4.55)",
    "At q = 0.009 the intervals are [982.04, 999.96] and [981.06, 998.98].",
    HOLDS,
)
def test_example_intervals_with_crowd() -> None:
    assert interval(0.009, 1000) == (982.04, 999.96)
    assert interval(0.009, 999) == (981.06, 998.98)


@claim(
    "S1",
    "Section 4.3, 99.98 %",
    "The rule keeps the privacy ratio below λ for 99.98 % of the outcomes.",
    FALSE,
    correction="Three sigma of a normal law is 99.73 %; and the rule looks at one direction and "
    "one crowd. Its δ(ln 2) in the example is 0.0125.",
    counter_example="the example itself, N = 1000, λ = 2, q = 0.008764: the ratio exceeds 2 with "
    "probability 0.84 % in the direction looked at, 6.3 % in the other, and 8.1 % for 18 ones "
    "among the others. Already at N = 5: 14 %. None for N ≤ 4, where p/q < 2.",
)
def test_rule_is_no_guarantee() -> None:
    for records in (1, 2, 3, 4):
        q = rule(RATIO, records)
        assert (1 - q) / q < RATIO
    small = rule(RATIO, 5)
    changed, ones = float_neighbours(4, 0, small)
    assert round(float_pointwise(ones, changed, RATIO), 2) == 0.14

    q = rule(RATIO, RECORDS)
    changed, ones = float_neighbours(RECORDS - 1, 0, q)
    assert round(float_pointwise(changed, ones, RATIO), 4) == 0.0084
    assert round(float_pointwise(ones, changed, RATIO), 4) == 0.0627
    assert round(float_hockey_stick(ones, changed, RATIO), 4) == 0.0125
    low, high = float_neighbours(18, RECORDS - 1 - 18, q)
    assert round(float_pointwise(low, high, RATIO), 4) == 0.0806
