"""Losses on a grid: dominating_loss pairs dominate, and the transform keeps its word."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.special import ndtr

from chaffinch.privacy.numerics.loss_grids import (
    GridLoss,
    Kinks,
    Rounds,
    convex_profiles,
    dominated_loss,
    dominating_loss,
)
from tests.cases import each_case

Floats = NDArray[np.float64]


def hockey_stick(loss: GridLoss, epsilon: float) -> float:
    """Return the delta of one round directly from its masses."""
    finite = sum(
        mass * -math.expm1(epsilon - y)
        for mass, y in zip(np.exp(loss.logs), loss.losses, strict=True)
        if y > epsilon
    )
    return float(finite) + loss.infinite


def gaussian(epsilon: float, mu: float, leak: float) -> float:
    """Return the profile of a Gaussian mechanism that gives all away with chance ``leak``."""
    kept = ndtr(mu / 2 - epsilon / mu) - math.exp(epsilon) * ndtr(-mu / 2 - epsilon / mu)
    return leak + (1 - leak) * float(kept)


@given(st.floats(0.05, 3.0), st.floats(0.001, 0.05))
def test_the_pair_of_a_profile_has_that_profile(mu: float, leak: float) -> None:
    """A true profile comes back at its nodes, and from above between them."""
    epsilons = np.linspace(0.0, 4.0 * mu, 40)
    deltas = np.array([gaussian(float(e), mu, leak) for e in epsilons])
    loss = dominating_loss(epsilons, deltas, 4.0 * mu / 512)
    for epsilon, delta in zip(epsilons, deltas, strict=True):
        found = hockey_stick(loss, float(epsilon))
        assert found >= delta * (1 - 1e-12)
        assert found <= delta * 1.01 + 1e-9
    between = 0.5 * (epsilons[3] + epsilons[4])
    assert hockey_stick(loss, between) >= gaussian(float(between), mu, leak)


@given(st.floats(0.02, 0.45), st.integers(1, 8), st.floats(0.0, 6.0))
def test_rounds_of_one_coin(flip: float, times: int, epsilon: float) -> None:
    """Randomized response: the total loss is a binomial number of steps."""
    loss = math.log((1 - flip) / flip)
    pair = GridLoss(loss, np.array([-1, 1]), np.array([flip, 1 - flip]))
    value, doubt = Rounds(((pair, times),)).delta(epsilon)
    truth = sum(
        math.comb(times, k)
        * (1 - flip) ** k
        * flip ** (times - k)
        * max(0.0, -math.expm1(epsilon - (2 * k - times) * loss))
        for k in range(times + 1)
    )
    assert abs(value - truth) <= doubt + 1e-12 * truth
    assert doubt <= 1e-9 * truth + 1e-14


def laws(seed: int, size: int) -> tuple[Floats, Floats]:
    """Return two laws over the same outcomes, some of which only one of them has."""
    draw = np.random.default_rng(seed)
    first, second = draw.dirichlet(np.full(size, 0.5)), draw.dirichlet(np.full(size, 0.5))
    first[0], second[-1] = 0.0, 0.0
    return first / first.sum(), second / second.sum()


def direct(first: Floats, second: Floats, epsilon: float) -> float:
    return float(np.maximum(first - math.exp(epsilon) * second, 0.0).sum())


@pytest.mark.parametrize("size", [2, 3, 8, 200])
@given(seed=st.integers(0, 10**6), step=st.sampled_from([0.3, 0.05, 0.004]))
def test_what_an_observer_may_merge_is_below_the_pair_and_not_far(
    size: int, seed: int, step: float
) -> None:
    first, second = laws(seed, size)
    merged = dominated_loss(first, second, step, lacking=1e-18, most=30.0)
    assert merged.mass.sum() <= 1 + 1e-12
    assert merged.moved <= 1e-9 * step + 1e-12
    for epsilon in (-3.0, -0.5, 0.0, 0.4, 1.0, 2.5, 6.0):
        truth = direct(first, second, epsilon)
        found = hockey_stick(merged, epsilon + merged.moved)
        assert found <= truth + 1e-12
        assert truth <= found + math.expm1(step) * 1.01 + 1e-9


def test_masses_that_may_be_lacking_are_taken_from_the_largest_ratios() -> None:
    first, second = np.array([1e-12, 0.5, 0.5 - 1e-12]), np.array([1e-30, 0.3, 0.7])
    merged = dominated_loss(first, second, 0.01, lacking=1e-18, most=60.0)
    assert merged.losses[-1] == pytest.approx(math.log(1e-12 / 1e-18), abs=0.02)
    lowered = dominated_loss(first, second, 0.01, lacking=1e-18, most=5.0)
    assert lowered.losses[-1] <= 5.0


def test_a_law_on_the_grid_stays_as_it_is() -> None:
    places = np.array([-3, 0, 2, 7])
    first = np.array([0.1, 0.3, 0.4, 0.2])
    second = first * np.exp(-0.25 * places)
    merged = dominated_loss(first, second, 0.25, lacking=1e-300, most=30.0)
    assert merged.places.tolist() == places.tolist()
    assert merged.mass == pytest.approx(first, rel=1e-12)


@given(st.floats(0.0, 0.02), st.integers(0, 10**6))
def test_a_rough_profile_never_makes_more_than_a_whole_law(noise: float, seed: int) -> None:
    """Close nodes and upper ends that are not tight: the slope at 0 is still that of a pair."""
    # The two orders are rough at different places.
    rough = 1 + noise * np.random.default_rng(seed).random((2, 200))
    epsilons = 3.0 * np.linspace(0.0, 1.0, 200) ** 1.5
    ends = np.array([gaussian(float(e), 0.5, 0.0) for e in epsilons]) * rough
    kinks = Kinks.of_profile(epsilons, *ends)
    for step in (0.1, 1e-3, 1e-5):
        loss = kinks.on_grid(step)
        assert loss.mass.sum() + loss.infinite <= 1 + 1e-11
        for epsilon in (0.0, 0.01, 0.2, 1.0):
            assert hockey_stick(loss, epsilon) >= gaussian(epsilon, 0.5, 0.0) * (1 - 1e-12)


def test_a_finer_grid_that_holds_the_coarser_one_is_never_looser() -> None:
    epsilons = np.linspace(0.0, 3.0, 60)
    deltas = np.array([gaussian(float(e), 0.5, 0.0) for e in epsilons])
    kinks = Kinks.of_profile(epsilons, deltas)
    grids = [kinks.on_grid(3.0 / 2**power) for power in range(4, 16)]
    for coarse, fine in itertools.pairwise(grids):
        for epsilon in (0.0, 0.3, 1.1):
            assert hockey_stick(fine, epsilon) <= hockey_stick(coarse, epsilon) * (1 + 1e-11)


def test_every_second_point_of_a_grid_holds_a_pair_that_dominates() -> None:
    epsilons = np.linspace(0.0, 3.0, 60)
    deltas = np.array([gaussian(float(e), 0.5, 1e-4) for e in epsilons])
    fine = Kinks.of_profile(epsilons, deltas).on_grid(3.0 / 2**9)
    coarse = fine.coarser
    assert coarse.step == 2 * fine.step
    assert coarse.infinite == fine.infinite
    assert coarse.mass.sum() == pytest.approx(fine.mass.sum(), abs=1e-12)
    others = [(loss.mass * np.exp(-loss.losses)).sum() for loss in (coarse, fine)]
    assert others[0] == pytest.approx(others[1], abs=1e-12)
    for epsilon in np.linspace(0.0, 3.0, 100):
        exact, above = hockey_stick(fine, float(epsilon)), hockey_stick(coarse, float(epsilon))
        assert exact <= above <= exact * 1.01 + 1e-9


@each_case("rarity", [1e-3, 1e-9, 1e-15])
@each_case("loss", [1.0, 5.0, 30.0])
def test_the_tilt_is_found_however_rare_large_losses_are(rarity: float, loss: float) -> None:
    places = np.array([-64, 0, 64])
    masses = np.array([rarity * math.exp(-loss), 1 - rarity * (1 + math.exp(-loss)), rarity])
    rounds = Rounds(((GridLoss(loss / 64, places, masses), 2),))
    for epsilon in (0.1 * loss, 0.9 * loss, 1.5 * loss, 2 * loss, 3 * loss):
        totals = np.add.outer(places, places).ravel() * (loss / 64)
        chances = np.multiply.outer(masses, masses).ravel()
        above = totals > epsilon * (1 + 1e-12)
        truth = float((chances[above] * -np.expm1(epsilon - totals[above])).sum())
        value, doubt = rounds.delta(epsilon)
        assert abs(value - truth) <= doubt
        assert doubt <= truth + 1e-28


def test_profiles_of_losses_near_the_end_of_the_floats_are_convex() -> None:
    epsilons = 600.0 * np.linspace(0.0, 1.0, 65) ** 2
    ends = np.full(65, 0.25)
    (_, one), (_, two) = convex_profiles(epsilons, ends, np.minimum(ends, 0.125))
    assert one[0] == two[0] == 0.125
    ends[0] = 1.0
    (_, one), _ = convex_profiles(epsilons, ends, ends)
    rise = math.expm1(float(epsilons[1]))
    assert one[0] == pytest.approx((rise + 2 * 0.25) / (rise + 2))
