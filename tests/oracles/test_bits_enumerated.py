"""One bit, copies and fake bits: every crowd enumerated with rationals."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from mpmath import mp

from chaffinch import privacy
from tests.cases import each_case
from tests.oracles import exact, judge, mpm
from tests.tiers import chequered

FLIPS = ["1/1000", "0.02", "0.1", "0.25", "0.49"]
SHARES = [0.0, 0.05, 0.25, 0.5, 0.9, 0.999999]
"""Epsilons, as shares of the local epsilon: beyond it nothing is left to find."""

DELTAS = [0.3, 1e-3, 1e-9, 1e-40]


def epsilons(flip: Fraction, copies: int) -> list[float]:
    local = copies * math.log((1 - flip) / flip)
    return [share * local for share in SHARES] + [1.0]


@each_case(("users", "copies"), chequered(((one,) for one in range(1, 13)), [1, 2, 3]))
def test_delta_bracket_contains_the_truth(users: int, copies: int) -> None:
    for name in FLIPS:
        flip = Fraction(name)
        pairs = list(exact.bits_pairs(users, flip, copies))
        mechanism = privacy.FlippedBits(users=users, flip_probability=flip, copies=copies)
        for epsilon in epsilons(flip, copies):
            bracket = mechanism.delta(epsilon)
            found = judge.complaint(bracket, judge.true_delta(pairs, epsilon))
            assert not found, (name, epsilon, found)
            assert bracket.relative_width <= 1e-9 or bracket.upper < 1e-300, (name, epsilon)


@each_case(("users", "decoys"), chequered(((users,) for users in (1, 2, 5, 8, 12)), [1, 3, 10]))
def test_delta_bracket_contains_the_truth_with_fake_bits(users: int, decoys: int) -> None:
    for name in FLIPS:
        flip = Fraction(name)
        for copies in (1, 3):
            pairs = list(exact.bits_pairs(users, flip, copies, decoys))
            mechanism = privacy.FlippedBits(
                users=users, flip_probability=flip, copies=copies, decoys=decoys
            )
            for epsilon in epsilons(flip, copies)[1::2]:
                truth = judge.true_delta(pairs, epsilon)
                found = judge.complaint(mechanism.delta(epsilon), truth)
                assert not found, (name, copies, epsilon, found)


@each_case(
    ("copies", "decoys", "users"),
    chequered([(1, 0), (1, 4), (2, 0), (3, 2)], [1, 2, 3, 7, 12]),
)
def test_epsilon_bracket_contains_the_truth(users: int, copies: int, decoys: int) -> None:
    for name in FLIPS:
        flip = Fraction(name)
        pairs = list(exact.bits_pairs(users, flip, copies, decoys))
        mechanism = privacy.FlippedBits(
            users=users, flip_probability=flip, copies=copies, decoys=decoys
        )
        for delta in DELTAS:
            bracket = mechanism.epsilon(delta)
            found = judge.epsilon_complaint(bracket, delta, partial(judge.true_delta, pairs))
            assert not found, (name, delta, found)
            assert bracket.upper <= mechanism.local_epsilon


@each_case("users", [1, 2, 6, 12])
@each_case(("copies", "decoys"), [(1, 0), (1, 4), (2, 0)])
def test_pointwise_bracket_contains_the_truth(users: int, copies: int, decoys: int) -> None:
    for name in FLIPS:
        flip = Fraction(name)
        pairs = list(exact.bits_pairs(users, flip, copies, decoys))
        mechanism = privacy.FlippedBits(
            users=users, flip_probability=flip, copies=copies, decoys=decoys
        )
        for epsilon in epsilons(flip, copies)[1:]:
            below, above = exact.exp_bounds(epsilon)
            truth = exact.worst_pointwise(pairs, above), exact.worst_pointwise(pairs, below)
            found = judge.complaint(mechanism.pointwise(epsilon), truth)
            assert not found, (name, epsilon, found)


@each_case("users", [1, 2, 5, 12])
@each_case(("copies", "decoys"), [(1, 0), (1, 4), (2, 0)])
def test_tradeoff_contains_the_truth(users: int, copies: int, decoys: int) -> None:
    alphas = np.array([0.0, 1e-9, 0.01, 0.1, 0.3, 0.5, 0.75, 0.99, 1.0])
    for name in FLIPS:
        flip = Fraction(name)
        corners = exact.envelope(exact.bits_pairs(users, flip, copies, decoys))
        curve = privacy.FlippedBits(
            users=users, flip_probability=flip, copies=copies, decoys=decoys
        ).tradeoff(alphas)
        for alpha, low, high in zip(alphas, curve.lower, curve.upper, strict=True):
            truth = exact.curve_at(corners, Fraction(float(alpha)))
            assert Fraction(float(low)) <= truth <= Fraction(float(high)), (name, alpha, low, high)
            assert high - low <= 1e-6, (name, alpha, low, high)


@each_case("users", [1, 2, 5, 12])
@each_case(("copies", "decoys"), [(1, 0), (1, 4), (2, 0)])
def test_gaussian_mu_bracket_contains_the_truth(users: int, copies: int, decoys: int) -> None:
    for name in FLIPS:
        flip = Fraction(name)
        truth = mpm.gaussian_mu(exact.bits_pairs(users, flip, copies, decoys))
        bracket = privacy.FlippedBits(
            users=users, flip_probability=flip, copies=copies, decoys=decoys
        ).gaussian_mu()
        with mp.workdps(60):
            assert mp.mpf(bracket.lower) <= truth <= mp.mpf(bracket.upper), (name, bracket, truth)
        assert bracket.relative_width <= 1e-6, (name, bracket)


@pytest.mark.parametrize("users", [1, 2, 6, 12])
def test_given_crowds_contain_the_truth(users: int) -> None:
    for name in FLIPS:
        flip = Fraction(name)
        mechanism = privacy.FlippedBits(users=users, flip_probability=flip, decoys=1)
        for ones in range(users):
            pair = exact.bits_pair(ones, users - ones, flip)
            for epsilon in epsilons(flip, 1)[1:4]:
                bracket = mechanism.crowd(ones=ones).delta(epsilon)
                found = judge.complaint(bracket, judge.true_delta([pair], epsilon))
                assert not found, (name, ones, epsilon, found)


@pytest.mark.parametrize("users", [6, 12, 60])
def test_every_crowd_is_covered(users: int) -> None:
    """No crowd exceeds the worst-crowd bracket, also where enumeration is larger."""
    for flip, epsilon in ((Fraction(1, 50), 0.2), (Fraction(1, 10), 0.7), (Fraction(3, 10), 0.1)):
        upper = privacy.FlippedBits(users=users, flip_probability=flip).delta(epsilon).upper
        ratio = exact.exp_bounds(epsilon)[1]
        worst = exact.worst_delta(exact.bits_pairs(users, flip), ratio)
        assert worst <= Fraction(upper)


def test_the_error_term_survives_near_the_local_epsilon() -> None:
    """One user, delta = p - e^epsilon q by hand: six digits cancel, so the roundoff must show."""
    flip, epsilon = Fraction(1, 1000), 6.906747871893775
    bracket = privacy.FlippedBits(users=1, flip_probability=flip).delta(epsilon)
    below, above = exact.exp_bounds(epsilon)
    assert not judge.complaint(bracket, (1 - flip - above * flip, 1 - flip - below * flip))
