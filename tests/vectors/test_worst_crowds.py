"""Where the worst crowd lies, and what copies buy: figures that were printed before."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from chaffinch import privacy
from tests.oracles import balls

LOCATED = [
    (100, "0.02", 0, 0.2, 37),
    (20, "0.05", 0, 0.2, 6),
    (300, "0.05", 0, 1.0, 2),
    (20, "0.02", 40, 0.3, 16),
]


@pytest.mark.parametrize(("users", "flip", "decoys", "epsilon", "ones"), LOCATED)
def test_the_worst_crowd_is_not_all_zero(
    users: int, flip: str, decoys: int, epsilon: float, ones: int
) -> None:
    q = Fraction(flip)
    last = users if decoys else (users + 1) // 2
    found = [balls.bits_delta(a, users - 1 - a + decoys, q, epsilon) for a in range(last)]
    worst = found[ones]
    assert not any(each > worst for each in found)  # balls: the worst overlaps itself
    mechanism = privacy.FlippedBits(users=users, flip_probability=flip, decoys=decoys)
    bracket = mechanism.delta(epsilon)
    assert bracket.upper == pytest.approx(float(worst), rel=1e-9)
    assert bracket.upper > float(found[0]) * 1.01


COPIES = [
    (1, 5.836),
    (2, 4.978),
    (4, 4.589),
    (8, 4.404),
    pytest.param(16, 4.313, marks=pytest.mark.long),
    pytest.param(32, 4.269, marks=pytest.mark.long),
]


def flip_for(deviation: float, users: int, copies: int) -> float:
    """Return q with users p q / (copies (p - q)^2) = deviation^2: pq = t/(1 + 4t)."""
    t = deviation**2 * copies / users
    return 0.5 * (1.0 - math.sqrt(1.0 - 4.0 * t / (1.0 + 4.0 * t)))


@pytest.mark.parametrize(("copies", "deviation"), COPIES)
def test_copies_help_only_down_to_the_gaussian(copies: int, deviation: float) -> None:
    """n = 1e4, epsilon = 1, delta = 1e-6: standard deviation of the count, to printed digits."""
    few, many = (
        privacy.FlippedBits(
            users=10_000,
            copies=copies,
            flip_probability=flip_for(deviation + half, 10_000, copies),
        ).delta(1.0, relative_width=1e-4)
        for half in (-0.00051, 0.00051)
    )
    assert many.upper <= 1e-6 <= few.lower
