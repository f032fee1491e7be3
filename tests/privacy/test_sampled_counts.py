"""Counts of a sample from a threshold on: every count and every test, in rationals."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from functools import cache

import numpy as np
import pytest

from chaffinch import charts
from chaffinch.errors import InvalidInput
from chaffinch.privacy import SampleAndThreshold, compose, published
from tests.cases import each_case

Law = dict[int, Fraction]
SETTINGS = [
    (Fraction(3, 10), 3),
    (Fraction(1, 10), 2),
    (Fraction(1, 2), 4),
    (Fraction(3, 4), 2),
    (Fraction(1, 5), 1),
]
EPSILONS = (0.0, 0.02, 0.1, 0.3, 0.6, 1.2, 3.0)


@cache
def published_count(
    people: int, rate: Fraction, threshold: int
) -> tuple[tuple[int, Fraction], ...]:
    """Return the law of a count that is 0 where it is not published."""
    law: Law = {}
    for count in range(people + 1):
        mass = math.comb(people, count) * rate**count * (1 - rate) ** (people - count)
        told = count if count >= threshold else 0
        law[told] = law.get(told, Fraction(0)) + mass
    return tuple(law.items())


def hockey_stick(first: Law, second: Law, growth: Fraction) -> Fraction:
    parts = (mass - growth * second.get(key, Fraction(0)) for key, mass in first.items())
    return sum((part for part in parts if part > 0), Fraction(0))


def added_or_removed(rate: Fraction, threshold: int, most: int, growth: Fraction) -> Fraction:
    """Return the largest delta of one user more or fewer, up to ``most`` of one value."""
    worst = Fraction(0)
    for people in range(1, most + 1):
        more = dict(published_count(people, rate, threshold))
        fewer = dict(published_count(people - 1, rate, threshold))
        worst = max(worst, hockey_stick(more, fewer, growth), hockey_stick(fewer, more, growth))
    return worst


@pytest.mark.parametrize(("rate", "threshold"), SETTINGS)
def test_one_user_more_or_fewer_is_exact(rate: Fraction, threshold: int) -> None:
    mechanism = SampleAndThreshold(sampling_rate=rate, threshold=threshold, neighbours="add-remove")
    assert mechanism.method == "exact"
    for epsilon in EPSILONS:
        growth = Fraction(math.exp(epsilon))
        truth = float(added_or_removed(rate, threshold, 60, growth))
        found = mechanism.delta(epsilon)
        assert found.lower <= truth * (1 + 1e-12)
        # More than 60 may be worse where epsilon is just below −ln(1 − p), never less.
        assert truth <= found.upper * (1 + 1e-12), epsilon
        if abs(epsilon + math.log1p(-float(rate))) > 0.05:
            assert found.upper <= truth * (1 + 1e-9), epsilon
        assert found.upper - found.lower <= 1e-12 * found.upper


def test_the_threshold_and_the_rate_matter() -> None:
    base = SampleAndThreshold(sampling_rate="0.3", threshold=3, neighbours="add-remove")
    for other in (("0.31", 3), ("0.3", 2)):
        worse = SampleAndThreshold(
            sampling_rate=other[0], threshold=other[1], neighbours="add-remove"
        )
        for epsilon in EPSILONS:
            assert worse.delta(epsilon).lower > base.delta(epsilon).upper


def replaced(rate: Fraction, threshold: int, most: int, growth: Fraction) -> Fraction:
    """Return the largest delta of one user who changes a value, up to ``most`` of each."""
    worst = Fraction(0)
    for first, second in itertools.product(range(1, most + 1), repeat=2):
        laws = [
            {
                (a, b): x * y
                for a, x in published_count(one, rate, threshold)
                for b, y in published_count(two, rate, threshold)
            }
            for one, two in ((first, second - 1), (first - 1, second))
        ]
        for p, q in itertools.permutations(laws):
            parts = (mass - growth * q.get(key, Fraction(0)) for key, mass in p.items())
            worst = max(worst, sum((part for part in parts if part > 0), Fraction(0)))
    return worst


@pytest.mark.parametrize(
    ("rate", "threshold", "most"), [(Fraction(3, 10), 2, 9), (Fraction(1, 2), 3, 8)]
)
def test_one_user_replaced_is_inside(rate: Fraction, threshold: int, most: int) -> None:
    mechanism = SampleAndThreshold(sampling_rate=rate, threshold=threshold)
    assert mechanism.neighbours == "replace-one"
    assert mechanism.method == "upper-bound"
    alone = SampleAndThreshold(sampling_rate=rate, threshold=threshold, neighbours="add-remove")
    for epsilon in (0.1, 0.4, 1.0):
        growth = Fraction(math.exp(epsilon))
        truth = float(replaced(rate, threshold, most, growth))
        found = mechanism.delta(epsilon)
        assert truth <= found.upper * (1 + 1e-9), epsilon
        assert found.lower >= alone.delta(epsilon).lower
        assert found.upper < 2.2 * found.lower
        # Every found pair exists: no more than the truth over the counts that it looks at.
        wider = float(replaced(rate, threshold, most + 6, growth))
        assert found.lower <= wider * (1 + 0.02), epsilon


def test_the_lower_end_is_a_pair_that_exists() -> None:
    mechanism = SampleAndThreshold(sampling_rate="0.105", threshold=20)
    found = mechanism.delta(1.0)
    rate = Fraction(105, 1000)
    first, growth = mechanism.worst_count(1.0), Fraction(math.exp(1.0))
    assert first == 29
    best = Fraction(0)
    for second in (60, 120, 200):
        laws = [
            [x * y for _, x in padded(one, first, rate) for _, y in padded(two, second, rate)]
            for one, two in ((first, second - 1), (first - 1, second))
        ]
        best = max(
            best,
            sum(
                (max(a - growth * b, Fraction(0)) for a, b in zip(*laws, strict=True)), Fraction(0)
            ),
        )
    assert float(best) == pytest.approx(found.lower, rel=0.02)
    assert float(best) <= found.upper


def padded(people: int, most: int, rate: Fraction) -> list[tuple[int, Fraction]]:
    law = dict(published_count(people, rate, 20))
    return [(key, law.get(key, Fraction(0))) for key in (0, *range(20, most + 1))]


def test_what_is_true_of_a_sample_of_a_tenth_and_twenty() -> None:
    # ε = 1, δ = 1e-8, K = 20, p = 0.105, as proposed for a browser's measurements.
    given = {"sampling_rate": "0.105", "threshold": 20}
    alone = SampleAndThreshold(**given, neighbours="add-remove")  # type: ignore[arg-type]
    both = SampleAndThreshold(**given)  # type: ignore[arg-type]
    # Far more than is promised of who sees the published counts only.
    assert alone.delta(1.0).upper == pytest.approx(6.48e-15, rel=1e-3)
    assert 6.5e-15 < both.delta(1.0).lower <= both.delta(1.0).upper < 7.5e-15
    assert alone.epsilon(1e-8).upper == pytest.approx(0.31804, rel=1e-4)
    found = both.epsilon(1e-8)
    assert 0.320 < found.lower <= found.upper < 0.332
    # The rule that the parameters were made with.
    alpha = 1 / 6
    assert published.sample_and_threshold_rate(epsilon=1, alpha=alpha) == pytest.approx(
        0.10535, rel=1e-4
    )
    assert (
        math.ceil(published.sample_and_threshold_least(epsilon=1, delta=1e-8, sampling_rate=0.105))
        == 20
    )
    claimed = published.sample_and_threshold_delta(epsilon=1, sampling_rate=0.105, threshold=20)
    assert 1e-9 < claimed < 1e-8
    # A threshold of 11 is enough for what was promised, and one of 10 is not.
    for least, holds in ((11, True), (10, False)):
        enough = SampleAndThreshold(sampling_rate="0.105", threshold=least).delta(1.0)
        assert (enough.upper <= 1e-8) is holds
        assert (enough.lower <= 1e-8) is holds
    # Who sees that two reports are alike, though not of what value, sees a threshold of two.
    tags = SampleAndThreshold(sampling_rate="0.105", threshold=2, neighbours="add-remove")
    assert tags.delta(1.0).lower >= 0.105**2 * (1 - 1e-12)
    assert tags.epsilon(0.011).lower == math.inf


def test_epsilon_is_the_inverse_of_delta() -> None:
    mechanism = SampleAndThreshold(sampling_rate="0.1", threshold=10, neighbours="add-remove")
    for delta in (1e-3, 1e-6, 1e-9):
        found = mechanism.epsilon(delta)
        assert mechanism.delta(found.upper).upper <= delta
        assert mechanism.delta(found.lower * (1 - 1e-6)).upper > delta
    assert mechanism.epsilon(1e-11).lower == math.inf  # p^K = 1e-10
    assert mechanism.local_epsilon == math.inf


def test_extremes_are_brackets() -> None:
    for rate, threshold in (("1e-6", 1), ("1e-6", 1000), ("0.999999", 3), ("1/2", 1000)):
        for kind in ("add-remove", "replace-one"):
            mechanism = SampleAndThreshold(sampling_rate=rate, threshold=threshold, neighbours=kind)
            found = [
                mechanism.delta(epsilon) for epsilon in (0.0, 1e-9, 1e-3, 1.0, 50.0, 1e3, 1e300)
            ]
            assert all(0 <= one.lower <= one.upper <= 1 for one in found)
            uppers = [one.upper for one in found]
            assert uppers == sorted(uppers, reverse=True), (rate, threshold, kind)
            # At last only a sample of all who hold a value is told apart.
            sure = Fraction(rate) ** threshold
            assert found[-1] == found[-2]
            assert found[-1].lower <= sure <= found[-1].upper
            assert found[-1].upper <= max(float(sure) * (1 + 1e-9), 5e-324)


@pytest.mark.parametrize(("rate", "threshold"), [("0.3", 3), ("0.105", 20), ("0.4", 1000)])
def test_just_below_the_largest_loss_of_who_leaves(rate: str, threshold: int) -> None:
    # There the worst count of the removed user is beyond all bounds, and its delta next to nothing.
    edge = -math.log1p(-float(rate))
    for kind in ("add-remove", "replace-one"):
        mechanism = SampleAndThreshold(sampling_rate=rate, threshold=threshold, neighbours=kind)
        near = [
            mechanism.delta(max(edge + shift, 0.0))
            for shift in (-1e-6, -1e-12, -1e-15, -5e-17, 0.0, 5e-17, 1e-15, 1e-6)
        ]
        uppers = [one.upper for one in near]
        assert uppers[0] >= uppers[-1]
        assert max(uppers) <= uppers[0] * (1 + 1e-9)
        assert min(uppers) >= uppers[-1] * (1 - 1e-9)


def test_it_composes_and_is_drawn() -> None:
    mechanism = SampleAndThreshold(sampling_rate="0.105", threshold=20, neighbours="add-remove")
    week = compose(mechanism, times=7)
    assert week.neighbours == "add-remove"
    once = mechanism.epsilon(1e-8).upper
    assert once < week.epsilon(1e-7).upper < 7 * once
    figure = charts.privacy_curve(mechanism)
    assert figure.series[0].name == "exact, worst crowd"
    assert np.all(np.diff(figure.series[0].y) <= 0)


@each_case(
    "wrong",
    [
        {"sampling_rate": "0"},
        {"sampling_rate": "1"},
        {"sampling_rate": "1e-9"},
        {"threshold": 0},
        {"threshold": 2000},
        {"neighbours": "both"},
    ],
)
def test_what_makes_no_sense_is_refused(wrong: dict[str, object]) -> None:
    given: dict[str, object] = {"sampling_rate": "0.1", "threshold": 5}
    with pytest.raises(InvalidInput):
        SampleAndThreshold(**(given | wrong))  # type: ignore[arg-type]
