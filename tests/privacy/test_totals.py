"""Noisy totals: closed forms, laws that must hold, compositions, documents and refusals."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaffinch import privacy
from chaffinch.errors import InvalidInput
from chaffinch.privacy import NoisyTotals
from chaffinch.privacy.mechanism_documents import mechanism_document, mechanism_from
from chaffinch.privacy.numerics.discrete_noise import GaussianSum
from tests.cases import each_case
from tests.laws.mechanisms import epsilons, scales, totals
from tests.tiers import slower


def gaussian_delta(mu: float, epsilon: float) -> float:
    """Return the delta of a continuous Gaussian."""

    def below(x: float) -> float:
        return 0.5 * math.erfc(-x / math.sqrt(2))

    return below(mu / 2 - epsilon / mu) - math.exp(epsilon) * below(-mu / 2 - epsilon / mu)


# ---------------------------------------------------------------- closed forms and golden values


@each_case("epsilon", [0.0, 0.25, 0.999])
def test_one_count_with_laplace_noise_is_a_randomized_response(epsilon: float) -> None:
    """Its loss is 1/scale or minus that, as of one who lies with 1/(1 + e^(1/scale))."""
    found = NoisyTotals(law="laplace", scale=1).delta(epsilon)
    truth = -math.exp(epsilon) * math.expm1(1 - epsilon) / -(1 + math.e)
    assert found.lower * (1 - 1e-14) <= truth <= found.upper * (1 + 1e-14)
    assert found.relative_width < 1e-14


def test_laplace_noise_needs_no_delta() -> None:
    pure = NoisyTotals(law="laplace", scale=2, counts=2)
    assert (pure.delta(1.0).upper, pure.delta(0.999).upper > 0) == (0.0, True)
    steps = NoisyTotals(law="laplace", scale=300, steps=150)
    assert (steps.delta(0.5).upper, steps.delta(0.4999).upper > 0) == (0.0, True)


@each_case("epsilon", [0.1, 1.0, 3.0])
def test_a_large_scale_is_nearly_continuous(epsilon: float) -> None:
    fine = NoisyTotals(law="gaussian", scale=4000, steps=1000)
    assert fine.delta(epsilon).upper == pytest.approx(gaussian_delta(0.25, epsilon), rel=2e-3)
    several = NoisyTotals(law="gaussian", scale=40, counts=100)
    assert several.delta(epsilon).upper == pytest.approx(gaussian_delta(0.25, epsilon), rel=2e-2)


def test_sums_of_gaussians_agree_where_both_ways_are_open() -> None:
    """Just below the scale from which sums are taken for Gaussian they are convolved."""
    below, above = GaussianSum(3, Fraction(249, 100)), GaussianSum(3, Fraction(5, 2))
    for law in (below, above):
        mass, relative = law.masses(-60, 121)
        assert abs(float(mass.sum()) - 1) < 1e-15
        spread = float((mass * np.arange(-60, 61.0) ** 2).sum())
        assert spread == pytest.approx(float(law.variance), rel=1e-12)
        assert relative < 1e-13


# ---------------------------------------------------------------- laws


@given(mechanism=totals, more=scales, epsilon=epsilons)
def test_delta_falls_as_the_scale_rises(
    mechanism: NoisyTotals, more: Fraction, epsilon: float
) -> None:
    fields: dict[str, Any] = {
        "law": mechanism.law,
        "counts": mechanism.counts,
        "steps": mechanism.steps,
    }
    if mechanism.law == "gaussian" and mechanism.scale < 2:
        return  # between so few places more noise need not be less of a sign, in the last digits
    wider = NoisyTotals(**fields, scale=mechanism.scale + more)
    assert wider.delta(epsilon).lower <= mechanism.delta(epsilon).upper


@given(mechanism=totals, epsilon=epsilons)
def test_moving_more_never_hides_more(mechanism: NoisyTotals, epsilon: float) -> None:
    law, scale = mechanism.law, mechanism.scale
    alone = mechanism.counts == 1
    more = {"steps": mechanism.steps + 1} if alone else {"counts": mechanism.counts + 1}
    assert (
        mechanism.delta(epsilon).lower
        <= NoisyTotals(law=law, scale=scale, **more).delta(epsilon).upper
    )


@given(mechanism=totals, epsilon=epsilons)
def test_brackets_are_narrow(mechanism: NoisyTotals, epsilon: float) -> None:
    found = mechanism.delta(epsilon)
    assert found.upper - found.lower <= 1e-11 * found.upper + 1e-300


@slower
@given(mechanism=totals, times=st.integers(2, 5))
def test_rounds_are_as_many_counts(mechanism: NoisyTotals, times: int) -> None:
    """Of counts that move by 1 the composition of rounds is the same mechanism of more counts."""
    if mechanism.steps > 1 or mechanism.counts * times > 12:
        return
    fields: dict[str, Any] = {"law": mechanism.law, "scale": mechanism.scale}
    whole = NoisyTotals(**fields, counts=mechanism.counts * times)
    rounds = privacy.compose(mechanism, times=times)
    end = 0.4 * mechanism.counts * times / float(mechanism.scale)
    one, other = whole.delta(end), rounds.delta(end)
    assert one.lower <= other.upper * (1 + 1e-9)
    assert other.lower <= one.upper * (1 + 1e-9)
    assert other.upper <= 1.2 * one.upper + 1e-12


def test_a_composition_says_both_views() -> None:
    bits = privacy.FlippedBits(users=100, flip_probability="1/4")
    both = privacy.compose([bits, NoisyTotals(law="laplace", scale=2)])
    assert both.view == "messages and totals"
    assert both.local_epsilon == math.inf
    assert both.epsilon(1e-6).upper <= bits.epsilon(1e-6).upper + 0.5 + 1e-6


def test_what_is_promised_names_the_view() -> None:
    promise = NoisyTotals(law="laplace", scale=1).guarantee(delta=1e-9)
    assert str(promise) == (
        "(1, 1e-09)-differential privacy, proven (exact); neighbours: replace-one; view: totals; "
        "crowd: any people, added up by one trusted party; local epsilon against whoever adds up: "
        "infinite (no protection)"
    )


@given(mechanism=totals)
def test_a_document_is_read_back(mechanism: NoisyTotals) -> None:
    assert mechanism_from(mechanism_document(mechanism)) == mechanism


@each_case(
    "fields",
    [
        {"law": "normal", "scale": 1},
        {"law": "laplace", "scale": 0},
        {"law": "laplace", "scale": math.nan},
        {"law": "gaussian", "scale": 2**21},
        {"law": "gaussian", "scale": 1, "counts": 0},
        {"law": "gaussian", "scale": 1, "steps": 1.5},
        {"law": "laplace", "scale": 1, "counts": 2, "steps": 2},
        {"law": "laplace", "scale": 2**-21},
    ],
)
def test_other_parameters_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        NoisyTotals(**fields)


def test_sums_that_take_long_are_said_to() -> None:
    """A plan claims nothing of them: whoever verifies a file would wait."""
    assert not NoisyTotals(law="gaussian", scale=10**6).takes_minutes
    assert NoisyTotals(law="gaussian", scale=10**6, counts=10_000).takes_minutes
    assert not NoisyTotals(law="laplace", scale=2**39, counts=10_000).takes_minutes
