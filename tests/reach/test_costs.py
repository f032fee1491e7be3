"""What a reach costs, against the filters and columns that are really sent."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from chaffinch.errors import InvalidInput
from chaffinch.planning.costs.cost import Prices
from chaffinch.reach.planning.reach_plan import ReachPlan
from chaffinch.wire.sealed_filters import seal_filter
from tests.reach import publishing
from tests.services.campaign import NAMES, Campaign


def small(**other: object) -> ReachPlan:
    return publishing.small_plan(NAMES, bits=4096, flip=Fraction(1, 8), **other)  # type: ignore[arg-type]


def test_sealed_filters_have_this_length(tmp_path: Path) -> None:
    made = Campaign.make(tmp_path / "campaign")
    cost = made.plan.cost()
    assert cost.users == sum(made.plan.sizes)
    (key, *_) = made.keys["hop"].opening_keys().values()
    for name in NAMES:
        content = made.filter(name).read_bytes()
        sealed = seal_filter(content, made.plan.layout, key.key.sealing, made.keys[name].identity)
        assert len(sealed) == cost.upload
    assert cost.party("publishers").work.sent == 3 * cost.upload
    assert cost.party("publishers").work.operations == 3
    assert cost.party("shuffler").work.operations == 3 + 1
    assert cost.party("analyzer").work.operations == 1
    assert cost.party("shuffler").work.sent == made.plan.layout.item_length(1)
    assert made.plan.cost(hops=1) == cost
    assert made.plan.cost(hops=0).upload < cost.upload


def test_filters_can_be_sealed_where_there_is_a_shuffler() -> None:
    sealed = small(shuffled=Fraction(1, 8)).cost(hops=1)
    assert sealed.way == "sealed, 1 hop"
    assert sealed.party("shuffler").work.operations == 4
    for plan, hops in ((small(), 1), (small(shuffled=Fraction(1, 8)), 2)):
        with pytest.raises(InvalidInput):
            plan.cost(hops=hops)


def test_filters_in_files_are_at_most_that_long(tmp_path: Path) -> None:
    plan = small()
    made = publishing.encode(["a", "b"], plan, publisher="daily")
    made.save(tmp_path / "daily.filter")
    length = (tmp_path / "daily.filter").stat().st_size
    assert plan.filter_bytes < length <= plan.cost().upload
    assert [one.name for one in plan.cost().parties] == ["publishers", "analyzer"]
    assert plan.cost().party("publishers").work.operations == 0


@pytest.mark.parametrize("shuffled", [None, Fraction(1, 8)])
def test_work_grows_with_ids_and_bytes_do_not(shuffled: Fraction | None) -> None:
    plan = small(shuffled=shuffled)
    one, two, three = (plan.cost(n) for n in (10**6, 2 * 10**6, 3 * 10**6))
    steps = [
        later.party("publishers").work.seconds - before.party("publishers").work.seconds
        for before, later in ((one, two), (two, three))
    ]
    assert steps[0] == pytest.approx(steps[1])
    assert steps[0] > 0
    assert one.upload == three.upload
    assert one.parties[1:] == three.parties[1:]


def test_more_hashes_and_frequencies_are_more_work() -> None:
    once = small().cost(10**9).party("publishers").work.seconds
    assert small(hashes=2).cost(10**9).party("publishers").work.seconds > once
    often = small(frequencies=2).cost(10**9)
    assert often.party("publishers").work.seconds > once
    assert often.upload > small().cost().upload


def test_every_publisher_is_told_and_prices_are_asked() -> None:
    cost = small().cost(10**9, prices=Prices(core_hour=1, gigabyte_month=0, gigabyte_out=0))
    assert [part.name for part in cost.parts] == list(NAMES)
    assert cost.money == pytest.approx(cost.core_hours)
    assert cost.document()["sender"] == "publisher"
