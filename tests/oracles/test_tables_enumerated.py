"""Any randomizer given as a table: the blanket bound against every crowd and every pair."""

from __future__ import annotations

import math
import random
from fractions import Fraction
from itertools import pairwise

import pytest

from chaffinch.privacy import amplification
from tests.cases import each_case
from tests.oracles import balls, clones, exact_views, judge

EPSILONS = [0.0, 0.2, 0.7, 1.5, 3.0]


def random_table(source: random.Random, inputs: int, outputs: int) -> list[list[Fraction]]:
    """Return rows of chances in 1/32; some entries may be zero."""
    rows = []
    for _ in range(inputs):
        cuts = sorted(source.randint(0, 32) for _ in range(outputs - 1))
        ends = [0, *cuts, 32]
        rows.append([Fraction(b - a, 32) for a, b in pairwise(ends)])
    return rows


@each_case("seed", range(12))
def test_the_blanket_contains_the_truth(seed: int) -> None:
    source = random.Random(seed)
    inputs, outputs = source.choice([(2, 2), (2, 3), (3, 3), (3, 2), (4, 3)])
    users = source.randint(1, 6)
    table = random_table(source, inputs, outputs)
    pairs = list(exact_views.table_pairs(users, table))
    mechanism = amplification.ShuffledTable(table, users=users)
    for epsilon in EPSILONS:
        found = judge.complaint(mechanism.delta(epsilon), judge.true_delta(pairs, epsilon))
        assert not found, (users, table, epsilon, found)


@pytest.mark.parametrize("users", [2, 5, 8])
def test_a_flipped_bit_as_a_table_contains_the_truth(users: int) -> None:
    flip = Fraction(1, 10)
    table = [[1 - flip, flip], [flip, 1 - flip]]
    pairs = list(exact_views.table_pairs(users, table))
    mechanism = amplification.ShuffledTable(table, users=users)
    for epsilon in EPSILONS:
        found = judge.complaint(mechanism.delta(epsilon), judge.true_delta(pairs, epsilon))
        assert not found, (epsilon, found)


@pytest.mark.parametrize(
    ("users", "local", "epsilon"),
    [(1, 1.0, 0.5), (50, 1.0, 0.3), (1000, 2.0, 0.2), (2000, 3.0, 1.0)],
)
def test_the_clone_pair_contains_its_truth(users: int, local: float, epsilon: float) -> None:
    bracket = amplification.clone_delta(local_epsilon=local, users=users, epsilon=epsilon)
    truth = clones.clone_pair_delta(users, local, epsilon)
    with balls.precision(300):
        assert balls.ball(bracket.lower) <= truth.upper()
        assert balls.ball(bracket.upper) >= truth.lower()
    assert math.isfinite(bracket.upper)
