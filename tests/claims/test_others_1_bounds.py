"""What others publish besides the five sources: bounds of a shuffled randomizer."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from chaffinch.privacy.amplification import ShuffledResponse
from chaffinch.privacy.published import variation_ratio_delta, variation_ratio_epsilon

from .ledger import FALSE, claim
from .reference import Table, multiset_delta, multiset_law

RATIOS = (Fraction(3, 2), Fraction(2), Fraction(3), Fraction(4))
LEVELS = (Fraction(1), Fraction(11, 10), Fraction(3, 2), Fraction(2), Fraction(3))


def response(values: int, ratio: Fraction) -> Table:
    """k-ary randomized response, e^ε₀ = ratio."""
    one = 1 / (ratio + values - 1)
    return tuple(
        tuple(one * ratio if sent == held else one for sent in range(values))
        for held in range(values)
    )


def claimed(users: int, values: int, ratio: Fraction, level: Fraction) -> Fraction:
    """δ of the variation ratio: the target sends (αp, α, rest), all others (α, α, rest)."""
    one = 1 / (ratio + values - 1)
    rest = 1 - one - one * ratio
    table: Table = (
        (one * ratio, one, rest),
        (one, one * ratio, rest),
        (one, one, 1 - 2 * one),
    )
    laws = [multiset_law([target] + [2] * (users - 1), table) for target in (0, 1)]
    return multiset_delta(laws[0], laws[1], level)


def crowd_of_equals(
    users: int, values: int, ratio: Fraction, level: Fraction, held: int
) -> Fraction:
    table = response(values, ratio)
    laws = [multiset_law([target] + [held] * (users - 1), table) for target in (0, 1)]
    return multiset_delta(laws[0], laws[1], level)


def float_crowd(users: int, values: int, ratio: float, level: float) -> float:
    """δ when all others hold a third value, from the four counts of the messages, in floats."""
    logs = np.array([math.lgamma(i + 1) for i in range(users + 1)])
    one = 1.0 / (ratio + values - 1)
    cover = np.log([one, one, one * ratio, one * (values - 3)])
    total = 0.0
    for first in range(users + 1):
        for second in range(users + 1 - first):
            third: NDArray[np.int64] = np.arange(users + 1 - first - second)
            rest = users - first - second - third
            # P₀/M = Σ h_v R₀(v)/(n·m(v)), M the law of n messages of the crowd.
            common = third / ratio + rest
            high, low = first * ratio + second + common, first + second * ratio + common
            chance = np.exp(
                logs[users] - logs[first] - logs[second] - logs[third] - logs[rest]
                + first * cover[0] + second * cover[1] + third * cover[2] + rest * cover[3]
            )  # fmt: skip
            total += float((chance * np.maximum(high - level * low, 0.0)).sum()) / users
    return total


@claim(
    "others",
    "Wang et al. 2024, k-ary response",
    "Shuffled k-ary randomized response has at most the δ of the variation ratio with "
    "p = q = e^ε₀ and β = (e^ε₀ − 1)/(e^ε₀ + k − 1).",
    FALSE,
    correction="For k = 2 it is the privacy blanket, and holds. For k ≥ 3 it takes the messages "
    "of the others that are neither value of the target for messages like the target's own; when "
    "all others hold a third value and k ≥ 4 it is what is left of the truth when these messages "
    "are not told apart. Checked are the parameters that the authors' program lists (wangsw/"
    "PrivacyAmplification, commit 34ca048) and the number it computes from them, not the proof in "
    "the paper.",
    counter_example="n = 2, k = 3, e^ε₀ = 4, E = 3: δ = 1/9 when the other user holds the target's "
    "value, 1/12 by the bound. n = 100, k = 4, ε₀ = 1, δ = 10⁻⁶: ε = 0.39253 by the bound, at "
    "least 0.39430 in truth. None with n = 1 or k = 2 on the grid.",
)
def test_variation_ratio_of_k_ary_response() -> None:
    found = [
        (users, values, ratio, level)
        for users in (1, 2)
        for values in (2, 3, 4)
        for ratio in RATIOS
        for level in LEVELS
        if level < ratio
        and any(
            crowd_of_equals(users, values, ratio, level, held)
            > claimed(users, values, ratio, level)
            for held in range(values)
        )
    ]
    assert found[0] == (2, 3, Fraction(4), Fraction(3))
    assert all(users > 1 and values > 2 for users, values, *_ in found)
    four, three = Fraction(4), Fraction(3)
    assert crowd_of_equals(2, 3, four, three, 0) == Fraction(1, 9)
    assert claimed(2, 3, four, three) == Fraction(1, 12)


def test_variation_ratio_where_crowds_are_large() -> None:
    beta = math.expm1(1.0) / (math.e + 3)
    bound = variation_ratio_epsilon(local_epsilon=1, variation=beta, users=100, delta=1e-6)
    assert bound == pytest.approx(0.39253, abs=1e-5)
    # A sum over all outcomes in floats, and the accountant's lower end.
    assert float_crowd(100, 4, math.e, math.exp(0.39430)) > 1.0e-6
    exact = ShuffledResponse(local_epsilon=1, values=4, users=100, relative_width=1e-6)
    assert exact.epsilon(1e-6).lower > 0.39430


@pytest.mark.parametrize(("users", "values"), [(2, 3), (3, 4), (5, 2)])
def test_the_formula_is_the_one_that_is_judged(users: int, values: int) -> None:
    beta = 3.0 / (values + 3)
    for level in (Fraction(1), Fraction(3, 2), Fraction(3)):
        found = variation_ratio_delta(
            local_epsilon=math.log(4), variation=beta, users=users, epsilon=math.log(level)
        )
        assert found == pytest.approx(float(claimed(users, values, Fraction(4), level)), rel=2e-3)
