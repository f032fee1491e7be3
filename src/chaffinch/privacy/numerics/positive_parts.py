"""The hockey-stick of two laws, asked at many likelihood ratios: Σ (first − x·second)₊.

The sum over all outcomes of the positive part is the largest value of first(S) − x·second(S)
over all sets S of outcomes, reached by the outcomes whose own ratio is above x. So outcomes are
sorted by their ratio once, and every x is answered by two prefix sums.

Where only an upper end is asked for, a few thousand outcomes are enough, whatever the laws are:
the sum is Σ second·(ratio − x)₊, which is convex in every ratio.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from chaffinch.privacy.numerics.precision import Floats, Wide, WideArray, gamma

_NOTHING = Wide(0)
_NODES = 8192
"""So many ratios on either side of 1 stand for all."""
_NEAR_ONE, _FARTHEST = 0.02, 80.0
"""Their logarithms are a few millionths apart next to 0, a few thousandths from 1 on."""
_ROUNDINGS = 1e-13
"""More than the logarithm of a ratio, and the place of a node, are off in doubles."""


@dataclass(frozen=True, slots=True)
class Doubt:
    """How far the masses of two laws are off, as far as a hockey-stick of them is concerned.

    For every set S of outcomes and either law, m the masses,

        (1 − relative)·m(S) − noise ≤ true mass ≤ (1 + relative)·m(S) + noise,

    but that the second law may have ``lacking`` more; and outside of all outcomes the first law
    has at most ``missing``.
    """

    relative: Any
    noise: Any = _NOTHING
    missing: Any = _NOTHING
    lacking: Any = _NOTHING

    def below(self, ratio: Any) -> Any:
        """Return how far first − ratio·second may be below what its masses say, beside shares."""
        off = self.noise + self.lacking
        return self.noise + ratio * off if off > 0 else off

    def above(self, ratio: Any) -> Any:
        """Return how far first − ratio·second may be above what its masses say, beside shares."""
        return self.missing + (1 + ratio) * self.noise


def on_few_ratios(
    first: Floats, second: Floats, doubt: Doubt
) -> tuple[WideArray, WideArray, Doubt]:
    """Return laws on a few outcomes, whose hockey-stick is nowhere below that of those given.

    Each mass of the second law goes to the two nodes around its ratio, in parts that keep the
    mean ratio, and with it both masses. The hockey-stick is convex in the ratio, so it only
    grows, by a part of the second order in the distance of the nodes. The last of the outcomes
    has what lies beyond all nodes, and no mass of the second law.
    """
    held = second > 0
    here, there = first[held], second[held]
    with np.errstate(divide="ignore"):
        logs = np.minimum(np.log(here) - np.log(there), _FARTHEST)
    # Node 0 is the ratio 0; from 1 on the logarithms grow like a hyperbolic sine.
    last = 2 * _NODES
    scale = math.asinh(_FARTHEST / _NEAR_ONE) / _NODES
    nodes = np.concatenate([[-np.inf], _NEAR_ONE * np.sinh(scale * np.arange(-_NODES, _NODES + 1))])
    left = np.floor(np.arcsinh(np.maximum(logs, -_FARTHEST) / _NEAR_ONE) / scale) + _NODES + 1
    left = np.clip(left, 1, last).astype(np.int64)
    left[logs < nodes[1]] = 0
    # (ratio − left)/(right − left), from logarithms, which lose no digits near 1.
    right = nodes[left + 1]
    share = np.clip(1.0 - np.expm1(logs - right) / np.expm1(nodes[left] - right), 0.0, 1.0)
    mass = np.bincount(left, there * (1.0 - share), minlength=last + 2)
    mass += np.bincount(left + 1, there * share, minlength=last + 2)
    ratios = np.exp(nodes)
    # What the second law does not have, and ratios beyond the nodes: the rest of the first law.
    beyond = first[~held].sum() + np.maximum(here - there * ratios[-1], 0.0).sum()
    # A sum of n masses is off by n roundoffs at most.
    relative = doubt.relative + _ROUNDINGS + (len(first) + 64.0) * 2.0**-53
    return (
        np.append(mass * ratios, beyond).astype(Wide),
        np.append(mass, 0.0).astype(Wide),
        replace(doubt, relative=relative),
    )


@dataclass(frozen=True, slots=True, eq=False)
class PositiveParts:
    """Outcomes of two laws in falling order of their ratio, and how far the masses are off."""

    ratios: WideArray
    """The negated ratios, rising: what a search needs."""
    first: WideArray
    second: WideArray
    """Sums of the masses of the first 0, 1, 2, … outcomes."""
    doubt: Doubt
    settled: tuple[Any, Any]
    """A ratio x and an upper end of the sum there that is known from elsewhere."""

    @classmethod
    def of(
        cls,
        first: WideArray,
        second: WideArray,
        doubt: Doubt,
        *,
        settled: tuple[Any, Any] = (0, 1),
    ) -> PositiveParts:
        """Sort outcomes; those that the first law does not have never count."""
        held = first > 0
        here, there = first[held], second[held]
        with np.errstate(divide="ignore", over="ignore"):
            ratios = here / there
        order = np.argsort(-ratios, kind="stable")
        zero = np.zeros(1, dtype=Wide)
        return cls(
            -ratios[order],
            np.concatenate([zero, np.cumsum(here[order])]),
            np.concatenate([zero, np.cumsum(there[order])]),
            doubt,
            settled,
        )

    def ends(self, least: WideArray, most: WideArray) -> tuple[WideArray, WideArray]:
        """Return both ends of the sum for every x that is known to lie between two ends.

        Lower: the value of one set of outcomes, whichever it is. Upper: the set that was chosen
        is the best one but for outcomes whose ratio is too close to x to call, and each of them
        changes the sum by at most four times its relative error of the first law's mass. And
        the sum falls with a slope of at most 1, the whole second law, so from a ratio where it
        is settled it is known at every other.
        """
        doubt = self.doubt
        # Prefix sums add up to n masses, each of which is itself off by ``relative``.
        total = doubt.relative + gamma(len(self.first) + 4.0)
        near = 4 * doubt.relative + gamma(16.0)
        chosen = np.searchsorted(self.ratios, -least, side="left")
        maybe = np.searchsorted(self.ratios, -least * (1 - near), side="right")
        first, second = self.first[chosen], self.second[chosen]
        # An infinite x takes nothing from outcomes that the second law does not have.
        taken = np.multiply(most, second, out=np.zeros_like(most), where=second > 0)
        low = first * (1 - total) - taken * (1 + total)
        high = first * (1 + total) - least * second * (1 - total)
        high += near * self.first[maybe] * (1 + total)
        low, high = low - doubt.below(most), high + doubt.above(least)
        ratio, value = self.settled
        # h(x) ≤ h(x₀) + (x₀ − x)₊, because h falls by at most the second law's whole mass per unit.
        high = np.minimum(high, value + np.maximum(ratio - least, 0) * (1 + gamma(2.0)))
        return np.maximum(low, 0), np.maximum(high, 0)
