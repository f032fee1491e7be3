"""What is foretold before anything is collected, against enumeration and closed forms."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from chaffinch.reach.planning.audience import Audience, Group
from chaffinch.reach.planning.estimator import apart, disjoint, expected, without_noise
from tests.cases import each_case
from tests.reach.test_estimates import audience, crowd_of


def enumerated(
    whose: Audience, crowd: dict[tuple[int, ...], int], bits: int, hashes: int, flip: float
) -> Any:
    """Return the law of one column: who is in it, what they set, and what is flipped."""
    kinds = [(seen, ids) for seen, ids in crowd.items() if ids]
    law = np.zeros(2**whose.rows)
    for present in product((False, True), repeat=len(kinds)):
        chance, logo = 1.0, 0
        for here, (seen, ids) in zip(present, kinds, strict=True):
            absent = math.exp(-hashes * ids / bits)
            chance *= 1 - absent if here else absent
            if here:
                for place, views in enumerate(seen):
                    for times in range(1, views + 1):
                        logo |= 1 << whose.row(whose.publishers[place], times)
        for seen_logo in range(2**whose.rows):
            wrong = (seen_logo ^ logo).bit_count()
            law[seen_logo] += chance * flip**wrong * (1 - flip) ** (whose.rows - wrong)
    return law


@each_case(("publishers", "frequencies"), [(1, 1), (2, 1), (3, 1), (2, 2), (1, 3)])
@each_case("flip", [0.0, 0.15])
def test_the_law_of_a_column_agrees_with_enumeration(
    publishers: int, frequencies: int, flip: float
) -> None:
    whose = audience(publishers, frequencies)
    crowd = crowd_of(whose, seed=7)
    found = expected(whose, crowd, bits=700, hashes=2, flip=flip).shares
    assert found.sum() == pytest.approx(1.0, abs=1e-12)
    assert found == pytest.approx(enumerated(whose, crowd, 700, 2, flip), rel=1e-9, abs=1e-14)


@given(data=st.data())
def test_the_closed_form_is_the_case_without_overlap(data: Any) -> None:
    count = data.draw(st.integers(1, 6))
    sizes = data.draw(st.lists(st.integers(1, 10**5), min_size=count, max_size=count))
    hashes = data.draw(st.integers(1, 8))
    bits = data.draw(st.integers(10**4, 10**6))
    flip = data.draw(st.sampled_from([0.0, 0.01, 0.1, 0.3]))
    assume(hashes * sum(sizes) < 6 * bits)
    whose = audience(count, data.draw(st.integers(1, 2)))
    columns = expected(whose, disjoint(whose, sizes), bits=bits, hashes=hashes, flip=flip)
    reach, error = columns.estimate(Group(any_of=whose.publishers))
    assert reach == pytest.approx(sum(sizes), rel=1e-6)
    closed = apart(sizes, bits=bits, hashes=hashes, flip=flip)
    # Nearly empty filters without flips: a difference of numbers that are nearly the same.
    assert error**2 == pytest.approx(closed**2, rel=1e-6, abs=1e-9 * bits)


@settings(max_examples=max(60, settings().max_examples // 5))
@given(data=st.data())
def test_no_overlap_is_noisier_than_none(data: Any) -> None:
    count = data.draw(st.integers(2, 4))
    whose = audience(count)
    cells = [seen for seen in np.ndindex(*whose.grid) if any(seen)]
    amounts = st.integers(0, data.draw(st.sampled_from([10, 1000, 10**5])))
    crowd = {seen: data.draw(amounts) for seen in cells}
    sizes = [sum(ids for seen, ids in crowd.items() if seen[place]) for place in range(count)]
    assume(min(sizes) > 0)
    hashes = data.draw(st.integers(1, 8))
    load = data.draw(st.floats(0.001, 5.0))
    bits = max(1000, round(hashes * sum(sizes) / load))
    flip = data.draw(st.sampled_from([0.0, 1e-3, 0.01, 0.1, 0.3, 0.45]))
    _, error = expected(whose, crowd, bits=bits, hashes=hashes, flip=flip).estimate(
        Group(any_of=whose.publishers)
    )
    most = apart(sizes, bits=bits, hashes=hashes, flip=flip)
    assert error**2 <= most**2 * (1 + 1e-6) + 1e-9 * bits


def test_flips_only_add_error() -> None:
    sizes = [1000, 5000]
    errors = [apart(sizes, bits=30_000, hashes=2, flip=flip) for flip in (0.0, 0.01, 0.1, 0.4)]
    assert errors == sorted(errors)
    assert errors[0] == without_noise(sizes, bits=30_000, hashes=2)


def test_hopeless_filters_have_no_finite_error() -> None:
    for flip in (0.0, 0.2):
        assert apart([10**9] * 3, bits=1000, hashes=1, flip=flip) == math.inf
        assert apart([10**5] * 7, bits=1000, hashes=1, flip=flip) == math.inf


def test_publishers_without_a_common_id() -> None:
    whose = audience(3)
    assert disjoint(whose, [5, 6, 7]) == {(1, 0, 0): 5, (0, 1, 0): 6, (0, 0, 1): 7}
