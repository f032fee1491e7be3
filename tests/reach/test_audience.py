from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaffinch.errors import InvalidInput
from chaffinch.privacy.mechanisms.filters import _MOST_FILTERS
from chaffinch.reach.planning.audience import (
    _MOST_OVERLAPS,
    Audience,
    Group,
    overlaps_left_out,
    usual_groups,
)
from chaffinch.wire.filter_files import MOST_ROWS
from tests.cases import each_case

THREE = Audience(["a", "b", "c"], frequencies=2)


def test_rows_stand_publisher_by_publisher() -> None:
    rows = [THREE.row(name, times) for name in "abc" for times in (1, 2)]
    assert rows == list(range(6)) == list(range(THREE.rows))
    assert THREE.grid == (3, 3, 3)
    assert [THREE.place(name) for name in "abc"] == [0, 1, 2]


@each_case(
    ("publishers", "frequencies"),
    [
        ([], 1),
        (["a", "a"], 1),
        ("ab", 1),
        ([""], 1),
        (["a", 3], 1),
        (["a\n"], 1),
        (["a"], 0),
        (["a"], MOST_ROWS + 1),
        (["a"], True),
        (["a"], 1.5),
        ([f"p{place}" for place in range(MOST_ROWS + 1)], 1),
        ([f"p{place}" for place in range(MOST_ROWS // 2 + 1)], 2),
    ],
)
def test_impossible_audiences_are_refused(publishers: Any, frequencies: Any) -> None:
    with pytest.raises(InvalidInput):
        Audience(publishers, frequencies=frequencies)


@each_case(
    "wrong",
    [
        Group,
        lambda: Group(none_of=("a",)),
        lambda: Group(any_of="ab"),  # type: ignore[arg-type]
        lambda: Group(any_of=("a", "a")),
        lambda: Group(any_of=("a",), all_of=("a",)),
        lambda: Group(all_of=("a",), none_of=("a",)),
        lambda: Group(any_of=("a",), times=0),
        lambda: Group(any_of=("a",), times=3).members(THREE),
        lambda: Group(any_of=("x",)).members(THREE),
        lambda: THREE.row("a", 3),
        lambda: THREE.row("a", 0),
        lambda: THREE.row("x"),
        lambda: THREE.place(1),
    ],
)
def test_impossible_groups_and_rows_are_refused(wrong: Any) -> None:
    with pytest.raises(InvalidInput):
        wrong()


def test_the_most_publishers_are_allowed() -> None:
    assert Audience([f"p{place}" for place in range(MOST_ROWS)]).rows == MOST_ROWS


@given(data=st.data())
def test_members_are_those_that_the_words_say(data: Any) -> None:
    roles = data.draw(st.tuples(*[st.sampled_from(["any", "all", "none", ""])] * 3))
    if not {"any", "all"} & set(roles):
        roles = ("any", *roles[1:])
    times = data.draw(st.integers(1, 2))
    named = {
        role: tuple(name for name, own in zip("abc", roles, strict=True) if own == role)
        for role in ("any", "all", "none")
    }
    group = Group(named["any"], named["all"], named["none"], times)
    members = group.members(THREE)
    for seen in product(range(3), repeat=3):
        views = dict(zip("abc", seen, strict=True))
        inside = (
            (not group.any_of or any(views[name] for name in group.any_of))
            and all(views[name] for name in group.all_of)
            and not any(views[name] for name in group.none_of)
            and sum(views[name] for name in group.any_of + group.all_of) >= times
        )
        assert members[seen] == inside


def test_no_group_holds_those_whom_nobody_saw() -> None:
    for group in usual_groups(THREE):
        assert not group.members(THREE)[0, 0, 0]


@each_case("count", range(1, 21))
def test_the_usual_groups_are_few_and_different(count: int) -> None:
    audience = Audience([f"p{place}" for place in range(count)])
    groups = usual_groups(audience)
    names = [group.name for group in groups]
    assert len(set(names)) == len(names) <= 1 + 2 * count + _MOST_OVERLAPS
    pairs = sum(len(group.all_of) == 2 and not group.none_of for group in groups)
    assert pairs + overlaps_left_out(audience) == count * (count - 1) // 2
    assert overlaps_left_out(audience) == 0 or count > 12
    assert groups[0] == Group(any_of=audience.publishers)
    if count == 3:
        only = sum(group.members(audience).astype(int) for group in groups if group.none_of)
        assert int(np.sum(only)) == 6  # all parts but that of all three, which is an overlap
        assert int(np.max(only)) == 1


def test_frequencies_are_asked_for_too() -> None:
    names = [group.name for group in usual_groups(Audience(["a"], frequencies=3))]
    assert names == ["a", "a, seen 2 times or more", "a, seen 3 times or more"]


def test_lists_become_tuples() -> None:
    assert Group(any_of=["a"]) == Group(any_of=("a",))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["a and b", "or", "not me", "a, b", "a or b"])
def test_names_that_would_name_a_group_are_refused(name: str) -> None:
    with pytest.raises(InvalidInput, match="without a comma"):
        Audience([name])
    assert Audience(["android", "orbit", "notes"]).publishers


def test_filters_travel_with_as_many_rows_as_can_be_judged() -> None:
    assert MOST_ROWS == _MOST_FILTERS
