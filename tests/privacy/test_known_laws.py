"""Rounds of mechanisms whose two laws are known: both ends against the product of all laws."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce

import numpy as np
import pytest
from scipy.special import gammaln

from chaffinch.errors import GuaranteeNotProven
from chaffinch.privacy import Bracket, Composition, FlippedBits, Mechanism, Shortened, compose
from chaffinch.privacy.composition import _grid_step, _quick_profile, full_profile
from chaffinch.privacy.numerics.loss_grids import Kinks
from chaffinch.privacy.numerics.precision import Floats
from chaffinch.privacy.tradeoff import lower_hull
from tests.cases import each_case


def hockey_stick(first: Floats, second: Floats, epsilon: float) -> float:
    """Return the larger delta of a pair of laws, of both directions."""
    factor = math.exp(min(epsilon, 700.0))
    ends = (np.maximum(a - factor * b, 0.0).sum() for a, b in ((first, second), (second, first)))
    return float(max(ends))


@dataclass(frozen=True)
class Known(Mechanism):
    """A mechanism with one crowd, whose view has one of two laws."""

    laws: tuple[tuple[float, ...], tuple[float, ...]]

    view = "messages"
    method = "exact"

    @property
    def crowd_words(self) -> str:
        return "somebody"

    @property
    def local_epsilon(self) -> float:
        pairs = list(zip(*self.laws, strict=True))
        if any((a == 0) != (b == 0) for a, b in pairs):
            return math.inf
        return max(abs(math.log(a / b)) for a, b in pairs)

    def delta(self, epsilon: float) -> Bracket:
        found = hockey_stick(*self.pair(), epsilon)
        return Bracket(found, found)

    def epsilon(self, delta: float) -> Bracket:
        leaks = hockey_stick(*self.pair(), 700.0) > delta
        return Bracket(math.inf, math.inf) if leaks else super().epsilon(delta)

    def profile(self, epsilons: Floats) -> tuple[Floats, Floats]:
        found = np.array([self.delta(float(epsilon)).upper for epsilon in epsilons])
        return found, found.copy()

    def pair(self) -> tuple[Floats, Floats]:
        first, second = (np.array(law) for law in self.laws)
        return first, second

    def instance(self) -> tuple[Floats, Floats]:
        return self.pair()


class Reticent(Known):
    """A mechanism that does not tell its last outcome; of what is not told nothing is known."""

    def instance(self) -> tuple[Floats, Floats]:
        first, second = self.pair()
        return first[:-1], second[:-1]


class Rough(Known):
    """A mechanism whose profile is proven roughly: nowhere below a thousandth."""

    def profile(self, epsilons: Floats) -> tuple[Floats, Floats]:
        lower, upper = super().profile(epsilons)
        return lower, np.maximum(upper, 1e-3)


class Loose(Known):
    """A mechanism whose profile is proven to a fifth."""

    def profile(self, epsilons: Floats) -> tuple[Floats, Floats]:
        lower, upper = super().profile(epsilons)
        return lower, np.minimum(1.2 * upper, 1.0)


class Silent(Known):
    """A mechanism that tells no law, and knows delta to a tenth."""

    def delta(self, epsilon: float) -> Bracket:
        found = super().delta(epsilon).upper
        return Bracket(0.9 * found, found)

    def instance(self) -> None:  # type: ignore[override]
        return None


TINY = Fraction(1, 10**9)
ON_GRID = Known(((0.2, 0.3, 0.5), (0.5, 0.3, 0.2)))
"""Losses of -y, 0 and y: they lie on any grid that y lies on."""
OFF_GRID = Known(((0.1, 0.2, 0.3, 0.4), (0.4, 0.3, 0.2, 0.1)))
NARROW = Known(((0.45, 0.55), (0.55, 0.45)))
WIDE = Known(((0.2, 0.8), (0.8, 0.2)))
UNEVEN = Known(((0.6, 0.3, 0.1), (0.2, 0.3, 0.5)))
LEAKING = Known(((1e-4, 0.2, 0.3, 0.4999, 0.0), (0.0, 0.4999, 0.3, 0.2, 1e-4)))
FAR = Known(((0.6, 0.4, 5e-16), (0.4, 0.6, 1e-30)))
"""A loss of 34 with a chance that is below what a profile is followed to."""
RETICENT = Reticent(((0.2, 0.3, 0.499, 1e-3), (0.499, 0.3, 0.2, 1e-3)))
ROUNDS = {  # and how far, in shares of the truth, the lower and the upper end may be off
    "on the grid, twice": (compose(ON_GRID, times=2), 1e-8, 1e-9),
    "on the grid, often": (compose(ON_GRID, times=6), 2e-8, 1e-9),
    "off the grid, twice": (compose(OFF_GRID, times=2), 1.2e-3, 7e-4),
    "off the grid, often": (compose(OFF_GRID, times=6), 1.2e-3, 7e-4),
    "wide and narrow": (compose([OFF_GRID, NARROW]), 1.2e-3, 7e-4),
    "on and off": (compose([ON_GRID, OFF_GRID]), 1.2e-3, 7e-4),
    "another for each direction": (compose(UNEVEN, times=3), 1.2e-3, 0.2),
    "with a leak": (compose(LEAKING, times=3), 0.03, 0.03),
    "not all is told": (compose(RETICENT, times=2), 0.03, 7e-4),
}


def truth(rounds: Composition, epsilon: float) -> float:
    """Return the delta of all rounds from the products of their laws."""
    laws = [m.pair() for m, n in rounds.parts if isinstance(m, Known) for _ in range(n)]
    first, second = (
        reduce(lambda one, other: np.multiply.outer(one, other).ravel(), side)
        for side in zip(*laws, strict=True)
    )
    return hockey_stick(first, second, epsilon)


@each_case("name", ROUNDS)
def test_both_ends_hold_the_truth_and_are_near_it(name: str) -> None:
    rounds, below, above = ROUNDS[name]
    for epsilon in (0.0, 0.2, 0.5, 1.0):
        exact, found = truth(rounds, epsilon), rounds.delta(epsilon)
        assert exact * (1 - below) <= found.lower <= exact * (1 + 1e-14)
        assert exact * (1 - 1e-14) <= found.upper <= exact * (1 + above)
        quick = rounds.delta_bound(epsilon)
        assert exact * (1 - 1e-14) <= quick <= exact * (1 + above) * 1.002


@each_case("name", ROUNDS)
def test_epsilon_is_seen_to_be_enough_and_a_little_less_is_not(name: str) -> None:
    rounds = ROUNDS[name][0]
    delta = rounds.delta(0.6).upper
    found = rounds.epsilon(delta)
    assert rounds.delta(found.upper).upper <= delta < rounds.delta(found.upper - 2e-5).upper
    assert rounds.delta(found.lower).lower > delta or found.lower < 1e-9
    assert found.upper == pytest.approx(0.6, abs=1e-4)


def test_a_finer_grid_finds_the_same_epsilon() -> None:
    coarse, fine = compose(OFF_GRID, times=2), compose(OFF_GRID, times=2, resolution=1e-3)
    assert fine.epsilon(0.3).upper == pytest.approx(coarse.epsilon(0.3).upper, rel=1e-3)


def test_a_grid_that_is_asked_for_is_used_for_both_upper_ends() -> None:
    usual, coarse = (compose(OFF_GRID, times=2, resolution=step) for step in (None, 1.0))
    for epsilon in (0.0, 0.5):
        exact = truth(usual, epsilon)
        for near, rough in (
            (usual.delta(epsilon).upper, coarse.delta(epsilon).upper),
            (usual.delta_bound(epsilon), coarse.delta_bound(epsilon)),
        ):
            assert exact * (1 - 1e-14) <= near < rough * 0.99
    # What the usual grid proves of epsilon holds whatever grid was asked for.
    assert coarse.epsilon(0.3).upper == usual.epsilon(0.3).upper


@pytest.mark.parametrize("times", [2, 5])
def test_parts_one_by_one_are_read_off_their_profiles(times: int) -> None:
    """Up to its only loss delta is a line in e^epsilon, of which every chord is a piece."""
    rounds = compose(ON_GRID, times=times)
    for share in (0.0, 0.3, 0.9):
        epsilon = share * rounds.local_epsilon
        found = rounds._plain_delta(epsilon, rounds._profiles)  # noqa: SLF001 - what the proof rests on
        exact = 1 - (1 - ON_GRID.delta(share * ON_GRID.local_epsilon).upper) ** times
        assert exact * (1 - 1e-14) <= found <= exact * (1 + 1e-8)
    cut = compose([Shortened(ON_GRID, Fraction(49, 100)), ON_GRID])
    assert cut._plain_delta(0.0, cut._profiles) == 1.0  # noqa: SLF001 - no chance is larger


def test_a_delta_is_no_more_than_that_of_the_parts_one_by_one() -> None:
    """Two losses that are as rare as can be add up; the profile of each is known less well."""
    rounds = compose(Loose(((0.5, 0.4999, 1e-4), (0.5, 0.49999999, 1e-8))), times=2)
    for epsilon in (0.1, 1.0, 5.0):
        exact, found = truth(rounds, epsilon), rounds.delta(epsilon).upper
        assert exact <= found <= rounds.summed_delta(epsilon) <= 1.02 * exact


def test_the_lower_end_of_many_rounds_is_near_the_truth() -> None:
    """Four hundred rounds with one loss too many for a list: outcomes are counted instead."""
    times, epsilon = 400, 320.0
    once, twice = (place.ravel() for place in np.indices((times + 1, times + 1)))
    counts = np.stack([once, twice, times - once - twice])[:, once + twice <= times]
    ways = gammaln(times + 1) - gammaln(counts + 1).sum(axis=0)
    one, two = (np.exp(ways + np.log(law) @ counts) for law in UNEVEN.laws)
    exact, found = hockey_stick(one, two, epsilon), compose(UNEVEN, times=times).delta(epsilon)
    assert 0.99 * exact <= found.lower <= exact * (1 + 1e-9)


@pytest.mark.parametrize(("count", "steps"), [(3, 2048), (7, 1024)])
def test_the_largest_loss_lies_on_a_grid_of_many_steps(count: int, steps: int) -> None:
    """All losses together take 16,384 steps or a little more, four times as far as they reach."""
    kinks = [Kinks.of_profile(*full_profile(known)) for known in (ON_GRID, NARROW)]
    wide, narrow = kinks
    assert wide.reach > 4 * narrow.reach
    assert _grid_step([wide], [count]) == wide.reach / steps
    both = _grid_step(kinks, [count, 1])
    assert math.log2(wide.reach / both).is_integer()


def test_a_grid_follows_the_narrowest_losses_unless_it_would_be_too_long() -> None:
    kinks = [Kinks.of_profile(*full_profile(known)) for known in (ON_GRID, NARROW)]
    wide, narrow = (math.sqrt(each.variance) for each in kinks)
    # Of 400 rounds 32 steps to a deviation are more than 16,384 in all.
    usual, fine = (_grid_step(kinks, [400, 400], finer=finer) for finer in (1.0, 4.0))
    assert narrow / 64 < usual <= narrow / 32
    assert narrow / 256 < fine <= narrow / 128
    # Of a million no more than 2¹⁹ are taken, for forty deviations of the total.
    total = 40 * 1000 * (wide + narrow)
    assert total / 2**19 / 2 < _grid_step(kinks, [10**6, 10**6]) <= total / 2**19


def test_rounds_take_minutes_if_one_of_them_does() -> None:
    slow = type("Slow", (Known,), {"takes_minutes": True})(ON_GRID.laws)
    assert compose([ON_GRID, slow]).takes_minutes
    assert not compose([ON_GRID, OFF_GRID]).takes_minutes


def test_how_far_losses_are_off_the_grid_adds_up_over_all_rounds() -> None:
    for rounds, off in Composition(((OFF_GRID, 3), (NARROW, 2)))._crowd_rounds_on(1):  # noqa: SLF001 - what the proof rests on
        # 1e-12 for each round is what the masses of a law may be off.
        assert off >= sum(count * (loss.moved + 1e-12) for loss, count in rounds.parts)
        assert off < 1e-9


def test_below_the_losses_that_are_followed_nothing_is_proven() -> None:
    rounds = compose(FAR, times=2)
    followed = rounds.profile_floor / 4
    assert followed == pytest.approx(2 * 5e-16, rel=1e-3)
    with pytest.raises(GuaranteeNotProven, match="followed down to delta"):
        rounds.epsilon(followed)


def test_nothing_is_lost_from_the_local_epsilon_on_whatever_a_profile_says_there() -> None:
    rounds = compose(Rough(ON_GRID.laws), times=2)
    nearly = 0.999 * rounds.local_epsilon
    assert truth(rounds, nearly) < min(rounds.delta(nearly).upper, rounds.delta_bound(nearly))
    assert max(rounds.delta(nearly).upper, rounds.delta_bound(nearly)) < 1e-3
    for profile in (full_profile, _quick_profile):
        nodes, upper = profile(rounds.parts[0][0])
        assert nodes[-1] == pytest.approx(ON_GRID.local_epsilon, rel=1e-9)
        assert upper[-2] >= 1e-3
        assert upper[-1] == 0.0


@each_case("distance", [TINY, Fraction(1, 1000), Fraction(1, 100)])
@each_case("delta", [0.03, 0.1, 0.2])
def test_epsilon_of_cut_reports_is_proven_from_both_sides(distance: Fraction, delta: float) -> None:
    cut = Shortened(OFF_GRID, distance)
    found = cut.epsilon(delta)
    assert cut.delta(found.upper).upper <= delta
    assert found.lower == 0.0 or cut.delta(found.lower).lower > delta
    # What a walk down by a fifth does not reach is left open.
    assert (found.lower == 0.0) is (cut.delta(0.82 * OFF_GRID.epsilon(delta).lower).lower <= delta)


def test_a_mechanism_counts_whether_it_is_cut_or_not() -> None:
    twice, once_cut = compose(ON_GRID, times=2), compose([Shortened(ON_GRID, TINY), ON_GRID])
    for epsilon in (0.0, 0.5):
        whole, found = twice.delta(epsilon), once_cut.delta(epsilon)
        assert whole.upper <= found.upper <= whole.upper + 1e-8
        assert whole.upper <= once_cut.delta_bound(epsilon) <= whole.upper + 1e-8


def test_words_of_different_parts_are_joined_in_one_order() -> None:
    parts = [type(name, (Known,), {"view": name})(ON_GRID.laws) for name in "hgfedcba"]
    mixed = Composition(tuple((part, 1) for part in parts))
    assert mixed.view == " and ".join("abcdefgh")


@pytest.mark.parametrize("narrow", [1, 16])
def test_a_largest_loss_that_was_moved_to_the_grid_does_not_lift_the_lower_end(narrow: int) -> None:
    """The widest losses lie on the grid; of the narrow ones some are moved beyond the largest."""
    rounds = compose([WIDE, *[NARROW] * narrow])
    nearly = rounds.local_epsilon - 1e-6
    assert 0.0 <= rounds.delta(nearly).lower <= truth(rounds, nearly)


def test_places_of_a_profile_rise_even_where_nothing_or_nearly_all_is_lost() -> None:
    nothing = Known(((0.5, 0.5), (0.5, 0.5)))
    nearly_all = compose(Known(((0.4, 0.6, 0.0), (0.0, 0.6, 0.4))), times=2)
    assert nearly_all.profile_floor > 1.0
    for mechanism in (nothing, nearly_all):
        assert (np.diff(mechanism.nodes()) > 0).all()


def test_without_laws_the_worst_single_part_is_the_lower_end() -> None:
    rounds = compose([Silent(NARROW.laws), Silent(WIDE.laws), Silent(ON_GRID.laws)])
    for epsilon in (0.0, 0.1, 0.5):
        found = rounds.delta(epsilon)
        assert found.lower == 0.9 * WIDE.delta(epsilon).upper
        assert found.upper >= truth(rounds, epsilon)


def test_a_trade_off_curve_is_the_convex_hull_of_those_of_single_crowds() -> None:
    users, flip = 20, 0.05
    pairs = []
    for ones in range(users):
        others = np.convolve(binomial(ones, 1 - flip), binomial(users - 1 - ones, flip))
        zero, one = (np.convolve(others, [1 - q, q]) for q in (flip, 1 - flip))
        pairs += [(zero, one), (one, zero)]
    levels = np.array([0.1, 0.5])
    single = np.min([type_two(first, second, levels) for first, second in pairs], axis=0)
    corners = np.linspace(0, 1, 20_001)
    curves = [type_two(first, second, corners) for first, second in pairs]
    hull = np.interp(levels, *lower_hull(corners, np.min(curves, axis=0)))
    found = FlippedBits(users=users, flip_probability="0.05").tradeoff(levels)
    assert found.lower == pytest.approx(hull, abs=1e-4)
    assert found.upper == pytest.approx(hull, abs=1e-4)
    assert single == pytest.approx([0.516804, 0.110584], abs=1e-6)
    assert (single > found.upper + 1e-3).all()


def binomial(count: int, chance: float) -> Floats:
    ks = range(count + 1)
    return np.array([math.comb(count, k) * chance**k * (1 - chance) ** (count - k) for k in ks])


def type_two(one: Floats, other: Floats, levels: Floats) -> Floats:
    """Return the type II error of the best test of one law against another, at each level."""
    order = np.argsort(-other / one)
    alphas = np.concatenate([[0.0], np.cumsum(one[order])])
    powers = np.concatenate([[0.0], np.cumsum(other[order])])
    return np.asarray(1.0 - np.interp(levels, alphas, powers), dtype=np.float64)
