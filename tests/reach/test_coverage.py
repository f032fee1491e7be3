"""How often 95 % intervals of reach miss: from nobody to a million ids, every overlap, both shapes.

Counts are drawn from their exact law (``simulate.publishers``; that it is the law of the real
pipeline, with a shuffler and without, is tested in ``tests/simulate/test_publishers.py`` and
below). A number of ids is in the interval where neither side rejects it, so each draw costs one
test and no search; that both are the same is tested first.

The false-alarm rate of one test is 1e-6, shared out over its groups and settings: more misses
than ``judging.miss_limit`` have a smaller chance if each has a chance of 5 % at most.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache

import numpy as np
import pytest
from numpy.typing import NDArray

from chaffinch import reach
from chaffinch.privacy import Target
from chaffinch.reach.analyzer.group_intervals import Crowd, asked_columns, intervals
from chaffinch.reach.analyzer.occupancy import SetBits
from chaffinch.reach.planning.audience import Audience, Group, usual_groups
from chaffinch.reach.planning.estimator import Columns
from chaffinch.reach.planning.reach_plan import ReachPlan
from chaffinch.reach.shuffler.hand_over import shuffle_with
from chaffinch.simulate import judging
from chaffinch.simulate.publishers import Publishers, flipped_logos, thrown
from chaffinch.simulate.seeded import SeededWords
from tests.reach.publishing import encode, small_plan
from tests.reach.test_estimates import audience
from tests.simulate.settings import ALARM, chance
from tests.tiers import nightly

Counts = NDArray[np.int64]
Setting = tuple[int, float, str]
"""Publishers, epsilon, and whether a shuffler flips again."""
TAIL = 0.025
OVERLAPS = ("none", "half", "full", "one empty")
SIZES = [
    (0, 1000),
    (0, 100_000),
    (1, 100_000),
    (5, 1000),
    (20, 1000),
    (20, 100_000),
    (100, 100_000),
    (1000, 1000),
    (100_000, 100_000),
    (1_000_000, 1_000_000),
]
"""How many ids each publisher has, and how many the plan expected."""


@lru_cache
def planned(count: int, epsilon: float, shape: str, size: int) -> ReachPlan:
    return reach.plan(
        audience(count),
        sizes=[size] * count,
        target=Target(epsilon, 1e-9),
        shuffled=shape == "shuffled",
        anyway=True,
    )


def crowd_of(whose: Audience, ids: int, overlap: str) -> Publishers:
    """Return publishers with so many ids each, of which all have some in common."""
    count = len(whose.publishers)
    alone = [tuple(int(place == own) for place in range(count)) for own in range(count)]
    shared = {"half": ids // 2, "full": ids}.get(overlap, 0)
    holders = alone[:-1] if overlap == "one empty" else alone
    crowd = dict.fromkeys(holders, ids - shared)
    crowd[(1,) * count] = crowd.get((1,) * count, 0) + shared
    return Publishers(whose, crowd)


def drawn(plan: ReachPlan, publishers: Publishers, runs: int, seed: int) -> Iterator[Counts]:
    draws = np.random.default_rng(seed)
    for _ in range(runs):
        before = thrown(
            plan.audience, publishers.crowd, bits=plan.bits, hashes=plan.hashes, draws=draws
        )
        yield flipped_logos(before, float(plan.all_flips), draws)


def columns_of(plan: ReachPlan, counts: Counts, flip: float) -> Columns:
    return Columns(plan.audience, plan.bits, plan.hashes, flip, counts / plan.bits)


def missed(columns: Columns, counts: Counts, group: Group, truth: int, tail: float = TAIL) -> bool:
    """Return whether an interval leaves out the truth; [0, 0] does not leave out 0."""
    own, asked, seen = asked_columns(columns, counts, group)
    if own.audience.rows == 1:
        row = SetBits(truth, columns.bits, columns.hashes, columns.flip)
        less, more = row.at_most(int(seen[1])), row.at_least(int(seen[1]))
    else:
        crowd = Crowd(own, asked)
        less, more = crowd.chance_of_less(truth), crowd.chance_of_more(truth)
    return more <= tail or (truth > 0 and less <= tail)


def one_of_each_kind(whose: Audience) -> list[Group]:
    """Return the last usual group of so many publishers of each kind, also of the empty one."""
    kinds = {
        (len(group.any_of), len(group.all_of), len(group.none_of)): group
        for group in usual_groups(whose)
    }
    return list(kinds.values())


def misses(
    plan: ReachPlan,
    publishers: Publishers,
    runs: int,
    *,
    groups: Sequence[Group] = (),
    seed: int = 1,
    factor: float = 1.0,
) -> Counts:
    """Return how many intervals of each group miss, for a belief in other flips or not."""
    groups = groups or usual_groups(plan.audience)
    truth = [publishers.truth(group) for group in groups]
    found = np.zeros(len(groups), np.int64)
    for counts in drawn(plan, publishers, runs, seed):
        columns = columns_of(plan, counts, float(plan.all_flips) * factor)
        for place, (group, ids) in enumerate(zip(groups, truth, strict=True)):
            found[place] += missed(columns, counts, group, ids)
    return found


@pytest.mark.parametrize(
    ("count", "epsilon", "ids", "overlap"),
    [
        (2, 1.0, 20, "half"),
        nightly(3, 4.0, 0, "none"),
        (2, 16.0, 300, "one empty"),
        (1, 1.0, 20, "none"),
    ],
)
def test_what_is_not_rejected_is_the_interval(
    count: int, epsilon: float, ids: int, overlap: str
) -> None:
    plan = planned(count, epsilon, "direct", 1000)
    publishers = crowd_of(plan.audience, ids, overlap)
    outside = 0
    for counts in drawn(plan, publishers, 4, seed=2):
        columns = columns_of(plan, counts, float(plan.all_flips))
        for group in usual_groups(plan.audience):
            # Small tails are inside, as they are for all rows together.
            (ends, wide) = intervals(columns, counts, group, [0.2, 1e-5])
            assert wide[0] <= ends[0] <= ends[1] <= wide[1]
            for truth in {
                publishers.truth(group),
                *(round(end) + one for end in ends for one in (-1, 1)),
            }:
                if truth >= 0 and min(abs(truth - end) for end in ends) > 0.01:
                    out = not ends[0] <= truth <= ends[1]
                    rejected = missed(columns, counts, group, truth, 0.2)
                    # An interval may be wider, since none ends before one standard error.
                    assert rejected or not out, (group.name, truth)
                    outside += out
    assert outside > 8


@pytest.mark.parametrize(
    ("setting", "ids", "size", "overlap", "runs"),
    [
        ((2, 1.0, "direct"), 0, 1000, "none", 40),
        nightly((2, 16.0, "direct"), 20, 100_000, "none", 40),
        nightly((3, 4.0, "shuffled"), 20, 1000, "half", 40),
        # Four publishers have 51 groups, each of which takes its time.
        ((4, 1.0, "direct"), 100_000, 100_000, "one empty", 15),
    ],
)
def test_intervals_miss_no_more_than_they_say(
    setting: Setting, ids: int, size: int, overlap: str, runs: int
) -> None:
    plan = planned(*setting, size)
    found = misses(plan, crowd_of(plan.audience, ids, overlap), runs)
    assert found.max() <= judging.miss_limit(2 * TAIL, runs, ALARM / len(found))


@pytest.mark.long
def test_one_column_flipped_at_both_is_not_taken_for_an_id() -> None:
    """In 15 of 100 collections it happens, and the delta method was sure of an id too many."""
    plan, runs = small_plan(bits=2**20, flip=chance(4e-4)), 500
    group = Group(all_of=plan.audience.publishers)
    here = delta = 0
    for counts in drawn(plan, Publishers(plan.audience, {(1, 1): 3}), runs, seed=4):
        columns = columns_of(plan, counts, float(plan.all_flips))
        here += missed(columns, counts, group, 3)
        estimate, error = columns.estimate(group)
        delta += not estimate - 1.96 * error <= 3 <= estimate + 1.96 * error
    limit = judging.miss_limit(2 * TAIL, runs, ALARM)
    assert here <= limit < delta


@pytest.mark.parametrize("factor", [0.98, nightly(1.02)])
def test_a_belief_in_other_flips_misses_more(factor: float) -> None:
    plan, runs = planned(2, 4.0, "shuffled", 1000), 30
    publishers = crowd_of(plan.audience, 20, "half")
    limit = judging.miss_limit(2 * TAIL, runs, ALARM)
    found = misses(plan, publishers, runs, factor=factor)
    # The ids of all, and of each, by their exact law and by that of several rows.
    assert min(found[:3]) > limit, found


def test_drawn_columns_have_the_law_of_a_real_shuffler() -> None:
    plan = small_plan(bits=1024, flip=Fraction(1, 64), shuffled=Fraction(1, 32))
    publishers = Publishers(plan.audience, {(1, 0): 60, (0, 1): 30, (1, 1): 40})
    lists = [
        [one for part in publishers.id_columns(name) for one in part.to_pylist()]
        for name in plan.audience.publishers
    ]
    seen = []
    for run in range(150):
        key = reach.new_key()
        filters = [
            encode(ids, plan, publisher=name, key=key)
            for name, ids in zip(plan.audience.publishers, lists, strict=True)
        ]
        seen.append(shuffle_with(filters, plan, SeededWords(run)).counts)
    same = list(drawn(plan, publishers, 2000, seed=3))
    other = list(drawn(replace(plan, shuffler=None), publishers, 2000, seed=3))
    assert judging.same_law(np.array(seen), np.array(same)) > ALARM
    assert judging.same_law(np.array(seen), np.array(other)) <= ALARM


@pytest.mark.long
def test_whatever_is_seen_has_intervals() -> None:
    """Any plan, any crowd, any level: ends are numbers, in order, and those together are wider."""
    random = np.random.default_rng(3)
    for _ in range(12):
        count, times = int(random.integers(1, 4)), int(random.integers(1, 3))
        whose = audience(count, times)
        bits, hashes = 2 ** int(random.integers(10, 21)), int(random.choice([1, 2, 5, 16]))
        flip = Fraction(round(2.0 ** random.uniform(-30, -1.2) * 2**64), 2**64)
        plan = ReachPlan("", whose, (100,) * count, bits, hashes, flip, 100.0, 1e-6)
        cells = [seen for seen in np.ndindex(*whose.grid) if any(seen)]
        most = bits // (8 * hashes * len(cells))
        crowd = {seen: int(random.choice([0, 0, 1, 5, 100, most])) for seen in cells}
        (counts,) = drawn(plan, Publishers(whose, crowd), 1, seed=int(random.integers(99)))
        columns = columns_of(plan, counts, float(flip))
        for group in usual_groups(whose):
            ends, wide = intervals(columns, counts, group, [0.025, 1e-15])
            assert 0 <= wide[0] <= ends[0] <= ends[1] <= wide[1] < 32 * bits / hashes
            reach_of = columns.estimate(group)[1]
            assert ends[1] - ends[0] <= 5 * max(reach_of, 1.0) + 1, (group.name, crowd)


def test_columns_that_no_crowd_makes_have_intervals() -> None:
    """Those of which a release is made: fuller ones are refused."""
    whose, tried = audience(2), 0
    groups = usual_groups(whose)
    for seen in ([512, 0, 0, 0], [509, 0, 0, 3], [200, 4, 300, 8]):
        for hashes, flip in ((1, 1e-18), (16, 0.45)):
            counts = np.array(seen)
            columns = Columns(whose, 512, hashes, flip, counts / 512)
            if not all(map(columns.countable, groups)):
                continue
            for group in groups:
                ends, wide = intervals(columns, counts, group, [0.25, 5e-13])
                assert 0 <= wide[0] <= ends[0] <= ends[1] <= wide[1] <= 32 * 512 / hashes
                # "-0" is not what a table should say.
                assert not np.signbit([*ends, *wide]).any(), (seen, hashes, flip, group.name)
                tried += 1
    assert tried > 20


def test_a_fit_that_does_not_end_is_left_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = planned(2, 4.0, "direct", 1000)
    (counts,) = drawn(plan, crowd_of(plan.audience, 100, "half"), 1, seed=1)
    columns = columns_of(plan, counts, float(plan.all_flips))
    group = Group(any_of=plan.audience.publishers)
    usual = intervals(columns, counts, group, [0.025])[0]

    def endless(*_: object, **__: object) -> None:
        raise RuntimeError

    monkeypatch.setattr("scipy.optimize.nnls", endless)
    assert intervals(columns, counts, group, [0.025])[0] == pytest.approx(usual, rel=0.2)


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("shape", ["direct", "shuffled"])
@pytest.mark.parametrize("epsilon", [1.0, 4.0, 16.0])
@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_no_interval_misses_more_than_it_says(count: int, epsilon: float, shape: str) -> None:
    """Every setting by itself, and all together, where 2 % more misses would be seen."""
    runs, total = 200, 0
    groups = one_of_each_kind(audience(count))
    alarm = ALARM / (2 * len(SIZES) * len(OVERLAPS) * len(groups))
    pooled = np.zeros(len(groups), np.int64)
    for ids, size in SIZES:
        plan = planned(count, epsilon, shape, size)
        for overlap in OVERLAPS if ids and count > 1 else ("none",):
            publishers = crowd_of(plan.audience, ids, overlap)
            found = misses(plan, publishers, runs, groups=groups, seed=ids + 1)
            limit = judging.miss_limit(2 * TAIL, runs, alarm)
            assert found.max() <= limit, (ids, size, overlap, found)
            pooled, total = pooled + found, total + runs
    assert total >= runs * len(SIZES)
    assert pooled.max() <= judging.miss_limit(2 * TAIL, total, alarm), pooled
