"""The arithmetic of the checker against exact rationals: never below the truth, and close to it."""

from __future__ import annotations

import random
from collections.abc import Iterable
from fractions import Fraction
from itertools import product

import pytest

from tests.oracles import balls, exact, exact_views, signed
from tests.tools.checker import checker

UNIT: int = checker.UNIT
GROWTHS = (Fraction(21, 20), Fraction(3, 2), Fraction(4))
CLOSE = Fraction(1, 10**15)


def units(growth: Fraction) -> int:
    return growth.numerator * UNIT // growth.denominator


def below(growth: Fraction) -> Fraction:
    """Return the ratio that is really used: rounded down to a unit."""
    return Fraction(units(growth), UNIT)


def singles(last: int) -> list[list[int]]:
    return [[ones, ones] for ones in range(last + 1)]


def assert_just_above(found: int, precision: object, truth: Fraction) -> None:
    reached = Fraction(found, precision.one)  # type: ignore[attr-defined]
    assert truth <= reached <= truth + CLOSE


@pytest.mark.parametrize(
    ("count", "chance"),
    [(1, Fraction(1, 3)), (7, Fraction(1, 2)), (40, Fraction(1, 64)), (300, Fraction(2, 7))],
)
def test_masses_are_lower_ends_and_lack_next_to_nothing(count: int, chance: Fraction) -> None:
    precision = checker.Precision(Fraction(1, 1000))
    start, masses = precision.binomial(count, chance)
    weights = exact.count_weights(0, count, chance)
    for place, mass in enumerate(masses, start):
        assert mass * chance.denominator**count <= weights[place] * precision.one
    assert 0 <= precision.one - sum(masses) < precision.one >> (precision.keep - 10)


def test_masses_that_are_left_out_are_still_counted() -> None:
    """With few bits kept, what lies behind the window must lower every mass in it."""
    precision = checker.Precision(Fraction(1))
    precision.keep = 3
    start, masses = precision.binomial(300, Fraction(2, 7))
    weights = exact.count_weights(0, 300, Fraction(2, 7))
    inside = Fraction(sum(weights[start : start + len(masses)]), 7**300)
    assert Fraction(9, 10) < Fraction(sum(masses), precision.one) <= inside < 1


@pytest.mark.parametrize("seed", range(12))
def test_one_sum(seed: int) -> None:
    draw = random.Random(seed)
    users, copies = draw.randint(1, 9), draw.randint(1, 3)
    flip = Fraction(draw.randint(1, 1 << draw.randint(20, 62)) | 1, 1 << 64)
    precision = checker.Precision(Fraction(1, 10**15))
    found = checker.Bits(flip, copies, copies, users - 1, singles(users - 1)).profile(
        [units(growth) for growth in GROWTHS], precision
    )
    for reached, growth in zip(found, GROWTHS, strict=True):
        pairs = exact.bits_pairs(users, flip, copies)
        assert_just_above(reached, precision, exact.worst_delta(pairs, below(growth)))


def test_the_total_of_numbers() -> None:
    flip, users, resolution = Fraction(1, 8), 4, 3
    last = resolution * (users - 1)
    precision = checker.Precision(Fraction(1, 10**15))
    (found,) = checker.Bits(flip, resolution, 1, last, singles(last)).profile(
        [units(Fraction(2))], precision
    )
    pairs = (exact.loose_bits_pair(ones, last - ones, flip, resolution) for ones in range(last + 1))
    assert_just_above(found, precision, exact.worst_delta(pairs, Fraction(2)))


@pytest.mark.parametrize("flip", [Fraction(1, 32), Fraction(1, 10), Fraction(3, 8)])
def test_two_sums_are_a_choice(flip: Fraction) -> None:
    others = 5
    precision = checker.Precision(Fraction(1, 10**15))
    for growth in GROWTHS:
        found = checker.Bits(flip, 1, 1, others, singles(others)).twice(units(growth), precision)
        pairs = (
            exact_views.two_sums_pair(first, second, others, flip)
            for first, second in product(range(others + 1), repeat=2)
        )
        # Two sums may have more ones than there are others: that is what two rounds allow.
        assert_just_above(found, precision, exact.worst_delta(pairs, below(growth)))


@pytest.mark.parametrize(("decoys", "values"), [(1, 2), (9, 2), (12, 5), (30, 20)])
@pytest.mark.parametrize("rate", [Fraction(1), Fraction(5, 16)])
def test_decoys(decoys: int, values: int, rate: Fraction) -> None:
    precision = checker.Precision(Fraction(1, 10**15))
    found = checker.Decoys(decoys, rate * Fraction(2, values)).profile(
        [units(growth) for growth in GROWTHS], precision
    )
    for reached, growth in zip(found, GROWTHS, strict=True):
        truth = exact.decoyed_delta(decoys, values, below(growth), rate)
        assert_just_above(reached, precision, truth)


FLOODS = [[], [Fraction(1, 2)], [Fraction(0), Fraction(3, 10)], [Fraction(2), Fraction(1, 9)]]


@pytest.mark.parametrize("flood", FLOODS)
@pytest.mark.parametrize("steps", [0, 1, 3])
def test_signed_decoys(flood: list[Fraction], steps: int) -> None:
    """Against every outcome in balls; no steps stand for a choice."""
    ratio, size = (Fraction(1, 3), 48) if steps else (Fraction(1, 50), 11)
    flood = flood if steps else [rate / 50 for rate in flood]
    precision = checker.Precision(Fraction(1, 10**15))
    mechanism = checker.Signed(ratio, flood, max(steps, 1), choice=not steps)
    found = mechanism.profile([units(growth) for growth in GROWTHS], precision)
    with balls.precision(300):
        law = signed.noise(ratio, ratio, flood, Fraction(1), size)
        for reached, growth in zip(found, GROWTHS, strict=True):
            times = balls.ball(below(growth))
            truth = (
                signed.steps_delta(law, steps, times) if steps else signed.choice_delta(law, times)
            )
            proven = balls.ball(Fraction(reached, precision.one))
            assert not proven < truth
            assert not proven > truth + balls.ball(CLOSE)


@pytest.mark.parametrize("flood", [[Fraction(0), Fraction(3, 10)], [Fraction(2), Fraction(1, 9)]])
def test_noise_in_twos(flood: list[Fraction]) -> None:
    """Without single pairs the smaller sign shows by its parity who is ahead."""
    precision = checker.Precision(Fraction(1, 10**15))
    mechanism = checker.Signed(Fraction(1, 9), flood, 1, choice=False, doubled=True)
    found = mechanism.profile([units(growth) for growth in GROWTHS], precision)
    with balls.precision(300):
        law = signed.noise(*(Fraction(1, 9),) * 2, flood, Fraction(1), 48, times=2)
        for reached, growth in zip(found, GROWTHS, strict=True):
            truth = signed.steps_delta(law, 1, balls.ball(below(growth)))
            proven = balls.ball(Fraction(reached, precision.one))
            assert not proven < truth
            assert not proven > truth + balls.ball(CLOSE)


@pytest.mark.parametrize("digits", [1, 2])
def test_noise_that_does_not_fit(digits: int) -> None:
    """Messages of one report: the sum of all numbers of the noise of a share of the users."""
    noises = [
        (Fraction(1, 3), [Fraction(1, 2), Fraction(1, 4)]),
        (Fraction(1, 5), [Fraction(0), Fraction(0), Fraction(2, 3)]),
    ][:digits]
    share, room = Fraction(1, 7), 12
    drawn = [checker.Signed(ratio, flood, 1, choice=False) for ratio, flood in noises]
    found = checker.dropped_chance(drawn, share, room)
    with balls.precision(300):
        counts = [balls.ball(Fraction(1))] + [balls.ball(Fraction(0))] * room
        for ratio, flood in noises:
            own = signed.noise(ratio, ratio, flood, share, room + 1).cells.items()
            before, counts = counts, [balls.ball(Fraction(0))] * (room + 1)
            for (plus, minus), chance in own:
                for count in range(room + 1 - plus - minus):
                    counts[count + plus + minus] += before[count] * chance
        kept = sum(counts)
        assert not balls.ball(found) < 1 - kept
        assert balls.ball(found) < (1 - kept) * (1 + balls.ball(Fraction(1, 10**9)))


@pytest.mark.parametrize("power", ["1/1000", "1", "14", "699"])
def test_the_exponential_from_above(power: str) -> None:
    found = Fraction(checker.exponential_above(Fraction(power)), UNIT)
    with balls.precision(2400):
        truth = balls.ball(Fraction(power)).exp()
        assert truth < balls.ball(found) < truth * (1 + balls.ball(Fraction(1, 10**40)))


def test_a_run_is_at_least_as_bad_as_each_of_its_crowds() -> None:
    flip, last = Fraction(1, 10), 8
    precision = checker.Precision(Fraction(1, 10**15))
    for low in range(last + 1):
        for high in range(low, last + 1):
            law = checker.Bits(flip, 1, 1, last, singles(last))
            law.runs = [[low, high]]
            (found,) = law.profile([units(Fraction(3, 2))], precision)
            worst = max(
                exact.bits_pair(ones, last - ones, flip).delta(Fraction(3, 2))
                for ones in range(low, high + 1)
            )
            assert Fraction(found, precision.one) >= worst


def composed(pairs: Iterable[exact.Pair], ratio: Fraction) -> Fraction:
    total, *rest = pairs
    for pair in rest:
        total = exact.product(total, pair)
    return max(total.delta(ratio), total.reversed().delta(ratio))


def test_several_rounds_in_whatever_crowds() -> None:
    flip, users = Fraction(1, 4), 4
    precision = checker.Precision(Fraction(1, 10**12))
    law = checker.Bits(flip, 1, 1, users - 1, singles(users - 1))
    decoys = checker.Decoys(4, Fraction(2, 3))
    growth, nodes = Fraction(129, 128), 1200
    losses, infinite = checker.compose([(law, 2), (decoys, 1)], growth, nodes, precision)
    ratio = Fraction(3, 2)
    found = checker.total_delta(losses, growth, units(ratio)) + infinite
    pairs = list(exact.bits_pairs(users, flip))
    fakes = exact.decoyed_pair((0, 0, 0), 4)
    truth = max(
        composed((one, two, fake), ratio)
        for one, two in product([*pairs, *(pair.reversed() for pair in pairs)], repeat=2)
        for fake in (fakes, fakes.reversed())
    )
    assert truth <= Fraction(found, precision.one) <= truth * Fraction(108, 100)


@pytest.mark.parametrize("epsilon", ["0.000001", "0.1", "1", "2.5", "30", "700"])
def test_the_exponential_is_just_below(epsilon: str) -> None:
    found = Fraction(checker.exponential(Fraction(epsilon)), UNIT)
    low, high = exact.exp_bounds(float(epsilon))
    # The float is not the text; a hair covers that.
    assert high * (1 - Fraction(1, 10**12)) < found < high * (1 + Fraction(1, 10**12))
    if float(epsilon) == Fraction(epsilon):
        assert low * (1 - Fraction(1, 10**30)) < found < high


def test_the_exponential_of_next_to_nothing_is_not_above_it() -> None:
    assert checker.exponential(Fraction(1, 1 << 200)) == UNIT


def test_outcomes_without_mass_do_not_hide_others() -> None:
    pair = checker.Pair((0, [1, 0, 8]), (0, [4, 0, 1]), 10)
    assert pair.excess(2 * UNIT) == (8 - 2 * 1 + 10 - 9) * UNIT


def test_losses_too_small_to_follow_are_not_lost() -> None:
    precision = checker.Precision(Fraction(1))
    dust, one = 5 << 20, precision.one
    loss = (-2, [dust, 0, one - 2 * dust, 0, dust])
    (start, masses), infinite = checker.add_losses(loss, loss, precision)
    assert sum(masses) + infinite >= one
    assert infinite >= 2 * dust * (one - 2 * dust) // one
    # What was at the bottom moved up, not away: all that is left stands at 0.
    assert start == 0
    assert masses[0] >= one - infinite


def test_a_profile_that_rises_is_taken_as_flat() -> None:
    one = 1 << 80
    deltas = [one // 2, one // 4, one // 3]
    (start, masses), infinite = checker.dominating_losses([UNIT, 2 * UNIT, 3 * UNIT], deltas, one)
    assert (start, infinite) == (-2, one // 4)
    assert min(masses) >= 0
    assert one <= sum(masses) + infinite <= one + 8


def test_the_chance_that_anything_is_cut() -> None:
    flip, values, slots, records = Fraction(1, 8), 9, 4, 50
    zeros = exact.count_weights(0, values - 1, flip)
    tail = Fraction(sum(zeros[slots:]), flip.denominator ** (values - 1)) * records
    found = checker.cut_chance(flip, values, slots, records, Fraction(1, 10**12))
    assert min(tail, Fraction(1)) <= found <= min(tail, Fraction(1)) + Fraction(1, 10**12)
    few = checker.cut_chance(Fraction(1, 1 << 20), values, 5, records, Fraction(1, 10**20))
    assert 0 < few < Fraction(1, 10**20)
    assert checker.cut_chance(flip, values, values, records, Fraction(1, 10)) == 0


def test_cut_messages_cost_their_chance_in_both_laws() -> None:
    law = checker.Bits(Fraction(1, 8), 1, 1, 9, singles(9))
    asked = (None, Fraction(1), Fraction(1, 100))
    without, cut = (checker.reached_delta([(law, 1)], c, *asked) for c in (0, Fraction(1, 50)))
    growth = Fraction(checker.exponential(Fraction(1)), UNIT)
    assert cut - without == Fraction(1, 50) * (1 + growth)


def test_local_growth_is_a_power_of_the_odds() -> None:
    law = checker.Bits(Fraction(1, 4), 2, 2, 0, [[0, 0]])
    assert checker.local_growth([(law, 2)], 81 * UNIT) == 81 * UNIT
    assert checker.local_growth([(law, 2)], 80 * UNIT) is None
    assert checker.local_growth([(checker.Decoys(5, Fraction(1, 2)), 1)], 80 * UNIT) is None
