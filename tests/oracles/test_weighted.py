"""Weighted numbers against their whole view, counted outcome by outcome."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from itertools import permutations
from typing import Any

import numpy as np
import pytest

from chaffinch import privacy
from chaffinch.privacy.mechanisms.weighted import _attack, _Noise, _Parity, _Tops, _worst
from chaffinch.privacy.numerics.loss_budgets import Grid, Losses
from tests.oracles.weighted import Layout, Noise, deltas, in_groups, rates
from tests.tiers import some

EPSILONS = [0.2, 0.6, 1.0, 1.5]
ONE_LEVEL = Noise(Layout(1, (1,)), math.exp(-0.7), (2.0,), (2, 1.3, 2), (2, 1.3, 2), (2, 1.3, 1.5))


def alike(tops: int, ratio: float, smoothing: float, strength: float, size: int = 60) -> Noise:
    """Return a setting of one level with three equal floods."""
    flood = (2, 1.3, strength)
    return Noise(Layout(tops, (1,)), ratio, (smoothing,), flood, flood, flood, size=size)


def mechanism_of(noise: Noise) -> privacy.WeightedNumbers:
    return privacy.WeightedNumbers(
        tops=noise.layout.tops,
        levels=in_groups(noise.smoothing, noise.layout.groups),
        ratio=noise.ratio,
        code_flood=rates(*noise.codes),
        link_flood=rates(*noise.links),
        top_flood=rates(*noise.pairs),
        whole_flood=None if noise.whole is None else rates(*noise.whole),
    )


# From the design of the protocol, where another program enumerated the same settings.
@pytest.mark.parametrize(
    ("noise", "pair", "epsilon", "exact", "off"),
    [
        (ONE_LEVEL, (2, 0), 1.0, 0.068425421799, 1e-7),
        (ONE_LEVEL, (0, 2), 1.0, 0.0511521799, 1e-7),
        (ONE_LEVEL, (2, 1), 1.0, 0.0362900512, 1e-7),
        (ONE_LEVEL, (0, 1), 1.0, 0.0317532803, 1e-7),
        (
            alike(2, math.exp(-0.35), 2.5, 2.0),
            (0, 4),
            1.0,
            0.07552076,
            1e-6,
        ),
        (
            Noise(
                Layout(1, (1, 1)),
                math.exp(-0.7),
                (1.5, 1.5),
                (2, 1.3, 1.2),
                (2, 1.3, 1.0),
                (2, 1.3, 0.7),
                size=30,
            ),
            (1, 4),
            1.0,
            0.24048,
            3e-4,
        ),
    ],
)
def test_the_whole_view_is_what_others_found(
    noise: Noise, pair: tuple[int, int], epsilon: float, exact: float, off: float
) -> None:
    (found,), missing = deltas(noise, *pair, [epsilon])
    assert found <= exact + off
    assert exact - off <= found + missing
    bracket = mechanism_of(noise).delta(epsilon)
    assert found <= bracket.upper


def draw(source: random.Random) -> Noise:
    """Return a small setting: one level or two, whole codes now and then."""
    groups = source.choice([(1,), (1,), (1,), (2,), (1, 1)])
    wide = len(groups) == 1 and sum(groups) == 1
    tops = source.choice([1, 1, 2, 3]) if wide else 1

    def burst(most: float) -> tuple[int, float, float]:
        longest = source.choice([1, 2, 2, 3]) if wide else source.choice([1, 2])
        return longest, source.uniform(1.0, 1.5), source.uniform(0.3, most)

    # Two groups and whole codes would be six floods at once.
    whole = burst(1.0) if source.random() < 0.3 and len(groups) == 1 else None
    return Noise(
        Layout(tops, groups),
        math.exp(-source.uniform(0.4, 1.2) / tops),
        tuple(source.uniform(0.3, 3.0) for _ in range(sum(groups))),
        burst(2.5 if wide else 1.0),
        burst(2.5 if wide else 1.0),
        burst(2.5 if wide else 1.0),
        whole,
        size=70 if wide else 24,
    )


def worst(noise: Noise) -> list[tuple[float, float]]:
    """Return for each epsilon what the worst change shows, and how much more it may be."""
    pairs = permutations(range(noise.layout.steps + 1), 2)
    found = [deltas(noise, *pair, EPSILONS) for pair in pairs]
    return [
        (max(some[place] for some, _ in found), max(some[place] + more for some, more in found))
        for place in range(len(EPSILONS))
    ]


@pytest.mark.parametrize("seed", some(range(200), 0, 2, 3, 5, 7, 8, 9, 11))
def test_brackets_hold_the_worst_of_all_changes(seed: int) -> None:
    noise = draw(random.Random(seed))
    mechanism = mechanism_of(noise)
    for epsilon, (least, most) in zip(EPSILONS, worst(noise), strict=True):
        bracket = mechanism.delta(epsilon)
        assert least <= bracket.upper, (noise, epsilon)
        assert bracket.lower <= most, (noise, epsilon)


# ----------------------------------------------------------------------------
# Accountants that are wrong in one place: the comparison would notice each.


def no_parity(patch: pytest.MonkeyPatch) -> None:
    real = _Parity.of

    def free(rate: float, grid: Grid) -> Any:
        found = real(rate, grid)
        even = grid.choice(found.even.mass.sum(keepdims=True), np.zeros(1))
        odd = grid.choice(found.odd.mass.sum(keepdims=True), np.zeros(1))
        return _Parity(odd, even, found.up_to_odd)

    patch.setattr(_Parity, "of", free)


def no_floods(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(_Noise, "moved", lambda *_: Losses(0, np.ones(1), 0.0))


def quiet_top(patch: pytest.MonkeyPatch) -> None:
    real = _Tops.moved

    def half(self: Any, grid: Grid, plus: int, minus: int) -> Losses:
        return real(self, grid, plus // 2, minus // 2)

    patch.setattr(_Tops, "moved", half)


@pytest.fixture(name="_fresh")
def _fresh_laws() -> Iterator[None]:
    kept = (_worst, _attack)
    for one in kept:
        one.cache_clear()
    yield
    for one in kept:
        one.cache_clear()


@pytest.mark.usefixtures("_fresh")
@pytest.mark.parametrize(
    ("fault", "noise"),
    [
        (no_parity, alike(1, 0.5, 0.2, 8.0)),
        (no_floods, alike(1, 0.5, 4.0, 1.0)),
        (quiet_top, alike(2, 0.5, 3.0, 8.0, size=100)),
    ],
)
def test_a_planted_fault_is_noticed(
    fault: Any, noise: Noise, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = worst(noise)
    honest = mechanism_of(noise)
    assert all(
        least <= honest.delta_bound(e) for e, (least, _) in zip(EPSILONS, found, strict=True)
    )
    _worst.cache_clear()
    fault(monkeypatch)
    wrong = [honest.delta_bound(e) for e in EPSILONS]
    assert any(least > claimed for claimed, (least, _) in zip(wrong, found, strict=True))
