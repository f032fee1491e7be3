"""One law for every protocol: how a tally scatters around the count it stands for.

The tally at one value, when h of n reports hold it, is a sum of independent bits,

    S = Bin(copies·h, hit) + Bin(copies·(n − h), miss) + Bin(cover_slots·n, cover),

where the last part is what decoys add. Protocols differ only in these five numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from chaffinch.checks import whole
from chaffinch.errors import InvalidInput

Floats = NDArray[np.float64]

MOST_REPORTS = 10**12
"""Bits of numbers are counted as reports too, so this is above the largest crowd."""


@dataclass(frozen=True, slots=True)
class Noise:
    """The chances that turn a true count into a tally.

    Examples
    --------
    >>> noise = Noise.flips(Fraction(1, 10))
    >>> noise.estimate([10, 26], reports=100)
    array([ 0., 20.])
    >>> round(float(noise.standard_error(reports=100)), 6)
    3.75
    """

    copies: int
    hit: Fraction
    """The chance that a copy from a report that holds the value counts for it."""
    miss: Fraction
    """The chance that a copy from any other report counts for it."""
    cover_slots: int = 0
    """Places for decoys per report."""
    cover: Fraction = Fraction(0)
    """The chance that one such place counts for the value."""

    def __post_init__(self) -> None:
        whole("copies", self.copies, least=1)
        whole("cover slots", self.cover_slots)
        if not 0 <= self.miss < self.hit <= 1:
            rule = "above the miss probability, which is at least 0, and at most 1"
            raise InvalidInput("hit probability", rule, self.hit)
        if not 0 <= self.cover <= 1:
            raise InvalidInput("cover probability", "from 0 to 1", self.cover)

    @classmethod
    def flips(cls, flip: Fraction, *, copies: int = 1) -> Noise:
        """Return the noise of bits that are reported wrong with chance ``flip``."""
        return cls(copies, 1 - flip, flip)

    @classmethod
    def clear(cls, *, decoy_slots: int, rate: Fraction, values: int) -> Noise:
        """Return the noise of clear reports among uniform decoys.

        Each report brings ``decoy_slots`` places, each filled with chance ``rate``.
        """
        return cls(1, Fraction(1), Fraction(0), decoy_slots, rate / values)

    @classmethod
    def flips_with_decoys(
        cls, flip: Fraction, *, decoy_slots: int, rate: Fraction, values: int
    ) -> Noise:
        """Return the noise of flipped one-hot reports among decoys that are flipped alike."""
        share = Fraction(1, values)
        cover = rate * (share * (1 - flip) + (1 - share) * flip)
        return cls(1, 1 - flip, flip, decoy_slots, cover)

    @property
    def slope(self) -> Fraction:
        """Return by how much the mean tally grows per report that holds the value."""
        return self.copies * (self.hit - self.miss)

    def base(self, reports: int) -> Fraction:
        """Return the mean tally of a value that nobody holds."""
        return reports * (self.copies * self.miss + self.cover_slots * self.cover)

    def largest(self, reports: int) -> int:
        """Return the largest tally that can be."""
        return reports * (self.copies + self.cover_slots)

    def mirrored(self) -> Noise:
        """Return the law of ``largest − S`` as a function of ``reports − h``."""
        cover = 1 - self.cover if self.cover_slots else Fraction(0)
        return Noise(self.copies, 1 - self.miss, 1 - self.hit, self.cover_slots, cover)

    def tally_variance(self, held: ArrayLike, reports: int) -> Floats:
        """Return the variance of the tally when ``held`` of ``reports`` hold the value."""
        count = np.asarray(held, dtype=np.float64)
        yes = float(self.copies * self.hit * (1 - self.hit))
        no = float(self.copies * self.miss * (1 - self.miss))
        decoys = float(reports * self.cover_slots * self.cover * (1 - self.cover))
        return np.asarray(count * yes + (reports - count) * no + decoys)

    def estimate(self, tallies: ArrayLike, reports: int) -> Floats:
        """Return unbiased estimates of the counts; they may lie below 0 or above ``reports``."""
        reports = whole("reports", reports, least=1, most=MOST_REPORTS)
        seen = np.asarray(tallies, dtype=np.float64)
        return np.asarray((seen - float(self.base(reports))) / float(self.slope))

    def variance(self, held: ArrayLike, reports: int) -> Floats:
        """Return the exact variance of the estimates of the true counts ``held``."""
        reports = whole("reports", reports, least=1, most=MOST_REPORTS)
        return np.asarray(self.tally_variance(held, reports) / float(self.slope) ** 2)

    def standard_error(self, reports: int, estimates: ArrayLike | None = None) -> Floats:
        """Return standard deviations of estimates.

        For flipped or clear reports they are exact: free of the true count. Otherwise
        the estimate, clipped to what is possible, stands in for the count; without
        estimates the largest standard deviation over all counts is returned.
        """
        reports = whole("reports", reports, least=1, most=MOST_REPORTS)
        if estimates is None:
            return np.asarray(np.sqrt(self.variance([0, reports], reports).max()))
        held = np.clip(np.asarray(estimates, dtype=np.float64), 0.0, float(reports))
        return np.sqrt(self.variance(held, reports))
