"""The worst sequence of losses, against every sequence one by one, and of crowds that exist."""

from __future__ import annotations

import itertools
import math
import random
from collections import defaultdict
from dataclasses import replace
from decimal import Context, Decimal
from fractions import Fraction
from functools import cache

import numpy as np
import pytest

from chaffinch import privacy
from chaffinch.privacy import composition
from chaffinch.privacy.numerics import chosen_rounds
from chaffinch.privacy.numerics.chosen_rounds import Losses, WorstProfile, worst_profile
from chaffinch.privacy.numerics.laws import target_bits
from chaffinch.privacy.numerics.loss_grids import GridLoss, Rounds, dominated_loss
from tests.oracles import exact
from tests.tiers import nightly

STEP = 0.125
PLACES = [STEP * place / 3 for place in range(-40, 60)]


def drawn(source: random.Random) -> Losses:
    """Return the losses of some pair of laws on the grid, with mass that only the first has."""
    places = sorted(source.sample(range(-6, 7), source.randint(2, 5)))
    mass = np.array([source.random() ** 3 + 1e-3 for _ in places])
    infinite = source.choice([0.0, 0.0, 1e-3])
    mass *= (1 - infinite) / mass.sum()
    return Losses.of_grid(GridLoss(STEP, np.array(places), mass, infinite))


def plain_delta(sequence: tuple[Losses, ...], epsilon: float) -> float:
    """Return delta of losses in a row, summed outcome by outcome."""
    law, infinite = {0: 1.0}, 0.0
    for losses in sequence:
        whole = math.fsum([*losses.mass.tolist(), losses.infinite])
        infinite = infinite * whole + math.fsum(law.values()) * losses.infinite
        found: dict[int, float] = defaultdict(float)
        for (place, mass), (more, chance) in itertools.product(
            law.items(), enumerate(losses.mass.tolist(), start=losses.low)
        ):
            found[place + more] += mass * chance
        law = found
    gains = (mass * -math.expm1(min(epsilon - STEP * y, 0.0)) for y, mass in law.items())
    return math.fsum(gains) + infinite


def worst_strategy(choices: list[Losses], count: int, epsilon: float) -> float:
    """Return the largest delta of somebody who chooses every round after having seen all before."""
    if count == 0:
        return -math.expm1(min(epsilon, 0.0))
    return max(
        one.infinite
        + math.fsum(
            mass * worst_strategy(choices, count - 1, epsilon - STEP * place)
            for place, mass in enumerate(one.mass.tolist(), start=one.low)
            if mass
        )
        for one in choices
    )


def two_rounds_by_hand(choices: list[Losses], epsilon: float) -> float:
    """Return the same of two rounds from the laws of both outcomes, for every strategy there is.

    A strategy is a first choice and, for each of its outcomes, a second one.
    """
    worst = 0.0
    for one in choices:
        seen = [(STEP * (one.low + k), m) for k, m in enumerate(one.mass.tolist()) if m]
        for plan in itertools.product(choices, repeat=len(seen)):
            first, second = [one.infinite], [0.0]
            for (loss, mass), two in zip(seen, plan, strict=True):
                first.append(mass * two.infinite)
                second.append(0.0)
                for place, more in enumerate(two.mass.tolist(), start=two.low):
                    first.append(mass * more)
                    second.append(mass * more * math.exp(-loss - STEP * place))
            gains = (
                max(p - math.exp(epsilon) * q, 0.0) for p, q in zip(first, second, strict=True)
            )
            worst = max(worst, math.fsum(gains))
    return worst


def too_small(source: random.Random) -> bool:
    """Return whether some sequence or strategy has a larger delta than was said to be the most."""
    choices = [drawn(source) for _ in range(source.randint(2, 3))]
    count = source.randint(1, 3)
    found = worst_profile(choices, count)
    return any(
        worst_strategy(choices, count, epsilon) > found.delta(epsilon)
        for epsilon in source.sample(PLACES, 4)
    ) or any(
        plain_delta(sequence, epsilon) > found.delta(epsilon)
        for sequence in itertools.combinations_with_replacement(choices, count)
        for epsilon in source.sample(PLACES, 8)
    )


def test_no_sequence_of_choices_is_above() -> None:
    source = random.Random(20)
    assert not any(too_small(source) for _ in range(60))


def test_strategies_are_told_exactly(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the points of the grid, against every strategy of two rounds by its own two laws."""
    monkeypatch.setattr(chosen_rounds, "_ASKED", 0.0)  # exact in the middle, not far out
    source = random.Random(24)
    for _ in range(12):
        # Infinite losses are those of the choice that has most, whichever is chosen.
        choices = [replace(drawn(source), infinite=0.0) for _ in range(2)]
        found = worst_profile(choices, 2)
        for place in (0, 2, 5):
            exact = two_rounds_by_hand(choices, STEP * place)
            assert worst_strategy(choices, 2, STEP * place) == pytest.approx(exact, rel=1e-9)
            assert exact <= found.delta(STEP * place) <= exact * (1 + 1e-9) + 1e-11


def test_who_sees_the_rounds_before_does_more_harm() -> None:
    """So fixed sequences alone would be no bound on people who react to what was released."""
    source = random.Random(25)
    more = 0
    for _ in range(40):
        choices = [drawn(source) for _ in range(3)]
        epsilon = source.choice(PLACES[40:])
        fixed = max(
            plain_delta(sequence, epsilon) for sequence in itertools.product(choices, repeat=3)
        )
        more += worst_strategy(choices, 3, epsilon) > fixed * (1 + 1e-6)
    assert more >= 5


@pytest.mark.parametrize("fault", ["first choice only", "no infinite losses", "one round less"])
def test_planted_faults_are_seen(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    right = worst_profile

    def wrong(choices: list[Losses], count: int) -> chosen_rounds.WorstProfile:
        if fault == "first choice only":
            return right(choices[:1], count)
        if fault == "one round less":
            return right(choices, max(count - 1, 1))
        return right([replace(one, infinite=0.0) for one in choices], count)

    monkeypatch.setitem(globals(), "worst_profile", wrong)
    source = random.Random(21)
    assert any(too_small(source) for _ in range(60))


def test_one_choice_is_that_choice_in_every_round(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chosen_rounds, "_ASKED", 0.0)
    source = random.Random(22)
    for _ in range(20):
        choice, count = drawn(source), source.randint(1, 6)
        found = worst_profile([choice], count)
        for place in source.sample(range(20), 5):
            exact = plain_delta((choice,) * count, STEP * place)
            assert exact <= found.delta(STEP * place) <= exact * (1 + 1e-9) + 1e-11


def test_strategies_are_closer_than_the_worst_of_all_in_every_round() -> None:
    # A skewed pair and the same with its laws exchanged: at once they are worse than either.
    places = np.array([-1, 0, 3])
    rare = 0.2
    often = rare * math.expm1(-3 * STEP) / -math.expm1(STEP)
    mass = np.array([often, 1 - often - rare, rare])
    grids = GridLoss(STEP, places, mass), GridLoss(STEP, -places, mass * np.exp(-STEP * places))
    pair = [
        Losses.of_grid(GridLoss(STEP, grid.places[order], grid.mass[order]))
        for grid in grids
        for order in [np.argsort(grid.places)]
    ]
    found = worst_profile(pair, 64).delta(0.5)
    single = max(worst_profile([one], 64).delta(0.5) for one in pair)
    assert single <= found < 1.05 * single


BITS = privacy.FlippedBits(users=5_002, flip_probability="0.02")
NODES = np.linspace(0.0, 0.9, 31)


def test_every_crowd_is_in_a_cell_one_way_or_the_other() -> None:
    cells = BITS.cells(NODES)
    assert cells is not None
    crowds = BITS.bit_crowds
    for ones in [0, 1, 130, 1249, 2499, 2500, 2501, 2600, 4000, 5001]:
        orders = [
            crowds.knots(ones, ones, mirrored=order, tail=1e-30).deltas(NODES)[0]
            for order in (False, True)
        ]
        assert any(
            (orders[0] <= ends[0]).all() and (orders[1] <= ends[1]).all()
            for cell in cells
            for ends in (cell, cell[::-1])
        )


@pytest.mark.parametrize("sequences", [5, nightly(24)])
def test_no_sequence_of_crowds_is_above(sequences: int) -> None:
    composed = privacy.compose(BITS, times=20)
    source = random.Random(23)
    target = target_bits(1, BITS.flip_probability)
    parts = []
    for ones in [0, 700, 2500, 5001]:
        others = BITS.bit_crowds.others(ones, ones, mirrored=False, tail=1e-19, aim=1.0).mass
        laws = [np.convolve(others, one).astype(np.float64) for one in (target.zero, target.one)]
        for first, second in (laws, laws[::-1]):
            parts.append(dominated_loss(first, second, 2e-4, lacking=1e-18, most=1.0))
    reached = 0.0
    bounds = {epsilon: composed.delta(epsilon).upper for epsilon in (0.3, 1.0, 1.8)}
    for _ in range(sequences):
        counts = [0] * len(parts)
        for _ in range(20):
            counts[source.randrange(len(parts))] += 1
        rounds = Rounds(tuple((p, c) for p, c in zip(parts, counts, strict=True) if c))
        moved = 20 * 1e-9
        for epsilon, upper in bounds.items():
            value, doubt = rounds.delta(epsilon + moved)
            assert value - doubt <= upper
            reached = max(reached, value / upper)
    # The test could have failed: some sequence comes close.
    assert reached > 0.9


def test_decoys_and_lone_or_wide_crowds_are_not_told_apart() -> None:
    for other in (
        privacy.FlippedBits(users=5_002, flip_probability="0.02", decoys=1),
        privacy.FlippedBits(users=1, flip_probability="0.02"),
        privacy.FlippedBits(users=10**6, flip_probability="0.1"),
    ):
        assert other.cells(NODES) is None


def test_questions_that_follow_from_earlier_releases_stay_below() -> None:
    """Two people, sixteen rounds, each pair in the order that harms most by what was seen.

    Exact fractions reach 2.855e-6 here; a bound on fixed sequences of orders would say 2.8e-6.
    """
    flip, epsilon = Fraction(9, 20), 2.37594103427187
    kept, power = 1 - flip, Fraction(math.exp(epsilon)) * (1 + Fraction(1, 2**50))
    zero = (kept * kept, 2 * kept * flip, flip * flip)
    one = (kept * flip, kept * kept + flip * flip, kept * flip)
    orders = tuple(zip(zero, one, strict=True)), tuple(zip(one, zero, strict=True))

    @cache
    def reached(left: int, ratio: Fraction) -> Fraction:
        if left == 0:
            return max(Fraction(0), 1 - power / ratio)
        return max(
            sum(
                (here * reached(left - 1, ratio * here / there) for here, there in order),
                Fraction(0),
            )
            for order in orders
        )

    composed = privacy.compose(privacy.FlippedBits(users=2, flip_probability=flip), times=16)
    truth = float(reached(16, Fraction(1)))
    assert 2.85e-6 < truth <= composed.delta(epsilon).upper < 1.5 * truth


@pytest.mark.parametrize(
    ("users", "flip", "times"), [(2, "0.01", 100), (10, "1e-6", 16), nightly(10_000, "1e-4", 16)]
)
def test_huge_losses_leave_numbers_finite(users: int, flip: str, times: int) -> None:
    """Warnings are errors here: nothing may overflow on the way."""
    part = privacy.FlippedBits(users=users, flip_probability=flip)
    assert 0 < privacy.compose(part, times=times).delta(1.0).upper <= 1


def test_between_two_points_nothing_is_rounded_below_the_chord() -> None:
    """Far from 0, and where heights fall by many digits, a rounded place made delta too small."""
    source, exact = random.Random(26), Context(prec=80)
    for _ in range(300):
        step, low = 10 ** source.uniform(-5, 0.5), source.randint(0, 200_000)
        heights = np.array([1.0, 10.0 ** -source.uniform(0, 14)])
        edges = (step * low, math.nextafter(step * (low + 1), 0.0), step * (low + source.random()))
        epsilon = source.choice(edges)
        found = WorstProfile(step, low, np.append(heights, 0.0)).delta(epsilon)
        gap = exact.subtract(Decimal(epsilon), exact.multiply(Decimal(step), Decimal(low)))
        powers = (exact.subtract(exact.exp(one), Decimal(1)) for one in (gap, Decimal(step)))
        share = exact.divide(*powers)
        fall = exact.subtract(Decimal(1), Decimal(heights[1]))
        chord = exact.subtract(Decimal(1), exact.multiply(share, fall))
        # Before the first point nothing is known; the second one is above all after it.
        assert min(chord, Decimal(1)) <= Decimal(found) or share > 1


# ---------------------------------------------------------------- small crowds


def worst_of_two(users: int, flip: Fraction, ratio: Fraction) -> Fraction:
    """Return delta of two rounds, the crowd of the second one chosen by who has seen the first."""
    pairs = [
        [(Fraction(a, pair.total), Fraction(b, pair.total)) for a, b in masses]
        for pair in exact.bits_pairs(users, flip)
        for masses in (
            list(zip(pair.first, pair.second, strict=True)),
            list(zip(pair.second, pair.first, strict=True)),
        )
    ]

    def one(first: Fraction, second: Fraction) -> Fraction:
        zero = Fraction(0)
        return max(sum((max(first * a - second * b, zero) for a, b in p), zero) for p in pairs)

    return max(sum((one(a, ratio * b) for a, b in pair), Fraction(0)) for pair in pairs)


def test_small_crowds_told_apart_are_above_every_strategy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(composition, "_TOLD_APART", range(2, 4_001))
    for users, flip in ((1, "0.2"), (2, "0.3"), (4, "0.1"), (6, "0.25")):
        bit = privacy.FlippedBits(users=users, flip_probability=flip)
        twice = privacy.compose(bit, times=2)
        assert twice._adaptive_profiles  # noqa: SLF001
        for share in (0.02, 0.2, 0.5, 0.9):
            epsilon = share * twice.local_epsilon
            truth = worst_of_two(users, Fraction(flip), Fraction(math.exp(epsilon)))
            assert all(float(truth) <= game.delta(epsilon) for game in twice._adaptive_profiles)  # noqa: SLF001


@pytest.mark.parametrize(
    ("users", "flip", "times"), [(300, "0.1", 100), (30, "0.2", 100), nightly(10**3, "0.1", 1_000)]
)
def test_rounds_of_small_crowds_are_narrow(users: int, flip: str, times: int) -> None:
    bit = privacy.FlippedBits(users=users, flip_probability=flip)
    assert privacy.compose(bit, times=times).epsilon(1e-6).relative_width < 3e-3


# ---------------------------------------------------------------- blocks of rounds


def test_blocks_are_above_the_game_and_below_rounds_one_by_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bit = privacy.FlippedBits(users=3_000, flip_probability="0.05")
    game = privacy.compose(bit, times=100)
    (told,) = game._adaptive_profiles  # noqa: SLF001 - the game over all rounds at once
    monkeypatch.setattr(composition, "_TOLD_APART", range(16, 100))
    monkeypatch.setattr(composition, "_BLOCK", 30)
    composition._block.cache_clear()  # noqa: SLF001 - it knows another size
    cut = privacy.compose(bit, times=100)
    blocks, single = cut._adaptive_blocks, cut._dominating_rounds  # noqa: SLF001 - what is compared
    assert blocks is not None
    assert [count for _, count in blocks.parts] == [3, 10]
    assert cut._adaptive_profiles == []  # noqa: SLF001
    for epsilon in (0.5, 1.0, 2.0, 3.0):
        above = blocks.upper_delta(epsilon)
        # The game is an upper end as well, of the same choices and nearly exact.
        assert told.delta(epsilon) * (1 - 1e-3) < above < single.upper_delta(epsilon)
        assert game._lower_delta(epsilon) < above  # noqa: SLF001
    composition._block.cache_clear()  # noqa: SLF001


def test_the_nodes_of_a_block_are_above_its_worst_strategy() -> None:
    source = random.Random(7)
    for _ in range(5):
        choices = [drawn(source), drawn(source)]
        nodes, deltas = worst_profile(choices, 3).profile(17)
        assert nodes[0] == 0
        assert np.all(np.diff(nodes) > 0)
        for epsilon, delta in zip(nodes.tolist(), deltas.tolist(), strict=True):
            assert worst_strategy(choices, 3, epsilon) <= delta * (1 + 1e-12)


@pytest.mark.parametrize(
    ("users", "flip"), [(10**6, "0.01"), nightly(10**6, "0.001"), nightly(10**4, "0.1")]
)
def test_ten_thousand_rounds_are_known_to_a_fifth_of_a_percent(users: int, flip: str) -> None:
    bit = privacy.FlippedBits(users=users, flip_probability=flip)
    found = privacy.compose(bit, times=10_000).epsilon(1e-6)
    assert found.relative_width < 2e-3
