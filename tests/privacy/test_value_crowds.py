"""Choices among random decoys: narrow brackets, judged by every outcome in whole numbers."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from math import comb

import numpy as np
import pytest

from chaffinch.privacy import DecoyedValues, FlippedValues
from chaffinch.privacy.mechanisms.value_crowds import ValueCrowds
from chaffinch.privacy.numerics.crowds import Box
from chaffinch.privacy.numerics.decoyed_sums import UniformDecoys
from tests.oracles import exact, exact_views
from tests.oracles.exact import Pair

TAIL = 1e-30
EPSILONS = np.array([0.0, 0.3, 1.0, 2.5])


def deltas(pair: Pair) -> list[float]:
    return [float(pair.delta(exact.exp_bounds(float(e))[0])) for e in EPSILONS]


def with_known_total(crowd: tuple[int, int], others: int, around: UniformDecoys) -> list[float]:
    """Return delta where the number of decoys on the two values is told."""
    (first, second), decoys, values, flip = crowd, around.count, around.values, around.flip
    share = Fraction(2, values)
    found = np.zeros(len(EPSILONS))
    for total in range(decoys + 1):
        laws: list[dict[int, int]] = [{}, {}]
        for here in range(total + 1):
            one = exact_views.two_sums_pair(
                first + here, second + total - here, others + decoys, flip
            )
            for law, weights in zip(laws, (one.first, one.second), strict=True):
                for place, weight in enumerate(weights):
                    law[place] = law.get(place, 0) + comb(total, here) * weight
        pair = Pair(tuple(laws[0].values()), tuple(laws[1].values()), sum(laws[0].values()))
        chance = comb(decoys, total) * share**total * (1 - share) ** (decoys - total)
        found += float(chance) * np.array(deltas(pair))
    return list(found)


def difference(pair: Pair, records: int) -> Pair:
    """Return the laws of the first sum less the second."""
    side = records + 2
    sums = [[0] * (2 * side) for _ in range(2)]
    for law, weights in zip(sums, (pair.first, pair.second), strict=True):
        for place, weight in enumerate(weights):
            law[place // side - place % side + side] += weight
    return Pair(tuple(sums[0]), tuple(sums[1]), pair.total)


CROWDS = [(0, 0, 0), (3, 0, 0), (0, 3, 1), (1, 1, 2), (2, 0, 1)]


@pytest.mark.parametrize(
    ("decoys", "values", "flip"), [(1, 3, "0.1"), (4, 2, "0.05"), (5, 4, "0.02"), (3, 150, "0.3")]
)
def test_both_laws_of_one_crowd_are_exact(decoys: int, values: int, flip: str) -> None:
    chance = Fraction(flip)
    # Without a third value nobody is on it.
    for first, second, rest in [c for c in CROWDS if values > 2 or c[2] == 0]:
        others = first + second + rest
        crowds = ValueCrowds(others, UniformDecoys(decoys, values, chance))
        pair = exact_views.two_sums_mixture((first, second, rest), decoys, values, chance)
        truth = np.array(deltas(pair))
        lower = crowds.two_sums((first, second), TAIL).lower_deltas(EPSILONS)
        assert (lower <= truth).all()
        assert lower == pytest.approx(truth, rel=1e-9, abs=1e-25)
        told = np.array(with_known_total((first, second), others, crowds.decoys))
        upper = crowds.upper_deltas(Box((first, second), (first, second)), EPSILONS, TAIL)
        assert (upper >= told * (1 - 1e-13)).all()
        assert upper == pytest.approx(told, rel=1e-9, abs=1e-25)
        # Whoever is told more finds out no less; one decoy less would be found out.
        assert (told >= truth * (1 - 1e-13)).all()
        fewer = ValueCrowds(others, UniformDecoys(decoys - 1, values, chance)).two_sums
        assert (fewer((first, second), TAIL).lower_deltas(EPSILONS[:2]) > truth[:2]).all()


@pytest.mark.parametrize("values", [2, 3, 4, 9])
def test_the_difference_of_the_sums_is_exact(values: int) -> None:
    flip, decoys, others = Fraction(1, 20), 4, 3
    for crowd in ((others, 0), (0, others)):
        pair = exact_views.two_sums_mixture((*crowd, 0), decoys, values, flip)
        both = np.array(deltas(pair.reversed()))
        knots = ValueCrowds(others, UniformDecoys(decoys, values, flip)).difference(crowd)
        lower = np.array([knots.delta(float(e))[0] for e in EPSILONS])
        assert (lower <= both).all()
        if values >= 4:
            truth = deltas(difference(pair, others + decoys).reversed())
            assert (lower <= np.array(truth)).all()
            assert lower == pytest.approx(truth, rel=1e-9, abs=1e-25)


def test_boxes_hold_every_crowd() -> None:
    flip, others = Fraction(1, 20), 7
    for values in (2, 5):
        crowds = ValueCrowds(others, UniformDecoys(6, values, flip))
        every = [
            crowds.upper_deltas(Box((a, b), (a, b)), EPSILONS, TAIL)
            for a in range(others + 1)
            for b in range(others + 1 - a)
            if values > 2 or a + b == others
        ]
        worst = np.max(every, axis=0)
        lower, upper = crowds.profile(EPSILONS)
        assert (worst <= upper * (1 + 1e-12)).all()
        assert (upper <= 1.3 * worst).all()
        assert (lower <= worst).all()
        for target in (1e-1, 1e-2):
            place = crowds.upper_epsilon(target, safe=5.8)
            assert place < 5.8

            def reached(epsilon: float, crowds: ValueCrowds = crowds) -> float:
                at = np.array([epsilon])
                return max(
                    float(crowds.upper_deltas(Box((a, b), (a, b)), at, TAIL)[0])
                    for a in range(others + 1)
                    for b in range(others + 1 - a)
                    if crowds.clip(Box((a, b), (a, b))) is not None
                )

            assert reached(place) <= target < reached(0.98 * place)


SETTINGS = [(1000, 1000, 100, "0.02"), (100, 100, 10, "0.05"), (1000, 20, 10, "0.05")]
LONG = [
    (1000, 1000, 10, "0.05"),
    (3, 1000, 10, "0.05"),
    (10**4, 10**4, 100, "0.02"),
    (10**4, 10**4, 10, "0.02"),
]


@pytest.mark.parametrize("settings", [SETTINGS, pytest.param(LONG, marks=pytest.mark.long)])
def test_epsilon_with_decoys_is_narrow(settings: list[tuple[int, int, int, str]]) -> None:
    for users, decoys, values, flip in settings:
        mechanism = FlippedValues(users=users, decoys=decoys, values=values, flip_probability=flip)
        found = mechanism.epsilon(1e-6)
        assert found.upper <= 1.02 * found.lower, (users, decoys, values, flip, found)
        # The same promise, the other way round.
        assert mechanism.delta(found.lower * (1 - 1e-6)).upper >= 1e-6


def test_wide_sums_with_decoys_have_a_lower_end() -> None:
    for decoys, values in ((10**4, 2), (10**4, 100)):
        mechanism = FlippedValues(users=10**6, decoys=decoys, values=values, flip_probability="0.2")
        found = mechanism.epsilon(1e-6)
        # Of so few values the lower end looks at one sum only.
        assert 0.65 * found.upper < found.lower < found.upper, (values, found)
        assert mechanism.delta(found.lower * (1 - 1e-9)).upper >= 1e-6


@pytest.mark.long
def test_a_curve_with_decoys_falls_and_is_narrow() -> None:
    mechanism = FlippedValues(users=60, decoys=80, values=20, flip_probability="0.05")
    nodes = np.linspace(0.0, 2.4, 7)
    lower, upper = mechanism.profile(nodes)
    assert (lower <= upper).all()
    assert all(b <= a for a, b in pairwise(lower))
    assert (lower > 0).all()
    # About as wide everywhere in epsilon: the lower end a little before is above the upper end.
    assert (mechanism.profile(0.96 * nodes[2:])[0] > upper[2:]).all()


def test_flipping_hides_no_less_than_clear_decoys() -> None:
    # Hardly a bit is flipped: DecoyedValues(decoys=1000, values=3) has 0.3042.
    mechanism = FlippedValues(users=2, decoys=1_000, values=3, flip_probability="1e-6")
    clear = DecoyedValues(decoys=1_000, values=3).epsilon(1e-6).upper
    assert 0.97 * clear <= mechanism.epsilon(1e-6).upper <= clear


def test_the_rarest_and_the_most_flips_have_an_answer() -> None:
    for flip in (Fraction(1, 10**3000), Fraction(1, 2) - Fraction(1, 10**18)):
        mechanism = FlippedValues(users=3, decoys=5, values=4, flip_probability=flip)
        for found in (mechanism.delta(0.0), mechanism.delta(800.0), mechanism.delta(1e-17)):
            assert 0.0 <= found.lower <= found.upper <= 1.0
        assert mechanism.epsilon(0.5).upper <= mechanism.local_epsilon
    # One decoy in five on either value: what clear values show, and hardly a bit is flipped.
    rare = FlippedValues(users=3, decoys=5, values=4, flip_probability=Fraction(1, 10**3000))
    clear = DecoyedValues(decoys=5, values=4).delta(1.0)
    assert rare.delta(1.0).upper == pytest.approx(clear.upper, rel=1e-9)


def test_where_all_is_hidden_already_no_crowd_is_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Following so small a delta down took half a minute, for a number that nobody promises."""

    def searched(*_: object) -> None:
        pytest.fail("a crowd was searched")

    monkeypatch.setattr(ValueCrowds, "profile", searched)
    flip = Fraction(6964780102655445, 2**59)
    found = FlippedValues(users=2000, decoys=2000, values=3, flip_probability=flip)
    assert found.delta(1.0).lower == 0 < found.delta(1.0).upper < 1e-60
