"""The law of the gap, against exact fractions, at digit widths where ties are everywhere."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaffinch.sampling.gaps import _Level, _resolve_tie, gap_table
from tests.cases import each_case
from tests.sampling.sources import Exhausted, chance
from tests.tiers import slower


def threshold(level: _Level, which: int) -> Fraction:
    """Return P(digit ≥ which), straight from the law of the digit."""
    ratio = Fraction(level.base, 2**level.width) ** level.exponent
    if not level.truncated:
        return ratio**which
    weights = [ratio**value for value in range(level.size + 1)]  # P(digit = v) falls like aᵛ.
    return sum(weights[which:], Fraction(0)) / sum(weights, Fraction(0))


SMALL = [
    (width, numerator, bits)
    for width in (2, 3, 4)
    for numerator in range(1, 2**width)
    for bits in (2, 3)
]


@each_case(("width", "numerator", "largest"), SMALL)
def test_thresholds_are_the_exact_law_rounded_down(
    width: int, numerator: int, largest: int
) -> None:
    for level in gap_table(numerator, width, largest).levels:
        exact = [threshold(level, which) for which in range(1, level.size + 1)]
        assert level.floors() == [int(value * 2**width) for value in exact]
        for bits in (width * 2, width * 5, 64, 300):
            for which, value in enumerate(exact, 1):
                assert level.floor(which, bits) == value.numerator * 2**bits // value.denominator


@each_case(("width", "numerator", "largest"), SMALL)
def test_the_digits_together_are_the_geometric_law(
    width: int, numerator: int, largest: int
) -> None:
    # P(G = g) = (1 − q)ᵍ q must be the product of the chances of the digits of g.
    table = gap_table(numerator, width, largest)
    success = Fraction(numerator, 2**width)
    base = 1 << largest if len(table.levels) > 1 else 0
    for gap in range(40):
        product, rest = Fraction(1), gap
        for level in table.levels:
            if level.truncated:
                base = level.size + 1
                rest, digit = divmod(rest, base)
            else:
                rest, digit = 0, rest
                if digit >= level.size:  # An escape: no single word says this gap.
                    break
            upper = threshold(level, digit + 1) if digit < level.size else Fraction(0)
            product *= (threshold(level, digit) if digit else Fraction(1)) - upper
        else:
            assert product == (1 - success) ** gap * success


def law(level: _Level, depth: int) -> tuple[dict[int, Fraction], Fraction]:
    """Return the mass of every result over all strings of ``depth`` words, and what is open."""
    masses: dict[int, Fraction] = {}
    still_open = Fraction(0)
    waiting: list[tuple[int, ...]] = [(word,) for word in range(2**level.width)]
    while waiting:
        words = waiting.pop()
        mass = Fraction(1, 2 ** (level.width * len(words)))
        try:
            result = _resolve_tie(level, words[0], drawing(words[1:]))
        except Exhausted:
            if len(words) == depth:
                still_open += mass
            else:
                waiting.extend((*words, word) for word in range(2**level.width))
        else:
            masses[result] = masses.get(result, Fraction(0)) + mass
    return masses, still_open


def drawing(words: tuple[int, ...]) -> Callable[[], int]:
    """Return a function that hands out ``words`` and then gives up."""
    left = iter(words)

    def draw() -> int:
        for word in left:
            return word
        raise Exhausted

    return draw


@each_case(
    ("width", "numerator", "largest", "depth"),
    [(2, 1, 2, 4), (2, 3, 3, 4), (3, 1, 3, 4), (3, 3, 2, 4), (4, 1, 3, 3), (4, 7, 3, 3)],
)
def test_the_law_of_every_digit_over_all_words_with_ties(
    width: int, numerator: int, largest: int, depth: int
) -> None:
    for level in gap_table(numerator, width, largest).levels:
        masses, still_open = law(level, depth)
        assert sum(masses.values()) + still_open == 1
        # Each threshold leaves at most one string open.
        assert still_open <= level.size * Fraction(1, 2 ** (width * depth))
        for value in range(level.size + 1):
            above = threshold(level, value) if value else Fraction(1)
            beyond = threshold(level, value + 1) if value < level.size else Fraction(0)
            decided = masses.get(value, Fraction(0))
            assert decided <= above - beyond <= decided + still_open


def test_ties_are_what_that_test_saw() -> None:
    # Without a tie rule, giving the tied words to either side misses the law by far.
    level = gap_table(3, 3, 2).levels[0]
    floors = level.floors()
    plain = {
        value: sum(sum(floor > word for floor in floors) == value for word in range(8))
        for value in range(level.size + 1)
    }
    exact = [threshold(level, which) for which in range(1, level.size + 1)]
    assert any(
        Fraction(plain[value], 8) != (exact[value - 1] if value else 1) - exact[value]
        for value in range(level.size)
    )


@slower
@given(numerator=st.integers(1, 2**64), bits=st.sampled_from([64, 128, 200]))
def test_thresholds_of_wide_words(numerator: int, bits: int) -> None:
    table = gap_table(numerator)
    level = table.levels[0]
    if level.truncated:
        # The middle of a large table in exact fractions is slow; its ends show the law.
        ratio = Fraction(level.base, 2**64)
        last = ratio ** (level.size + 1)
        value = (ratio - last) / (1 - last)
    else:
        value = Fraction(level.base, 2**64)
    assert level.floor(1, bits) == value.numerator * 2**bits // value.denominator
    assert level.floors()[0] == value.numerator * 2**64 // value.denominator


@given(numerator=st.integers(1, 2**64))
def test_tables_are_in_order_and_small(numerator: int) -> None:
    table = gap_table(numerator)
    for thresholds, guide in zip(table.thresholds, table.guides, strict=True):
        assert len(thresholds) <= 2**12 + 1
        assert thresholds[-1] == 0
        assert np.all(thresholds[:-1] >= thresholds[1:])
        assert int(guide.max()) < len(thresholds)
        assert np.all(guide[:-1] >= guide[1:])


@pytest.mark.parametrize("probability", [0.3, 0.01, 1e-3, 1e-6, 1e-15])
def test_a_longer_enclosure_gives_the_same_thresholds(probability: float) -> None:
    # The table's fast iteration against the power of each entry, computed on its own.
    for level in gap_table(chance(probability)).levels:
        floors = level.floors()
        for which in (1, 2, level.size // 2, level.size - 1, level.size):
            assert floors[which - 1] == level.floor(which, 64)


def test_cached_tables_cannot_be_changed() -> None:
    table = gap_table(chance(0.1))
    with pytest.raises(ValueError, match="read-only"):
        table.thresholds[0][0] = 1
