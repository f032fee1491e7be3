"""Closed forms for a shuffled randomizer, and counts of a sample from a threshold on."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from chaffinch.privacy import FlippedBits, published

from .ledger import CORRECTED, HOLDS, claim
from .reference import Table, multiset_delta, multiset_law

Law = dict[int, Fraction]


def response(values: int, ratio: Fraction) -> Table:
    one = 1 / (ratio + values - 1)
    return tuple(
        tuple(one * ratio if sent == held else one for sent in range(values))
        for held in range(values)
    )


def worst_of_equals(users: int, values: int, ratio: Fraction, level: Fraction) -> Fraction:
    """δ of k-ary response, the worst of the crowds in which all others hold one value."""
    table = response(values, ratio)
    found = Fraction(0)
    for held in range(values):
        laws = [multiset_law([target] + [held] * (users - 1), table) for target in (0, 1)]
        found = max(found, multiset_delta(laws[0], laws[1], level))
    return found


@claim(
    "others",
    "Balle et al. 2019, Hoeffding and Bennett",
    "With the range and the variance of L that their program has, both inequalities bound δ of any "
    "randomizer with this ε₀, and of k-ary response with its own.",
    HOLDS,
    correction="On the grid. Both are looser than the blanket that they bound.",
)
@pytest.mark.parametrize("values", [2, 3])
def test_inequalities_bound_the_blanket(values: int) -> None:
    for users in (2, 4, 6):
        for ratio in (Fraction(3, 2), Fraction(3)):
            for level in (Fraction(11, 10), Fraction(5, 4)):
                truth = float(worst_of_equals(users, values, ratio, level))
                given = {
                    "local_epsilon": math.log(ratio),
                    "users": users,
                    "epsilon": math.log(level),
                }
                for formula in (published.blanket_hoeffding_delta, published.blanket_bennett_delta):
                    for known in (values, None):
                        assert truth <= formula(**given, values=known) * (1 + 1e-9)  # type: ignore[arg-type]


@claim(
    "others",
    "Erlingsson et al. 2019",
    "For ε₀ ≤ 1/2, n ≥ 1000 and δ < 1/100 shuffling gives ε = 12 ε₀ √(ln(1/δ)/n).",
    HOLDS,
    correction="Checked with two-value response; above ten times its ε.",
)
def test_the_first_amplification() -> None:
    for local in (0.1, 0.5):
        for users in (1000, 100_000):
            claimed = published.erlingsson_epsilon(local_epsilon=local, users=users, delta=1e-6)
            bit = FlippedBits(users=users, flip_probability=1 / (1 + math.exp(local)))
            assert 10 * bit.epsilon(1e-6).upper < claimed


def told(people: int, rate: Fraction, threshold: int) -> Law:
    """Return the law of a count that is 0 where it is below the threshold."""
    law: Law = {}
    for count in range(people + 1):
        mass = math.comb(people, count) * rate**count * (1 - rate) ** (people - count)
        key = count if count >= threshold else 0
        law[key] = law.get(key, Fraction(0)) + mass
    return law


def gained(first: Law, second: Law, level: Fraction) -> Fraction:
    parts = (mass - level * second.get(key, Fraction(0)) for key, mass in first.items())
    return sum((part for part in parts if part > 0), Fraction(0))


@claim(
    "others",
    "Bharadwaj and Cormode 2022",
    "Sampling with p = α(1 − e^−ε) and telling counts from K ≥ ln(1/δ)/(ln(1/α) − 1/(1 + α)) on is "
    "(ε, δ)-private when one user comes or goes.",
    HOLDS,
    correction="On the grid. δ is met with a factor of at least 1000 to spare.",
)
def test_sample_and_threshold() -> None:
    level = Fraction(math.exp(1))
    for alpha in (Fraction(1, 6), Fraction(1, 4)):
        rate = Fraction(published.sample_and_threshold_rate(epsilon=1, alpha=float(alpha)))
        rate = rate.limit_denominator(1000)
        for delta in (1e-3, 1e-6):
            least = math.ceil(
                published.sample_and_threshold_least(
                    epsilon=1, delta=delta, sampling_rate=float(rate)
                )
            )
            worst = Fraction(0)
            for people in range(least, 4 * least):
                more, fewer = told(people, rate, least), told(people - 1, rate, least)
                worst = max(worst, gained(more, fewer, level), gained(fewer, more, level))
            assert float(worst) * 1000 <= delta


@claim(
    "others",
    "brave-browser#35841",
    "Sampling with p = 0.105 and an aggregation threshold of K = 20 gives ε = 1 with δ = 1e-8.",
    CORRECTED,
    correction="Of the counts that are told, where δ(1) is 6.5e-15 (one user more or fewer) and at "
    "most 7.5e-15 (one user replaced); K = 11 would do. Not of who sees which reports are "
    "alike, as the server of a threshold scheme does.",
    counter_example="two people with a value that nobody else holds, everybody else with values of "
    "their own: two reports are alike with chance p² = 0.011, and never if one of the two "
    "holds another value.",
)
def test_sample_of_a_tenth_and_twenty() -> None:
    rate, level = Fraction(105, 1000), Fraction(math.exp(1))
    worst = Fraction(0)
    for people in range(20, 60):
        more, fewer = told(people, rate, 20), told(people - 1, rate, 20)
        worst = max(worst, gained(more, fewer, level), gained(fewer, more, level))
    assert float(worst) == pytest.approx(6.48e-15, rel=1e-3)
    # Who sees how many reports are alike: a pair, or none. One person more makes the pair.
    assert told(2, rate, 2)[2] == rate**2
    assert 2 not in told(1, rate, 2)
    assert rate**2 > Fraction(1, 100)
