"""Losses on a grid: dominating_loss pairs dominate, and the transform keeps its word."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr

from chaffinch.privacy.numerics.loss_grids import GridLoss, Rounds, dominating_loss, split_losses


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
    loss = dominating_loss(epsilons, deltas, 4.0 * mu / 500)
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
    pair = split_losses(np.array([-loss, loss]), np.array([flip, 1 - flip]), loss / 64)
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


def test_a_split_keeps_mass_and_mean() -> None:
    losses, mass = np.array([-0.313, 0.2, 0.777]), np.array([0.2, 0.5, 0.3])
    grid = split_losses(losses, mass, 0.1)
    weights = np.exp(grid.logs)
    assert weights.sum() == pytest.approx(1.0, rel=1e-14)
    assert (weights * grid.losses).sum() == pytest.approx((losses * mass).sum(), rel=1e-12)
