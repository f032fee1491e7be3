"""Every search ends on the side that keeps the promise."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chaffinch.errors import GuaranteeNotProven
from chaffinch.privacy.numerics.roots import (
    Curve,
    bisect_real,
    bisect_whole,
    find_crossing,
    find_crossing_below,
    find_largest,
    narrow_crossing,
)
from chaffinch.privacy.progress import show_progress


@given(st.integers(-1000, 1000), st.integers(1, 2000), st.integers(0, 2000))
def test_whole_numbers_are_bisected_from_either_side(good: int, way: int, run: int) -> None:
    last = good + min(run, way - 1)
    assert bisect_whole(lambda n: n <= last, good=good, bad=good + way) == last
    assert bisect_whole(lambda n: -n <= last, good=-good, bad=-good - way) == -last


@given(st.floats(1e-6, 99.0), st.booleans())
def test_floats_are_bisected_to_the_last_one(root: float, geometric: bool) -> None:  # noqa: FBT001
    below = bisect_real(lambda x: x <= root, good=1e-9, bad=100.0, geometric=geometric)
    above = bisect_real(lambda x: x > root, good=100.0, bad=1e-9, geometric=geometric)
    assert root * (1 - 1e-14) <= below <= root < above <= root * (1 + 1e-14)
    rough = bisect_real(lambda x: x <= root, good=0.0, bad=100.0, tolerance=1e-3)
    assert root / 1.0011 <= rough <= root


def test_bisection_takes_its_ends_as_known_and_stops_at_the_steps() -> None:
    asked: list[float] = []

    def holds(x: float) -> bool:
        asked.append(x)
        return True

    assert bisect_real(holds, good=0.0, bad=8.0, steps=3) == 7.0
    assert asked == [4.0, 6.0, 7.0]


@given(root=st.floats(1e-6, 90.0), steepness=st.floats(0.1, 60.0), guess=st.floats(1e-3, 50.0))
def test_crossings_are_found_with_few_questions(
    root: float, steepness: float, guess: float
) -> None:
    asked = []

    def curve(x: float) -> float:
        asked.append(x)
        return math.exp(-steepness * ((x / root) ** 2 - 1)) if x < 99 else 0.0

    left, right = find_crossing(curve, 1.0, top=100.0, tolerance=1e-9, guess=guess)
    assert left < right
    assert curve(left) > 1.0 >= curve(right)
    assert right - left <= 1e-9 * right
    assert len(asked) < 75


def test_crossings_at_the_edges() -> None:
    assert find_crossing(lambda _: 0.5, 0.5, top=1.0, tolerance=0.1) == (0.0, 0.0)
    left, right = find_crossing(lambda x: 1.0 if x < 1 else 0.0, 0.5, top=1.0, tolerance=1e-6)
    assert left >= 1 - 2e-6
    assert right == 1.0
    # Steps and flats: only what was seen counts.
    left, right = find_crossing(lambda x: 2.0 if x < 0.3 else 0.1, 1.0, top=9.0, tolerance=1e-6)
    assert left < 0.3 <= right


def test_an_open_curve_is_followed_only_so_far() -> None:
    left, right = find_crossing(lambda _: 1.0, 0.5, top=math.inf, tolerance=1e-6)
    assert left > 1000
    assert math.isinf(right)


@given(st.floats(1e-3, 90.0))
def test_a_known_interval_is_narrowed(root: float) -> None:
    left, right = narrow_crossing(
        lambda x: math.exp(root - x), 1.0, 0.5 * root, 1.5 * root, tolerance=1e-10
    )
    assert 0.5 * root <= left < right <= left * (1 + 1.1e-10)
    assert math.exp(root - left) > 1.0 >= math.exp(root - right)


@given(st.floats(1e-4, 50), st.floats(1e-3, 1e3))
@settings(max_examples=50)
def test_the_largest_number_is_on_the_safe_side(root: float, guess: float) -> None:
    found = find_largest(lambda x: math.log(x / root), guess, least=1e-6, most=1e6, tolerance=1e-5)
    assert found is not None
    assert root * (1 - 2e-5) <= found <= root


def test_the_largest_number_says_when_nothing_will_do() -> None:
    assert find_largest(lambda _: 1.0, 1.0, least=0.1, most=10.0) is None
    assert find_largest(lambda _: -1.0, 1.0, least=0.1, most=10.0) == pytest.approx(10.0)


def test_a_search_without_an_end_is_given_up() -> None:
    """Noise that does not fit: less and less of it is kept, the more there is."""
    asked: list[float] = []

    def excess(x: float) -> float:
        asked.append(x)
        return abs(math.log(x)) + 1.0

    assert find_largest(excess, 2.0, least=1e-9, most=10.0, slope=1.0, patience=2) is None
    assert len(asked) < 10
    # It went on past the least excess, and further than one step that only seemed too far.
    assert sum(x < 1.0 for x in asked) >= 2
    assert find_largest(lambda x: math.log(x / 0.01), 2.0, least=1e-9, most=10.0, patience=1)


@pytest.mark.parametrize("patience", [1, 2, 5])
def test_patience_counts_rises_in_a_row(patience: int) -> None:
    rising = Asked(lambda x: 5.0 - 0.01 * math.log(x))
    assert find_largest(rising, 1.0, least=1e-300, most=10.0, patience=patience) is None
    assert len(rising.places) == patience + 1
    # What stays at one height does not rise.
    flat = lambda x: min(1.0, math.log(x / 0.01))  # noqa: E731
    assert find_largest(flat, 2.0, least=1e-9, most=10.0, patience=patience)


@given(root=st.floats(1e-6, 90.0), distance=st.floats(0.0, 0.999), near=st.floats(1e-9, 0.5))
def test_a_crossing_is_found_from_above(root: float, distance: float, near: float) -> None:
    top = root / (1.0 - distance)
    left, right = find_crossing_below(
        lambda x: math.exp(5.0 * (1.0 - x / root)), 1.0, top=top, tolerance=1e-9, near=near
    )
    assert left < right <= top
    assert right - left <= 1e-9 * right
    assert root * (1 - 2e-9) <= right
    assert left <= root * (1 + 2e-9)


def test_a_curve_that_is_nowhere_above_crosses_at_zero() -> None:
    assert find_crossing_below(lambda _: 0.5, 0.5, top=1.0, tolerance=1e-3, near=0.1) == (0.0, 0.0)


def test_a_curve_that_ends_exactly_at_the_level_is_crossed() -> None:
    above = math.nextafter(0.1, 1.0)
    left, right = find_crossing(
        lambda x: above if x < 2e-16 else 0.1, 0.1, top=1.0, tolerance=1e-9, guess=1.0
    )
    assert left < 2e-16 <= right
    assert right - left <= 1e-9 * right


# A curve is expensive: the numbers of questions below are what the searches need, and a few more.

CURVES = [
    (root, power, steepness)
    for root in (1e-3, 0.2, 1.0, 7.0, 60.0)
    for power in (1, 2)
    for steepness in (0.5, 5.0, 40.0)
]


class Counted:
    """A falling curve that crosses 1 at its root, and how often it was asked."""

    def __init__(self, root: float, power: int, steepness: float) -> None:
        self.root, self.power, self.steepness = root, power, steepness
        self.asked = 0

    def __call__(self, x: float) -> float:
        return math.exp(-self.excess(x))

    def excess(self, x: float) -> float:
        self.asked += 1
        return self.steepness * ((x / self.root) ** self.power - 1)


def test_crossings_cost_few_questions() -> None:
    total = 0
    for each in CURVES:
        curve = Counted(*each)
        left, right = find_crossing(curve, 1.0, top=100.0, tolerance=1e-9)
        assert left < curve.root * (1 + 1e-12)
        assert right > curve.root * (1 - 1e-12)
        total += curve.asked
    assert total <= 470


def test_crossings_from_above_cost_few_questions() -> None:
    total = 0
    for each in CURVES:
        for above in (1 + 1e-10, 1.001, 1.5, 20.0):
            curve = Counted(*each)
            top = curve.root * above
            left, right = find_crossing_below(curve, 1.0, top=top, tolerance=1e-9, near=4e-9)
            assert left < curve.root * (1 + 1e-12)
            assert right > curve.root * (1 - 1e-12)
            assert right - left <= 1e-9 * right
            total += curve.asked
    assert total <= 1505


@pytest.mark.parametrize(("knows_slope", "most"), [(True, 895), (False, 1360)])
def test_the_largest_number_costs_few_questions(*, knows_slope: bool, most: int) -> None:
    total = 0
    for root, power, steepness in CURVES:
        for guess in (0.1, 0.9, 1.0, 1.2, 30.0):
            curve = Counted(root, power, steepness)
            slope = power * steepness if knows_slope else None
            found = find_largest(curve.excess, guess * root, least=1e-6, most=1e6, slope=slope)
            assert found is not None
            assert root * (1 - 2e-3) <= found <= root * (1 + 1e-12)
            total += curve.asked
    assert total <= most


class Asked:
    """A curve that keeps the places at which it was asked."""

    def __init__(self, curve: Callable[[float], float]) -> None:
        self.curve = curve
        self.places: list[float] = []

    def __call__(self, x: float) -> float:
        self.places.append(x)
        return self.curve(x)


def test_bisection_stops_at_the_tolerance_and_goes_by_halves_of_the_logarithm() -> None:
    rough = Asked(lambda _: 1.0)
    assert bisect_real(lambda x: rough(x) > 0, good=0.0, bad=8.0, tolerance=0.5) == 4.0
    assert rough.places == [4.0]
    even = Asked(lambda _: 1.0)
    assert bisect_real(lambda x: even(x) > 0, good=1.0, bad=16.0, steps=2, geometric=True) == 8.0
    assert even.places == [4.0, 8.0]


def test_a_crossing_is_looked_for_in_doubled_steps_and_never_at_the_known_end() -> None:
    curve = Asked(lambda x: 2.0 if x < 60 else 0.5)
    left, right = find_crossing(curve, 1.0, top=100.0, tolerance=0.5)
    assert curve.places[:8] == [0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0]
    assert left < 60 <= right
    curve = Asked(lambda _: 2.0)
    left, right = find_crossing(curve, 1.0, top=8.0, tolerance=1e-3)
    assert 8.0 not in curve.places
    assert 8.0 * (1 - 1e-3) <= left < right == 8.0


def test_a_crossing_from_above_is_looked_for_in_steps_eight_times_as_long() -> None:
    curve = Asked(lambda _: 0.5)
    assert find_crossing_below(curve, 1.0, top=1.0, tolerance=0.1, near=1 / 64) == (0.0, 0.0)
    assert curve.places == [1.0, 1 - 1 / 64, 1 - 1 / 8, 0.0]
    curve = Asked(lambda _: 0.5)
    assert find_crossing_below(curve, 1.0, top=1.0, tolerance=0.1, near=0.15) == (0.0, 0.0)
    assert curve.places == [1.0, 0.85, 0.0]


def test_a_crossing_can_be_narrowed_to_the_last_float() -> None:
    left, right = narrow_crossing(lambda x: 2.0 if x < 0.3 else 0.5, 1.0, 0.25, 0.5, tolerance=0.0)
    assert left < 0.3 <= right
    assert math.nextafter(left, 1.0) == right


def test_the_largest_number_asks_no_further_at_its_limits() -> None:
    for answer, expected in ((-1.0, 10.0), (1.0, None)):
        excess = Asked(lambda _, answer=answer: answer)  # type: ignore[misc]
        found = find_largest(excess, 1.0, least=0.1, most=10.0)
        assert found == (expected if expected is None else pytest.approx(expected))
        assert len(excess.places) < 10


def test_what_cannot_be_proven_counts_as_too_much() -> None:
    def excess(x: float) -> float:
        if x > 2.0:
            raise GuaranteeNotProven("delta", asked=1.0, lower=0.0, upper=1.0)
        return -1.0

    found = find_largest(excess, 3.0, least=0.1, most=10.0, slope=1.0)
    assert found is not None
    assert 1.9 < found <= 2.0


def test_the_level_may_be_as_small_as_a_delta() -> None:
    total = 0
    for root in (0.2, 1.0, 7.0):
        curve = Counted(root, 2, 20.0)
        left, right = find_crossing(lambda x: 1e-9 * curve(x), 1e-9, top=100.0, tolerance=1e-9)  # noqa: B023
        assert left < root * (1 + 1e-12)
        assert right > root * (1 - 1e-12)
        total += curve.asked
    assert total <= 61


def test_a_cliff_is_found_by_halves() -> None:
    """Where interpolation is misled by heights that say nothing, the interval is halved."""
    total = 0
    for cliff in (0.011, 0.3, 0.77, 3.3, 90.0):
        for above, below in ((1.0 + 1e-9, 1e-200), (1e200, 1.0 - 1e-9)):
            curve = Asked(lambda x, c=cliff, a=above, b=below: a if x < c else b)  # type: ignore[misc]
            left, right = find_crossing(curve, 1.0, top=100.0, tolerance=1e-9)
            assert left < cliff <= right
            assert right - left <= 1e-9 * right
            total += len(curve.places)
    assert total <= 805


def test_tries_that_run_out_find_nothing() -> None:
    """Steps by the slope may be too short to arrive anywhere."""
    excess = Asked(lambda _: 1e-9)
    assert find_largest(excess, 1.0, least=1e-6, most=10.0, slope=1.0) is None
    assert len(excess.places) <= 61


def test_a_height_of_next_to_nothing_does_not_end_the_search() -> None:
    """Interpolation would stay at the left end: the interval is halved instead."""
    above = math.nextafter(1.0, 2.0)
    left, right = narrow_crossing(
        lambda x: above if x < 1.7 else 1e-300, 1.0, 1.0, 2.0, tolerance=1e-6
    )
    assert left < 1.7 <= right
    assert right - left <= 1e-6 * right


@pytest.mark.parametrize(
    "search",
    [
        lambda falling: narrow_crossing(falling, 0.5, 0.1, 5.0, tolerance=1e-9),
        lambda falling: find_largest(lambda x: 0.5 - falling(x), 0.1, least=0.01, most=5.0),
    ],
    ids=["narrow_crossing", "find_largest"],
)
def test_whoever_waits_is_told_of_every_question(search: Callable[[Curve], object]) -> None:
    asked: list[float] = []
    told: list[str] = []

    def falling(x: float) -> float:
        asked.append(x)
        return math.exp(-x)

    with show_progress(told.append, pause_seconds=0):
        search(falling)
    assert len(asked) > 3
    assert told == [f"points of a curve: {count}" for count in range(1, len(asked) + 1)]


@pytest.mark.parametrize("height", [0.4, 1e-3])
def test_what_never_falls_is_left_after_a_few_steps(height: float) -> None:
    """A slope that was promised says how far to go; where nothing falls, that is far too little."""
    tried: list[float] = []

    def excess(place: float) -> float:
        tried.append(place)
        return height

    assert find_largest(excess, 1.0, least=1e-3, most=1e9, slope=20.0) is None
    assert len(tried) < 12


def test_a_search_that_hardly_gets_on_ends_with_nothing() -> None:
    """The slope that was promised is far too steep, and the curve falls a little each time."""
    tried: list[float] = []

    def excess(place: float) -> float:
        tried.append(place)
        return 1.0 + 1e-3 * math.log(place)

    assert find_largest(excess, 1.0, least=1e-3, most=1e3, slope=1e3) is None
    assert min(tried) > 0.5, "it never came near the least"
