"""Noisy totals against a referee that adds up every outcome, for every change of an answer."""

from __future__ import annotations

import itertools
from fractions import Fraction

import pytest

from chaffinch.privacy import NoisyTotals
from tests.oracles import totals as referee
from tests.tiers import nightly

EPSILONS = (0.0, 0.3, 1.0, 2.5, 7.0)
ROOM = 1e-19
"""More than the referee leaves out at either end."""

ONE_COUNT = [
    ("laplace", "1", 1),
    ("laplace", "7/3", 1),
    ("laplace", "1/3", 2),
    ("laplace", "5", 7),
    ("gaussian", "1", 1),
    ("gaussian", "1/2", 1),
    ("gaussian", "5/2", 3),
    ("gaussian", "9", 4),
]
MORE_COUNTS = [
    ("laplace", "1", 2),
    nightly("laplace", "2/5", 3),
    ("gaussian", "1", 2),
    ("gaussian", "3", 2),
    ("gaussian", "7/10", 3),
]


@pytest.mark.parametrize(("law", "scale", "steps"), ONE_COUNT)
def test_one_count_is_what_its_outcomes_add_up_to(law: str, scale: str, steps: int) -> None:
    made = NoisyTotals(law=law, scale=scale, steps=steps)
    for epsilon in EPSILONS:
        found = made.delta(epsilon)
        truth = float(referee.delta(law, Fraction(scale), (steps,), epsilon))
        assert found.lower - ROOM <= truth <= found.upper + ROOM
        assert found.upper - found.lower <= 1e-12 * found.upper
        # Whoever moves the count by less is protected no less.
        for less in range(1, steps):
            smaller = referee.delta(law, Fraction(scale), (less,), epsilon)
            assert float(smaller) <= found.upper + ROOM


@pytest.mark.parametrize(("law", "scale", "counts"), MORE_COUNTS)
def test_several_counts_are_what_their_outcomes_add_up_to(
    law: str, scale: str, counts: int
) -> None:
    made = NoisyTotals(law=law, scale=scale, counts=counts)
    for epsilon in EPSILONS[1:4]:
        found = made.delta(epsilon)
        for moves in set(itertools.product((-1, 1), repeat=counts)):
            if moves[0] == 1:
                truth = float(referee.delta(law, Fraction(scale), moves, epsilon))
                assert found.lower - ROOM <= truth <= found.upper + ROOM
        assert found.upper - found.lower <= 1e-12 * found.upper
