"""What cut reports cost: (1 + e^ε)·distance of delta on both sides, and never less than that."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from chaffinch.errors import GuaranteeNotProven, InvalidInput
from chaffinch.privacy import DecoyedValues, FlippedBits, Grouped, Shortened, compose
from chaffinch.privacy.shortened_reports import cutting_cost
from tests.cases import each_case
from tests.tiers import nightly

WHOLE = FlippedBits(users=100, flip_probability="0.1")
TINY, LARGE = Fraction(1, 10**9), Fraction(1, 100)


@pytest.mark.parametrize("inner", [None, 1, Shortened(WHOLE, TINY)])
def test_only_a_whole_mechanism_is_cut(inner: object) -> None:
    with pytest.raises(InvalidInput, match="not cut yet"):
        Shortened(inner, TINY)  # type: ignore[arg-type]


@pytest.mark.parametrize("distance", [0.5, "1/2", None, Fraction(-1, 10**9), 1 + TINY])
def test_a_distance_is_a_fraction_of_one(distance: object) -> None:
    with pytest.raises(InvalidInput, match="distance"):
        Shortened(WHOLE, distance)  # type: ignore[arg-type]


@pytest.mark.parametrize("inner", [WHOLE, DecoyedValues(decoys=200, values=3)])
def test_all_but_the_numbers_is_that_of_the_whole(inner: FlippedBits | DecoyedValues) -> None:
    cut = Shortened(inner, TINY)
    for name in ("neighbours", "view", "method", "crowd_words", "local_epsilon"):
        assert getattr(cut, name) == getattr(inner, name)


@each_case("distance", [TINY, LARGE])
@each_case("epsilon", [0.0, 0.3, 1.5])
def test_delta_is_wider_by_the_cost(distance: Fraction, epsilon: float) -> None:
    cut, whole = Shortened(WHOLE, distance), WHOLE.delta(epsilon)
    cost = (1 + math.exp(epsilon)) * float(distance)
    found = cut.delta(epsilon)
    assert found.lower == pytest.approx(max(whole.lower - cost, 0.0), rel=1e-9, abs=1e-300)
    assert whole.upper + cost <= found.upper <= (whole.upper + cost) * (1 + 1e-12)
    quick = WHOLE.delta_bound(epsilon) + cost
    assert quick <= cut.delta_bound(epsilon) <= quick * (1 + 1e-12)


@pytest.mark.parametrize("distance", [TINY, LARGE])
def test_quick_upper_ends_are_no_smaller_than_their_exact_sum(distance: Fraction) -> None:
    epsilons = np.linspace(0.0, 2.0, 101)
    whole, found = (one.profile_bound(epsilons) for one in (WHOLE, Shortened(WHOLE, distance)))
    for epsilon, inner, upper in zip(epsilons, whole, found, strict=True):
        exact = Fraction(inner) + Fraction(cutting_cost(distance, float(epsilon)))
        assert exact <= Fraction(upper) <= exact * (1 + Fraction(1, 10**15))


def test_delta_is_a_chance_however_much_is_cut() -> None:
    cut = Shortened(WHOLE, Fraction(1))
    found = cut.delta(1.0)
    assert (found.lower, found.upper, cut.delta_bound(1.0)) == (0.0, 1.0, 1.0)
    # Cutting costs 0.98 at epsilon 0, and what is left of 1 is less than the whole one loses.
    nearly = Shortened(WHOLE, Fraction(49, 100))
    assert WHOLE.delta(0.0).lower > 0.02
    assert (nearly.delta(0.0).upper, nearly.delta_bound(0.0)) == (1.0, 1.0)


def test_nothing_is_lost_from_the_local_epsilon_on() -> None:
    cut = Shortened(WHOLE, LARGE)
    local = cut.local_epsilon
    for epsilon in (local, local + 1.0):
        assert (cut.delta(epsilon).lower, cut.delta(epsilon).upper) == (0.0, 0.0)
        assert cut.delta_bound(epsilon) == 0.0
    before = math.nextafter(local, 0.0)
    assert min(cut.delta(before).upper, cut.delta_bound(before)) > 0.0


def test_cutting_costs_its_part_of_the_quick_bound_up_to_the_local_epsilon() -> None:
    whole, distance = FlippedBits(users=9, flip_probability="1/4"), Fraction(1, 1000)
    cut = Shortened(whole, distance)
    thrice = compose(cut, times=3)
    assert whole.cutting(0.5) == 0
    assert cut.cutting(0.5) == cutting_cost(distance, 0.5) > 0
    assert thrice.cutting(0.5) == cutting_cost(3 * distance, 0.5)
    for one in (cut, thrice):
        assert one.cutting(one.local_epsilon) == 0


def test_nothing_cut_costs_nothing() -> None:
    assert cutting_cost(Fraction(0), 1.0) == 0.0
    cut = Shortened(WHOLE, Fraction(0))
    assert cut.delta(1.0).lower == pytest.approx(WHOLE.delta(1.0).lower, rel=1e-15)
    assert cut.delta(1.0).upper == pytest.approx(WHOLE.delta(1.0).upper, rel=1e-15)


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 1.0, 7.0])
def test_the_cost_is_rounded_up(epsilon: float) -> None:
    # e^ε is at least (1 + ε/n)^n, and for n = 2²⁰ less by a few millionths.
    growth = (1 + Fraction(epsilon) / 2**20) ** 2**6
    for _ in range(14):
        growth = Fraction(math.floor(growth * growth * 2**80), 2**80)
    found = Fraction(cutting_cost(TINY, epsilon))
    assert (1 + growth) * TINY <= found <= (1 + growth) * TINY * Fraction(10001, 10000)
    assert cutting_cost(TINY, 0.0) >= Fraction(2, 10**9)


def test_the_cost_is_at_most_everything() -> None:
    assert cutting_cost(TINY, 1e6) == 1.0
    assert cutting_cost(Fraction(9, 10), 0.0) == 1.0


def test_a_chance_too_small_for_a_float_costs_what_it_costs() -> None:
    # e^700 is about 10^304, and 10^-400 as a float is 0.
    assert cutting_cost(Fraction(1, 10**400), 700.0) >= 1e-97
    assert cutting_cost(Fraction(1, 10**310), 800.0) == 1.0
    assert cutting_cost(Fraction(1, 10**400), 1.0) < 1e-299


def test_a_profile_is_delta_at_each_place() -> None:
    cut, places = Shortened(WHOLE, LARGE), np.array([0.0, 0.5, 2.0])
    lower, upper = cut.profile(places)
    ends = [cut.delta(float(place)) for place in places]
    assert lower.tolist() == [end.lower for end in ends]
    assert upper.tolist() == [end.upper for end in ends]


@pytest.mark.parametrize("distance", [Fraction(0), TINY, LARGE, Fraction(1)])
def test_a_quick_profile_is_higher_by_the_cost(distance: Fraction) -> None:
    cut = Shortened(WHOLE, distance)
    places = np.array([0.0, 0.5, 2.0, cut.local_epsilon, cut.local_epsilon + 1.0])
    costs = np.array([cutting_cost(distance, float(place)) for place in places])
    above = np.minimum(WHOLE.profile_bound(places) + costs, 1.0)
    found = cut.profile_bound(places)
    assert found[:3] == pytest.approx(above[:3], rel=1e-12)
    assert (found <= 1.0).all()
    # From the local epsilon on nothing is lost, whatever was cut.
    assert (found[3:] == 0.0).all()


def test_a_cost_far_below_a_delta_is_not_rounded_away() -> None:
    cut, places = Shortened(WHOLE, Fraction(1, 10**30)), np.array([0.0, 0.5])
    profile, whole = cut.profile_bound(places), WHOLE.profile_bound(places)
    for place, quick, above in zip(places.tolist(), whole.tolist(), profile.tolist(), strict=True):
        cost, ends = Fraction(cutting_cost(cut.distance, place)), WHOLE.delta(place)
        assert Fraction(above) >= Fraction(quick) + cost
        assert Fraction(cut.delta_bound(place)) >= Fraction(WHOLE.delta_bound(place)) + cost
        assert Fraction(cut.delta(place).upper) >= Fraction(ends.upper) + cost
        assert Fraction(cut.delta(place).lower) <= Fraction(ends.lower) - cost


@pytest.mark.parametrize("distance", [Fraction(0), TINY, Fraction(1, 10**7), nightly(LARGE)])
@pytest.mark.parametrize("delta", [1e-6, 0.03, 0.2])
def test_epsilon_is_proven_from_both_sides(distance: Fraction, delta: float) -> None:
    cut = Shortened(WHOLE, distance)
    found = cut.epsilon(delta)
    assert found.upper <= cut.local_epsilon
    assert cut.delta(found.upper).upper <= delta
    assert found.lower < 1e-9 or cut.delta(found.lower).lower > delta
    # A little cutting moves epsilon a little; where it costs more than delta nothing is left.
    if float(distance) * 10 < delta:
        whole = WHOLE.epsilon(delta)
        assert found.upper <= whole.upper * 1.05
        assert found.lower >= whole.lower * 0.95
    if float(distance) * 2 > delta:
        assert found.upper == cut.local_epsilon


def test_no_epsilon_is_found_where_more_than_delta_always_leaks() -> None:
    inner = DecoyedValues(users=60, decoy_rate="1/3", values=2)
    always = inner.delta(600.0).upper
    assert math.isinf(inner.epsilon(always / 2).upper)
    with pytest.raises(GuaranteeNotProven):
        Shortened(inner, Fraction(1, 10**30)).epsilon(always / 2)


# ----------------------------------------------------------------------------
# A crowd that is too small now and then.


def test_a_shortfall_costs_its_chance_once_and_never_less() -> None:
    short = Fraction(3, 10**7)
    few = Shortened(WHOLE, TINY, short)
    for epsilon in (0.0, 0.4, 1.0, 3.0):
        cut, found = Shortened(WHOLE, TINY).delta(epsilon), few.delta(epsilon)
        if epsilon >= WHOLE.local_epsilon:
            assert found.upper == 0.0
            continue
        # At the worst everybody is there: the lower end stays.
        assert found.lower == cut.lower
        exact = Fraction(WHOLE.delta(epsilon).upper) + short
        exact += Fraction(1 + math.exp(epsilon)) * TINY
        assert exact * (1 - Fraction(1, 10**15)) <= found.upper <= exact * (1 + Fraction(1, 10**12))
        quick = few.delta_bound(epsilon)
        assert quick >= Fraction(WHOLE.delta_bound(epsilon)) + short
        assert few.profile_bound(np.array([epsilon]))[0] >= WHOLE.delta_bound(epsilon) + float(
            short
        )
    assert few.epsilon(1e-6).upper > Shortened(WHOLE, TINY).epsilon(1e-6).upper
    assert few.delta(few.epsilon(1e-6).upper).upper <= 1e-6
    assert few.local_epsilon == WHOLE.local_epsilon


def test_nothing_is_promised_where_the_crowd_is_never_there() -> None:
    never = Shortened(WHOLE, Fraction(0), Fraction(1))
    assert never.delta(0.1).upper == never.delta_bound(0.1) == 1.0
    assert never.delta(WHOLE.local_epsilon).upper == 0.0
    for bad in (Fraction(-1, 2), Fraction(3, 2), 0.5):
        with pytest.raises(InvalidInput, match="shortfall"):
            Shortened(WHOLE, TINY, bad)  # type: ignore[arg-type]


def test_shortfalls_of_rounds_add_up_whatever_their_parts_can_lose() -> None:
    """Of a round that is nearly all local loss nothing may be dropped, beside one that is not."""
    short, clear = Fraction(1, 10**5), DecoyedValues(decoys=300, values=3)
    small = FlippedBits(users=20, flip_probability="0.3")
    plain, charged = (
        compose(one, times=2)
        for one in ([small, clear], Shortened(compose([small, clear]), Fraction(0), short))
    )
    for epsilon in (0.3, 2 * small.local_epsilon + 0.5):
        least = plain.delta(epsilon).lower + 1.99 * float(short)
        assert charged.delta(epsilon).upper >= least
        quick = charged.delta_bound(epsilon)
        assert least <= quick <= plain.delta_bound(epsilon) + 2.01 * float(short)


def test_the_worst_that_a_shortfall_can_do_is_below_every_upper_end() -> None:
    """Now and then a round shows its answer: alone, in rounds, of groups, rounds of rounds."""
    short = Fraction(1, 10**4)
    clear = DecoyedValues(decoys=300, values=3)
    once = Shortened(clear, Fraction(0), short)
    twice = compose(once, times=2)
    for times, mechanism in (
        (1, once),
        (1, Grouped(once, records=2)),
        (2, twice),
        (2, Grouped(twice, records=2)),
        (2, Shortened(twice, Fraction(1, 10**30), Fraction(0))),
        (4, compose(Shortened(twice, Fraction(1, 10**30), Fraction(0)), times=2)),
        (4, compose([Grouped(twice, records=2), twice])),
    ):
        # In one round of them or more, where nothing is left of an answer that is sent in clear.
        shown = 1 - (1 - short) ** times
        for epsilon in (1.0, 9.0):
            assert mechanism.delta(epsilon).upper >= shown
            assert mechanism.delta_bound(epsilon) >= shown
            assert mechanism.profile_bound(np.array([epsilon]))[0] >= shown
