"""What is compared with: local responses of a choice by enumeration, the noise of a centre."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import pytest

import chaffinch as cf
from chaffinch.planning.baselines import (
    central_error,
    central_noises,
    local_choice,
    people_with_centre,
)
from chaffinch.privacy import NoisyTotals
from chaffinch.protocols.tuning import _gaussian_delta


def mean_variance(kept: Fraction, law: dict[tuple[int, int], Fraction], values: int) -> float:
    """Return the variance of an unbiased count of one person, on average over the values.

    ``law`` says how probable it is that somebody who holds the first supports the second.
    """
    other = next(chance for (held, seen), chance in law.items() if held != seen)
    gain = kept - other
    found = [law[0, seen] * (1 - law[0, seen]) / gain**2 for seen in range(values)]
    return float(sum(found) / values)


@pytest.mark.parametrize("values", [2, 3, 7])
def test_k_ary_response_by_enumeration(values: int) -> None:
    power = Fraction(3)
    kept, other = power / (power + values - 1), 1 / (power + values - 1)
    law = {(h, s): kept if h == s else other for h, s in product(range(values), repeat=2)}
    found = local_choice(values, math.log(3.0))
    assert found.name == "k-ary response"
    assert found.variance == pytest.approx(mean_variance(kept, law, values), rel=1e-12)
    assert found.influence == pytest.approx(float(1 / (kept - other)))


def test_hashing_by_every_hash_function() -> None:
    """Three buckets at e^ε = 2, and all 3⁴ functions of four values into them."""
    buckets, kept = 3, Fraction(1, 2)
    functions = list(product(range(buckets), repeat=4))

    def supported(seen: int) -> Fraction:
        """Return how probable it is that who holds the first value supports another."""
        same = sum(hashed[seen] == hashed[0] for hashed in functions)
        apart = (len(functions) - same) * (1 - kept) / (buckets - 1)
        return (same * kept + apart) / len(functions)

    own, other = supported(0), supported(1)
    gain = own - other
    variance = (19 * other * (1 - other) + own * (1 - own)) / 20 / gain**2
    found = local_choice(20, math.log(2.0))
    assert found.name == "hashing"
    assert found.variance == pytest.approx(float(variance), rel=1e-12)
    assert found.influence == pytest.approx(float(1 / gain))


def test_a_centre_takes_the_noise_that_is_smaller() -> None:
    """Discrete Laplace for few counts, Gaussian noise for many: √m/μ, not m/ε."""
    few, many = (cf.Flags([str(i) for i in range(size)]) for size in (2, 60))
    assert central_error(few, 1.0, 1e-6) == central_error(
        cf.Choice(["a", "b"], missing="count"), 1.0, 1e-6
    )
    assert central_error(many, 1.0, 1e-6) < 0.5 * 60 * math.sqrt(2)
    # In steps of a 32nd of the range.
    assert central_error(cf.Number(0, 9), 0.5, 1e-6) == pytest.approx(2 * math.sqrt(2), rel=1e-4)


def test_little_gaussian_noise_on_whole_numbers_is_not_the_continuous_one() -> None:
    """There the formula promises too much: a quarter of the delta that is true."""
    true = NoisyTotals(law="gaussian", scale="0.45").delta(12.0).lower
    assert _gaussian_delta(12.0, 1 / 0.45) < 0.25 * true


@pytest.mark.parametrize(
    "question",
    [cf.Bit(), cf.Choice(["a", "b"]), cf.Flags([str(i) for i in range(40)]), cf.Number(0, 9)],
)
@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-8), (1.0, 1e-6), (4.0, 1e-3)])
def test_a_centre_keeps_the_promise_and_little_less_noise_does_not(
    question: cf.Question, epsilon: float, delta: float
) -> None:
    noises = central_noises(question, epsilon, delta)
    assert [one.name for one in noises] == ["discrete Laplace", "discrete Gaussian"]
    assert all(0 <= one.delta <= delta for one in noises)
    counts = {"choice": 2, "flags": 40}.get(question.shape, 1)
    if question.shape != "number":
        laplace, gaussian = (one.parameter for one in noises)
        less = {"laplace": 0.998 / -math.log(laplace), "gaussian": 0.997 * gaussian}
        for law, scale in less.items():
            assert NoisyTotals(law=law, scale=scale, counts=counts).delta(epsilon).lower > delta


def test_the_same_share_of_fewer_people() -> None:
    assert people_with_centre(4.0, 1_000, 1.0) == 250
    assert people_with_centre(1.0, 1_000, 1.5) == 1_000
    assert people_with_centre(1e9, 1_000, 1.0) == 1


def test_an_explanation_names_the_price_of_no_centre() -> None:
    plan = cf.plan(cf.Bit(), users=2_000, target=cf.Target(1.0, 1e-6), max_messages=2)
    error = plan.parts[0].standard_error(2_000)
    central = central_error(cf.Bit(), 1.0, 1e-6)
    people = math.ceil(2_000 * central / error)
    said = (
        f"{error / central:.2f} times what a trusted centre would need for the same promise "
        f"(discrete Laplace noise of 1.36 people): a centre would be as exact, in shares, with "
        f"{people:,} people"
    )
    assert said in plan.explain()
