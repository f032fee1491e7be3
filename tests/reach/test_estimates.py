"""One estimator for every group: exact where nothing is random, its error by first principles."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaffinch.reach.planning.audience import Audience, Group, usual_groups
from chaffinch.reach.planning.estimator import Columns, expected
from tests.cases import each_case

FLIPS = [0.0, 0.02, 0.2]


def audience(publishers: int, frequencies: int = 1) -> Audience:
    return Audience([f"p{place}" for place in range(publishers)], frequencies=frequencies)


def crowd_of(whose: Audience, seed: int, most: int = 300) -> dict[tuple[int, ...], int]:
    draws = np.random.default_rng(seed)
    cells = [seen for seen in np.ndindex(*whose.grid) if any(seen)]
    return {seen: int(draws.integers(0, most)) for seen in cells}


def all_groups(whose: Audience) -> list[Group]:
    """Return every group there is: each publisher in one of four roles, any number of times."""
    names = whose.publishers
    found = []
    for roles in product(("any_of", "all_of", "none_of", None), repeat=len(names)):
        listed = {
            role: tuple(name for name, own in zip(names, roles, strict=True) if own == role)
            for role in ("any_of", "all_of", "none_of")
        }
        if listed["any_of"] or listed["all_of"]:
            found += [Group(**listed, times=times) for times in range(1, whose.frequencies + 1)]
    return found


@each_case(("publishers", "frequencies"), [(1, 1), (2, 1), (3, 1), (2, 2), (1, 3)])
@each_case("flip", FLIPS)
@each_case("hashes", [1, 3])
def test_every_group_is_recovered_from_what_is_expected(
    publishers: int, frequencies: int, flip: float, hashes: int
) -> None:
    whose = audience(publishers, frequencies)
    crowd = crowd_of(whose, seed=publishers + 10 * frequencies)
    people = sum(crowd.values())
    columns = expected(whose, crowd, bits=3000, hashes=hashes, flip=flip)
    for group in all_groups(whose):
        members = group.members(whose)
        truth = sum(ids for seen, ids in crowd.items() if members[seen])
        assert columns.estimate(group)[0] == pytest.approx(truth, abs=1e-9 * people), group.name


@pytest.mark.parametrize("count", [5, 8, 12])
def test_many_publishers_are_recovered_too(count: int) -> None:
    whose = audience(count)
    crowd = crowd_of(whose, seed=count, most=8)
    columns = expected(whose, crowd, bits=10**5, hashes=1, flip=0.05)
    for group in usual_groups(whose):
        members = group.members(whose)
        truth = sum(ids for seen, ids in crowd.items() if members[seen])
        assert columns.estimate(group)[0] == pytest.approx(truth, rel=1e-9, abs=1e-6), group.name


@pytest.mark.parametrize("wrong", [{"flip": 0.18}, {"flip": 0.22}, {"hashes": 2}])
def test_a_wrong_belief_does_not_recover_them(wrong: dict[str, Any]) -> None:
    whose = audience(2)
    crowd = crowd_of(whose, seed=1)
    true = expected(whose, crowd, bits=3000, hashes=1, flip=0.2)
    columns = replace(true, **wrong)
    people = sum(crowd.values())
    everyone = Group(any_of=whose.publishers)
    assert columns.estimate(everyone)[0] != pytest.approx(people, rel=0.02)


def by_first_principles(columns: Columns, group: Group) -> float:
    """Return the standard error with every derivative taken by finite differences.

    The variance of independent columns is that of a multinomial of their logos.
    """

    def value(shares: Any) -> float:
        moved = Columns(columns.audience, columns.bits, columns.hashes, columns.flip, shares)
        return moved.estimate(group)[0]

    shares, step = columns.shares, 1e-6
    gradient = np.empty(len(shares))
    for place in range(len(shares)):
        nudge = np.zeros(len(shares))
        nudge[place] = step
        gradient[place] = (value(shares + nudge) - value(shares - nudge)) / (2 * step)
    covariance = (np.diag(shares) - np.outer(shares, shares)) / columns.bits
    inside = max(columns.estimate(group)[0], 0.0)
    return math.sqrt(gradient @ covariance @ gradient - inside / columns.hashes)


@each_case(("publishers", "frequencies"), [(1, 1), (3, 1), (2, 2)])
@each_case("hashes", [1, 3])
def test_standard_errors_are_the_delta_method(
    publishers: int, frequencies: int, hashes: int
) -> None:
    whose = audience(publishers, frequencies)
    crowd = crowd_of(whose, seed=4, most=100)
    columns = expected(whose, crowd, bits=4000, hashes=hashes, flip=0.1)
    for group in all_groups(whose):
        error = by_first_principles(columns, group)
        assert columns.estimate(group)[1] == pytest.approx(error, rel=1e-4), group.name


@given(load=st.floats(0.001, 4.0), bits=st.integers(1000, 10**8))
def test_one_filter_without_flips_is_linear_counting(load: float, bits: int) -> None:
    # Whang, Vander-Zanden and Taylor 1990: the variance is m·(e^t − t − 1).
    whose = audience(1)
    ids = max(1, round(load * bits))
    columns = expected(whose, {(1,): ids}, bits=bits, hashes=1, flip=0.0)
    found, error = columns.estimate(Group(any_of=whose.publishers))
    true = ids / bits
    assert found == pytest.approx(ids, rel=1e-6)
    assert error**2 == pytest.approx(bits * (math.expm1(true) - true), rel=1e-5, abs=1e-4)


def test_one_flipped_filter_is_counted_as_by_hand() -> None:
    # S4 part I for one filter: of Z columns seen empty, (Z − m·q)/(p − q) were.
    whose, bits, flip = audience(1), 10_000, 0.1
    columns = Columns(whose, bits, 1, flip, np.array([0.7, 0.3]))
    empty = (7000 - bits * flip) / (1 - 2 * flip)
    assert columns.estimate(Group(any_of=whose.publishers))[0] == pytest.approx(
        -bits * math.log(empty / bits)
    )
    weight = np.array([1 - flip, -flip]) / (1 - 2 * flip)
    spread = weight**2 @ columns.shares - (weight @ columns.shares) ** 2
    reach = -bits * math.log(empty / bits)
    assert columns.estimate(Group(any_of=whose.publishers))[1] == pytest.approx(
        math.sqrt(bits * spread / (empty / bits) ** 2 - reach)
    )


def test_two_clear_filters_are_inclusion_and_exclusion() -> None:
    whose, bits = audience(2), 1000
    columns = Columns(whose, bits, 1, 0.0, np.array([0.5, 0.2, 0.2, 0.1]))
    either, one, other = (-bits * math.log(share) for share in (0.5, 0.7, 0.7))
    names = whose.publishers
    assert columns.estimate(Group(any_of=names))[0] == pytest.approx(either)
    assert columns.estimate(Group(all_of=names))[0] == pytest.approx(one + other - either)
    only = Group(all_of=names[:1], none_of=names[1:])
    assert columns.estimate(only)[0] == pytest.approx(either - other)


def test_full_columns_cannot_be_counted() -> None:
    whose = audience(2)
    group = Group(any_of=whose.publishers)
    for load, countable in ((1.0, True), (4.0, True), (12.0, False), (30.0, False)):
        crowd: dict[tuple[int, ...], int] = {(1, 0): round(load * 5000), (1, 1): 10}
        columns = expected(whose, crowd, bits=10_000, hashes=2, flip=0.01)
        assert columns.countable(group) == countable, load
    # What the other publisher alone has can still be told.
    assert columns.countable(Group(any_of=whose.publishers[1:]))


def test_negative_shares_are_not_counted() -> None:
    columns = Columns(audience(1), 1000, 1, 0.3, np.array([0.2, 0.8]))
    assert columns.empty[0] < 0
    assert not columns.countable(Group(any_of=("p0",)))
