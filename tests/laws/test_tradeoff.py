"""Laws of the trade-off curve and of the Gaussian parameter that covers it."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr, ndtri

from chaffinch import privacy
from chaffinch.privacy.tradeoff import mu_from_ends
from tests.laws.mechanisms import bits
from tests.tiers import slower

LEVELS = np.linspace(0.0, 1.0, 21)
levels = st.lists(st.floats(0.0, 1.0), min_size=3, max_size=12).map(lambda xs: np.array(sorted(xs)))
ROUND = 1e-12
"""What a few float operations in the *test* may cost."""


@slower
@given(mechanism=bits(60), alphas=levels)
def test_no_test_is_worse_than_guessing(mechanism: privacy.FlippedBits, alphas: np.ndarray) -> None:
    curve = mechanism.tradeoff(alphas)
    assert np.all(curve.lower >= 0.0)
    assert np.all(curve.lower <= curve.upper)
    assert np.all(curve.upper <= 1.0 - alphas + ROUND)


@slower
@given(mechanism=bits(60), alphas=levels)
def test_the_curve_does_not_rise(mechanism: privacy.FlippedBits, alphas: np.ndarray) -> None:
    curve = mechanism.tradeoff(alphas)
    assert np.all(curve.lower[1:] <= curve.upper[:-1] + ROUND)


@slower
@given(mechanism=bits(60), alphas=levels)
def test_the_curve_is_convex(mechanism: privacy.FlippedBits, alphas: np.ndarray) -> None:
    curve = mechanism.tradeoff(alphas)
    first, last = alphas[0], alphas[-1]
    if last > first:
        share = (alphas - first) / (last - first)
        chord = (1 - share) * curve.upper[0] + share * curve.upper[-1]
        assert np.all(curve.lower <= chord + ROUND)


@slower
@given(mechanism=bits(60))
def test_the_curve_is_its_own_inverse(mechanism: privacy.FlippedBits) -> None:
    """Both orders are in it, so f(f(alpha)) = alpha where f is not yet flat."""
    inner = LEVELS[1:-1]
    curve = mechanism.tradeoff(inner)
    assert np.all(mechanism.tradeoff(curve.upper).lower <= inner + ROUND)
    slack = math.exp(min(mechanism.local_epsilon, 30.0)) * 1e-9
    assert np.all(mechanism.tradeoff(curve.lower).upper >= inner - slack - ROUND)


@slower
@given(mechanism=bits(60), epsilon=st.floats(0.0, 5.0))
def test_every_line_of_delta_lies_below_the_curve(
    mechanism: privacy.FlippedBits, epsilon: float
) -> None:
    lines = 1.0 - mechanism.delta(epsilon).upper - math.exp(epsilon) * LEVELS
    assert np.all(lines <= mechanism.tradeoff(LEVELS).upper + ROUND)


@slower
@given(mechanism=bits(60))
def test_mu_covers_the_curve_everywhere(mechanism: privacy.FlippedBits) -> None:
    bracket = mechanism.gaussian_mu()
    inner = LEVELS[1:-1]
    curve = mechanism.tradeoff(inner)
    gaussian = ndtr(-ndtri(inner) - bracket.upper)
    assert np.all(gaussian <= curve.upper + ROUND)


@slower
@given(mechanism=bits(60), data=st.data())
def test_looser_upper_ends_never_give_a_smaller_mu(
    mechanism: privacy.FlippedBits, data: st.DataObject
) -> None:
    """Any upper ends are valid that are larger: what they prove of mu is no better."""
    nodes = mechanism.nodes()
    lower, upper = mechanism.profile(nodes)
    step, first = data.draw(st.integers(1, 5)), data.draw(st.integers(0, 4))
    raised = upper.copy()
    raised[first::step] = np.minimum(raised[first::step] * data.draw(st.floats(1.0, 3.0)), 1.0)
    local = mechanism.local_epsilon
    tight, loose = (mu_from_ends(nodes, lower, ends, local)[1] for ends in (upper, raised))
    assert mechanism.gaussian_mu().lower <= tight <= loose * (1 + 1e-9)


@slower
@given(mechanism=bits(60))
def test_mu_is_at_least_what_delta_at_zero_needs(mechanism: privacy.FlippedBits) -> None:
    """Total variation: delta(0) <= 2 Phi(mu/2) - 1."""
    total = mechanism.delta(0.0).lower
    assert total <= 2.0 * ndtr(mechanism.gaussian_mu().upper / 2.0) - 1.0 + ROUND
