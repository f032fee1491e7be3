"""Gaussian differential privacy: of large crowds, and of many rounds."""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from functools import reduce
from itertools import product

import mpmath
import numpy as np
import pytest

from chaffinch import privacy
from chaffinch.errors import GuaranteeNotProven
from chaffinch.privacy.mechanism import Mechanism
from chaffinch.privacy.mechanisms.bits import _mu_of
from chaffinch.privacy.tradeoff import corner_worths, mu_with, search_mu
from tests.cases import each_case
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


def worth_of_noise(scale: str, move: int, test: int) -> mpmath.mpf:
    """Return what a threshold is worth where discrete Gaussian noise is moved, in many digits."""
    with mpmath.workdps(60):
        variance = mpmath.mpf(scale) ** 2

        def log_tail(start: int) -> mpmath.mpf:
            # Relative to the first term, so that nothing is too small; of all numbers from −far.
            least = max(start, -far)
            falls = (least * least - z * z for z in range(least, max(least, 0) + far))
            rest = mpmath.fsum(mpmath.exp(fall / (2 * variance)) for fall in falls)
            return mpmath.log(rest) - mpmath.mpf(least * least) / (2 * variance)

        far = int(16 * mpmath.mpf(scale)) + 8
        total = log_tail(-far)

        def place(start: int) -> mpmath.mpf:
            """Return −Φ⁻¹(P[Z ≥ start])."""
            if start <= 0:
                return -place(1 - start)
            return -quantile(log_tail(start) - total)

        return place(test) - place(test - move)


@each_case(
    ("scale", "steps", "tests"),
    [
        ("2", 1, range(1, 40)),
        ("0.5", 1, range(1, 40)),
        ("2", 5, range(3, 40)),
        ("2", 1, (64, 65, 100, 500, 10_000)),  # behind what is summed, where a proof says it
        ("0.5", 3, (64, 70, 1_000)),
        ("10", 1, (1, 2, 10, 100, 2_000, 50_000)),
    ],
)
def test_no_test_of_gaussian_noise_beats_mu_and_one_reaches_it(
    scale: str, steps: int, tests: Iterable[int]
) -> None:
    found = privacy.NoisyTotals(law="gaussian", scale=scale, steps=steps).gaussian_mu()
    assert found.relative_width < 1e-7
    worths = [worth_of_noise(scale, steps, test) for test in tests]
    assert max(worths) <= found.upper
    if 1 in tests or 3 in tests:
        assert found.lower <= max(worths)
        # A law that is a millionth wider is another one.
        less = worth_of_noise(str(float(scale) * (1 + 1e-6)), steps, (2 + steps) // 2)
        assert less < found.lower


def test_mu_of_several_counts_is_that_of_their_sum_and_bounds_every_delta() -> None:
    for scale, counts, steps in (("3", 4, 1), ("2.5", 2, 3)):
        noise = privacy.NoisyTotals(law="gaussian", scale=scale, counts=counts, steps=steps)
        mu = noise.gaussian_mu()
        alone = privacy.NoisyTotals(law="gaussian", scale=scale, counts=1, steps=steps)
        assert mu.upper <= alone.gaussian_mu().upper * math.sqrt(counts) * (1 + 1e-9)
        for epsilon in (0.0, 0.5, 2.0):
            far, near = (
                mpmath.ncdf(mu.upper / 2 - epsilon / mu.upper),
                mpmath.ncdf(-mu.upper / 2 - epsilon / mu.upper),
            )
            assert noise.delta(epsilon).lower <= far - mpmath.exp(epsilon) * near
        # The profile alone sees nearly as much.
        assert mu.lower <= Mechanism.gaussian_mu(noise).lower * (1 + 1e-4) <= mu.upper * 1.001


def test_mu_of_noise_that_is_not_followed_is_not_bounded() -> None:
    assert privacy.NoisyTotals(law="gaussian", scale=1, counts=2).gaussian_mu().upper == math.inf
    wide = privacy.NoisyTotals(law="gaussian", scale=16_000).gaussian_mu()
    assert 1 / 16_000 <= wide.upper < 1.00001 / 16_000


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
    # So few flips that there is no ridge to follow.
    found = privacy.FlippedBits(users=800, flip_probability="0.1")
    narrow = found.gaussian_mu()
    monkeypatch.setattr("chaffinch.privacy.mechanisms.bits._MOST_PRODUCTS", 10**4)
    wide = found.gaussian_mu()
    assert wide.lower <= narrow.upper
    assert corner(800, "0.1") * (1 - 1e-9) <= wide.lower
    assert narrow.upper < 1.1 * narrow.upper < wide.upper
    with pytest.raises(GuaranteeNotProven, match="mu"):
        found.gaussian_mu(relative_width=1e-3)


@pytest.mark.long
def test_along_the_ridge_mu_is_nearly_what_sums_say(monkeypatch: pytest.MonkeyPatch) -> None:
    for users, flip, more in ((2_000, "0.1", {}), (900, "0.3", {"decoys": 500})):
        found = privacy.FlippedBits(users=users, flip_probability=flip, **more)
        narrow = found.gaussian_mu()
        with monkeypatch.context() as changed:
            changed.setattr("chaffinch.privacy.mechanisms.bits._MOST_PRODUCTS", 10)
            wide = found.gaussian_mu()
        assert wide.lower <= narrow.upper
        assert narrow.lower <= wide.upper
        assert wide.relative_width < 3e-3


def worth(users: int, flip: str, ones: int, most: int) -> mpmath.mpf:
    """Return what the test "at most so many" is worth in a crowd with so many ones."""
    with mpmath.workdps(60):
        q = mpmath.mpf(flip)
        masses = [mpmath.mpf(0)] * (most + 1)
        zeros = users - 1 - ones
        plain = [mpmath.exp(zeros * mpmath.log(1 - q))]
        for s in range(most):
            plain.append(plain[-1] * (zeros - s) / (s + 1) * q / (1 - q))
        for held in range(min(ones, most) + 1):
            share = mpmath.binomial(ones, held) * (1 - q) ** held * q ** (ones - held)
            for s in range(held, most + 1):
                masses[s] += share * plain[s - held]
        below, at = mpmath.fsum(masses[:-1]), masses[-1]
        # The target adds a one with q, or with 1 − q.
        level, power = below + at * q, below + at * (1 - q)
        return quantile(mpmath.log(power)) - quantile(mpmath.log(level))


@pytest.mark.parametrize(
    ("users", "flip", "most"),
    [(10**6, "0.1", 54), nightly(10**5, "0.3", 2517), nightly(10**9, "0.1", 54_000)],
)
def test_mu_of_any_crowd_is_known_to_a_thousandth(users: int, flip: str, most: int) -> None:
    found = privacy.FlippedBits(users=users, flip_probability=flip).gaussian_mu()
    assert found.relative_width < 2e-3
    # The best test in the worst crowd, found by trying all of them.
    assert worth(users, flip, 0, most) in found
    assert worth(users, flip, 3, most) <= found.upper


def test_a_lower_end_from_the_rarest_outcome_is_not_rounded_above_it() -> None:
    for users, flip in ((10**6, "0.45"), (10**9, "0.4"), (10**9, "0.1")):
        seen = privacy.FlippedBits(users=users, flip_probability=flip).bit_crowds.corner_mu
        assert corner(users, flip) * (1 - mpmath.mpf("1e-4")) < seen <= corner(users, flip)


# ---------------------------------------------------------------- from deltas of any depth


def log_delta(epsilon: float, mu: float) -> float:
    """Return the logarithm of a Gaussian mechanism's delta."""
    with mpmath.workdps(120):
        far, near = (mpmath.mpf(epsilon) / mu + side * mpmath.mpf(mu) / 2 for side in (1, -1))
        tails = [mpmath.erfc(z / mpmath.sqrt(2)) / 2 for z in (near, far)]
        return float(mpmath.log(tails[0] - mpmath.exp(epsilon) * tails[1]))


def test_a_gaussian_delta_gives_its_own_mu_from_below() -> None:
    for mu, spreads in product((1e-4, 0.02, 1.0, 7.0), (0.01, 1.0, 30.0, 300.0)):
        found = mu_with(mu * spreads, log_delta(mu * spreads, mu))
        assert mu * (1 - 1e-4) < found <= mu
    assert mu_with(1.0, -math.inf) == mu_with(1.0, 0.0) == 0.0


def test_lines_of_a_gaussian_curve_give_its_mu_from_above() -> None:
    for mu in (0.01, 0.5):
        # Down to e^−7200; a loss above that counts as the largest one.
        steepest = 120.0 * mu
        nodes = steepest * np.linspace(0.0, 1.0, 400)[:-1]
        logs = np.array([log_delta(float(node), mu) for node in nodes])
        found = corner_worths(np.append(nodes, steepest), np.append(logs, -math.inf))
        assert np.all(found >= mu)
        assert found[20:-1].max() < 1.06 * mu
        assert corner_worths(nodes[:2], np.array([-1.0, -1.0])) == np.inf


def test_a_search_for_mu_uses_what_is_known() -> None:
    asked = []

    def known(epsilon: float, *, upto: float = 1.0) -> tuple[float, float] | None:
        asked.append(epsilon)
        log = log_delta(epsilon, 0.1)
        return (log - 1e-9, log + 1e-9) if epsilon <= upto else None

    low, high = search_mu(known, 2.0, seen=0.0, width=1e-2, most=300)
    assert low <= 0.1 <= high
    least, most = search_mu(lambda e: known(e, upto=0.5), 2.0, seen=0.05, width=1e-2, most=300)
    assert least <= 0.1 <= high < most < 1.0
    assert search_mu(lambda _: None, 2.0, seen=0.07, width=1e-2, most=300) == (0.07, math.inf)
    from_one = search_mu(lambda e: known(e) if e else None, 2.0, seen=0.0, width=1e-2, most=300)
    assert math.isinf(from_one[1])
    asked.clear()
    search_mu(known, 2.0, seen=0.0, width=1e-9, most=40)
    assert len(asked) <= 42


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


def test_ten_rounds_are_at_most_the_root_of_ten_times_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chaffinch.privacy.composition._MOST_FOLLOWED", 10)
    found = TEN.gaussian_mu()
    assert found.relative_width < 1e-3
    assert found.upper <= math.sqrt(10) * 0.1113884835599643
    assert corner(100, "0.29", 10) <= found.upper


@pytest.mark.long
@pytest.mark.parametrize("times", [100, 1_000])
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
    # Nor is it known from below: the first crowd of decoys tells nothing.
    assert clear.seen_mu(2) == 0
    assert privacy.compose([clear, bit]).gaussian_mu().lower < 1


def test_what_was_cut_is_not_forgotten() -> None:
    bit = privacy.FlippedBits(users=100, flip_probability="0.29")
    cut = privacy.Shortened(bit, Fraction(1, 10**6))
    found, whole = (privacy.compose(one, times=10).gaussian_mu() for one in (cut, bit))
    # The chance of a cut is an infinite loss but for the local guarantee.
    assert found.upper > 2 * whole.upper
