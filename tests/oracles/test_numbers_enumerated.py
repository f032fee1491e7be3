"""One number in [0, 1] as thermometer bits: every crowd on the grid, slots apart or together."""

from __future__ import annotations

from fractions import Fraction

from chaffinch import privacy
from tests.cases import each_case
from tests.oracles import exact_views, judge

EPSILONS = [0.0, 0.1, 0.5, 1.5, 4.0, 9.0]
FLIPS = ["0.02", "0.1", "0.3"]


@each_case("resolution", [1, 2, 3])
@each_case("users", [1, 2, 3, 4, 5])
def test_separate_slots_contain_the_truth(users: int, resolution: int) -> None:
    for name in FLIPS:
        flip = Fraction(name)
        pairs = list(exact_views.separate_slots_pairs(users, resolution, flip))
        mechanism = privacy.EncodedNumbers(
            users=users, resolution=resolution, flip_probability=flip, slots="separate"
        )
        for epsilon in EPSILONS:
            truth = judge.true_delta(pairs, epsilon)
            found = judge.complaint(mechanism.delta(epsilon), truth)
            assert not found, (name, epsilon, found)


@each_case("resolution", [1, 2, 3, 5])
@each_case("users", [1, 2, 3, 6])
def test_slots_together_contain_the_truth(users: int, resolution: int) -> None:
    for name in FLIPS:
        flip = Fraction(name)
        pairs = list(exact_views.slots_together_pairs(users, resolution, flip))
        mechanism = privacy.EncodedNumbers(
            users=users, resolution=resolution, flip_probability=flip, slots="together"
        )
        for epsilon in EPSILONS:
            bracket = mechanism.delta(epsilon)
            found = judge.complaint(bracket, judge.true_delta(pairs, epsilon))
            assert not found, (name, epsilon, found)
            assert bracket.relative_width <= 1e-9
