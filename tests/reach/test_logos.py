"""Filters put together: counted right, and refused wherever they do not belong together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaffinch.errors import ChaffinchError, FilterFull, InvalidInput, PlanMismatch
from chaffinch.reach.analyzer.logos import count_logos
from chaffinch.reach.planning.reach_plan import ReachPlan
from chaffinch.reach.publisher.campaign_key import CampaignKey
from chaffinch.wire.filter_files import Filter
from tests.cases import each_case
from tests.reach.publishing import KEY, encode, made_up, set_bits, small_plan


def by_hand(filters: list[Filter], plan: ReachPlan) -> Counter[int]:
    """Return how many columns have each logo, a column at a time."""
    rows = [set_bits(row) for one in filters for row in one.rows]
    return Counter(
        sum((column in row) << place for place, row in enumerate(rows))
        for column in range(plan.bits)
    )


@given(st.integers(1, 3), st.integers(1, 3), st.sampled_from([1024, 2048]), st.randoms())
def test_logos_are_counted_in_the_order_of_the_plan(
    publishers: int, frequencies: int, bits: int, random: object
) -> None:
    names = [f"publisher {number}" for number in range(publishers)]
    plan = small_plan(names, frequencies=frequencies, bits=bits)
    filters = [made_up(plan, name) for name in names]
    given_order = list(filters)
    random.shuffle(given_order)  # type: ignore[attr-defined]
    found = count_logos(given_order, plan)
    wanted = by_hand(filters, plan)
    assert found.counts.tolist() == [wanted[logo] for logo in range(1 << plan.audience.rows)]
    assert found.batches == tuple(one.batch for one in filters)
    assert (found.plan_id, found.key) == (plan.id, KEY.fingerprint(plan.id))


@pytest.mark.parametrize("workers", [1, 3])
def test_chunks_add_up_and_tell_how_far_they_are(workers: int) -> None:
    plan = small_plan(bits=1 << 23)
    filters = [made_up(plan, name) for name in plan.audience.publishers]
    told: list[tuple[int, int | None]] = []
    found = count_logos(
        filters, plan, workers=workers, progress=lambda done, of: told.append((done, of))
    )
    one, other = (filters[place].rows[0] for place in (0, 1))
    both = int(np.bitwise_count(one & other).sum())
    first, second = (int(np.bitwise_count(row).sum()) for row in (one, other))
    wanted = [plan.bits - first - second + both, first - both, second - both, both]
    assert found.counts.tolist() == wanted
    assert told[-1] == (plan.bits, plan.bits)
    assert len(told) == 2


def test_encoded_filters_fit_together() -> None:
    plan = small_plan(bits=1 << 13)
    filters = [
        encode(np.arange(100), plan, publisher=name, key=KEY) for name in plan.audience.publishers
    ]
    assert int(count_logos(filters, plan).counts.sum()) == plan.bits


PLAN = small_plan(frequencies=2)
DAILY, RADIO = (made_up(PLAN, name) for name in PLAN.audience.publishers)
OTHER = small_plan(frequencies=2, title="another")
OTHER_KEY = CampaignKey(bytes(32)).fingerprint(PLAN.id)


def shorter(one: Filter) -> Filter:
    return replace(one, bits=960, rows=tuple(row[:15] for row in one.rows))


def from_elsewhere() -> Filter:
    plan = small_plan(["daily", "web"], frequencies=2)
    return made_up(plan, "web")


MISALIGNED: dict[str, tuple[list[Filter], type[ChaffinchError], str]] = {
    "no filters": ([], InvalidInput, "number of filters must be 2"),
    "unknown publisher": (
        [DAILY, replace(from_elsewhere(), plan_id=PLAN.id)],
        InvalidInput,
        "one of 'daily', 'radio'",
    ),
    "from elsewhere": ([DAILY, from_elsewhere()], PlanMismatch, "of 'web'"),
    "twice": ([DAILY, replace(DAILY, batch="0" * 32)], InvalidInput, "2 of 'daily'"),
    "three": ([DAILY, RADIO, DAILY], InvalidInput, "2 of 'daily'"),
    "same batch": ([DAILY, replace(RADIO, batch=DAILY.batch)], InvalidInput, "the same batch"),
    "missing": ([RADIO], InvalidInput, "none of 'daily'"),
    "another plan": ([DAILY, replace(RADIO, plan_id=OTHER.id)], PlanMismatch, "of 'radio'"),
    "another key": ([DAILY, replace(RADIO, key=OTHER_KEY)], InvalidInput, "another key at 'radio'"),
    "fewer bits": ([shorter(DAILY), RADIO], InvalidInput, "1024, as in the plan"),
    "fewer rows": ([replace(DAILY, rows=DAILY.rows[:1]), RADIO], InvalidInput, "2, as in the plan"),
}


@each_case("fault", MISALIGNED)
def test_misaligned_filters_are_refused_each_with_its_reason(fault: str) -> None:
    filters, kind, words = MISALIGNED[fault]
    with pytest.raises(kind, match=words):
        count_logos(filters, PLAN)


SPOILED: list[tuple[str, Callable[[Filter], Filter]]] = [
    ("plan", lambda one: replace(one, plan_id=OTHER.id)),
    ("campaign key", lambda one: replace(one, key=OTHER_KEY)),
    ("number of bits", shorter),
    ("number of rows", lambda one: replace(one, rows=one.rows[:1])),
]


def test_of_several_faults_the_first_is_named() -> None:
    for place, (words, _) in enumerate(SPOILED):
        spoiled = RADIO
        for _, spoil in SPOILED[place:]:
            spoiled = spoil(spoiled)
        with pytest.raises(ChaffinchError, match=words):
            count_logos([DAILY, spoiled], PLAN)


def test_what_is_no_filter_is_refused() -> None:
    with pytest.raises(InvalidInput, match="a list of Filter"):
        count_logos(["daily.filter"], PLAN)  # type: ignore[list-item]
    with pytest.raises(InvalidInput, match="plan must be"):
        count_logos([DAILY, RADIO], "plan.json")  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="number of workers"):
        count_logos([DAILY, RADIO], PLAN, workers=0)


# ------------------------------------------------------------------------------ full ones

LARGE = small_plan(frequencies=2, bits=1 << 16)


def with_row(one: Filter, place: int, row: object) -> Filter:
    rows = list(one.rows)
    rows[place] = row  # type: ignore[call-overload]
    return replace(one, rows=tuple(rows))


@pytest.mark.parametrize("place", [0, 1])
def test_a_row_of_ones_is_refused_with_its_publisher(place: int) -> None:
    ones = np.full(1 << 10, 2**64 - 1, np.uint64)
    filters = [made_up(LARGE, "daily"), with_row(made_up(LARGE, "radio"), place, ones)]
    with pytest.raises(FilterFull, match="filter of 'radio' must leave"):
        count_logos(filters, LARGE)


def test_a_row_that_was_never_flipped_is_refused() -> None:
    none = np.zeros(1 << 10, np.uint64)
    filters = [made_up(LARGE, "daily"), with_row(made_up(LARGE, "radio"), 1, none)]
    with pytest.raises(InvalidInput, match="filter of 'radio' must be flipped"):
        count_logos(filters, LARGE)


def test_an_honest_row_without_ids_is_counted() -> None:
    for seed in range(100):
        count_logos(
            [made_up(LARGE, name, load=0.0, seed=seed) for name in ("daily", "radio")], LARGE
        )


@each_case("load", [8.0, 12.0, 100.0])
@each_case("flip", [Fraction(1, 4), Fraction(13, 32)])
def test_full_rows_are_refused_however_they_are_flipped(load: float, flip: Fraction) -> None:
    # At load 8 a share of 0.0003 is empty, a tenth of its error: it seems 5 errors above zero
    # with a chance of 5e-7, and the draws are the same every time.
    plan = small_plan(["daily"], bits=1 << 16, flip=flip)
    for seed in range(20):
        with pytest.raises(FilterFull, match="columns empty") as caught:
            count_logos([made_up(plan, "daily", load=load, seed=seed)], plan)
        assert "true sizes" in caught.value.hint


@pytest.mark.parametrize("flip", [Fraction(1, 4), Fraction(1, 64)])
def test_an_honest_filter_at_load_three_is_counted(flip: Fraction) -> None:
    plan = small_plan(["daily"], bits=1 << 16, flip=flip)
    for seed in range(50):
        count_logos([made_up(plan, "daily", load=3.0, seed=seed)], plan)


def test_an_audience_far_beyond_its_plan_is_refused_end_to_end() -> None:
    plan = small_plan(["daily"], bits=2048)
    with pytest.raises(FilterFull, match="columns empty"):
        encode(np.arange(30_000), plan, publisher="daily", key=KEY)
