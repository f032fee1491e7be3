"""The referees themselves: against definitions spelled out bit by bit, and against each other."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from itertools import combinations, product

import pytest
from flint import arb
from mpmath import mp

from tests.cases import each_case
from tests.oracles import balls, exact, exact_views, mpm

FLIPS = [Fraction(1, 10), Fraction(1, 3), Fraction(49, 100)]
RATIOS = [Fraction(1), Fraction(5, 4), Fraction(2), Fraction(5)]


def shown(truth: tuple[int, ...], flip: Fraction) -> Counter[tuple[int, ...]]:
    """Every way the bits of ``truth`` can be reported, with its chance."""
    out: Counter[tuple[int, ...]] = Counter()
    for report in product((0, 1), repeat=len(truth)):
        chance = Fraction(1)
        for told, true in zip(report, truth, strict=True):
            chance *= flip if told != true else 1 - flip
        out[report] = chance  # type: ignore[assignment]
    return out


def view(truth: tuple[int, ...], flip: Fraction, see: object) -> dict[object, Fraction]:
    assert callable(see)
    law: dict[object, Fraction] = {}
    for report, chance in shown(truth, flip).items():
        key = see(report)
        law[key] = law.get(key, Fraction(0)) + Fraction(chance)
    return law


def stick(one: dict[object, Fraction], two: dict[object, Fraction], ratio: Fraction) -> Fraction:
    return sum((max(Fraction(0), p - ratio * two.get(k, 0)) for k, p in one.items()), Fraction(0))


@each_case("flip", FLIPS)
@each_case("ratio", RATIOS)
def test_bits_are_what_reporting_bit_by_bit_gives(flip: Fraction, ratio: Fraction) -> None:
    users, copies = 3, 2
    worst = Fraction(0)
    for others in product((0, 1), repeat=users - 1):
        laws = [view((t, *others) * copies, flip, sum) for t in (0, 1)]
        worst = max(worst, stick(laws[0], laws[1], ratio), stick(laws[1], laws[0], ratio))
    assert exact.worst_delta(exact.bits_pairs(users, flip, copies), ratio) == worst


@pytest.mark.parametrize("ratio", RATIOS)
def test_fake_bits_are_flipped_zeros(ratio: Fraction) -> None:
    flip, worst = Fraction(1, 10), Fraction(0)
    for others in product((0, 1), repeat=2):
        laws = [view((t, *others, 0, 0), flip, sum) for t in (0, 1)]
        worst = max(worst, stick(laws[0], laws[1], ratio), stick(laws[1], laws[0], ratio))
    assert exact.worst_delta(exact.bits_pairs(3, flip, decoys=2), ratio) == worst


@each_case("rate", [Fraction(1), Fraction(1, 2), Fraction(2, 7)])
@each_case("ratio", RATIOS)
@each_case(("decoys", "values"), [(0, 2), (1, 2), (3, 2), (4, 3), (5, 4)])
def test_other_users_cancel_when_values_are_clear(
    decoys: int, values: int, ratio: Fraction, rate: Fraction
) -> None:
    formula = exact.decoyed_delta(decoys, values, ratio, rate)
    for others in exact.compositions(2, values):
        pair = exact.decoyed_pair(others, decoys, rate)
        assert pair.delta(ratio) == pair.reversed().delta(ratio) == formula


def one_hot_sums(report: tuple[int, ...], values: int) -> tuple[int, ...]:
    return tuple(sum(report[v::values]) for v in range(values))


@pytest.mark.parametrize("ratio", RATIOS)
def test_flipped_values_are_what_one_hot_reports_give(ratio: Fraction) -> None:
    flip, values, worst = Fraction(1, 10), 2, Fraction(0)
    hot = [tuple(int(v == held) for v in range(values)) for held in range(values)]
    for others in product(hot, repeat=2):
        laws: list[dict[object, Fraction]] = []
        for target in hot:
            mixed: dict[object, Fraction] = {}
            for decoy in hot:
                truth = sum((target, *others, decoy), ())
                for key, chance in view(truth, flip, lambda r: one_hot_sums(r, values)).items():
                    mixed[key] = mixed.get(key, Fraction(0)) + chance / values
            laws.append(mixed)
        worst = max(worst, stick(laws[0], laws[1], ratio), stick(laws[1], laws[0], ratio))
    assert exact.worst_delta(exact_views.flipped_values_pairs(3, 1, 2, flip), ratio) == worst


@pytest.mark.parametrize("ratio", RATIOS)
def test_third_values_cancel_without_decoys(ratio: Fraction) -> None:
    flip, users = Fraction(1, 5), 4
    for others in exact.compositions(users - 1, 3):
        whole = exact_views.flipped_values_pair(others, 0, flip)
        two = exact_views.two_sums_pair(others[0], others[1], users - 1, flip)
        assert whole.delta(ratio) == two.delta(ratio)


@pytest.mark.parametrize("ratio", RATIOS)
def test_vectors_are_what_every_crowd_and_pair_gives(ratio: Fraction) -> None:
    flip, bits, worst = Fraction(1, 5), 2, Fraction(0)
    rows = list(product((0, 1), repeat=bits))

    def multiset(report: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
        return tuple(sorted(zip(report[::bits], report[1::bits], strict=True)))

    for others in product(rows, repeat=2):
        laws = [view(sum((row, *others), ()), flip, multiset) for row in rows]
        for one, two in combinations(laws, 2):
            worst = max(worst, stick(one, two, ratio), stick(two, one, ratio))
    pairs = [pair for _, _, pair in exact_views.vectors_pairs(3, bits, flip)]
    assert exact.worst_delta(pairs, ratio) == worst


@each_case("resolution", [1, 2, 3])
@each_case("ratio", RATIOS)
def test_zero_against_one_is_the_worst_number(resolution: int, ratio: Fraction) -> None:
    flip, users = Fraction(1, 5), 3
    ends = exact.worst_delta(exact_views.separate_slots_pairs(users, resolution, flip), ratio)
    every = exact_views.separate_slots_pairs(users, resolution, flip, every_target=True)
    assert exact.worst_delta(every, ratio) == ends


def test_slots_together_are_a_view_of_slots_apart() -> None:
    for ratio in RATIOS:
        apart = exact.worst_delta(exact_views.separate_slots_pairs(3, 3, Fraction(1, 5)), ratio)
        whole = exact.worst_delta(exact_views.slots_together_pairs(3, 3, Fraction(1, 5)), ratio)
        assert whole <= apart


def test_trade_off_curve_and_delta_tell_the_same_story() -> None:
    """delta(eps) is the largest 1 - beta - e^eps alpha over corners (both orders)."""
    pairs = list(exact.bits_pairs(6, Fraction(1, 10)))
    corners = exact.envelope(pairs)
    assert corners[-1] == (Fraction(1), Fraction(0))
    for ratio in RATIOS:
        assert max(1 - beta - ratio * alpha for alpha, beta in corners) == exact.worst_delta(
            pairs, ratio
        )


@pytest.mark.parametrize("epsilon", [1e-9, 0.2, 1.0, 7.55, 40.0])
def test_exponential_bounds_enclose(epsilon: float) -> None:
    low, high = exact.exp_bounds(epsilon)
    with balls.precision(400):
        truth = balls.ball(epsilon).exp()
        assert balls.ball(low) < truth < balls.ball(high)
    assert high - low < low * Fraction(1, 10**58)


@pytest.mark.parametrize(
    ("ones", "zeros", "copies", "epsilon"),
    [(0, 9, 1, 0.5), (4, 5, 1, 0.0), (3, 20, 2, 1.0), (7, 0, 3, 2.0), (0, 0, 1, 0.3)],
)
def test_balls_contain_the_rational_truth(
    ones: int, zeros: int, copies: int, epsilon: float
) -> None:
    flip = Fraction(1, 7)
    pair = exact.bits_pair(ones, zeros, flip, copies)
    low, high = exact.exp_bounds(epsilon)
    found = balls.bits_delta(ones, zeros, flip, epsilon, copies)
    assert encloses(found, exact.worst_delta([pair], high), exact.worst_delta([pair], low))


def encloses(found: arb, low: Fraction, high: Fraction) -> bool:
    """Whether the ball meets [low, high] and is as narrow as promised."""
    with balls.precision(600):
        meets = balls.ball(low).union(balls.ball(high)).overlaps(found)
        return bool(meets and (high == 0 or found.rel_accuracy_bits() > 160))


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 2.0])
def test_other_balls_contain_the_rational_truth(epsilon: float) -> None:
    flip = Fraction(1, 5)
    low, high = exact.exp_bounds(epsilon)
    two = exact_views.two_sums_pair(2, 3, 6, flip)
    assert encloses(balls.two_sums_delta(2, 3, 6, flip, epsilon), two.delta(high), two.delta(low))
    found = balls.decoyed_delta(9, 3, epsilon, Fraction(2, 3))
    bounds = [exact.decoyed_delta(9, 3, ratio, Fraction(2, 3)) for ratio in (high, low)]
    assert encloses(found, *bounds)
    pair = exact_views.assumed_pair(5, 2, flip)
    up, down = balls.assumed_pair_deltas(5, 2, flip, epsilon)
    assert encloses(up, pair.reversed().delta(high), pair.reversed().delta(low))
    assert encloses(down, pair.delta(high), pair.delta(low))


def test_mpmath_agrees_with_balls() -> None:
    flip = Fraction(1, 50)
    with mp.workdps(60):
        one = mpm.bits_delta_by_tail(37, 62, flip, 0.2)
        two = mpm.bits_delta_by_tail(62, 37, flip, 0.2)
        ball = balls.bits_delta(37, 62, flip, 0.2)
        assert abs(max(one, two) - mp.mpf(ball.mid().str(60, radius=False))) < mp.mpf(10) ** -50


def test_windows_do_not_lose_mass() -> None:
    with balls.precision(300):
        law = balls.binomial(10**6, balls.ball(Fraction(1, 100)))
        assert len(law.weights) < 20_000
        assert sum(law.weights, law.missing).overlaps(balls.ball(1))
        assert law.missing < balls.ball(Fraction(1, 10**370))


def test_normal_quantile_inverts_the_normal() -> None:
    with mp.workdps(120):
        for x in ("-30", "-3.25", "0.001", "2"):
            assert abs(mpm.normal_quantile(mp.ncdf(mp.mpf(x))) - mp.mpf(x)) < mp.mpf(10) ** -50


def test_gaussian_mu_of_a_coin_is_known() -> None:
    """One user: corners (q, q), so mu is -2 times the normal quantile of q."""
    flip = Fraction(1, 4)
    with mp.workdps(50):
        mu = mpm.gaussian_mu(exact.bits_pairs(1, flip))
        assert abs(mu + 2 * mpm.normal_quantile(mp.mpf("0.25"))) < mp.mpf(10) ** -45
    assert math.isclose(float(mu), 1.3489795003921634, rel_tol=1e-15)
