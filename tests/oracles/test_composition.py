"""Composition against every choice of crowd and direction in every round, with rationals."""

from __future__ import annotations

from fractions import Fraction

import pytest

from chaffinch import privacy
from tests.cases import each_case
from tests.oracles import exact, judge, mpm
from tests.oracles.exact import Pair

EPSILONS = [0.0, 0.3, 1.0, 2.5]


def truths(rounds: list[list[Pair]]) -> list[tuple[Fraction, Fraction]]:
    ratios = [exact.exp_bounds(epsilon) for epsilon in EPSILONS]
    low = mpm.composed_deltas(rounds, [above for _, above in ratios])
    high = mpm.composed_deltas(rounds, [below for below, _ in ratios])
    return list(zip(low, high, strict=True))


@each_case("name", ["0.05", "0.2", "0.4"])
@each_case(("users", "times"), [(1, 1), (1, 5), (2, 3), (4, 2), (6, 2), (3, 3)])
def test_rounds_of_bits_contain_the_truth(users: int, times: int, name: str) -> None:
    flip = Fraction(name)
    rounds = [list(exact.bits_pairs(users, flip))] * times
    mechanism = privacy.FlippedBits(users=users, flip_probability=flip)
    composed = privacy.compose(mechanism, times=times)
    for epsilon, truth in zip(EPSILONS, truths(rounds), strict=True):
        assert not (found := judge.complaint(composed.delta(epsilon), truth)), (epsilon, found)


def test_rounds_with_fake_bits_cover_opposite_directions() -> None:
    """With fake bits the crowd has no mirror image: up in one round, down in the next."""
    flip = Fraction(1, 10)
    rounds = [list(exact.bits_pairs(3, flip, decoys=4))] * 2
    mechanism = privacy.FlippedBits(users=3, flip_probability=flip, decoys=4)
    composed = privacy.compose(mechanism, times=2)
    for epsilon, truth in zip(EPSILONS, truths(rounds), strict=True):
        assert not (found := judge.complaint(composed.delta(epsilon), truth)), (epsilon, found)


def test_different_mechanisms_contain_the_truth() -> None:
    bits = privacy.FlippedBits(users=4, flip_probability="0.1")
    copied = privacy.FlippedBits(users=3, flip_probability="0.3", copies=2)
    clear = privacy.DecoyedValues(decoys=6, values=2)
    composed = privacy.compose([bits, copied, clear])
    rounds = [
        list(exact.bits_pairs(4, Fraction(1, 10))),
        list(exact.bits_pairs(3, Fraction(3, 10), 2)),
        [exact.decoyed_pair((0, 0), 6)],
    ]
    for epsilon, truth in zip(EPSILONS, truths(rounds), strict=True):
        assert not (found := judge.complaint(composed.delta(epsilon), truth)), (epsilon, found)


@pytest.mark.parametrize("times", [2, 10, 50])
def test_rounds_of_randomized_response_have_a_closed_form(times: int) -> None:
    """One user: k of ``times`` answers are true, the loss is (2k - times) ln(p/q)."""
    flip = Fraction(1, 4)
    composed = privacy.compose(privacy.FlippedBits(users=1, flip_probability=flip), times=times)
    pair = exact.loose_bits_pair(0, 0, flip, times)  # only the number of ones matters
    for epsilon in (0.0, 1.0, 5.0, 20.0):
        bracket = composed.delta(epsilon)
        found = judge.complaint(bracket, judge.true_delta([pair], epsilon))
        assert not found, (epsilon, found)
        assert bracket.upper - bracket.lower <= 1e-4 * bracket.upper + 1e-12
