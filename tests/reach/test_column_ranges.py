"""Filters made by ranges of columns are those that are made at once, whoever has which views."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from chaffinch.errors import InvalidInput
from chaffinch.reach.planning.reach_plan import ReachPlan
from chaffinch.reach.publisher.filter_making import _MOST_RANGES, ColumnRanges, Row, true_rows
from chaffinch.sampling import digest_again, digest_columns
from tests.reach.publishing import KEY, small_plan

Digests = NDArray[np.uint64]


def ranges_of(plan: ReachPlan, count: int) -> ColumnRanges:
    return ColumnRanges(plan, KEY.hash_keys(plan.id)[1], count)


def rows_by_ranges(pieces: Sequence[Digests], ranges: ColumnRanges) -> list[Row]:
    """Return the rows that are made when every piece is split and every range made by itself."""
    parts: list[list[Digests]] = [[] for _ in range(ranges.count)]
    for piece in pieces:
        for place, views in ranges.split(piece):
            parts[place].append(views)
    made = [ranges.rows(place, views) for place, views in enumerate(parts)]
    return [np.concatenate(row) for row in zip(*made, strict=True)]


def drawn(people: Iterable[int]) -> Digests:
    """Return digests that are even over the ids, as keyed ones are."""
    return digest_again(np.array(list(people), np.uint64), bytes(16))


@given(
    st.lists(st.lists(st.integers(0, 30), max_size=40), min_size=1, max_size=4),
    st.integers(1, 4),
    st.integers(1, 4),
    st.sampled_from([64, 128, 1024]),
    st.integers(1, 16),
)
def test_ranges_make_the_rows_that_are_made_at_once(
    pieces: list[list[int]], frequencies: int, hashes: int, bits: int, count: int
) -> None:
    plan = small_plan(frequencies=frequencies, hashes=hashes, bits=bits)
    ranges = ColumnRanges.about(count, plan, KEY.hash_keys(plan.id)[1])
    views = [drawn(piece) for piece in pieces]
    whole = true_rows(views, plan, ranges.further)
    for row, wanted in zip(rows_by_ranges(views, ranges), whole, strict=True):
        assert (row == wanted).all()


@pytest.mark.parametrize("bits", [64, 1024, 2**20, 2**29])
def test_a_range_has_exactly_its_columns(bits: int) -> None:
    plan = small_plan(bits=bits)
    ranges = ColumnRanges.about(7, plan, bytes(16))
    words = [ranges.words(place) for place in range(ranges.count)]
    assert [one.start for one in words] == [0, *(one.stop for one in words[:-1])]
    assert 64 * words[-1].stop == bits
    edges = np.array([(64 * one.start << 64) // bits for one in words[1:]], np.uint64)
    near = np.concatenate([edges - np.uint64(1), edges, edges + np.uint64(1)])
    near = np.concatenate([near, np.array([0, 2**64 - 1], np.uint64)])
    found = digest_columns(near, bits) // 64
    for place, views in ranges.split(near):
        held = words[place]
        expected = np.unique(near[(held.start <= found) & (found < held.stop)])
        assert (np.sort(views) == expected).all()


def test_an_id_that_comes_all_the_time_is_no_burden() -> None:
    plan = small_plan(frequencies=3, bits=1024)
    ranges = ranges_of(plan, 4)
    assert [len(views) for _, views in ranges.split(np.full(10_000, 2**63, np.uint64))] == [3]


@pytest.mark.parametrize("count", [0, 17, _MOST_RANGES + 1])
def test_a_range_has_at_least_a_word(count: int) -> None:
    with pytest.raises(InvalidInput, match="number of ranges"):
        ranges_of(small_plan(bits=1024), count)


def test_the_key_is_not_shown() -> None:
    ranges = ranges_of(small_plan(), 2)
    assert repr(ranges.further) not in repr(ranges)


def test_no_digest_goes_to_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever makes a range has its views in memory, on a machine that others may use too."""

    def refused(*_: object, **__: object) -> None:
        raise AssertionError

    monkeypatch.setattr(tempfile, "TemporaryFile", refused)
    plan = small_plan(frequencies=2, bits=1 << 20)
    ranges = ranges_of(plan, 2)
    for views in ([], [drawn(range(100))], [drawn(range(1000)), drawn(range(1000))] * 2):
        rows = rows_by_ranges(views, ranges)
        assert (rows[1] == true_rows(views, plan, ranges.further)[1]).all()
    with pytest.raises(AssertionError):
        true_rows([drawn(range(100))], plan, ranges.further, held=16)
