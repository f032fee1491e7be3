"""Weighted numbers: the carry, the numbers that others found, and the laws of every promise."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaffinch import privacy
from chaffinch.errors import GuaranteeNotProven, InvalidInput
from chaffinch.privacy import forms
from chaffinch.privacy.mechanism_documents import mechanism_document, mechanism_from
from chaffinch.privacy.mechanisms.weighted import _Descent, _grid_of, _noise, _top_law
from chaffinch.privacy.numerics.loss_budgets import Grid
from tests.laws.mechanisms import weighted_numbers
from tests.oracles.weighted import Layout, rates
from tests.tiers import nightly, slower

GOLDEN: dict[str, Any] = {
    "tops": 3,
    "levels": [[7, 6, 5.5], [5, 4]],
    "ratio": math.exp(-0.85 / 3),
    "code_flood": rates(6, 1.75, 12),
    "link_flood": rates(8, 1.5, 20),
    "top_flood": rates(12, 1.4, 30),
}


def made(**changes: Any) -> privacy.WeightedNumbers:
    return privacy.WeightedNumbers(**{**GOLDEN, **changes})


# ----------------------------------------------------------------------------
# The carry: what is left at the top is at most the range.


def carries(moved: tuple[int, ...]) -> Iterator[tuple[int, list[int]]]:
    """Yield what every path carries to the top, and its links."""
    paths: list[tuple[int, list[int]]] = [(0, [])]
    for one in moved:
        paths = [
            (-links, [*before, links])
            for carried, before in paths
            for links in {math.floor((one + carried) / 2), math.ceil((one + carried) / 2)}
        ]
    yield from paths


@pytest.mark.parametrize(
    "layout", [Layout(1, (3,)), Layout(3, (2,)), Layout(2, (2, 1)), Layout(5, (1,))]
)
def test_what_is_carried_to_the_top_is_no_more_than_the_range(layout: Layout) -> None:
    levels = [[4] * size for size in layout.groups]
    search = _Descent(made(tops=layout.tops, levels=levels), Grid(1.0, -1, 1))
    reached = search.tops()
    for first, second in product(range(layout.steps + 1), repeat=2):
        old, new = (layout.units(layout.steps // 2 - number) for number in (first, second))
        units = tuple(b - a for a, b in zip(old[:-2], new[:-2], strict=True))
        plus, minus = new[-2] - old[-2], new[-1] - old[-1]
        for carried, links in carries(units):
            assert abs(carried) <= 1
            assert all(abs(one) <= 1 for one in links)
            assert abs(plus + carried - minus) <= layout.tops
        # The search for the worst pair passes by this one.
        for one in (old, new):
            prefix = (one[-2] - one[-1]) * (-2) ** layout.levels
            block = search.block(prefix, layout.levels)
            assert block is not None
            assert block in {pair[0] for pair in reached}
            for level in reversed(range(layout.levels)):
                prefix += one[level] * (-2) ** level
                assert search.block(prefix, level) is not None


# ----------------------------------------------------------------------------
# Numbers that other programs found.


def test_the_golden_plan() -> None:
    """An average over paths by Fourier transforms gave 4.11e-7, and 3.4e-7 for its worst pair."""
    bracket = made().delta(1.0)
    assert 3.3e-7 < bracket.upper < 3.6e-7
    assert 0 < bracket.lower < bracket.upper
    assert made().epsilon(1e-6).upper < 1.0


def test_one_flood_against_a_direct_sum() -> None:
    """Two shifts of one flood: the design's values, from double sums with 40 digits."""
    flood = _noise(tuple(Fraction(rate) for rate in rates(4, 1.75, 10)))
    grid = Grid(2.0**-11, -(2**11), 2**12)
    both = grid.after(flood.moved(grid, 1), grid.deltas(flood.moved(grid, -1)))
    for epsilon, exact in ((0.2, 6.742376031e-6), (0.3, 1.123737125e-8)):
        (found,) = grid.read(both, np.array([epsilon]))
        assert exact <= found <= 1.01 * exact


def test_a_finer_grid_is_no_looser_and_no_coarser_one_is_below() -> None:
    flood = _noise(tuple(Fraction(rate) for rate in rates(3, 1.5, 4)))
    found = []
    for points in (64, 256, 1024):
        grid = Grid(1 / points, -2 * points, 4 * points)
        both = grid.after(flood.moved(grid, 1), grid.deltas(flood.moved(grid, -1)))
        found.append(grid.read(both, np.array([0.25, 0.7, 1.3])))
    assert (found[0] >= found[1]).all()
    assert (found[1] >= found[2] * (1 - 1e-9)).all()


# ----------------------------------------------------------------------------
# Laws.


@slower
@given(weighted_numbers, st.sampled_from(["code_flood", "link_flood", "top_flood"]))
def test_more_noise_never_hurts(mechanism: privacy.WeightedNumbers, which: str) -> None:
    fields = mechanism_document(mechanism)
    doubled = [2 * forms.fraction_from(which, rate) for rate in fields[which]]
    fields[which] = [forms.fraction_text(which, rate) for rate in doubled]
    noisier = mechanism_from(fields)
    points = np.array([0.2, 0.8, 1.6])
    # Second-order effects of the grid may differ.
    assert (noisier.profile_bound(points) <= mechanism.profile_bound(points) * 1.02 + 1e-12).all()


@pytest.mark.parametrize("share", ["1/2", nightly("9/10")])
def test_fewer_honest_users_prove_less(share: str) -> None:
    points = np.array([0.5, 1.0, 2.0])
    fewer, all_of_them = made(share=share), made()
    assert (fewer.profile_bound(points) >= all_of_them.profile_bound(points)).all()
    assert (made(share=3).profile_bound(points) == all_of_them.profile_bound(points)).all()
    assert made(share=3).delta(1.0).lower == 0


def of_one_level(**changes: Any) -> privacy.WeightedNumbers:
    given: dict[str, Any] = {"tops": 1, "levels": [[1]], "ratio": "1/2"}
    given |= {name: [2.5] for name in ("code_flood", "link_flood", "top_flood")}
    return privacy.WeightedNumbers(**given | changes)


def test_a_share_of_the_users_is_no_safer_than_its_whole_view() -> None:
    """By another program's enumeration; floods, units or tops of all users would be below it."""
    few = of_one_level(share="3/10")
    points = [0.0, 0.2, 0.6, 1.0, 1.5, 2.5, 5.0]
    truth = [0.8282, 0.81752, 0.80315, 0.78564, 0.75914, 0.69897, 0.68179]
    for epsilon, exact in zip(points, truth, strict=True):
        bracket = few.delta(epsilon)
        assert bracket.lower < exact - 5e-6 < bracket.upper < exact + 0.06


def test_little_smoothing_moves_more_often_one_way() -> None:
    """By the same program: with the chances of "up" and "down" exchanged it would be below."""
    bracket = of_one_level(
        levels=[[0.15]], ratio="3/10", code_flood=[6], link_flood=["1/50"], top_flood=[1]
    ).delta(1.0)
    assert 0.87929 <= bracket.upper < 0.9


def test_no_attack_is_claimed_from_what_windows_leave_out() -> None:
    large = of_one_level(levels=[[64]], code_flood=[4999], link_flood=[4999], top_flood=[4999])
    assert large.delta(2.0).lower == large.delta(5.0).lower == 0
    assert large.delta(0.5).lower > 0


def test_laws_that_are_too_large_are_refused() -> None:
    with pytest.raises(GuaranteeNotProven, match="outcomes"):
        of_one_level(ratio="0.999", share="0.3").delta(1.0)
    with pytest.raises(GuaranteeNotProven, match="shifts"):
        of_one_level(tops=64, top_flood=[40] * 60).delta(1.0)


def test_the_smallest_shares_and_rates_have_bounds() -> None:
    assert of_one_level(share=1e-300).delta(1.0).upper == 1
    rare = of_one_level(levels=[[2.0**-16]], share=2.0**-50)
    assert rare.delta(1.0).upper == 1


def test_whole_codes_hide_the_codes_of_their_atoms() -> None:
    whole = made(whole_flood=rates(6, 1.75, 12))
    assert whole.delta(1.0).upper > made().delta(1.0).upper
    assert mechanism_from(mechanism_document(whole)) == whole
    assert "whole_flood" not in mechanism_document(made())


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"tops": 0}, "number of tops"),
        ({"levels": []}, "levels"),
        ({"levels": [[]]}, "levels"),
        ({"levels": [[1] * 30]}, "levels"),
        ({"levels": "32"}, "levels"),
        ({"levels": ["32"]}, "levels"),
        ({"levels": [[7, 0]]}, "rate of a level"),
        ({"ratio": 1}, "ratio"),
        ({"ratio": Fraction(1, 10**400)}, "ratio"),
        ({"ratio": 1 - Fraction(1, 2**60)}, "ratio"),
        ({"code_flood": []}, "code flood"),
        ({"link_flood": [0]}, "link flood"),
        ({"top_flood": [6000]}, "top flood"),
        ({"whole_flood": "1"}, "whole flood"),
        ({"share": 0}, "honest share"),
    ],
)
def test_what_cannot_be_is_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        made(**changes)


def test_tops_of_few_users_move_as_their_whole_law_does() -> None:
    """Every shift of the tops against a plain sum over all outcomes, before and after it."""
    ratio, exponent, few = 0.6, 0.7, of_one_level(tops=3, ratio="3/5", share="7/10")
    size = 60
    steps = ratio * (np.arange(size - 1) + exponent) / np.arange(1, size)
    signs = np.concatenate([[1.0], np.cumprod(steps)]) * (1 - ratio) ** exponent
    pairs = np.array([1.75**k / math.factorial(k) for k in range(size)]) * math.exp(-1.75)
    counts = np.zeros((2 * size, 2 * size))
    for both, chance in enumerate(pairs):
        counts[both : both + size, both : both + size] += chance * np.outer(signs, signs)
    grid, law = _grid_of(few), _top_law(few)
    for plus, minus in ((3, 0), (-3, 0), (2, -1), (-2, 1), (0, 3), (1, 1), (-1, -1), (1, 0)):
        moved = np.roll(counts, (plus, minus), (0, 1))
        found = grid.read(grid.deltas(law.moved(grid, plus, minus)), np.array([0.3, 1.0]))
        for epsilon, reached in zip((0.3, 1.0), found, strict=True):
            exact = np.clip(moved - math.exp(epsilon) * counts, 0, None).sum()
            assert exact * (1 - 1e-9) - 1e-12 <= reached <= exact * 1.01 + 1e-12
