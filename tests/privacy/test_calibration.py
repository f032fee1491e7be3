"""Calibration by mechanisms whose delta is a step: which parameters are asked, and which wins."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from chaffinch import privacy
from chaffinch.charts.gallery.closed_forms import _flip, _smallest
from chaffinch.errors import GuaranteeNotProven, InvalidInput, NoParameterFound
from chaffinch.planning.published_parameters import compare_parameters
from chaffinch.privacy import Bracket, Mechanism, Target, calibrate, calibrate_count
from chaffinch.privacy.mechanism import solve_epsilon
from chaffinch.privacy.numerics.precision import GRAIN, Floats
from tests.cases import each_case

TARGET = Target(1.0, 0.5)
MOST = GRAIN // 2 - 1


class Step(Mechanism):
    """A mechanism that knows its delta: a bracket of which the upper end counts."""

    view = "messages"
    method = "exact"

    def __init__(self, upper: float, lower: float = 0.0) -> None:
        self.ends = Bracket(lower, upper)

    @property
    def crowd_words(self) -> str:
        return "somebody"

    @property
    def local_epsilon(self) -> float:
        return math.inf

    def delta(self, epsilon: float) -> Bracket:
        assert epsilon == TARGET.epsilon
        return self.ends

    def profile(self, epsilons: Floats) -> tuple[Floats, Floats]:
        return np.full(len(epsilons), self.ends.lower), np.full(len(epsilons), self.ends.upper)


def by_count(meets: Callable[[int], bool]) -> tuple[Callable[[int], Step], list[int]]:
    """Return what makes a mechanism of a count, and the counts that it was asked for."""
    asked: list[int] = []

    def make(count: int) -> Step:
        asked.append(count)
        return Step(0.5 if meets(count) else math.nextafter(0.5, 1.0))

    return make, asked


@each_case("first", [1, 2, 3, 8, 9, 100])
def test_the_smallest_count_that_meets_the_target(first: int) -> None:
    make, asked = by_count(lambda count: count >= first)
    assert calibrate_count(make, TARGET) == first
    assert asked[0] == 1
    assert max(asked) <= max(2 * (first - 1), 1)


@pytest.mark.parametrize("last", [1, 2, 7, 99, 100])
def test_the_largest_count_that_meets_the_target(last: int) -> None:
    make, asked = by_count(lambda count: count <= last)
    assert calibrate_count(make, TARGET, most=100, largest=True) == last
    assert max(asked) <= 100


def test_counts_grow_from_the_least_in_doubled_steps() -> None:
    make, asked = by_count(lambda count: count >= 40)
    assert calibrate_count(make, TARGET, least=0) == 40
    assert asked[:8] == [0, 1, 2, 4, 8, 16, 32, 64]
    make, asked = by_count(lambda count: count >= 40)
    assert calibrate_count(make, TARGET, least=5, most=40) == 40
    assert asked[:5] == [5, 10, 20, 40, 30]


def test_no_count_in_the_range_is_said() -> None:
    for meets, largest in ((lambda count: count > 40, False), (lambda count: count < 5, True)):
        make, asked = by_count(meets)
        with pytest.raises(NoParameterFound, match="from 5 to 40"):
            calibrate_count(make, TARGET, least=5, most=40, largest=largest)
        assert len(asked) < 8


def test_a_single_count_is_a_range_too() -> None:
    for largest in (False, True):
        assert (
            calibrate_count(by_count(lambda _: True)[0], TARGET, least=5, most=5, largest=largest)
            == 5
        )
    with pytest.raises(InvalidInput, match="most count"):
        calibrate_count(by_count(lambda _: True)[0], TARGET, least=5, most=4)
    with pytest.raises(InvalidInput, match="least count"):
        calibrate_count(by_count(lambda _: True)[0], TARGET, least=-1)


def by_flip(border: int) -> tuple[Callable[[Fraction], Step], list[int]]:
    """Return a mechanism that meets the target from so many grains on."""
    asked: list[int] = []

    def make(flip: Fraction) -> Step:
        units = flip * GRAIN
        assert units.denominator == 1
        asked.append(int(units))
        return Step(0.5 * border / max(int(units), 1), 0.0)

    return make, asked


@pytest.mark.parametrize("border", [1000, 10**12, 2**62, MOST - 5])
def test_the_smallest_flip_probability(border: int) -> None:
    make, asked = by_flip(border)
    found = calibrate(make, TARGET, relative_tolerance=1e-6) * GRAIN
    assert border <= found <= border * (1 + 1.01e-6) + 1
    assert len(asked) == len(set(asked)), "nothing is asked twice"
    assert len(asked) < 80
    assert asked[0] == MOST
    assert asked[1] == MOST // 8 or border > MOST // 8


def test_the_smallest_flip_probability_of_all() -> None:
    make, asked = by_flip(0)
    # Down by eights to the last one above zero.
    found = calibrate(make, TARGET)
    assert found == Fraction(min(asked), GRAIN)
    assert 0 < min(asked) < 8


def test_a_target_that_no_flip_meets_is_said() -> None:
    with pytest.raises(NoParameterFound, match=r"below 0\.5"):
        calibrate(by_flip(2 * MOST)[0], TARGET)


@pytest.mark.parametrize("tolerance", [0.0, 1.1, math.nan])
def test_a_tolerance_without_sense_is_refused(tolerance: float) -> None:
    with pytest.raises(InvalidInput, match="relative tolerance"):
        calibrate(by_flip(9)[0], TARGET, relative_tolerance=tolerance)


def test_what_make_returns_must_be_a_mechanism() -> None:
    with pytest.raises(InvalidInput, match="result of make"):
        calibrate_count(lambda count: count, TARGET)  # type: ignore[arg-type,return-value]


# -------------------------------------------------------------------- epsilon from delta


def falling(epsilon: float) -> Bracket:
    """Return a bracket that falls: its ends are at 0.5 at epsilon 1 and at 1.1."""
    return Bracket(0.5**epsilon, min(0.5 ** (epsilon / 1.1), 1.0))


@each_case("most", [math.inf, 5.0])
@each_case("guess", [None, 1.1, 1.0995, 7.0, 0.0])
def test_epsilon_is_seen_to_be_enough_and_a_smaller_one_is_not(
    most: float, guess: float | None
) -> None:
    found = solve_epsilon(falling, 0.5, most=most, tolerance=1e-8, guess=guess)
    assert found.lower == pytest.approx(1.0, rel=1e-7)
    assert found.upper == pytest.approx(1.1, rel=1e-7)
    assert falling(found.upper).upper <= 0.5
    assert falling(found.lower).lower > 0.5


def test_a_good_guess_saves_questions() -> None:
    counts = []
    for guess in (None, 110.0):
        asked: list[float] = []

        def curve(epsilon: float, asked: list[float] = asked) -> Bracket:
            asked.append(epsilon)
            return falling(epsilon / 100)

        solve_epsilon(curve, 0.5, most=math.inf, tolerance=1e-8, guess=guess)
        counts.append(len(asked))
        assert len(asked) == len(set(asked)), "nothing is asked twice"
    assert counts[1] < counts[0]


def test_each_end_may_have_a_curve_of_its_own() -> None:
    def never(_: float) -> Bracket:
        raise AssertionError

    found = solve_epsilon(
        never,
        0.5,
        most=math.inf,
        lower=lambda epsilon: falling(epsilon).lower,
        upper=lambda epsilon: falling(epsilon).upper,
    )
    assert found.upper == pytest.approx(1.1)


def test_a_curve_that_never_falls_far_enough_is_not_proven() -> None:
    with pytest.raises(GuaranteeNotProven):
        solve_epsilon(lambda _: Bracket(0.4, 0.6), 0.5, most=math.inf)
    assert solve_epsilon(lambda _: Bracket(0.4, 0.6), 0.5, most=3.0).upper == 3.0


def test_a_search_tells_what_it_tries_before_it_tries_it() -> None:
    told: list[str] = []
    tried: list[int] = []

    def bits(flip: Fraction) -> privacy.FlippedBits:
        tried.append(len(told))
        return privacy.FlippedBits(users=1000, flip_probability=flip)

    privacy.calibrate(bits, privacy.Target(1.0, 1e-6), progress=told.append)
    assert tried == list(range(1, len(told) + 1))
    assert told[-1].startswith("flip probability 0.03")


def test_a_search_for_a_count_tells_what_it_tries() -> None:
    told: list[str] = []
    found = privacy.calibrate_count(
        lambda decoys: privacy.DecoyedValues(decoys=decoys, values=100),
        privacy.Target(1.0, 1e-6),
        progress=told.append,
    )
    assert f"count {found:,}" in told
    assert len(told) == len(set(told))


def test_four_digits_of_the_smallest_flip_are_the_same_wherever_one_asks() -> None:
    goal = Target(1.0, 1e-6)

    def bit(flip: Fraction) -> Mechanism:
        return privacy.FlippedBits(users=1000, flip_probability=flip)

    fine = calibrate(bit, goal, relative_tolerance=1e-9)
    less = fine * (1 - Fraction(1, 10**8))
    assert bit(fine).delta(1.0).upper <= 1e-6 < bit(less).delta(1.0).lower
    compared = compare_parameters(1000, 10, goal, lambda _: None)[0].value
    asked = (fine, calibrate(bit, goal), _smallest(bit, 1.0), compared)
    assert [_flip(float(one or 0)) for one in asked] == ["0.03074"] * 4


def test_a_scale_of_noise_is_not_taken_for_flips() -> None:
    with pytest.raises(InvalidInput, match="a flip probability, which is all that is varied"):
        calibrate(lambda b: privacy.NoisyTotals(law="gaussian", scale=b), Target(1.0, 1e-6))
