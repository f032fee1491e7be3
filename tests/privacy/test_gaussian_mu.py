"""Gaussian differential privacy: of large crowds, and of many rounds."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import reduce
from itertools import product

import mpmath
import pytest

from chaffinch import privacy
from chaffinch.errors import GuaranteeNotProven
from chaffinch.privacy.mechanism import Mechanism
from chaffinch.privacy.mechanisms.bits import _mu_of
from tests.oracles import exact, mpm
from tests.tiers import nightly

TEN = privacy.compose(privacy.FlippedBits(users=100, flip_probability="0.29"), times=10)


def corner(users: int, flip: str, times: int = 1) -> mpmath.mpf:
    """Return what it is worth to see nothing but zeros, in every round, of nobody but zeros."""
    with mpmath.workdps(40):
        q = mpmath.mpf(flip)
        level = times * (mpmath.log(q) + (users - 1) * mpmath.log(1 - q))
        return quantile(level + times * mpmath.log((1 - q) / q)) - quantile(level)


def quantile(logarithm: mpmath.mpf) -> mpmath.mpf:
    """Return Φ⁻¹ of a chance far below one half, from its logarithm."""

    def miss(z: mpmath.mpf) -> mpmath.mpf:
        return mpmath.log(mpmath.erfc(-z / mpmath.sqrt(2)) / 2) - logarithm

    return mpmath.findroot(miss, -mpmath.sqrt(-2 * logarithm))


def test_no_upper_end_of_mu_lies_below_a_lower_one() -> None:
    """Where 1 − power rounds to 1 a test was taken for worthless, and what it had was lost."""
    for users, flip in ((1_000, "0.1"), (5_000, "0.08"), (2_000, "0.3")):
        found = privacy.FlippedBits(users=users, flip_probability=flip)
        for ones in (0, 1):
            crowd = found.crowd(ones=ones).gaussian_mu()
            assert crowd.lower <= crowd.upper
            assert crowd.lower <= found.gaussian_mu().upper
        assert corner(users, flip) <= found.gaussian_mu().upper


def test_rare_outcomes_of_large_crowds_are_followed() -> None:
    """All zeros come about with e^−1667 in a crowd of zeros, and that is what decides mu."""
    found = privacy.FlippedBits(users=20_000, flip_probability="0.08").gaussian_mu()
    assert found.relative_width < 1e-6
    assert corner(20_000, "0.08") in found
    # The central limit says 0.0219.
    assert found.lower == pytest.approx(0.0423254, abs=1e-7)


def test_crowds_too_large_to_be_followed_have_a_mu_of_fewer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = privacy.FlippedBits(users=2_000, flip_probability="0.1")
    narrow = found.gaussian_mu()
    monkeypatch.setattr("chaffinch.privacy.mechanisms.bits._MOST_PRODUCTS", 10**4)
    wide = found.gaussian_mu()
    assert wide.lower <= narrow.upper
    assert corner(2_000, "0.1") * (1 - 1e-9) <= wide.lower
    assert narrow.upper < 1.1 * narrow.upper < wide.upper
    with pytest.raises(GuaranteeNotProven, match="mu"):
        found.gaussian_mu(relative_width=1e-3)


@pytest.mark.long
def test_a_million_people_have_a_mu() -> None:
    million = privacy.FlippedBits(users=10**6, flip_probability="0.1").gaussian_mu()
    fewer = privacy.FlippedBits(users=30_000, flip_probability="0.1").gaussian_mu()
    assert corner(10**6, "0.1") * (1 - 1e-9) <= million.lower < million.upper < fewer.upper


def test_one_order_alone_has_a_mu_of_its_own() -> None:
    whole = privacy.FlippedBits(users=30, flip_probability="0.2", decoys=20)
    orders = [_mu_of(side.bit_crowds, 1e-6) for side in whole.sides()]  # type: ignore[attr-defined]
    assert max(order.upper for order in orders) == pytest.approx(whole.gaussian_mu().upper)
    assert all(order.lower <= whole.gaussian_mu().upper for order in orders)


# ---------------------------------------------------------------- many rounds


def brute_mu(users: int, flip: Fraction, times: int) -> mpmath.mpf:
    """Return the largest mu over the crowds of all rounds, from every outcome of them."""
    chosen = product(exact.bits_pairs(users, flip), repeat=times)
    return mpm.gaussian_mu(reduce(exact.product, pairs) for pairs in chosen)


def test_brackets_of_rounds_hold_what_all_their_outcomes_show() -> None:
    for users, flip, times in ((2, "0.3", 2), (3, "0.2", 2), (2, "0.1", 3)):
        bit = privacy.FlippedBits(users=users, flip_probability=flip)
        found = privacy.compose(bit, times=times).gaussian_mu()
        assert brute_mu(users, Fraction(flip), times) in found


def test_ten_rounds_are_at_most_the_root_of_ten_times_one() -> None:
    found = TEN.gaussian_mu()
    assert found.relative_width < 1e-3
    assert found.upper <= math.sqrt(10) * 0.1113884835599643
    assert corner(100, "0.29", 10) <= found.upper


@pytest.mark.parametrize("times", [100, nightly(1_000)])
def test_many_rounds_are_at_most_the_root_of_so_many_times_one(times: int) -> None:
    bit = privacy.FlippedBits(users=100, flip_probability="0.29")
    found = privacy.compose(bit, times=times).gaussian_mu()
    root = math.sqrt(times) * 0.1113884835599643
    assert 0.96 * root < found.lower <= found.upper <= root * (1 + 1e-9)
    assert corner(100, "0.29", times) <= found.upper


def test_different_rounds_add_up_their_squares() -> None:
    parts: list[Mechanism] = [
        privacy.FlippedBits(users=100, flip_probability="0.29"),
        privacy.FlippedBits(users=50, flip_probability="0.1"),
        privacy.EncodedNumbers(users=50, resolution=3, flip_probability="0.2", slots="separate"),
    ]
    single = [part.gaussian_mu().upper for part in parts]
    found = privacy.compose(parts).gaussian_mu()
    assert max(part.gaussian_mu().lower for part in parts[:2]) <= found.upper
    assert found.upper <= math.hypot(*single) * (1 + 1e-12)


def test_one_round_is_its_part() -> None:
    bit = privacy.FlippedBits(users=100, flip_probability="0.29")
    assert privacy.compose(bit).gaussian_mu() == bit.gaussian_mu()
    assert privacy.compose([]).gaussian_mu() == privacy.compose([]).epsilon(0.1)


def test_an_infinite_loss_of_one_round_leaves_no_mu_of_all() -> None:
    clear = privacy.DecoyedValues(decoys=100, values=3)
    bit = privacy.FlippedBits(users=100, flip_probability="0.29")
    assert math.isinf(privacy.compose([clear, bit]).gaussian_mu().upper)


def test_what_was_cut_is_not_forgotten() -> None:
    bit = privacy.FlippedBits(users=100, flip_probability="0.29")
    cut = privacy.Shortened(bit, Fraction(1, 10**6))
    found, whole = (privacy.compose(one, times=10).gaussian_mu() for one in (cut, bit))
    # The chance of a cut is an infinite loss but for the local guarantee.
    assert found.upper > 2 * whole.upper
