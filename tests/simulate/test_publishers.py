"""Made-up publishers have the overlaps they say, and their logos the law of real filters.

Laws are compared by chi-square at a false-alarm rate of 1e-8 (one of the two samples is always
the same, and may be an unlucky one), and a flip probability that is off by a tenth is seen by
the same comparison.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from chaffinch import reach
from chaffinch.errors import InvalidInput, PlanMismatch
from chaffinch.reach.analyzer.logos import count_logos
from chaffinch.reach.planning.audience import Audience, Group
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
from chaffinch.simulate.publishers import _columns_hit, _logo, flipped_logos, thrown
from chaffinch.simulate.seeded import generator
from tests.reach.publishing import encode
from tests.simulate.settings import chance
from tests.tiers import nightly, some

ALARM = 1e-8
Counts = NDArray[np.int64]
TWO = Audience(["a", "b"])
THREE = Audience(["a", "b", "c"])
TWICE = Audience(["a", "b"], frequencies=2)
CROWDS: dict[str, tuple[Publishers, int, int]] = {
    "one filter": (Publishers(Audience(["a"]), {(1,): 300}), 4096, 1),
    "two filters": (Publishers(TWO, {(1, 0): 120, (0, 1): 80, (1, 1): 150}), 1024, 1),
    "three hashes": (Publishers(TWO, {(1, 0): 60, (1, 1): 90}), 1024, 3),
    "seen twice": (
        Publishers(TWICE, {(1, 0): 90, (2, 0): 70, (1, 2): 80, (0, 1): 60}),
        2048,
        1,
    ),
}
"""Crowds with the bits and hashes of their filters: small, so that real ones can be made."""


def planned(audience: Audience, bits: int, hashes: int, flip: float) -> ReachPlan:
    """Return a plan that promises nothing much, whose filters are as small as one likes."""
    sizes = (100,) * len(audience.publishers)
    return ReachPlan("", audience, sizes, bits, hashes, chance(flip), 100.0, 1e-6)


def real(plan: ReachPlan, publishers: Publishers, runs: int) -> Counts:
    """Return the logo counts of real filters, each time with a fresh key."""
    columns = {
        name: pa.table({"id": pa.chunked_array(publishers.id_columns(name), pa.string())})
        for name in publishers.audience.publishers
    }
    found = []
    for _ in range(runs):
        key = reach.new_key()
        filters = [encode(table, plan, publisher=name, key=key) for name, table in columns.items()]
        found.append(count_logos(filters, plan, workers=1).counts)
    return np.array(found)


def drawn(plan: ReachPlan, publishers: Publishers, runs: int, flip: float) -> Counts:
    draws = generator(5, "columns")
    crowd, bits, hashes = publishers.crowd, plan.bits, plan.hashes
    return np.array(
        [
            flipped_logos(
                thrown(plan.audience, crowd, bits=bits, hashes=hashes, draws=draws), flip, draws
            )
            for _ in range(runs)
        ]
    )


def balls(publishers: Publishers, bits: int, hashes: int, runs: int, seed: int) -> Counts:
    """Return the logos of columns into which every single ball was thrown."""
    draws, audience = np.random.default_rng(seed), publishers.audience
    found = []
    for _ in range(runs):
        columns = np.zeros(bits, np.int64)
        for seen, ids in publishers.crowd.items():
            places = draws.integers(0, bits, hashes * ids)
            np.bitwise_or.at(columns, places, _logo(audience, seen))
        found.append(np.bincount(columns, minlength=2**audience.rows))
    return np.array(found)


def same_law(first: Counts, second: Counts) -> bool:
    return judging.same_law(first, second) > ALARM


# ---------------------------------------------------------------------------- the sampler


@pytest.mark.parametrize(
    "name", ["one filter", nightly("seen twice"), nightly("two filters"), nightly("three hashes")]
)
def test_drawn_logos_have_the_law_of_real_filters(name: str) -> None:
    publishers, bits, hashes = CROWDS[name]
    plan = planned(publishers.audience, bits, hashes, 0.1)
    seen = real(plan, publishers, 300)
    assert same_law(seen, drawn(plan, publishers, 2000, 0.1))
    assert not same_law(seen, drawn(plan, publishers, 2000, 0.11))
    assert not same_law(seen, drawn(plan, publishers, 2000, 0.09))


@pytest.mark.parametrize("name", some(CROWDS, "one filter", "seen twice"))
def test_thrown_logos_have_the_law_of_single_balls(name: str) -> None:
    publishers, bits, hashes = CROWDS[name]
    draws = generator(6, "columns")
    seen = balls(publishers, bits, hashes, 800, seed=3)

    def some(hashes: int, bits: int) -> Counts:
        crowd, audience = publishers.crowd, publishers.audience
        return np.array(
            [thrown(audience, crowd, bits=bits, hashes=hashes, draws=draws) for _ in range(2000)]
        )

    assert same_law(seen, some(hashes, bits))
    assert not same_law(seen, some(hashes + 1, bits))


@pytest.mark.parametrize(
    ("count", "columns"),
    [(2, 3), (7, 3), (30, 10), (60, 64), nightly(200, 64), (40, 5000), nightly(600, 180)],
)
def test_columns_hit_have_the_law_of_single_balls(count: int, columns: int) -> None:
    draws = np.random.default_rng(count)
    each = draws.integers(0, columns, (2500, count))
    each.sort(axis=1)
    thrown_singly = 1 + (np.diff(each, axis=1) != 0).sum(axis=1)
    at_once = np.array([_columns_hit(count, columns, draws) for _ in range(2500)])
    assert judging.two_samples(thrown_singly, at_once) > ALARM
    assert at_once.max() <= min(count, columns)


def test_three_balls_too_few_are_seen() -> None:
    draws = np.random.default_rng(1)
    some = np.array([_columns_hit(60, 64, draws) for _ in range(2500)])
    fewer = np.array([_columns_hit(57, 64, draws) for _ in range(2500)])
    assert judging.two_samples(some, fewer) < ALARM


@pytest.mark.parametrize(
    ("count", "columns"), [(10**6, 10**7), (3 * 10**8, 10**9), (10**6, 3 * 10**5)]
)
def test_large_numbers_have_the_moments_of_occupancy(count: int, columns: int) -> None:
    runs = 400
    draws = np.random.default_rng(2)
    found = np.array([_columns_hit(count, columns, draws) for _ in range(runs)], float)
    empty = np.exp(count * np.log1p(-1.0 / columns))
    mean = columns * (1 - empty)
    # m(m − 1)(1 − 2/m)^n + m(1 − 1/m)^n − m²(1 − 1/m)^2n for large m, where that cancels.
    load = count / columns
    variance = columns * empty * (1 - (1 + load) * np.exp(-load))
    # 5 standard errors: a false alarm has a chance below 1e-6.
    assert abs(found.mean() - mean) < 5 * np.sqrt(variance / runs) + 0.01
    low, high = judging.variance_ratios(np.array(0.5), runs, ALARM)
    assert low < found.var(ddof=1) / variance < high


def test_nothing_and_one_ball() -> None:
    draws = np.random.default_rng(1)
    assert [_columns_hit(balls, 10, draws) for balls in (0, 1)] == [0, 1]


@pytest.mark.parametrize("flip", [0.0, 0.3])
def test_flips_keep_columns(flip: float) -> None:
    counts = np.arange(16)
    found = flipped_logos(counts, flip, np.random.default_rng(1))
    assert found.sum() == counts.sum()
    assert (found.tolist() == counts.tolist()) == (flip == 0.0)


def test_logos_come_with_the_names_of_made_up_filters() -> None:
    publishers, bits, hashes = CROWDS["two filters"]
    plan = planned(TWO, bits, hashes, 0.1)
    first, again = (draw_logos(plan, publishers, seed=1) for _ in range(2))
    other = draw_logos(plan, publishers, seed=1, run=1)
    assert (first.counts == again.counts).all()
    assert (first.counts != other.counts).any()
    assert first.counts.sum() == bits
    assert first.plan_id == plan.id
    assert len({first.key, *first.batches, other.key, *other.batches}) == 6
    with pytest.raises(PlanMismatch):
        draw_logos(planned(THREE, bits, hashes, 0.1), publishers)


def test_drawn_logos_are_analyzed() -> None:
    publishers = independent(THREE, [3000, 2000, 1000], universe=5000, seed=3)
    plan = planned(THREE, 2**16, 1, 0.01)
    release = reach.analyze(draw_logos(plan, publishers, seed=4), plan)
    row = release.reach
    # 6 standard errors.
    assert abs(row.estimate - publishers.people) < 6 * row.standard_error


# ---------------------------------------------------------------------------- the crowds


def enumerated(publishers: Publishers) -> dict[str, tuple[int, ...]]:
    """Return how often each id was seen at each publisher, from the ids themselves."""
    views = [
        Counter(one for column in publishers.id_columns(name, most=7) for one in column.to_pylist())
        for name in publishers.audience.publishers
    ]
    return {one: tuple(count[one] for count in views) for one in set().union(*views)}


@given(data=st.data())
def test_ids_have_the_overlaps_of_their_crowd(data: Any) -> None:
    audience = Audience(["a", "b"], frequencies=data.draw(st.integers(1, 3)))
    views = st.tuples(st.integers(0, 4), st.integers(0, 4))
    crowd = data.draw(st.dictionaries(views, st.integers(0, 20), max_size=5))
    publishers = Publishers(audience, crowd)
    ids = enumerated(publishers)
    assert Counter(ids.values()) == Counter(publishers.crowd)
    assert len(ids) == publishers.people
    assert publishers.sizes == tuple(
        sum(1 for seen in ids.values() if seen[place]) for place in range(2)
    )
    both = Group(all_of=("a", "b"))
    assert publishers.truth(both) == sum(1 for seen in ids.values() if all(seen))
    for times in range(1, audience.frequencies + 1):
        often = Group(any_of=("a", "b"), times=times)
        assert publishers.truth(often) == sum(1 for seen in ids.values() if sum(seen) >= times)


def test_disjoint_and_nested_publishers() -> None:
    apart = disjoint(THREE, [5, 6, 7])
    assert apart.people == 18
    assert apart.sizes == (5, 6, 7)
    assert apart.truth(Group(all_of=("a", "b"))) == 0
    inside = nested(THREE, [7, 5, 7])
    assert inside.people == 7
    assert inside.sizes == (7, 5, 7)
    assert inside.truth(Group(all_of=("a", "b", "c"))) == 5
    assert inside.truth(Group(all_of=("a", "c"), none_of=("b",))) == 2


def test_independent_publishers_share_by_chance() -> None:
    found = independent(THREE, [50_000, 20_000, 90_000], universe=100_000, seed=1)
    # 6 standard deviations of a binomial count.
    for size, expected in zip(found.sizes, (50_000, 20_000, 90_000), strict=True):
        assert abs(size - expected) < 6 * np.sqrt(expected * (1 - expected / 1e5))
    assert abs(found.truth(Group(all_of=("a", "b", "c"))) - 9000) < 6 * np.sqrt(9000 * 0.91)
    assert abs(found.people - 96_000) < 6 * np.sqrt(96_000 * 0.04)


def test_heavy_tailed_publishers_share_their_busy_ids() -> None:
    audience = Audience(["a", "b", "c"], frequencies=3)
    found = heavy_tailed(audience, [20_000, 10_000, 5000], universe=100_000, seed=1)
    for size, expected in zip(found.sizes, (20_000, 10_000, 5000), strict=True):
        assert abs(size - expected) < 6 * np.sqrt(expected)
    shared = found.truth(Group(all_of=("a", "b")))
    # Independent ones would share 2000 ids; here whoever is at one is more likely at another.
    assert shared > 1.5 * found.sizes[0] * found.sizes[1] / 100_000
    often = [found.truth(Group(any_of=("a",), times=times)) for times in (1, 2, 3)]
    assert often == sorted(often, reverse=True)
    assert often[2] > 0.1 * often[0]
    flat = heavy_tailed(TWO, [20_000, 10_000], universe=100_000, exponent=0.0, seed=1)
    assert abs(flat.truth(Group(all_of=("a", "b"))) - 2000) < 6 * np.sqrt(2000)


def test_views_follow_views() -> None:
    audience = Audience(["a", "b"], frequencies=3)
    once = disjoint(audience, [40_000, 1000])
    found = seen_again(once, 0.5, seed=2)
    assert (found.people, found.sizes) == (once.people, once.sizes)
    assert abs(found.truth(Group(any_of=("a",), times=2)) - 20_000) < 6 * np.sqrt(10_000)
    assert abs(found.truth(Group(any_of=("a",), times=3)) - 10_000) < 6 * np.sqrt(7500)
    assert seen_again(once, 0.0).crowd == once.crowd


def test_seeds_decide_crowds() -> None:
    def some(seed: int) -> list[Publishers]:
        return [
            independent(TWO, [30, 40], universe=100, seed=seed),
            heavy_tailed(TWO, [30, 40], universe=100, seed=seed),
        ]

    assert [one.crowd for one in some(1)] == [one.crowd for one in some(1)]
    assert all(a.crowd != b.crowd for a, b in zip(some(1), some(2), strict=True))


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Publishers(TWO, {(1,): 3}),
        lambda: Publishers(TWO, {(1, -1): 3}),
        lambda: Publishers(TWO, {(1, 0): -3}),
        lambda: disjoint(TWO, [1]),
        lambda: nested(TWO, [1, 0]),
        lambda: independent(TWO, [10, 20], universe=15),
        lambda: heavy_tailed(TWO, [10, 20], universe=20),
        lambda: seen_again(disjoint(TWO, [1, 1]), 1.5),
        lambda: list(disjoint(TWO, [1, 1]).id_columns("x")),
    ],
)
def test_impossible_crowds_are_refused(wrong: Any) -> None:
    with pytest.raises(InvalidInput):
        wrong()
