"""The tools under vectors and filters: means of far-apart values."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaffinch.privacy.numerics.bit_words import BitWords
from chaffinch.privacy.numerics.precision import exp_ends
from chaffinch.privacy.numerics.sums import FiniteLaw, _count_outcomes, mean_positive_part
from tests.cases import each_case
from tests.oracles.exact import compositions, exp_bounds, orders


def exactly(law: FiniteLaw, count: int) -> Fraction:
    """Return E[(X₁+…+X_N)₊] over all counts of the values."""
    values, chances = law
    total = Fraction(0)
    for ways in compositions(count, len(values)):
        value = sum((k * v for k, v in zip(ways, values, strict=True)), Fraction(0))
        if value > 0:
            chance = Fraction(orders(ways))
            for k, c in zip(ways, chances, strict=True):
                chance *= c**k
            total += value * chance
    return total


far_apart = st.builds(
    lambda sign, size, power: sign * Fraction(size) * Fraction(10) ** power,
    st.sampled_from([-1, 1]),
    st.integers(0, 9),
    st.integers(-12, 12),
)


@given(
    values=st.lists(far_apart, min_size=1, max_size=4),
    weights=st.lists(st.sampled_from([1, 3, 50, 10**7]), min_size=4, max_size=4),
    count=st.integers(1, 7),
)
def test_heavy_and_ruinous_values_change_nothing(
    values: list[Fraction], weights: list[int], count: int
) -> None:
    total = sum(weights[: len(values)])
    law = values, [Fraction(weight, total) for weight in weights[: len(values)]]
    bracket = mean_positive_part(law, count, relative_width=1e-3)
    truth = exactly(law, count) / count
    assert Fraction(bracket.lower) <= truth <= Fraction(bracket.upper)
    assert bracket.upper <= float(truth) * (1 + 1e-3) + 1e-300


@each_case("count", [1, 3, 9])
@each_case("epsilon", [0.0, 1.0, 3.0])
def test_counting_is_exact(count: int, epsilon: float) -> None:
    for law in BitWords(3, Fraction(1, 10)).assumed(exp_ends(epsilon)[0]):
        bracket = _count_outcomes(law, count)
        assert bracket is not None
        assert Fraction(bracket.lower) <= exactly(law, count) <= Fraction(bracket.upper)
        assert bracket.relative_width < 1e-13


def test_too_many_outcomes_are_not_count_outcomes() -> None:
    law = BitWords(3, Fraction(1, 4)).assumed(Fraction(1))[0]
    assert _count_outcomes(law, 90_000) is None
    assert _count_outcomes(law, 200_000) is None
    assert _count_outcomes(([Fraction(-1), Fraction(0)], [Fraction(1, 2)] * 2), 10**9) is not None


@pytest.mark.parametrize(("length", "flip"), [(1, "0.1"), (2, "0.3"), (5, "0.25")])
def test_laws_of_words(length: int, flip: str) -> None:
    words = BitWords(length, Fraction(flip))
    ratio = Fraction(5, 4)
    assert sum(words.flipped_bits) == 1
    assert sum(r * c for r, c in zip(words.ratios, words.flipped_bits, strict=True)) == 1
    for distance in range(1, length + 1):
        values, chances = words.blanket(distance, ratio)
        assert sum(chances) == 1
        # D(v) sums to 1 − E over all outputs, whatever covers them.
        assert sum(v * c for v, c in zip(values, chances, strict=True)) == 1 - ratio
    assert words.alone(Fraction(1)) <= 1
    assert words.alone(words.odds[-1]) == 0
    # One word alone is the blanket's sum over its own outputs.
    values, chances = words.blanket(length, ratio)
    spread = zip(values, chances, strict=True)
    assert sum(max(v, Fraction(0)) * c for v, c in spread) == words.alone(ratio)


@pytest.mark.parametrize("epsilon", [0.0, 1e-300, 1e-9, 1.0, 30.0])
def test_growth_encloses_the_exponential(epsilon: float) -> None:
    low, high = exp_ends(epsilon)
    inner = exp_bounds(epsilon, digits=80)
    assert low <= inner[0] <= inner[1] <= high
    assert high - low <= high / 10**55
