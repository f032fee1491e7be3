"""Linear diagrams: lengths are the numbers, whatever they are."""

from __future__ import annotations

import re
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaffinch.charts.linear_diagram import _exclusive_parts, parts_chart
from chaffinch.errors import InvalidInput

NAMES = ("a", "b", "c", "d")


def at_least(
    names: tuple[str, ...], parts: dict[frozenset[str], float]
) -> dict[frozenset[str], float]:
    """Return how much every combination has in common, by adding up parts."""
    every = [frozenset(c) for n in range(1, len(names) + 1) for c in combinations(names, n)]
    return {some: sum(v for part, v in parts.items() if part >= some) for some in every}


@st.composite
def wholes(draw: st.DrawFn) -> tuple[tuple[str, ...], dict[frozenset[str], float]]:
    names = NAMES[: draw(st.integers(2, 4))]
    every = [frozenset(c) for n in range(1, len(names) + 1) for c in combinations(names, n)]
    return names, {some: float(draw(st.integers(0, 1000))) for some in every}


@given(wholes())
def test_parts_come_back_and_rows_are_as_long_as_their_sets(
    whole: tuple[tuple[str, ...], dict[frozenset[str], float]],
) -> None:
    names, parts = whole
    common = at_least(names, parts)
    assert _exclusive_parts(names, common) == parts
    chart = parts_chart("t", names, common, unit="ids")
    assert {one.sets: one.high - one.low for one in chart.parts} == {
        some: length for some, length in parts.items() if length
    }
    for name in names:
        length = sum(high - low for low, high in chart.spans(name))
        assert length == common[frozenset(name)]


def test_what_is_below_zero_has_no_length_and_is_said() -> None:
    common = {frozenset("a"): 5.0, frozenset("b"): 2.0, frozenset("ab"): 3.0}
    chart = parts_chart("t", "ab", common, unit="ids")
    assert [sorted(one.sets) for one in chart.parts] == [["a"], ["a", "b"]]
    assert "Estimated below 0, and drawn without length: only b." in chart.note


def test_neighbouring_parts_are_one_bar_and_words_say_what_is_seen() -> None:
    common = {frozenset("a"): 5.0, frozenset("b"): 4.0, frozenset("ab"): 3.0}
    chart = parts_chart("Who <shares>", ["a", "b"], common, unit="ids")
    assert chart.spans("a") == [(0.0, 5.0)]
    assert chart.spans("b") == [(2.0, 6.0)]
    drawn = chart.svg(name="x")
    assert drawn.count("<rect") == 4
    assert "Who &lt;shares&gt;" in drawn
    assert "only a: 2. exactly a and b: 3. only b: 1." in drawn


def test_nothing_at_all_is_still_a_picture() -> None:
    common = {frozenset("a"): 0.0, frozenset("b"): 0.0, frozenset("ab"): 0.0}
    assert parts_chart("t", "ab", common, unit="ids").svg().count("<rect") == 2


@pytest.mark.parametrize("names", ["a", "abcde"])
def test_other_numbers_of_sets_are_refused(names: str) -> None:
    with pytest.raises(InvalidInput, match="2 to 4"):
        parts_chart("t", names, {}, unit="ids")


def test_a_part_that_is_narrower_than_its_number_has_it_too() -> None:
    parts = {frozenset("a"): 1700.0, frozenset("ab"): 600.0, frozenset("b"): 12.0}
    chart = parts_chart("t", ("a", "b"), at_least(("a", "b"), parts), unit="ids")
    drawn = re.findall(r'<text[^>]*y="(\d+)"[^>]*class="cf-soft">([0-9,]+)<', chart.svg())
    assert [number for _, number in drawn] == ["1,700", "600", "12"]
    lines = [int(y) for y, _ in drawn]
    assert lines[0] == lines[1] < lines[2] < int(re.findall(r'height="(\d+)"', chart.svg())[0])
    # At the end of a line from its column, and not beyond the edge.
    assert chart.svg(styled=False).count("cf-reference") == 1
    assert 'text-anchor="end" class="cf-soft">12<' in chart.svg()
