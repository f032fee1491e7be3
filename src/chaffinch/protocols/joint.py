"""How the tallies of several values scatter together: the law of a weighted sum of them.

Margins, shares and means of a crossed question are made of several counts of one histogram. Given
the answers, Σ w·(tally − mean) over its cells has the variance own·Σw² − shared·(Σw)², which does
not depend on the answers, and a characteristic function in closed form. Where the law leans with
the answers (flips), the one that leans outwards most is meant.

Many cells have one weight: ``weights`` are the different ones, ``cells`` how often each occurs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chaffinch.protocols.noise import Floats

_Complex = NDArray[np.complex128]


class JointNoise(ABC):
    """The law of all tallies of one choice together."""

    __slots__ = ()

    slope: float
    """By how much the mean tally grows per report that holds the value."""

    @property
    @abstractmethod
    def own(self) -> float:
        """Return the part of the variance that every cell has for itself."""

    @property
    def shared(self) -> float:
        """Return by how much the sum of all weights, squared, lowers the variance."""
        return 0.0

    @abstractmethod
    def mean(self, weights: Floats, cells: Floats) -> float:
        """Return the mean of the weighted noise before anything is taken from it."""

    @abstractmethod
    def characteristic(self, angles: Floats, weights: Floats, cells: Floats) -> _Complex:
        """Return E[exp(i·angle·Σ w·noise)]."""

    def covariance(self, first: Any, second: Any, cells: Any = 1) -> Any:
        """Return the covariance of two weighted sums of *estimates*, summed over the last axis."""
        # Var Σw·tally = own·Σw² − shared·(Σw)², polarised; estimates are tallies over the slope.
        once = np.sum(cells * first * second, axis=-1)
        both = np.sum(cells * first, axis=-1) * np.sum(cells * second, axis=-1)
        return (self.own * once - self.shared * both) / self.slope**2


@dataclass(frozen=True, slots=True)
class FlippedTogether(JointNoise):
    """Bits of ``records`` answers and ``fakes`` uniform decoys among ``values``, all flipped.

    Decoys alone are bits that no flip changes: a ``flip`` of 0.
    """

    flip: float
    records: int
    values: int
    fakes: int = 0

    @property
    def slope(self) -> float:  # type: ignore[override]
        """Return 1 − 2q."""
        return 1.0 - 2.0 * self.flip

    @property
    def own(self) -> float:
        """Return q(1 − q) for every bit, and the scatter of the decoys over the values."""
        flips = (self.records + self.fakes) * self.flip * (1.0 - self.flip)
        return flips + self.slope**2 * self.fakes / self.values

    @property
    def shared(self) -> float:
        """Return what is due to every decoy falling on one value only."""
        return self.slope**2 * self.fakes / self.values**2

    def mean(self, weights: Floats, cells: Floats) -> float:
        """Return the mean of the flips upwards, and of the decoys."""
        flips = (self.records + self.fakes) * self.flip * float(np.abs(weights) @ cells)
        return flips + self.fakes * self.slope * float(weights @ cells) / self.values

    def characteristic(self, angles: Floats, weights: Floats, cells: Floats) -> _Complex:
        """Return bits that nobody holds, each counted outwards, and decoys that lift one of them.

        A bit that is held leans the other way: every cumulant of its sum is at most this one's.
        """
        # E[e^(itX)] = 1 + q(e^(it) − 1) for one bit; expm1 and log1p keep digits at small angles.
        turn = np.expm1(1j * np.multiply.outer(angles, np.abs(weights)))
        bits = np.log1p(self.flip * turn) @ cells * (self.records + self.fakes)
        if not self.fakes:
            return np.asarray(np.exp(bits))
        signed = np.expm1(1j * np.multiply.outer(angles, weights))
        # (1 + (1 − q)·s)/(1 + q·s) − 1, which keeps its digits near 0.
        lift = self.slope * signed / (1.0 + self.flip * signed)
        return np.asarray(np.exp(bits) * (1.0 + lift @ cells / self.values) ** self.fakes)


@dataclass(frozen=True, slots=True)
class GaussianTogether(JointNoise):
    """For every value by itself discrete Gaussian noise of this scale and variance."""

    scale: float
    variance: float

    slope = 1.0

    @property
    def own(self) -> float:
        """Return the variance of one number."""
        return self.variance

    def mean(self, weights: Floats, cells: Floats) -> float:  # noqa: ARG002 - it is symmetric
        """Return 0."""
        return 0.0

    def characteristic(self, angles: Floats, weights: Floats, cells: Floats) -> _Complex:
        """Return Σ e^(−z²/2σ²)·cos(angle·w·z), normalised, for every cell, and their product."""
        found = np.zeros(len(angles))
        for weight, many in zip(weights, cells, strict=True):
            with np.errstate(divide="ignore"):
                found += many * np.log(np.maximum(self._curve(angles * weight), 0.0))
        return np.exp(found).astype(np.complex128)

    def _curve(self, angles: Floats) -> Floats:
        if self.scale < 1:
            places = np.arange(1, 14)
            masses = np.exp(-0.5 * (places / self.scale) ** 2)
            waves = np.cos(np.multiply.outer(angles, places)) @ masses
            return np.asarray((1.0 + 2.0 * waves) / (1.0 + 2.0 * masses.sum()))
        # By Poisson's formula it is Σ e^(−σ²(angle + 2πk)²/2) over k, normalised.
        turns = 2.0 * np.pi * np.arange(-2, 3)
        away = (angles + np.pi) % (2.0 * np.pi) - np.pi
        waves = np.exp(-0.5 * (self.scale * np.add.outer(away, turns)) ** 2).sum(axis=-1)
        return np.asarray(waves / np.exp(-0.5 * (self.scale * turns) ** 2).sum())


@dataclass(frozen=True, slots=True)
class SignedTogether(JointNoise):
    """For every value by itself the difference of two negative binomials."""

    ratio: float
    exponent: float

    slope = 1.0

    @property
    def own(self) -> float:
        """Return 2·g·a/(1 − a)²."""
        return 2.0 * self.exponent * self.ratio / (1.0 - self.ratio) ** 2

    def mean(self, weights: Floats, cells: Floats) -> float:  # noqa: ARG002 - it is symmetric
        """Return 0."""
        return 0.0

    def characteristic(self, angles: Floats, weights: Floats, cells: Floats) -> _Complex:
        """Return ((1 − a)²/(1 − 2a·cos + a²))^g for every cell."""
        turn = np.multiply.outer(angles, weights)
        # 1 − 2a·cos t + a² = (1 − a)² + 4a·sin²(t/2), which keeps its digits near 0.
        rise = 4.0 * self.ratio / (1.0 - self.ratio) ** 2 * np.sin(0.5 * turn) ** 2
        return np.exp(-self.exponent * (np.log1p(rise) @ cells)).astype(np.complex128)
