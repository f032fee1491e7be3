"""Whole collections, hundreds of times: bias, standard errors and coverage are as foretold.

The false-alarm rate of one setting is 1e-6, shared out over all its tests: per group the mean
against its own standard error (Student's law), the standard deviation against the predicted
one (chi-square), and the misses of its 95 % interval (binomial); and the misses of all
intervals together. The same tests see an analyzer who believes a flip probability that is off
by a tenth, or one hash more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import special

from chaffinch import reach
from chaffinch.privacy import Target
from chaffinch.reach.analyzer.logos import Logos
from chaffinch.reach.planning import estimator
from chaffinch.reach.planning.audience import Audience, Group, usual_groups
from chaffinch.reach.planning.estimator import Columns
from chaffinch.reach.planning.reach_plan import ReachPlan
from chaffinch.simulate import (
    Publishers,
    disjoint,
    draw_logos,
    heavy_tailed,
    independent,
    judging,
    nested,
    seen_again,
)
from tests.cases import each_case
from tests.reach.test_estimates import audience
from tests.simulate.settings import ALARM
from tests.tiers import chequered, nightly

KINDS = ("independent", "nested", "disjoint", "heavy-tailed")
LEVEL = 0.95
RUNS = 300
IDS = 100_000
Floats = NDArray[np.float64]


@lru_cache
def publishers_of(kind: str, count: int, ids: int) -> Publishers:
    whose = audience(count)
    sizes = [ids // (2 + place % 3) for place in range(count)]
    if kind == "independent":
        return independent(whose, sizes, universe=ids, seed=1)
    if kind == "heavy-tailed":
        return heavy_tailed(whose, [size // 2 for size in sizes], universe=ids, seed=1)
    if kind == "nested":
        return nested(whose, [ids - place * ids // (2 * count) for place in range(count)])
    if kind == "disjoint":
        return disjoint(whose, [ids // count] * count)
    often = Audience(["a", "b"], frequencies=2)
    return seen_again(independent(often, [ids // 2, ids // 3], universe=ids, seed=1), 0.4)


@lru_cache
def planned(kind: str, count: int, ids: int) -> ReachPlan:
    publishers = publishers_of(kind, count, ids)
    target = Target(epsilon=2, delta=1e-9)
    return reach.plan(publishers.audience, sizes=publishers.sizes, target=target, hashes=2)


@lru_cache
def drawn(kind: str, count: int, ids: int, runs: int) -> tuple[Logos, ...]:
    plan, publishers = planned(kind, count, ids), publishers_of(kind, count, ids)
    return tuple(draw_logos(plan, publishers, seed=2, run=run) for run in range(runs))


@dataclass(frozen=True, eq=False)
class Seen:
    """What a number of collections said about some groups, a row for each."""

    groups: tuple[Group, ...]
    estimates: Floats
    low: Floats
    high: Floats
    low_together: Floats
    high_together: Floats


def analyzed(logos: Sequence[Logos], plan: ReachPlan) -> Seen:
    """Return what releases say of the usual groups."""
    groups = tuple(usual_groups(plan.audience))
    table = np.array(
        [[row[2:] for row in reach.analyze(one, plan, level=LEVEL).rows] for one in logos]
    )
    return Seen(groups, table[:, :, 0], *np.moveaxis(table[:, :, 2:], 2, 0))


def estimated(logos: Sequence[Logos], plan: ReachPlan, groups: Sequence[Group]) -> Seen:
    """Return what releases would say of a few groups: the same numbers, sooner."""
    found = np.array(
        [
            [_columns(plan, one.counts / plan.bits).estimate(group) for group in groups]
            for one in logos
        ]
    )
    estimates, errors = found[:, :, 0], found[:, :, 1]
    alone = float(special.ndtri(0.5 + LEVEL / 2))
    together = float(-special.ndtri((1 - LEVEL) / (2 * len(groups))))
    ends = [estimates + factor * errors for factor in (-alone, alone, -together, together)]
    return Seen(tuple(groups), estimates, *ends)


def few_groups(whose: Audience) -> list[Group]:
    first, second, *_ = names = whose.publishers
    return [
        Group(any_of=names),
        Group(any_of=(first,)),
        Group(all_of=(first,), none_of=names[1:]),
        Group(all_of=(first, second)),
    ]


def faults(seen: Seen, plan: ReachPlan, publishers: Publishers) -> list[str]:
    """Return what is further off than chance allows."""
    runs = len(seen.estimates)
    alarm = ALARM / (3 * len(seen.groups) + 1)
    truth = np.array([publishers.truth(group) for group in seen.groups], float)
    expected = estimator.expected(
        plan.audience,
        publishers.crowd,
        bits=plan.bits,
        hashes=plan.hashes,
        flip=float(plan.all_flips),
    )
    predicted = np.array([expected.estimate(group)[1] for group in seen.groups])
    spread = seen.estimates.std(axis=0, ddof=1)
    off = np.abs(seen.estimates.mean(axis=0) - truth) / (spread / np.sqrt(runs))
    low, high = judging.variance_ratios(np.zeros(1), runs, alarm)
    ratio = (spread / predicted) ** 2
    inside = (seen.low <= truth) & (truth <= seen.high)
    limit = judging.miss_limit(1 - LEVEL, runs, alarm)
    wrong = {
        "mean": off > -special.stdtrit(runs - 1, alarm / 2),
        "standard error": (ratio < low) | (ratio > high),
        "coverage": runs - inside.sum(axis=0) > limit,
    }
    found = [
        f"{what}: {group.name}"
        for what, bad in wrong.items()
        for group, one in zip(seen.groups, bad.tolist(), strict=True)
        if one
    ]
    all_inside = ((seen.low_together <= truth) & (truth <= seen.high_together)).all(axis=1)
    if runs - all_inside.sum() > limit:
        found.append("coverage of all together")
    return found


def _columns(plan: ReachPlan, shares: Floats) -> Columns:
    return Columns(plan.audience, plan.bits, plan.hashes, float(plan.all_flips), shares)


def off_by(plan: ReachPlan, factor: float) -> ReachPlan:
    wrong = Fraction(round(plan.numerator * factor), 2**64)
    return replace(plan, flip_probability=wrong)


SMALL = [(kind, 2) for kind in (*KINDS, "seen again")] + [("disjoint", 3), ("heavy-tailed", 3)]
LARGE = [("disjoint", 5), ("heavy-tailed", 5), ("nested", 8), ("disjoint", 8)]
BETWEEN = [("independent", 3), ("nested", 3)]
SLOW = [("independent", 5), ("nested", 5), ("independent", 8), ("heavy-tailed", 8)]
"""All 255 overlaps of eight publishers are drawn one by one."""


@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "count", "runs"),
    [
        ("disjoint", 2, 40),
        *((*one, RUNS) for one in [*SMALL, *BETWEEN]),
    ],
)
def test_releases_are_as_exact_as_predicted(kind: str, count: int, runs: int) -> None:
    plan, publishers = planned(kind, count, IDS), publishers_of(kind, count, IDS)
    seen = analyzed(drawn(kind, count, IDS, RUNS)[:runs], plan)
    assert faults(seen, plan, publishers) == []


@pytest.mark.parametrize(
    ("kind", "count"), [LARGE[3], *(nightly(*one) for one in [*LARGE[:3], *SLOW])]
)
def test_estimates_are_as_exact_as_predicted(kind: str, count: int) -> None:
    plan, publishers = planned(kind, count, IDS), publishers_of(kind, count, IDS)
    seen = estimated(drawn(kind, count, IDS, RUNS), plan, few_groups(plan.audience))
    assert faults(seen, plan, publishers) == []


@each_case(
    ("kind", "count", "factor"),
    [
        *chequered(SMALL, (0.9, 1.1)),
        *(nightly(*one, factor) for one in LARGE for factor in (0.9, 1.1)),
    ],
)
def test_a_belief_in_a_tenth_more_or_fewer_flips_is_seen(
    kind: str, count: int, factor: float
) -> None:
    plan, publishers = planned(kind, count, IDS), publishers_of(kind, count, IDS)
    wrong = off_by(plan, factor)
    everyone = Group(any_of=plan.audience.publishers)
    found = faults(estimated(drawn(kind, count, IDS, RUNS), wrong, [everyone]), wrong, publishers)
    assert f"mean: {everyone.name}" in found
    assert f"coverage: {everyone.name}" in found
    assert "coverage of all together" in found


@pytest.mark.long
@pytest.mark.parametrize("factor", [0.9, 1.1])
def test_a_belief_in_other_flips_gives_other_standard_errors(factor: float) -> None:
    # Few publishers scatter nearly alike whatever is believed; eight do not.
    plan, publishers = planned("disjoint", 8, IDS), publishers_of("disjoint", 8, IDS)
    everyone = Group(any_of=plan.audience.publishers)
    logos = drawn("disjoint", 8, IDS, 1000)
    assert faults(estimated(logos, plan, [everyone]), plan, publishers) == []
    wrong = off_by(plan, factor)
    found = faults(estimated(logos, wrong, [everyone]), wrong, publishers)
    assert f"standard error: {everyone.name}" in found


@pytest.mark.parametrize(
    ("kind", "count", "hashes"), chequered([("independent", 2), ("nested", 8)], [1, 3])
)
def test_a_belief_in_another_number_of_hashes_is_seen(kind: str, count: int, hashes: int) -> None:
    plan, publishers = planned(kind, count, IDS), publishers_of(kind, count, IDS)
    wrong = replace(plan, hashes=hashes)
    everyone = Group(any_of=plan.audience.publishers)
    found = faults(estimated(drawn(kind, count, IDS, RUNS), wrong, [everyone]), wrong, publishers)
    # The standard error may scale with the belief; the estimate must not.
    assert f"mean: {everyone.name}" in found
    assert f"coverage: {everyone.name}" in found


def test_a_number_of_balls_that_is_fixed_takes_scatter_away() -> None:
    # Nearly clear filters at a load of one half: there the term −N/h is most of the variance.
    publishers = disjoint(audience(2), [50_000, 50_000])
    flip = Fraction(2**44, 2**64)
    plan = ReachPlan("", publishers.audience, publishers.sizes, 2**19, 2, flip, 100.0, 1e-9)
    logos = [draw_logos(plan, publishers, seed=3, run=run) for run in range(RUNS)]
    everyone = Group(any_of=plan.audience.publishers)
    seen = estimated(logos, plan, [everyone])
    assert faults(seen, plan, publishers) == []
    spread = float(seen.estimates.std(ddof=1))
    without = float(np.hypot(plan.standard_error, np.sqrt(publishers.people / plan.hashes)))
    low, _ = judging.variance_ratios(np.zeros(1), RUNS, ALARM)
    assert (spread / without) ** 2 < low


def test_large_counts_have_the_intervals_of_the_delta_method() -> None:
    """What is estimated is released, and inverting a law moves ends by little where many are."""
    plan, logos = planned("independent", 3, IDS), drawn("independent", 3, IDS, 5)
    released = analyzed(logos, plan)
    sooner = estimated(logos, plan, released.groups)
    assert released.estimates == pytest.approx(sooner.estimates)
    errors = (sooner.high - sooner.low) / (2 * special.ndtri(0.5 + LEVEL / 2))
    for name in ("low", "high", "low_together", "high_together"):
        off = getattr(released, name) - np.maximum(getattr(sooner, name), 0.0)
        assert np.abs(off / errors).max() < 0.05, name
    width = (released.high - released.low) / (sooner.high - sooner.low)
    assert 0.99 < width.min() <= width.max() < 1.01


def test_predictions_for_no_overlap_hold_the_true_error_from_above() -> None:
    for kind, count in SMALL + LARGE:
        plan, publishers = planned(kind, count, IDS), publishers_of(kind, count, IDS)
        flip = float(plan.all_flips)
        crowd, sizes = publishers.crowd, (plan.bits, plan.hashes)
        columns = estimator.expected(
            plan.audience, crowd, bits=sizes[0], hashes=sizes[1], flip=flip
        )
        assert (
            columns.estimate(Group(any_of=plan.audience.publishers))[1]
            <= plan.standard_error * 1.001
        )


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("count", [2, 3, 5, 8])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("ids", [1_000_000, 10_000_000])
def test_releases_of_millions_are_as_exact_as_predicted(kind: str, count: int, ids: int) -> None:
    plan, publishers = planned(kind, count, ids), publishers_of(kind, count, ids)
    logos = drawn(kind, count, ids, 1000)
    assert faults(analyzed(logos, plan), plan, publishers) == []
    everyone = Group(any_of=plan.audience.publishers)
    wrong = off_by(plan, 1.05)
    assert faults(estimated(logos, wrong, [everyone]), wrong, publishers)
