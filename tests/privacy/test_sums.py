"""The expected positive part of a sum: the bracket holds the truth, and is narrow."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from chaffinch.errors import InvalidInput
from chaffinch.privacy.guarantee import Bracket
from chaffinch.privacy.numerics import contours, sums
from chaffinch.privacy.numerics.sums import positive_part_of_sum
from tests.cases import each_case
from tests.tiers import chequered


def exactly(
    values: list[Fraction], probabilities: list[Fraction], count: int, offset: Fraction
) -> Fraction:
    """Return the expectation by convolving the law with itself, in rationals."""
    law = {offset: Fraction(1)}
    for _ in range(count):
        grown: dict[Fraction, Fraction] = {}
        for total, mass in law.items():
            for value, probability in zip(values, probabilities, strict=True):
                grown[total + value] = grown.get(total + value, Fraction(0)) + mass * probability
        law = grown
    return sum((mass * total for total, mass in law.items() if total > 0), Fraction(0))


def two_values(
    high: int, low: int, chance: Fraction, count: int, offset: Fraction = Fraction(0)
) -> Fraction:
    """Return the expectation for a variable with two values, as a binomial sum in rationals."""
    total, other = Fraction(0), 1 - chance
    for k in range(count + 1):
        value = offset + high * k + low * (count - k)
        if value > 0:
            total += math.comb(count, k) * chance**k * other ** (count - k) * value
    return total


def by_contour(*arguments: Any, **options: Any) -> Bracket:
    """Return the bracket by the general method, which short sums are otherwise spared."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sums, "_FEW", -1)
        return positive_part_of_sum(*arguments, **options)


def holds(bracket: Bracket, truth: Fraction) -> bool:
    return Fraction(bracket.lower) <= truth <= Fraction(bracket.upper)


weights = st.sampled_from([1, 2, 5, 30, 1000, 10**6])
points = st.fractions(min_value=-20, max_value=20, max_denominator=12)


@given(
    law=st.lists(st.tuples(points, weights), min_size=1, max_size=4),
    count=st.integers(0, 6),
    offset=st.fractions(min_value=-60, max_value=40, max_denominator=7),
)
def test_bracket_holds_the_exact_expectation(
    law: list[tuple[Fraction, int]], count: int, offset: Fraction
) -> None:
    values = [value for value, _ in law]
    total = sum(weight for _, weight in law)
    chances = [Fraction(weight, total) for _, weight in law]
    truth = exactly(values, chances, count, offset)
    counted = positive_part_of_sum(values, chances, count, offset=offset)
    assert holds(counted, truth)
    assert counted.relative_width <= 1e-12
    # A wide bracket is enough here and keeps the many cases quick: it is the ends that count.
    assert holds(by_contour(values, chances, count, offset=offset, relative_width=0.05), truth)


@each_case(
    ("count", "chance"),
    chequered([(1,), (10,), (1500,), (100,)], [Fraction(1, 20), Fraction(1, 3), Fraction(3, 5)]),
)
def test_two_values_down_to_the_far_tail(count: int, chance: Fraction) -> None:
    # An offset off the lattice of the sums: with mass at 0 exactly the smoothing costs more.
    offset = Fraction(1, 3)
    for high, low in [(1, -1), (1, -3), (7, -2), (3, -40)]:
        truth = two_values(high, low, chance, count, offset)
        bracket = positive_part_of_sum([high, low], [chance, 1 - chance], count, offset=offset)
        assert holds(bracket, truth)
        if truth > 1e-290 and count >= 100:
            assert bracket.relative_width <= 1e-3


@pytest.mark.parametrize("width", [0.1, 1e-2, 1e-4, 1e-5])
def test_width_asked_for_is_reached(width: float) -> None:
    truth = two_values(2, -3, Fraction(1, 4), 400, Fraction(1))
    bracket = positive_part_of_sum([2, -3], [0.25, 0.75], 400, offset=1, relative_width=width)
    assert bracket.relative_width <= width
    assert holds(bracket, truth)


@pytest.mark.parametrize("factor", [0.5, 0.8, 1.0, 1.2, 1.5])
def test_any_tilt_gives_the_same_number(factor: float, monkeypatch: pytest.MonkeyPatch) -> None:
    truth = two_values(3, -2, Fraction(1, 5), 200, Fraction(1, 2))
    assert truth < 1e-9
    best = contours._best_tilt  # noqa: SLF001

    def other(*arguments: Any) -> float:
        return factor * best(*arguments)

    monkeypatch.setattr(contours, "_best_tilt", other)
    chances = [Fraction(1, 5), Fraction(4, 5)]
    bracket = positive_part_of_sum([3, -2], chances, 200, offset=Fraction(1, 2))
    assert holds(bracket, truth)
    assert bracket.relative_width <= 1e-3


def test_mass_at_zero_exactly_is_covered() -> None:
    # The kink of the positive part is where the sum has an atom: the worst case for smoothing.
    truth = two_values(1, -1, Fraction(1, 2), 400)
    bracket = positive_part_of_sum([1, -1], [0.5, 0.5], 400)
    assert holds(bracket, truth)
    assert bracket.relative_width <= 1e-3


@pytest.mark.parametrize(
    ("bits", "columns", "flip", "epsilon", "golden"),
    [
        (3, 30, "0.2", 1.0, 0.0675697381472133),
        (2, 50, "0.25", 0.5, 0.0117483555226182),
        (4, 20, "0.3", 1.0, 0.014153550665904),
        (1, 100, "0.1", 1.0, 0.000501748668101162),
    ],
)
def test_golden_values_of_equal_columns(
    bits: int, columns: int, flip: str, epsilon: float, golden: float
) -> None:
    q = Fraction(flip)
    ratio, growth = (1 - q) / q, Fraction(math.exp(epsilon))
    ratios = [ratio ** (2 * y - bits) for y in range(bits + 1)]
    chances = [math.comb(bits, y) * q**y * (1 - q) ** (bits - y) for y in range(bits + 1)]
    ends = [
        positive_part_of_sum(
            [sign * r for r in ratios], chances, columns, offset=shift, relative_width=1e-5
        )
        for sign, shift in [(Fraction(1), -columns * growth), (-growth, Fraction(columns))]
    ]
    upper = max(end.upper for end in ends) / columns
    lower = max(end.lower for end in ends) / columns
    assert lower <= golden * (1 + 1e-9)
    assert golden <= upper * (1 + 1e-9)
    assert upper - lower <= 2e-5 * upper


def test_a_million_and_a_billion_variables() -> None:
    # Against the normal law: S has mean −x·sd with x = 6, where the two agree to about 1/√N.
    for count in (10**6, 10**9):
        chance = Fraction(1, 3)
        spread = math.sqrt(count * 2 / 9)
        offset = Fraction(-count, 3) - Fraction(6 * spread)
        bracket = positive_part_of_sum([1, 0], [chance, 1 - chance], count, offset=offset)
        density = math.exp(-18.0) / math.sqrt(2.0 * math.pi)
        normal = spread * (density - 6.0 * 0.5 * math.erfc(6.0 / math.sqrt(2.0)))
        assert bracket.relative_width <= 1e-3
        assert bracket.upper == pytest.approx(normal, rel=40.0 / math.sqrt(count) + 2e-3)


def test_rounded_probabilities_are_covered() -> None:
    chances = [Fraction(1, 7), Fraction(2, 7), Fraction(4, 7)]
    truth = exactly([Fraction(3), Fraction(-1), Fraction(0)], chances, 6, Fraction(-1))
    rounded = [float(chance) for chance in chances]
    assert holds(positive_part_of_sum([3, -1, 0], rounded, 6, offset=-1), truth)
    assert holds(by_contour([3, -1, 0], rounded, 6, offset=-1), truth)


@given(
    scale=st.sampled_from([1e-300, 1e-30, 1e30, 1e290]),
    offset=st.integers(-8, 8),
)
def test_scale_does_not_matter(scale: float, offset: int) -> None:
    plain = by_contour([1, -2], [0.5, 0.5], 9, offset=offset)
    large = by_contour([scale, -2 * scale], [0.5, 0.5], 9, offset=offset * scale)
    assert large.upper == pytest.approx(plain.upper * scale, rel=2e-3)


def test_sums_that_cannot_be_positive_are_zero() -> None:
    assert positive_part_of_sum([-1, 0], [0.5, 0.5], 10) == Bracket(0.0, 0.0)
    assert positive_part_of_sum([5, -1], [0.5, 0.5], 3, offset=-15) == Bracket(0.0, 0.0)


def test_sums_that_cannot_be_negative_are_their_mean() -> None:
    bracket = positive_part_of_sum([1, 3], [0.5, 0.5], 1000, offset=-1000)
    assert 1000.0 in bracket
    assert bracket.relative_width < 1e-12


def test_one_rare_huge_value_still_gives_valid_ends() -> None:
    value, chance = 10**12, Fraction(1, 10**12)
    truth = two_values(value, -1, chance, 100)
    bracket = positive_part_of_sum([value, -1], [chance, 1 - chance], 100)
    assert holds(bracket, truth)
    assert bracket.upper <= 100.0 * (1 + 1e-9)


@given(epsilon=st.floats(0.0, 2.0), step=st.floats(0.01, 1.0))
def test_falls_when_the_offset_falls(epsilon: float, step: float) -> None:
    assume(step > 0)
    high = positive_part_of_sum([1, -1], [0.4, 0.6], 90, offset=-epsilon)
    low = positive_part_of_sum([1, -1], [0.4, 0.6], 90, offset=-epsilon - step)
    assert low.lower <= high.upper


@each_case(
    ("values", "chances", "count"),
    [
        ([1.0], [0.5, 0.5], 3),
        ([], [], 3),
        ([1.0, 2.0], [0.5, 0.4], 3),
        ([1.0, math.nan], [0.5, 0.5], 3),
        ([1.0, math.inf], [0.5, 0.5], 3),
        ([1.0, 2.0], [-0.5, 1.5], 3),
        ([1.0, 2.0], [0.5, 0.5], -1),
        ([1.0, 2.0], [0.5, 0.5], True),
        ([1.0, 2.0], [Fraction(1, 10**320), 1 - Fraction(1, 10**320)], 2),
    ],
)
def test_bad_laws_are_refused(values: list[float], chances: list[float], count: int) -> None:
    with pytest.raises(InvalidInput):
        positive_part_of_sum(values, chances, count)


@each_case("chance", [1.8e-162, 2.3e-162, 3e-155, 1.5e-154, 1e-100])
@each_case("count", [2, 3, 7])
def test_the_smallest_chances_are_rounded_to_both_sides(chance: float, count: int) -> None:
    """Products of such chances leave the normal floats, where rounding may go up by half."""
    rare, rest = Fraction(chance), 1 - Fraction(chance)
    bracket = positive_part_of_sum([1, -3], [rare, rest], count)
    truth = sum(
        (
            math.comb(count, k) * rare**k * rest ** (count - k) * (k - 3 * (count - k))
            for k in range(count + 1)
            if k > 3 * (count - k)
        ),
        Fraction(0),
    )
    assert Fraction(bracket.lower) <= truth <= Fraction(bracket.upper)
    assert bracket.upper <= float(truth) * 1.001 + 2e-322
