"""What a composition is made of, and what it says it protects."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from chaffinch import privacy
from chaffinch.errors import InvalidInput

COLUMNS = privacy.FlippedFilters(filters=2, bits=20, flip_probability="0.4")
PEOPLE = privacy.FlippedBits(users=20, flip_probability="0.3")
OTHERS = privacy.FlippedBits(users=30, flip_probability="0.4")


@pytest.mark.parametrize("part", [COLUMNS, PEOPLE], ids=["columns", "people"])
def test_a_composition_protects_what_its_parts_protect(part: privacy.Mechanism) -> None:
    for rounds in (privacy.compose(part, times=2), privacy.compose([part, part])):
        assert rounds.neighbours == part.neighbours
        assert rounds.guarantee(delta=1e-6).neighbours == part.neighbours


def test_losses_of_people_and_of_columns_do_not_compose() -> None:
    assert COLUMNS.neighbours != PEOPLE.neighbours
    assert privacy.compose(COLUMNS, times=2).neighbours == COLUMNS.neighbours
    with pytest.raises(InvalidInput, match="neighbours"):
        privacy.compose([PEOPLE, COLUMNS])


def test_equal_parts_are_counted_and_inner_compositions_opened() -> None:
    inner = privacy.compose([PEOPLE, OTHERS], times=2)
    assert dict(privacy.compose([inner, PEOPLE], times=3).parts) == {PEOPLE: 9, OTHERS: 6}


def test_nothing_asked_is_nothing_lost() -> None:
    nothing = privacy.compose([])
    assert nothing.parts == ()
    assert 0.0 <= nothing.local_epsilon < 1e-300
    assert (nothing.view, nothing.crowd_words) == ("nothing", "nobody")
    assert nothing.neighbours == PEOPLE.neighbours
    for bracket in (nothing.delta(0.0), nothing.epsilon(1e-6)):
        assert (bracket.lower, bracket.upper) == (0.0, 0.0)
    assert nothing.delta_bound(0.0) == 0.0


def test_one_round_of_one_mechanism_is_itself() -> None:
    one = privacy.compose(PEOPLE)
    assert one.delta(0.5) == PEOPLE.delta(0.5)
    assert one.epsilon(1e-6) == PEOPLE.epsilon(1e-6)
    assert one.delta_bound(0.5) == PEOPLE.delta_bound(0.5)


def test_words_and_local_guarantees_of_the_parts() -> None:
    both = privacy.compose([PEOPLE, OTHERS, PEOPLE])
    assert both.crowd_words == f"2 × ({PEOPLE.crowd_words}) + 1 × ({OTHERS.crowd_words})"
    assert both.view == PEOPLE.view
    assert both.method == "upper-bound"
    total = 2 * PEOPLE.local_epsilon + OTHERS.local_epsilon
    assert total <= both.local_epsilon <= total * (1 + 1e-12)
    for bracket in (both.delta(both.local_epsilon), both.delta(both.local_epsilon + 1)):
        assert (bracket.lower, bracket.upper) == (0.0, 0.0)
    assert both.delta_bound(both.local_epsilon) == 0.0


@pytest.mark.parametrize("times", [0, -1, 1.5, True, 10**6 + 1])
def test_a_number_of_times_without_sense_is_refused(times: object) -> None:
    with pytest.raises(InvalidInput, match="number of times"):
        privacy.compose(PEOPLE, times=times)  # type: ignore[arg-type]


@pytest.mark.parametrize("resolution", [0.0, 1e-10, 1.5])
def test_a_resolution_without_sense_is_refused(resolution: float) -> None:
    with pytest.raises(InvalidInput, match="resolution"):
        privacy.compose(PEOPLE, times=2, resolution=resolution)


@pytest.mark.parametrize("given", [None, "bits", [PEOPLE, None], {PEOPLE}])
def test_only_mechanisms_are_composed(given: object) -> None:
    with pytest.raises(InvalidInput, match="mechanism"):
        privacy.compose(given)  # type: ignore[arg-type]


TWO = privacy.compose([PEOPLE, OTHERS])


@pytest.mark.parametrize("rounds", [TWO, privacy.compose(PEOPLE, times=2)], ids=["two", "twice"])
def test_the_quick_bound_is_above_the_exact_one_and_not_far(rounds: privacy.Composition) -> None:
    for epsilon in (0.0, 0.3, 1.0):
        exact = rounds.delta(epsilon).upper
        assert exact * (1 - 1e-9) <= rounds.delta_bound(epsilon) <= 2.5 * exact
        assert rounds.delta(epsilon).upper > PEOPLE.delta(epsilon).upper


def test_a_profile_is_delta_at_each_place() -> None:
    places = np.array([0.0, 0.5])
    lower, upper = TWO.profile(places)
    ends = [TWO.delta(float(place)) for place in places]
    assert lower.tolist() == [end.lower for end in ends]
    assert upper.tolist() == [end.upper for end in ends]
    assert (lower < upper).all()


def test_a_profile_is_followed_as_far_as_something_is_proven() -> None:
    assert 1e-15 <= TWO.profile_floor < 1e-9
    assert 0 < TWO.epsilon(TWO.profile_floor).upper <= TWO.local_epsilon


@pytest.mark.parametrize("distance", [Fraction(1, 10**6), Fraction(1, 100), Fraction(1)])
def test_what_was_cut_in_any_round_is_paid_for(distance: Fraction) -> None:
    cut = privacy.compose([privacy.Shortened(PEOPLE, distance), OTHERS], times=2)
    whole = privacy.compose([PEOPLE, OTHERS], times=2)
    for epsilon in (0.0, 0.5):
        cost = (1 + math.exp(epsilon)) * 2 * float(distance)
        exact, quick = whole.delta(epsilon), whole.delta_bound(epsilon)
        found = cut.delta(epsilon)
        assert found.upper == pytest.approx(min(exact.upper + cost, 1.0), rel=1e-9)
        assert found.lower <= exact.lower
        assert cut.delta_bound(epsilon) == pytest.approx(min(quick + cost, 1.0), rel=1e-9)
        assert found.upper <= 1.0
