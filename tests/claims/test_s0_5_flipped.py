"""S0 sections 5.2 and 5.3: one value out of d, flipped, with decoys."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from itertools import product

import numpy as np

from .ledger import CORRECTED, FALSE, HOLDS, claim
from .reference import (
    FLIPS,
    ONE,
    RATIOS,
    ZERO,
    Floats,
    Law,
    add_record,
    at,
    bit_sums,
    flip_table,
    float_hockey_stick,
    float_neighbours,
    float_pointwise,
    hockey_stick,
    moments,
    multiset_delta,
    multiset_law,
    neighbours,
)

EPSILONS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 20.0)
DELTAS = (0.999, 0.9, 0.5, 0.1, 0.01, 1e-3, 1e-6)


def decoys_alone(epsilon: float, delta: float) -> float:
    """The qm that (5.26) asks for."""
    odds = (math.exp(epsilon) + 1) / (math.exp(epsilon) - 1)
    return 3 * math.log(4 / delta) * odds**2


def flips_per_value(epsilon: float, delta: float) -> float:
    """The q(n + m) that (5.16) asks for."""
    half = 1 - math.exp(-epsilon / 2)
    return 3 * math.log(4 / delta) / half**2 + 4 / half


def moved_pair(h1: int, h2: int, others: int, flip: Fraction) -> tuple[Law, Law]:
    """Laws of the two affected sums, flattened, before and after the target moves."""
    low1, high1 = neighbours(h1, others - h1, flip)
    low2, high2 = neighbours(h2, others - h2, flip)
    before = tuple(x * y for x in high1 for y in low2)
    return before, tuple(x * y for x in low1 for y in high2)


@claim(
    "S0",
    "(5.11) to Prop. 5.1",
    "For the sums, the loss lies between the least and the largest, over the positions of the "
    "true and fake records, of the sum of the two single losses.",
    HOLDS,
    correction="For the per-value sums only: see the next row.",
)
def test_loss_of_sums() -> None:
    decoys, values = 2, 3
    for flip in FLIPS:
        mixture: list[tuple[Law, Law, Fraction]] = []
        for spots in product(range(values), repeat=decoys):
            pair = moved_pair(spots.count(0), spots.count(1), decoys, flip)
            mixture.append((*pair, Fraction(1, values**decoys)))
        for cell in range(len(mixture[0][0])):
            first = sum((w * before[cell] for before, _, w in mixture), ZERO)
            second = sum((w * after[cell] for _, after, w in mixture), ZERO)
            ratios = [before[cell] / after[cell] for before, after, _ in mixture]
            assert min(ratios) <= first / second <= max(ratios)


def one_hot_deltas(
    users: int, values: int, flip: Fraction, ratio: Fraction
) -> tuple[Fraction, Fraction]:
    """δ of whole flipped one-hot records in both directions, the others on the last value."""
    table = flip_table(values, flip)
    base = multiset_law([1 << (values - 1)] * (users - 1), table)
    first, second = add_record(base, table[1]), add_record(base, table[2])
    return multiset_delta(first, second, ratio), multiset_delta(second, first, ratio)


@claim(
    "S0",
    "Section 5.2, outcome",
    "What the measurer learns from shuffled flipped one-hot records is the sum in each value.",
    FALSE,
    correction="It is the multiset of whole vectors, which tells more. The analysis is right if "
    "the set bits travel as separate messages.",
    counter_example="2 users, d = 2, q = 1/4, E = 3, the other on value 2: for a move from value "
    "1 to value 2, δ is 29/128 of the records and 15/128 of the sums; for one from 2 to 1 it is "
    "27/128 of both. With one user the two views agree.",
)
def test_records_tell_more_than_sums() -> None:
    quarter, ratio = Fraction(1, 4), Fraction(3)
    alone = moved_pair(0, 0, 0, quarter)
    sums = hockey_stick(*alone, ratio), hockey_stick(*alone[::-1], ratio)
    assert one_hot_deltas(1, 2, quarter, ratio) == sums
    records, (before, after) = one_hot_deltas(2, 2, quarter, ratio), moved_pair(0, 1, 1, quarter)
    sums = hockey_stick(before, after, ratio), hockey_stick(after, before, ratio)
    assert records == (Fraction(29, 128), Fraction(27, 128))
    assert sums == (Fraction(15, 128), Fraction(27, 128))
    # The worse direction of the records is above the worse one of the sums.
    assert max(records) > max(sums)
    for flip, bound in product(FLIPS, RATIOS):
        low = hockey_stick(*moved_pair(0, 0, 2, flip), bound)
        assert one_hot_deltas(3, 3, flip, bound)[0] >= low


def float_moved_pair(h1: int, h2: int, others: int, flip: float) -> tuple[Floats, Floats]:
    low1, high1 = float_neighbours(h1, others - h1, flip)
    low2, high2 = float_neighbours(h2, others - h2, flip)
    return np.outer(high1, low2), np.outer(low1, high2)


def moved_settings(asked: float, spare: int) -> Iterator[tuple[int, float, int, int]]:
    """Crowd sizes (others = records − spare) with q ≤ 1/2 and corner positions (h1, h2)."""
    least = math.ceil(2 * asked)
    for records in sorted({least, least + 1, 2 * least, 5 * least}):
        others = records - spare
        if records > 300:
            continue
        corners = sorted({0, 1, others // 2, others - 1, others})
        for h1, h2 in product(corners, repeat=2):
            if h1 + h2 <= others:
                yield others, asked / records, h1, h2


@claim(
    "S0",
    "Prop. 5.1, (5.12) = (5.16), sums",
    "With n true and m fake flipped one-hot records, q(n + m) ≥ 3 ln(4/δ)/(1 − e^(−ε/2))² + "
    "4/(1 − e^(−ε/2)) gives (ε, δ)-privacy of the sums.",
    HOLDS,
    correction="Also point-wise, for every position of the others tried.",
)
def test_flipped_records_bound_for_sums() -> None:
    checked = 0
    for epsilon, delta in product(EPSILONS, DELTAS):
        asked = flips_per_value(epsilon, delta)
        for others, q, h1, h2 in moved_settings(asked, 1):
            before, after = float_moved_pair(h1, h2, others, q)
            assert float_hockey_stick(before, after, math.exp(epsilon)) <= delta
            assert float_pointwise(before, after, math.exp(epsilon)) <= delta
            checked += 1
    assert checked > 800


@claim(
    "S0",
    "Prop. 5.1, records",
    "The same bound protects the shuffled whole records.",
    FALSE,
    correction="It protects the sums. Whole records need the blanket of the full flip table.",
    counter_example="n = 10⁶, m = 0, d = 10, (ε, δ) = (1, 1e-6), the others on a third value: the "
    "event “target's first value alone in a record, its second in none” shows δ ≥ 0.9.",
)
def test_flipped_records_bound_fails_for_records() -> None:
    users, values = 10**6, 10
    q = flips_per_value(1, 1e-6) / users
    p = 1 - q
    stray = q**2 * p ** (values - 2)  # another record shows one given wrong value alone
    none_of_second, none_of_both = (1 - stray) ** (users - 1), (1 - 2 * stray) ** (users - 1)

    def chance(first: float, second: float) -> float:
        """P[first value alone somewhere, second nowhere], given the target's own chances."""
        return (1 - second) * none_of_second - (1 - first - second) * none_of_both

    own = p**values
    assert chance(own, stray) - math.e * chance(stray, own) > 0.9


@claim(
    "S0",
    "(5.13)–(5.15), (5.22)–(5.25)",
    "The bounds ask that the ratios lie within e^±ε with probability at most 1 − δ.",
    CORRECTED,
    correction="With probability at least 1 − δ.",
    counter_example="any setting of the previous rows, such as 2 others, q = 49/100, E = 2, δ = "
    "1/2: within with probability 1 > 1 − δ.",
)
def test_probability_of_staying_within() -> None:
    before, after = moved_pair(0, 0, 2, Fraction(49, 100))
    within = sum(
        (x for x, y in zip(before, after, strict=True) if y <= 2 * x <= 4 * y),
        ZERO,
    )
    assert within == ONE > Fraction(1, 2)


@claim(
    "S0",
    "(5.17)–(5.20), variance",
    "(s − (n + m)q)/(p − q) − m/d is unbiased for the true count of a value, with variance "
    "(n + m)pq/(p − q)² + (m/d)(1 − 1/d).",
    HOLDS,
    correction="In the displayed variance VAR(s) is the one given the decoys, and the s of (5.17) "
    "is its expectation.",
)
def test_flipped_records_estimator() -> None:
    for flip, (n, m, d) in product(FLIPS, ((1, 1, 2), (3, 2, 3), (2, 4, 5))):
        for true in range(n + 1):
            hits = bit_sums(0, m, Fraction(1, d))
            law = [ZERO] * (n + m + 1)
            for r, weight in enumerate(hits):
                for s in range(n + m + 1):
                    law[s] += weight * at(bit_sums(true + r, n + m - true - r, flip), s)
            mean, variance = moments(law)
            scale = 1 - 2 * flip
            assert (mean - (n + m) * flip) / scale - Fraction(m, d) == true
            noise = (n + m) * flip * (1 - flip) / scale**2
            assert variance / scale**2 == noise + Fraction(m, d) * (1 - Fraction(1, d))


@claim(
    "S0",
    "(5.21), section 1",
    "At the q of (5.16) the error of a proportion is (1/n)·√(p/(p − q)²·[…] + (m/d)(1 − 1/d)); for "
    "large n and few decoys the error of a count tends to √[…].",
    HOLDS,
)
def test_flipped_records_error() -> None:
    for epsilon, delta in product(EPSILONS, DELTAS):
        asked = flips_per_value(epsilon, delta)
        for n, m, d in ((10**5, 10, 5), (10**7, 1000, 10**6)):
            q = asked / (n + m)
            p = 1 - q
            if q >= 0.5:
                continue
            decoys = m / d * (1 - 1 / d)
            exact = math.sqrt((n + m) * p * q / (p - q) ** 2 + decoys) / n
            closed = math.sqrt(p / (p - q) ** 2 * asked + decoys) / n
            assert math.isclose(exact, closed, rel_tol=1e-9)
            if n == 10**7:
                assert math.isclose(exact * n, math.sqrt(asked), rel_tol=0.02)


def mixed_delta(decoys: int, values: int, flip: Fraction, ratio: Fraction) -> Fraction:
    """δ of one user among uniform flipped decoys: the exact mixture."""
    cells = (decoys + 2) ** 2
    first, second = [ZERO] * cells, [ZERO] * cells
    for spots in product(range(values), repeat=decoys):
        pair = moved_pair(spots.count(0), spots.count(1), decoys, flip)
        for cell in range(cells):
            first[cell] += pair[0][cell] / values**decoys
            second[cell] += pair[1][cell] / values**decoys
    return hockey_stick(first, second, ratio)


@claim(
    "S0",
    "Section 5.3, zeros",
    "When d is much larger than m, the decoys may be taken as zero in both affected values.",
    FALSE,
    correction="Average over where the decoys fall: δ ≤ E[δ(h₁, h₂)].",
    counter_example="m = 1, d = 2, q = 1/10, E = 50: true 1271/10000, with zeros 279/10000. Still "
    "at d = 10: 0.04774 against 0.0279.",
)
def test_decoys_are_not_all_zero() -> None:
    tenth, ratio = Fraction(1, 10), Fraction(50)
    zeros = hockey_stick(*moved_pair(0, 0, 1, tenth), ratio)
    assert zeros == Fraction(279, 10000)
    assert mixed_delta(1, 2, tenth, ratio) == Fraction(1271, 10000)
    assert mixed_delta(1, 10, tenth, ratio) == Fraction(2387, 50000)
    for values in (2, 3, 5):
        upper = ZERO
        for spots in product(range(values), repeat=2):
            pair = moved_pair(spots.count(0), spots.count(1), 2, tenth)
            upper += hockey_stick(*pair, ratio) / values**2
        assert mixed_delta(2, values, tenth, ratio) <= upper


@claim(
    "S0",
    "(5.23)",
    "With zero crowds the ratio to bound is R(s₁)·R(s₂).",
    CORRECTED,
    correction="R(s₂)/R(s₁): the target moves up in one value and down in the other.",
    counter_example="no decoys, q = 1/4, s = (0, 0): the ratio is 1, the printed product 9.",
)
def test_product_of_ratios() -> None:
    for flip, others in product(FLIPS, range(4)):
        before, after = moved_pair(0, 0, others, flip)
        low, high = neighbours(0, others, flip)
        ratios = [x / y for x, y in zip(low, high, strict=True)]
        for cell, (s1, s2) in enumerate(product(range(others + 2), repeat=2)):
            assert before[cell] / after[cell] == ratios[s2] / ratios[s1]
    before, after = moved_pair(0, 0, 0, Fraction(1, 4))
    assert before[0] == after[0]
    assert neighbours(0, 0, Fraction(1, 4))[0][0] * 4 == 3


@claim(
    "S0",
    "Section 5.3, last step",
    "With t = √(3 ln(4/δ)/(mq)), the best split α + β = 1 of ε gives t ≥ (e^ε − 1)/(e^ε + 1).",
    CORRECTED,
    correction="t ≤ (e^ε − 1)/(e^ε + 1), from e^ε ≥ (1 + t)/(1 − t).",
    counter_example="ε = ln 3: t = 0.6 meets the printed condition, but (1 + t)/(1 − t) = 4 > 3.",
)
def test_best_split() -> None:
    for epsilon in EPSILONS:
        limit = math.tanh(epsilon / 2)
        alpha = -math.log1p(-limit) / epsilon
        assert math.isclose(math.expm1((1 - alpha) * epsilon), limit, rel_tol=1e-6)
        over = (1 + limit) / 2
        assert (1 + over) / (1 - over) > math.exp(epsilon)
    assert Fraction(6, 10) > Fraction(3 - 1, 3 + 1)
    assert (1 + Fraction(6, 10)) / (1 - Fraction(6, 10)) == 4


@claim(
    "S0",
    "(5.26)",
    "One user among m flipped decoys is (ε, δ)-private when qm ≥ 3 ln(4/δ)((e^ε + 1)/(e^ε − 1))².",
    HOLDS,
    correction="On the grid for every position of the decoys tried, so also where d is small.",
)
def test_decoys_alone_bound() -> None:
    checked = 0
    for epsilon, delta in product(EPSILONS, DELTAS):
        asked = decoys_alone(epsilon, delta)
        for others, q, h1, h2 in moved_settings(asked, 0):
            before, after = float_moved_pair(h1, h2, others, q)
            assert float_hockey_stick(before, after, math.exp(epsilon)) <= delta
            checked += 1
    assert checked > 800
