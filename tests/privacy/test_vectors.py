"""Flipped vectors: proven for all crowds and pairs, and honest about what is assumed."""

from __future__ import annotations

import math
from fractions import Fraction
from math import comb
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaffinch.errors import InvalidInput
from chaffinch.privacy.mechanisms.bits import FlippedBits
from chaffinch.privacy.mechanisms.records import FlippedVectors
from chaffinch.privacy.numerics.bit_words import BitWords, SmallCrowds
from chaffinch.privacy.numerics.precision import exp_ends
from chaffinch.privacy.numerics.sums import FiniteLaw, mean_positive_part
from tests.cases import each_case
from tests.oracles import balls, exact, exact_views, judge
from tests.tiers import chequered, nightly

flips = st.fractions(Fraction(1, 50), Fraction(49, 100), max_denominator=500)
small = st.builds(
    FlippedVectors, users=st.integers(1, 40), bits=st.integers(2, 4), flip_probability=flips
)


def vectors(users: int, bits: int, flip: Any) -> FlippedVectors:
    return FlippedVectors(users=users, bits=bits, flip_probability=flip)


@each_case(
    ("users", "bits", "flip"),
    [
        *chequered([(1, 2), (2, 2), (5, 2), (7, 2), (3, 3)], ["0.03", "0.15", "0.4"]),
        *(nightly(4, 3, flip) for flip in ("0.03", "0.15", "0.4")),
    ],
)
def test_no_crowd_and_no_pair_is_above_the_bound(users: int, bits: int, flip: str) -> None:
    pairs = [pair for *_, pair in exact_views.vectors_pairs(users, bits, Fraction(flip))]
    mechanism = vectors(users, bits, flip)
    for epsilon in (0.0, 0.7, 2.0, 0.97 * mechanism.local_epsilon):
        found = judge.complaint(mechanism.delta(epsilon), judge.true_delta(pairs, epsilon))
        assert not found, (epsilon, found)


@pytest.mark.parametrize("delta", [0.2, 1e-2, 1e-5])
def test_epsilon_holds_for_every_crowd(delta: float) -> None:
    pairs = [pair for *_, pair in exact_views.vectors_pairs(5, 2, Fraction(1, 5))]
    bracket = vectors(5, 2, "0.2").epsilon(delta)
    found = judge.epsilon_complaint(bracket, delta, lambda e: judge.true_delta(pairs, e))
    assert not found


def test_a_crowd_worse_than_the_assumed_pair_is_found() -> None:
    mechanism = vectors(7, 2, "0.15")
    assert mechanism.assumed_pair().delta(2.0).upper < 0.0792
    assert mechanism.delta(2.0).lower == pytest.approx(0.0849562, abs=1e-7)


def one_word_law(
    words: BitWords, distance: int, joined: int, apart: int, growth: Fraction
) -> FiniteLaw:
    """Return the variable of δ = E[(X₁+…+X_N)₊]/N where all others hold one word.

    The target's words differ in ``distance`` bits. The others' word is like the second of them
    in ``joined`` of these, and unlike both in ``apart`` of the bits that both share.
    """
    flip = words.flip

    def chance(wrong: int, size: int) -> Fraction:
        return flip**wrong * (1 - flip) ** (size - wrong)

    values, chances = [], []
    for a in range(distance - joined + 1):
        for b in range(joined + 1):
            told = chance(a + b, distance) - growth * chance(distance - a - b, distance)
            others = chance(a + joined - b, distance)
            # Bits in which all three words are alike change neither ratio nor chance.
            for c in range(apart + 1):
                told_c, others_c = told * chance(c, apart), others * chance(apart - c, apart)
                ways = comb(distance - joined, a) * comb(joined, b) * comb(apart, c)
                values.append(told_c / others_c)
                chances.append(ways * others_c)
    return values, chances


@pytest.mark.parametrize(
    ("users", "bits", "flip", "delta", "more"),
    [(1000, 8, "0.3", 1e-6, 1.0), (100, 4, "0.1", 1e-2, 4.9), (1000, 4, "0.1", 1e-6, 2.08)],
)
def test_no_crowd_of_one_word_is_worse_than_the_worst_found(
    users: int, bits: int, flip: str, delta: float, more: float
) -> None:
    """Any word of the others, any pair of the target: up to five times the assumed pair."""
    words, mechanism = BitWords(bits, Fraction(flip)), vectors(users, bits, flip)
    epsilon = mechanism.assumed_pair().epsilon(delta).lower
    found = mechanism.found_delta(epsilon)
    assert found == pytest.approx(more * delta, rel=0.02)
    growth = exp_ends(epsilon)[1]
    every = [
        mean_positive_part(
            one_word_law(words, distance, joined, apart, growth), users, relative_width=1e-2
        )
        for distance in range(1, bits + 1)
        for joined in range(distance + 1)
        for apart in ({0, bits - distance} if bits > 4 else range(bits - distance + 1))
    ]
    assert max(one.lower for one in every) <= found * (1 + 1e-3)
    assert max(one.upper for one in every) >= found


def test_crowds_of_the_complement_are_exact() -> None:
    flip, users, bits = Fraction(1, 5), 4, 2
    words = BitWords(bits, flip)
    for epsilon in (0.3, 1.5):
        growth = exp_ends(epsilon)[1]
        for distance in (1, 2):
            # The first word is zero, the second has set bits on the left.
            second = (1 << bits) - (1 << (bits - distance))
            laws = []
            for held in (0, second):
                law = {(0,) * (1 << bits): 1}
                for word in [held] + [(1 << bits) - 1] * (users - 1):
                    law = exact_views.add_row(law, exact_views.row_weights(word, bits, flip))
                laws.append(law)
            truth = exact.Pair(
                tuple(laws[0].values()),
                tuple(laws[1][key] for key in laws[0]),
                sum(laws[0].values()),
            ).delta(growth)
            found = mean_positive_part(
                words.complements(distance, growth), users, relative_width=1e-6
            )
            assert found.lower <= truth <= found.upper, distance
            assert found.upper - found.lower <= 2e-6 * found.upper + 1e-300


def test_small_crowds_are_counted_right() -> None:
    """The lower end is the exact delta of a crowd, less its rounding."""
    flip, ratio = Fraction(1, 7), Fraction(3)
    rows = [exact_views.row_weights(row, 2, flip) for row in range(4)]
    best = Fraction(0)
    for crowd, law in exact_views.crowd_laws(4, rows):
        if crowd in ((0, 0, 0, 1), (0, 0, 1, 1), (0, 0, 0, 3), (0, 0, 3, 3)):
            zero, full = (exact_views.add_row(law, rows[row]) for row in (0, 3))
            values = tuple(zero.values()), tuple(full[key] for key in zero)
            pair = exact.Pair(*values, flip.denominator**10)
            best = max(best, exact.worst_delta([pair], ratio))
    found = SmallCrowds(5, 2, flip).delta(ratio)
    assert Fraction(found) <= best
    assert found == pytest.approx(float(best), rel=1e-12)


@pytest.mark.parametrize(
    ("users", "bits", "flip", "epsilon"),
    [(40, 2, "0.1", 1.5), (300, 2, "0.3", 0.2), (14, 3, "0.05", 4.0), (12, 4, "0.35", 0.8)],
)
def test_assumed_pair_against_balls(users: int, bits: int, flip: str, epsilon: float) -> None:
    bracket = vectors(users, bits, flip).assumed_pair().delta(epsilon)
    truth = balls.larger(*balls.assumed_pair_deltas(users, bits, Fraction(flip), epsilon))
    assert not judge.ball_complaint(bracket, truth)
    assert bracket.relative_width < 1e-9


def test_one_bit_is_the_exact_worst_crowd() -> None:
    mechanism, bit = vectors(60, 1, "0.05"), FlippedBits(users=60, flip_probability="0.05")
    assert mechanism.delta(1.0) == bit.delta(1.0)
    assert mechanism.epsilon(1e-4) == bit.epsilon(1e-4)
    assert mechanism.local_epsilon == bit.local_epsilon
    assert mechanism.proven_delta(1.0) == bit.delta(1.0).upper


def test_what_the_proof_costs() -> None:
    """By its variance the blanket asks for about 1.4 times the assumed epsilon here."""
    mechanism = vectors(10_000, 3, "0.2")
    assumed = mechanism.assumed_pair().epsilon(1e-6)
    proven = mechanism.epsilon(1e-6)
    assert assumed.relative_width < 1e-6
    assert 1.38 < proven.upper / assumed.upper < 1.46
    assert proven.lower == pytest.approx(assumed.lower, rel=1e-4)


@given(mechanism=small, epsilon=st.floats(0.0, 6.0), share=st.floats(0.0, 1.0))
def test_delta_laws(mechanism: FlippedVectors, epsilon: float, share: float) -> None:
    here, later = mechanism.delta(epsilon), mechanism.delta(epsilon * (1 + share))
    assert 0.0 <= here.lower <= here.upper <= 1.0
    assert later.lower <= here.upper
    assert mechanism.assumed_pair().delta(epsilon).lower <= here.upper
    bigger = FlippedVectors(
        users=mechanism.users + 1,
        bits=mechanism.bits,
        flip_probability=mechanism.flip_probability,
    )
    assert bigger.delta(epsilon).lower <= here.upper


@given(mechanism=small, power=st.floats(-9.0, -0.3))
def test_epsilon_is_where_delta_was_seen(mechanism: FlippedVectors, power: float) -> None:
    bracket = mechanism.epsilon(10.0**power)
    assert 0.0 <= bracket.lower <= bracket.upper <= mechanism.local_epsilon
    assert mechanism.proven_delta(bracket.upper) <= 10.0**power
    if bracket.lower > 0:
        assert mechanism.found_delta(bracket.lower) > 10.0**power


def test_nothing_is_left_at_the_local_epsilon() -> None:
    mechanism = vectors(50, 3, "0.1")
    assert mechanism.local_epsilon == pytest.approx(3 * math.log(9))
    assert Fraction(9) ** 3 <= exp_ends(mechanism.local_epsilon)[1]
    assert mechanism.delta(mechanism.local_epsilon).upper == 0.0
    assert mechanism.delta(0.999 * mechanism.local_epsilon).upper > 0.0
    assert mechanism.assumed_pair().delta(mechanism.local_epsilon).upper == 0.0
    assert mechanism.epsilon(1.0).upper == 0.0


@pytest.mark.parametrize(
    ("bits", "flip"), [nightly(10, "0.1"), nightly(20, "0.25"), (2, "0.0001"), (8, "0.1")]
)
def test_words_far_apart_have_an_answer(bits: int, flip: str) -> None:
    """Ratios span dozens of orders of magnitude here; the bracket may be wide, never missing."""
    mechanism = vectors(10**6, bits, flip)
    bracket = mechanism.epsilon(1e-9)
    assert 0.0 < bracket.lower <= bracket.upper <= mechanism.local_epsilon
    assert mechanism.found_delta(bracket.lower) > 1e-9


def test_profile_and_guarantee_say_the_same() -> None:
    mechanism = vectors(500, 2, "0.2")
    low, high = mechanism.profile(np.array([0.2, 0.8]))
    for place, epsilon in enumerate((0.2, 0.8)):
        assert mechanism.delta(epsilon).lower == low[place]
        assert mechanism.delta(epsilon).upper == high[place]
    pair = mechanism.assumed_pair().profile(np.array([0.2, 0.8]))
    assert np.all(pair[0] <= pair[1])
    assert np.all(pair[0] <= high)
    promise = mechanism.guarantee(delta=1e-5)
    assert promise.epsilon == mechanism.epsilon(1e-5).upper
    assert promise.proven
    assert promise.view == "records"
    assert mechanism.assumed_pair().method == "worst-pair-assumed"


def test_monte_carlo_estimates_the_point_wise_quantity() -> None:
    """False alarms: below 1e-8, by Chernoff for two order statistics on either side."""
    samples, delta, flip = 20_000, 0.05, Fraction(1, 5)
    made = vectors(6, 2, flip).monte_carlo(delta=delta, samples=samples, seed=7)
    pair = exact_views.assumed_pair(6, 2, flip)
    margin = Fraction(6 * math.sqrt(delta / samples))
    above, below = (
        exact.worst_pointwise([pair], exact.exp_bounds(made.epsilon + shift)[side])
        for shift, side in ((1e-9, 1), (-1e-9, 0))
    )
    assert above <= Fraction(delta) + margin
    assert below >= Fraction(delta) - margin
    assert (made.method, made.samples, made.seed, made.delta) == ("monte-carlo", samples, 7, delta)
    assert made == vectors(6, 2, flip).monte_carlo(delta=delta, samples=samples, seed=7)
    assert made.epsilon > vectors(6, 2, flip).assumed_pair().epsilon(delta).upper


def test_monte_carlo_refuses_what_it_cannot_see() -> None:
    mechanism = vectors(100, 2, "0.2")
    with pytest.raises(InvalidInput, match="samples"):
        mechanism.monte_carlo(delta=1e-9, samples=1000, seed=1)
    with pytest.raises(InvalidInput, match="seed"):
        mechanism.monte_carlo(delta=0.1, samples=1000, seed=-1)
    with pytest.raises(InvalidInput, match="delta"):
        mechanism.monte_carlo(delta=0.0, samples=1000, seed=1)


@each_case(
    "change",
    [
        {"users": 0},
        {"users": True},
        {"users": 2.5},
        {"bits": 0},
        {"bits": 21},
        {"bits": math.nan},
        {"flip_probability": 0.5},
        {"flip_probability": math.nan},
        {"flip_probability": "1e-100"},
    ],
)
def test_bad_parameters_are_refused(change: dict[str, Any]) -> None:
    good: dict[str, Any] = {"users": 5, "bits": 3, "flip_probability": "0.1"}
    with pytest.raises(InvalidInput, match="must be"):
        FlippedVectors(**(good | change))


@each_case("value", [math.nan, math.inf, -1e-9, True, "1", None])
def test_bad_questions_are_refused(value: Any) -> None:
    mechanism = vectors(5, 2, "0.2")
    for ask in (
        mechanism.delta,
        mechanism.epsilon,
        mechanism.assumed_pair().delta,
        mechanism.assumed_pair().epsilon,
    ):
        with pytest.raises(InvalidInput):
            ask(value)
    if value is not None:  # None asks for the default width
        with pytest.raises(InvalidInput):
            mechanism.assumed_pair().delta(1.0, relative_width=value)
