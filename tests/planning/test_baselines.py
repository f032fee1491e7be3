"""What is compared with: local responses of a choice by enumeration, the noise of a centre."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import pytest

import chaffinch as cf
from chaffinch.planning.baselines import central_error, local_choice


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
    assert central_error(cf.Number(0, 9), 0.5, 1e-6) == pytest.approx(2 * math.sqrt(2))


def test_an_explanation_names_the_price_of_no_centre() -> None:
    plan = cf.plan(cf.Bit(), users=2_000, target=cf.Target(1.0, 1e-6), max_messages=2)
    ratio = plan.parts[0].standard_error(2_000) / central_error(cf.Bit(), 1.0, 1e-6)
    assert f"{ratio:.2f} times what a trusted centre would need" in plan.explain()
