"""Runs of crowds: what covers all of them, and verification as a yes-or-no question."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from chaffinch.errors import GuaranteeNotProven, InvalidInput
from chaffinch.privacy import (
    DecoyedValues,
    EncodedNumbers,
    FlippedBits,
    FlippedValues,
    compose,
    covers,
)
from chaffinch.privacy.covers import (
    _common_law,
    _cover_profile,
    _covering_pairs,
    _covering_runs,
    _require_narrow,
    cover_of,
)
from chaffinch.privacy.guarantee import Bracket
from chaffinch.privacy.mechanisms.bit_crowds import BitCrowds
from chaffinch.privacy.mechanisms.crowd_runs import (
    CrowdRefused,
    Run,
    TooManyRuns,
    cover_crowds,
    proven_by_runs,
)
from chaffinch.privacy.numerics.laws import DIRECT_PRODUCTS, binomial, sum_of_flips
from chaffinch.privacy.numerics.precision import Wide
from chaffinch.privacy.progress import show_progress
from tests.cases import each_case
from tests.oracles import exact
from tests.tools.checker import checker

SETTINGS = [
    FlippedBits(users=1, flip_probability="0.1"),
    FlippedBits(users=300, flip_probability="0.03"),
    FlippedBits(users=20_000, flip_probability="0.0005", copies=3),
    FlippedBits(users=20_000, flip_probability="0.05"),
    FlippedBits(users=1_000_000_000, flip_probability="1e-7"),
    FlippedBits(users=300, flip_probability="0.03", decoys=40),
    EncodedNumbers(users=400, resolution=4, flip_probability="0.02", slots="together"),
]


def assert_covering(runs: list[Run], last: int) -> None:
    assert runs[0][0] == 0
    assert runs[-1][1] == last
    assert all(low <= high for low, high in runs)
    assert all(after[0] == before[1] + 1 for before, after in pairwise(runs))


def checked(crowds: BitCrowds, runs: list[Run]) -> Any:
    """Return the same sum as whoever checks a certificate reads it: in whole numbers alone."""
    return checker.Bits(crowds.flip, crowds.copies, crowds.step, crowds.last, [*map(list, runs)])


@each_case("few_runs", [True, False])
@each_case("last", [0, 1, 2, 7, 1000, 10**9])
def test_runs_follow_one_another(last: int, few_runs: bool) -> None:  # noqa: FBT001 - a case
    asked: list[Run] = []

    def holds(run: Run) -> bool:
        asked.append(run)
        return run[1] - run[0] <= run[0] // 3

    runs = cover_crowds(holds, last, few_runs=few_runs)
    assert_covering(runs, last)
    assert all(holds(run) for run in runs)
    assert all(0 <= low <= high <= last for low, high in asked)
    assert len(asked) <= 5 * len(runs) + 5


@pytest.mark.parametrize("doublings", [0, 1, 2, 3, 30])
def test_a_run_is_doubled_up_to_all_crowds(doublings: int) -> None:
    last = 2**doublings - 1
    assert cover_crowds(lambda _: True, last) == [(0, last)]


def test_unless_asked_otherwise_a_run_is_as_long_as_can_be() -> None:
    """Runs go into certificates, which somebody checks one by one."""

    def holds(run: Run) -> bool:
        return run[1] - run[0] <= run[0]

    assert cover_crowds(holds, 10) == [(0, 0), (1, 2), (3, 6), (7, 10)]
    assert cover_crowds(holds, 10, few_runs=False) != cover_crowds(holds, 10)
    # Four crowds hold and eight do not: six, half-way, are tried as well.
    assert cover_crowds(lambda run: run[1] - run[0] < 6, 11) == [(0, 5), (6, 11)]


def test_the_crowd_that_does_not_hold_is_named() -> None:
    for few_runs in (True, False):
        with pytest.raises(CrowdRefused) as refused:
            cover_crowds(lambda run: not run[0] <= 37 <= run[1], 100, few_runs=few_runs)
        assert refused.value.ones == 37


@each_case("mechanism", SETTINGS, ids=str)
@each_case("epsilon", [0.4, 1.0])
def test_a_promise_is_proven_just_above_the_truth_and_refused_just_below(
    mechanism: FlippedBits, epsilon: float
) -> None:
    truth = mechanism.delta(epsilon)
    for above in (truth.upper * (1 + 1e-4), math.sqrt(truth.upper)):
        assert mechanism.delta_within(epsilon, above) <= above
    below = truth.lower * (1 - 1e-4)
    assert mechanism.delta_within(epsilon, below) > below


def test_beyond_the_local_epsilon_nothing_is_searched() -> None:
    mechanism = FlippedBits(users=300, flip_probability="0.25")
    for epsilon in (mechanism.local_epsilon, 1.2):
        assert mechanism.delta_within(epsilon, 1e-300) == 0.0


def test_with_decoys_both_orders_of_a_pair_are_asked() -> None:
    """One user and three zeros: the order that runs do not look at is a tenth worse."""
    mechanism = FlippedBits(users=1, flip_probability="0.3", decoys=3)
    laws = exact.bits_pair(0, 3, Fraction(3, 10))
    # 21/19 is below e^0.1002 and above e^0.1: a delta at it is below the one that is asked for.
    one, other = sorted(pair.delta(Fraction(21, 19)) for pair in (laws, laws.reversed()))
    assert one < 0.13 < other
    assert mechanism.delta_within(0.1, 0.13) > 0.13


def test_other_mechanisms_are_bounded_as_ever() -> None:
    for mechanism in (
        DecoyedValues(decoys=200, values=4),
        FlippedValues(users=300, values=3, flip_probability="0.03"),
        EncodedNumbers(users=300, resolution=2, flip_probability="0.03", slots="together"),
        EncodedNumbers(users=300, resolution=2, flip_probability="0.03", slots="separate"),
    ):
        reached = mechanism.delta(1.0).upper
        assert mechanism.delta_within(1.0, reached * 1.001) <= reached * 1.001
        assert mechanism.delta_within(1.0, reached / 2) > reached / 2


def test_runs_prove_what_single_crowds_have() -> None:
    mechanism = FlippedBits(users=300, flip_probability="0.03")
    delta = mechanism.delta(1.0).upper * 1.01
    runs = _covering_runs(mechanism.bit_crowds, 1.0, delta)
    assert_covering(runs, 299)
    assert 1 < len(runs) < 60
    with pytest.raises(GuaranteeNotProven, match="in a crowd of"):
        _covering_runs(mechanism.bit_crowds, 1.0, mechanism.delta(1.0).lower * 0.999)
    for low, high in runs:
        for ones in {low, (low + high) // 2, high}:
            assert mechanism.crowd(ones=ones).delta(1.0).upper <= delta


@each_case("copies", [1, 3])
@each_case("times", [1, 2, 4])
def test_whoever_checks_the_runs_comes_to_the_same(times: int, copies: int) -> None:
    """Runs are found with floats, in the order in which the checker reads them."""
    bit = FlippedBits(users=300, flip_probability="0.1", copies=copies)
    # A promise with 3% to spare, which is more than runs and grid cost together.
    epsilon, delta = 1.0, compose(bit, times=times).delta(1.0).upper * 1.03
    cover = cover_of([(bit, times)], epsilon, delta)
    assert (cover.growth is None) == (times < 4)
    grid = None if cover.growth is None else (cover.growth, cover.nodes)
    parts = [(checked(bit.bit_crowds, list(cover.runs[0])), times)]
    found = checker.reached_delta(parts, 0, grid, Fraction(epsilon), Fraction(delta))
    assert delta / 2 < found <= delta


def test_any_two_runs_prove_a_choice() -> None:
    mechanism = FlippedValues(users=300, values=3, flip_probability="0.03")
    bits = FlippedBits(users=300, flip_probability="0.03")
    delta = mechanism.delta(1.0).upper * 1.02
    assert_covering(_covering_pairs(bits.bit_crowds, 1.0, delta), 299)
    with pytest.raises(GuaranteeNotProven):
        _covering_pairs(bits.bit_crowds, 1.0, mechanism.delta(1.0).lower * 0.999)


def test_two_runs_that_lose_too_much_together_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    bit = FlippedBits(users=300, flip_probability="0.1")
    delta = compose(bit, times=2).delta(1.0).upper * 1.02
    halves = [(0, 149), (150, 299)]
    monkeypatch.setattr(covers, "cover_crowds", lambda *_: halves)
    with pytest.raises(GuaranteeNotProven, match="at most"):
        _covering_pairs(bit.bit_crowds, 1.0, delta)
    # Half of all records alone lose more than the whole crowd, and this is enough for them.
    assert _covering_pairs(bit.bit_crowds, 1.0, 0.1) == halves


def test_a_mechanism_without_crowds_is_covered_up_to_what_it_loses() -> None:
    decoys = DecoyedValues(decoys=200, values=4)
    reached = decoys.delta_bound(1.0)
    assert cover_of([(decoys, 1)], 1.0, reached).runs == ((),)
    with pytest.raises(GuaranteeNotProven):
        cover_of([(decoys, 1)], 1.0, math.nextafter(reached, 0.0))


def test_small_deltas_of_large_crowds_are_covered() -> None:
    """Long sums are transforms, whose noise is far above 1e-25 unless they aim at it."""
    mechanism = FlippedBits(users=20_001, flip_probability="0.1")
    delta = mechanism.delta(0.2).upper * 1.05
    assert 3e-26 < delta < 4e-26
    assert_covering(_covering_runs(mechanism.bit_crowds, 0.2, delta), 20_000)


@pytest.mark.parametrize("excess", [0.02, 0.001])
def test_runs_stay_near_a_profile(excess: float) -> None:
    bit = FlippedBits(users=300, flip_probability="0.1")
    # Twelve epsilons, so that a run is asked at every one of them.
    epsilons = np.linspace(0.0, 1.5, 12)
    runs, proven = _cover_profile(bit, epsilons, excess)
    assert_covering(runs, 299)
    lower, upper = bit.profile(epsilons)
    assert (lower <= proven).all()
    assert (proven <= upper * (1 + excess) * (1 + 1e-12)).all()
    growths = [checker.exponential(Fraction(epsilon)) for epsilon in epsilons.tolist()]
    precision = checker.Precision(Fraction(float(upper.min())))
    found = checked(bit.bit_crowds, runs).profile(growths, precision)
    near = [Fraction(value, precision.one) for value in found]
    assert np.array(near, dtype=np.float64) == pytest.approx(proven, rel=1e-6)


def test_no_runs_stay_below_a_profile() -> None:
    bit = FlippedBits(users=300, flip_probability="0.1")
    with pytest.raises(GuaranteeNotProven, match="in a crowd of"):
        _cover_profile(bit, np.linspace(0.0, 1.5, 12), -0.5)


@pytest.mark.parametrize(
    "cover",
    [
        lambda bit: _covering_runs(bit.bit_crowds, 1.0, 1e-6),
        lambda bit: _covering_pairs(bit.bit_crowds, 1.0, 1e-3),
        lambda bit: _cover_profile(bit, np.linspace(0.0, 1.5, 12), 0.02),
    ],
    ids=["one sum", "two sums", "profile"],
)
def test_what_needs_too_many_runs_is_not_proven(
    monkeypatch: pytest.MonkeyPatch, cover: Callable[[FlippedBits], object]
) -> None:
    bit = FlippedBits(users=300, flip_probability="0.1")
    assert cover(bit)
    monkeypatch.setattr(covers, "cover_crowds", partial(cover_crowds, most=2))
    with pytest.raises(GuaranteeNotProven, match="runs"):
        cover(bit)


def test_what_composes_gets_a_grid_and_what_is_local_needs_none() -> None:
    bit = FlippedBits(users=300, flip_probability="0.1")
    cover = cover_of([(bit, 4)], 2.0, 1e-4)
    assert cover.growth is not None
    assert 1 < cover.growth < Fraction(11, 10)
    assert cover.nodes > 100
    local = cover_of([(bit, 4)], 4 * bit.local_epsilon, 1e-300)
    assert (local.growth, local.runs) == (None, (((0, 299),),))
    with pytest.raises(GuaranteeNotProven):
        cover_of([(bit, 4)], 2.0, 1e-12)


def test_a_grid_is_as_fine_as_the_losses_are_small() -> None:
    """Of 2,000 people the losses of a bit end near 0.3, and one step is a two-hundredth of it."""
    bit = FlippedBits(users=2_000, flip_probability="0.1")
    delta = compose(bit, times=4).delta(0.3).upper * 1.03
    cover = cover_of([(bit, 4)], 0.3, delta)
    assert cover.growth is not None
    assert 1 < cover.growth < Fraction(502, 500)
    assert cover.growth.denominator <= 10**9
    # Two hundred steps, one for the rounding of their length, and one node behind the last.
    assert 200 <= cover.nodes <= 202
    # In each of four rounds a ten-thousandth of a quarter of delta may lie behind all nodes.
    reach = bit.epsilon(delta * 1e-4 / 4).upper
    assert (cover.nodes - 2) * math.log(cover.growth) < reach
    assert reach <= (cover.nodes - 1) * math.log(cover.growth) * (1 + 1e-9)


def test_a_grid_is_fine_for_the_smallest_losses_and_ends_with_the_largest() -> None:
    bit, other, far = (
        FlippedBits(users=users, flip_probability=flip)
        for users, flip in ((2_000, "0.1"), (300, "0.1"), (1, "1e-9"))
    )
    ends = [unit.epsilon(1e-4 * 1e-4 / 2).upper for unit in (bit, other)]
    cover = cover_of([(bit, 1), (other, 1)], 1.0, 1e-4)
    assert cover.nodes == pytest.approx(200 * ends[1] / ends[0], abs=3)
    # One person alone may lose 20.7, forty times as much: there are no more than 4,000 steps.
    assert 4_000 <= cover_of([(bit, 1), (far, 1)], 21.3, 1e-4).nodes <= 4_002


def test_two_rounds_of_a_narrow_sum_need_no_grid() -> None:
    """A quarter of flips: 3/16 of variance for each of the others, and 300 of 1,600 of them."""
    narrow, wide = (FlippedBits(users=users, flip_probability="1/4") for users in (1_600, 1_601))
    assert (narrow.bit_crowds.variance, wide.bit_crowds.variance) == (299.8125, 300.0)
    # Twice 9.1e-15 at epsilon 0.3 is what two rounds of either reach, and more.
    assert cover_of([(narrow, 2)], 0.3, 2e-14).growth is None
    assert cover_of([(wide, 2)], 0.3, 2e-14).growth is not None
    # What is seen beside two rounds is composed with them.
    other = FlippedBits(users=200, flip_probability="1/4")
    both = cover_of([(narrow, 2), (other, 1)], 1.0, 1e-4)
    assert both.growth is not None
    assert [runs[-1][1] for runs in both.runs] == [1_599, 199]


def test_two_rounds_are_not_covered_as_one() -> None:
    bit = FlippedBits(users=300, flip_probability="0.1")
    once = bit.delta(1.0).upper * 1.01
    cover = cover_of([(bit, 1)], 1.0, once)
    assert cover.growth is None
    assert_covering(list(cover.runs[0]), 299)
    with pytest.raises(GuaranteeNotProven):
        cover_of([(bit, 2)], 1.0, once)


def test_a_sum_that_nobody_could_check_is_refused() -> None:
    wide = FlippedBits(users=10**7, flip_probability="0.1")
    with pytest.raises(InvalidInput, match="standard deviation"):
        cover_of([(wide, 1)], 1e-3, 1e-6)
    # 600² is 3/16 of 1,920,000: the widest sum of a quarter of flips that is checked.
    _require_narrow(FlippedBits(users=1_920_001, flip_probability="1/4"))
    with pytest.raises(InvalidInput, match="standard deviation"):
        _require_narrow(FlippedBits(users=1_920_002, flip_probability="1/4"))


@pytest.mark.parametrize("run", [(300, 420), (3000, 4200)])
def test_long_sums_in_doubles_are_the_same_law(monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    crowds = FlippedBits(users=20_000, flip_probability="0.05").bit_crowds
    sure = _common_law(crowds, run, Wide(1e-20), mirrored=True)
    monkeypatch.setattr(covers, "DIRECT_PRODUCTS", 0)
    rough = _common_law(crowds, run, Wide(1e-20), mirrored=True)
    assert rough.start == sure.start
    allowed = (sure.relative + rough.relative) * sure.mass + rough.missing
    assert (abs(rough.mass - sure.mass) <= allowed).all()
    # A sum of n products in doubles is off by n roundoffs or less [Higham 2002, section 3.1].
    zeros = binomial(19_999 - run[1], crowds.flip, Wide(1e-20))
    ones = binomial(run[0], 1 - crowds.flip, Wide(1e-20))
    products = min(len(zeros.mass), len(ones.mass))
    assert products * 2.0**-53 < rough.relative < 1e-11
    # What no double holds is allowed for, and with it all that either window leaves out.
    assert sure.missing <= rough.missing <= 4 * sure.missing + 4e-290


def test_long_sums_have_no_noise() -> None:
    crowds = FlippedBits(users=1_000_000, flip_probability="0.1").bit_crowds
    law = _common_law(crowds, (500_000, 500_000), Wide(1e-20), mirrored=False)
    # Half of so many places for either kind: more products than are summed in wide floats.
    assert (len(law.mass) // 2) ** 2 > DIRECT_PRODUCTS
    assert law.noise is None


def test_products_too_small_for_a_double_are_allowed_for(monkeypatch: pytest.MonkeyPatch) -> None:
    crowds = FlippedBits(users=40, flip_probability="0.1").bit_crowds
    whole = _common_law(crowds, (7, 11), Wide(1e-300), mirrored=False)
    monkeypatch.setattr(covers, "DIRECT_PRODUCTS", 0)
    rough = _common_law(crowds, (7, 11), Wide(1e-300), mirrored=False)
    # No outcome of so few is left out of either window; nothing else is missing.
    assert whole.missing < 1e-300
    assert 1e-290 <= rough.missing <= 1e-289


def test_every_question_to_a_run_is_told() -> None:
    told: list[str] = []
    with show_progress(told.append, pause_seconds=0):
        cover_crowds(lambda _: True, 7)
    # One crowd, two, four and all eight.
    assert told == [f"runs of crowds: {count}" for count in (1, 2, 3, 4)]


@pytest.mark.parametrize("mirrored", [False, True])
def test_each_of_the_others_counts_with_all_its_bits(*, mirrored: bool) -> None:
    crowds = FlippedBits(users=40, flip_probability="0.1", copies=3).bit_crowds
    found = _common_law(crowds, (7, 11), Wide(1e-30), mirrored=mirrored)
    # The others of all these crowds: 7 ones and 28 zeros, three bits each.
    ones, zeros = (84, 21) if mirrored else (21, 84)
    whole = sum_of_flips(ones, zeros, crowds.flip, Wide(1e-30), 1.0)
    assert found.start == whole.start
    assert (found.mass == whole.mass).all()


def test_too_many_runs_prove_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind the last run that was looked at lie crowds of which nothing is known."""
    crowds = FlippedBits(users=300, flip_probability="0.1").bit_crowds
    assert proven_by_runs(crowds, 1.0, 1e-2) == 1e-2
    monkeypatch.setattr("chaffinch.privacy.mechanisms.crowd_runs._FEW_RUNS", 1)
    assert proven_by_runs(crowds, 1.0, 1e-2) is None
    with pytest.raises(TooManyRuns):
        cover_crowds(lambda run: run[0] == run[1], 10, most=10)
    assert len(cover_crowds(lambda run: run[0] == run[1], 9, most=10)) == 10


def test_a_promise_that_a_far_crowd_breaks_is_refused_though_no_run_reaches_it() -> None:
    flip = Fraction(99 * 2**64 // 100_000, 2**64)
    mechanism = FlippedBits(users=10**6, flip_probability=flip)
    truth = mechanism.crowd(ones=500_000).delta(1e-6).lower
    promise = truth * (1 - 1e-6)
    assert mechanism.delta_within(1e-6, promise) > promise


def test_the_upper_end_of_a_single_crowd_refutes_nothing() -> None:
    flip = Fraction(2163952229448560597, 2**63)
    mechanism = FlippedBits(users=299, flip_probability=flip)
    epsilon = 0.5914478031681708
    proven = mechanism.delta(epsilon)
    assert mechanism.delta_within(epsilon, proven.upper) <= proven.upper
    below = proven.lower * (1 - 1e-6)
    assert mechanism.delta_within(epsilon, below) > below


class Rough(DecoyedValues):
    """A mechanism of which no more is known than these ends."""

    def delta_bound(self, epsilon: float) -> float:
        return 0.3 / (1.0 + epsilon)

    def delta(self, epsilon: float) -> Bracket:
        return Bracket(0.1 / (1.0 + epsilon), 0.2 / (1.0 + epsilon))


def test_what_is_open_is_not_proven() -> None:
    """Between the ends of a bracket a promise may hold or not: it is not given."""
    rough = Rough(decoys=9, values=3)
    # The quick end has the last word where it is small enough, and the safe end everywhere else.
    assert [rough.delta_within(0.0, delta) for delta in (0.3, 0.25, 0.15)] == [0.3, 0.2, 0.2]


def test_losses_too_different_for_a_grid_are_not_proven() -> None:
    few = FlippedBits(users=10, flip_probability="0.1")
    with pytest.raises(GuaranteeNotProven, match="Got 1,"):
        cover_of([(few, 10**6)], 20_000.0, 1e-6)


def test_what_leaks_everything_has_no_grid() -> None:
    with pytest.raises(GuaranteeNotProven):
        cover_of([(DecoyedValues(decoys=0, values=2), 2)], 1.0, 0.5)


def test_losses_that_no_grid_reaches_are_refused_beside_others() -> None:
    few = FlippedBits(users=30, flip_probability="0.1")
    far = FlippedBits(users=1, flip_probability="1e-270")
    with pytest.raises(GuaranteeNotProven, match="that no grid reaches"):
        cover_of([(far, 1), (few, 1)], 610.0, 1e-4)


def test_losses_too_small_for_a_grid_are_refused() -> None:
    crowd = DecoyedValues(decoys=10**9, values=2)
    with pytest.raises(GuaranteeNotProven, match="tiny losses"):
        cover_of([(crowd, 2)], 0.001, 0.9)


def test_different_sums_are_covered_each_for_itself() -> None:
    one, other = (FlippedBits(users=users, flip_probability="0.1") for users in (300, 200))
    cover = cover_of([(one, 1), (other, 1)], 2.0, 1e-4)
    assert [runs[-1][1] for runs in cover.runs] == [299, 199]
    assert cover.growth is not None


def test_what_always_leaks_is_covered_as_far_as_the_rest_goes() -> None:
    unit = DecoyedValues(users=60, decoy_rate="1/3", values=2)
    always = unit.delta(600.0).upper
    assert math.isinf(unit.epsilon(always / 2).upper)
    cover = cover_of([(unit, 3)], 4.0, 10 * always)
    assert (cover.runs, cover.nodes > 100) == (((),), True)
    # In three rounds three times as much of it leaks, whatever else is lost.
    with pytest.raises(GuaranteeNotProven):
        cover_of([(unit, 3)], 4.0, 2 * always)
