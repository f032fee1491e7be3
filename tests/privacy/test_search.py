"""Calibration ends on the safe side, and no further than it must."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaffinch import privacy
from chaffinch.errors import InvalidInput, NoParameterFound
from chaffinch.privacy import DecoyedValues, FlippedBits, Target, calibrate, calibrate_count
from chaffinch.privacy.numerics.precision import GRAIN
from tests.tiers import slower


@pytest.mark.long
@slower
@given(st.integers(20, 3000), st.sampled_from([0.3, 1.0, 2.5]), st.sampled_from([1e-3, 1e-8]))
def test_the_flip_probability_meets_the_target_and_a_smaller_one_does_not(
    users: int, epsilon: float, delta: float
) -> None:
    target = Target(epsilon, delta)

    def make(flip: Fraction) -> FlippedBits:
        return FlippedBits(users=users, flip_probability=flip)

    found = calibrate(make, target)
    assert (found * GRAIN).denominator == 1
    assert make(found).delta(epsilon).upper <= delta
    assert make(found * Fraction(999, 1000)).delta(epsilon).lower > delta


def test_counts() -> None:
    target = Target(1.0, 1e-6)
    assert calibrate_count(lambda m: DecoyedValues(decoys=m, values=100), target) == 4261
    users = calibrate_count(lambda n: FlippedBits(users=n, flip_probability="0.03"), target)
    assert FlippedBits(users=users, flip_probability="0.03").delta(1.0).upper <= 1e-6
    assert FlippedBits(users=users - 1, flip_probability="0.03").delta(1.0).lower > 1e-6
    copies = calibrate_count(
        lambda k: FlippedBits(users=1000, copies=k, flip_probability="0.1"),
        target,
        most=100,
        largest=True,
    )
    assert FlippedBits(users=1000, copies=copies, flip_probability="0.1").delta(1.0).upper <= 1e-6
    more = FlippedBits(users=1000, copies=copies + 1, flip_probability="0.1")
    assert more.delta(1.0).lower > 1e-6


def test_what_cannot_be_met_is_said() -> None:
    with pytest.raises(NoParameterFound, match="epsilon"):
        calibrate_count(lambda m: DecoyedValues(decoys=m, values=100), Target(1.0, 1e-6), most=1000)
    with pytest.raises(NoParameterFound, match="count"):
        calibrate_count(
            lambda k: FlippedBits(users=10, copies=k, flip_probability="0.1"),
            Target(0.1, 1e-9),
            most=5,
            largest=True,
        )
    with pytest.raises(InvalidInput, match="target"):
        privacy.calibrate(lambda q: FlippedBits(users=10, flip_probability=q), (1.0, 1e-6))  # type: ignore[arg-type]


def test_a_looser_target_never_needs_more_flips() -> None:
    needed = [
        calibrate(lambda q: FlippedBits(users=500, flip_probability=q), Target(e, 1e-6))
        for e in (0.5, 1.0, 2.0)
    ]
    assert needed == sorted(needed, reverse=True)
