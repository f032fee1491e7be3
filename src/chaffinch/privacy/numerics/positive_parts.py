"""The hockey-stick of two laws, asked at many likelihood ratios: Σ (first − x·second)₊.

The sum over all outcomes of the positive part is the largest value of first(S) − x·second(S)
over all sets S of outcomes, reached by the outcomes whose own ratio is above x. So outcomes are
sorted by their ratio once, and every x is answered by two prefix sums.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from chaffinch.privacy.numerics.precision import Wide, WideArray, gamma

LARGEST_RATIO = np.finfo(Wide).max ** Wide(0.25)
"""Ratios are capped here, so that products of a few of them stay finite."""


@dataclass(frozen=True, slots=True, eq=False)
class PositiveParts:
    """Outcomes of two laws in falling order of their ratio, and how far the masses are off."""

    ratios: WideArray
    """The negated ratios, rising: what a search needs."""
    first: WideArray
    second: WideArray
    """Sums of the masses of the first 0, 1, 2, … outcomes."""
    relative: Any
    """Every mass is within this share of itself."""

    @classmethod
    def of(cls, first: WideArray, second: WideArray, relative: Any) -> PositiveParts:
        """Sort outcomes; those that the first law does not have never count."""
        held = first > 0
        here, there = first[held], second[held]
        with np.errstate(divide="ignore", over="ignore"):
            ratios = np.where(there > 0, here / np.where(there > 0, there, 1), np.inf)
        order = np.argsort(-ratios, kind="stable")
        zero = np.zeros(1, dtype=Wide)
        return cls(
            -ratios[order],
            np.concatenate([zero, np.cumsum(here[order])]),
            np.concatenate([zero, np.cumsum(there[order])]),
            relative,
        )

    def ends(self, least: WideArray, most: WideArray) -> tuple[WideArray, WideArray]:
        """Return both ends of the sum for every x that is known to lie between two ends.

        Lower: the value of one set of outcomes, whichever it is. Upper: the set that was chosen
        is the best one but for outcomes whose ratio is too close to x to call, and each of them
        changes the sum by at most four times its relative error of the first law's mass.
        """
        total = self.relative + gamma(len(self.first) + 4.0)
        near = 4 * self.relative + gamma(16.0)
        chosen = np.searchsorted(self.ratios, -least, side="left")
        maybe = np.searchsorted(self.ratios, -least * (1 - near), side="right")
        low = self.first[chosen] * (1 - total) - most * self.second[chosen] * (1 + total)
        high = self.first[chosen] * (1 + total) - least * self.second[chosen] * (1 - total)
        high = high + near * self.first[maybe] * (1 + total)
        return np.maximum(low, 0), np.maximum(high, 0)
